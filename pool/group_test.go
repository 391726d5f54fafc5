package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

func TestWaitReturnsWhenAllHaveEnded(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for round := range testutil.Stress(200) {
			var ended atomic.Int64
			g := newGroup(p)
			n := round % 20
			for i := range n {
				if i%2 == 0 {
					g.Go(func() error { pause(); ended.Add(1); return nil })
				} else {
					g.GoWorker(func(w *Worker) error { fib(w, 5); ended.Add(1); return nil })
				}
			}
			require.NoError(t, g.Wait())
			require.EqualValues(t, n, ended.Load())
		}
	})
}

// TestWaitDoesNotMissTheTaskAfterALull has the number of tasks fall to 0 before the last task is
// given: Wait must not take the end of the first one for the end of all.
func TestWaitDoesNotMissTheTaskAfterALull(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		g := newGroup(p)
		g.mu.Lock() // the first task counts down and gets no further
		g.Go(func() error { return nil })
		require.True(t, testutil.Eventually(func() bool { return g.tasks.Load() == 0 }))

		var ended atomic.Bool
		g.Go(func() error {
			whenOneParked(p) // by then the first task has ended
			ended.Store(true)
			return nil
		})
		g.mu.Unlock()
		require.NoError(t, g.Wait()) // which nearly always comes to the lock first
		require.True(t, ended.Load(), "Wait returned while a task ran")
	}
}

// whenOneParked waits until all workers but one sleep.
func whenOneParked(p *Pool) bool {
	return testutil.Eventually(func() bool {
		state := p.core.Sleep.Load()
		return state.Searching() == 0 && state.Sleepers() >= p.Workers()-1 // the caller waits, so its place may sleep, too
	})
}

func TestFirstErrorWinsAndCancels(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(100) {
		g, ctx := NewGroup(p)
		first := errors.New("first")
		for range 3 {
			g.Go(func() error {
				<-ctx.Done() // the group's tasks learn of it
				return errors.New("second")
			})
		}
		require.NoError(t, ctx.Err())
		g.Go(func() error { return first })
		require.Same(t, first, g.Wait())
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Same(t, first, context.Cause(ctx))
	}
}

func TestWaitCancelsTheContext(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, ctx := NewGroup(p)
	g.Go(func() error { return ctx.Err() })
	require.NoError(t, g.Wait())
	require.ErrorIs(t, ctx.Err(), context.Canceled)

	parent, cancel := context.WithCancelCause(context.Background())
	g, ctx = NewGroup(p.With(parent))
	cancel(io.EOF)
	<-ctx.Done()
	require.Same(t, io.EOF, context.Cause(ctx))
	require.NoError(t, g.Wait(), "an empty group has no error")
}

func TestPanicReachesWait(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for round := range testutil.Stress(100) {
		g, ctx := NewGroup(p)
		if round%2 == 0 {
			g.Go(func() error { explode(io.EOF); return nil })
		} else {
			g.GoWorker(func(w *Worker) error {
				stolenJoin(w, nop[int], func(*Worker) int { return explode(io.EOF) })
				return nil
			})
		}
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), io.EOF)
		g.Go(func() error { return errors.New("a panic is worse than an error") })
		for range 2 { // each waiter is told
			e, ok := testutil.Caught(func() { _ = g.Wait() }).(*PanicError)
			require.True(t, ok)
			require.Same(t, io.EOF, e.Value)
			require.Contains(t, string(e.Stack), "pool.explode(")
		}
	}
}

func TestGoexitInAGroupIsAnError(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(50) {
			g, ctx := NewGroup(p)
			g.Go(func() error { runtime.Goexit(); return nil })
			g.GoWorker(func(w *Worker) error { fib(w, 5); runtime.Goexit(); return nil })
			g.Go(func() error { return nil })
			require.ErrorIs(t, g.Wait(), ErrGoexit)
			require.ErrorIs(t, context.Cause(ctx), ErrGoexit)
		}
	}
}

func TestGroupRefusesNil(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, ctx := NewGroup(p)
	g.Go(nil)
	require.Error(t, ctx.Err())
	require.EqualError(t, g.Wait(), "pool: Group.Go was given a nil function")
	g = newGroup(p)
	g.GoWorker(nil)
	require.EqualError(t, g.Wait(), "pool: Group.GoWorker was given a nil function")
}

