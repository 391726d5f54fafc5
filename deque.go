package heist

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/internal/pad"
)

// # The Chase-Lev deque
//
// One thread owns a deque. It pushes and pops at the bottom; any other thread steals at
// the top. Item i lives in slot i modulo the array's length, and the deque holds the
// items with top <= i < bottom. top only grows. At one push per nanosecond an index would
// reach 2^63 after 292 years; no queue of this package handles that.
//
//	        top                 bottom
//	         |                     |
//	         v                     v
//	... [ ] [A] [B] [C] ... [Y] [Z] [ ] ...
//	         ^                   ^
//	    thieves take A      the owner takes Z
//
// Only the owner writes bottom and the array. The goroutine that wins a compare-and-swap
// on top raises it by one.
//
// Push stores the slot and then bottom with release, so a thief that sees the
// index sees the item.
//
// Pop lowers bottom first and then reads top, with a full fence between the two. Steal
// reads top first, then bottom, then the slot, and raises top last. Suppose that the
// owner and a thief both want item i:
//
//   - If the owner finds top < i, it takes item i without a CAS. It lowered bottom to i
//     before it read top. A thief that reads top = i does so after that, so it then reads
//     bottom <= i and finds the deque empty. The full fence orders the owner's store of
//     bottom before its load of top.
//   - If the owner finds top = i, item i is the last one. Both sides try the CAS on top,
//     and one of them succeeds.
//
// Steal reads its slot before its CAS, because once the CAS has succeeded the owner may
// reuse the slot, and a later read could return an item that was pushed afterwards. If
// the CAS fails, the thief discards what it read, so it does no harm that the owner may
// have reused the slot by then.
//
// Growing copies the items with top <= i < bottom into an array twice as long and
// publishes the new array with release. The owner goes on with the new array. Thieves
// that loaded the old array find the same items in it, and the garbage collector frees it
// when the last of them is done. A deque never reuses an old array.
//
// Only one item can be stolen at a time: the owner pops without a CAS, so a thief that
// raised top by two could overtake an owner that has just read top. A [Ring] is the queue
// that thieves steal from by halves.
//
// The algorithm is from Chase and Lev, "Dynamic circular work-stealing deque", SPAA 2005;
// the orderings are those proved by Lê, Pop, Cohen and Zappa Nardelli, "Correct and
// efficient work-stealing for weak memory models", PPoPP 2013, with the fix of its growth
// by Norris and Demsky (CDSchecker, OOPSLA 2013): the owner must use the array that
// growing returned, not one that it loaded before.

// deque is the part of Deque that does not depend on the type of the items. The assembly
// knows only this part.
type deque struct {
	_ pad.Line

	// The owner's cache line. Thieves read bottom and array.

	bottom atomic.Int64          // owner writes
	array  atomic.Pointer[slots] // owner writes; nil before the first push
	room   int64                 // owner only: how many items fit without makeRoom
	// topSeen is an earlier value of top. top never decreases, so the room that follows
	// from topSeen exists, and push need not touch top's line.
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

	// Not on top's line: on arm64 without LSE, a store to that line makes the CAS of
	// other threads fail.

	lost lostRaces // thieves, and the owner when it loses the last item

	_ pad.Line
}

// Deque is a work-stealing deque of pointers. Its owner, one goroutine at a time,
// pushes and pops at one end, last in first out; any number of goroutines steal at
// the other end, where the oldest items are. It grows as needed and never shrinks: after
// 10 million items its array has 2^24 slots, 128 MiB, as long as the deque lives. An owner
// that has found a large deque empty can replace it by a new one.
//
// On amd64 and arm64 the operations are assembly; [PortableDeque] is the same in Go. The
// zero value is an empty deque without a limit. A Deque must not be copied.
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
	// maxCapacity is the largest size accepted; a larger one is taken for a mistake. 2^28
	// pointers are 2 GiB on a 64-bit machine.
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

