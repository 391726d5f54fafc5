package heist

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// queue is what the suite needs of a deque, whichever implementation it is.
type queue interface {
	Push(*item) bool
	Pop() *item
	PopFrom(base int64) *item
	Steal() (*item, StealResult)
	StealAt() (*item, int64, StealResult)
	Bottom() int64
	Len() int
	Stats() DequeStats
}

// assemblyRows are the ways in which the assembly of a build does its compare-and-swap. deque_ARCH_test.go sets them.
var assemblyRows []implementation

// implementations returns all rows of a build.
func implementations() []implementation {
	if Assembly {
		return append(assemblyRows[:len(assemblyRows):len(assemblyRows)], portableRow())
	}
	return []implementation{dequeRow("atomic", "", func(testing.TB) {}), portableRow()}
}

// implementation is a row of the suite's table.
type implementation struct {
	name     string
	assembly string                           // its name, if it is assembly
	use      func(testing.TB)                 // selects it, for the time of a test
	zero     func() queue                     // its zero value
	make     func(DequeConfig) (queue, error) // its constructor
	body     func(queue) *deque               // what is behind the interface
}

func dequeRow(name, assembly string, use func(testing.TB)) implementation {
	return implementation{
		name:     name,
		assembly: assembly,
		use:      use,
		zero:     func() queue { return new(Deque[item]) },
		make: func(c DequeConfig) (queue, error) {
			d, err := NewDeque[item](c)
			if err != nil {
				return nil, err
			}
			return d, nil
		},
		body: func(q queue) *deque { return &q.(*Deque[item]).deque },
	}
}

func portableRow() implementation {
	return implementation{
		name: "portable",
		use:  func(testing.TB) {},
		zero: func() queue { return new(PortableDeque[item]) },
		make: func(c DequeConfig) (queue, error) {
			d, err := NewPortableDeque[item](c)
			if err != nil {
				return nil, err
			}
			return d, nil
		},
		body: func(q queue) *deque { return &q.(*PortableDeque[item]).deque },
	}
}

func forEachDeque(t *testing.T, test func(t *testing.T, im implementation)) {
	for _, im := range implementations() {
		t.Run(im.name, func(t *testing.T) {
			im.use(t)
			test(t, im)
		})
	}
}

// new returns a deque for a valid configuration.
func (im implementation) new(t testing.TB, c DequeConfig) queue {
	t.Helper()
	q, err := im.make(c)
	require.NoError(t, err)
	return q
}

func pushAll(t testing.TB, q interface{ Push(*item) bool }, items ...*item) {
	t.Helper()
	for _, it := range items {
		require.True(t, q.Push(it))
	}
}

// popAll empties the deque as its owner.
func popAll(q queue) []int {
	taken := []int{}
	for it := q.Pop(); it != nil; it = q.Pop() {
		taken = append(taken, int(it.id))
	}
	return taken
}

// stealAll empties the deque as its only thief.
func stealAll(t testing.TB, q queue, most int) []int {
	t.Helper()
	taken := []int{}
	for range most {
		it, r := q.Steal()
		if r == Empty {
			require.Nil(t, it)
			break
		}
		require.Equal(t, Success, r)
		taken = append(taken, int(it.id))
	}
	return taken
}

func TestOwnerTakesTheNewestAndThievesTheOldest(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{})
		pushAll(t, q, newItems(10)...)
		require.Equal(t, []int{0, 1, 2}, stealAll(t, q, 3))
		require.Equal(t, []int{9, 8, 7, 6, 5, 4, 3}, popAll(q))

		it, r := q.Steal()
		require.Nil(t, it)
		require.Equal(t, Empty, r)
	})
}

func TestZeroValueIsAnEmptyDeque(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.zero()
		require.Nil(t, q.Pop())
		it, r := q.Steal()
		require.Nil(t, it)
		require.Equal(t, Empty, r)
		require.Zero(t, q.Len())
		require.Zero(t, q.Stats())

		pushAll(t, q, newItems(1000)...)
		require.Equal(t, 1000, q.Len())
		require.Equal(t, count(0, 500), stealAll(t, q, 500))
		require.Len(t, popAll(q), 500)
	})
}

