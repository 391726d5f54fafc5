package suites

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/pool"
)

// primitivesSuite measures the single steps of forks, steals and wake-ups.
//
// fork, join and fork-join: a **ladder** is 128 calls, each of which forks a leaf and calls the next.
// Fork is the way down, with the call of the next; join is the way up, with the call of the leaf.
// Fork-join is both, less the same ladder of plain calls, which is climbed in turn. Nothing is
// stolen, though the four oldest forks of a ladder are public.
// A ladder is so deep that reading the clock does not matter. That is deeper than a CPU's stack of return
// addresses (32 on Zen 3), of which a fork uses two where the plain call uses one. The fork in fib35, less the
// serial one, does not have that cost.
//
// claim: the same ladder, but at its foot the owner goes on forking (rayon and goroutines: spins)
// until a thief has taken and run all leaves. From the first leaf to the last, per leaf: a look, the
// claim, the run, the result.
//
// start: a fork 5 us after the thief's last one, while the thief searches; from the fork to the first
// instruction in the thief.
//
// check: a submitter's check when no worker searches and none sleeps: the searchers and the bitmap of
// sleepers. The nearest things in Go are Signal of a sync.Cond without waiters, and an attempt to send
// on a channel without receivers.
//
// wake: a sleeper is woken after 2 ms of sleep. From the call until it runs, and how long the call takes.
func primitivesSuite() runner.Suite {
	return runner.Suite{
		Name:    "primitives",
		Crosses: true,
		About:   "the steps of forks, steals and wake-ups, one by one",
		Cases: []runner.Case{
			ladderCase("fork", "ns/fork", "offer a leaf and call on, 128 calls deep; time per fork",
				func(l, _ *ladder) time.Duration { return l.down }),
			ladderCase("join", "ns/join", "take the leaf back and call it, 128 calls deep; time per join",
				func(l, _ *ladder) time.Duration { return l.up }),
			ladderCase("fork-join", "ns/fork", "both, less what the plain calls take; time per fork",
				func(l, plain *ladder) time.Duration { return max(0, l.down+l.up-plain.down-plain.up) }),
			claimCase(),
			startCase(),
			checkCase(),
			wakeCase(),
		},
	}
}

// rungs is the number of forks of a ladder.
const rungs = 128

// leaf is the number of the rung that a fork offers.
const leaf = -1

// ladder is a ladder and the time that climbing it took. One goroutine climbs it at a time.
type ladder struct {
	down, up time.Duration // of all ladders since the lap began
	foot     time.Time     // when the last climb reached the foot
	atFoot   func()        // called at the foot, if not nil
	leaf     func()        // called in each leaf, if not nil
}

// rung is a call's position on a ladder.
type rung struct {
	*ladder
	n int
}

// fork returns the next rung and the leaf.
func (r rung) fork() (next, end rung) { return rung{r.ladder, r.n - 1}, rung{r.ladder, leaf} }

// end is a call that forks nothing: a leaf, which returns 1, or the foot.
func (r rung) end() int {
	if r.n == leaf {
		if r.leaf != nil {
			r.leaf()
		}
		return 1
	}
	r.foot = time.Now()
	if r.atFoot != nil {
		r.atFoot()
	}
	return 0
}

// climb climbs a ladder and counts its leaves.
func (l *ladder) climb(call func(rung) int) error {
	start := time.Now()
	leaves := call(rung{l, rungs})
	l.up += time.Since(l.foot)
	l.down += l.foot.Sub(start)
	return runner.Check("the leaves of a ladder", leaves, rungs)
}

var ladderRecursive = pool.Recursive(func(f *pool.Fork[rung, int], r rung) int {
	if r.n <= 0 {
		return r.end()
	}
	x, y := f.Join(r.fork())
	return x + y
})

func ladderJoin(w *pool.Worker, r rung) int {
	if r.n <= 0 {
		return r.end()
	}
	next, end := r.fork()
	x, y := pool.Join(w, ladderJoin, next, ladderJoin, end)
	return x + y
}

func ladderSerial(r rung) int {
	if r.n <= 0 {
		return r.end()
	}
	next, end := r.fork()
	x := ladderSerial(next)
	return x + ladderSerial(end)
}

