package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
)

// These programs end if each task, child and guest is a goroutine. Each program is as small as it can be.

// mustEnd fails the test, and shows all stacks, if f does not return for a long time. The goroutine
// of f, and the pools, are left as they are then.
func mustEnd(t *testing.T, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		stacks := make([]byte, 1<<16)
		t.Fatalf("it does not end:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	t.Helper()
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			mustEnd(t, func() { _ = p.Close() })
		}
	})
	return p
}

// asleep waits until an idle pool sleeps.
func asleep() { time.Sleep(20 * time.Millisecond) }

// spinFor computes for a while.
func spinFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func TestGuestMayWaitForAChildOfItsScope(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		p := newPool(t, pool.WithWorkers(workers))
		asleep()
		mustEnd(t, func() {
			require.NoError(t, p.Run(func(w *pool.Worker) {
				w.Scope(func(s *pool.Scope) {
					begun := make(chan struct{})
					s.Go(w, func(*pool.Worker) { close(begun) })
					w.Block(func() { <-begun })
				})
			}))
		})
	}
}

func TestWorkerMayYieldUntilAChildOfItsScopeHasBegun(t *testing.T) {
	for name, call := range map[string]func(p *pool.Pool, f func(*pool.Worker)) error{
		"task": func(p *pool.Pool, f func(*pool.Worker)) error {
			ended := make(chan struct{})
			err := p.Go(func(w *pool.Worker) { defer close(ended); f(w) })
			<-ended
			return err
		},
		"guest": (*pool.Pool).Run,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, pool.WithWorkers(1))
			asleep()
			mustEnd(t, func() {
				require.NoError(t, call(p, func(w *pool.Worker) {
					w.Scope(func(s *pool.Scope) {
						var begun atomic.Bool
						s.Go(w, func(*pool.Worker) { begun.Store(true) })
						for !begun.Load() {
							w.Yield()
						}
					})
				}))
			})
		})
	}
}

func TestGuestMayYieldUntilAChildOfAnotherGuestHasBegun(t *testing.T) {
	p := newPool(t, pool.WithWorkers(1))
	asleep()
	var begun atomic.Bool
	in, out := make(chan struct{}), make(chan struct{})
	mustEnd(t, func() {
		go func() {
			defer close(out)
			_ = p.Run(func(w *pool.Worker) {
				close(in)
				for !begun.Load() {
					w.Yield()
				}
			})
		}()
		<-in
		require.NoError(t, p.Run(func(w *pool.Worker) {
			w.Scope(func(s *pool.Scope) {
				s.Go(w, func(*pool.Worker) { begun.Store(true) })
				w.Block(func() { <-out })
			})
		}))
	})
}

func TestTaskMayYieldUntilATaskOfAnyPriorityHasBegun(t *testing.T) {
	for _, priority := range []pool.Priority{pool.PriorityHigh, pool.PriorityNormal, pool.PriorityLow} {
		p := newPool(t, pool.WithWorkers(1))
		ended := make(chan struct{})
		mustEnd(t, func() {
			require.NoError(t, p.Go(func(w *pool.Worker) {
				defer close(ended)
				var begun atomic.Bool
				_ = p.Submit(context.Background(), func(*pool.Worker) { begun.Store(true) }, priority)
				for !begun.Load() {
					w.Yield()
				}
			}))
			<-ended
		})
	}
}

// TestTasksThatPollLetTheLastTaskBegin has tasks poll for a flag that a task behind them in the queue sets.
func TestTasksThatPollLetTheLastTaskBegin(t *testing.T) {
	for name, giveWay := range map[string]func(w *pool.Worker){
		"Yield": (*pool.Worker).Yield,
		"Block": func(w *pool.Worker) { w.Block(func() {}) },
	} {
		for _, n := range []int{1, 2, 4, 8} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				p := newPool(t, pool.WithWorkers(1))
				var flag atomic.Bool
				ended := make(chan struct{}, n)
				for range n {
					require.NoError(t, p.Go(func(w *pool.Worker) {
						for !flag.Load() {
							spinFor(20 * time.Microsecond)
							giveWay(w)
						}
						ended <- struct{}{}
					}))
				}
				require.NoError(t, p.Go(func(*pool.Worker) { flag.Store(true) }))
				defer flag.Store(true)
				mustEnd(t, func() {
					for range n {
						<-ended
					}
				})
			})
		}
	}
}

func TestSubmitThatWaitsForRoomLendsThePlaceInAnotherPool(t *testing.T) {
	outer := newPool(t, pool.WithWorkers(1))
	bounded := newPool(t, pool.WithWorkers(1), pool.WithQueueBound(1))
	mustEnd(t, func() {
		flag, ended := make(chan struct{}), make(chan struct{})
		require.NoError(t, outer.Go(func(w *pool.Worker) {
			defer close(ended)
			_ = w.Go(func(*pool.Worker) { close(flag) })
			for range 10 {
				_ = bounded.Submit(context.Background(), func(*pool.Worker) { <-flag })
			}
		}))
		<-ended
	})
}