func TestGroupOfAClosedPool(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, ctx := NewGroup(p)
	g.Go(func() error { return nil })
	require.NoError(t, p.Close())
	require.NoError(t, ctx.Err())
	g.Go(func() error { t.Error("ran"); return nil })
	g.GoWorker(func(*Worker) error { t.Error("ran"); return nil })
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.ErrorIs(t, context.Cause(ctx), ErrClosed)
}

// TestGroupsInsideGroups needs the place of each waiting worker for what it waits for.
func TestGroupsInsideGroups(t *testing.T) {
	var tree func(p *Pool, depth int) (int, error)
	tree = func(p *Pool, depth int) (int, error) {
		if depth == 0 {
			return 1, nil
		}
		g := newGroup(p)
		var counts [3]int
		for i := range counts {
			g.Go(func() (err error) {
				counts[i], err = tree(p, depth-1)
				return err
			})
		}
		err := g.Wait()
		return counts[0] + counts[1] + counts[2] + 1, err
	}
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			n, err := tree(p, 5)
			require.NoError(t, err)
			require.Equal(t, 364, n)

			result := make(chan int)
			require.NoError(t, p.Go(func(*Worker) {
				n, _ := tree(p, 4)
				result <- n
			}))
			require.Equal(t, 121, <-result)
		}
	})
}

// TestGroupsInsideForks mixes both ways to wait: for a fork and for a group.
func TestGroupsInsideForks(t *testing.T) {
	var mix func(w *Worker, depth int) int
	mix = func(w *Worker, depth int) int {
		if depth == 0 {
			return 1
		}
		if depth%2 == 0 {
			x, y := Join(w, mix, depth-1, mix, depth-1)
			return x + y
		}
		g := newGroup(w.Pool())
		var x, y int
		g.GoWorker(func(w *Worker) error { x = mix(w, depth-1); return nil })
		g.GoWorker(func(w *Worker) error { y = mix(w, depth-1); return nil })
		_ = g.Wait()
		return x + y
	}
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(20) {
			require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, 1<<7, mix(w, 7)) }))
			result := make(chan int)
			require.NoError(t, p.Go(func(w *Worker) { result <- mix(w, 7) }))
			require.Equal(t, 1<<7, <-result)
		}
	}
}

func TestManyWaitForOneGroup(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(100) {
			g := newGroup(p)
			var ended atomic.Int64
			release := make(chan struct{})
			const n = 5
			for range n {
				g.Go(func() error { ended.Add(1); return io.EOF })
			}
			var wrong, waited atomic.Int64
			wait := func() {
				if err := g.Wait(); err != io.EOF || int(ended.Load())+g.Skipped() != n {
					wrong.Add(1)
				}
				waited.Add(1)
			}
			outside := testutil.Together(4, func(who int) {
				<-release
				switch who {
				case 0:
					_ = p.Run(func(*Worker) { wait() })
				case 1:
					_ = p.Go(func(*Worker) { wait() })
				default:
					wait()
				}
			})
			close(release)
			outside()
			require.True(t, testutil.Eventually(func() bool { return waited.Load() == 4 }))
			require.Zero(t, wrong.Load())
		}
	})
}

