package pool

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// tally counts how often each of n tasks ran.
type tally []atomic.Int32

func (c tally) requireEachOnce(t testing.TB) {
	t.Helper()
	require.True(t, testutil.Eventually(func() bool {
		for i := range c {
			if c[i].Load() == 0 {
				return false
			}
		}
		return true
	}), "tasks were lost")
	for i := range c {
		require.EqualValues(t, 1, c[i].Load(), "task %d", i)
	}
}

func TestEveryTaskRunsOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		const goroutines = 4
		n := testutil.Stress(100_000) / goroutines * goroutines
		ran := make(tally, n)
		// Half of the tasks come from outside, and each of them brings another.
		testutil.Together(goroutines, func(who int) {
			for i := who; i < n/2; i += goroutines {
				err := p.Go(func(w *Worker) {
					ran[i].Add(1)
					if err := w.Go(func(*Worker) { ran[n/2+i].Add(1) }); err != nil {
						t.Error(err)
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})()
		for i := n / 2 * 2; i < n; i++ {
			ran[i].Add(1)
		}
		ran.requireEachOnce(t)
	})
}

func TestTasksOnASingleP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, workers := range []int{1, 2, 16} {
		p := newPool(t, WithWorkers(workers))
		ran := make(tally, testutil.Stress(10_000))
		for i := range ran {
			require.NoError(t, p.Go(func(*Worker) { ran[i].Add(1) }))
		}
		ran.requireEachOnce(t)
		for range testutil.Stress(20) {
			require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(12), fib(w, 12)) }))
			require.NoError(t, p.Run(func(w *Worker) {
				if workers > 1 {
					stolenJoin(w, nop[int], nop[int])
				}
			}))
		}
	}
}

// TestTasksThatOverflowTheRunQueue spawns more in one task than a run queue holds.
func TestTasksThatOverflowTheRunQueue(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for _, n := range []int{255, 256, 257, 385, 1000, testutil.Stress(50_000)} {
			ran := make(tally, n)
			require.NoError(t, p.Go(func(w *Worker) {
				for i := range n {
					if err := w.Go(func(*Worker) { ran[i].Add(1) }); err != nil {
						t.Error(err)
					}
				}
			}))
			ran.requireEachOnce(t)
		}
	})
}

// TestTasksFromOutsideDoNotStarve behind tasks that spawn others for ever.
func TestTasksFromOutsideDoNotStarve(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		var enough atomic.Bool
		var again func(w *Worker)
		again = func(w *Worker) {
			if !enough.Load() {
				_ = w.Go(again)
			}
		}
		for range 10 * workers {
			require.NoError(t, p.Go(again))
		}
		// With a worker on each P, the test itself has to wait until the runtime takes
		// one of them away.
		for range testutil.Stress(25) {
			ran := make(chan struct{})
			require.NoError(t, p.Go(func(*Worker) { close(ran) }))
			require.True(t, closed(ran))
		}
		enough.Store(true)
	}
}

func TestGoAllocatesNothing(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	task := func(*Worker) {}
	spawn := func(w *Worker) { _ = w.Go(task) }
	for range 10_000 { // the injector comes to its greatest length
		_ = p.Go(task)
	}
	requireAtRest(t, p)
	require.Zero(t, allocsPerRun(1000, func() { _ = p.Go(task) }))
	require.Zero(t, allocsPerRun(1000, func() { _ = p.Go(spawn) }))
}

func TestGoRefusesNil(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.EqualError(t, p.Go(nil), "pool: Pool.Go was given a nil function")
	err := make(chan error)
	require.NoError(t, p.Go(func(w *Worker) { err <- w.Go(nil) }))
	require.EqualError(t, <-err, "pool: Worker.Go was given a nil function")
	require.NoError(t, p.Run(func(w *Worker) {
		require.EqualError(t, w.Go(nil), "pool: Worker.Go was given a nil function")
	}))
}

func TestCloseFinishesWhatWasAccepted(t *testing.T) {
	for _, workers := range sizes {
		for range testutil.Stress(3) {
			p := newPool(t, WithWorkers(workers))
			n := testutil.Stress(5000)
			accepted := make(tally, 2*n)
			var refused atomic.Int64
			for i := range n {
				require.NoError(t, p.Go(func(w *Worker) {
					accepted[i].Add(1)
					fib(w, i%5)
					// Of these, some come before Close and some after it.
					if w.Go(func(*Worker) { accepted[n+i].Add(1) }) != nil {
						refused.Add(1)
					}
				}))
			}
			requireCloses(t, p)
			require.Zero(t, refused.Load())
			for i := range accepted {
				require.EqualValues(t, 1, accepted[i].Load(), "task %d of %d", i, len(accepted))
			}
		}
	}
}

func TestCloseWaitsForTheTaskThatRuns(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	begun, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	require.NoError(t, p.Go(func(w *Worker) {
		close(begun)
		<-release
		fib(w, 10)
		ended.Store(true)
	}))
	<-begun
	wait := testutil.Together(3, func(int) {
		_ = p.Close()
		if !ended.Load() {
			t.Error("Close returned while a task ran")
		}
	})
	require.True(t, testutil.Eventually(p.core.Closing.Load))
	require.ErrorIs(t, p.Go(func(*Worker) { t.Error("ran") }), ErrClosed)
	close(release)
	wait()
}

