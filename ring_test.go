package heist

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/testutil"
)

func newRing(t testing.TB, capacity int, overflow *Injector[item]) *Ring[item] {
	t.Helper()
	r, err := NewRing(capacity, overflow)
	require.NoError(t, err)
	return r
}

// drainRing empties the ring as its owner.
func drainRing(r *Ring[item]) []int {
	taken := []int{}
	for it := r.Pop(); it != nil; it = r.Pop() {
		taken = append(taken, int(it.id))
	}
	return taken
}

// drainInjector empties an injector that has no other user.
func drainInjector(t testing.TB, in *Injector[item]) []int {
	t.Helper()
	taken := []int{}
	for {
		it, r := in.Pop()
		if r == Empty {
			require.Nil(t, it)
			return taken
		}
		require.Equal(t, Success, r)
		taken = append(taken, int(it.id))
	}
}

func TestRingIsFirstInFirstOut(t *testing.T) {
	r := newRing(t, 8, nil)
	require.Nil(t, r.Pop())
	for round := range 100 { // the indices wrap
		items := newItems(1 + round%8)
		pushAll(t, r, items...)
		require.Equal(t, len(items), r.Len())
		require.Equal(t, count(0, len(items)), drainRing(r))
		require.Zero(t, r.Len())
	}
}

func TestRingCapacityIsAPowerOfTwo(t *testing.T) {
	for _, capacity := range []int{2, 4, 64, 256, 1 << 16} {
		require.Equal(t, capacity, newRing(t, capacity, nil).Cap())
	}
	require.Equal(t, DefaultRingCapacity, newRing(t, 0, nil).Cap())

	for _, capacity := range []int{-1, -256, math.MinInt, 1, 3, 255, 257, maxCapacity * 2, maxCapacity + 1, math.MaxInt} {
		r, err := NewRing[item](capacity, nil)
		require.ErrorContains(t, err, "must be a power of two from 2 to 268435456, or 0 for 256", "capacity %d", capacity)
		require.Nil(t, r)
	}
}

func TestRingRefusesNilWithAPanicThatSaysWhy(t *testing.T) {
	r := newRing(t, 2, nil)
	require.PanicsWithValue(t, nilItem, func() { r.Push(nil) })
	require.Zero(t, r.Len())
}

func TestFullRingWithoutInjectorLeavesTheItemWithTheCaller(t *testing.T) {
	for _, capacity := range []int{2, 4, 64} {
		r := newRing(t, capacity, nil)
		thief := newRing(t, 2, nil)
		for round := range 10 {
			items := newItems(capacity + 2)
			pushAll(t, r, items[:capacity]...)
			require.False(t, r.Push(items[capacity]))
			require.False(t, r.Push(items[capacity]))
			require.Equal(t, capacity, r.Len())

			// Both the owner and a thief make room.
			require.Same(t, items[0], r.Pop())
			require.True(t, r.Push(items[capacity]))
			require.False(t, r.Push(items[capacity+1]), "round %d", round)
			_, n, result := r.StealInto(thief)
			require.Equal(t, Success, result)
			require.True(t, r.Push(items[capacity+1]))
			require.Equal(t, count(1+n, capacity+2), drainRing(r))
			drainRing(thief)
		}
	}
}

func TestOverflowMovesTheOlderHalfAndTheNewItemInOrder(t *testing.T) {
	for _, capacity := range []int{2, 4, 256, 1024} {
		for start := range 3 { // where in the array the ring begins
			in := NewInjector[item]()
			r := newRing(t, capacity, in)
			for range start {
				pushAll(t, r, newItem(0))
				r.Pop()
			}
			pushAll(t, r, newItems(capacity+1)...)

			half := capacity / 2
			require.Equal(t, append(count(0, half), capacity), drainInjector(t, in))
			require.Equal(t, count(half, capacity), drainRing(r))
			requireForgotten(t, r.slots)
			requireNoBatch(t, r)
		}
	}
}

// requireNoBatch checks that the buffer for spilling holds nothing.
func requireNoBatch(t testing.TB, r *Ring[item]) {
	t.Helper()
	for i, it := range r.spilled[:cap(r.spilled)] {
		require.Nil(t, it, "entry %d of %d of the buffer for spilling keeps its item alive", i, cap(r.spilled))
	}
}

