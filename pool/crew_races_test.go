package pool

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// within is closed for what may take a while but not for ever. It gives up sooner, since
// a test that fails is to say so before the whole run is ended.
func within[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-time.After(patience / 6):
		return false
	}
}

// pass unlocks c, for which others queue, in such a way that each of them hands it to the
// next at once and goes on only after that: as a mutex does when somebody has waited too
// long.
func (c *crew) pass() {
	c.mu.Unlock()
	c.mu.Lock() // before the first in the queue, who sees that and complains
	time.Sleep(3 * time.Millisecond)
	c.mu.Unlock()
}

// TestForkOfABlockedGuestIsTaken has a guest wait for its own fork while all workers
// sleep.
func TestForkOfABlockedGuestIsTaken(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newCrew(t, WithWorkers(workers))
		for range stress(20) {
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
	p := newCrew(t, WithWorkers(1))
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
	p := newCrew(t, WithWorkers(1))
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

// TestForkOfABlockedTaskIsTakenWhenTheGuestLeaves: while the guest computes the spare
// leaves the fork alone, and goes to sleep over it.
func TestForkOfABlockedTaskIsTakenWhenTheGuestLeaves(t *testing.T) {
	p := newCrew(t, WithWorkers(1))
	for range stress(20) {
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
			require.True(t, eventually(func() bool { // the spare sleeps
				state := p.sleep.Load()
				return state.Searching() == 0 && state.Sleepers() == 0
			}))
		}))
		require.True(t, <-taken, "nobody took the fork of a task that blocks")
	}
}

// TestForkIsTakenWhenAWorkerTooManyLeaves: while that is in a task, the fork of a guest wakes
// nobody, so somebody must be woken when it leaves.
func TestForkIsTakenWhenAWorkerTooManyLeaves(t *testing.T) {
	for range stress(20) {
		// Without a doorman, who could have the place of the spare.
		p := newCrew(t, WithWorkers(2), WithSpares(1), WithPinning(PinCores))
		var begun, release [2]chan struct{}
		for i := range begun {
			begun[i], release[i] = make(chan struct{}), make(chan struct{})
		}
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() { close(begun[0]); <-release[0] })
		}))
		require.True(t, closed(begun[0]))
		other := make(chan struct{})
		meet := newBarrier(2)
		for range 2 { // the second worker and the spare
			require.NoError(t, p.Go(func(w *Worker) {
				meet.wait()
				if w.rank < p.Workers() {
					<-other
				} else {
					close(begun[1])
					<-release[1]
				}
			}))
		}
		require.True(t, closed(begun[1]))
		close(other)
		close(release[0])
		require.True(t, whenSpare(p, 1)) // both workers sleep, and the spare is too many
		taken := false
		require.NoError(t, p.Run(func(w *Worker) {
			ran := make(chan struct{})
			w.Do(
				func(*Worker) {
					close(release[1])
					taken = within(ran)
				},
				func(*Worker) { close(ran) })
		}))
		require.True(t, taken, "both workers sleep, and nobody takes the fork")
	}
}

// TestWhoLeavesHandsOnWhatItSaw: a worker that stays awake, because it sees tasks just as it
// parks, may find that it is too many before it has taken one. A task that blocks again and
// again brings that about now and then.
func TestWhoLeavesHandsOnWhatItSaw(t *testing.T) {
	p := newCrew(t, WithWorkers(1))
	for range stress(5000) {
		ran, went := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { <-ran }); close(went) }))
		require.NoError(t, p.Go(func(*Worker) { close(ran) }))
		require.True(t, closed(went), "two tasks lie in the injector and everybody sleeps")
		pause()
	}
}

// whenSpare waits until nobody searches and so many more sleep than are too many.
func whenSpare(p *Pool, n int) bool {
	return eventually(func() bool {
		state := p.sleep.Load()
		return state.Searching() == 0 && state.Sleepers() == n
	})
}