// TestPlaceIsWokenForATaskOfAWorkerThatHasComeBack: a worker that gets its place back from one that was
// searching is no searcher, so a task that it queues must wake a worker.
func TestPlaceIsWokenForATaskOfAWorkerThatHasComeBack(t *testing.T) {
	p := newPool(t, pool.WithWorkers(2))
	limit := 10 * time.Second
	if testutil.Short() {
		limit = time.Second
	}
	for start := time.Now(); time.Since(start) < limit; {
		ended := make(chan bool)
		require.NoError(t, p.Go(func(w *pool.Worker) {
			for range 20 {
				w.Block(func() { spinFor(rand.N(60 * time.Microsecond)) })
			}
			begun := make(chan struct{})
			_ = w.Go(func(*pool.Worker) { close(begun) })
			select { // without Block, so this place is not lent
			case <-begun:
				ended <- true
			case <-time.After(10 * time.Second):
				ended <- false
			}
		}))
		require.True(t, <-ended, "the other place sleeps while a task is queued")
	}
}

func TestCloseEndsBesideAGuestThatForks(t *testing.T) {
	for range 20 {
		p := newPool(t, pool.WithWorkers(2))
		asleep()
		in, out := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(out)
			_ = p.Run(func(w *pool.Worker) {
				close(in)
				time.Sleep(time.Millisecond)
				for range 100 {
					w.Do(func(*pool.Worker) { spinFor(time.Microsecond) }, func(*pool.Worker) { spinFor(time.Microsecond) })
				}
			})
		}()
		<-in
		mustEnd(t, func() { require.NoError(t, p.Close()) })
		<-out
		requireNoWorker(t, p)
	}
}

func TestResizeBesideCloseLeavesNoWorker(t *testing.T) {
	for range 500 {
		p := newPool(t, pool.WithWorkers(1), pool.WithTuning(pool.Tuning{MaxWorkers: 8}))
		refused := make(chan struct{})
		go func() {
			defer close(refused)
			for p.Resize(8) == nil && p.Resize(1) == nil {
			}
		}()
		spinFor(rand.N(40 * time.Microsecond))
		mustEnd(t, func() { require.NoError(t, p.Close()) })
		<-refused
		requireNoWorker(t, p)
	}
}

// requireNoWorker requires that a closed pool comes to rest. A worker that the last guest woke for a fork
// may still be on its way to sleep.
func requireNoWorker(t *testing.T, p *pool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := p.Stats().Total().Parks
		time.Sleep(2 * time.Millisecond)
		return before == p.Stats().Total().Parks
	}, 10*time.Second, time.Millisecond, "places of a closed pool go to sleep again and again")
}

func TestPoolWithAHotWorkerCanBeClosed(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		p := newPool(t, pool.WithWorkers(workers), pool.WithTuning(pool.Tuning{HotWorker: true}))
		asleep()
		mustEnd(t, func() { require.NoError(t, p.Close()) })
	}
}

func TestFuturesThatWereRunInPlaceMakeNoRoom(t *testing.T) {
	const bound = 4
	p := newPool(t, pool.WithWorkers(1), pool.WithQueueBound(bound))
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*pool.Worker) { close(begun); testutil.Compute(release) }))
	<-begun
	defer close(release)
	require.NoError(t, p.Run(func(*pool.Worker) {
		for range 200 { // they do not count for the bound
			_, err := pool.Async(p, func(*pool.Worker) (int, error) { return 0, nil }, pool.PriorityHigh).Wait(context.Background())
			require.NoError(t, err)
		}
	}))
	accepted := 0
	for p.TrySubmit(func(*pool.Worker) {}) == nil {
		accepted++
	}
	require.LessOrEqual(t, accepted, bound)
}

func TestPauseEndsBesideAResize(t *testing.T) {
	p := newPool(t, pool.WithWorkers(4))
	var begun atomic.Int32
	release := make(chan struct{})
	for range 4 {
		require.NoError(t, p.Go(func(*pool.Worker) { begun.Add(1); <-release }))
	}
	require.Eventually(t, func() bool { return begun.Load() == 4 }, 10*time.Second, time.Millisecond)
	paused := make(chan error)
	go func() { paused <- p.Pause(context.Background()) }()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, p.Resize(1))
	close(release)
	mustEnd(t, func() { require.NoError(t, <-paused) })
	p.Resume()
}

func TestGuestMayWaitForAChildOfItsScopeWhileThePoolIsClosed(t *testing.T) {
	for range 200 {
		p := newPool(t, pool.WithWorkers(2))
		in := make(chan struct{})
		go func() { <-in; _ = p.Close() }()
		mustEnd(t, func() {
			require.NoError(t, p.Run(func(w *pool.Worker) {
				close(in)
				for range 50 {
					w.Scope(func(s *pool.Scope) {
						begun := make(chan struct{})
						s.Go(w, func(*pool.Worker) { close(begun) })
						w.Block(func() { <-begun })
					})
				}
			}))
		})
	}
}
