package suites

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// neighbourSuite measures how much a pool disturbs the other goroutines of its process.
// There are two neighbours, both in every run:
//
//   - One sleeps for 1 ms, again and again. How late it wakes up is its timer latency.
//   - A client has a TCP connection to another goroutine on the same machine, which returns
//     what it receives. The client sends 64 bytes every millisecond, without waiting for the
//     former ones to return (open loop). The net latency is the time from when the bytes were
//     due until another goroutine of the client has read them back. The client's own timer is
//     part of it. All bytes that come back must be those that were sent.
//
// idle-pool: the process has a pool that has run a hundred tasks and sleeps, or no pool.
//
// saturated: a pool with as many workers as there are Ps always has 48 to 64 tasks to do,
// each 20 us of computing: the task that leaves 48 submits 16 more. "go" starts a goroutine
// for each task. Ants has no queue but the submitters that it blocks, so there a goroutine
// submits the 16 on the task's behalf, and workers may wait for it. The tasks that end with the right answer are counted
// from the beginning of the neighbours to their end.
//
// loop: one goroutine calls loops over 500 items, and another trees of 512 leaves, again and again.
// "go" divides a loop evenly and starts a goroutine for each fork.
//
// half-load: every 2 ms a goroutine submits as many tasks of 20 us as all workers do in 1 ms.
//
// The CPU time is that of the whole process for each task or part, in idle-pool for each
// millisecond.
//
// A run makes a pool and closes it, and lasts until its time is over and there are 300
// figures of each kind, in a glance 100. The neighbours are timers themselves, so the state without another timer
// differs little.
func neighbourSuite(linked libraries) runner.Suite {
	work := sync.OnceValue(func() gauge.Chore { return gauge.NewChore(gauge.Rounds(20 * time.Microsecond)) })
	metrics := func(rate ...contract.Metric) []contract.Metric {
		return slices.Concat(lower("timer-p50-us", "timer-p99-us", "net-p50-us", "net-p99-us"), rate, lower("cpu-us"))
	}
	idle := func(name string, open opener) runner.Impl {
		return neighbouring(name, func(env runner.Env) (runner.Sample, error) { return besideIdle(env, open) })
	}
	bursts := func(name string, open opener) runner.Impl {
		return neighbouring(name, func(env runner.Env) (runner.Sample, error) { return besideBursts(env, work(), open) })
	}
	saturated := func(name string, open opener, blocks bool) runner.Impl {
		return neighbouring(name, func(env runner.Env) (runner.Sample, error) {
			return besideSaturated(env, &supply{work: work(), blocks: blocks}, open)
		})
	}
	return runner.Suite{
		Name:  "neighbour",
		About: "how much a pool disturbs the other goroutines of its process",
		Cases: runner.InBothStates([]runner.Case{
			{
				Name:    "idle-pool",
				About:   "a timer and a TCP echo beside a pool that sleeps; how late they are",
				Metrics: metrics(),
				Workers: asked,
				Floor:   "none",
				Impls: []runner.Impl{
					idle("heist", openHeist()),
					idle("none", openNone),
				},
			},
			{
				Name:    "saturated",
				About:   "a timer and a TCP echo beside a pool that always has tasks of 20 us; how late they are, and tasks",
				Metrics: metrics(contract.Metric{Name: "tasks/s", Better: contract.Higher}),
				Workers: asked,
				Impls: []runner.Impl{
					saturated("heist", openHeist(), false),
					saturated("heist-pinned", openHeist(pool.WithPinning(pool.PinCores)), false),
					saturated("go", goLibrary.opener, false),
					saturated(pinnedChannelLibrary.Name, pinnedChannelLibrary.opener, false),
					linking("ants", saturated("ants", linked.of("ants").opener, true)),
				},
			},
			{
				Name:    "loop",
				About:   "the same beside a loop and a fork-join without end, of parts of 20 us; parts a second",
				Metrics: metrics(contract.Metric{Name: "parts/s", Better: contract.Higher}),
				Workers: asked,
				Impls: []runner.Impl{
					neighbouring("heist", func(env runner.Env) (runner.Sample, error) { return besideCallers(env, work(), callHeist()) }),
					neighbouring("heist-pinned", func(env runner.Env) (runner.Sample, error) {
						return besideCallers(env, work(), callHeist(pool.WithPinning(pool.PinCores)))
					}),
					neighbouring("go", func(env runner.Env) (runner.Sample, error) { return besideCallers(env, work(), callGo) }),
				},
			},
			{
				Name:    "half-load",
				About:   "the same beside bursts of tasks of 20 us, 1 ms of work for each worker every 2 ms",
				Metrics: metrics(),
				Workers: asked,
				Impls: []runner.Impl{
					bursts("heist", openHeist()),
					bursts("heist-pinned", openHeist(pool.WithPinning(pool.PinCores))),
					bursts("go", goLibrary.opener),
					bursts(pinnedChannelLibrary.Name, pinnedChannelLibrary.opener),
				},
			},
		}),
	}
}

