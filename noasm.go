//go:build !((amd64 || arm64) && gc && !purego && !race)

package heist

import (
	"sync/atomic"
	"unsafe"
)

// Assembly says whether the operations of Deque, Pause, Spin and Ticks are assembly in this build: on amd64 and arm64,
// but not with the tag purego or the race detector.
const Assembly = false

func (d *deque) push(item unsafe.Pointer) bool { return d.portablePush(item) }

func (d *deque) pop() unsafe.Pointer { return d.portablePop() }

func (d *deque) steal() (unsafe.Pointer, int64, StealResult) { return d.portableSteal() }

func storeSlot(slot *unsafe.Pointer, item unsafe.Pointer) { atomic.StorePointer(slot, item) }

func publish(index *atomic.Int64, v int64) { index.Store(v) }

var clockStart = nanotime()

func ticks() int64 { return nanotime() - clockStart }

func calibrateTicks() float64 { return 1 }

// pause is a short loop where there is no assembly for the CPU's hint.
//
//go:noinline
func pause(n int64) {
	for range n * 8 {
	}
}

func calibratePause() float64 { return measurePause(pause) }
