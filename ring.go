package heist

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/internal/pad"
)

// # The ring
//
// A ring is a bounded queue, first in first out, in a circular array. The owner pushes
// at the tail. The owner and thieves take from the head, the owner one item at a time
// and a thief half of the items. Both raise the head by a compare-and-swap, which is
// what makes it sound to take several items at once (the owner of a Chase-Lev deque
// pops without one; see deque.go).
//
// The owner or thief reads the slots and then raises the head. As long as the head has
// not moved, the owner cannot have come round to those slots, so the items that were
// read are valid. The head never returns to an old value, because indices are 64-bit
// and only grow. If the CAS fails, the items that were read are thrown away.
//
// The scheme is that of Go's own run queues (runtime/proc.go, runqgrab). Tokio
// claims first and copies afterwards, with a second head in the same word, because
// in Rust reading a slot that another thread overwrites is not allowed.

// DefaultRingCapacity is the capacity of the run queues of Go, Tokio and blitz-io.
const DefaultRingCapacity = 256

// Ring is a bounded run queue of pointers. Its owner, one goroutine at a time, pushes
// and pops; any number of goroutines steal. If it was given an [Injector], a push into
// a full ring moves half of the ring and the new item to that.
//
// Create it with [NewRing]. It must not be copied.
type Ring[T any] struct {
	_ pad.Line

	slots    *slots       // constant
	overflow *Injector[T] // constant
	spilled  []*T         // owner only: items on their way to overflow

	_ pad.Line

	tail     atomic.Int64 // owner writes
	headSeen int64        // owner only: an earlier value of head
	clean    int64        // owner only: the slots of all indices below it were cleared

	_ pad.Line

	head atomic.Int64 // the owner and thieves, by CAS

	_ pad.Line
}

// NewRing returns an empty ring for capacity items: a power of two from 2 to 2^28, or 0
// for [DefaultRingCapacity]. The injector takes the items that do not fit; it may be
// nil.
func NewRing[T any](capacity int, overflow *Injector[T]) (*Ring[T], error) {
	if capacity == 0 {
		capacity = DefaultRingCapacity
	}
	if capacity < 2 || capacity > maxCapacity || capacity&(capacity-1) != 0 {
		return nil, fmt.Errorf("heist: the capacity of a Ring is %d; it must be a power of two from 2 to %d, or 0 for %d",
			capacity, maxCapacity, DefaultRingCapacity)
	}
	r := &Ring[T]{slots: newSlots(int64(capacity)), overflow: overflow}
	if overflow != nil {
		r.spilled = make([]*T, 0, capacity/2+1)
	}
	return r, nil
}

// Push adds item at the tail. Only the owner may call it. If the ring is full, its
// older half and the item go to the injector in one batch. Without an injector, or if
// that is closed, Push returns false and the caller keeps the item; after a refusal by
// a closed injector the older half may stand behind the newer. A nil item panics.
//
// Cost: one sequentially consistent store. It is a full fence, so that an owner that
// then looks for sleeping workers cannot miss one that has missed the item.
func (r *Ring[T]) Push(item *T) bool {
	if item == nil {
		panic(nilItem)
	}
	t := r.tail.Load()
	if t-r.headSeen > r.slots.mask {
		r.headSeen = r.head.Load()
		if t-r.headSeen > r.slots.mask {
			return r.spill(item)
		}
	}
	storeSlot(r.slots.at(t), unsafe.Pointer(item))
	r.tail.Store(t + 1)
	return true
}

// PushBatch adds items at the tail, in order, as many as there is room for, and returns
// how many. Only the owner may call it. A nil item panics before any item is added.
//
// Cost: one sequentially consistent store for all of them.
func (r *Ring[T]) PushBatch(items []*T) int {
	t := r.tail.Load()
	r.headSeen = r.head.Load()
	n := min(len(items), int(r.slots.len()-(t-r.headSeen)))
	if slices.Contains(items, nil) {
		panic(nilItem)
	}
	for i, item := range items[:n] {
		storeSlot(r.slots.at(t+int64(i)), unsafe.Pointer(item))
	}
	if n > 0 {
		r.tail.Store(t + int64(n))
	}
	return n
}

// spill moves the older half of a full ring and item to the injector.
//
//go:noinline
func (r *Ring[T]) spill(item *T) bool {
	if r.overflow == nil {
		return false
	}
	h := r.headSeen
	half := r.slots.len() / 2
	batch := r.spilled[:0]
	for i := h; i < h+half; i++ {
		batch = append(batch, r.load(i))
	}
	if !r.head.CompareAndSwap(h, h+half) {
		// A thief was here, so there is room now.
		clear(batch)
		return r.Push(item)
	}
	r.headSeen = h + half
	batch = append(batch, item)
	done := r.overflow.PushBatch(batch)
	accepted := done == len(batch)
	if !accepted {
		// The injector has closed. The items that it did not take fit into the half
		// that is free now, except for the new item, which is refused.
		for _, it := range batch[done : len(batch)-1] {
			r.Push(it)
		}
	}
	clear(batch)
	return accepted
}

// Pop takes the oldest item, or returns nil if there is none. Only the owner may call
// it.
//
// Cost: one compare-and-swap.
func (r *Ring[T]) Pop() *T {
	t := r.tail.Load()
	for {
		h := r.head.Load()
		if h == t {
			r.sweep(h)
			return nil
		}
		item := r.load(h)
		if r.head.CompareAndSwap(h, h+1) {
			storeSlot(r.slots.at(h), nil)
			return item
		}
	}
}

// sweep clears the slots of items that thieves have taken, as [deque.sweep] does.
func (r *Ring[T]) sweep(h int64) {
	if h != r.clean {
		r.slots.clear(r.clean, h)
		r.clean = h
	}
}

// StealInto steals half of the ring's items, rounded up, but no more than half of the
// ring's capacity and no more than fit into dst. It returns the oldest of them, for the
// thief to run now, and appends the others, in their order, to dst, which must be the
// thief's own ring. n counts all of them. [Retry] means that another thread took items
// at the same moment.
//
// Any goroutine but the ring's owner may call it. Cost: one compare-and-swap, and a
// load and a store for each item.
func (r *Ring[T]) StealInto(dst *Ring[T]) (first *T, n int, result StealResult) {
	if dst == nil || dst == r {
		panic("heist: Ring.StealInto needs the thief's own ring: another ring than the one that is stolen from")
	}
	dt := dst.tail.Load()
	dst.headSeen = dst.head.Load()
	free := dst.slots.len() - (dt - dst.headSeen)

	h := r.head.Load()
	t := r.tail.Load()
	available := t - h
	if available <= 0 {
		return nil, 0, Empty
	}
	moved := min(available-available/2, free+1) // more than half of the capacity means that the head has moved
	first = r.load(h)
	for i := int64(1); i < moved; i++ {
		storeSlot(dst.slots.at(dt+i-1), unsafe.Pointer(r.load(h+i)))
	}
	if !r.head.CompareAndSwap(h, h+moved) {
		dst.slots.clear(dt, dt+moved-1)
		return nil, 0, Retry
	}
	if moved > 1 {
		dst.tail.Store(dt + moved - 1)
	}
	return first, int(moved), Success
}

func (r *Ring[T]) load(i int64) *T {
	return (*T)(atomic.LoadPointer(r.slots.at(i)))
}

// Len returns the number of items at some moment during the call. Any goroutine may
// call it.
func (r *Ring[T]) Len() int { return int(between(&r.head, r.tail.Load)) }

// Cap returns the number of items that fit.
func (r *Ring[T]) Cap() int { return int(r.slots.len()) }
