package policy

import (
	"math/bits"
	"sync/atomic"
)

// Bitmap is a set of place numbers, one word for 64 of them. Any goroutine may call its
// methods; each atomic operation is on one word.
type Bitmap []atomic.Uint64

// NewBitmap returns a set that can hold the numbers below n.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Set puts i into the set.
func (b Bitmap) Set(i int) { b[i/64].Or(1 << (i % 64)) }

// Clear removes i and reports whether it was in the set.
func (b Bitmap) Clear(i int) bool {
	bit := uint64(1) << (i % 64)
	return b[i/64].And(^bit)&bit != 0
}

// Has reports whether i is in the set.
func (b Bitmap) Has(i int) bool { return b[i/64].Load()&(1<<(i%64)) != 0 }

// Empty reports whether the set is empty; numbers may have come and gone during the call.
func (b Bitmap) Empty() bool {
	for i := range b {
		if b[i].Load() != 0 {
			return false
		}
	}
	return true
}

// TakeUnless removes and returns the lowest number but not, found by counting trailing zeros. -1
// excludes no number.
func (b Bitmap) TakeUnless(not int) (int, bool) {
	for i := range b {
		for {
			word := b[i].Load()
			if not/64 == i && not >= 0 {
				word &^= 1 << (not % 64)
			}
			if word == 0 {
				break
			}
			n := i*64 + bits.TrailingZeros64(word)
			if b.Clear(n) {
				return n, true
			}
		}
	}
	return 0, false
}