// The items that the ring spills stay one batch in the injector: other producers' items come before
// it or after it.
func TestOverflowIsOneBatch(t *testing.T) {
	const capacity = 8
	const batch = capacity/2 + 1
	in := NewInjector[item]()
	r := newRing(t, capacity, in)
	n := testutil.Stress(20_000)
	stranger := newItem(n)
	var enough atomic.Bool
	wait := testutil.Together(1, func(int) {
		for turn := 1; !enough.Load(); turn++ {
			if in.Len() < firstSegment/2 { // a batch may be split where a segment ends
				in.Push(stranger)
			}
			giveWay(turn)
		}
	})
	found := 0
	for _, it := range newItems(n) {
		pushAll(t, r, it)
		for range 3 {
			it, result := in.Pop()
			if result == Success && it == stranger {
				require.Zero(t, found%batch, "another producer's item inside a batch")
			} else if result == Success {
				found++
			}
		}
	}
	enough.Store(true)
	wait()
	require.NotZero(t, found)
}

// A thief may make room between the owner's look, which found the ring full, and
// its attempt to move half of it. The copies made for that are worthless then.
func TestSpillThatLosesToAThiefPushesAfterAll(t *testing.T) {
	in := NewInjector[item]()
	r, thief := newRing(t, 8, in), newRing(t, 8, nil)
	pushAll(t, r, newItems(8)...)
	require.Zero(t, r.headSeen)
	_, n, result := r.StealInto(thief)
	require.Equal(t, Success, result)
	require.Equal(t, 4, n)

	require.True(t, r.spill(newItem(8))) // with what the owner saw before
	require.Zero(t, in.Len())
	require.Equal(t, count(4, 9), drainRing(r))
	requireForgotten(t, r.slots)
	requireNoBatch(t, r)
}

func TestClosedInjectorLosesNothing(t *testing.T) {
	const capacity = 8
	// The injector may close before the spill or in the middle of its batch, when
	// it has room for so many more items.
	for room := range capacity/2 + 1 {
		in := NewInjector[item]()
		filler := firstSegment - room
		for i := range filler {
			in.Push(newItem(1000 + i))
		}
		if room > 0 {
			// Closed behind the first segment, which still takes what fits.
			require.True(t, in.head.Load().next.CompareAndSwap(nil, in.terminal))
		} else {
			in.Close()
		}
		r := newRing(t, capacity, in)
		pushAll(t, r, newItems(capacity)...)
		require.False(t, r.Push(newItem(capacity)), "with room for %d", room)
		requireNoBatch(t, r)

		accepted := drainInjector(t, in)[filler:]
		require.Equal(t, count(0, room), accepted)
		require.ElementsMatch(t, count(room, capacity), drainRing(r))
		require.Nil(t, r.Pop())
		requireForgotten(t, r.slots)
	}
}

// A closed injector must not cost the ring its usefulness: it goes on as a bounded
// ring.
func TestRingWithAClosedInjectorGoesOn(t *testing.T) {
	in := NewInjector[item]()
	in.Close()
	r := newRing(t, 4, in)
	for range 20 {
		pushAll(t, r, newItems(4)...)
		for range 3 {
			require.False(t, r.Push(newItem(4)))
		}
		require.Equal(t, 4, r.Len())
		require.ElementsMatch(t, count(0, 4), drainRing(r))
	}
}

func TestThiefTakesHalfRoundedUpInOrder(t *testing.T) {
	const capacity = 16
	for inside := range capacity + 1 {
		for start := range 3 {
			victim, thief := newRing(t, capacity, nil), newRing(t, capacity, nil)
			for range start {
				pushAll(t, victim, newItem(0))
				victim.Pop()
			}
			pushAll(t, victim, newItems(inside)...)
			pushAll(t, thief, newItem(100))

			first, n, result := victim.StealInto(thief)
			half := (inside + 1) / 2
			require.Equal(t, half, n)
			if inside == 0 {
				require.Nil(t, first)
				require.Equal(t, Empty, result)
				continue
			}
			require.Equal(t, Success, result)
			require.Equal(t, []int{0}, ids(first))
			require.LessOrEqual(t, n, capacity/2)
			require.Equal(t, append([]int{100}, count(1, half)...), drainRing(thief), "behind what the thief had")
			require.Equal(t, count(half, inside), drainRing(victim))
			requireForgotten(t, victim.slots)
			requireForgotten(t, thief.slots)
		}
	}
}