func TestLenCountsWhatIsInside(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 2})
		for n, it := range newItems(20) {
			require.Equal(t, n, q.Len())
			pushAll(t, q, it)
		}
		for n := 20; n > 0; n -= 2 {
			require.Equal(t, n, q.Len())
			q.Pop()
			q.Steal()
		}
		q.Pop() // finds nothing
		require.Zero(t, q.Len())
	})
}

// An observer must not add the pushes of one moment to the steals of another. Here there is never
// more than one item.
func TestLenIsOfOneMoment(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{})
		requireLenOfOne(t, q.Len, func(it *item) {
			q.Push(it)
			q.Steal()
		})
	})
}

// requireLenOfOne has observers read a length while the owner puts one item in and takes it out,
// over and over. There are several of them, so that some are descheduled in the middle of a read.
func requireLenOfOne(t *testing.T, length func() int, inAndOut func(*item)) {
	t.Helper()
	var enough atomic.Bool
	wait := testutil.Together(1, func(int) {
		for it := newItem(0); !enough.Load(); {
			inAndOut(it)
		}
	})
	var longest [4]int
	testutil.Together(len(longest), func(who int) {
		for range testutil.Stress(500_000) {
			longest[who] = max(longest[who], length())
		}
	})()
	enough.Store(true)
	wait()
	require.LessOrEqual(t, slices.Max(longest[:]), 1, "there was never more than one item inside")
}

func TestNilIsRefusedWithAPanicThatSaysWhy(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{})
		require.PanicsWithValue(t, nilItem, func() { q.Push(nil) })
		require.Contains(t, nilItem, "push of a nil item")
		require.Zero(t, q.Len(), "the deque is as it was")
	})
}

func TestCapacityIsRoundedUpToAPowerOfTwo(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for _, c := range []struct {
			asked int
			given int64
		}{{0, 64}, {1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {64, 64}, {65, 128}, {1000, 1024}} {
			q := im.new(t, DequeConfig{Capacity: c.asked})
			require.Equal(t, c.given, im.body(q).array.Load().len(), "capacity %d", c.asked)
			pushAll(t, q, newItems(int(c.given))...)
			require.Zero(t, q.Stats().Grows)
			pushAll(t, q, newItem(0))
			require.EqualValues(t, 1, q.Stats().Grows)
		}
	})
}

func TestImpossibleSizesAreRefused(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for _, c := range []struct {
			config DequeConfig
			says   string
		}{
			{DequeConfig{Capacity: -1}, "DequeConfig.Capacity is -1;"},
			{DequeConfig{Capacity: math.MinInt}, "DequeConfig.Capacity"},
			{DequeConfig{Capacity: maxCapacity + 1}, "DequeConfig.Capacity is 268435457;"},
			{DequeConfig{Capacity: math.MaxInt}, "DequeConfig.Capacity"},
			{DequeConfig{Limit: -1}, "DequeConfig.Limit is -1;"},
			{DequeConfig{Limit: maxCapacity + 1}, "DequeConfig.Limit"},
		} {
			q, err := im.make(c.config)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "must be 0 (the default) or from 1 to 268435456")
			require.Nil(t, q)
		}
	})
}

func TestLimitLeavesTheItemWithTheCaller(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for _, c := range []DequeConfig{
			{Limit: 1}, {Limit: 3}, {Limit: 4},
			{Capacity: 1, Limit: 1}, {Capacity: 1, Limit: 5}, {Capacity: 2, Limit: 8}, {Capacity: 64, Limit: 7},
		} {
			q := im.new(t, c)
			items := newItems(c.Limit + 3)
			pushAll(t, q, items[:c.Limit]...)
			before := q.Stats()
			require.False(t, q.Push(items[c.Limit]), "%+v", c)
			require.False(t, q.Push(items[c.Limit]), "%+v", c)
			require.Equal(t, before, q.Stats())
			require.Equal(t, c.Limit, q.Len())

			// Both the owner and a thief make room.
			require.Equal(t, items[c.Limit-1], q.Pop())
			require.True(t, q.Push(items[c.Limit]))
			require.False(t, q.Push(items[c.Limit+1]))
			_, r := q.Steal()
			require.Equal(t, Success, r)
			require.True(t, q.Push(items[c.Limit+1]))
			require.False(t, q.Push(items[c.Limit+2]))
			require.Equal(t, c.Limit, q.Len())
			require.Len(t, popAll(q), c.Limit)
		}
	})
}

