package hazards

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
)

// The documents that heist follows print deques, and three of them have errors. Each test plays the error on a
// transcript of the listing, step by step, to show that its plan does meet it, and then the same plan on heist's deques.

// blitzListing is the deque of the Blitz scheduler's page: its indices go straight into the buffer.
type blitzListing struct {
	buffer      []int
	bottom, top int
}

func (d *blitzListing) push(item int) {
	d.buffer[d.bottom] = item
	d.bottom++
}

func (d *blitzListing) steal() (item int) {
	item = d.buffer[d.top]
	d.top++
	return item
}

// TestBlitzListingIndicesWrap: in the page's listing neither push nor steal takes the index modulo the buffer's
// length, nor does push look whether there is room.
func TestBlitzListingIndicesWrap(t *testing.T) {
	claim.That(t, "Blitz's page: indices wrap, and a full deque grows or refuses, where the listing leaves its buffer",
		"the plan that breaks a transcript of the listing, on both deques: many times the capacity passes through, and then more than it holds")
	const capacity = 4
	listing := &blitzListing{buffer: make([]int, capacity)}
	require.Panics(t, func() {
		for i := range capacity + 1 { // one item at a time
			listing.push(i)
			listing.steal()
		}
	}, "the transcript's buffer has no end")

	n := rounds(100_000)
	for _, newDeque := range deques {
		d := newDeque(capacity)
		for range n {
			its := make(items, 1)
			require.True(t, d.Push(&its[0]))
			it, r := d.Steal()
			require.Equal(t, heist.Success, r)
			require.Same(t, &its[0], it)
		}
		require.Zero(t, d.Stats().Grows, "one item at a time needs no more room")
		its := make(items, 3*capacity)
		for i := range its {
			require.True(t, d.Push(&its[i]))
		}
		for i := range its {
			it, _ := d.Steal()
			require.Same(t, &its[i], it, "no item lies on top of another")
		}
		require.NotZero(t, d.Stats().Grows)
	}
	limited, err := heist.NewDeque[int](heist.DequeConfig{Capacity: capacity, Limit: capacity})
	require.NoError(t, err)
	for i := range 2 * capacity {
		require.Equal(t, i < capacity, limited.Push(new(int)), "item %d", i)
	}
	claim.Amount(t, "%s items through %d slots", claim.Count(2*n), capacity)
}

// principlesListing is the deque of the page that derives one from first principles, whose thieves take the item out of
// its slot before they own it. A steal is in two steps, so that a test can play what comes between.
type principlesListing struct {
	buffer      []*int
	bottom, top int
}

func (d *principlesListing) push(item *int) {
	d.buffer[d.bottom%len(d.buffer)] = item
	d.bottom++
}

type principlesThief struct {
	top  int
	item *int
}

func (d *principlesListing) take() principlesThief {
	i := d.top % len(d.buffer)
	item := d.buffer[i]
	d.buffer[i] = nil
	return principlesThief{d.top, item}
}

func (d *principlesListing) claim(thief principlesThief) *int {
	if d.top != thief.top {
		return nil
	}
	d.top++
	return thief.item
}

// TestFirstPrinciplesListingTakesAfterItsCAS: in that page's listing a thief empties the slot and then tries its
// compare-and-swap. If another thief comes between, that one wins with an empty slot, the first one loses and drops the
// item. Nor does push look for room, so it overwrites what was not taken.
func TestFirstPrinciplesListingTakesAfterItsCAS(t *testing.T) {
	claim.That(t, "first principles' page: an item belongs to the thief whose compare-and-swap succeeds, and push overwrites nothing",
		"the plan that loses an item of a transcript of the listing, as a race of thieves and owner for one item, on both deques")
	listing := &principlesListing{buffer: make([]*int, 2)}
	listing.push(new(int))
	first := listing.take()
	second := listing.take()
	require.Nil(t, listing.claim(second), "the second thief wins nothing")
	require.Nil(t, listing.claim(first), "and the first has lost")
	require.Equal(t, listing.bottom, listing.top, "so the item is gone")

	full := &principlesListing{buffer: make([]*int, 2)}
	oldest := new(int)
	for _, it := range []*int{oldest, new(int), new(int)} {
		full.push(it)
	}
	require.NotSame(t, oldest, full.take().item, "the transcript overwrites the oldest item")

	thieves := crowd(t)
	perDeque := rounds(50_000)
	var taken, stolen uint64
	for _, newDeque := range deques {
		d := newDeque(1)
		its := make(items, perDeque)
		var over atomic.Bool
		var byThieves atomic.Uint64
		testutil.Together(1+thieves, func(who int) {
			if who == 0 {
				defer over.Store(true)
				for i := range its {
					d.Push(&its[i])
					if it := d.Pop(); it != nil {
						it.Add(1)
					}
				}
				return
			}
			for !over.Load() {
				switch it, r := d.Steal(); {
				case r == heist.Success:
					it.Add(1) // nil would end the test
					byThieves.Add(1)
				case it != nil:
					t.Errorf("a thief that got %v has an item", r)
				}
			}
		})()
		for it := d.Pop(); it != nil; it = d.Pop() {
			it.Add(1)
		}
		for i := range its {
			require.EqualValues(t, 1, its[i].Load(), "item %d", i)
		}
		// The course page counts steals in a plain variable that all thieves increment.
		require.Equal(t, byThieves.Load(), d.Stats().Steals, "no steal goes uncounted")
		taken, stolen = taken+uint64(perDeque), stolen+byThieves.Load()
	}
	claim.Amount(t, "%s items, %s of them stolen", claim.Count(taken), claim.Count(stolen))
}

// courseListing is the deque of the course page, whose indices are unsigned.
type courseListing struct {
	buffer      [8]*int
	bottom, top uint64
}

func (d *courseListing) pop() (item *int) {
	b := d.bottom - 1
	d.bottom = b
	if t := d.top; t <= b {
		item = d.buffer[b%8]
		if t == b {
			d.top++
			d.bottom = t + 1
		}
	} else {
		d.bottom = t
	}
	return item
}

func (d *courseListing) steal() (item *int, ok bool) {
	if d.top >= d.bottom {
		return nil, false
	}
	item = d.buffer[d.top%8]
	d.top++
	return item, true
}

// TestCourseListingPopOfNothingUnderflows: at 0 the page's bottom-1 is the greatest number there is. Pop takes the
// deque for full, and thieves steal what was never pushed.
func TestCourseListingPopOfNothingUnderflows(t *testing.T) {
	claim.That(t, "the course page: a pop of an empty deque leaves it empty, where the listing's index underflows",
		"the plan that breaks a transcript of the listing, on both deques, new and used")
	listing := new(courseListing)
	listing.pop()
	_, ok := listing.steal()
	require.True(t, ok, "a thief of the transcript steals what was never pushed")

	const pops = 100
	for _, newDeque := range deques {
		d := newDeque(1)
		for _, used := range []bool{false, true} {
			for range pops {
				require.Nil(t, d.Pop(), "used: %v", used)
				it, r := d.Steal()
				require.Nil(t, it)
				require.Equal(t, heist.Empty, r)
			}
			its := make(items, 2)
			require.True(t, d.Push(&its[0]))
			require.True(t, d.Push(&its[1]))
			it, _ := d.Steal()
			require.Same(t, &its[0], it)
			require.Same(t, &its[1], d.Pop())
		}
	}
	claim.Amount(t, "%d pops of nothing", 2*pops*len(deques))
}