func TestThiefTakesNoMoreThanItHasRoomFor(t *testing.T) {
	for _, capacity := range []int{2, 4, 8} {
		for had := range capacity + 1 {
			victim, thief := newRing(t, 64, nil), newRing(t, capacity, nil)
			pushAll(t, victim, newItems(64)...)
			pushAll(t, thief, newItems(had)...)

			first, n, result := victim.StealInto(thief)
			require.Equal(t, Success, result)
			require.Equal(t, []int{0}, ids(first), "there is always room for the one to run now")
			require.Equal(t, capacity-had+1, n)
			require.Equal(t, capacity, thief.Len())
			require.Equal(t, append(count(0, had), count(1, n)...), drainRing(thief))
			require.Equal(t, count(n, 64), drainRing(victim))
		}
	}
}

func TestStealingNeedsAnotherRing(t *testing.T) {
	r := newRing(t, 4, nil)
	pushAll(t, r, newItem(0))
	const says = "heist: Ring.StealInto needs the thief's own ring: another ring than the one that is stolen from"
	require.PanicsWithValue(t, says, func() { r.StealInto(nil) })
	require.PanicsWithValue(t, says, func() { r.StealInto(r) })
	require.Equal(t, 1, r.Len())
}

func TestRingIndicesWrapFarAroundTheArray(t *testing.T) {
	for _, start := range []int64{0, 1<<31 - 2, 1<<32 - 3, 1 << 62} {
		victim, thief := newRing(t, 4, nil), newRing(t, 2, nil)
		for _, r := range []*Ring[item]{victim, thief} {
			r.head.Store(start)
			r.tail.Store(start)
			r.headSeen, r.clean = start, start
		}
		for round := range 1000 {
			items := newItems(1 + round%4)
			pushAll(t, victim, items...)
			first, _, result := victim.StealInto(thief)
			require.Equal(t, Success, result)
			taken := append(ids(first), drainRing(thief)...)
			require.Equal(t, count(0, len(items)), append(taken, drainRing(victim)...))
		}
		requireForgotten(t, victim.slots)
		requireForgotten(t, thief.slots)
	}
}

func TestRingForgetsWhatWasTaken(t *testing.T) {
	victim, thief := newRing(t, 64, nil), newRing(t, 64, nil)
	for range 3 {
		pointers := pushWeakly(t, victim, 60)
		for range 10 {
			victim.Pop()
		}
		requireFreed(t, pointers[:10]) // at once
		require.NotNil(t, pointers[10].Value())

		victim.StealInto(thief)
		drainRing(thief)
		drainRing(victim)
		requireFreed(t, pointers)
	}
	runtime.KeepAlive(victim)
	runtime.KeepAlive(thief)
}

func TestOverflowKeepsNothingAlive(t *testing.T) {
	in := NewInjector[item]()
	r := newRing(t, 8, in)
	pointers := pushWeakly(t, r, 100)
	drainRing(r)
	drainInjector(t, in)
	requireFreed(t, pointers)
	runtime.KeepAlive(r)
	runtime.KeepAlive(in)
}

func TestRingLenIsOfOneMoment(t *testing.T) {
	r := newRing(t, 8, nil)
	requireLenOfOne(t, r.Len, func(it *item) {
		r.Push(it)
		r.Pop()
	})
}

func TestRingAllocatesNothingInSteadyState(t *testing.T) {
	in := NewInjector[item]()
	r, thief := newRing(t, 8, in), newRing(t, 8, nil)
	items := newItems(20)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for _, it := range items {
			r.Push(it) // spills, too
		}
		r.StealInto(thief)
		for thief.Pop() != nil {
		}
		for r.Pop() != nil {
		}
		for _, result := in.Pop(); result == Success; _, result = in.Pop() {
		}
	}))
}

