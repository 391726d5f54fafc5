package heist

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// Indices have 64 bits on all systems and only grow. They pass 2^31 and 2^32 after seconds; instead
// of waiting, these tests begin just below. With a push each nanosecond an index reaches 2^63 after
// 292 years. Up to there the queues work. A push beyond is not promised to work, and nothing here
// tests it.

// aroundBorder is how many items go through a queue whose indices pass a border, and how far
// below it they begin.
const aroundBorder, belowBorder = 4000, 500

// borders are what the indices pass: where a signed or unsigned word of 32 bits would wrap, where
// a float64 would skip, and a millisecond before the last index.
var borders = []int64{1 << 31, 1 << 32, 1 << 53, 1 << 62, math.MaxInt64 - 1<<20}

func forEachBorder(t *testing.T, test func(t *testing.T, start, border int64)) {
	for _, border := range borders {
		t.Run(fmt.Sprintf("%#x", border), func(t *testing.T) { test(t, border-belowBorder, border) })
	}
}

// startAt gives an empty deque the indices of one that has been in use for long.
func (d *deque) startAt(i int64) {
	d.bottom.Store(i)
	d.top.Store(i)
	d.topSeen, d.clean = i, i
}

func (r *Ring[T]) startAt(i int64) {
	r.tail.Store(i)
	r.head.Store(i)
	r.headSeen, r.clean = i, i
}

// startAt is for an injector that has one segment, and no item.
func (in *Injector[T]) startAt(i int64) {
	s := in.head.Load()
	s.enq.Store(i)
	s.deq.Store(i)
	for j := i; j <= i+s.mask; j++ {
		s.at(j).seq.Store(j)
	}
}

func TestDequeIndicesPassEveryBorderOfAWord(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		forEachBorder(t, func(t *testing.T, start, border int64) {
			q := im.new(t, DequeConfig{Capacity: 2}) // grows around the border too
			d := im.body(q)
			d.startAt(start)
			items := newItems(aroundBorder)
			taken := make([][]*item, 3)
			var over atomic.Bool
			testutil.Together(3, func(who int) {
				if who > 0 {
					for turn := 1; ; turn++ {
						last := over.Load()
						it, r := q.Steal()
						if r == Success {
							taken[who] = append(taken[who], it)
						} else if r == Empty && last {
							return
						}
						giveWay(turn)
					}
				}
				defer over.Store(true)
				for i, it := range items {
					q.Push(it)
					if i%5 == 4 {
						if it := q.Pop(); it != nil {
							taken[0] = append(taken[0], it)
						}
					}
					giveWay(i)
				}
				if d.bottom.Load() <= border {
					t.Error("the indices did not come to the border")
				}
				for it := q.Pop(); it != nil; it = q.Pop() {
					taken[0] = append(taken[0], it)
				}
			})()
			requireEachOnce(t, aroundBorder, taken...)
			require.Zero(t, q.Len())
			s := q.Stats()
			require.EqualValues(t, len(taken[0]), s.Pops)
			require.EqualValues(t, len(taken[1])+len(taken[2]), s.Steals-uint64(start), "beside those before")
			require.Equal(t, s.Pushes, s.Pops+s.Steals)
			requireForgotten(t, d.array.Load())
		})
	})
}

func TestRingIndicesPassEveryBorderOfAWord(t *testing.T) {
	forEachBorder(t, func(t *testing.T, start, border int64) {
		overflow := NewInjector[item]()
		overflow.startAt(start)
		r := newRing(t, 16, overflow)
		r.startAt(start)
		items := newItems(aroundBorder)
		taken := make([][]*item, 3)
		var over atomic.Bool
		testutil.Together(3, func(who int) {
			if who > 0 {
				own := newRing(t, 8, nil)
				own.startAt(start)
				for turn := 1; ; turn++ {
					last := over.Load()
					first, _, result := r.StealInto(own)
					if result == Success {
						for it := first; it != nil; it = own.Pop() {
							taken[who] = append(taken[who], it)
						}
					} else if result == Empty && last {
						return
					}
					giveWay(turn)
				}
			}
			defer over.Store(true)
			for i, it := range items {
				if !r.Push(it) {
					t.Error("a ring with an injector refused an item")
				}
				giveWay(i)
			}
			if r.tail.Load() <= border {
				t.Error("the indices did not come to the border")
			}
			for it := r.Pop(); it != nil; it = r.Pop() {
				taken[0] = append(taken[0], it)
			}
		})()
		for it, result := overflow.Pop(); result == Success; it, result = overflow.Pop() {
			taken[0] = append(taken[0], it)
		}
		requireEachOnce(t, aroundBorder, taken...)
		require.Zero(t, r.Len())
		requireForgotten(t, r.slots)
	})
}

func TestInjectorIndicesPassEveryBorderOfAWord(t *testing.T) {
	forEachBorder(t, func(t *testing.T, start, border int64) {
		// If a consumer is held up, the producer gives up the first segment. Then no index passes
		// the border there, and another injector gets its turn.
		for passed := false; !passed; {
			in := NewInjector[item]()
			in.startAt(start)
			first := in.head.Load()
			throughInjector(t, in)
			passed = first.deq.Load() > border
		}
	})
}

// throughInjector has a producer that stays so close to two consumers that one segment is enough.
func throughInjector(t *testing.T, in *Injector[item]) {
	t.Helper()
	items := newItems(aroundBorder)
	taken := make([][]*item, 2)
	var done atomic.Int64
	testutil.Together(3, func(who int) {
		if who == 2 {
			for i := 0; i < len(items); {
				if int64(i)-done.Load() > firstSegment/2 {
					giveWay(0)
					continue
				}
				n := min(1+i%10, len(items)-i)
				if in.PushBatch(items[i:i+n]) != n {
					t.Error("an open injector refused an item")
				}
				i += n
			}
			return
		}
		dst := make([]*item, 7)
		for turn := 1; done.Load() < aroundBorder; turn++ {
			n, _ := in.PullBatch(dst)
			taken[who] = append(taken[who], dst[:n]...)
			done.Add(int64(n))
			giveWay(turn)
		}
	})()
	requireEachOnce(t, aroundBorder, taken...)
	require.Zero(t, in.Len())
	require.False(t, in.Ready())
}

// On 32-bit systems a counter wraps after seconds, as its comment says. What is computed from it,
// the relations between counts, and the queue itself must not break.
func TestCountersThatWrapHarmNothing(t *testing.T) {
	forEachDeque(t, func(t *testing.T, im implementation) {
		q := im.new(t, DequeConfig{})
		d := im.body(q)
		before := ^uintptr(0) - 9 // ten to go
		d.taken.v, d.last.v, d.grows.v = before, before, before
		d.startAt(1 << 40)
		pops, steals := 0, 0
		for range 20 {
			pushAll(t, q, newItems(4)...)
			require.NotNil(t, q.Pop()) // leaves others
			_, r := q.Steal()
			require.Equal(t, Success, r)
			require.Len(t, popAll(q), 2) // a last one among them
			pops, steals = pops+3, steals+1
		}
		s := q.Stats()
		require.Equal(t, s.Pushes, s.Pops+s.Steals)
		// The two counters of pops began with 2*before together. In as many bits as a counter has:
		require.Equal(t, uintptr(pops), uintptr(s.Pops)-2*before)
		require.Equal(t, uintptr(steals), uintptr(s.Steals-1<<40)+before)
		require.Zero(t, q.Len())
	})
	var c Counter
	c.v = ^uintptr(0)
	c.Add(3)
	require.EqualValues(t, 2, c.Load())
}