// Growth copies from an array that may have wrapped, and copies only the items between top and
// bottom.
func TestGrowthKeepsTheOrder(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for capacity := 1; capacity <= 16; capacity *= 2 {
			for before := range 2*capacity + 1 { // where top stands when the deque grows
				for stolen := range capacity {
					q := im.new(t, DequeConfig{Capacity: capacity})
					for range before {
						pushAll(t, q, newItem(0))
						q.Steal()
					}
					items := newItems(stolen + 4*capacity)
					pushAll(t, q, items[:stolen]...)
					require.Equal(t, count(0, stolen), stealAll(t, q, stolen))
					pushAll(t, q, items[stolen:]...)
					require.EqualValues(t, 2, q.Stats().Grows)

					half := stolen + 2*capacity
					require.Equal(t, count(stolen, half), stealAll(t, q, half-stolen))
					for want := len(items) - 1; want >= half; want-- {
						require.Equal(t, items[want], q.Pop())
					}
					require.Nil(t, q.Pop())
					requireForgotten(t, im.body(q).array.Load())
				}
			}
		}
	})
}

func TestIndicesWrapFarAroundTheArray(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 4, Limit: 4})
		d := im.body(q)
		for _, start := range []int64{0, 1<<31 - 2, 1<<32 - 3, 1 << 62} {
			// A deque that has done this many steals already.
			d.bottom.Store(start)
			d.top.Store(start)
			d.topSeen, d.clean = start, start
			for round := range 1000 {
				items := newItems(1 + round%4)
				pushAll(t, q, items...)
				thieves := round % (len(items) + 1)
				require.Equal(t, count(0, thieves), stealAll(t, q, thieves))
				require.Len(t, popAll(q), len(items)-thieves)
			}
			require.Greater(t, d.top.Load(), start+100)
			requireForgotten(t, d.array.Load())
		}
	})
}

func TestStatsAddUp(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 1})
		r := NewFastRand(1)
		var want DequeStats
		inside, longest := 0, 1
		for range 10_000 {
			switch r.N(4) {
			case 0, 1:
				pushAll(t, q, newItem(0))
				want.Pushes++
				inside++
			case 2:
				if q.Pop() != nil {
					want.Pops++
					inside--
				}
			case 3:
				if _, r := q.Steal(); r == Success {
					want.Steals++
					inside--
				}
			}
			if inside > longest {
				longest *= 2
				want.Grows++
			}
			require.Equal(t, want, q.Stats())
			require.Equal(t, inside, q.Len())
		}
		require.NotZero(t, want.Pops)
		require.NotZero(t, want.Steals)
		require.NotZero(t, want.Grows)
	})
}

// When the owner pops the last item it raises top, as a steal does. An observer must not take that
// for a steal: here there is no thief. It may see one pop half done.
func TestStatsDoNotTakePopsForSteals(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{})
		var enough atomic.Bool
		wait := testutil.Together(1, func(int) {
			for it := newItem(0); !enough.Load(); {
				q.Push(it)
				q.Pop()
			}
		})
		var most [4]uint64
		testutil.Together(len(most), func(who int) {
			for range testutil.Stress(300_000) {
				most[who] = max(most[who], q.Stats().Steals)
			}
		})()
		enough.Store(true)
		wait()
		require.LessOrEqual(t, slices.Max(most[:]), uint64(1))
	})
}

