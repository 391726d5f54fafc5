//go:build !((amd64 || arm64) && gc && !purego && !race)

package heist

import (
	"sync/atomic"
	"unsafe"
)

func (d *deque) push(item unsafe.Pointer) bool { return d.portablePush(item) }

func (d *deque) pop() unsafe.Pointer { return d.portablePop() }

func (d *deque) steal() (unsafe.Pointer, int64, StealResult) { return d.portableSteal() }

func storeSlot(slot *unsafe.Pointer, item unsafe.Pointer) { atomic.StorePointer(slot, item) }

func publish(index *atomic.Int64, v int64) { index.Store(v) }
