package pool

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

func TestRunRunsInTheCaller(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(1000) {
		ran := false // without a lock: the race detector would tell
		require.NoError(t, p.Run(func(w *Worker) {
			require.Same(t, p, w.Pool())
			require.GreaterOrEqual(t, w.ID(), p.Workers())
			require.Less(t, w.ID(), p.Slots())
			ran = true
		}))
		require.True(t, ran)
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	f := func(*Worker) {}
	want := 0.0
	if goroutineIDAllocates {
		want = 1
	}
	require.Equal(t, want, allocsPerRun(1000, func() { _ = p.Run(f) }))
}

func TestMoreGuestsThanSlots(t *testing.T) {
	for _, workers := range []int{1, 2, 16} {
		p := newPool(t, WithWorkers(workers))
		testutil.Together(200, func(int) {
			for range testutil.Stress(20) {
				result := 0
				err := p.Run(func(w *Worker) {
					w.Do(
						func(w *Worker) { result += fib(w, 10) },
						func(*Worker) {})
				})
				if err != nil || result != serialFib(10) {
					t.Error(err, result)
				}
			}
		})()
		requireAtRest(t, p)
	}
}

// TestAnyNumberOfGuestsComputesAtOnce, more than there are rosters.
func TestAnyNumberOfGuestsComputesAtOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 16} {
		p := newPool(t, WithWorkers(workers))
		guests := 2*guestRosters + workers
		meet := testutil.NewBarrier(guests)
		var mu sync.Mutex
		times := make(map[int]int)
		testutil.Together(guests, func(int) {
			_ = p.Run(func(w *Worker) {
				mu.Lock()
				times[w.ID()]++
				mu.Unlock()
				meet.Wait()
				if got := fib(w, 8); got != serialFib(8) {
					t.Error(got)
				}
			})
		})()
		require.Len(t, times, guests, "numbers of those who are inside at the same time")
		requireAtRest(t, p)
	}
}

// TestACallInsideIsTheSameWorkers: a task or a call that calls the pool goes on as the worker that
// it is.
func TestACallInsideIsTheSameWorkers(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	result := make(chan int)
	require.NoError(t, p.Go(func(w *Worker) {
		_ = p.Run(func(same *Worker) {
			if same != w {
				t.Error("a task has another worker than its own")
			}
			result <- fib(same, 12)
		})
	}))
	require.Equal(t, serialFib(12), <-result)
	require.NoError(t, p.Run(func(w *Worker) {
		require.NoError(t, p.Run(func(same *Worker) { require.Same(t, w, same) }))
		w.Block(func() { // the guest does not compute at the moment
			require.NoError(t, p.Run(func(other *Worker) { require.NotSame(t, w, other) }))
		})
	}))
}

// TestNoForkOutlivesItsRunInsideATask: the forks that a recovered panic leaves behind end with Run,
// also if Run goes on as the caller's worker.
func TestNoForkOutlivesItsRunInsideATask(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(p *Pool, f func(w *Worker)) error
	}{
		{"Run", func(p *Pool, f func(w *Worker)) error { return p.Run(f) }},
		{"bound", func(p *Pool, f func(w *Worker)) error { return p.With(t.Context()).Run(f) }},
		{"recursion", func(p *Pool, f func(w *Worker)) error {
			_, err := Recursive(func(at *Fork[int, int], _ int) int { f(at.Worker()); return 0 }).Run(p, 0)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			left, outlived := make(chan bool), make(chan bool)
			var over, late atomic.Bool
			require.NoError(t, p.Go(func(w *Worker) {
				err := test.run(p, func(w *Worker) {
					defer func() { left <- recover() != nil }()
					Join(w,
						func(*Worker, int) int { panic("leaves the other function behind") }, 0,
						func(*Worker, int) int { late.Store(over.Load()); return 0 }, 0)
				})
				if err != nil {
					t.Error(err)
				}
				over.Store(true)
				stolenJoin(w, nop[int], nop[int]) // the oldest fork is stolen first
				outlived <- late.Load()
			}))
			require.True(t, <-left)
			require.False(t, <-outlived)
		})
	}
}

// TestAGuestThatLeavesWakesSomebodyForTheForksOfOneThatWaits: while it computed, they were left alone.
func TestAGuestThatLeavesWakesSomebodyForTheForksOfOneThatWaits(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.True(t, whenParked(p))
	inside, leave := make(chan struct{}), make(chan struct{})
	left := testutil.Together(1, func(int) { _ = p.Run(func(*Worker) { close(inside); <-leave }) })
	<-inside
	waits, stolen := make(chan struct{}), make(chan struct{})
	waited := testutil.Together(1, func(int) {
		_ = p.Run(func(w *Worker) {
			both(w,
				func(w *Worker) int { w.Block(func() { close(waits); <-stolen }); return 0 },
				func(*Worker) int { close(stolen); return 0 })
		})
	})
	<-waits
	require.True(t, testutil.Eventually(func() bool { return p.core.Sleep.Parked(0) && p.core.Sleep.Load().Searching() == 0 }))
	close(leave)
	left()
	require.True(t, testutil.Returns(waited))
	requireAtRest(t, p)
}

// TestAGuestIsSpareOnlyIfAWorkerSleepsOrSearches, and not because it is a guest itself.
func TestAGuestIsSpareOnlyIfAWorkerSleepsOrSearches(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.True(t, whenParked(p))
	require.NoError(t, p.Run(func(w *Worker) {
		require.True(t, w.isSpare())
		release := occupy(p)
		spare := w.isSpare()
		release()
		require.False(t, spare)
	}))
}