// TestForksThatWaitForGroups: guests and workers wait for stolen forks, two of which wait for
// groups of their own. Some worker must run the groups' tasks.
//
// The first guest forks A and the second one B, which forks C. When C has begun, A forks D. When D
// has begun, a task on the other worker forks E. D and E each wait for a group.
func TestForksThatWaitForGroups(t *testing.T) {
	fork := func(w *Worker, before func(), f func(*Worker)) {
		Join(w,
			func(*Worker, int) int { before(); return 0 }, 0,
			func(w *Worker, _ int) int { f(w); return 0 }, 0)
	}
	type forking func(w *Worker, before func(), f func(*Worker))
	// forkDE is how D and E are forked, and so how their owners wait.
	test := func(t *testing.T, forkDE forking) {
		p := newPool(t, WithWorkers(2))
		require.True(t, whenParked(p))
		over := make(chan struct{}, 3)
		made := func() gate { return make(gate) }
		runsA, forkedB, forkedC, runsC, forkD, forkedD, runsD := made(), made(), made(), made(), made(), made(), made()
		runsTask, forkE, forkedE, runsE := made(), made(), made(), made()

		waitForGroup := func() {
			g := newGroup(p)
			g.Go(func() error { return nil })
			_ = g.Wait()
		}
		d := func(*Worker) { runsD.open(); forkE.open(); waitForGroup() }
		e := func(*Worker) { runsE.open(); waitForGroup() }
		c := func(*Worker) { runsC.open(); forkedE.await() }
		b := func(w *Worker) {
			fork(w, func() { forkedC.open(); runsC.await(); forkD.open(); forkedD.await() }, c)
		}
		a := func(w *Worker) {
			runsA.open()
			forkD.await()
			forkDE(w, func() { forkedD.open(); runsD.await() }, d)
		}

		go func() {
			_ = p.Run(func(w *Worker) { fork(w, func() { runsA.await(); forkedB.await() }, a) })
			over <- struct{}{}
		}()
		runsA.await()
		require.NoError(t, p.Go(func(w *Worker) {
			defer func() { over <- struct{}{} }()
			runsTask.open()
			forkE.await()
			forkDE(w, func() { forkedE.open(); runsE.await() }, e)
		}))
		runsTask.await()
		go func() {
			_ = p.Run(func(w *Worker) { fork(w, func() { forkedB.open(); forkedC.await() }, b) })
			over <- struct{}{}
		}()
		for range 3 {
			require.True(t, closed(over), "the workers wait for guests, and the guests for tasks")
		}
	}

	t.Run("in joins", func(t *testing.T) { test(t, fork) })
	t.Run("in Do", func(t *testing.T) {
		test(t, func(w *Worker, before func(), f func(*Worker)) {
			w.Do(func(*Worker) { before() }, f)
		})
	})
	t.Run("in Do after a panic", func(t *testing.T) {
		test(t, func(w *Worker, before func(), f func(*Worker)) {
			_ = testutil.Caught(func() { w.Do(func(*Worker) { before(); explode("Do") }, f) })
		})
	})
	t.Run("after a panic", func(t *testing.T) {
		test(t, func(w *Worker, before func(), f func(*Worker)) {
			_ = testutil.Caught(func() { fork(w, func() { before(); explode("f") }, f) })
		})
	})
	t.Run("in guests inside tasks", func(t *testing.T) {
		test(t, func(w *Worker, before func(), f func(*Worker)) {
			_ = w.Pool().Run(func(w *Worker) { fork(w, before, f) })
		})
	})
}

func TestGroupGrowsFromInside(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		g := newGroup(p)
		var count atomic.Int64
		var spread func(n int)
		spread = func(n int) {
			count.Add(1)
			if n > 0 {
				for range 2 {
					g.Go(func() error { spread(n - 1); return nil })
				}
			}
		}
		depth := 12
		if testutil.Short() {
			depth = 8
		}
		spread(depth)
		require.NoError(t, g.Wait())
		require.EqualValues(t, 1<<(depth+1)-1, count.Load())
	})
}

func TestGoWorkerCanJoin(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		g := newGroup(p)
		results := make([]int, 20)
		for i := range results {
			g.GoWorker(func(w *Worker) error {
				if w.core.Guest {
					return fmt.Errorf("a group's function ran on slot %d", w.ID())
				}
				results[i] = fib(w, i%15)
				return nil
			})
		}
		require.NoError(t, g.Wait())
		for i, got := range results {
			require.Equal(t, serialFib(i%15), got)
		}
	})
}

// # Limits

func TestGroupNeverExceedsItsLimit(t *testing.T) {
	for _, limit := range []int{1, 2, 7} {
		for _, workers := range []int{1, 2, 8} {
			p := newPool(t, WithWorkers(workers))
			g := newGroup(p)
			g.SetLimit(limit)
			var running, most, ended atomic.Int64
			n := testutil.Stress(40)
			f := func() error {
				now := running.Add(1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				pause()
				running.Add(-1)
				ended.Add(1)
				return nil
			}
			require.True(t, testutil.Returns(testutil.Together(4, func(who int) {
				for i := range n {
					switch (i + who) % 3 {
					case 0:
						g.Go(f)
					case 1:
						g.GoWorker(func(*Worker) error { return f() })
					default:
						for !g.TryGo(f) {
							runtime.Gosched()
						}
					}
					if pending := g.tasks.Load() % begun; pending > int64(limit) {
						t.Errorf("%d tasks with the limit %d", pending, limit)
					}
				}
			})), "somebody waits for room for ever")
			require.NoError(t, g.Wait())
			require.EqualValues(t, 4*n, ended.Load())
			require.LessOrEqual(t, most.Load(), int64(limit))
		}
	}
}

func TestGroupAtItsLimitWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g := newGroup(p)
	g.SetLimit(2)
	release := make(chan struct{})
	f := func() error { <-release; return nil }
	g.Go(f)
	require.True(t, g.TryGo(f))
	require.False(t, g.TryGo(func() error { t.Error("it runs"); return nil }))
	added, ran := make(chan struct{}), make(chan struct{})
	go func() {
		g.Go(func() error { close(ran); return nil })
		close(added)
	}()
	require.True(t, testutil.Eventually(func() bool {
		g.room.mu.Lock()
		defer g.room.mu.Unlock()
		return g.room.over != nil
	}), "it does not wait")
	select {
	case <-added:
		require.Fail(t, "Go returned at the limit")
	default:
	}
	close(release)
	require.True(t, closed(added), "Go waits for ever")
	require.True(t, closed(ran))
	require.NoError(t, g.Wait())
	require.True(t, g.TryGo(func() error { return nil }), "there is room again")
	require.NoError(t, g.Wait())
}

func TestLimitOfNoTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g := newGroup(p)
	g.SetLimit(0)
	for range 3 {
		require.False(t, g.TryGo(func() error { t.Error("it runs"); return nil }))
	}
	require.NoError(t, g.Wait())
	g.SetLimit(1)
	require.True(t, g.TryGo(func() error { return nil }))
	require.NoError(t, g.Wait())

	for name, add := range map[string]func(g *Group){
		"Group.Go":       func(g *Group) { g.Go(func() error { return nil }) },
		"Group.GoWorker": func(g *Group) { g.GoWorker(func(*Worker) error { return nil }) },
	} {
		g = newGroup(p)
		g.SetLimit(0)
		require.True(t, testutil.Returns(func() { add(g) }), "%s waits for what cannot come", name)
		require.ErrorContains(t, g.Wait(), name+" was called on a group with the limit 0")
	}
}

func TestNegativeLimitIsNone(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release := occupyAll(t, p)
	g := newGroup(p)
	g.SetLimit(1)
	g.SetLimit(-1)
	require.True(t, testutil.Returns(func() {
		for range 1000 {
			g.Go(func() error { return nil })
			if !g.TryGo(func() error { return nil }) {
				t.Error("refused")
			}
		}
	}))
	release()
	require.NoError(t, g.Wait())
}

func TestGoAtTheLimitEndsWithTheContext(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	g, _ := NewGroup(p.With(ctx))
	g.SetLimit(1)
	release := make(chan struct{})
	g.Go(func() error { <-release; return nil })
	time.AfterFunc(time.Millisecond, func() { cancel(io.ErrUnexpectedEOF) })
	g.Go(func() error { t.Error("its context has ended"); return nil })
	close(release)
	require.ErrorIs(t, g.Wait(), io.ErrUnexpectedEOF)
	require.LessOrEqual(t, 1, g.Skipped())
}

// TestGoContextEndsItsWaitForRoom, and no more: the group goes on, unless its own place's context has ended.
func TestGoContextEndsItsWaitForRoom(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, _ := NewGroup(p)
	g.SetLimit(1)
	release := make(chan struct{})
	g.Go(func() error { <-release; return nil })
	never := func() error { t.Error("it runs"); return nil }
	waits := func() bool {
		g.room.mu.Lock()
		defer g.room.mu.Unlock()
		return g.room.over != nil
	}
	errEnd := errors.New("the end")
	ctx, end := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	returned := func() error {
		require.True(t, testutil.Eventually(func() bool { return len(result) == 1 }), "it waits for ever")
		return <-result
	}
	go func() { result <- g.GoContext(ctx, never) }()
	require.True(t, testutil.Eventually(waits), "it does not wait")
	end(errEnd)
	require.ErrorIs(t, returned(), errEnd)
	require.ErrorIs(t, g.GoContext(ctx, never), errEnd)
	require.Zero(t, g.Skipped())

	ran := false
	go func() { result <- g.GoContext(t.Context(), func() error { ran = true; return nil }) }()
	close(release)
	require.NoError(t, returned())
	require.NoError(t, g.Wait())
	require.True(t, ran)

	parent, endParent := context.WithCancelCause(t.Context())
	g.Reset(parent)
	ctx, end = context.WithCancelCause(t.Context())
	defer end(nil)
	release = make(chan struct{})
	g.Go(func() error { <-release; return nil })
	require.True(t, testutil.Eventually(func() bool { return g.Running() == 1 }))
	go func() { result <- g.GoContext(ctx, never) }()
	require.True(t, testutil.Eventually(waits), "it does not wait")
	endParent(errEnd)
	require.NoError(t, returned())
	close(release)
	require.ErrorIs(t, g.Wait(), errEnd)
	require.Equal(t, 1, g.Skipped())
	require.NoError(t, ctx.Err())
}