// A calling is a pool with a loop over n items and a tree of forks with 2^depth leaves.
type calling struct {
	loop func(n int, item func()) error
	tree func(depth int, leaf func()) error
	stop func()
}

func callHeist(options ...pool.Option) func(env runner.Env) (*calling, error) {
	return func(env runner.Env) (*calling, error) {
		p, stop, err := newPool(env, options...)
		if err != nil {
			return nil, err
		}
		var grow func(w *pool.Worker, depth int, leaf func())
		grow = func(w *pool.Worker, depth int, leaf func()) {
			if depth == 0 {
				leaf()
				return
			}
			w.Do(func(w *pool.Worker) { grow(w, depth-1, leaf) }, func(w *pool.Worker) { grow(w, depth-1, leaf) })
		}
		return &calling{
			loop: func(n int, item func()) error { return par.For(p, n, func(int) { item() }) },
			tree: func(depth int, leaf func()) error {
				return p.Run(func(w *pool.Worker) { grow(w, depth, leaf) })
			},
			stop: stop,
		}, nil
	}
}

// callGo divides a loop evenly, and starts a goroutine for each fork.
func callGo(env runner.Env) (*calling, error) {
	var grow func(depth int, leaf func())
	grow = func(depth int, leaf func()) {
		if depth == 0 {
			leaf()
			return
		}
		done := make(chan struct{})
		go func() { defer close(done); grow(depth-1, leaf) }()
		grow(depth-1, leaf)
		<-done
	}
	return &calling{
		loop: func(n int, item func()) error {
			divided(env.Workers, n, body{items: func(lo, hi int) {
				for range hi - lo {
					item()
				}
			}})
			return nil
		},
		tree: func(depth int, leaf func()) error { grow(depth, leaf); return nil },
		stop: func() {},
	}, nil
}

// besideCallers is one run beside two goroutines that call a loop and a fork-join again and again.
func besideCallers(env runner.Env, work gauge.Chore, open func(runner.Env) (*calling, error)) (runner.Sample, error) {
	c, err := open(env)
	if err != nil {
		return runner.Sample{}, err
	}
	defer c.stop()
	var stopped atomic.Bool
	var parts, wrong atomic.Int64
	part := func() {
		if !work.Do() {
			wrong.Add(1)
		}
		parts.Add(1)
	}
	var called atomic.Int64
	var callers errgroup.Group
	callers.Go(func() (err error) {
		for n := env.Size(500, 5); !stopped.Load() && err == nil; called.Add(int64(n)) {
			err = c.loop(n, part)
		}
		return err
	})
	callers.Go(func() (err error) {
		for depth := env.Size(9, 2); !stopped.Load() && err == nil; called.Add(1 << depth) {
			err = c.tree(depth, part)
		}
		return err
	})
	neighbourSettles(env)
	sample, err := watchNeighbours(env, parts.Load, true)
	stopped.Store(true)
	err = errors.Join(err, callers.Wait(), runner.Check("the parts", parts.Load(), called.Load()), runner.Check("parts that are wrong", wrong.Load(), 0))
	return sample, err
}

func neighbouring(name string, run func(runner.Env) (runner.Sample, error)) runner.Impl {
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) { return run(env) }, nil, nil
	}}
}

// neighbourSettles waits between the start of a pool and the beginning of the neighbours.
func neighbourSettles(env runner.Env) { time.Sleep(time.Duration(env.Size(10, 1)) * time.Millisecond) }

// besideIdle is one run beside a pool that sleeps.
func besideIdle(env runner.Env, open opener) (runner.Sample, error) {
	var g goal
	submit, stop, err := open(env, func(int) { g.add(1) })
	if err != nil {
		return runner.Sample{}, err
	}
	defer stop()
	if err := exercise(&g, submit); err != nil {
		return runner.Sample{}, err
	}
	neighbourSettles(env)
	start := time.Now()
	sample, err := watchNeighbours(env, func() int64 { return time.Since(start).Milliseconds() }, false)
	if err != nil {
		return runner.Sample{}, err
	}
	return sample, exercise(&g, submit)
}