// An owner against busy thieves. In a ring of two slots the owner reuses a slot as soon as a thief
// has raised head.
func TestStolenHalvesAreTakenExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		capacity, thiefCapacity, thieves int
		pops                             uint32
	}{
		{2, 2, 1, 0}, {2, 2, 2, 0}, {2, 2, 2, 2}, {8, 4, 2, 1}, {256, 256, 2, 100},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			n := testutil.Stress(100_000)
			items := newItems(n)
			victim := newRing(t, c.capacity, nil)
			rings := []*Ring[item]{victim}
			taken := make([][]*item, c.thieves+1)
			for range c.thieves {
				rings = append(rings, newRing(t, c.thiefCapacity, nil))
			}
			var done atomic.Bool
			wait := testutil.Together(c.thieves, func(who int) {
				own := rings[who+1]
				mine := make([]*item, 0, n)
				for turn := 1; ; turn++ {
					last := done.Load()
					first, _, result := victim.StealInto(own)
					if result != Success {
						if result == Empty && last {
							break
						}
						giveWay(turn)
						continue
					}
					mine = append(mine, first)
					for it := own.Pop(); it != nil; it = own.Pop() {
						mine = append(mine, it)
					}
				}
				taken[who] = mine
			})
			mine := make([]*item, 0, n)
			r := NewFastRand(1)
			for next, turn := 0, 1; next < n; turn++ {
				for next < n && victim.Push(items[next]) {
					next++
				}
				giveWay(turn)
				for range r.N(c.pops + 1) {
					if it := victim.Pop(); it != nil {
						mine = append(mine, it)
					}
				}
			}
			done.Store(true)
			wait()
			taken[c.thieves] = mine
			requireEachOnce(t, n, taken...)
			for _, r := range rings {
				require.Nil(t, r.Pop())
				requireForgotten(t, r.slots)
			}
		})
	}
}

// A small pool: workers that all steal from each other, with an injector between them. One of them
// produces.
func TestThievesOfThievesTakeEveryItemExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		name          string
		capacity      int
		thiefCapacity int
		overflow      bool
	}{
		{"large", 256, 256, true},
		{"tiny", 2, 2, true},
		{"uneven", 16, 4, true},
		{"without an injector", 8, 8, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const workers = 4 // the first is the producer
			n := testutil.Stress(100_000)
			items := newItems(n)
			var in *Injector[item]
			if c.overflow {
				in = NewInjector[item]()
			}
			rings := []*Ring[item]{newRing(t, c.capacity, in)}
			for len(rings) < workers {
				rings = append(rings, newRing(t, c.thiefCapacity, in))
			}
			var taken [workers][]*item
			var counts [workers]struct {
				Counter
				_ pad.Line
			}
			complete := func() bool {
				sum := uint64(0)
				for i := range counts {
					sum += counts[i].Load()
				}
				return sum >= uint64(n)
			}
			var inconsistent atomic.Int64
			testutil.Together(workers, func(who int) {
				own, r := rings[who], NewFastRand(uint64(who))
				mine := make([]*item, 0, n)
				work := func() bool { // takes what is nearest
					it := own.Pop()
					if it == nil {
						switch victim := rings[r.N(workers)]; {
						case victim != own:
							first, k, result := victim.StealInto(own)
							if (result == Success) != (first != nil) || (result == Success) != (k > 0) {
								inconsistent.Add(1)
							}
							it = first
						case in != nil:
							it, _ = in.Pop()
						}
					}
					if it != nil {
						mine = append(mine, it)
						counts[who].Add(1)
					}
					return it != nil
				}
				if who == 0 {
					for next := 0; next < n; {
						for range r.N(20) {
							if next == n || !own.Push(items[next]) {
								break
							}
							next++
						}
						for range r.N(8) {
							work()
						}
					}
				}
				for turn := 1; ; turn++ {
					if !work() {
						if complete() {
							break
						}
						giveWay(turn)
					}
				}
				taken[who] = mine
			})()
			requireEachOnce(t, n, taken[:]...)
			require.Zero(t, inconsistent.Load(), "an item without Success, or Success without an item")
			for _, r := range rings {
				require.Nil(t, r.Pop())
				requireForgotten(t, r.slots)
				requireNoBatch(t, r)
			}
		})
	}
}

