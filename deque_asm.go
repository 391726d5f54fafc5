//go:build (amd64 || arm64) && gc && !purego && !race

package heist

import (
	"sync/atomic"
	"unsafe"
)

// push stores the slot in Go, because assembly would bypass the write barrier. A
// plain store is enough: publish orders it before the index, and thieves read the
// slot in assembly.
func (d *deque) push(item unsafe.Pointer) bool {
	if item == nil {
		panic(nilItem)
	}
	b := d.bottom.Load()
	if b-d.topSeen >= d.room && !d.makeRoom() {
		return false
	}
	*d.array.Load().at(b) = item
	publish(&d.bottom, b+1)
	return true
}

func (d *deque) pop() unsafe.Pointer {
	for {
		item, slot, r := asmPop(d)
		switch r {
		case Success:
			*slot = nil
			return item
		case Empty:
			d.sweep()
			return nil
		case Retry:
			d.lost.add()
		}
	}
}

func (d *deque) steal() (unsafe.Pointer, StealResult) {
	item, r := asmSteal(d)
	if r == Retry {
		d.lost.add()
	}
	return item, r
}

// storeSlot is for the thread that owns the slot. In this build nobody who reads
// the slot at the same time uses what it read.
func storeSlot(slot *unsafe.Pointer, item unsafe.Pointer) { *slot = item }

// publish stores v with release ordering: whoever loads it with acquire sees all
// that was stored before. It is a plain MOV on amd64, where sync/atomic would use
// an XCHG, which also waits until all earlier stores have left the core.
//
//go:noescape
func publish(index *atomic.Int64, v int64)

// asmPop takes the newest item and returns its slot too, which is the owner's to
// clear. With Retry the owner lost the last item to a thief, or, on arm64 without
// LSE, could not settle the race in time.
//
//go:noescape
func asmPop(d *deque) (item unsafe.Pointer, slot *unsafe.Pointer, r StealResult)

// asmSteal is portableSteal.
//
//go:noescape
func asmSteal(d *deque) (item unsafe.Pointer, r StealResult)