func ladderGo(r rung) int {
	if r.n <= 0 {
		return r.end()
	}
	next, end := r.fork()
	var x, y int
	both(func() { y = ladderGo(end) }, func() { x = ladderGo(next) })
	return x + y
}

// A caller starts an implementation. On calls f where f may call the forking function.
type caller[A any] func(env runner.Env) (on func(f func(call func(A) int)) error, stop func(), err error)

// climbers are the implementations in Go.
var climbers = []struct {
	name  string
	start caller[rung]
}{
	{"heist-recursive", onWorkers(ladderRecursive.Call)},
	{"heist-join", onWorkers(ladderJoin)},
	{"serial", here(ladderSerial)},
	{"goroutine", here(ladderGo)},
}

func onWorkers[A any](fork func(*pool.Worker, A) int) caller[A] {
	return func(env runner.Env) (func(func(func(A) int)) error, func(), error) {
		p, stop, err := newPool(env)
		if err != nil {
			return nil, nil, err
		}
		run := p.Run
		if env.Workers == 1 {
			run = func(root func(*pool.Worker)) error { return runOnWorker(p, root) }
		}
		return func(f func(func(A) int)) error {
			return run(func(w *pool.Worker) { f(func(a A) int { return fork(w, a) }) })
		}, stop, nil
	}
}

func here[A any](fork func(A) int) caller[A] {
	return func(runner.Env) (func(func(func(A) int)) error, func(), error) {
		return func(f func(func(A) int)) error { f(fork); return nil }, nil, nil
	}
}

// ladderCase measures a part of many ladders. Part gets their times and those of the plain calls.
func ladderCase(name, metric, about string, part func(l, plain *ladder) time.Duration) runner.Case {
	c := runner.Case{Name: name, About: about, Metrics: lower(metric), Workers: single, Floor: "serial"}
	for _, impl := range climbers {
		if impl.name == "serial" && name == "fork-join" {
			continue // the plain calls are subtracted
		}
		c.Impls = append(c.Impls, lapped(impl.name, func(env runner.Env) (lap, func(), error) {
			on, stop, err := impl.start(env)
			ladders := env.Size(200, 2)
			return func() (runner.Lap, error) {
				var l, plain ladder
				var wrong error
				err := on(func(call func(rung) int) {
					for range ladders {
						wrong = cmp.Or(wrong, l.climb(call), plain.climb(ladderSerial))
					}
				})
				return runner.Lap{Ops: ladders * rungs, Took: part(&l, &plain)}, cmp.Or(err, wrong)
			}, stop, err
		}))
	}
	c.Impls = append(c.Impls, peers.Rayon(lower(metric)))
	return c
}

// claimCase lets a thief steal all leaves of a ladder.
func claimCase() runner.Case {
	c := runner.Case{
		Name: "claim", About: "a thief takes all leaves of a ladder, whose owner goes on; time per leaf",
		Metrics: lower("ns/steal"), Workers: pairOnly,
	}
	for _, impl := range climbers {
		if impl.name == "serial" {
			continue
		}
		c.Impls = append(c.Impls, lapped(impl.name, func(env runner.Env) (lap, func(), error) {
			on, stop, err := impl.start(env)
			return func() (runner.Lap, error) {
				var s spree
				var leaves int
				err := on(func(call func(rung) int) {
					own := new(ladder)
					leaves = call(rung{&ladder{leaf: s.leaf, atFoot: func() {
						spinUntil(&s.over, func() {
							if impl.name != "goroutine" {
								call(rung{own, 1}) // the owner's next fork publishes its private forks
							}
						})
					}}, rungs})
				})
				return runner.Lap{Ops: rungs - 1, Took: s.last.Sub(s.first)}, cmp.Or(err,
					runner.Check("the leaves that were taken", s.taken.Load(), rungs),
					runner.Check("the leaves of a ladder", leaves, rungs))
			}, stop, err
		}))
	}
	c.Impls = append(c.Impls, peers.Rayon(lower("ns/steal")))
	return c
}

// spree is the leaves that thieves take one after another.
type spree struct {
	taken       atomic.Int64 // the thieves write it
	first, last time.Time    // written by the first and by the last thief
	_           pad.Line
	over        atomic.Bool // the last thief writes it, the owner reads it all the time
}