func TestLostRaceForARingIsNotReportedAsEmpty(t *testing.T) {
	const n = 256
	for range testutil.Stress(100) {
		victim := newRing(t, n, nil)
		pushAll(t, victim, newItems(n)...)
		requireNoFalseEmpty(t, n, victim.Len, func(mine []*item) ([]*item, StealResult) {
			own, err := NewRing[item](2, nil)
			if err != nil {
				return mine, Empty
			}
			first, _, r := victim.StealInto(own)
			if r == Success {
				mine = append(mine, first)
			}
			for it := own.Pop(); it != nil; it = own.Pop() {
				mine = append(mine, it)
			}
			return mine, r
		})
	}
}

// # PushBatch

func TestPushBatchAddsInOrderBehindTheOthers(t *testing.T) {
	for _, capacity := range []int{2, 4, 64, 256} {
		for start := range 3 { // where in the array the ring begins
			r := newRing(t, capacity, nil)
			for range start {
				pushAll(t, r, newItem(0))
				r.Pop()
			}
			items := newItems(capacity)
			pushAll(t, r, items[0])
			require.Equal(t, capacity/2, r.PushBatch(items[1:1+capacity/2]))
			require.Equal(t, 1+capacity/2, r.Len())
			rest := items[1+capacity/2:]
			require.Equal(t, len(rest), r.PushBatch(rest))
			require.Equal(t, capacity, r.Len())
			require.Equal(t, count(0, capacity), drainRing(r))
			requireForgotten(t, r.slots)
		}
	}
}

// TestPushBatchAddsWhatFits: the rest is still the caller's, and nothing goes to the
// injector.
func TestPushBatchAddsWhatFits(t *testing.T) {
	const capacity = 8
	for had := range capacity + 1 {
		for given := range 2*capacity + 1 {
			for start := range capacity { // the indices wrap
				in := NewInjector[item]()
				r := newRing(t, capacity, in)
				for range start {
					pushAll(t, r, newItem(0))
					r.Pop()
				}
				items := newItems(had + given)
				pushAll(t, r, items[:had]...)
				want := min(given, capacity-had)
				require.Equal(t, want, r.PushBatch(items[had:]))
				require.Equal(t, had+want, r.Len())
				require.Zero(t, in.Len())
				require.Equal(t, count(0, had+want), drainRing(r))
				requireForgotten(t, r.slots)
			}
		}
	}
}

func TestPushBatchOfNothing(t *testing.T) {
	r := newRing(t, 2, nil)
	require.Zero(t, r.PushBatch(nil))
	require.Zero(t, r.PushBatch([]*item{}))
	require.Zero(t, r.Len())
	pushAll(t, r, newItems(2)...)
	require.Zero(t, r.PushBatch(nil))
	require.Equal(t, count(0, 2), drainRing(r))
}

// TestPushBatchSeesRoomThatThievesMade, whatever the owner saw before.
func TestPushBatchSeesRoomThatThievesMade(t *testing.T) {
	const capacity = 8
	r, thief := newRing(t, capacity, nil), newRing(t, capacity, nil)
	items := newItems(2 * capacity)
	require.Equal(t, capacity, r.PushBatch(items))
	require.Zero(t, r.PushBatch(items[capacity:]))
	_, n, result := r.StealInto(thief)
	require.Equal(t, Success, result)
	require.Equal(t, n, r.PushBatch(items[capacity:]))
	require.Equal(t, count(n, capacity+n), drainRing(r))
	drainRing(thief)
	requireForgotten(t, r.slots)
	requireForgotten(t, thief.slots)
}

func TestPushBatchRefusesNilBeforeItAddsAnything(t *testing.T) {
	for _, items := range [][]*item{
		{nil},
		{newItem(0), nil},
		{newItem(0), newItem(1), nil, newItem(3)},
		{newItem(0), newItem(1), newItem(2), newItem(3), nil}, // where it would not fit
	} {
		r := newRing(t, 4, nil)
		require.PanicsWithValue(t, nilItem, func() { r.PushBatch(items) })
		require.Zero(t, r.Len())
		require.Nil(t, r.Pop())
		requireForgotten(t, r.slots)
	}
}