func TestRunInsideRun(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var nest func(w *Worker, n int) []int
	nest = func(w *Worker, n int) (ids []int) {
		if n > 0 {
			require.NoError(t, p.Run(func(inner *Worker) { ids = nest(inner, n-1) }))
		}
		require.Equal(t, serialFib(8), fib(w, 8))
		return append(ids, w.ID())
	}
	for range testutil.Stress(100) {
		const depth = 20 // more than there are slots
		testutil.Together(10, func(int) {
			var ids []int
			if err := p.Run(func(w *Worker) { ids = nest(w, depth) }); err != nil || len(ids) != depth+1 {
				t.Error(err, ids)
			}
		})()
	}
}

func TestRunInsideTasks(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		var wrong atomic.Int64
		g := newGroup(p)
		for range testutil.Stress(200) {
			g.GoWorker(func(w *Worker) error {
				return p.Run(func(inner *Worker) {
					if inner != w || fib(inner, 8)+fib(w, 5) != serialFib(8)+serialFib(5) {
						wrong.Add(1)
					}
				})
			})
		}
		require.NoError(t, g.Wait())
		require.Zero(t, wrong.Load())
	})
}

// TestRunInAnotherPool makes a worker of one pool the guest of another.
func TestRunInAnotherPool(t *testing.T) {
	a, b := newPool(t, WithWorkers(2)), newPool(t, WithWorkers(2))
	var there func(w *Worker, n int) int
	there = func(w *Worker, n int) (result int) {
		if n == 0 {
			return 1
		}
		other := a
		if w.Pool() == a {
			other = b
		}
		_ = other.Run(func(guest *Worker) {
			x, y := Join(guest, there, n-1, there, n-1)
			result = x + y
		})
		return result
	}
	for range testutil.Stress(20) {
		require.NoError(t, a.Run(func(w *Worker) { require.Equal(t, 1<<7, there(w, 7)) }))
	}
}

// TestOneWorkerLeavesTheForksToTheGuest, so that two threads do not compute in one place.
func TestOneWorkerLeavesTheForksToTheGuest(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	left := func() bool {
		requireAtRest(t, p)
		before := p.Stats()
		var elsewhere atomic.Bool
		for range testutil.Stress(100) {
			require.NoError(t, p.Run(func(guest *Worker) {
				var mine func(w *Worker, n int) int
				mine = func(w *Worker, n int) int {
					if w != guest {
						elsewhere.Store(true)
					}
					if n < 2 {
						return n
					}
					x, y := Join(w, mine, n-1, mine, n-2)
					return x + y
				}
				require.Equal(t, serialFib(12), mine(guest, 12))
			}))
		}
		return !elsewhere.Load() && assert.ObjectsAreEqual(before.Workers[0], p.Stats().Workers[0])
	}
	// On a busy machine the guest may be stopped where it seems to wait, and the worker takes its forks then. That is rare.
	for range 2 {
		if left() {
			return
		}
	}
	require.True(t, left(), "the worker woke up, or ran a fork of the only guest")
}

// TestGuestThatLeavesHandsOnItsPlace: while the guest is there, no worker is woken for the task's
// fork. When the guest leaves, one must be.
func TestGuestThatLeavesHandsOnItsPlace(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(300) {
		require.True(t, whenParked(p))
		inside, leave := make(chan struct{}), make(chan struct{})
		wait := testutil.Together(1, func(int) {
			_ = p.Run(func(*Worker) {
				close(inside)
				<-leave
			})
		})
		<-inside
		forked, ended := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			begun := make(chan struct{})
			Join(w,
				func(*Worker, int) int { close(forked); <-begun; return 0 }, 0,
				func(*Worker, int) int { close(begun); return 0 }, 0)
			close(ended)
		}))
		<-forked
		pause()
		close(leave)
		<-ended
		wait()
	}
}

func TestGuestCanSubmitAndWait(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(100) {
			var ran atomic.Int32
			require.NoError(t, p.Run(func(w *Worker) {
				require.NoError(t, w.Go(func(*Worker) { ran.Add(1) }))
				g := newGroup(p)
				for range 5 {
					g.Go(func() error { ran.Add(1); return nil })
				}
				require.NoError(t, g.Wait())
			}))
			require.True(t, testutil.Eventually(func() bool { return ran.Load() == 6 }))
		}
	})
}

func TestRunRefusesNil(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.EqualError(t, p.Run(nil), "pool: Pool.Run was given a nil function")
	requireAtRest(t, p)
}

func TestRunOnAClosedPool(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Close())
	err := p.Run(func(*Worker) { t.Error("ran") })
	require.ErrorIs(t, err, ErrClosed)
}

// TestGuestFinishesOnItsOwnAfterClose: Close does not wait for guests, which go on without workers, with the calls that they
// make. Tasks are refused.
func TestGuestFinishesOnItsOwnAfterClose(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		inside, goOn := make(chan struct{}), make(chan struct{})
		result := 0
		var task, call error
		wait := testutil.Together(1, func(int) {
			_ = p.Run(func(w *Worker) {
				fib(w, 10)
				close(inside)
				<-goOn
				result = fib(w, 15)
				task = w.Go(func(*Worker) {})
				call = errors.Join(p.Run(func(*Worker) {}), For(p, 10, func(int) {}), Do(p, func(w *Worker) { fib(w, 10) }))
			})
		})
		<-inside
		requireCloses(t, p)
		close(goOn)
		wait()
		require.Equal(t, serialFib(15), result)
		require.Same(t, ErrClosed, task)
		require.NoError(t, call)
	}
}

func TestAGuestIsNotTakenForTheOneBefore(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range 3 {
		require.NoError(t, p.Run(func(w *Worker) {
			require.Zero(t, w.gaveWayAt)
			require.Nil(t, w.cancelScope)
			untilGiveWayIsDue()
			w.giveWay()
			require.NotZero(t, w.gaveWayAt)
		}))
	}
}
