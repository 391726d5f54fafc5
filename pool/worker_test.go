package pool

import (
	"context"
	"math"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool/inspect"
)

// TestWorkerIDs has all workers busy at once.
func TestWorkerIDs(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			n := p.Workers()
			meet := testutil.NewBarrier(n)
			times := make([]atomic.Int32, p.Slots())
			g := newGroup(p)
			for range n {
				g.GoWorker(func(w *Worker) error {
					times[w.ID()].Add(1)
					if w.Pool() != p {
						t.Error("a worker of another pool")
					}
					meet.Wait()
					return nil
				})
			}
			require.NoError(t, g.Wait())
			total := int32(0)
			for id := range times {
				k := times[id].Load()
				require.LessOrEqual(t, k, int32(1), "worker %d", id)
				total += k
			}
			require.EqualValues(t, n, total)
		}
	})
}

// TestIDsAreBelowSlots, and no two functions that run have the same, also while many wait.
func TestIDsAreBelowSlots(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var mu sync.Mutex
	running := make(map[int]int)
	meet := testutil.NewBarrier(100)
	testutil.Together(100, func(who int) {
		f := func(w *Worker) {
			mu.Lock()
			running[w.ID()]++
			mu.Unlock()
			w.Block(meet.Wait)
			if w.ID() >= p.Slots() {
				t.Error(w.ID(), p.Slots())
			}
		}
		if who%2 == 0 {
			_ = p.Run(f)
		} else {
			_ = p.Go(f)
		}
	})()
	requireAtRest(t, p)
	require.Len(t, running, 100)
}

func TestStatsAddUp(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	require.Zero(t, p.Stats().Total().Tasks)
	n := testutil.Stress(2000)
	for range n {
		require.NoError(t, p.Go(func(w *Worker) { fib(w, 3) }))
	}
	require.NoError(t, p.Run(func(w *Worker) { stolenJoin(w, nop[int], nop[int]) }))
	requireAtRest(t, p)

	s := p.Stats()
	require.Len(t, s.Workers, len(p.victims()))
	total := s.Total()
	require.EqualValues(t, n, total.Tasks)
	require.NotZero(t, total.Steals)
	require.GreaterOrEqual(t, total.Items, total.Steals)
	require.GreaterOrEqual(t, total.Looks, total.Steals)
	require.GreaterOrEqual(t, total.Parks, uint64(3))
	for _, field := range reflect.VisibleFields(reflect.TypeFor[inspect.WorkerStats]()) {
		if field.Type.Kind() != reflect.Uint64 {
			continue
		}
		var sum uint64
		for _, w := range s.Workers {
			sum += reflect.ValueOf(w).FieldByIndex(field.Index).Uint()
		}
		require.Equal(t, sum, reflect.ValueOf(total).FieldByIndex(field.Index).Uint(), field.Name)
	}
}

// TestTasksOfABusyWorkerAreStolen: the worker that queued them stays busy until the
// others have run them all.
func TestTasksOfABusyWorkerAreStolen(t *testing.T) {
	for _, workers := range []int{2, 4, 16} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(100) {
			const n = 300 // so that some of them spill into the injector
			var ran atomic.Int32
			done := make(chan bool)
			require.NoError(t, p.Go(func(w *Worker) {
				for range n {
					_ = w.Go(func(*Worker) { ran.Add(1) })
				}
				done <- testutil.Eventually(func() bool { return ran.Load() == n })
			}))
			require.True(t, <-done)
		}
	}
}

// TestWhoEndsAWaitLetsTheWaiterGoOn before it searches and sleeps: on one P, the waiter goes on before the
// worker has gone to sleep.
func TestWhoEndsAWaitLetsTheWaiterGoOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(2), WithPinning(PinNone)) // a guest computes in the stead of one
	while := func(condition func() bool) {
		for condition() {
			runtime.Gosched()
		}
	}
	waits := func(ws *waiters) bool {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		return ws.over != nil
	}
	for name, wait := range map[string]func() (parks uint64){
		"future": func() uint64 {
			ready, begun := make(chan *Future[int], 1), make(chan struct{})
			f := Async(p, func(*Worker) (int, error) {
				close(begun)
				f := <-ready
				while(func() bool { return !waits(&f.waiters) })
				return 1, nil
			})
			<-begun // otherwise the waiter would begin it
			ready <- f
			_, _ = f.Wait(context.Background())
			return p.Stats().Total().Parks
		},
		"group": func() uint64 {
			g := newGroup(p)
			g.Go(func() error { while(func() bool { return !waits(&g.ended) }); return nil })
			_ = g.Wait()
			return p.Stats().Total().Parks
		},
		"fork": func() (parks uint64) {
			_ = p.Run(func(w *Worker) {
				stolenJoin(w, nop[int], func(*Worker) int { while(func() bool { return w.waitsFor.Load() == nil }); return 1 })
				parks = p.Stats().Total().Parks
			})
			return parks
		},
	} {
		t.Run(name, func(t *testing.T) {
			const rounds = 40
			first := 0
			for range rounds {
				requireAtRest(t, p)
				sawGaps(p, math.MaxInt64) // so that no worker stays awake, and gives way then
				before := p.Stats().Total().Parks
				if wait() == before {
					first++
				}
			}
			require.Greater(t, first, rounds/4, "the system may take the worker's thread away")
		})
	}
}

// TestSleepIsNotMeasuredAsWork: a worker that finds enough others searching goes to sleep
// at once, and the sleep must not count as the time of its next tasks.
func TestSleepIsNotMeasuredAsWork(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	require.True(t, whenParked(p))
	since := make(chan int64, 1)
	require.NoError(t, p.Go(func(w *Worker) {
		for state := p.core.Sleep.Load(); state.Searching() > 0 || state.Sleepers() == 0; state = p.core.Sleep.Load() {
			runtime.Gosched() // a wait would lend the place
		}
		w.tick.since, w.tick.tasks = 1, 1
		p.core.Sleep.Add(policy.OneSearching) // a worker searches
		_, found := w.searchWork()
		p.core.Sleep.Add(-policy.OneSearching)
		if found || w.place.core.Searching {
			t.Error("it searched")
		}
		since <- w.tick.since
	}))
	require.Zero(t, <-since, "the time until the next task counts")
}