func TestSetLimitWhileTasksRunPanics(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g := newGroup(p)
	release := make(chan struct{})
	g.Go(func() error { <-release; return nil })
	err, ok := testutil.Caught(func() { g.SetLimit(3) }).(error)
	require.True(t, ok)
	require.EqualError(t, err, "pool: Group.SetLimit was called while the group has 1 tasks; call it before Go, or after Wait")
	close(release)
	require.NoError(t, g.Wait())
	g.SetLimit(3) // as with errgroup, between two lots
	g.Go(func() error { return nil })
	require.NoError(t, g.Wait())
}

// TestGoAtTheLimitInsideATaskLendsThePlace: with one worker, the group's tasks must run in the place of the
// task that adds them.
func TestGoAtTheLimitInsideATaskLendsThePlace(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(30) {
			var ran atomic.Int32
			result := make(chan error, 1)
			require.NoError(t, p.Go(func(w *Worker) {
				g := newGroup(p)
				g.SetLimit(1)
				for range 10 {
					g.Go(func() error { ran.Add(1); return nil })
				}
				result <- g.Wait()
			}))
			require.True(t, testutil.Eventually(func() bool { return len(result) == 1 }), "it waits for itself")
			require.NoError(t, <-result)
			require.EqualValues(t, 10, ran.Load())
		}
	}
}

// TestGoAtTheLimitInsideATaskOfTheGroup: a member of the group adds others while there is room for
// one more.
func TestGoAtTheLimitInsideATaskOfTheGroup(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(30) {
			g := newGroup(p)
			g.SetLimit(2)
			var ran atomic.Int32
			g.Go(func() error {
				for range 10 {
					g.Go(func() error { ran.Add(1); return nil })
				}
				return nil
			})
			require.True(t, testutil.Returns(func() { _ = g.Wait() }), "it waits for itself")
			require.EqualValues(t, 10, ran.Load())
		}
	}
}

// TestTasksThatEndBadlyMakeRoomToo by an error, a panic or Goexit.
func TestTasksThatEndBadlyMakeRoomToo(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for _, f := range []func() error{
		func() error { return io.EOF },
		func() error { explode("bad"); return nil },
		func() error { runtime.Goexit(); return nil },
	} {
		g := newGroup(p)
		g.SetLimit(1)
		require.True(t, testutil.Returns(func() {
			for range 5 {
				g.Go(f)
			}
		}), "the limit counts those who have ended")
		require.True(t, testutil.Returns(func() {
			var err error
			if v := testutil.Caught(func() { err = g.Wait() }); v == nil && err == nil {
				t.Error("the end was lost")
			}
		}))
	}
}

func TestTryGoRefusesNilAndClosedPools(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g := newGroup(p)
	require.True(t, g.TryGo(nil))
	require.EqualError(t, g.Wait(), "pool: Group.TryGo was given a nil function")
	require.NoError(t, p.Close())
	g = newGroup(p)
	g.SetLimit(1)
	for range 3 {
		require.True(t, testutil.Returns(func() { g.Go(func() error { t.Error("it runs"); return nil }) }), "it counts what was refused")
		require.True(t, g.TryGo(func() error { t.Error("it runs"); return nil }))
	}
	require.ErrorIs(t, g.Wait(), ErrClosed)
}

// TestFunctionsOfGroupsAndFuturesQueueOnTheWorkerTheyCameFrom, like tasks that its task queues, and
// not behind all tasks from outside.
func TestFunctionsOfGroupsAndFuturesQueueOnTheWorkerTheyCameFrom(t *testing.T) {
	if goroutineIDAllocates {
		t.Skip("to ask which worker it is costs more than the injector")
	}
	p := newPool(t, WithWorkers(1), WithQueueBound(1))
	ctx := t.Context()
	result := make(chan error, 1)
	require.NoError(t, p.Go(func(w *Worker) {
		g, _ := NewGroup(p.With(ctx))
		one := func(*Worker) (int, error) { return 1, nil }
		g.Go(func() error { return nil })
		g.TryGo(func() error { return nil })
		g.GoWorker(func(*Worker) error { return nil })
		a := Async(p, one)
		b, err := tryAsync(p, one)
		here, outside := w.queued(), p.waiting()
		low := Async(p, one, PriorityLow)
		w.Block(func() { Async(p, one) }) // the goroutine has lent its place, which another worker has meanwhile
		_, err1 := a.Wait(ctx)
		_, err2 := b.Wait(ctx)
		_, err3 := low.Wait(ctx)
		if here != 5 || outside != 0 {
			err = fmt.Errorf("%d tasks here, %d outside", here, outside)
		}
		result <- errors.Join(err, err1, err2, err3, g.Wait())
	}))
	require.NoError(t, <-result)
	requireAtRest(t, p)
}

