package suites

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/pool"
)

// submitSuite measures the hand-over of tasks that do nothing: the cost of a pool
// per task, at full throughput. It does not measure how long a task waits until it
// starts.
func submitSuite(linked libraries) runner.Suite {
	return runner.Suite{
		Name:    "submit",
		Crosses: true,
		About:   "a million empty tasks",
		Cases: append(runner.WithPeak(
			externalCase(linked, "external-1", "one goroutine submits a million empty tasks and waits for all", 1),
			externalCase(linked, "external-4", "four goroutines submit a quarter of a million empty tasks each", 4),
			spawnInsideCase(),
		),
			chainCase("ping-pong", "a chain of tasks of 300 ns, each of which queues the next", chain{one, one, 50_000}),
			chainCase("ping-pongs", "as many such chains as workers", chain{each, each, 50_000}),
			chainCase("pipeline", "packets go through 8 tasks of 300 ns, 64 at a time", chain{func(int) int { return 10_000 }, func(int) int { return 64 }, 8}),
		),
	}
}

// submitMetrics are the time per task and the allocations per task. The allocations
// are those of the whole process while the tasks run, rounded to hundredths: the
// runtime makes a few of its own meanwhile. Programs in other languages report no
// allocations.
var submitMetrics = lower("ns/task", "allocs/task")

// tasksPerLap is how many tasks are submitted before the submitters wait for them.
func tasksPerLap(env runner.Env) int { return env.Amount(1_000_000, 2000) }

// A goal is what the tasks of one lap work towards: each adds its share to a sum.
// The tasks of all implementations write to this one cache line, which is the
// greater part of a task's own cost.
type goal struct {
	_    pad.Line
	sum  atomic.Int64
	_    pad.Line
	want int64
	met  chan struct{}
}

// set begins a lap.
func (g *goal) set(want int64) {
	g.sum.Store(0)
	g.want = want
	g.met = make(chan struct{})
}

// add is called by each task. It reads want first: as soon as it has added, the next
// lap may begin.
func (g *goal) add(n int64) {
	want := g.want
	if g.sum.Add(n) == want {
		close(g.met)
	}
}

// wait returns when the sum is reached, or after patience, by when all tasks should
// long be done.
func (g *goal) wait() {
	select {
	case <-g.met:
	case <-time.After(patience):
	}
}

// check says whether the tasks together have added exactly what they should have.
func (g *goal) check(what string) error { return runner.Check(what, g.sum.Load(), g.want) }

// submitting returns an implementation of a case with the submit metrics. The lap
// times itself; the allocations are counted here.
func submitting(name string, start func(runner.Env, *goal) (lap, func(), error)) runner.Impl {
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
		work, stop, err := start(env, new(goal))
		run := func() (runner.Sample, error) {
			sum, err := runner.Repeat(env.Time, func() (runner.Lap, error) {
				before := mallocsSoFar()
				l, err := work()
				l.Mallocs = mallocsSoFar() - before
				return l, err
			})
			perTask := math.Round(100*float64(sum.Mallocs)/float64(sum.Ops)) / 100
			return runner.Sample{Values: []float64{sum.PerOp(), perTask}}, err
		}
		return run, stop, err
	}}
}

func mallocsSoFar() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// A batch is a way to submit the tasks of one lap. Submit submits n of them and may be
// called by several goroutines at once. Wait, if not nil, is called after that: it is
// for libraries whose users wait by such a call.
type batch struct {
	submit func(n int) error
	wait   func() error
}