// Push adds item at the bottom. Only the owner may call it. It returns false, and leaves
// the deque unchanged, only if the deque has a limit and has reached it; the caller then
// keeps the item. A nil item panics.
//
// Cost: one plain store to publish the item on amd64, one store-release on arm64,
// amortised over growth. Push has no locked instruction, hence no full fence: an owner
// that looks for sleepers after a push needs a fence in between.
func (d *Deque[T]) Push(item *T) bool { return d.push(unsafe.Pointer(item)) }

// Pop takes the newest item, or returns nil if there is none. Only the owner may call it.
//
// Cost: one full fence, and a compare-and-swap for a last item. A Pop that finds the
// deque empty also clears the slots of all items that were taken since the last such Pop;
// until then the deque keeps those items from being collected.
func (d *Deque[T]) Pop() *T { return (*T)(d.pop()) }

// PopFrom takes the newest item if it was pushed when [Deque.Bottom] was base or more,
// and otherwise returns nil. It is for an owner whose nested computations share a deque:
// each of them takes only the items that it pushed.
//
// Cost: that of a Pop, and a store with a write barrier, because PopFrom clears the slot
// at once. An owner uses either Pop or PopFrom.
func (d *Deque[T]) PopFrom(base int64) *T {
	b := d.bottom.Load() - 1
	if b-base < 0 {
		return nil
	}
	item := d.pop()
	d.forget(b, item)
	return (*T)(item)
}

// Steal takes the oldest item. Any goroutine may call it, including the owner. The item
// is nil unless the result is [Success]. [Retry] means that another thread took an item
// at the same moment or, on arm64 without LSE, disturbed the attempt.
//
// Cost: one compare-and-swap if there is an item, two loads if there is none.
func (d *Deque[T]) Steal() (*T, StealResult) {
	item, _, r := d.steal()
	return (*T)(item), r
}

// StealAt is Steal and also returns the index of the item: the value of Bottom when the
// item was pushed. No item that is pushed later has this index or a smaller one.
func (d *Deque[T]) StealAt() (item *T, index int64, r StealResult) {
	p, index, r := d.steal()
	return (*T)(p), index, r
}

const nilItem = "heist: push of a nil item: a queue returns nil to say that it is empty, so nil cannot be queued; in a pool, a worker was used in another goroutine, and a build with the tag heistdebug says where"

// makeRoom is push's slow path: it reads top again, grows the array if it must, and
// reports whether one more item may be pushed.
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
	d.clean = t // the slots below t belong to the old array
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

// sweep clears the slots of items that were taken. Thieves cannot do that: by the time a
// thief knows that an item is its own, the slot may already hold the next item. The owner
// could do it at each pop, for the price of a write barrier. The owner calls sweep when
// it has found the deque empty, so no slot holds an item. sweep clears the slots that
// thieves left, below top, and those that pops left, from top up to the first that is
// clear. Each push is swept at most once.
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

// forget clears the slot of index b if an item was popped from it. A thief that then
// reads the slot has read top = b, and its CAS fails: popping the last item raised top
// above b.
func (d *deque) forget(b int64, popped unsafe.Pointer) {
	if popped != nil {
		storeSlot(d.array.Load().at(b), nil)
	}
}

// Bottom returns the index that the next item will have. Only the owner may call it.
func (d *deque) Bottom() int64 { return d.bottom.Load() }

// Len returns the number of items at some moment during the call. Any goroutine may call
// it.
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

// Stats returns the deque's counters. Any goroutine may call it; while the deque is in
// use, the numbers may be from slightly different moments. On 32-bit systems they wrap at
// 2^32.
//
// The owner keeps one counter on its fast path, with plain adds. The rest follows
// from the indices: bottom counts the pushes less the pops that lowered it, and
// top counts the steals and the pops of last items.
func (d *deque) Stats() DequeStats {
	last, t := d.last.Load(), d.top.Load()
	for last != d.last.Load() { // otherwise pops in between would count as steals
		last, t = d.last.Load(), d.top.Load()
	}
	taken, b := d.taken.Load(), d.bottom.Load()
	return DequeStats{
		Pushes:    uint64(max(b, t)) + taken, // a pop from an empty deque briefly lowers bottom below top
		Pops:      taken + last,
		Steals:    uint64(t) - last,
		LostRaces: d.lost.load(),
		Grows:     d.grows.Load(),
	}
}