// TestAResetGroupIsAsGoodAsNew: it keeps its settings, and nothing of what was before.
func TestAResetGroupIsAsGoodAsNew(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, before := NewGroup(p)
	g.SetLimit(3)
	g.AtMost(2)
	g.JoinErrors()
	g.Go(func() error { return io.EOF })
	g.Go(func() error { return io.ErrShortWrite })
	require.ErrorIs(t, g.Wait(), io.ErrShortWrite)

	parent, cancel := context.WithCancelCause(context.Background())
	ctx := g.Reset(parent)
	require.Error(t, before.Err(), "the old context has ended")
	require.NoError(t, ctx.Err())
	require.NoError(t, g.Wait(), "the errors are gone")
	require.Equal(t, [3]int{3, 2, 0}, [3]int{g.limit, g.turns.Most, g.Skipped()})
	require.True(t, g.joins)

	unused := g.Reset(parent)
	ctx = g.Reset(parent)
	require.Error(t, unused.Err(), "a context that no Wait has ended ends, too")
	cancel(io.ErrNoProgress)
	require.ErrorIs(t, context.Cause(ctx), io.ErrNoProgress, "the new parent ends the new context")
	g.Go(func() error { t.Error("it ran"); return nil })
	require.ErrorIs(t, g.Wait(), io.ErrNoProgress)
	require.Equal(t, 1, g.Skipped())

	g.Reset(context.Background())
	require.NoError(t, g.Wait())
	g.GoWorker(func(*Worker) error { t.Error("it runs after Wait"); return nil })
	require.ErrorIs(t, g.Wait(), context.Canceled)
	require.Equal(t, 1, g.Skipped(), "the group's context ended before its call began")
	g.Reset(context.Background())
	require.Zero(t, g.Skipped())
	g.Go(func() error { panic("ouch") })
	require.Panics(t, func() { _ = g.Wait() })
	g.Reset(context.Background())
	require.NoError(t, g.Wait(), "the panic is gone")
}

// TestAFunctionThatWaitsGivesItsTurnsInAllGroups around it, to others that wait for a turn.
func TestAFunctionThatWaitsGivesItsTurnsInAllGroups(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	outer, inner := newGroup(p), newGroup(p)
	outer.AtMost(1)
	inner.AtMost(1)
	outer.Go(func() error {
		inner.GoWorker(func(w *Worker) error {
			met := make(chan struct{})
			outer.Go(func() error { met <- struct{}{}; return nil })
			inner.Go(func() error { met <- struct{}{}; return nil })
			w.Block(func() { <-met; <-met })
			return nil
		})
		return inner.Wait()
	})
	require.True(t, testutil.Returns(func() {
		if err := outer.Wait(); err != nil {
			t.Error(err)
		}
	}), "it hangs")
	require.Equal(t, [2]int{0, 0}, [2]int{outer.turns.Taken, inner.turns.Taken})
}

// TestAGroupsFunctionCannotWaitForItsGroupAsAGuestElsewhere: the group would wait for it.
func TestAGroupsFunctionCannotWaitForItsGroupAsAGuestElsewhere(t *testing.T) {
	p, q := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
	g := newGroup(p)
	own := make(chan error, 1)
	g.Go(func() error {
		return q.Run(func(*Worker) { own <- g.Wait() })
	})
	require.NoError(t, g.Wait())
	require.ErrorIs(t, <-own, ErrOwnWait)
}

func TestAGroupAtItsLimitMayBeFilledInAJoin(t *testing.T) {
	forScarcePools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(1000) {
			g := newGroup(p)
			g.SetLimit(2)
			var ran atomic.Int32
			for range 6 {
				g.GoWorker(func(w *Worker) error { fib(w, 8); ran.Add(1); return nil })
			}
			h := newGroup(p)
			h.Go(func() error {
				for range 6 {
					g.GoWorker(func(w *Worker) error { fib(w, 8); ran.Add(1); return nil })
				}
				return nil
			})
			require.NoError(t, h.Wait())
			require.NoError(t, g.Wait())
			require.EqualValues(t, 12, ran.Load())
		}
	})
}