func TestPushBatchWrapsFarAroundTheArray(t *testing.T) {
	for _, start := range []int64{0, 1<<31 - 2, 1<<32 - 3, 1 << 62} {
		r := newRing(t, 4, nil)
		r.head.Store(start)
		r.tail.Store(start)
		r.headSeen, r.clean = start, start
		for round := range 1000 {
			items := newItems(1 + round%6)
			n := min(len(items), 4)
			require.Equal(t, n, r.PushBatch(items))
			require.Equal(t, count(0, n), drainRing(r))
		}
		requireForgotten(t, r.slots)
	}
}

func TestPushBatchAllocatesNothing(t *testing.T) {
	r := newRing(t, 64, nil)
	items := newItems(64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.PushBatch(items)
		for r.Pop() != nil {
		}
	}))
}

// TestThievesAmongBatchesTakeEveryItemExactlyOnce: what PushBatch did not take is offered
// again, in order, so each thief sees items in the order of their numbers.
func TestThievesAmongBatchesTakeEveryItemExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		name                     string
		capacity, thieves, batch int
		pops                     uint32
	}{
		{"as a worker does", 64, 3, 63, 3},
		{"tiny", 2, 2, 3, 1},
		{"owner never pops", 16, 3, 20, 0},
		{"one at a time", 8, 2, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := testutil.Stress(100_000)
			items := newItems(n)
			victim := newRing(t, c.capacity, nil)
			rings := []*Ring[item]{victim}
			for range c.thieves {
				rings = append(rings, newRing(t, 16, nil))
			}
			var done atomic.Bool
			var disorder atomic.Int64
			taken := make([][]*item, c.thieves+1)
			wait := testutil.Together(c.thieves, func(who int) {
				own, last := rings[who+1], -1
				mine := make([]*item, 0, n)
				take := func(it *item) {
					if int(it.id) <= last {
						disorder.Add(1)
					}
					last = int(it.id)
					mine = append(mine, it)
				}
				for turn := 1; ; turn++ {
					over := done.Load() // before the look
					first, _, result := victim.StealInto(own)
					if result == Success {
						take(first)
						for it := own.Pop(); it != nil; it = own.Pop() {
							take(it)
						}
					} else if result == Empty && over {
						break
					} else {
						giveWay(turn)
					}
				}
				taken[who] = mine
			})
			mine := make([]*item, 0, n)
			r := NewFastRand(1)
			for next, turn := 0, 1; next < n; turn++ {
				size := 1 + int(r.N(uint32(c.batch)))
				next += victim.PushBatch(items[next:min(next+size, n)])
				giveWay(turn)
				for range r.N(c.pops + 1) {
					if it := victim.Pop(); it != nil {
						mine = append(mine, it)
					}
				}
			}
			done.Store(true)
			wait()
			taken[c.thieves] = mine
			requireEachOnce(t, n, taken...)
			require.Zero(t, disorder.Load())
			for _, r := range rings {
				require.Nil(t, r.Pop())
				requireForgotten(t, r.slots)
			}
		})
	}
}

// FuzzPushBatchAgainstASlice plays batches, single pushes, pops and steals on a ring and on
// a slice. The first byte chooses the capacity; of every other byte two bits choose the
// operation and six how large it is.
func FuzzPushBatchAgainstASlice(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0x10, 2, 0x20, 3, 0x14})
	f.Add([]byte{0, 0xFC, 0xFC, 3, 2, 0xFC, 1, 1, 0x08})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		r, thief := newRing(t, 2<<(program[0]&3), nil), newRing(t, 4, nil)
		var model []*item
		pushed := 0
		for _, b := range program[1:] {
			size := int(b >> 2)
			switch b & 3 {
			case 0:
				items := make([]*item, size)
				for i := range items {
					items[i] = newItem(pushed + i)
				}
				n := r.PushBatch(items)
				require.Equal(t, min(size, r.Cap()-len(model)), n)
				model = append(model, items[:n]...)
				pushed += n
			case 1:
				it := newItem(pushed)
				require.Equal(t, len(model) < r.Cap(), r.Push(it))
				if len(model) < r.Cap() {
					model = append(model, it)
					pushed++
				}
			case 2:
				for range size + 1 {
					it := r.Pop()
					if len(model) == 0 {
						require.Nil(t, it)
						break
					}
					require.Same(t, model[0], it)
					model = model[1:]
				}
			case 3:
				first, n, _ := r.StealInto(thief)
				want := min((len(model)+1)/2, thief.Cap()+1)
				require.Equal(t, want, n)
				if n > 0 {
					require.Same(t, model[0], first)
					require.Equal(t, ids(model[1:n]...), drainRing(thief))
					model = model[n:]
				}
			}
			require.Equal(t, len(model), r.Len())
		}
		require.Equal(t, ids(model...), drainRing(r))
		requireForgotten(t, r.slots)
		requireForgotten(t, thief.slots)
	})
}

