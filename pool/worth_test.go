package pool

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// TestALoopOfFewLongItemsRunsThemAtTheSameTime, from the first loop of a function on: each item goes on for 2 ms, and until the other one has begun.
func TestALoopOfFewLongItemsRunsThemAtTheSameTime(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var begun atomic.Int32
	meet := func(int) {
		if t.Failed() {
			return
		}
		mine, start := begun.Add(1), time.Now()
		for time.Since(start) < 2*time.Millisecond || begun.Load() <= (mine-1)/2*2+1 {
			if time.Since(start) > 5*time.Second {
				t.Error("the other item does not begin")
				begun.Add(1)
				return
			}
			runtime.Gosched()
		}
	}
	both := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			meet(i)
		}
	}
	for range 5 {
		requireAtRest(t, p)
		require.NoError(t, For(p, 2, meet))
		require.NoError(t, ForRange(p, 2, both))
		require.NoError(t, p.Run(func(w *Worker) { require.NoError(t, For(w, 2, meet)) }))
	}
}

// TestThePoolRemembersWhetherLoopsOfFewItemsAreLong, and finds out when that changes.
func TestThePoolRemembersWhetherLoopsOfFewItemsAreLong(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var item time.Duration
	f := func(int) { heist.Spin(item) }
	loops := func(want length) {
		t.Helper()
		require.True(t, testutil.Eventually(func() bool {
			require.NoError(t, For(p, 4, f))
			return p.lengths.of(codeOf(f)) == want
		}))
	}
	require.Equal(t, unknown, p.lengths.of(codeOf(f)))
	loops(short)
	require.True(t, testutil.Eventually(func() bool { // one that the system interrupts is long
		published := p.Stats().Published
		for range 10 {
			require.NoError(t, For(p, 4, f))
		}
		return p.Stats().Published == published
	}), "the caller runs short ones alone")
	item = time.Millisecond
	loops(long)
	item = 0
	loops(short)
}

// TestShortLoopsAreFoundOutWithManyWorkers: how many would have helped in the time of a wake-up makes no loop long.
func TestShortLoopsAreFoundOutWithManyWorkers(t *testing.T) {
	p := newPool(t, WithWorkers(32), WithPinning(PinNone))
	f := func(int) {}
	require.True(t, testutil.Eventually(func() bool {
		require.NoError(t, For(p, 200, f))
		return p.lengths.of(codeOf(f)) == short
	}))
}

func TestTwoFunctionsWithOnePlaceInTheMemory(t *testing.T) {
	var m lengths
	const one = uintptr(0x1000)
	other := one + 1
	for hashOf(other)%uint(len(m.table)) != hashOf(one)%uint(len(m.table)) {
		other++
	}
	m.note(one, long)
	require.Equal(t, long, m.of(one))
	require.Equal(t, unknown, m.of(other))
	m.note(other, short)
	require.Equal(t, short, m.of(other))
	require.Equal(t, unknown, m.of(one))
}

// TestALoopIsLongIfItIsWorthAWakeUp as wake-ups are on this machine, within bounds.
func TestALoopIsLongIfItIsWorthAWakeUp(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	require.Equal(t, worthFactor*heist.TicksIn(leastWakeCost), p.long())
	for _, cost := range []time.Duration{5 * time.Microsecond, 15 * time.Microsecond, 3 * time.Microsecond} {
		for i := range 100 {
			took := heist.TicksIn(cost)
			if i%3 == 0 { // who was put aside for something else
				took *= 50
			}
			p.lengths.noteWake(took)
		}
		require.InEpsilon(t, worthFactor*heist.TicksIn(cost), p.long(), 0.8)
	}
	for range 100 {
		p.lengths.noteWake(heist.TicksIn(time.Second))
	}
	require.Equal(t, worthFactor*heist.TicksIn(mostWakeCost), p.long())
}

// TestALoopThatIsNotWorthAWakeUpIsRunAlone, though it takes longer than the caller needs to see that it is no shorter.
func TestALoopThatIsNotWorthAWakeUpIsRunAlone(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range 100 {
		p.lengths.noteWake(heist.TicksIn(mostWakeCost))
	}
	requireAtRest(t, p)
	require.True(t, testutil.Eventually(func() bool { // a loop that the system interrupts is longer
		before := p.Stats().Published
		var longer atomic.Bool
		require.NoError(t, ForRange(p, 1000, func(lo, hi int) {
			heist.Spin(time.Duration(hi-lo) * 5 * aloneTime / 1000)
			if lo > 0 && hi-lo > 400 {
				longer.Store(true)
			}
		}))
		return p.Stats().Published == before && !longer.Load() // and looks again each aloneTime
	}))
}
