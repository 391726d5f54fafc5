//go:build (amd64 || arm64) && gc && !purego && !race

package heist

import (
	"sync/atomic"
	"unsafe"
)

// Assembly says whether the operations of Deque, Pause, Spin and Ticks are assembly in this build: on amd64 and arm64,
// but not with the tag purego or the race detector.
const Assembly = true

// push stores the slot in Go, because assembly would bypass the write barrier. A
// plain store is enough: asmPush orders it before the index, and thieves read the
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
	asmPush(d)
	return true
}

func (d *deque) pop() unsafe.Pointer { return asmPop(d) }

func (d *deque) steal() (unsafe.Pointer, int64, StealResult) { return asmSteal(d) }

// storeSlot writes a slot that the caller owns. In this build, a thread that reads the
// slot at the same time discards what it read.
func storeSlot(slot *unsafe.Pointer, item unsafe.Pointer) { *slot = item }

// asmPush raises bottom by one, with release ordering: a plain MOV on amd64, STLR on
// arm64. With sync/atomic it would be an XCHG on amd64.
//
//go:noescape
func asmPush(d *deque)

// publish stores v with release ordering: a reader that loads it with acquire sees all
// earlier stores.
//
//go:noescape
func publish(index *atomic.Int64, v int64)

// asmPop is portablePop: fence, slot load, CAS. The rare outcomes are in Go: the
// assembly jumps to these functions, which find the argument and the results where
// asmPop found them.
//
//go:noescape
func asmPop(d *deque) (item unsafe.Pointer)

// asmSteal is portableSteal.
//
//go:noescape
func asmSteal(d *deque) (item unsafe.Pointer, index int64, r StealResult)

//lint:ignore U1000 asmPop jumps here
func popEmpty(d *deque) (item unsafe.Pointer) {
	d.sweep()
	return nil
}

// popLost tries again in Go, whose CAS does not give up. A lost race leaves the deque
// empty, but on arm64 without LSE the last item may still be there.
//
//lint:ignore U1000 asmPop jumps here
func popLost(d *deque) (item unsafe.Pointer) {
	d.lost.add()
	return d.portablePop()
}

//lint:ignore U1000 asmSteal jumps here
func stealLost(d *deque) (item unsafe.Pointer, index int64, r StealResult) {
	d.lost.add()
	return nil, 0, Retry
}

//go:noescape
func ticks() int64

func calibrateTicks() float64 { return measureTicks() }