func TestClosedPoolRefusesEverything(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var worker, guest *Worker
	inTask(t, p, func(w *Worker) { worker = w })
	require.NoError(t, p.Run(func(w *Worker) { guest = w }))
	requireCloses(t, p)
	require.ErrorIs(t, p.Go(func(*Worker) { t.Error("ran") }), ErrClosed)
	require.ErrorIs(t, p.Run(func(*Worker) { t.Error("ran") }), ErrClosed)
	require.ErrorIs(t, worker.Go(func(*Worker) { t.Error("ran") }), ErrClosed)
	require.ErrorIs(t, guest.Go(func(*Worker) { t.Error("ran") }), ErrClosed)
	g := newGroup(p)
	g.Go(func() error { t.Error("ran"); return nil })
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.Equal(t, 2, p.Workers())
	require.Len(t, p.Stats().Workers, len(p.victims()))
}

func TestCloseTwice(t *testing.T) {
	for range testutil.Stress(50) {
		p := newPool(t, WithWorkers(2))
		for range 100 {
			require.NoError(t, p.Go(func(w *Worker) { fib(w, 5) }))
		}
		var first, again atomic.Int64
		testutil.Together(4, func(int) {
			switch err := p.Close(); {
			case err == nil:
				first.Add(1)
			case errors.Is(err, ErrClosed):
				again.Add(1)
			}
			if state := p.core.Sleep.Load(); state.Sleepers() != 2 || state.Searching() != 0 || p.core.Active() != 0 {
				t.Errorf("Close returned while somebody worked: %x", state)
			}
		})()
		require.EqualValues(t, 1, first.Load())
		require.EqualValues(t, 3, again.Load())
		require.ErrorIs(t, p.Close(), ErrClosed)
	}
}

func TestCloseInsideATaskIsAnError(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		result := make(chan error)
		refused := func() {
			t.Helper()
			err := <-result
			require.ErrorContains(t, err, "Close or Shutdown was called inside a task of the same pool")
			require.NotErrorIs(t, err, ErrClosed)
		}
		require.NoError(t, p.Go(func(*Worker) { result <- p.Close() }))
		refused()
		require.NoError(t, p.Go(func(*Worker) { // by way of a guest
			_ = p.Run(func(*Worker) { result <- p.Close() })
		}))
		refused()
		if workers > 1 {
			wait := testutil.Together(1, func(int) {
				_ = p.Run(func(w *Worker) {
					stolenJoin(w, nop[int], func(*Worker) int { result <- p.Close(); return 0 })
				})
			})
			refused()
			wait()
		}
		g := newGroup(p)
		g.Go(func() error { result <- p.Close(); return nil })
		refused()
		require.NoError(t, g.Wait())
	}
}

// TestCloseOfAnotherPoolInsideATask is nothing special.
func TestCloseOfAnotherPoolInsideATask(t *testing.T) {
	a, b := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
	result := make(chan error)
	require.NoError(t, a.Go(func(*Worker) { result <- b.Close() }))
	require.NoError(t, <-result)
}

// TestCloseAmongSubmitters: every task that was accepted ran exactly once when
// Close returns, and every one that was refused never runs.
func TestCloseAmongSubmitters(t *testing.T) {
	for round := range testutil.Stress(60) {
		p, err := New(WithWorkers(1 + round%4))
		require.NoError(t, err)
		const goroutines, each = 6, 1000
		var accepted, ran [goroutines]atomic.Int64
		start := testutil.NewBarrier(goroutines + 1)
		wait := testutil.Together(goroutines, func(who int) {
			start.Wait()
			count := func(*Worker) { ran[who].Add(1) }
			for i := range each {
				var err error
				switch who {
				case 0, 1:
					err = p.Go(count)
				case 2: // a task that spawns
					err = p.Go(func(w *Worker) {
						count(w)
						for range 3 {
							if w.Go(count) == nil {
								accepted[who].Add(1)
							}
						}
					})
				case 3:
					err = p.Run(func(w *Worker) {
						w.Do(count, func(*Worker) {}, func(*Worker) {})
					})
				case 4:
					err = p.Run(func(w *Worker) {
						if w.Go(count) == nil {
							accepted[who].Add(1)
						}
						accepted[who].Add(-1) // for the one below
					})
				case 5:
					g := newGroup(p)
					g.Go(func() error { count(nil); return nil })
					err = g.Wait()
				}
				if err == nil {
					accepted[who].Add(1)
				} else if !errors.Is(err, ErrClosed) {
					t.Error(err)
				} else if i%100 > 10 {
					return
				}
			}
		})
		start.Wait()
		for range rand.N(2000) {
			runtime.Gosched()
		}
		requireCloses(t, p)
		before := [goroutines]int64{}
		for i := range ran {
			before[i] = ran[i].Load()
		}
		wait()
		for i := range ran {
			require.Equal(t, accepted[i].Load(), ran[i].Load(), "submitter %d", i)
			if i != 3 { // Run may have got in before Close and end after it
				require.Equal(t, before[i], ran[i].Load(), "submitter %d: a task ran after Close", i)
			}
		}
	}
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	require.True(t, testutil.Eventually(func() bool { runtime.GC(); return runtime.NumGoroutine() < 100 }))
	before := runtime.NumGoroutine()
	for range testutil.Stress(100) {
		p, err := New(WithWorkers(4))
		require.NoError(t, err)
		for range 10 {
			require.NoError(t, p.Go(func(w *Worker) { fib(w, 5) }))
		}
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 8) }))
		require.NoError(t, p.Close())
	}
	testutil.NoMoreGoroutines(t, before)
}

func TestCloseOfAnIdlePool(t *testing.T) {
	for range testutil.Stress(100) {
		p, err := New(WithWorkers(1 + rand.N(8)))
		require.NoError(t, err)
		if rand.N(2) == 0 {
			require.True(t, whenParked(p))
		}
		requireCloses(t, p)
	}
}