// besideSaturated is one run beside a pool that always has tasks.
func besideSaturated(env runner.Env, s *supply, open opener) (runner.Sample, error) {
	submit, stop, err := open(env, s.task)
	if err != nil {
		return runner.Sample{}, err
	}
	defer stop()
	s.submit = submit
	s.hand(highTide)
	neighbourSettles(env)
	sample, err := watchNeighbours(env, s.right.Load, true)
	return sample, errors.Join(err, s.end())
}

// besideBursts is one run beside a pool that gets tasks for 1 ms every 2 ms.
func besideBursts(env runner.Env, work gauge.Chore, open opener) (runner.Sample, error) {
	var right atomic.Int64
	submit, stop, err := open(env, func(int) {
		if work.Do() {
			right.Add(1)
		}
	})
	if err != nil {
		return runner.Sample{}, err
	}
	defer stop()
	var stopped atomic.Bool
	var submitted int64
	var submitter errgroup.Group
	submitter.Go(func() error {
		for next := time.Now(); !stopped.Load(); {
			for range 50 * env.Workers {
				if err := submit(0); err != nil {
					return fmt.Errorf("refused a task: %w", err)
				}
				submitted++
			}
			next = next.Add(2 * time.Millisecond)
			time.Sleep(time.Until(next))
		}
		return nil
	})
	neighbourSettles(env)
	sample, err := watchNeighbours(env, right.Load, false)
	stopped.Store(true)
	err = errors.Join(err, submitter.Wait())
	for late := time.Now().Add(patience); right.Load() < submitted && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	return sample, errors.Join(err, runner.Check("the number of tasks done", right.Load(), submitted))
}

// The number of tasks that a pool has is between these.
const highTide, lowTide = 64, 48

// supply is tasks without end. A task submits the next ones when few are left, as any
// other goroutine would have to wait for a P like a neighbour.
type supply struct {
	work    gauge.Chore
	submit  func(i int) error
	blocks  bool // submit may wait for tasks to end, so a task must not call it
	stopped atomic.Bool

	left    atomic.Int64 // submitted, or about to be, and not done
	handed  atomic.Int64 // submitted, or about to be
	right   atomic.Int64 // done, with the right answer
	ended   sync.WaitGroup
	refused atomic.Pointer[error]
}

// task is the task that the pool runs.
func (s *supply) task(int) {
	defer s.ended.Done()
	if s.work.Do() {
		s.right.Add(1)
	}
	// However many tasks end at the same time, exactly one of them leaves lowTide.
	if s.left.Add(-1) == lowTide && !s.stopped.Load() {
		s.hand(highTide - lowTide)
	}
}

// hand submits n tasks. If a task calls it, the pool stays in use until it returns.
func (s *supply) hand(n int) {
	s.left.Add(int64(n))
	s.handed.Add(int64(n))
	s.ended.Add(n)
	if s.blocks {
		go s.pass(n)
	} else {
		s.pass(n)
	}
}

func (s *supply) pass(n int) {
	for ; n > 0; n-- {
		if err := s.submit(0); err != nil {
			s.refused.Store(new(err)) // a copy, lest every err lie on the heap
			s.ended.Add(-n)
			return
		}
	}
}

// end waits until all tasks are done, and says whether each was done once and right.
func (s *supply) end() error {
	s.stopped.Store(true)
	all := make(chan struct{})
	go func() { s.ended.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(patience):
	}
	if err := s.refused.Load(); err != nil {
		return fmt.Errorf("refused a task: %w", *err)
	}
	return runner.Check("the number of tasks done", s.right.Load(), s.handed.Load())
}

