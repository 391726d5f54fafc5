package pool

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// These tests check promises that mutants of the code broke without failing any other test.

// TestAPanicStopsThePartsOfOtherThieves, not only the caller's and the one in which it happened.
func TestAPanicStopsThePartsOfOtherThieves(t *testing.T) {
	const n, thieves = 10_000_000, 3
	for _, g := range [][]Granularity{nil, {Grain(1)}} {
		p := newPool(t, WithWorkers(thieves), WithPinning(PinNone))
		for range testutil.Stress(10) {
			var seen sync.Map
			var inside, after atomic.Int64
			var exploded atomic.Bool
			require.NoError(t, p.Run(func(guest *Worker) {
				err, ok := testutil.Caught(func() {
					_ = ForRange(guest, n, func(w *Worker, lo, hi int) {
						if exploded.Load() {
							after.Add(int64(hi - lo))
						}
						work(50 * (hi - lo))
						if w == guest {
							return
						}
						if _, was := seen.LoadOrStore(w, true); !was {
							inside.Add(1)
						}
						if inside.Load() >= 2 && exploded.CompareAndSwap(false, true) {
							explode("boom")
						}
					}, g...)
				}).(*PanicError)
				require.True(t, ok)
				require.Equal(t, "boom", err.Value)
			}))
			require.Less(t, after.Load(), int64(n/10), "others went on")
			requireAtRest(t, p)
		}
	}
}

// TestTheRestOfALoopStaysDivisible, however cheap its items were so far: dear ones may follow. If calls may
// have a cost of their own, a chunk is no longer than 32 times the longest chunk before it.
func TestTheRestOfALoopStaysDivisible(t *testing.T) {
	const n = 1 << 20
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		r := restOf(w, 0, n, policy.Pace{}, nil)
		require.NoError(t, r.run(someCode, func(_ *Worker, lo, hi int) {
			if hi-lo > (n-lo)/2+1 {
				t.Errorf("the items from %d on were a single chunk of %d", lo, hi-lo)
			}
		}))
		longest := 1
		require.NoError(t, ForRange(w, n, func(_ *Worker, lo, hi int) {
			if hi-lo > 32*longest {
				t.Errorf("the items from %d on were a single chunk of %d after %d", lo, hi-lo, longest)
			}
			longest = max(longest, hi-lo)
		}))
	}))
}

// TestEveryFunctionOfDoCanBeStolenByOneWhoFallsIdleLater: not only the oldest forks, which are public from
// the beginning, but all.
func TestEveryFunctionOfDoCanBeStolenByOneWhoFallsIdleLater(t *testing.T) {
	const n = 12
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(50) {
		release := occupy(p)
		var begun atomic.Int32
		fs := make([]func(*Worker), n)
		fs[0] = func(*Worker) {
			release()
			for begun.Load() < n-1 {
				runtime.Gosched()
			}
		}
		for i := 1; i < n; i++ {
			fs[i] = func(*Worker) { begun.Add(1) }
		}
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { w.Do(fs...); close(done) }))
		require.True(t, closed(done), "%d of %d were stolen", begun.Load(), n-1)
	}
}

// countingContext counts the waits for its end, by context.AfterFunc or by a context derived from it.
type countingContext struct {
	context.Context
	registered atomic.Int64
}

func (c *countingContext) AfterFunc(func()) (stop func() bool) {
	c.registered.Add(1)
	var once sync.Once
	return func() (first bool) {
		once.Do(func() { first = true; c.registered.Add(-1) })
		return first
	}
}

// TestNothingPilesUpAtAContextThatLivesOn: a server may use one context for all of its life.
func TestNothingPilesUpAtAContextThatLivesOn(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := &countingContext{Context: ended}
	p := newPool(t, WithWorkers(2), WithQueueBound(4))
	for range testutil.Stress(200) {
		n, err := Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, p.Submit(ctx, func(*Worker) {}))
		require.NoError(t, For(p.With(ctx), 100, func(int) { work(10) }))
		require.NoError(t, p.With(ctx).Run(func(w *Worker) { fib(w, 5) }))
		g, _ := p.Group(ctx)
		g.Go(func() error { return nil })
		require.NoError(t, g.Wait())
		require.NoError(t, p.Pause(ctx))
		p.Resume()
	}
	requireAtRest(t, p)
	require.NoError(t, p.Shutdown(ctx))
	require.Zero(t, ctx.registered.Load())
}

// TestResizeWakesSomebodyForForksThatWereLeftAlone because there were as many guests that compute as sleeping
// places.
func TestResizeWakesSomebodyForForksThatWereLeftAlone(t *testing.T) {
	for range testutil.Stress(100) {
		p := newPool(t, WithWorkers(1), WithTuning(Tuning{MaxWorkers: 2}), WithPinning(PinNone))
		published, stolen := make(chan struct{}), make(chan struct{})
		guest := testutil.Together(1, func(int) {
			_ = p.Run(func(w *Worker) {
				w.Do(func(*Worker) {
					close(published)
					<-stolen
				}, func(*Worker) { close(stolen) })
			})
		})
		<-published
		require.NoError(t, p.Resize(2))
		require.True(t, testutil.Returns(guest), "the fork was not stolen")
	}
}

func TestDefaultsOfSizeAndSpares(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Resize(procs))
	require.Error(t, p.Resize(procs+1))
	require.NoError(t, p.Resize(1))

	large := newPool(t, WithWorkers(procs+3))
	require.NoError(t, large.Resize(procs+3))
	require.Error(t, large.Resize(procs+4))

	// Some of the stand-ins are kept.
	const waiting = 50
	release := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(waiting)
	for range waiting {
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() { inside.Done(); <-release })
		}))
	}
	inside.Wait()
	close(release)
	requireAtRest(t, p)
	s := &p.core.Placements()[0]
	idle := s.Idle
	require.True(t, testutil.Eventually(func() bool { return idle() == s.Places+core.Spares }), "%d are idle", idle())
	n := 0
	require.True(t, testutil.Eventually(func() bool {
		n = 0
		p.workers.each(func(w *Worker) {
			if !w.core.Guest {
				n++
			}
		})
		return n == idle()
	}), "%d workers, %d of them idle", n, idle())
}

func TestNegativeSpinIsNone(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTuning(Tuning{Spin: -1}))
	require.Negative(t, p.places[0].search.Backoff.Spin)
	p = newPool(t, WithWorkers(1))
	require.Zero(t, p.places[0].search.Backoff.Spin, "the default")
}

// TestOneLookInEightIsAtTheInjectorOfAnotherNode, each in turn, where an injector comes first.
func TestOneLookInEightIsAtTheInjectorOfAnotherNode(t *testing.T) {
	w := &Worker{pool: &Pool{layout: layout{nodes: []node{{}, {nearby: []int{1, 0, 2}}, {}}}}}
	w.core.Placement = &core.Placement{Node: 1}
	w.place = new(place)
	looks := map[int]int{}
	for range 24 * otherNodes {
		looks[w.pollNode()]++
	}
	require.Equal(t, map[int]int{1: 24*(otherNodes-1) + 8, 0: 8, 2: 8}, looks)
}
