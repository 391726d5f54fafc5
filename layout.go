package heist

import (
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/internal/pad"
)

const ptrSize = unsafe.Sizeof(unsafe.Pointer(nil))

// slots is an array of pointers, indexed modulo its power-of-two length. Queues use
// it instead of a slice because a masked index needs no bounds check, and because
// assembly reads it.
type slots struct {
	_    pad.Line
	mask int64          // constant
	base unsafe.Pointer // of an array of mask+1 pointers, with padding at both ends; constant
	_    pad.Line
}

func newSlots(n int64) *slots {
	return &slots{mask: n - 1, base: unsafe.Pointer(&pad.Slice[unsafe.Pointer](int(n))[0])}
}

func (s *slots) len() int64 { return s.mask + 1 }

func (s *slots) at(i int64) *unsafe.Pointer {
	return (*unsafe.Pointer)(unsafe.Add(s.base, uintptr(i&s.mask)*ptrSize))
}

// clear sets the slots of indices from..to-1 to nil.
func (s *slots) clear(from, to int64) {
	for i := max(from, to-s.len()); i < to; i++ {
		storeSlot(s.at(i), nil)
	}
}

// lostRaces counts operations that another thread overtook. The goroutine that lost
// the race writes it, which has just paid for a contended line anyway.
type lostRaces struct{ n atomic.Uint64 }

func (l *lostRaces) add()         { l.n.Add(1) }
func (l *lostRaces) load() uint64 { return l.n.Load() }

// nextPow2 returns the smallest power of two that is at least n, for n >= 1.
func nextPow2(n int) int64 {
	p := int64(1)
	for p < int64(n) {
		p <<= 1
	}
	return p
}

// between returns the distance from the index first to the index that last reads, at
// a moment when both had these values. first only grows.
func between(first *atomic.Int64, last func() int64) int64 {
	for {
		from := first.Load()
		to := last()
		if first.Load() == from {
			return max(to-from, 0)
		}
	}
}