func TestAPartOfThePoolIsNeverLargerThanItsBound(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for _, n := range []int{1, 2, 3, 9} {
		g, _ := NewGroup(p)
		g.AtMost(n)
		var inside crowd
		var ran atomic.Int64
		f := func() error {
			inside.enter()
			pause()
			ran.Add(1)
			inside.leave()
			return nil
		}
		var adders sync.WaitGroup
		for range 3 { // from outside, and from within
			adders.Go(func() {
				for range 20 {
					g.Go(f)
					g.GoWorker(func(*Worker) error { g.Go(f); return f() })
				}
			})
		}
		adders.Wait()
		require.NoError(t, g.Wait())
		require.EqualValues(t, 3*20*3, ran.Load())
		require.LessOrEqual(t, int(inside.most.Load()), n+int(p.Stats().Noticed)) // one that waits for the group's lock goes on beside n others
		require.Zero(t, g.Queued()+g.Running())
	}
}

func TestAPartBeginsItsFunctionsInTheirOrder(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	g, _ := NewGroup(p)
	g.AtMost(1)
	var order []int // written by one function at a time
	for i := range 1000 {
		g.Go(func() error { order = append(order, i); return nil })
	}
	require.NoError(t, g.Wait())
	for i, got := range order {
		require.Equal(t, i, got)
	}
	require.Len(t, order, 1000)
}

// Law 1: what a function waits for may come behind it in the backlog.
func TestAFunctionOfAPartWaitsForTheNextOnes(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := newPool(t, WithWorkers(workers))
		g, _ := NewGroup(p)
		g.AtMost(1)
		const n = 50
		var links [n + 1]chan struct{}
		for i := range links {
			links[i] = make(chan struct{})
		}
		for i := range n {
			g.GoWorker(func(w *Worker) error {
				switch i % 3 {
				case 0:
					w.Block(func() { <-links[i+1] })
				case 1:
					inner, _ := NewGroup(p)
					inner.GoWorker(func(w *Worker) error { w.Block(func() { <-links[i+1] }); return nil })
					if err := inner.Wait(); err != nil {
						return err
					}
				case 2:
					future := Async(p, func(w *Worker) (int, error) { w.Block(func() { <-links[i+1] }); return 0, nil })
					if _, err := future.Wait(context.Background()); err != nil {
						return err
					}
				}
				close(links[i])
				return nil
			})
		}
		close(links[n])
		require.NoError(t, g.Wait())
	}
}

func TestAPartDoesNotKeepOthersFromThePool(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, _ := NewGroup(p)
	g.AtMost(1)
	gate := make(chan struct{})
	for range 100 {
		g.Go(func() error { testutil.Compute(gate); return nil }) // holds its worker
	}
	require.NoError(t, p.Run(func(w *Worker) {}))
	for range 10 {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(done) }))
		<-done
	}
	require.True(t, testutil.Eventually(func() bool { return g.Running() == 1 && g.Queued() == 99 }))
	close(gate)
	require.NoError(t, g.Wait())
}

func TestWhatIsInTheBacklogRunsBeforeCloseReturns(t *testing.T) {
	for i := range testutil.Stress(200) {
		p, err := New(WithWorkers(1 + i%3))
		require.NoError(t, err)
		g, _ := NewGroup(p)
		g.AtMost(1 + i%2)
		var ran atomic.Int64
		for j := range 50 {
			g.GoWorker(func(w *Worker) error {
				if j%7 == 0 {
					w.Block(runtime.Gosched)
				}
				ran.Add(1)
				return nil
			})
		}
		require.NoError(t, p.Close())
		require.EqualValues(t, 50, ran.Load())
		require.NoError(t, g.Wait())
	}
}