// A pop lowers bottom before it checks whether the deque is empty. An observer that sees the lowered
// bottom must not report one push less: for a deque that never had a push, that would be 2^64-1
// pushes.
func TestStatsOfAnOwnerWhoLooksForWork(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for _, pushed := range []int{0, 5} {
			q := im.new(t, DequeConfig{})
			pushAll(t, q, newItems(pushed)...)
			stealAll(t, q, pushed)
			d := im.body(q)
			d.bottom.Add(-1) // as in the middle of a Pop that will find nothing
			require.EqualValues(t, pushed, q.Stats().Pushes)
			require.EqualValues(t, pushed, q.Stats().Steals)
			require.Zero(t, q.Len())
		}
	})
}

//go:noinline
func pushWeakly(t testing.TB, q interface{ Push(*item) bool }, n int) []weak.Pointer[item] {
	t.Helper()
	var pointers []weak.Pointer[item]
	for i := range n {
		it := newItem(i)
		require.True(t, q.Push(it))
		pointers = append(pointers, weak.Make(it))
	}
	return pointers
}

func requireFreed(t testing.TB, pointers []weak.Pointer[item]) {
	t.Helper()
	runtime.GC()
	for i, p := range pointers {
		require.Nil(t, p.Value(), "item %d of %d is still alive", i, len(pointers))
	}
}

func TestItemsThatWereTakenAreForgottenWhenTheOwnerFindsNothing(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for _, steals := range []int{0, 1, 3, 10, 99, 100} {
			q := im.new(t, DequeConfig{Capacity: 4})
			for range 10 { // the second round and later ones do not grow
				pointers := pushWeakly(t, q, 100)
				require.Len(t, stealAll(t, q, steals), steals)
				for range (100 - steals) / 2 { // later pushes overwrite what is popped here
					q.Pop()
				}
				pointers = append(pointers, pushWeakly(t, q, 3)...)
				popAll(q)
				requireFreed(t, pointers)
				requireForgotten(t, im.body(q).array.Load())
			}
			runtime.KeepAlive(q)
		}
	})
}

// A nested owner takes only its own items, and leaves no pointer to them in the deque, although the
// deque is not empty.
func TestNestedOwnerTakesItsOwnAndForgetsIt(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for _, steals := range []int{0, 1, 5, 6, 9} {
			q := im.new(t, DequeConfig{Capacity: 4})
			outer := pushWeakly(t, q, 5)
			base := q.Bottom()
			inner := pushWeakly(t, q, 4)
			taken := stealAll(t, q, steals)
			for it := q.PopFrom(base); it != nil; it = q.PopFrom(base) {
				taken = append(taken, int(it.id))
			}
			require.Len(t, taken, 4+min(steals, 5), "the inner ones, and the outer ones that were stolen")
			if steals == 0 {
				requireFreed(t, inner)
			}
			require.Equal(t, max(5-steals, 0), q.Len())
			for it := q.PopFrom(0); it != nil; it = q.PopFrom(0) {
			}
			requireFreed(t, slices.Concat(outer, inner))
			requireForgotten(t, im.body(q).array.Load())
			runtime.KeepAlive(q)
		}
	})
}

// TestThiefLearnsTheIndex of the item that it has stolen, whatever the owner does meanwhile.
func TestThiefLearnsTheIndex(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 2})
		var over atomic.Bool
		wait := testutil.Together(3, func(who int) {
			for who > 0 {
				last := over.Load()
				it, index, r := q.StealAt()
				switch {
				case r == Success && int64(it.id) != index:
					t.Error("item", it.id, "was at", index)
				case r == Empty && last:
					return
				}
			}
			defer over.Store(true)
			for i := range testutil.Stress(20_000) {
				it := newItem(int(q.Bottom()))
				q.Push(it)
				if i%3 == 2 {
					if it := q.PopFrom(0); it != nil && int64(it.id) != q.Bottom() && int64(it.id) != q.Bottom()-1 {
						t.Error("item", it.id, "was popped at", q.Bottom())
					}
				}
			}
		})
		wait()
	})
}

