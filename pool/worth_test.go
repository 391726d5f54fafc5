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
	for hashOf(other)%uint(len(m.loops)) != hashOf(one)%uint(len(m.loops)) {
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
	require.Equal(t, worthFactor*heist.TicksIn(leastWakeCost), p.long(heist.Ticks()))
	for _, cost := range []time.Duration{5 * time.Microsecond, 15 * time.Microsecond, 3 * time.Microsecond} {
		for i := range 100 {
			took := heist.TicksIn(cost)
			if i%3 == 0 { // who was put aside for something else
				took *= 50
			}
			p.lengths.noteWake(took)
		}
		require.InEpsilon(t, worthFactor*heist.TicksIn(cost), p.long(heist.Ticks()), 0.8)
	}
	for range 100 {
		p.lengths.noteWake(heist.TicksIn(time.Second))
	}
	now := heist.Ticks()
	require.Equal(t, worthFactor*heist.TicksIn(mostWakeCost), p.long(now))
	p.lengths.wantedAt.Store(now - 1)
	require.Equal(t, worthFactor*heist.TicksIn(mostInARow), p.long(now), "a worker that is woken is awake for the next loop")
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

// TestAShortRecursionWakesNobody once the pool has seen that it is short.
func TestAShortRecursionWakesNobody(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	sum := Recursive(func(f *Fork[int, int], n int) int {
		if n == 0 {
			return 1
		}
		x, y := f.Join(n-1, n-1)
		return x + y
	})
	require.True(t, testutil.Eventually(func() bool { // a call that the system interrupts is long
		before := p.Stats().Total().Wakes
		for range 5 {
			requireAtRest(t, p)
			p.lengths.wakeCost.Store(p.ticks.mostWakeCost)
			n, err := sum.Run(p, 3)
			require.NoError(t, err)
			require.NoError(t, p.Run(func(w *Worker) { n += sum.Call(w, 3) }))
			require.Equal(t, 2<<3, n)
		}
		return p.Stats().Total().Wakes == before && p.lengths.debt(codeOf(sum.f)) == 0
	}))
}

// TestPatienceEnds though most forks of a recursion take the fast path: it goes on until another worker has taken one.
func TestPatienceEnds(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var stolen atomic.Bool
	climb := Recursive(func(f *Fork[int, int], n int) int {
		if !f.Worker().core.Guest {
			stolen.Store(true)
		}
		if n > 0 && !stolen.Load() {
			f.Join(n-1, n-1)
		}
		return 0
	})
	for range testutil.Stress(20) {
		requireAtRest(t, p)
		p.lengths.owes(codeOf(climb.f), 0)
		stolen.Store(false)
		require.True(t, testutil.Returns(func() { _, _ = climb.Run(p, 60) }))
		require.True(t, stolen.Load())
		require.Positive(t, p.lengths.debt(codeOf(climb.f)), "it was patient in vain")
	}
}

// TestPatienceInVainIsPaidBack: after one call with two long halves, which a patient guest runs one after the other, guests are patient again only
// when calls have been short for a while.
func TestPatienceInVainIsPaidBack(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var half time.Duration
	halves := Recursive(func(f *Fork[bool, int], both bool) int {
		if both {
			f.Join(false, false)
		}
		for start := time.Now(); time.Since(start) < half; {
		}
		return 0
	})
	calls := func(n int) (debt int) {
		for range n {
			requireAtRest(t, p)
			_, err := halves.Run(p, true)
			require.NoError(t, err)
		}
		return p.lengths.debt(codeOf(halves.f))
	}
	p.lengths.owes(codeOf(halves.f), 0)
	half = 5 * time.Millisecond
	require.Equal(t, mostDebt, calls(1))
	for range 20 {
		require.Positive(t, calls(1))
	}
	half = 0
	require.Positive(t, calls(leastDebt/2))
	require.True(t, testutil.Eventually(func() bool {
		p.lengths.wakeCost.Store(p.ticks.mostWakeCost)
		return calls(1) == 0
	}))
}

func TestAPatientWorkerIsHungryForSearchersOnly(t *testing.T) {
	s := lonelyStack()
	for _, c := range []struct {
		state          policy.State
		plain, patient bool
	}{
		{0, false, false},
		{policy.OneGuest, false, false},
		{policy.OneSleeper, true, false},
		{1000*policy.OneSleeper + 3*policy.OneGuest, true, false},
		{-2 * policy.OneSleeper, false, false},
		{policy.OneSearching, true, true},
		{policy.OneSearching - 5*policy.OneSleeper + policy.OneGuest, true, true},
		{7*policy.OneSearching + 9*policy.OneSleeper, true, true},
	} {
		s.sleep.Add(c.state - s.sleep.Load())
		s.owner.calm = 0
		require.Equal(t, c.plain, s.reason(), "%x", c.state)
		s.owner.calm = forWhoIsPatient
		require.Equal(t, c.patient, s.reason(), "%x", c.state)
	}
}
