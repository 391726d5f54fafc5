package pool

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWorkerIDs has all workers busy at once.
func TestWorkerIDs(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range stress(20) {
			n := p.Workers()
			meet := newBarrier(n)
			times := make([]atomic.Int32, p.Slots())
			g := newGroup(p)
			for range n {
				g.GoWorker(func(w *Worker) error {
					times[w.ID()].Add(1)
					if w.Pool() != p {
						t.Error("a worker of another pool")
					}
					meet.wait()
					return nil
				})
			}
			require.NoError(t, g.Wait())
			total := int32(0)
			for id, w := range p.victims() {
				k := times[id].Load()
				require.LessOrEqual(t, k, int32(1), "worker %d", id)
				require.True(t, k == 0 || !w.guest, "guest %d", id)
				total += k
			}
			require.EqualValues(t, n, total)
		}
	})
}

// TestIDsServeForPerWorkerData: an array with an element for each ID needs no lock
// for what runs to its end without a fork; the race detector would tell.
func TestIDsServeForPerWorkerData(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	counts := make([]int, p.Slots())
	var others atomic.Int64 // guests without a slot share their number
	count := func(w *Worker) {
		if w.ID() == len(counts) {
			others.Add(1)
			return
		}
		counts[w.ID()]++
	}
	var tree func(w *Worker, n int) struct{}
	tree = func(w *Worker, n int) struct{} {
		count(w)
		if n > 0 {
			Join(w, tree, n-1, tree, n-1)
		}
		return struct{}{}
	}
	const goroutines = 30
	rounds := stress(20)
	together(goroutines, func(int) {
		for range rounds {
			_ = p.Run(func(w *Worker) { tree(w, 6) })
			_ = p.Go(count)
		}
	})()
	requireAtRest(t, p)
	sum := int(others.Load())
	for _, n := range counts {
		sum += n
	}
	require.Equal(t, goroutines*rounds*(1<<7-1+1), sum)
}

func TestStatsAddUp(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	require.Zero(t, p.Stats().Total().Tasks)
	n := stress(2000)
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
	require.GreaterOrEqual(t, total.Attempts, total.Steals)
	require.GreaterOrEqual(t, total.Parks, uint64(3))
	var sum WorkerStats
	for _, w := range s.Workers {
		sum.Tasks += w.Tasks
		sum.Attempts += w.Attempts
		sum.Steals += w.Steals
		sum.Items += w.Items
		sum.LostRaces += w.LostRaces
		sum.Parks += w.Parks
		sum.GaveWay += w.GaveWay
	}
	require.Equal(t, sum, total)
	for i, w := range p.victims() {
		require.True(t, !w.guest || s.Workers[i].Tasks == 0, "guests run no tasks")
	}
}

// TestTasksOfABusyWorkerAreStolen: the worker that queued them stays busy until the
// others have run them all.
func TestTasksOfABusyWorkerAreStolen(t *testing.T) {
	for _, workers := range []int{2, 4, 16} {
		p := newPool(t, WithWorkers(workers))
		for range stress(100) {
			const n = 300 // so that some of them spill into the injector
			var ran atomic.Int32
			done := make(chan bool)
			require.NoError(t, p.Go(func(w *Worker) {
				for range n {
					_ = w.Go(func(*Worker) { ran.Add(1) })
				}
				done <- eventually(func() bool { return ran.Load() == n })
			}))
			require.True(t, <-done)
		}
	}
}
