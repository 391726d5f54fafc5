package heist

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/internal/pad"
)

// # The Chase-Lev deque
//
// One thread owns a deque. It pushes and pops at the bottom; any other thread
// steals at the top. Items have indices that only grow; index i lives in slot i
// modulo the array's length. The items are those with top <= i < bottom. At a push
// every nanosecond an index would reach 2^63 after 292 years; what happens then is
// not looked after, here or in the other queues.
//
//	        top                 bottom
//	         |                     |
//	         v                     v
//	... [ ] [A] [B] [C] ... [Y] [Z] [ ] ...
//	         ^                   ^
//	    thieves take A      the owner takes Z
//
// Who writes what: bottom and the array are written by the owner alone, top by
// the goroutine that wins a compare-and-swap that raises it by one.
//
// Push stores the slot and then bottom with release, so a thief that sees the
// index sees the item.
//
// Pop lowers bottom first, then looks at top, with a full fence between the two.
// Steal reads top first, then bottom, then the slot, and last raises top. Take an
// owner and a thief that are both after index i:
//
//   - If the owner finds top < i it takes i without a CAS. It lowered bottom to i
//     before it read top, and a thief that gets as far as top = i does so after
//     that read, hence reads bottom <= i afterwards and goes away empty-handed.
//     The full fence is what makes "before" true of a store and a later load.
//   - If the owner finds top = i, this is the last item, and both sides go through
//     the CAS on top, of which one succeeds.
//
// Steal reads its slot before its CAS. Once the CAS has succeeded the owner may
// reuse the slot; a thief that reads late can get an item that was pushed later.
// What it reads early is thrown away if the CAS fails, so it does no harm that
// the owner may have reused the slot by then.
//
// Growing copies the items with top <= i < bottom into an array twice as long and
// publishes that with release; the owner goes on with the new array, thieves that
// loaded the old one find the same items in it, and the garbage collector takes
// it when the last of them is gone. An array is never used again for a deque.
//
// Only one item can be stolen at a time: the owner pops without a CAS, so a thief
// that raised top by two could pass an owner who has just looked at it. [Ring] is
// the queue to steal halves from.
//
// The algorithm is from Chase and Lev, "Dynamic circular work-stealing deque",
// SPAA 2005; the orderings are those proved by Lê, Pop, Cohen and Zappa Nardelli,
// "Correct and efficient work-stealing for weak memory models", PPoPP 2013, with
// the mend of its growth by Norris and Demsky (CDSchecker, OOPSLA 2013): the owner
// must use the array that growing returned, not one that it loaded before.

// deque is the part of Deque that does not depend on the type of the items, which
// is the part that assembly knows.
type deque struct {
	// The owner's cache line. Thieves read bottom and array.

	bottom atomic.Int64          // owner writes
	array  atomic.Pointer[slots] // owner writes; nil before the first push
	room   int64                 // owner only: how many items fit without makeRoom
	// topSeen is a value that top once had. Top never goes back, so the room
	// that follows from topSeen is there, and push need not touch top's line.
	topSeen int64 // owner only
	clean   int64 // owner only: the slots of all indices below it were cleared
	limit   int64 // constant; 0 is none

	taken Counter // pops that left other items behind; owner writes
	last  Counter // pops of a last item; owner writes
	grows Counter // owner writes

	_ pad.Line

	// The thieves' cache line.

	top atomic.Int64 // thieves and the owner, by CAS

	_ pad.Line

	// Not on top's line: on arm64 without LSE, a store there breaks into the CAS of
	// the others.

	lost lostRaces // thieves, and the owner when it loses the last item

	_ pad.Line
}

// Deque is a work-stealing deque of pointers. Its owner, one goroutine at a time,
// pushes and pops at one end, last in first out; any number of goroutines steal at
// the other end, where the oldest items are. It grows as needed.
//
// On amd64 and arm64 the operations are assembly; see [PortableDeque] for the
// same in Go. The zero value is an empty deque without a limit. A Deque must not
// be copied.
type Deque[T any] struct {
	_ [0]*T // a Deque[A] cannot be converted to a Deque[B]
	deque
}

// DequeConfig says how large a deque is. The zero value is the default.
type DequeConfig struct {
	// Capacity is the number of items that fit before the deque first grows,
	// rounded up to a power of two; 0 means 64.
	Capacity int
	// Limit is the number of items above which Push refuses; 0 means no limit.
	Limit int
}

const (
	// defaultCapacity is 64 slots, 8 cache lines: a fork-join program of depth 64
	// never grows it.
	defaultCapacity = 64
	// maxCapacity is the largest size taken for an intention: 2^28 pointers are
	// 2 GiB on a 64-bit machine.
	maxCapacity = 1 << 28
)

// NewDeque returns an empty deque. It refuses sizes that are negative or above
// 2^28 items.
func NewDeque[T any](c DequeConfig) (*Deque[T], error) {
	d := new(Deque[T])
	if err := d.configure(c); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *deque) configure(c DequeConfig) error {
	for _, size := range []struct {
		name  string
		value int
	}{{"Capacity", c.Capacity}, {"Limit", c.Limit}} {
		if size.value < 0 || size.value > maxCapacity {
			return fmt.Errorf("heist: DequeConfig.%s is %d; it must be 0 (the default) or from 1 to %d",
				size.name, size.value, maxCapacity)
		}
	}
	if c.Capacity == 0 {
		c.Capacity = defaultCapacity
	}
	d.limit = int64(c.Limit)
	d.setArray(newSlots(nextPow2(c.Capacity)))
	return nil
}

