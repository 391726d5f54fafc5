package pool

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// # GOMAXPROCS

// setPs sets GOMAXPROCS for the rest of the test.
func setPs(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestWorkersFollowGOMAXPROCS(t *testing.T) {
	cpus, err := thisMachine.allowed()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("there is one CPU")
	}
	setPs(t, 1)
	p := newPool(t)
	require.Equal(t, 1, p.Workers())
	for _, n := range []int{2, 1, 2, 1000} {
		runtime.GOMAXPROCS(n)
		want := min(n, len(cpus))
		require.True(t, testutil.Eventually(func() bool { return p.Workers() == want }), n)
		var sum atomic.Int64
		require.NoError(t, For(p, 1000, func(i int) { sum.Add(int64(i)) }))
		require.EqualValues(t, 499500, sum.Load())
	}
}

// TestAHotPoolLeavesAPToTheRest, whatever GOMAXPROCS becomes.
func TestAHotPoolLeavesAPToTheRest(t *testing.T) {
	onMachine(t, pretended(1, 4))
	setPs(t, 2)
	p := newPool(t, WithTuning(Tuning{HotWorker: true}))
	require.Equal(t, 1, p.Workers())
	for _, n := range []int{4, 1, 3, 1000} {
		runtime.GOMAXPROCS(n)
		want := max(1, min(n, 4)-1)
		require.True(t, testutil.Eventually(func() bool { return p.Workers() == want }), n)
	}
}

// TestABusyPoolFollowsGOMAXPROCS, also if Workers is not called and the pool was asleep.
func TestABusyPoolFollowsGOMAXPROCS(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("there is one CPU")
	}
	setPs(t, 1)
	p := newPool(t)
	runtime.GOMAXPROCS(2)
	time.Sleep(followPeriod)
	var tasks atomic.Int64
	for range 10 {
		require.NoError(t, p.Go(func(*Worker) { tasks.Add(1) }))
	}
	require.True(t, testutil.Eventually(func() bool { return p.core.Size() == 2 && tasks.Load() == 10 }))

	var over atomic.Bool
	defer over.Store(true)
	var again func(w *Worker)
	again = func(w *Worker) {
		if work(1000); !over.Load() {
			_ = w.Go(again)
		}
	}
	require.NoError(t, p.Go(again))
	runtime.GOMAXPROCS(1)
	require.True(t, testutil.Eventually(func() bool { return p.core.Size() == 1 }))
}

func TestAChosenNumberOfWorkersStays(t *testing.T) {
	setPs(t, 1)
	fixed, resized := newPool(t, WithWorkers(3)), newPool(t, WithTuning(Tuning{MaxWorkers: 5}))
	require.NoError(t, resized.Resize(4))
	for _, n := range []int{2, 1} {
		runtime.GOMAXPROCS(n)
		time.Sleep(followPeriod + time.Millisecond)
		require.Equal(t, 3, fixed.Workers())
		require.Equal(t, 4, resized.Workers())
	}
}

// TestBoundWorkersLeaveAPToOthers: they do not give way, so the pool raises GOMAXPROCS unless a P is left or
// the program says otherwise.
func TestBoundWorkersLeaveAPToOthers(t *testing.T) {
	n := len(allowed(t)) // or there are Ps to spare
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	for _, c := range []struct {
		options []Option
		more    int
	}{
		{[]Option{WithPinning(PinNone)}, 0},
		{[]Option{WithPinning(PinCores)}, 1},
		{[]Option{WithPinning(PinL3)}, 1},
		{[]Option{WithPinning(PinCores), WithTuning(Tuning{FreePs: -1})}, 0},
		{[]Option{WithPinning(PinCores), WithTuning(Tuning{FreePs: 2})}, 2},
		{[]Option{WithPinning(PinCores), WithWorkers(n + 1)}, 1},
		{[]Option{WithPinning(PinCores), WithWorkers(max(n-1, 1))}, max(2-n, 0)},
	} {
		p, err := New(c.options...)
		if err != nil {
			t.Skip(err) // the system does not bind
		}
		require.Equal(t, n+c.more, runtime.GOMAXPROCS(0))
		time.Sleep(followPeriod)
		before := p.Workers()
		require.Equal(t, before, p.Workers())
		require.NoError(t, p.Close())
		require.Equal(t, n, runtime.GOMAXPROCS(0))
	}
}

// # Giving way

// TestARecursionGivesWay, although nearly all of its forks do not look at the clock.
func TestARecursionGivesWay(t *testing.T) {
	setPs(t, 1)
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	requireAtRest(t, p)
	requireGivesWay(t, p, func(w *Worker) { fib(w, 27) })
}

// requireGivesWay requires that f gives way often if it is called for 20 ms. It calls f for longer if other
// goroutines compute for long, because after that the worker does not give way for a while.
func requireGivesWay(t *testing.T, p *Pool, f func(w *Worker)) {
	t.Helper()
	before := p.Stats().Total().GaveWay
	gaveWay := func() bool { return p.Stats().Total().GaveWay > before+20 }
	done := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		defer close(done)
		for start := time.Now(); time.Since(start) < 20*time.Millisecond || !gaveWay() && time.Since(start) < time.Second; {
			f(w)
		}
	}))
	<-done
	require.True(t, gaveWay())
}

// TestLoopsThatAreNotWorthAWorkerGiveWay: each of them runs in its caller alone.
func TestLoopsThatAreNotWorthAWorkerGiveWay(t *testing.T) {
	setPs(t, 1)
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	p.lengths.wakeCost.Store(p.ticks.mostWakeCost)
	requireAtRest(t, p)
	requireGivesWay(t, p, func(w *Worker) {
		require.NoError(t, ForRange(w, 1000, func(lo, hi int) { heist.Spin(time.Duration(hi-lo) * 5 * aloneTime / 1000) }))
	})
}

// TestForksAtTheRootGiveWay: in a recursion whose first half is always small, as in a list, all forks are
// equally near to the root.
func TestForksAtTheRootGiveWay(t *testing.T) {
	setPs(t, 1)
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	requireAtRest(t, p)
	var list func(w *Worker, n int) int
	leaf := func(*Worker, int) int { heist.Spin(10 * time.Microsecond); return 1 }
	list = func(w *Worker, n int) int {
		if n == 0 {
			return 0
		}
		x, y := Join(w, leaf, n, list, n-1)
		return x + y
	}
	requireGivesWay(t, p, func(w *Worker) {
		if n := list(w, 2000); n != 2000 {
			t.Errorf("the list has %d elements", n)
		}
	})
}

// TestSmallRecursionsStayOnTheFastPath: levels are found anew for each tree.
func TestSmallRecursionsStayOnTheFastPath(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		fib(w, 30)
		grown := 0
		for range 1000 {
			fib(w, 8)
			for _, s := range w.stacks {
				if s.(*frames[application[int, int], int]).levels > policy.AlwaysPublic {
					grown++ // it was interrupted in the middle
				}
			}
		}
		require.Less(t, grown, 500)
	}))
}