// The array that the deque has outgrown keeps no item alive either.
func TestItemsAreForgottenWithTheArrayTheyWereIn(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 4})
		pointers := pushWeakly(t, q, 4)
		stealAll(t, q, 3)
		later := pushWeakly(t, q, 4) // into slots that were stolen from, and then into a larger array
		require.EqualValues(t, 1, q.Stats().Grows)
		requireFreed(t, pointers[:3])
		for _, p := range append(later, pointers[3]) {
			require.NotNil(t, p.Value())
		}
		runtime.KeepAlive(q)
	})
}

// On its rare paths the assembly jumps to Go code. The stack may have to grow just there, and then
// the runtime must understand all of its frames.
func TestStackGrowsAtTheEndOfAnOperation(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 1})
		it := newItem(0)
		for depth := range 400 { // each step is smaller than what an operation needs
			testutil.Together(1, func(int) {
				atDepth(depth, func() {
					q.Push(it) // grows the deque, the second time
					q.Push(it)
					q.Steal()
					q.Pop()
					q.Pop()
					q.Steal()
				})
			})()
		}
		s := q.Stats()
		require.EqualValues(t, 800, s.Pushes)
		require.EqualValues(t, 400, s.Steals)
		require.EqualValues(t, 400, s.Pops)
	})
}

//go:noinline
func atDepth(depth int, do func()) {
	if depth == 0 {
		do()
		return
	}
	atDepth(depth-1, do)
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{})
		items := newItems(50)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			for _, it := range items {
				q.Push(it)
			}
			for range 20 {
				q.Steal()
			}
			for q.Pop() != nil {
			}
			q.Len()
			q.Stats()
		}))
	})
}

// plan is a run of one owner against thieves.
type plan struct {
	items   int
	thieves int
	burst   uint32 // the most that the owner pushes at a time
	pops    uint32 // the most that it then pops; 0 leaves all to the thieves
	fresh   bool   // items are allocated as they are pushed, for the collector to free
}

// run pushes and takes the items 0 to p.items-1, and checks who took what. All sides keep busy and
// share nothing but the deque: a goroutine that pauses, or writes a common tally, misses the moments
// when the others are in the middle of an operation.
func (p plan) run(t testing.TB, q queue) {
	t.Helper()
	items := newItems(p.items)
	taken := make([][]*item, p.thieves+1)
	var done atomic.Bool
	var retries, inconsistent atomic.Uint64
	wait := testutil.Together(p.thieves, func(who int) {
		mine := make([]*item, 0, p.items)
		lost := uint64(0)
		for turn := 1; ; turn++ {
			last := done.Load() // before the look that may find nothing
			it, r := q.Steal()
			if (it != nil) != (r == Success) {
				inconsistent.Add(1)
			}
			if r == Success {
				mine = append(mine, it)
				continue
			}
			if r == Retry {
				lost++
			} else if last {
				break
			}
			giveWay(turn)
		}
		taken[who] = mine
		retries.Add(lost)
	})

	mine := make([]*item, 0, p.items)
	pop := func() bool {
		it := q.Pop()
		if it != nil {
			mine = append(mine, it)
		}
		return it != nil
	}
	r := NewFastRand(uint64(p.items))
	for next, turn := 0, 1; next < p.items; turn++ {
		for n := r.N(p.burst) + 1; n > 0 && next < p.items; n-- {
			it := items[next]
			if p.fresh {
				it, items[next] = newItem(next), nil
			}
			if !q.Push(it) { // the deque has a limit
				giveWay(turn)
				break
			}
			next++
		}
		if p.pops > 0 {
			Pause(int(r.N(8))) // long enough for a thief to see what was pushed
			for n := r.N(p.pops + 1); n > 0 && pop(); n-- {
			}
		}
	}
	for p.pops > 0 && pop() {
	}
	done.Store(true)
	wait()
	require.Nil(t, q.Pop())
	require.Zero(t, q.Len())

	taken[p.thieves] = mine
	requireEachOnce(t, p.items, taken...)
	require.Zero(t, inconsistent.Load(), "an item without Success, or Success without an item")
	s := q.Stats()
	require.EqualValues(t, p.items, s.Pushes)
	require.EqualValues(t, len(mine), s.Pops)
	require.EqualValues(t, p.items-len(mine), s.Steals)
	// The owner loses races too, but Pop does not report them.
	require.GreaterOrEqual(t, s.LostRaces, retries.Load())
}

func TestEveryItemIsTakenExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		config DequeConfig
		plan   plan
	}{
		{DequeConfig{}, plan{thieves: 1, burst: 3, pops: 3}},
		{DequeConfig{}, plan{thieves: 3, burst: 64, pops: 64}},
		{DequeConfig{Capacity: 1}, plan{thieves: 3, burst: 500, pops: 400}},
		{DequeConfig{Capacity: 2, Limit: 2}, plan{thieves: 3, burst: 4, pops: 2}},
		{DequeConfig{Capacity: 2, Limit: 17}, plan{thieves: 2, burst: 40, pops: 10}},
	} {
		t.Run(fmt.Sprintf("%+v,%+v", c.config, c.plan), func(t *testing.T) {
			forEachDeque(t, func(t *testing.T, im implementation) {
				c.plan.items = testutil.Stress(50_000)
				q := im.new(t, c.config)
				c.plan.run(t, q)
				requireForgotten(t, im.body(q).array.Load())
			})
		})
	}
}

// The owner takes its last item by a compare-and-swap, against the thieves. Here every item is the
// last one.
func TestLastItemIsTakenByOwnerOrThief(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for thieves := 1; thieves <= 2; thieves++ {
			q := im.new(t, DequeConfig{})
			plan{items: testutil.Stress(200_000), thieves: thieves, burst: 1, pops: 1}.run(t, q)
		}
	})
}

// With two items the owner takes one without a compare-and-swap. A thief that has just taken the
// other may try for the same one: only the fence in pop keeps them apart.
func TestLastButOneItemIsTakenByOwnerOrThief(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for thieves := 1; thieves <= 2; thieves++ {
			q := im.new(t, DequeConfig{})
			plan{items: testutil.Stress(300_000), thieves: thieves, burst: 3, pops: 2}.run(t, q)
		}
	})
}

// In an array of one or two slots the owner reuses a slot as soon as a thief has
// raised top, so a thief that read its slot only then would take a later item.
func TestStealReadsSlotBeforeItsCAS(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for size := 1; size <= 2; size++ {
			for thieves := 1; thieves <= 2; thieves++ {
				q := im.new(t, DequeConfig{Capacity: size, Limit: size})
				plan{items: testutil.Stress(50_000), thieves: thieves, burst: 8}.run(t, q)
			}
		}
	})
}

// A new deque of one slot grows ten times in its first burst, while thieves may hold any of its
// arrays.
func TestGrowthInTheMiddleOfStealing(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		for round := range testutil.Stress(100) {
			q := im.new(t, DequeConfig{Capacity: 1})
			plan{items: 800 + round, thieves: 1 + round%2, burst: 800, pops: uint32(round % 3 * 250)}.run(t, q)
			require.NotZero(t, q.Stats().Grows)
		}
	})
}

// During a collection, an item may move from the deque to a goroutine whose stack was already
// scanned. Then only the write barriers show it to the collector.
func TestItemsStayAliveUnderConstantCollection(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		defer collectAllTheTime()()
		q := im.new(t, DequeConfig{Capacity: 1})
		plan{items: testutil.Stress(100_000), thieves: 2, burst: 100, pops: 60, fresh: true}.run(t, q)
		requireForgotten(t, im.body(q).array.Load())
	})
}

func TestLostRaceIsNotReportedAsEmpty(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		n := testutil.Stress(50_000)
		q := im.new(t, DequeConfig{})
		pushAll(t, q, newItems(n)...)
		retries := requireNoFalseEmpty(t, n, q.Len, func(mine []*item) ([]*item, StealResult) {
			it, r := q.Steal()
			if r == Success {
				mine = append(mine, it)
			}
			return mine, r
		})
		require.Equal(t, retries, q.Stats().LostRaces)
	})
}

