package pool

import (
	"runtime"
	"slices"
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

// TestTheOnlyWorkerIsWokenForLongLoopsAlone, whatever a wake-up takes.
func TestTheOnlyWorkerIsWokenForLongLoopsAlone(t *testing.T) {
	require.Equal(t, worthFactor*heist.TicksIn(mostInARow), newPool(t, WithWorkers(1)).long(heist.Ticks()))
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

// TestALoopStaysWithItsCallerWhereGuestsFillThePs: a worker would wait for a P. With Ps to spare the caller becomes a guest.
func TestALoopStaysWithItsCallerWhereGuestsFillThePs(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	guests := func(ps int) (most int32) { // how many there are while a loop runs beside one
		require.NoError(t, p.Run(func(*Worker) {
			p.ps.Store(int32(ps))
			p.lengths.wakeCost.Store(0)
			var seen atomic.Int32
			testutil.Together(1, func(int) {
				_ = ForRange(p, 8, func(lo, hi int) {
					heist.Spin(time.Duration(hi-lo) * aloneTime / 4)
					seen.Store(max(seen.Load(), int32(p.core.Sleep.Load().Guests())))
				})
			})()
			most = seen.Load()
		}))
		return most
	}
	require.True(t, testutil.Eventually(func() bool { return guests(1) == 1 })) // the first one is not probed, and one that the system interrupts is longer
	require.True(t, testutil.Eventually(func() bool { return guests(8) == 2 }))
}

// TestATaskIsNoLoner: a loop that a task calls at its pool stays with it as well, but the task's worker counts, and gives way, already.
func TestATaskIsNoLoner(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	p.ticks.mostInARow *= 1000 // no loop is long, however slow the machine
	loners := func() (most int32) {
		_ = ForRange(p, 1000, func(lo, hi int) {
			heist.Spin(time.Duration(hi-lo) * 4 * aloneTime / 1000)
			most = max(most, p.loners.callers.Load()) // by the caller alone, unless it is interrupted
		}, Granularity{}.AtMost(1))
		return most
	}
	require.True(t, testutil.Eventually(func() bool { return loners() == 1 }))
	for range testutil.Stress(100) {
		inTask(t, p, func(*Worker) { require.Zero(t, loners()) })
		require.NoError(t, p.Run(func(*Worker) { require.Zero(t, loners()) }))
	}
	require.Zero(t, p.loners.callers.Load())
	require.True(t, testutil.Returns(func() {
		_ = ForRange(p, 1000, func(lo, hi int) {
			heist.Spin(time.Duration(hi-lo) * 4 * aloneTime / 1000)
			if hi > 500 {
				runtime.Goexit()
			}
		})
	}))
	require.Zero(t, p.loners.callers.Load())
}

// TestCallersThatFillThePsGiveWay: their loops stay with them, and the other goroutines would wait for 10 milliseconds.
func TestCallersThatFillThePsGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(2))
	gave := 0
	for range 20 { // in some of them the guest is found to wait
		require.NoError(t, p.Run(func(*Worker) { // a guest, and so the Ps are full
			var over atomic.Bool
			turns := 0
			testutil.Together(2, func(who int) {
				if who == 1 {
					for ; !over.Load(); turns++ {
						runtime.Gosched()
					}
					return
				}
				defer over.Store(true)
				for range 100 {
					_ = ForRange(p, 1000, func(lo, hi int) { heist.Spin(time.Duration(hi-lo) * 4 * aloneTime / 1000) })
				}
			})()
			if turns >= 20 {
				gave++
			}
		}))
	}
	require.GreaterOrEqual(t, gave, 5)
}

// guestsForks are calls of a guest that run two functions, possibly at the same time.
var guestsForks = map[string]func(p *Pool, f, g func(*Worker)) error{
	"Do":   func(p *Pool, f, g func(*Worker)) error { return Do(p, f, g) },
	"join": func(p *Pool, f, g func(*Worker)) error { return p.Run(func(w *Worker) { joinOf(w, f, g) }) },
	"recursion": func(p *Pool, f, g func(*Worker)) error {
		_, err := steps.Run(p, func(s *Fork[step, any]) any {
			as := func(f func(*Worker)) step { return func(s *Fork[step, any]) any { f(s.owner); return nil } }
			s.Join(as(f), as(g))
			return nil
		})
		return err
	},
	"scope": func(p *Pool, f, g func(*Worker)) error {
		return p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, g)
				s.Go(w, f) // the caller takes the newest
			})
		})
	},
}