// Push adds item at the bottom. It is for the owner. It returns false, and leaves
// the deque as it was, only if the deque has a limit and is at it; the item is
// then still the caller's. A nil item is a mistake of the caller's and panics.
//
// Cost: one plain store to publish the item on amd64, one store-release on arm64,
// amortised over growth. No locked instruction, hence no full fence: a pusher that looks
// for sleepers after a push must put one in between.
func (d *Deque[T]) Push(item *T) bool { return d.push(unsafe.Pointer(item)) }

// Pop takes the newest item, or returns nil if there is none. It is for the owner.
//
// Cost: one full fence; one compare-and-swap more for a last item. A Pop that finds
// the deque empty also clears the slots of all items that were taken since the last
// one that did; until then the deque keeps those items from being collected.
func (d *Deque[T]) Pop() *T { return (*T)(d.pop()) }

// PopFrom takes the newest item if it was pushed when [Deque.Bottom] was base or more, and else returns
// nil. It is for an owner whose computations share a deque, one nested in another: each takes
// what it has pushed itself.
//
// Cost: that of a Pop, and a store with a write barrier: unlike Pop it clears the slot at once. An
// owner uses one of the two.
func (d *Deque[T]) PopFrom(base int64) *T {
	b := d.bottom.Load() - 1
	if b-base < 0 {
		return nil
	}
	item := d.pop()
	d.forget(b, item)
	return (*T)(item)
}

// Steal takes the oldest item. Anybody may call it, the owner included. The item
// is nil unless the result is [Success]. [Retry] means that another thread took an
// item at the same moment or, on arm64 without LSE, disturbed the attempt.
//
// Cost: one compare-and-swap if there is an item, two loads if there is none.
func (d *Deque[T]) Steal() (*T, StealResult) {
	item, _, r := d.steal()
	return (*T)(item), r
}

// StealAt is Steal, and tells at which index the item was: what Bottom was when it was pushed. No
// item that is pushed later has this index or a smaller one.
func (d *Deque[T]) StealAt() (item *T, index int64, r StealResult) {
	p, index, r := d.steal()
	return (*T)(p), index, r
}

const nilItem = "heist: push of a nil item: a queue returns nil to say that it is empty, so nil cannot be queued"

// makeRoom is push's slow path: it looks at top again, grows the array if it must,
// and says whether one more item may be pushed.
//
//go:noinline
func (d *deque) makeRoom() bool {
	b, t := d.bottom.Load(), d.top.Load()
	d.topSeen = t
	if b-t < d.room {
		return true
	}
	if d.limit > 0 && b-t >= d.limit {
		return false
	}
	old := d.array.Load()
	if old == nil { // the zero Deque
		d.setArray(newSlots(defaultCapacity))
		return true
	}
	grown := newSlots(2 * old.len())
	for i := t; i < b; i++ {
		*grown.at(i) = atomic.LoadPointer(old.at(i))
	}
	d.setArray(grown)
	d.clean = t // the slots below t are of the array that is dropped
	d.grows.Add(1)
	return true
}

func (d *deque) setArray(s *slots) {
	d.array.Store(s)
	d.room = s.len()
	if d.limit > 0 {
		d.room = min(d.room, d.limit)
	}
}

// sweep forgets the items that were taken. Thieves cannot: when they know that an
// item is theirs, the slot may already hold the next one. The owner could, at each
// pop, for the price of a write barrier. Now it has found the deque empty, so no slot
// holds an item: not those that thieves left, below top, nor those that pops left,
// from top on up to the first that is clear. Each push is swept once at most.
//
//go:noinline
func (d *deque) sweep() {
	a, t := d.array.Load(), d.top.Load()
	if a == nil {
		return
	}
	a.clear(d.clean, t)
	for i := t; i < t+a.len() && atomic.LoadPointer(a.at(i)) != nil; i++ {
		storeSlot(a.at(i), nil)
	}
	d.clean = t
}

// forget clears the slot of index b, if it was popped from there. A thief that reads the slot in vain
// fails at its CAS: top was b at most, and is above it if it was b.
func (d *deque) forget(b int64, popped unsafe.Pointer) {
	if popped != nil {
		storeSlot(d.array.Load().at(b), nil)
	}
}

// Bottom returns the index that the next item will have. It is for the owner.
func (d *deque) Bottom() int64 { return d.bottom.Load() }

// Len returns the number of items at some moment during the call. Anybody may
// call it.
func (d *deque) Len() int { return int(between(&d.top, d.bottom.Load)) }

// DequeStats counts what happened to a deque since it was made. Pushes equal Pops
// plus Steals plus the items still inside.
type DequeStats struct {
	Pushes    uint64 // items pushed
	Pops      uint64 // items that the owner took back
	Steals    uint64 // items that thieves took
	LostRaces uint64 // attempts that another thread overtook
	Grows     uint64 // times that the array was replaced by a larger one
}

// Stats returns the deque's counters. Anybody may call it; while the deque is in
// use, the numbers may be of slightly different moments. On 32-bit systems they
// wrap at 2^32.
//
// The owner keeps one counter on its fast path, with plain adds. The rest follows
// from the indices: bottom counts the pushes less the pops that lowered it, and
// top counts the steals and the pops of last items.
func (d *deque) Stats() DequeStats {
	last, t := d.last.Load(), d.top.Load()
	for last != d.last.Load() { // else pops in between would pass for steals
		last, t = d.last.Load(), d.top.Load()
	}
	taken, b := d.taken.Load(), d.bottom.Load()
	return DequeStats{
		Pushes:    uint64(max(b, t)) + taken, // a pop from an empty deque takes bottom below top
		Pops:      taken + last,
		Steals:    uint64(t) - last,
		LostRaces: d.lost.load(),
		Grows:     d.grows.Load(),
	}
}