func (s *spree) leaf() {
	switch s.taken.Add(1) {
	case 1:
		s.first = time.Now()
	case rungs:
		s.last = time.Now()
		s.over.Store(true)
	}
}

// spinUntil calls again until done is set, or for patience.
func spinUntil(done *atomic.Bool, again func()) {
	for deadline := time.Now().Add(patience); !done.Load() && time.Now().Before(deadline); {
		again()
	}
}

// startMetrics are for the time until something runs.
var startMetrics = lower("p50-us", "p99-us")

// between is how long a thief that has run something searches before the next fork. It
// looks often in that time, and does not sleep.
const between = 5 * time.Microsecond

// startCase measures forks that a searching thief takes.
func startCase() runner.Case {
	impl := func(name string, start caller[half]) runner.Impl {
		return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
			on, stop, err := start(env)
			return func() (runner.Sample, error) { return volley(env, on) }, stop, err
		}}
	}
	return runner.Case{
		Name: "start", About: "a fork while a thief searches; from the fork to its first instruction",
		Metrics: startMetrics, Workers: pairOnly,
		Impls: []runner.Impl{
			impl("heist-recursive", onWorkers(shotRecursive.Call)),
			impl("heist-join", onWorkers(shotJoin)),
			impl("go", here(func(h half) int {
				go h.land()
				h.watch()
				return 1
			})),
			peers.Rayon(startMetrics),
		},
	}
}

// shot is a fork whose owner waits until it has started.
type shot struct {
	started time.Time // written by the goroutine that runs it
	landed  atomic.Bool
}

func (s *shot) land() int {
	s.started = time.Now()
	s.landed.Store(true)
	return 1
}

func (s *shot) watch() int {
	spinUntil(&s.landed, func() {})
	return 0
}

// half is a whole shot, which forks, or one half of it.
type half struct {
	*shot
	part func(*shot) int // nil for the whole
}

func (s *shot) halves() (watch, land half) { return half{s, (*shot).watch}, half{s, (*shot).land} }

var shotRecursive = pool.Recursive(func(f *pool.Fork[half, int], h half) int {
	if h.part != nil {
		return h.part(h.shot)
	}
	x, y := f.Join(h.halves())
	return x + y
})

func shotJoin(w *pool.Worker, h half) int {
	if h.part != nil {
		return h.part(h.shot)
	}
	watch, land := h.halves()
	x, y := pool.Join(w, shotJoin, watch, shotJoin, land)
	return x + y
}

// volley is one run of the case start, after some shots to warm up.
func volley(env runner.Env, on func(func(func(half) int)) error) (runner.Sample, error) {
	warm, least := env.Size(20, 2), env.Size(200, 20)
	took := gauge.NewDurations()
	shots, landed := 0, 0
	err := on(func(call func(half) int) {
		for began := time.Now(); shots < warm+least || time.Since(began) < env.Time; shots++ {
			for next := time.Now().Add(between); time.Now().Before(next); {
			}
			s := new(shot)
			start := time.Now()
			landed += call(half{shot: s})
			if shots >= warm {
				took.Note(s.started.Sub(start))
			}
		}
	})
	sample, unfit := took.Sample("start", took.Micros(50, 99))
	return sample, cmp.Or(err, unfit, runner.Check("the forks that ran", landed, shots))
}

// checkCase measures a check that every submission makes.
func checkCase() runner.Case {
	checks := func(name string, start func() (nobody func(n int) int)) runner.Impl {
		return plain(name, func(env runner.Env) lap {
			nobody, n := start(), env.Size(100_000, 100)
			return func() (runner.Lap, error) {
				var answers int
				l, _ := timed(n, func() error { answers = nobody(n); return nil })
				return l, runner.Check("the checks that found nobody", answers, n)
			}
		})
	}
	return runner.Case{
		Name: "check", About: "that nobody searches and nobody sleeps; time per check",
		Metrics: lower("ns/check"), Workers: single,
		Impls: []runner.Impl{
			checks("heist", func() func(n int) int {
				s := new(policy.Sleep)
				s.Init(policy.NewSeats([]int{0, 0}, []int{0}), 1)
				return func(n int) (answers int) {
					for range n {
						if s.Load().Searching() == 0 && s.Nobody() {
							answers++
						}
					}
					return answers
				}
			}),
			checks("cond", func() func(n int) int {
				c := sync.NewCond(new(sync.Mutex))
				return func(n int) (answers int) {
					for range n {
						c.Signal()
						answers++
					}
					return answers
				}
			}),
			checks("channel", func() func(n int) int {
				c := make(chan struct{})
				return func(n int) (answers int) {
					for range n {
						select {
						case c <- struct{}{}:
						default:
							answers++
						}
					}
					return answers
				}
			}),
		},
	}
}