func joinOf(w *Worker, f, g func(*Worker)) {
	call := func(w *Worker, f func(*Worker)) int { f(w); return 0 }
	Join(w, call, f, call, g)
}

// patiently calls call until it returns true; guests are patient from the second time on.
func patiently(t *testing.T, p *Pool, call func() bool) {
	t.Helper()
	require.True(t, testutil.Eventually(func() bool { // one that the system interrupts is long
		requireAtRest(t, p)
		p.lengths.wakeCost.Store(p.ticks.mostWakeCost)
		done := call()
		for i := range p.lengths.debts {
			if word := p.lengths.debts[i].Load(); word != 0 {
				p.lengths.debts[i].Store(word&^mostByCode | 1) // no debt
			}
		}
		return done
	}))
}

// TestAShortCallOfAGuestWakesNobody once the pool has seen that it is short.
func TestAShortCallOfAGuestWakesNobody(t *testing.T) {
	for _, both := range guestsForks {
		p := newPool(t, WithWorkers(2))
		quiet := 0
		require.True(t, testutil.Eventually(func() bool { // a call that the system interrupts is long
			requireAtRest(t, p)
			p.lengths.wakeCost.Store(p.ticks.mostWakeCost)
			before := p.Stats().Total().Wakes
			require.NoError(t, both(p, nop2, nop2))
			requireAtRest(t, p)
			quiet++
			if p.Stats().Total().Wakes != before {
				quiet = 0
			}
			return quiet == 5
		}))
	}
}

// TestWhatAPatientGuestWaitsForIsTaken, whether it waits or computes until then, though it would otherwise run the two one after the other.
func TestWhatAPatientGuestWaitsForIsTaken(t *testing.T) {
	for _, workers := range []int{2, 4} {
		for name, both := range guestsForks {
			p := newPool(t, WithWorkers(workers))
			for wait, until := range map[string]func(c chan struct{}){
				"waits":    func(c chan struct{}) { <-c },
				"computes": func(c chan struct{}) { testutil.Compute(c) },
				"waits, and until that is seen as many guests compute as there are workers": func(c chan struct{}) {
					if !testutil.ReadsRecords { // it is not seen
						c = closedChannel
					}
					left := testutil.Together(workers-1, func(int) { _ = p.Run(func(*Worker) { testutil.Compute(c) }) })
					<-c
					left()
				},
			} {
				patiently(t, p, func() (patient bool) {
					begun := make(chan struct{})
					require.True(t, testutil.Returns(func() {
						require.NoError(t, both(p,
							func(w *Worker) { patient = w.calm != 0; until(begun) },
							func(*Worker) { close(begun) }))
					}), "%s %s", name, wait)
					return patient
				})
			}
			require.True(t, testutil.Eventually(func() bool { return !p.guard.on.Load() }), "the guard looks for ever")
		}
	}
}

// TestPatienceEndsAmongWhatThievesDoNotKnowOf: forks and children that a guest has added while it was patient, and runs itself since.
func TestPatienceEndsAmongWhatThievesDoNotKnowOf(t *testing.T) {
	two, one := newPool(t, WithWorkers(2)), newPool(t, WithWorkers(1))
	var stolen atomic.Bool
	f := func(w *Worker) {
		if heist.Spin(10 * time.Microsecond); !w.core.Guest {
			stolen.Store(true)
		}
	}
	for name, call := range map[string]func(w *Worker){
		"forks": func(w *Worker) { w.Do(slices.Repeat([]func(*Worker){f}, 1000)...) },
		"children": func(w *Worker) {
			w.Scope(func(s *Scope) {
				for range 1000 {
					s.Go(w, f)
				}
			})
		},
	} {
		p := two
		if name == "children" { // which a pool's only worker takes, unlike forks
			p = one
		}
		stolen.Store(false)
		for tries := 0; tries < 20 && !stolen.Load(); tries++ { // the worker may get no CPU for the time of a call
			requireAtRest(t, p)
			p.core.Monitored.Store(true) // so that neither of the two looks
			p.guard.on.Store(true)
			p.lengths.wakeCost.Store(p.ticks.mostWakeCost)
			p.lengths.owes(codeOf(call), 0)
			require.NoError(t, p.Run(call))
			p.core.Monitored.Store(false)
			p.guard.on.Store(false)
		}
		require.True(t, stolen.Load(), name)
	}
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
