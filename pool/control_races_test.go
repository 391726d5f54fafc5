package pool

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/testutil"
)

// within is closed for a shorter time: what it waits for may take a while, but a test that fails
// must say so before the whole run is ended.
func within[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-time.After(testutil.Patience / 6):
		return false
	}
}

// underLock calls f under the lock of the size.
func underLock(p *Pool, f func()) {
	p.core.EachOpen(func(pl *core.Place) {
		if pl.Index == 0 {
			f()
		}
	})
}

// holdUp calls f under the lock of the size, and then has the goroutines that queue for it hand it to the next at
// once and go on only after that, as a mutex makes them do when a goroutine has waited too long.
func holdUp(p *Pool, f func()) {
	underLock(p, f)
	underLock(p, func() { time.Sleep(3 * time.Millisecond) }) // before the first in the queue, which sees that and makes the mutex fair
}

// TestForkOfABlockedGuestIsTaken has a guest wait for its own fork while all workers
// sleep.
func TestForkOfABlockedGuestIsTaken(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(20) {
			require.True(t, whenParked(p))
			taken := true
			require.NoError(t, p.Run(func(w *Worker) {
				ran := make(chan struct{})
				w.Do(
					func(w *Worker) { w.Block(func() { taken = within(ran) }) },
					func(*Worker) { close(ran) })
			}))
			require.True(t, taken, "nobody took the fork of a guest that blocks; %d workers", workers)
		}
	}
}

// TestForkOfABlockedGuestInAGuestIsTaken has the guest enter twice.
func TestForkOfABlockedGuestInAGuestIsTaken(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	taken := true
	require.NoError(t, p.Run(func(*Worker) {
		_ = p.Run(func(w *Worker) {
			ran := make(chan struct{})
			w.Do(
				func(w *Worker) { w.Block(func() { taken = within(ran) }) },
				func(*Worker) { close(ran) })
		})
	}))
	require.True(t, taken, "nobody took the fork of a guest that blocks")
}

// TestForkOfABlockedGuestInATaskIsTaken has a task be a guest as well.
func TestForkOfABlockedGuestInATaskIsTaken(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	taken := make(chan bool, 1)
	require.NoError(t, p.Go(func(*Worker) {
		_ = p.Run(func(w *Worker) {
			ran := make(chan struct{})
			w.Do(
				func(w *Worker) { w.Block(func() { taken <- within(ran) }) },
				func(*Worker) { close(ran) })
		})
	}))
	require.True(t, <-taken, "nobody took the fork of a task that blocks as a guest")
}

// TestForkOfABlockedTaskIsTakenWhenTheGuestLeaves: while the guest computes, the stand-in leaves
// the fork alone and goes to sleep.
func TestForkOfABlockedTaskIsTakenWhenTheGuestLeaves(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(20) {
		taken, blocked := make(chan bool, 1), make(chan struct{})
		require.NoError(t, p.Run(func(*Worker) {
			require.NoError(t, p.Go(func(w *Worker) {
				ran := make(chan struct{})
				w.Do(
					func(w *Worker) {
						w.Block(func() {
							close(blocked)
							taken <- within(ran)
						})
					},
					func(*Worker) { close(ran) })
			}))
			require.True(t, closed(blocked))
			for len(taken) == 0 { // until the stand-in sleeps; a guest that waited, as this one may have for blocked, makes room for it
				if state := p.core.Sleep.Load(); state.Searching() == 0 && state.Sleepers() == 0 {
					break
				}
				runtime.Gosched()
			}
		}))
		require.True(t, <-taken, "nobody took the fork of a task that blocks")
	}
}

// TestWhoLeavesHandsOnWhatItSaw: a worker that stays awake, because it sees tasks just as it parks,
// may find that it is too many before it has taken one. The test brings that about now and then by
// a task that blocks again and again.
func TestWhoLeavesHandsOnWhatItSaw(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(5000) {
		ran, went := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { <-ran }); close(went) }))
		require.NoError(t, p.Go(func(*Worker) { close(ran) }))
		require.True(t, closed(went), "two tasks lie in the injector and everybody sleeps")
		pause()
	}
}