// asleep is how long a sleeper has to fall asleep.
const asleep = 2 * time.Millisecond

// A bed starts a goroutine that sleeps, and calls awake after each call of wake.
type bed func(env runner.Env, awake func()) (wake func() error, stop func(), err error)

var wakeMetrics = lower("p50-us", "p99-us", "call-us")

// wakeCase measures wake-ups.
func wakeCase() runner.Case {
	impl := func(name string, start bed) runner.Impl {
		return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
			return func() (runner.Sample, error) { return alarms(env, start) }, nil, nil
		}}
	}
	return runner.Case{
		Name: "wake", About: "wake who has slept for 2 ms; from the call to its first instruction, and the call",
		Metrics: wakeMetrics, Workers: pairOnly,
		Impls: []runner.Impl{
			impl("heist", func(env runner.Env, awake func()) (func() error, func(), error) {
				p, stop, err := newPool(env)
				task := func(*pool.Worker) { awake() }
				return func() error { return p.Go(task) }, stop, err
			}),
			impl("heist-futex", futexBed),
			impl("channel", func(_ runner.Env, awake func()) (func() error, func(), error) {
				c := make(chan struct{})
				var sleeper sync.WaitGroup
				sleeper.Go(func() {
					for range c {
						awake()
					}
				})
				return func() error { c <- struct{}{}; return nil }, func() { close(c); sleeper.Wait() }, nil
			}),
			peers.Rayon(wakeMetrics),
			peers.Crossbeam(wakeMetrics),
		},
	}
}

// futexBed is a goroutine that sleeps on a word that counts the calls of wake.
func futexBed(_ runner.Env, awake func()) (func() error, func(), error) {
	var word atomic.Uint32
	var over atomic.Bool
	var sleeper sync.WaitGroup
	wake := func() error {
		word.Add(1)
		heist.FutexWake(&word, 1)
		return nil
	}
	sleeper.Go(func() {
		for seen := uint32(0); ; seen++ {
			for word.Load() == seen {
				heist.FutexWait(&word, seen, -1)
			}
			if over.Load() {
				return
			}
			awake()
		}
	})
	return wake, func() { over.Store(true); _ = wake(); sleeper.Wait() }, nil
}

// alarms is one run of the case wake.
func alarms(env runner.Env, start bed) (runner.Sample, error) {
	warm, n := env.Size(5, 1), 5
	if !env.Tiny {
		n = max(50, int(env.Time/asleep))
	}
	var woke atomic.Int64 // the time of the last wake-up, since began
	began := time.Now()
	ups := make(chan struct{}, 1)
	wake, stop, err := start(env, func() {
		woke.Store(int64(time.Since(began)))
		ups <- struct{}{}
	})
	if err != nil {
		return runner.Sample{}, err
	}
	defer stop()
	took, calls := gauge.NewDurations(), gauge.NewDurations()
	for i := range warm + n {
		time.Sleep(asleep)
		before := time.Since(began)
		err := wake()
		call := time.Since(began) - before
		if err != nil {
			return runner.Sample{}, err
		}
		select {
		case <-ups:
		case <-time.After(patience):
			return runner.Sample{}, runner.Wrong{What: "the wake-ups", Got: i, Want: warm + n}
		}
		if i >= warm {
			took.Note(time.Duration(woke.Load()) - before)
			calls.Note(call)
		}
	}
	return took.Sample("wake-up", append(took.Micros(50, 99), calls.Micros(50)...))
}

// pairOnly measures with two workers, an owner and a thief.
func pairOnly(int) []int { return []int{2} }