// requireNoFalseEmpty has thieves take from a queue of n items without a producer. Empty means that
// the queue was empty, so no thief may get it before all items are gone, however many races it
// loses. It returns the number of lost races.
func requireNoFalseEmpty(t *testing.T, n int, length func() int, take func(mine []*item) ([]*item, StealResult)) uint64 {
	t.Helper()
	var taken [3][]*item
	var retries, wrong atomic.Uint64
	testutil.Together(len(taken), func(who int) {
		mine, lost := make([]*item, 0, n), uint64(0)
		for r := Retry; r != Empty; {
			if mine, r = take(mine); r == Retry {
				lost++
			}
		}
		if length() > 0 {
			wrong.Add(1)
		}
		taken[who] = mine
		retries.Add(lost)
	})()
	require.Zero(t, wrong.Load(), "Empty, and there was more")
	requireEachOnce(t, n, taken[:]...)
	return retries.Load()
}

// Ownership is a role: anything that orders two goroutines can pass it from one to the other. The
// race detector watches the owner's plain fields here.
func TestOwnershipIsHandedOver(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{Capacity: 1})
		const owners, each = 4, 10
		rounds := testutil.Stress(2000)
		items := newItems(rounds * each)
		var stolen, popped []*item
		var done atomic.Bool
		wait := testutil.Together(1, func(int) {
			for turn := 1; ; turn++ {
				last := done.Load()
				it, r := q.Steal()
				if r == Success {
					stolen = append(stolen, it)
				} else if r == Empty && last {
					return
				}
				giveWay(turn)
			}
		})
		turns := make(chan int, 1)
		turns <- 0
		testutil.Together(owners, func(int) {
			for turn := range turns {
				if turn == rounds {
					close(turns)
					return
				}
				for _, it := range items[turn*each : (turn+1)*each] {
					q.Push(it)
				}
				for range each - 3 {
					if it := q.Pop(); it != nil {
						popped = append(popped, it)
					}
				}
				turns <- turn + 1
			}
		})()
		done.Store(true)
		wait()
		requireEachOnce(t, len(items), stolen, popped)
	})
}

// FuzzDequeAgainstASlice plays the operations that the bytes stand for on every
// implementation and on a slice. The first two bytes are the capacity and the
// limit; of every other byte two bits choose the operation and six how often.
func FuzzDequeAgainstASlice(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0xFC, 2, 0xFE, 0x7F})
	f.Add([]byte{2, 3, 0x10, 3, 0x10, 2, 0x11, 0xFE, 0})
	f.Add([]byte{0, 0, 0xFC, 0xFC, 0x83, 0xFC, 0x82, 0xFC, 0xFF, 0xFE, 0xFE, 0xFE})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 2 {
			return
		}
		config := DequeConfig{Capacity: int(program[0] % 33), Limit: int(program[1] % 100)}
		for _, im := range implementations() {
			im.use(t)
			q := im.new(t, config)
			var model []*item
			var want DequeStats
			for _, b := range program[2:] {
				for range b>>2 + 1 {
					switch b & 3 {
					case 0, 1:
						it := newItem(int(want.Pushes))
						room := config.Limit == 0 || len(model) < config.Limit
						require.Equal(t, room, q.Push(it))
						if room {
							model = append(model, it)
							want.Pushes++
						}
					case 2:
						it := q.Pop()
						if len(model) == 0 {
							require.Nil(t, it)
							break
						}
						require.Same(t, model[len(model)-1], it)
						model = model[:len(model)-1]
						want.Pops++
					case 3:
						it, r := q.Steal()
						if len(model) == 0 {
							require.Nil(t, it)
							require.Equal(t, Empty, r)
							break
						}
						require.Equal(t, Success, r)
						require.Same(t, model[0], it)
						model = model[1:]
						want.Steals++
					}
				}
				require.Equal(t, len(model), q.Len())
			}
			want.Grows = q.Stats().Grows
			require.Equal(t, want, q.Stats())
			popAll(q)
			requireForgotten(t, im.body(q).array.Load())
		}
	})
}