func TestAPartThatFailsDropsItsBacklog(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, f := range map[string]func() error{
		"error":  func() error { return io.EOF },
		"panic":  func() error { panic("ouch") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		g, ctx := NewGroup(p)
		g.AtMost(1)
		gate := make(chan struct{})
		g.GoWorker(func(w *Worker) error { testutil.Compute(gate); return f() })
		for range 100 {
			g.Go(func() error { t.Error("begun after the end"); return nil })
		}
		close(gate)
		if name == "panic" {
			require.Panics(t, func() { _ = g.Wait() })
		} else {
			require.Error(t, g.Wait(), name)
		}
		require.Equal(t, 100, g.Skipped(), name)
		require.Error(t, ctx.Err())

		ran := false
		ctx = g.Reset(context.Background())
		require.NoError(t, ctx.Err())
		g.Go(func() error { ran = true; return ctx.Err() })
		require.NoError(t, g.Wait(), name)
		require.True(t, ran)
		require.Zero(t, g.Skipped())
	}
}

func TestTheEndOfTheContextDropsTheBacklog(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	g, _ := NewGroup(p.With(ctx))
	g.AtMost(2)
	gate := make(chan struct{})
	var ran atomic.Int64
	for range 100 {
		g.Go(func() error { ran.Add(1); testutil.Compute(gate); return nil })
	}
	require.True(t, testutil.Eventually(func() bool { return ran.Load() == 2 })) // one that has begun may yet see the end before it runs
	cancel(io.ErrUnexpectedEOF)
	close(gate)
	require.ErrorIs(t, g.Wait(), io.ErrUnexpectedEOF)
	require.EqualValues(t, 2, ran.Load())
	require.Equal(t, 98, g.Skipped())
}

func TestAPartOfAClosedPool(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, _ := NewGroup(p)
	g.AtMost(1)
	require.NoError(t, p.Close())
	for range 3 {
		g.Go(func() error { t.Error("begun in a closed pool"); return nil })
	}
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.Zero(t, g.Queued()+g.Running())
}

// TestAClosingPoolRefusesWhatWouldWaitInAPart: from the start of Close on the pool accepts nothing, the backlog neither.
func TestAClosingPoolRefusesWhatWouldWaitInAPart(t *testing.T) {
	p, err := New(WithWorkers(2))
	require.NoError(t, err)
	g := newGroup(p)
	g.AtMost(1)
	g.JoinErrors()
	begun, release := make(chan struct{}), make(chan struct{})
	g.Go(func() error { close(begun); <-release; return nil })
	require.True(t, closed(begun))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, p.Shutdown(over))
	for range 3 {
		g.Go(func() error { t.Error("the pool is closed"); return nil })
	}
	require.EqualValues(t, 3, p.Stats().Refused)
	close(release)
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.Zero(t, g.Skipped(), "the closed pool refused them")
	require.NoError(t, p.Close())
}

func TestAGroupIsUsedAgain(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, ctx := NewGroup(p)
	g.SetLimit(3)
	for i := range 100 {
		var ran atomic.Int64
		for range 10 {
			g.Go(func() error {
				if ran.Add(1) == 10 && i%2 == 1 {
					return io.EOF
				}
				return nil
			})
		}
		err := g.Wait()
		require.Equal(t, i%2 == 1, errors.Is(err, io.EOF))
		require.EqualValues(t, 10, ran.Load())
		require.Error(t, ctx.Err(), "Wait ends the context")
		ctx = g.Reset(context.Background())
		require.NoError(t, ctx.Err())
	}

	r, _ := GroupOf[int](p)
	r.AtMost(1)
	for range 3 {
		for i := range 10 {
			r.Go(func() (int, error) { return i, nil })
		}
		all, err := r.Wait()
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, all)
		r.Reset(context.Background())
	}
}

func TestWhatAGroupCannotBeAskedWhileItHasTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, _ := NewGroup(p)
	gate := make(chan struct{})
	g.Go(func() error { <-gate; return nil })
	for name, f := range map[string]func(){
		"AtMost":     func() { g.AtMost(1) },
		"Reset":      func() { g.Reset(context.Background()) },
		"SetLimit":   func() { g.SetLimit(1) },
		"JoinErrors": g.JoinErrors,
	} {
		require.PanicsWithError(t, "pool: Group."+name+" was called while the group has 1 tasks; call it before Go, or after Wait", f)
	}
	close(gate)
	require.NoError(t, g.Wait())
	require.Panics(t, func() { g.AtMost(0) })
	var none context.Context
	require.Panics(t, func() { g.Reset(none) })
	require.Panics(t, func() { new(Group).Reset(context.Background()) })
	require.Panics(t, func() { (*Group)(nil).AtMost(1) })
}

func TestPartsOfPartsEnd(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	outer, _ := NewGroup(p)
	outer.AtMost(1)
	var ran atomic.Int64
	for range 5 {
		outer.GoWorker(func(w *Worker) error {
			inner, _ := NewGroup(p)
			inner.AtMost(1)
			for range 5 {
				inner.GoWorker(func(w *Worker) error {
					w.Scope(func(s *Scope) {
						for range 10 {
							s.Go(w, func(w *Worker) { w.Do(func(*Worker) { ran.Add(1) }, func(*Worker) { ran.Add(1) }) })
						}
					})
					return nil
				})
			}
			return inner.Wait()
		})
	}
	require.NoError(t, outer.Wait())
	require.EqualValues(t, 5*5*20, ran.Load())
}