// FuzzRingAgainstASlice plays the operations that the bytes stand for on two rings
// that steal from each other, and on slices. The first byte chooses the capacities
// and whether there is an injector; of every other byte three bits choose the
// operation and five how often.
func FuzzRingAgainstASlice(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0xF8, 4, 5, 2, 3, 0xFA})
	f.Add([]byte{0x92, 0xF8, 0xF8, 4, 4, 0x80, 0xF9, 5, 0xFE, 0xFA, 0xFB})
	f.Add([]byte{0x80, 0x18, 0x18, 0x1A, 0x81, 0x81, 4, 0x26, 0x20})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		var in *Injector[item]
		if program[0]&0x80 != 0 {
			in = NewInjector[item]()
		}
		rings := [2]*Ring[item]{
			newRing(t, 2<<(program[0]&3), in),
			newRing(t, 2<<(program[0]>>2&3), in),
		}
		var models [2][]*item
		var injected []*item
		pushed := 0

		push := func(which int) {
			r, m := rings[which], &models[which]
			it := newItem(pushed)
			pushed++
			switch {
			case len(*m) < r.Cap():
				require.True(t, r.Push(it))
				*m = append(*m, it)
			case in == nil:
				require.False(t, r.Push(it))
			default:
				require.True(t, r.Push(it))
				injected = append(append(injected, (*m)[:r.Cap()/2]...), it)
				*m = (*m)[r.Cap()/2:]
			}
		}
		pop := func(which int) {
			m := &models[which]
			it := rings[which].Pop()
			if len(*m) == 0 {
				require.Nil(t, it)
				return
			}
			require.Same(t, (*m)[0], it)
			*m = (*m)[1:]
		}
		steal := func(from, to int) {
			first, n, result := rings[from].StealInto(rings[to])
			victim, thief := &models[from], &models[to]
			want := min((len(*victim)+1)/2, rings[to].Cap()-len(*thief)+1)
			require.Equal(t, want, n)
			if want == 0 {
				require.Nil(t, first)
				require.Equal(t, Empty, result)
				return
			}
			require.Equal(t, Success, result)
			require.Same(t, (*victim)[0], first)
			*thief = append(*thief, (*victim)[1:want]...)
			*victim = (*victim)[want:]
		}
		pull := func() {
			if in == nil {
				return
			}
			it, result := in.Pop()
			if len(injected) == 0 {
				require.Equal(t, Empty, result)
				return
			}
			require.Equal(t, Success, result)
			require.Same(t, injected[0], it)
			injected = injected[1:]
		}

		for _, b := range program[1:] {
			for range b>>3 + 1 {
				switch b & 7 {
				case 0, 1:
					push(int(b & 1))
				case 2, 3:
					pop(int(b & 1))
				case 4:
					steal(0, 1)
				case 5:
					steal(1, 0)
				default:
					pull()
				}
			}
			for i, r := range rings {
				require.Equal(t, len(models[i]), r.Len())
			}
		}
		for i, r := range rings {
			require.Equal(t, ids(models[i]...), drainRing(r))
			requireForgotten(t, r.slots)
			requireNoBatch(t, r)
		}
		if in != nil {
			require.Equal(t, ids(injected...), drainInjector(t, in))
		}
	})
}
