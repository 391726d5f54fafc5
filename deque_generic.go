package heist

import (
	"sync/atomic"
	"unsafe"
)

// The deque's operations in sync/atomic. Every build has them, for PortableDeque;
// builds without assembly use them for Deque as well (noasm.go). Go's
// atomics are sequentially consistent, which is more than the algorithm needs: on
// amd64 each store is an XCHG, where a plain MOV would do for push.

func (d *deque) portablePush(item unsafe.Pointer) bool {
	if item == nil {
		panic(nilItem)
	}
	b := d.bottom.Load()
	if b-d.topSeen >= d.room && !d.makeRoom() {
		return false
	}
	atomic.StorePointer(d.array.Load().at(b), item)
	d.bottom.Store(b + 1)
	return true
}

func (d *deque) portablePop() unsafe.Pointer {
	b := d.bottom.Load() - 1
	d.bottom.Store(b)
	t := d.top.Load()
	left := b - t
	if left < 0 {
		d.bottom.Store(b + 1)
		d.sweep()
		return nil
	}
	item := atomic.LoadPointer(d.array.Load().at(b))
	if left > 0 {
		d.taken.Add(1)
		return item
	}
	won := d.top.CompareAndSwap(t, t+1)
	d.bottom.Store(b + 1)
	if !won {
		d.lost.add()
		d.sweep()
		return nil
	}
	d.last.Add(1)
	return item
}

func (d *deque) portableSteal() (item unsafe.Pointer, index int64, r StealResult) {
	t := d.top.Load()
	b := d.bottom.Load()
	if b-t <= 0 {
		return nil, 0, Empty
	}
	item = atomic.LoadPointer(d.array.Load().at(t))
	if !d.top.CompareAndSwap(t, t+1) {
		d.lost.add()
		return nil, 0, Retry
	}
	return item, t, Success
}

// PortableDeque is a [Deque] that never uses assembly: the same algorithm in
// sync/atomic in every build. Measure it against Deque on your CPU; where it
// wins, build with the tag purego.
//
// The zero value is an empty deque without a limit. It must not be copied.
type PortableDeque[T any] struct {
	_ [0]*T
	deque
}

// NewPortableDeque is [NewDeque] for a PortableDeque.
func NewPortableDeque[T any](c DequeConfig) (*PortableDeque[T], error) {
	d := new(PortableDeque[T])
	if err := d.configure(c); err != nil {
		return nil, err
	}
	return d, nil
}

// Push is [Deque.Push].
func (d *PortableDeque[T]) Push(item *T) bool { return d.portablePush(unsafe.Pointer(item)) }

// Pop is [Deque.Pop].
func (d *PortableDeque[T]) Pop() *T { return (*T)(d.portablePop()) }

// PopFrom is [Deque.PopFrom].
func (d *PortableDeque[T]) PopFrom(base int64) *T {
	b := d.bottom.Load() - 1
	if b-base < 0 {
		return nil
	}
	item := d.portablePop()
	d.forget(b, item)
	return (*T)(item)
}

// Steal is [Deque.Steal].
func (d *PortableDeque[T]) Steal() (*T, StealResult) {
	item, _, r := d.portableSteal()
	return (*T)(item), r
}

// StealAt is [Deque.StealAt].
func (d *PortableDeque[T]) StealAt() (item *T, index int64, r StealResult) {
	p, index, r := d.portableSteal()
	return (*T)(p), index, r
}