// TestJoinerInALeaversPlaceIsKnown has one worker leave and another one join in the same place,
// while the first is held up at the lock.
func TestJoinerInALeaversPlaceIsKnown(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(30) {
		begun, release := make(chan struct{}, 2), make(chan struct{})
		for range 2 {
			require.NoError(t, p.Go(func(*Worker) { begun <- struct{}{}; <-release }))
		}
		require.True(t, closed(begun))
		require.True(t, closed(begun))
		require.NoError(t, p.Resize(1))

		var wait func()
		holdUp(p, func() {
			close(release)
			time.Sleep(3 * time.Millisecond) // the second worker comes to the lock
			wait = testutil.Together(1, func(int) {
				if err := p.Resize(2); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(3 * time.Millisecond) // and so does Resize
		})
		wait()

		var unknown atomic.Int32
		meet := testutil.NewBarrier(2)
		done := make(chan struct{}, 2)
		for range 2 {
			require.NoError(t, p.Go(func(w *Worker) {
				meet.Wait() // both workers are here
				time.Sleep(time.Millisecond)
				if p.current() != w {
					unknown.Add(1)
				}
				done <- struct{}{}
			}))
		}
		require.True(t, closed(done))
		require.True(t, closed(done))
		require.Zero(t, unknown.Load(), "a worker that runs a task is not known as one")
	}
}

// TestNothingStartsAfterAPauseThatFollowsAResume has a worker that Resume wakes meet the next Pause
// before it has begun anything.
func TestNothingStartsAfterAPauseThatFollowsAResume(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(300) {
		require.NoError(t, p.Pause(context.Background()))
		var ran atomic.Int32
		for range 3 {
			require.NoError(t, p.Go(func(*Worker) { ran.Add(1) }))
		}
		p.Resume()
		pause()
		require.NoError(t, p.Pause(context.Background()))
		before := ran.Load()
		time.Sleep(100 * time.Microsecond)
		require.Equal(t, before, ran.Load(), "a task started after Pause had returned")
		p.Resume()
		require.True(t, testutil.Eventually(func() bool { return ran.Load() == 3 }))
	}
}

// TestWhatARunningTaskWaitsForGoesOnInAPausedPool: otherwise Pause would wait for the task for
// ever.
func TestWhatARunningTaskWaitsForGoesOnInAPausedPool(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(100) {
			begun, release := make(chan struct{}), make(chan struct{})
			var sum atomic.Int32
			require.NoError(t, p.Go(func(w *Worker) {
				close(begun)
				<-release
				g := newGroup(p)
				for range 10 {
					g.Go(func() error { sum.Add(1); return nil })
				}
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
			}))
			<-begun
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			require.Error(t, p.Pause(ctx)) // begins the pause
			close(release)
			require.NoError(t, p.Pause(context.Background()))
			require.EqualValues(t, 10, sum.Load())
			p.Resume()
		}
	}
}

// requireHot waits until the pool is idle and one worker watches.
func requireHot(t *testing.T, p *Pool) {
	t.Helper()
	why := ""
	hot := testutil.Eventually(func() bool {
		if why = unrest(p); why == "" && !p.core.IsWatched() {
			why = "nobody watches"
		}
		return why == ""
	})
	require.True(t, hot, "%s", why)
}

// TestSomebodyIsHotWhenTheHotWorkerHasLeft: when a worker that watches has to leave,
// another one must watch.
func TestSomebodyIsHotWhenTheHotWorkerHasLeft(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithTuning(Tuning{HotWorker: true}))
	requireHot(t, p)
	for range testutil.Stress(1000) {
		blocked, release := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() {
				close(blocked)
				<-release
			})
		}))
		require.True(t, closed(blocked))
		require.True(t, testutil.Eventually(func() bool { // the stand-in watches
			return p.core.Sleep.Load().Sleepers() == 1 && p.core.IsWatched()
		}))
		close(release)
		requireHot(t, p)
	}
}

// TestNothingIsAcceptedWhileCloseWaitsForADelay, and not only when the delay is over.
func TestNothingIsAcceptedWhileCloseWaitsForADelay(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx := context.Background()
	require.NoError(t, p.Submit(ctx, func(*Worker) {}, Delay(time.Hour)))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.Error(t, p.Shutdown(ended))
	f := func(*Worker) {}
	require.ErrorIs(t, p.Go(f), ErrClosed)
	require.ErrorIs(t, p.Submit(ctx, f), ErrClosed)
	require.ErrorIs(t, p.Submit(ctx, f, PriorityHigh), ErrClosed)
	require.ErrorIs(t, p.TrySubmit(f, PriorityLow), ErrClosed)
	require.ErrorIs(t, p.TrySubmit(f, Delay(1)), ErrClosed)
	n, err := p.SubmitAll(ctx, []func(*Worker){f, f})
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, n)
	g := newGroup(p)
	g.Go(func() error { return nil })
	require.ErrorIs(t, g.Wait(), ErrClosed)
	left, err := p.Abort(ctx)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// TestLeaverForgetsItsForks: frames of a worker that is gone must not keep garbage alive.
func TestLeaverForgetsItsForks(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	meet, release := testutil.NewBarrier(3), make(chan struct{})
	for range 2 {
		require.NoError(t, p.Go(func(w *Worker) {
			meet.Wait()
			<-release
			fib(w, 10)
		}))
	}
	meet.Wait()
	require.NoError(t, p.Resize(1))
	close(release)
	require.True(t, testutil.Eventually(func() bool { return unrest(p) == "" }))
}

// TestPanicHandlerThatCallsGoexitLosesNoWorker, as a handler does that calls FailNow.
func TestPanicHandlerThatCallsGoexitLosesNoWorker(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) { runtime.Goexit() }))
	require.NoError(t, p.Go(func(*Worker) { explode("handled") }))
	ran := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(ran) }))
	require.True(t, within(ran), "the worker is gone")
}
