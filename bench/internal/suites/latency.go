package suites

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/pool"
)

// latencySuite measures how long a task waits: from the moment when it was due until
// its first instruction runs.
//
// Task i is due at the start + i periods, however late the tasks before it are. One
// goroutine, the submitter, hands the tasks over one by one and waits for none of them.
// If it is late because an earlier hand-over kept it busy, the latency counts from when
// the task was due, and no task is left out. If it slept and its timer was late, which
// is no scheduler's fault, the latency counts from the moment when its sleep returned. A
// task notes the time, then computes for 1 us, and was right if it ran once.
//
// start-asleep: a task every millisecond. The submitter sleeps in between, so the pool
// sleeps too.
//
// start-hot: a task every 20 us. The submitter reads the clock in between, on a P that
// the pool does not get.
//
// start-gc: as start-asleep, beside a goroutine that makes 100 MB of small objects a
// second, in trees of 2047. The last 128 trees are alive: 6 MB. That starts some 17
// garbage collections a second, and takes 0.4 of a CPU together with those.
//
// start-busy: as start-asleep, beside a goroutine for each P that in turn computes for 700 us and
// sleeps for 300.
//
// gap and burst: as start-asleep with tasks of 5 us, one in each gap, or as many at a time in each
// millisecond.
//
// The CPU time is that of the whole process, the submitter's included, for each task.
//
// A run makes a pool and closes it, so that none is there while another is measured.
// It warms up with 20 tasks in the same manner. Then come as many tasks as are due in
// the run's time, but at least 200. Of fewer than a thousand the p999 is the longest.
func latencySuite(linked libraries) runner.Suite {
	const us, ms = time.Microsecond, time.Millisecond
	return runner.Suite{
		Name:  "latency",
		About: "how long a task waits until it starts",
		Cases: runner.InBothStates([]runner.Case{
			arrivals{period: ms, work: us}.latency(linked, "start-asleep",
				"a task every ms, the submitter and the pool asleep in between; from due to started"),
			arrivals{period: 20 * us, work: us, hot: true}.latency(linked, "start-hot",
				"a task every 20 us, the submitter spins in between; from due to started"),
			arrivals{period: ms, work: us, litter: true}.latency(linked, "start-gc",
				"as start-asleep beside 100 MB of garbage a second; from due to started"),
			arrivals{period: ms, work: us, crowd: true}.latency(linked, "start-busy",
				"as start-asleep beside goroutines that keep all CPUs at 70%; from due to started"),
			arrivals{period: 200 * us, work: 5 * us}.latency(linked, "gap-200us", "a task of 5 us every 200 us; from due to started"),
			arrivals{period: ms, work: 5 * us}.latency(linked, "gap-1ms", "a task of 5 us every ms; from due to started"),
			arrivals{period: 5 * ms, work: 5 * us}.latency(linked, "gap-5ms", "a task of 5 us every 5 ms; from due to started"),
			arrivals{period: ms, work: 5 * us, burst: 5}.latency(linked, "burst-5", "five tasks of 5 us every ms; from due to started"),
			arrivals{period: ms, work: 5 * us, burst: 10}.latency(linked, "burst-10", "ten tasks of 5 us every ms; from due to started"),
		}),
	}
}

var latencyMetrics = lower("p50-us", "p99-us", "p999-us", "cpu-us")

// arrivals says when tasks are due.
type arrivals struct {
	period time.Duration
	work   time.Duration // how long a task computes
	burst  int           // so many are due at a time, or one if it is 0
	hot    bool          // the submitter spins until a task is due, else it sleeps
	litter bool          // a goroutine makes garbage meanwhile
	crowd  bool          // goroutines on all Ps compute meanwhile
}

// after returns how long after the first task the i-th is due.
func (a arrivals) after(i int) time.Duration { return time.Duration(i/max(a.burst, 1)) * a.period }

func (a arrivals) latency(linked libraries, name, about string) runner.Case {
	impl := func(name string, open opener) runner.Impl {
		return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
			work := gauge.NewChore(gauge.Rounds(a.work))
			return func() (runner.Sample, error) { return a.run(env, work, open) }, nil, nil
		}}
	}
	library := func(name string) runner.Impl { return linking(name, impl(name, linked.of(name).opener)) }
	loaded, tasks := a.litter || a.crowd, a.work > time.Microsecond
	impls := []runner.Impl{impl("heist", openHeist())}
	if !tasks {
		impls = append(impls, impl("heist-pinned", openHeist(pool.WithPinning(pool.PinCores))),
			impl("heist-hot", openHeist(pool.WithTuning(pool.Tuning{HotWorker: true}))))
	}
	impls = append(impls, impl("go", goLibrary.opener), impl("channel", channelLibrary.opener), library("ants"), library("pond"))
	if !tasks {
		impls = append(impls, impl(pinnedChannelLibrary.Name, pinnedChannelLibrary.opener))
	}
	if tasks {
		impls = append(impls, library("conc"), impl("errgroup", errgroupLibrary.opener))
	}
	if !loaded { // that is about Go's runtime
		impls = append(impls, peers.Rayon(latencyMetrics), peers.Tokio(latencyMetrics))
		if !tasks {
			impls = append(impls, peers.RayonBy("rayon-pinned", latencyMetrics), peers.TokioBy("tokio-pinned", latencyMetrics))
		}
	}
	return runner.Case{
		Name: name, About: about, Metrics: latencyMetrics,
		Workers: atLeastTwo, // with one P the submitter itself would be in the way
		Impls:   impls,
	}
}