// externalCase measures tasks that come from goroutines outside of the pool: from
// the first call until the last task has ended, divided by their number. All
// submitters and the workers share as many Ps as there are workers. All tasks are
// the same function, so every allocation is the pool's. Creating a pool is not
// timed, except where a library's users create one per batch (conc, errgroup).
func externalCase(linked libraries, name, about string, submitters int) runner.Case {
	impl := func(name string, open func(env runner.Env, g *goal) (next func() batch, stop func(), err error)) runner.Impl {
		return submitting(name, func(env runner.Env, g *goal) (lap, func(), error) {
			next, stop, err := open(env, g)
			return func() (runner.Lap, error) { return external(env, g, submitters, next()) }, stop, err
		})
	}
	// same is for pools that outlive a batch.
	same := func(submit func(n int) error) func() batch {
		return func() batch { return batch{submit: submit} }
	}
	library := func(l Library) runner.Impl {
		return impl(l.Name, func(env runner.Env, g *goal) (func() batch, func(), error) {
			task := func() { g.add(1) }
			if l.PerBatch {
				return func() batch {
					t, err := l.Open(env.Workers)
					return batch{
						submit: func(n int) error { return errors.Join(err, t.Submit(n, task)) },
						wait:   func() error { t.Stop(); return nil },
					}
				}, nil, nil
			}
			t, err := l.Open(env.Workers)
			return same(func(n int) error { return t.Submit(n, task) }), t.Stop, err
		})
	}
	return runner.Case{
		Name:    name,
		About:   about + "; time and allocations per task",
		Metrics: submitMetrics,
		Workers: asked,
		Impls: []runner.Impl{
			impl("heist", func(env runner.Env, g *goal) (func() batch, func(), error) {
				p, stop, err := newPool(env)
				task := func(*pool.Worker) { g.add(1) }
				return same(func(n int) error {
					for range n {
						if err := p.Go(task); err != nil {
							return err
						}
					}
					return nil
				}), stop, err
			}),
			library(goLibrary), library(channelLibrary),
			linking("ants", library(linked.of("ants"))), linking("pond", library(linked.of("pond"))), linking("conc", library(linked.of("conc"))),
			library(errgroupLibrary), library(errgroupNoLimitLibrary),
			peers.Rayon(submitMetrics[:1]),
			peers.Tokio(submitMetrics[:1]),
		},
	}
}

