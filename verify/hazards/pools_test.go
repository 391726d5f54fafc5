package hazards

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// TestAnts146CallersAreServedAfterPanics: a worker of ants that panicked ended without telling the
// callers that waited in Submit for a free worker. So when all workers had panicked, the callers waited
// until the next purge of idle workers.
//
// Here a worker that has given a panic to the handler goes on (pool/worker.go, liveOn), and room is
// offered to waiting callers when a task is taken from the queue, not when it has ended (pool/find.go,
// pullBatch). In a group a panicked task ends as any other, and the group's other tasks are skipped and
// make room as well (pool/group.go, run).
func TestAnts146CallersAreServedAfterPanics(t *testing.T) {
	claim.That(t, "ants#146: callers that wait for room are served though every task panics",
		"submitters at the bound, and groups at their limit, with tasks that all panic")
	var panics, accepted atomic.Int64
	n := 0
	for workers := 1; workers <= 2; workers++ {
		p := newPool(t, pool.WithWorkers(workers), pool.WithQueueBound(1),
			pool.WithPanicHandler(func(*pool.PanicError) { panics.Add(1) }))
		each := rounds(500)
		const submitters = 4
		finishes(t, "Submit after panics", func() {
			testutil.Together(submitters, func(int) {
				for range each {
					if p.Submit(context.Background(), func(*pool.Worker) { panic("task") }) == nil {
						accepted.Add(1)
					}
				}
			})()
		})
		finishes(t, "a group at its limit after panics", func() {
			for range each / 10 {
				g, _ := pool.NewGroup(p)
				g.SetLimit(1)
				for range 10 {
					g.Go(func() error { panic("task") })
				}
				func() {
					defer func() {
						if _, ok := recover().(*pool.PanicError); !ok {
							t.Error("Wait did not panic with a PanicError")
						}
					}()
					_ = g.Wait()
				}()
				if n := g.Skipped(); n != 9 { // one at a time, and none begins after a panic
					t.Errorf("%d functions of the group were skipped", n)
				}
			}
		})
		requireCloses(t, p)
		n += submitters * each
	}
	require.EqualValues(t, n, accepted.Load())
	require.EqualValues(t, n, panics.Load())
	claim.Amount(t, "%s tasks", claim.Count(n))
}

