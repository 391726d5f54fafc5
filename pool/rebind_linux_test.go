package pool

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// A CPU that goes offline leaves a thread on another one, without its binding. A worker sees the
// same if another goroutine moves its thread.

func twoCPUs(t testing.TB) (mine, other int) {
	t.Helper()
	skipIfPretended(t.(*testing.T))
	cpus := allowed(t)
	if len(cpus) < 2 {
		t.Skip("this process may use one CPU only")
	}
	return cpus[0], cpus[1]
}

// move gives a thread a CPU.
func move(t testing.TB, tid, cpu int) {
	t.Helper()
	var mask unix.CPUSet
	mask.Set(cpu)
	require.NoError(t, unix.SchedSetaffinity(tid, &mask))
}

// isBoundTo says whether a thread's mask is one CPU.
func isBoundTo(t testing.TB, tid, cpu int) bool {
	t.Helper()
	var mask unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(tid, &mask))
	return mask.Count() == 1 && mask.IsSet(cpu)
}

// threadOf returns the thread of the pool's only worker. The task never waits, so nothing stands in for its worker.
func threadOf(t testing.TB, p *Pool) (tid int) {
	t.Helper()
	asWorker(t, p, func(*Worker) { tid = unix.Gettid() })
	return tid
}

func displaced(p *Pool) uint64 { return p.Stats().Total().Displaced }

func TestADisplacedSleeperIsBoundAgainWhenItWakesUp(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithCPUs(mine), WithPinning(PinCores))
	tid := threadOf(t, p)
	for i := range testutil.Stress(20) {
		requireAtRest(t, p)
		require.EqualValues(t, i, displaced(p))
		move(t, tid, other)
		asWorker(t, p, func(*Worker) { require.Equal(t, []int{mine}, threadCPUs(t)) })
		require.EqualValues(t, i+1, displaced(p), "each time is counted once")
	}
	requireAtRest(t, p)
	require.EqualValues(t, displaced(p), p.Stats().Workers[0].Displaced)
}

func TestADisplacedWorkerIsBoundAgainAtTheEndOfATick(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithCPUs(mine))
	var enough atomic.Bool
	defer enough.Store(true)
	var again func(w *Worker)
	tid := make(chan int, 1)
	again = func(w *Worker) {
		select {
		case tid <- unix.Gettid():
		default:
		}
		if !enough.Load() {
			_ = w.Go(again)
		}
	}
	require.NoError(t, p.Go(again))
	thread := <-tid
	for i := range testutil.Stress(10) {
		move(t, thread, other)
		requireSoon(t, func() bool { return isBoundTo(t, thread, mine) })
		requireSoon(t, func() bool { return displaced(p) == uint64(i+1) })
		// If it were moved again before it has seen that it is back, both moves would count once.
		ran := p.Stats().Total().Tasks
		requireSoon(t, func() bool { return p.Stats().Total().Tasks > ran+2*budget })
	}
}

func requireSoon(t testing.TB, condition func() bool) {
	t.Helper()
	require.True(t, testutil.Eventually(condition))
}

// asWorker runs f in a task of the pool's only worker.
func asWorker(t testing.TB, p *Pool, f func(w *Worker)) {
	t.Helper()
	ended := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) { defer close(ended); f(w) }))
	require.True(t, closed(ended))
}

// TestAWorkerThatStaysAwayIsCountedOnce: here it believes that it is bound to the other CPU,
// so that binding it again does not help.
func TestAWorkerThatStaysAwayIsCountedOnce(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithCPUs(mine), WithPinning(PinCores))
	asWorker(t, p, func(w *Worker) {
		real := w.binding.cpus
		for i := range 3 {
			w.binding.cpus = []int{other}
			for range 1000 {
				w.stay()
				require.True(t, w.binding.away)
				require.EqualValues(t, i+1, displaced(p))
			}
			w.binding.cpus = real
			w.binding.tried -= p.ticks.rebind // so that it tries again
			w.stay()
			require.False(t, w.binding.away)
		}
	})
}

// TestARebindIsTriedNowAndThen: it costs a system call, so a worker does not try it each time but
// again after a while.
func TestARebindIsTriedNowAndThen(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithCPUs(mine), WithPinning(PinCores))
	asWorker(t, p, func(w *Worker) {
		real := w.binding.cpus
		w.binding.cpus = []int{other}
		w.stay()
		tried := w.binding.tried
		w.stay()
		require.True(t, w.binding.tried == tried || w.binding.tried-tried >= p.ticks.rebind)
		w.binding.tried -= p.ticks.rebind
		before := w.binding.tried
		w.stay()
		require.Greater(t, w.binding.tried, before)
		w.binding.cpus = real
		w.stay()
	})
}

// TestAWorkerThatIsBackByChanceIsBoundAgain: its CPU is online again, and the system moved
// its thread there before the worker tried to have it back.
func TestAWorkerThatIsBackByChanceIsBoundAgain(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithCPUs(mine), WithPinning(PinCores))
	asWorker(t, p, func(w *Worker) {
		var both unix.CPUSet
		both.Set(mine)
		both.Set(other)
		require.True(t, testutil.Eventually(func() bool {
			require.NoError(t, unix.SchedSetaffinity(0, &both))
			w.binding.away, w.binding.tried = true, heist.Ticks()-p.ticks.rebind
			back := cpuNow(t) == mine
			w.stay()
			return back
		}))
		require.Equal(t, []int{mine}, threadCPUs(t))
	})
}

// TestAWorkerMayMoveAmongItsCPUs: the CPUs of its node or cache are equally good.
func TestAWorkerMayMoveAmongItsCPUs(t *testing.T) {
	skipIfPretended(t)
	for _, pinning := range []Pinning{PinL3, PinNodes} {
		p := newPool(t, WithPinning(pinning), WithWorkers(1))
		tid := threadOf(t, p)
		for _, cpu := range p.places[0].core.Placement().CPUs {
			requireAtRest(t, p)
			move(t, tid, cpu)
			asWorker(t, p, func(w *Worker) { w.stay(); require.Equal(t, []int{cpu}, threadCPUs(t)) })
		}
		require.Zero(t, displaced(p))
	}
}

// TestAWorkerThatIsAnotherGoroutineIsStillBound: the goroutine before it took its thread along.
func TestAWorkerThatIsAnotherGoroutineIsStillBound(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithCPUs(mine), WithPinning(PinCores))
	for i := range testutil.Stress(20) {
		require.NoError(t, p.Go(func(*Worker) { runtime.Goexit() }))
		requireAtRest(t, p)
		tid := threadOf(t, p)
		requireAtRest(t, p)
		require.True(t, isBoundTo(t, tid, mine))
		move(t, tid, other)
		asWorker(t, p, func(*Worker) { require.Equal(t, []int{mine}, threadCPUs(t)) })
		require.EqualValues(t, i+1, displaced(p))
	}
}

func TestWhoeverIsNotBoundIsNotDisplaced(t *testing.T) {
	mine, other := twoCPUs(t)
	p := newPool(t, WithPinning(PinNone), WithWorkers(2))
	for _, cpu := range []int{mine, other} {
		asWorker(t, p, func(w *Worker) {
			pinned, err := heist.Pin(cpu)
			require.NoError(t, err)
			w.stay()
			require.NoError(t, pinned.Unpin())
		})
		require.NoError(t, p.Run(func(w *Worker) { w.stay() }))
	}
	require.Zero(t, displaced(p))
}