// TestJoinerInALeaversPlaceIsKnown has a worker leave and another one join in the same
// place, while the one that leaves is held up at the door.
func TestJoinerInALeaversPlaceIsKnown(t *testing.T) {
	p := newCrew(t, WithWorkers(2))
	c := &p.crew
	for range stress(30) {
		begun, release := make(chan struct{}, 2), make(chan struct{})
		for range 2 {
			require.NoError(t, p.Go(func(*Worker) { begun <- struct{}{}; <-release }))
		}
		require.True(t, closed(begun))
		require.True(t, closed(begun))
		require.NoError(t, p.Resize(1))

		c.mu.Lock()
		close(release)
		time.Sleep(3 * time.Millisecond) // the second worker comes to the lock
		wait := together(1, func(int) {
			if err := p.Resize(2); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(3 * time.Millisecond) // and so does Resize
		c.pass()
		wait()

		var unknown atomic.Int32
		meet := newBarrier(2)
		done := make(chan struct{}, 2)
		for range 2 {
			require.NoError(t, p.Go(func(w *Worker) {
				meet.wait() // both workers are here
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

// TestNothingStartsAfterAPauseThatFollowsAResume has a worker that Resume lets go come to
// the next Pause before it has said that it works again.
func TestNothingStartsAfterAPauseThatFollowsAResume(t *testing.T) {
	p := newCrew(t, WithWorkers(1))
	c := &p.crew
	for range stress(30) {
		require.NoError(t, p.Pause(context.Background()))
		var ran atomic.Bool
		require.NoError(t, p.Go(func(*Worker) { ran.Store(true) }))
		require.True(t, eventually(func() bool { // the worker is up and held
			return p.resting.Load() >= 1 && p.sleep.Load() == 0
		}))

		c.mu.Lock() // Resume
		c.paused = false
		p.order(orderHold, false)
		c.changed.Broadcast()
		time.Sleep(3 * time.Millisecond) // the worker comes to the lock
		var before bool
		wait := together(1, func(int) {
			if err := p.Pause(context.Background()); err != nil {
				t.Error(err)
			}
			before = ran.Load()
		})
		time.Sleep(3 * time.Millisecond) // and so does Pause
		c.pass()
		require.True(t, returns(wait))
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, before, ran.Load(), "a task started after Pause had returned")
		p.Resume()
		require.True(t, eventually(ran.Load))
	}
}

// requireHot waits until an idle pool is as WithHotWorker says.
func requireHot(t *testing.T, p *Pool) {
	t.Helper()
	why := ""
	hot := eventually(func() bool {
		if why = crewUnrest(p); why == "" && !p.watched.Load() {
			why = "nobody watches"
		}
		return why == ""
	})
	require.True(t, hot, "%s", why)
}

// TestSomebodyIsHotWhenTheHotWorkerHasLeft: when a worker that watches has to leave,
// another one must watch.
func TestSomebodyIsHotWhenTheHotWorkerHasLeft(t *testing.T) {
	for range stress(10) {
		p := newCrew(t, WithWorkers(2), WithHotWorker())
		requireHot(t, p)
		blocked, release := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() {
				close(blocked)
				<-release
			})
		}))
		require.True(t, closed(blocked))
		require.True(t, eventually(func() bool { // the spare watches
			return p.sleep.Load().Sleepers() == 1 && p.watched.Load()
		}))
		close(release)
		requireHot(t, p)
	}
}

// TestHotWorkerKeepsStillBesideASpareThatSleeps: the standing order to a spare that sleeps,
// and does not hear it, must not keep the hot worker running round, seldom at rest.
func TestHotWorkerKeepsStillBesideASpareThatSleeps(t *testing.T) {
	for range stress(10) {
		p := newCrew(t, WithWorkers(2), WithHotWorker())
		requireHot(t, p)
		var begun, release [3]chan struct{}
		for i := range begun {
			begun[i], release[i] = make(chan struct{}), make(chan struct{})
		}
		wait := func(i int) func(*Worker) {
			return func(*Worker) { close(begun[i]); <-release[i] }
		}
		watched := func(sleepers int) bool {
			return eventually(func() bool {
				return p.sleep.Load().Sleepers() == sleepers && p.watched.Load() && int(p.resting.Load()) > sleepers
			})
		}
		require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { wait(0)(w) }) }))
		require.True(t, closed(begun[0]) && watched(1)) // by the spare
		require.NoError(t, p.Go(wait(1)))
		require.True(t, closed(begun[1]))
		require.NoError(t, p.Go(wait(2))) // the last worker
		require.True(t, closed(begun[2]))
		close(release[2])
		require.True(t, watched(0))
		close(release[1])
		require.True(t, watched(1)) // the spare sleeps
		close(release[0])
		require.True(t, eventually(func() bool { return p.sleep.Parked(0) || p.sleep.Parked(1) }))
		require.True(t, eventually(func() bool {
			looks := p.Stats().Total().Attempts
			time.Sleep(20 * time.Millisecond)
			return p.Stats().Total().Attempts == looks
		}), "the hot worker of an idle pool runs round and round")
		requireHot(t, p)
		requireCloses(t, p)
	}
}

// TestNothingIsAcceptedWhileCloseWaitsForADelay: not only when the delay is over.
func TestNothingIsAcceptedWhileCloseWaitsForADelay(t *testing.T) {
	p := newCrew(t, WithWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, p.Submit(ctx, func(*Worker) {}, After(300*time.Millisecond)))
	cancel()
	require.Error(t, p.Shutdown(ctx))
	ctx = context.Background()
	f := func(*Worker) {}
	require.ErrorIs(t, p.Go(f), ErrClosed)
	require.ErrorIs(t, p.Submit(ctx, f), ErrClosed)
	require.ErrorIs(t, p.Submit(ctx, f, High), ErrClosed)
	require.ErrorIs(t, p.TrySubmit(f, Low), ErrClosed)
	require.ErrorIs(t, p.TrySubmit(f, After(1)), ErrClosed)
	n, err := p.SubmitAll(ctx, []func(*Worker){f, f})
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, n)
	g := newGroup(p)
	g.Go(func() error { return nil })
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.NoError(t, p.Close())
}

// TestLeaverForgetsItsForks: frames of a worker that is gone must not keep garbage alive.
func TestLeaverForgetsItsForks(t *testing.T) {
	p := newCrew(t, WithWorkers(2))
	meet, release := newBarrier(3), make(chan struct{})
	for range 2 {
		require.NoError(t, p.Go(func(w *Worker) {
			meet.wait()
			<-release
			fib(w, 10)
		}))
	}
	meet.wait()
	require.NoError(t, p.Resize(1))
	close(release)
	require.True(t, eventually(func() bool { return crewUnrest(p) == "" && p.slots[1].goroutine.Load() == 0 }))
	for _, s := range p.slots[1].forkStacks() {
		require.Empty(t, leftovers(s))
	}
}

// TestPanicHandlerThatCallsGoexitLosesNoWorker, as a handler does that calls FailNow.
func TestPanicHandlerThatCallsGoexitLosesNoWorker(t *testing.T) {
	p := newCrew(t, WithWorkers(1), WithPanicHandler(func(*PanicError) { runtime.Goexit() }))
	require.NoError(t, p.Go(func(*Worker) { explode("handled") }))
	ran := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(ran) }))
	require.True(t, within(ran), "the worker is gone")
}