// watchNeighbours lets the neighbours run until there are enough figures, and returns
// the figures in the order of the metrics. Done tells how many operations the pool has
// done so far. With rate, their number a second is a figure too.
func watchNeighbours(env runner.Env, done func() int64, rate bool) (runner.Sample, error) {
	client, server, err := connect()
	if err != nil {
		return runner.Sample{}, err
	}
	defer client.Close()
	defer server.Close()
	w := &watch{least: enoughForP99(env), period: time.Millisecond, timer: gauge.NewDurations(), net: gauge.NewDurations()}
	all, ctx := errgroup.WithContext(context.Background())
	w.ctx, w.start = ctx, time.Now()
	w.until = w.start.Add(env.Time)
	late := w.until.Add(4 * patience) // where a wake-up takes 100 ms, 1,000 of them take 100 s
	if err := errors.Join(client.SetDeadline(late), server.SetDeadline(late)); err != nil {
		return runner.Sample{}, err
	}
	used, _ := gauge.UsageSoFar() // where there is an error, there is no figure either
	before := done()
	all.Go(func() error { return echo(server) })
	all.Go(func() error { return w.send(client) })
	all.Go(func() error { return w.receive(client) })
	all.Go(w.sleep)
	if err := all.Wait(); err != nil {
		return runner.Sample{}, err
	}
	ops, took := done()-before, time.Since(w.start)
	cpu := gauge.CPUMicros(used, int(max(ops, 1)))
	timer, err := w.timer.As("timer")
	if err != nil {
		return runner.Sample{}, err
	}
	values := append(w.timer.Micros(50, 99), w.net.Micros(50, 99)...)
	if rate {
		values = append(values, float64(ops)/took.Seconds())
	}
	sample, err := w.net.Sample("net", append(values, cpu...))
	sample.Histograms = append(sample.Histograms, timer)
	return sample, err
}

// enoughForP99 is the least number of figures of a run. With 300, one time in which the machine stands still for 3 ms is the percentile.
func enoughForP99(env runner.Env) int64 {
	if env.Glance {
		return int64(env.Size(100, 5))
	}
	return int64(env.Size(1000, 5))
}

// connect returns both ends of a TCP connection.
func connect() (client, server *net.TCPConn, err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	client, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		return nil, nil, err
	}
	server, err = l.AcceptTCP()
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, server, nil
}

// watch is the record of the neighbours.
type watch struct {
	ctx    context.Context // cancelled when one neighbour fails
	start  time.Time
	until  time.Time // the neighbours do not end before
	least  int64     // figures of each kind
	period time.Duration

	timer  gauge.Durations // only the sleeper notes in it
	wakes  atomic.Int64
	net    gauge.Durations // only the receiver notes in it
	echoes atomic.Int64
}

// enough says whether the neighbours may end. They end together, so that each has the other
// beside it to its end.
func (w *watch) enough() bool {
	return w.ctx.Err() != nil ||
		w.wakes.Load() >= w.least && w.echoes.Load() >= w.least && !time.Now().Before(w.until)
}

// sleep is the first neighbour.
func (w *watch) sleep() error {
	for !w.enough() {
		start := time.Now()
		time.Sleep(w.period)
		w.timer.Note(time.Since(start) - w.period)
		w.wakes.Add(1)
	}
	return nil
}

// due is when the i-th parcel is to be sent.
func (w *watch) due(i uint64) time.Time { return w.start.Add(time.Duration(i) * w.period) }

// parcel is the i-th message.
func parcel(i uint64) (m [64]byte) {
	for at := 0; at < len(m); at += 8 {
		binary.LittleEndian.PutUint64(m[at:], i+uint64(at))
	}
	return m
}

// send is one half of the client. When it ends, the echo ends, and then the other half.
func (w *watch) send(to *net.TCPConn) error {
	for i := uint64(0); !w.enough(); i++ {
		time.Sleep(time.Until(w.due(i)))
		m := parcel(i)
		if _, err := to.Write(m[:]); err != nil {
			return err
		}
	}
	return to.CloseWrite()
}

// receive is the other half of the client.
func (w *watch) receive(from io.Reader) error {
	var got [64]byte
	for i := uint64(0); ; i++ {
		if _, err := io.ReadFull(from, got[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		w.net.Note(time.Since(w.due(i)))
		w.echoes.Add(1)
		if want := parcel(i); !bytes.Equal(got[:], want[:]) {
			return runner.Wrong{What: fmt.Sprintf("echo %d", i), Got: got, Want: want}
		}
	}
}

// echo returns what it receives, in pieces of 64 bytes, until the sender has ended.
func echo(c *net.TCPConn) error {
	var m [64]byte
	for {
		if _, err := io.ReadFull(c, m[:]); errors.Is(err, io.EOF) {
			return c.CloseWrite()
		} else if err != nil {
			return err
		}
		if _, err := c.Write(m[:]); err != nil {
			return err
		}
	}
}