// TestAnts197TaskSubmits: a task of ants that submitted another one waited for a free worker. That might
// be the one that it ran on, or all others might wait likewise.
//
// Here a submission inside a task never waits for room (pool/task.go, waitForRoom), a task that waits for
// room in a group at its limit lends its place (pool/group.go, waitForRoom), and queued tasks lie where
// other workers and the same one find them.
func TestAnts197TaskSubmits(t *testing.T) {
	claim.That(t, "ants#197: a task may submit, in any way, to the pool that runs it, though that is full and has one worker",
		"tasks that submit at the bound of the queue and at a group's limit")
	var ran atomic.Int64
	count := func(*pool.Worker) { ran.Add(1) }
	countErr := func() error { ran.Add(1); return nil }
	ctx := context.Background()
	ways := []func(p *pool.Pool, w *pool.Worker) error{
		func(p *pool.Pool, _ *pool.Worker) error { return p.Submit(ctx, count) },
		func(p *pool.Pool, _ *pool.Worker) error { return p.TrySubmit(count) },
		func(p *pool.Pool, _ *pool.Worker) error { return p.Go(count) },
		func(_ *pool.Pool, w *pool.Worker) error { return w.Go(count) },
		func(p *pool.Pool, _ *pool.Worker) error {
			_, err := p.SubmitAll(ctx, []func(*pool.Worker){count})
			return err
		},
		func(p *pool.Pool, _ *pool.Worker) error {
			_, err := pool.Async(p, func(*pool.Worker) (int, error) { return 0, countErr() }).Wait(ctx)
			return err
		},
		func(p *pool.Pool, _ *pool.Worker) error {
			g, _ := pool.NewGroup(p.With(ctx))
			g.SetLimit(1)
			g.Go(countErr)
			g.Go(countErr)
			ran.Add(-1)
			return g.Wait()
		},
		func(_ *pool.Pool, w *pool.Worker) error {
			w.Scope(func(s *pool.Scope) { s.Go(w, count) })
			return nil
		},
	}
	n := rounds(2000)
	for workers := 1; workers <= 2; workers++ {
		p := newPool(t, pool.WithWorkers(workers), pool.WithQueueBound(1))
		var refused atomic.Int64
		finishes(t, "Submit inside tasks", func() {
			for range n {
				err := p.Submit(ctx, func(w *pool.Worker) {
					for _, submit := range ways {
						if submit(p, w) != nil {
							refused.Add(1)
						}
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
			_, err := pool.Async(p, func(*pool.Worker) (int, error) { return 0, nil }).Wait(ctx)
			if err != nil {
				t.Error(err)
			}
		})
		eventually(t, "tasks that have not run", func() bool {
			return ran.Load() == int64(workers*n*len(ways)) || refused.Load() > 0
		})
		require.Zero(t, refused.Load())
		requireCloses(t, p)
	}
	claim.Amount(t, "%s tasks submitted inside tasks", claim.Count(ran.Load()))
}

// TestWorkerpool76SubmitRacesWithClose: Submit of workerpool sent on a channel that Stop closed, which
// panics. Checking first whether the pool is stopped does not help, because the channel may be closed in
// between.
//
// Here one word settles whether a push or the end of the queue came first: Close seals the last segment
// of the injector, and a push that has not claimed its slot before is refused (injector.go, Close and
// Push; pool/pool.go, drain).
//
// Whatever was accepted must have run when Close returns, once, and what was refused never.
// There are more submitters than CPUs, so that the system holds some of them up between their
// look at the pool and their push.
func TestWorkerpool76SubmitRacesWithClose(t *testing.T) {
	claim.That(t, "workerpool#76: a submission that races with Close is either refused with ErrClosed or run before Close returns",
		"all ways to submit, from outside and from tasks, while the pool is closed")
	ctx := context.Background()
	ways := []func(*pool.Pool, func(*pool.Worker)) error{
		func(p *pool.Pool, f func(*pool.Worker)) error { return p.Go(f) },
		func(p *pool.Pool, f func(*pool.Worker)) error { return p.Submit(ctx, f) },
		func(p *pool.Pool, f func(*pool.Worker)) error { return p.Submit(ctx, f, pool.PriorityHigh) },
		func(p *pool.Pool, f func(*pool.Worker)) error {
			return p.Submit(ctx, f, pool.Delay(time.Microsecond))
		},
		func(p *pool.Pool, f func(*pool.Worker)) error {
			_, err := p.SubmitAll(ctx, []func(*pool.Worker){f})
			return err
		},
		func(p *pool.Pool, f func(*pool.Worker)) error {
			g, _ := pool.NewGroup(p.With(ctx))
			g.GoWorker(func(w *pool.Worker) error { f(w); return nil })
			return g.Wait()
		},
	}
	const backlog = 1000 // lest Close takes long
	submitters := max(crowd(t), 2*len(ways))
	var accepted, refused, wrong, inside atomic.Int64
	n := rounds(100)
	for i := range n {
		p, err := pool.New(pool.WithWorkers(2), pool.WithQueueBound(1+i%8), pool.WithPinning(pool.PinNone))
		require.NoError(t, err)
		var ran atomic.Int64
		var here, there atomic.Int64
		task := func(w *pool.Worker) {
			if w.Go(func(*pool.Worker) { ran.Add(1) }) == nil {
				there.Add(1)
			}
			ran.Add(1)
		}
		finishes(t, "Close while others submit", func() {
			testutil.Together(1+submitters, func(who int) {
				if who == submitters {
					time.Sleep(time.Duration(rand.IntN(int(2 * time.Millisecond))))
					if err := p.Close(); err != nil {
						t.Error(err)
					}
					return
				}
				for {
					switch err := ways[who%len(ways)](p, task); {
					case err == nil:
						here.Add(1)
						yieldUntil(func() bool { return here.Load()-ran.Load() < backlog })
						continue
					case errors.Is(err, pool.ErrClosed):
						refused.Add(1)
					default:
						wrong.Add(1)
					}
					return
				}
			})()
		})
		require.Zero(t, wrong.Load(), "submissions that ended with another error than ErrClosed")
		require.Equal(t, here.Load()+there.Load(), ran.Load(), "tasks accepted, and tasks that ran before Close returned")
		accepted.Add(here.Load())
		inside.Add(there.Load())
	}
	require.NotZero(t, accepted.Load())
	claim.Amount(t, "%s pools, %s tasks accepted from outside and %s inside", claim.Count(n),
		claim.Count(accepted.Load()), claim.Count(inside.Load()))
}

// TestPond61ContextEndsWithTasksQueued: when the context of a pond pool was cancelled, its
// workers ended and left the queued tasks behind, for which StopAndWait went on to wait.
//
// Here a pool has no context, and what was accepted is run (pool/doc.go). The context of a
// group or a call tells the functions, and ends waits, but takes no task out of a queue, so
// that each one ends and is counted (pool/group.go, run and done; pool/task.go, waitForRoom).
//
// As in the report, a task that waits for the context keeps the only worker busy while others queue up
// behind it; then the context is cancelled. The task goes on until all who wait with the context have
// been let go.
func TestPond61ContextEndsWithTasksQueued(t *testing.T) {
	claim.That(t, "pond#61: when a context ends while tasks are queued, all waits return and each accepted task has run or was skipped",
		"groups, futures, submitters and loops with one context, cancelled behind a busy worker")
	n := rounds(300)
	tasks := 0
	for i := range n {
		p := newPool(t, pool.WithWorkers(1), pool.WithQueueBound(4))
		ctx, cancel := context.WithCancel(context.Background())
		var ran, submitted, accepted, cancelled atomic.Int64
		untilCancelled := func() error { ran.Add(1); <-ctx.Done(); return ctx.Err() }
		g, groupCtx := pool.NewGroup(p.With(ctx))
		var waits sync.WaitGroup // those that must end before the worker is free
		waits.Add(2)
		g.Go(func() error { defer waits.Wait(); return untilCancelled() })
		accepted.Add(1)
		for range i % 4 {
			g.Go(untilCancelled)
			accepted.Add(1)
		}
		members := int(accepted.Load())
		queued := 0 // by Submit
		future := pool.Async(p, func(*pool.Worker) (int, error) { return 7, untilCancelled() })
		accepted.Add(1)
		finishes(t, "waits whose context ends", func() {
			testutil.Together(4, func(who int) {
				switch who {
				case 0:
					for {
						err := p.Submit(ctx, func(*pool.Worker) { ran.Add(1); submitted.Add(1) })
						if err != nil {
							if !errors.Is(err, context.Canceled) {
								t.Errorf("Submit returned %v", err)
							}
							cancelled.Add(1)
							waits.Done()
							return
						}
						queued++
					}
				case 1:
					if err := g.Wait(); !errors.Is(err, context.Canceled) {
						t.Errorf("Group.Wait returned %v", err)
					}
				case 2:
					if _, err := future.Wait(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("Future.Wait returned %v", err)
					}
					waits.Done()
				case 3:
					heist.Spin(time.Duration(rand.IntN(50_000)))
					cancel()
				}
			})()
		})
		require.Error(t, groupCtx.Err())
		requireCloses(t, p)
		// What had not begun when the context ended never does: nothing begins behind the busy worker but
		// the future, which has no context. Either way each is counted.
		stats := p.Stats()
		require.EqualValues(t, int(accepted.Load())+queued, int(ran.Load())+int(stats.Skipped), "tasks accepted, and tasks that ran or were skipped before Close returned")
		require.EqualValues(t, stats.Skipped, g.Skipped()+queued-int(submitted.Load()), "those of the group, and those of Submit")
		require.EqualValues(t, members-g.Skipped(), int(ran.Load()-submitted.Load())-1, "members of the group that began")
		require.True(t, future.Ready())
		require.EqualValues(t, 1, cancelled.Load())
		tasks += int(ran.Load())
	}
	claim.Amount(t, "%s cancelled contexts, %s tasks", claim.Count(n), claim.Count(tasks))
}

// TestABoundedTreeEnds: with a limit of four, a tree of functions that add their children to the group that runs them
// and wait for them hangs in errgroup, pond, ants and conc: four parents hold all that the limit allows, and none of their
// children may begin. (Once its Wait has been called, conc panics.)
//
// Here AtMost bounds what computes. A function that waits gives its turn to another one (pool/group.go, waits).
func TestABoundedTreeEnds(t *testing.T) {
	claim.That(t, "errgroup, pond, ants and conc: a tree of functions under one limit may wait for its children in any way",
		"trees three deep with five children each, in a group of at most four, that wait by a WaitGroup without Block")
	n := rounds(100)
	for _, workers := range []int{1, 2, 4, 16} {
		p := newPool(t, pool.WithWorkers(workers))
		for range n {
			var ran atomic.Int32
			g, _ := pool.NewGroup(p)
			g.AtMost(4)
			var node func(depth int) error
			node = func(depth int) error {
				ran.Add(1)
				if depth == 0 {
					return nil
				}
				var left sync.WaitGroup
				left.Add(5)
				for range 5 {
					g.Go(func() error { defer left.Done(); return node(depth - 1) })
				}
				left.Wait()
				return nil
			}
			finishes(t, "a tree with a limit", func() {
				g.Go(func() error { return node(3) })
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
			})
			require.EqualValues(t, 1+5+25+125, ran.Load())
		}
	}
	claim.Amount(t, "%s trees", claim.Count(4*n))
}