// run is one run: make a pool, warm it up, measure.
func (a arrivals) run(env runner.Env, work gauge.Chore, open opener) (runner.Sample, error) {
	warm, n := env.Size(20, 2), 20
	if !env.Tiny {
		n = max(200, max(a.burst, 1)*int(env.Time/a.period))
	}
	s := newStarts(warm+n, work)
	submit, stop, err := open(env, s.task)
	if err != nil {
		return runner.Sample{}, err
	}
	defer stop()
	if a.litter {
		defer litter()()
	}
	if a.crowd {
		defer crowd(env.Workers)()
	}
	if err := a.drive(s, 0, warm, submit); err != nil {
		return runner.Sample{}, err
	}
	before, _ := gauge.UsageSoFar() // where there is an error, there is no figure either
	if err := a.drive(s, warm, warm+n, submit); err != nil {
		return runner.Sample{}, err
	}
	cpu := gauge.CPUMicros(before, n)
	took := s.latencies(warm)
	return took.Sample("start", append(took.Micros(50, 99, 99.9), cpu...))
}

// drive is the submitter: it hands over the tasks from lo to hi-1 when they are due, and
// then waits for all of them.
func (a arrivals) drive(s *starts, lo, hi int, submit func(i int) error) error {
	s.set(int64(hi - lo))
	start := s.now()
	woke := start
	for i := lo; i < hi; i++ {
		due := start + a.after(i-lo)
		if now := s.now(); now < due {
			if a.hot {
				for s.now() < due {
				}
			} else {
				time.Sleep(due - now)
				woke = s.now()
			}
		}
		// Tasks due while the submitter slept could not be handed over earlier.
		s.tasks[i].due = max(due, woke)
		if err := submit(i); err != nil {
			return fmt.Errorf("refused a task: %w", err)
		}
	}
	s.wait()
	return s.check(lo, hi)
}

// starts holds when tasks were due and when they started.
type starts struct {
	goal
	began time.Time
	work  gauge.Chore
	tasks []probe
}

// probe is the record of a task. The submitter writes due, the task writes the rest.
type probe struct {
	due, started time.Duration // since began
	right        atomic.Int32  // how often it ran, with the right answer
}

func newStarts(n int, work gauge.Chore) *starts {
	return &starts{began: time.Now(), work: work, tasks: make([]probe, n)}
}

func (s *starts) now() time.Duration { return time.Since(s.began) }

// task is the task that the submitter hands over.
func (s *starts) task(i int) {
	now := s.now()
	if t := &s.tasks[i]; s.work.Do() && t.right.Add(1) == 1 {
		t.started = now
	}
	s.add(1)
}

// check says whether each of the tasks from lo to hi-1 ran once.
func (s *starts) check(lo, hi int) error {
	once := 0
	for i := lo; i < hi; i++ {
		if s.tasks[i].right.Load() == 1 {
			once++
		}
	}
	if err := runner.Check("the number of tasks done once", once, hi-lo); err != nil {
		return err
	}
	return s.goal.check("the number of tasks done")
}

// latencies returns how long the tasks from lo on waited.
func (s *starts) latencies(lo int) gauge.Durations {
	d := gauge.NewDurations()
	for i := lo; i < len(s.tasks); i++ {
		d.Note(s.tasks[i].started - s.tasks[i].due)
	}
	return d
}

// An opener makes a pool. Submit(i) makes the pool run task(i); stop ends the pool.
type opener func(env runner.Env, task func(i int)) (submit func(i int) error, stop func(), err error)

// openHeist returns the opener of a pool with the case's workers and these options.
func openHeist(options ...pool.Option) opener {
	return func(env runner.Env, task func(i int)) (func(i int) error, func(), error) {
		p, stop, err := newPool(env, options...)
		return func(i int) error { return p.Go(func(*pool.Worker) { task(i) }) }, stop, err
	}
}

// twig is a small object that the garbage collector has to follow.
type twig struct {
	left, right *twig
	_           uint64
}

// grow returns a tree with 2^depth - 1 twigs.
func grow(depth int) *twig {
	if depth == 0 {
		return nil
	}
	return &twig{left: grow(depth - 1), right: grow(depth - 1)}
}

// litter makes garbage until stop is called. Stop returns when the goroutine has ended.
func litter() (stop func()) {
	const (
		depth  = 11
		bytes  = (1<<depth - 1) * 24 // with pointers of 8 bytes
		period = bytes * time.Second / 100e6
		behind = 20 * period // a longer delay is not made up for
	)
	var ended sync.WaitGroup
	var stopped atomic.Bool
	ended.Go(func() {
		alive := make([]*twig, 128)
		defer func() { runtime.KeepAlive(alive) }() // else the compiler removes it as unread
		next := time.Now()
		for i := 0; !stopped.Load(); i++ {
			alive[i%len(alive)] = grow(depth)
			next = next.Add(period)
			if wait := time.Until(next); wait > 0 {
				time.Sleep(wait)
			} else if wait < -behind {
				next = time.Now().Add(-behind)
			}
		}
	})
	return func() { stopped.Store(true); ended.Wait() }
}

// crowd keeps n Ps busy for 7 parts of 10 until stop is called. Stop returns when its goroutines
// have ended.
func crowd(n int) (stop func()) {
	var ended sync.WaitGroup
	var stopped atomic.Bool
	for range n {
		ended.Go(func() {
			for !stopped.Load() {
				for start := time.Now(); time.Since(start) < 700*time.Microsecond; {
				}
				time.Sleep(300 * time.Microsecond)
			}
		})
	}
	return func() { stopped.Store(true); ended.Wait() }
}
