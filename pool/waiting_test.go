package pool

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// forScarcePools runs a test with pools that have hardly a worker to spare.
func forScarcePools(t *testing.T, test func(t *testing.T, p *Pool)) {
	for name, options := range map[string][]Option{
		"default":    nil,
		"one worker": {WithWorkers(1)},
		"bound":      {WithWorkers(2), WithPinning(PinCores)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, options...)
			require.True(t, testutil.Returns(func() { test(t, p) }), "it hangs")
		})
	}
}

func TestFuturesMayWaitForFutures(t *testing.T) {
	forScarcePools(t, func(t *testing.T, p *Pool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for round := range testutil.Stress(1000) {
			how := []context.Context{context.Background(), ctx}[round%2] // in place, or not
			f := Async(p, func(w *Worker) (int, error) { return fib(w, 5), nil })
			for range 8 {
				before := f
				f = Async(p, func(*Worker) (int, error) {
					n, err := before.Wait(how)
					return n + 1, err
				})
			}
			n, err := f.Wait(how)
			require.NoError(t, err)
			require.Equal(t, serialFib(5)+8, n)
		}
	})
}

func TestATaskMayBlockForATaskBehindIt(t *testing.T) {
	forScarcePools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(1000) {
			c, done := make(chan int), make(chan int, 1)
			require.NoError(t, p.Go(func(w *Worker) {
				stolenOrNot := func(w *Worker) int { return fib(w, 6) }
				both(w, stolenOrNot, stolenOrNot)
				w.Block(func() { done <- <-c })
			}))
			require.NoError(t, p.Go(func(w *Worker) { fib(w, 6); w.Block(func() { c <- 1 }) }))
			require.Equal(t, 1, <-done)
		}
	})
}

// TestGuestsMayWaitForLoopsOfTheirGoroutines: there are more guests than places for them, as in a server whose
// handlers call loops whose bodies start goroutines that call loops.
func TestGuestsMayWaitForLoopsOfTheirGoroutines(t *testing.T) {
	forScarcePools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			var items atomic.Int64
			loop := func() {
				if err := For(p, 100, func(int) { items.Add(1) }, Grain(10)); err != nil {
					t.Error(err)
				}
			}
			testutil.Together(16, func(int) {
				err := For(p, 4, func(int) {
					var inner sync.WaitGroup
					inner.Go(loop)
					inner.Wait()
				}, Grain(1))
				if err != nil {
					t.Error(err)
				}
				_ = p.Run(func(w *Worker) {
					w.Block(func() {
						var inner sync.WaitGroup
						inner.Go(loop)
						inner.Wait()
					})
				})
			})()
			require.EqualValues(t, 16*5*100, items.Load())
		}
	})
}

func TestAThousandTasksMayWaitForTheirPredecessors(t *testing.T) {
	forScarcePools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			const n = 1000
			c := make([]chan struct{}, n+1)
			for i := range c {
				c[i] = make(chan struct{})
			}
			for i := range n {
				require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { <-c[i] }); close(c[i+1]) }))
			}
			close(c[0])
			<-c[n]
		}
	})
}

func TestTwoPoolsMayWaitForEachOthersFutures(t *testing.T) {
	for range testutil.Stress(300) {
		a, b := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
		require.True(t, testutil.Returns(func() {
			background := context.Background()
			first := Async(a, func(*Worker) (int, error) { return 1, nil })
			second := Async(b, func(*Worker) (int, error) { return first.Wait(background) })
			third := Async(a, func(*Worker) (int, error) {
				inner := Async(b, func(*Worker) (int, error) { return second.Wait(background) })
				return inner.Wait(background)
			})
			n, err := third.Wait(background)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}), "they wait for each other")
		requireCloses(t, a)
		requireCloses(t, b)
	}
}

func TestNoMoreTasksThanWorkersWhileOneWaitsInsideABlock(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		var c crowd
		done := make(chan error, 1)
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() {
				g := newGroup(p)
				for range 5 {
					g.Go(func() error { c.enter(); runtime.Gosched(); c.leave(); return nil })
				}
				done <- g.Wait()
			})
		}))
		require.NoError(t, <-done)
		require.EqualValues(t, 1, c.most.Load())
	}
}

func TestWhoWaitsForItselfGetsAnErrorAtOnce(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g := newGroup(p)
	own := make(chan error, 2)
	g.Go(func() error { own <- g.Wait(); return nil })
	require.NoError(t, g.Wait())
	require.ErrorIs(t, <-own, ErrOwnWait)
	var f *Future[int]
	ready := make(chan struct{})
	f = Async(p, func(*Worker) (int, error) {
		<-ready
		_, err := f.Wait(context.Background())
		own <- err
		return 1, nil
	})
	close(ready)
	n, err := f.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ErrorIs(t, <-own, ErrOwnWait)
}

// TestAWaiterIsSpareWhereOthersLookForWorkInVain, and only then looks at its latch for longer.
func TestAWaiterIsSpareWhereOthersLookForWorkInVain(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	spare := func(w *Worker, state policy.State) bool {
		before := p.core.Sleep.Load()
		defer setState(w, before)
		setState(w, state)
		return w.isSpare()
	}
	requireAtRest(t, p) // a new worker falls asleep, and that would be undone
	require.NoError(t, p.Run(func(w *Worker) {
		require.True(t, spare(w, 0), "a guest makes room for one more")
		require.True(t, spare(w, policy.OneSleeper))
		require.False(t, spare(w, -policy.OneSleeper), "more guests than sleepers")
		require.True(t, spare(w, policy.OneSearching-policy.OneSleeper))
	}))
	onlyWorker(t, p, func(w *Worker) {
		require.False(t, spare(w, 0), "all have something to do")
		require.True(t, spare(w, policy.OneSleeper))
		require.True(t, spare(w, policy.OneSearching))
	})
}