// external is one lap: the submitters divide the tasks evenly.
func external(env runner.Env, g *goal, submitters int, b batch) (runner.Lap, error) {
	tasks := tasksPerLap(env)
	g.set(int64(tasks))
	errs := make([]error, submitters)
	l, _ := timed(tasks, func() error {
		var others sync.WaitGroup
		for i := 1; i < submitters; i++ {
			others.Go(func() { errs[i] = b.submit(tasks / submitters) })
		}
		errs[0] = b.submit(tasks / submitters)
		others.Wait()
		if b.wait != nil {
			errs = append(errs, b.wait())
		} else {
			g.wait()
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		return l, fmt.Errorf("refused a task: %w", err)
	}
	return l, g.check("the number of tasks done")
}

// spawnInsideCase measures tasks that come from tasks: a binary tree in which
// every task spawns two more until there are a million. A task is a closure that
// knows its number, so a spawn includes one allocation of the caller's. The peers
// do not include a channel with fixed workers, nor any pool that blocks on a full
// queue: workers that wait for room in their own queue never make any.
func spawnInsideCase() runner.Case {
	return runner.Case{
		Name:    "spawn-inside",
		About:   "every task spawns two more until there are a million; time and allocations per task",
		Metrics: submitMetrics,
		Workers: asked,
		Impls: []runner.Impl{
			submitting("heist", func(env runner.Env, g *goal) (lap, func(), error) {
				p, stop, err := newPool(env)
				tasks := tasksPerLap(env)
				var refused atomic.Pointer[error]
				var node func(w *pool.Worker, k int)
				node = func(w *pool.Worker, k int) {
					for i := range 2 {
						child := 2*k + i // constant, so that the closure holds the number itself
						if child > tasks {
							break
						}
						if err := w.Go(func(w *pool.Worker) { node(w, child) }); err != nil {
							refused.Store(new(err)) // a copy, lest every err lie on the heap
						}
					}
					g.add(int64(k))
				}
				return func() (runner.Lap, error) {
					return spawnTree(g, tasks, func() error {
						if err := p.Go(func(w *pool.Worker) { node(w, 1) }); err != nil {
							return err
						}
						g.wait()
						if err := refused.Load(); err != nil {
							return *err
						}
						return nil
					})
				}, stop, err
			}),
			submitting("go", func(env runner.Env, g *goal) (lap, func(), error) {
				tasks := tasksPerLap(env)
				var node func(k int)
				node = func(k int) {
					for i := range 2 {
						child := 2*k + i
						if child > tasks {
							break
						}
						go node(child)
					}
					g.add(int64(k))
				}
				return func() (runner.Lap, error) {
					return spawnTree(g, tasks, func() error {
						go node(1)
						g.wait()
						return nil
					})
				}, nil, nil
			}),
			peers.Rayon(submitMetrics[:1]),
			peers.Tokio(submitMetrics[:1]),
		},
	}
}

// spawnTree is one lap. The tasks are numbered from 1: task k spawns the tasks 2k and
// 2k+1, and adds its number. So the sum is right only if every task has run once.
func spawnTree(g *goal, tasks int, run func() error) (runner.Lap, error) {
	g.set(int64(tasks) * int64(tasks+1) / 2)
	l, err := timed(tasks, run)
	if err != nil {
		return l, fmt.Errorf("refused a task: %w", err)
	}
	return l, g.check("the sum of the tasks' numbers")
}

// chain says how chains of tasks run, each of which computes for 300 ns and then queues the next one of its chain. A goroutine hands
// over the first ones, and then further ones as chains end.
type chain struct {
	chains func(workers int) int // in all
	window func(workers int) int // under way
	links  int
}

func one(int) int          { return 1 }
func each(workers int) int { return workers }

const linkTime = 300 * time.Nanosecond

// chainCase measures the time of a task, and the CPU time of the process for it, with one worker and with as many as asked
// for: in a chain there is nothing to gain by another worker.
func chainCase(name, about string, r chain) runner.Case {
	// Begin has the function run in a task, and in another one after it as long as it returns true.
	impl := func(name string, open func(env runner.Env) (begin func(func() bool) error, stop func(), err error)) runner.Impl {
		return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
			begin, stop, err := open(env)
			return func() (runner.Sample, error) {
				if _, err := r.lap(env, begin); err != nil { // to warm up
					return runner.Sample{}, err
				}
				before, _ := gauge.UsageSoFar() // where there is an error, there is no figure either
				sum, err := runner.Repeat(env.Time, func() (runner.Lap, error) { return r.lap(env, begin) })
				values := []float64{sum.PerOp()}
				for _, us := range gauge.CPUMicros(before, sum.Ops) {
					values = append(values, 1000*us)
				}
				return runner.Sample{Values: values}, err
			}, stop, err
		}}
	}
	return runner.Case{
		Name: name, About: about + "; time and CPU time per task", Metrics: lower("ns/task", "cpu-ns/task"),
		Workers: func(asked int) []int { return slices.Compact([]int{1, asked}) },
		Impls: []runner.Impl{
			impl("heist", func(env runner.Env) (func(func() bool) error, func(), error) {
				p, stop, err := newPool(env)
				return func(link func() bool) error {
					var task func(w *pool.Worker)
					task = func(w *pool.Worker) {
						if link() {
							_ = w.Go(task) // a lost one is missed at the end
						}
					}
					return p.Go(task)
				}, stop, err
			}),
			impl("go", func(runner.Env) (func(func() bool) error, func(), error) {
				return func(link func() bool) error {
					var task func()
					task = func() {
						if link() {
							go task()
						}
					}
					go task()
					return nil
				}, nil, nil
			}),
		},
	}
}

func (r chain) lap(env runner.Env, begin func(link func() bool) error) (runner.Lap, error) {
	chains, links := r.chains(env.Workers), r.links
	if env.Tiny {
		chains, links = min(chains, 20), min(links, 20)
	}
	work := gauge.NewChore(gauge.Rounds(linkTime))
	room := make(chan struct{}, r.window(env.Workers))
	var right atomic.Int64
	l, err := timed(chains*links, func() error {
		for range chains {
			left := links
			room <- struct{}{}
			err := begin(func() bool {
				if work.Do() {
					right.Add(1)
				}
				if left--; left == 0 {
					<-room
				}
				return left > 0
			})
			if err != nil {
				return err
			}
		}
		for range cap(room) { // until all have ended
			room <- struct{}{}
		}
		return nil
	})
	if err != nil {
		return l, err
	}
	return l, runner.Check("the tasks", right.Load(), int64(chains*links))
}
