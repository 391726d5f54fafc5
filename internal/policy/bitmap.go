package pool

import (
	"math/bits"
	"sync/atomic"
)

// bitmap is a set of worker numbers, one word for 64 of them. Anybody may call its
// methods; each is one atomic operation on one word.
type bitmap []atomic.Uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) set(i int) { b[i/64].Or(1 << (i % 64)) }

// clear removes i and says whether it was there.
func (b bitmap) clear(i int) bool {
	bit := uint64(1) << (i % 64)
	return b[i/64].And(^bit)&bit != 0
}

func (b bitmap) has(i int) bool { return b[i/64].Load()&(1<<(i%64)) != 0 }

// empty says whether there is no number in it; some may have come and gone meanwhile.
func (b bitmap) empty() bool {
	for i := range b {
		if b[i].Load() != 0 {
			return false
		}
	}
	return true
}

// take removes the lowest number, found by counting trailing zeros.
func (b bitmap) take() (int, bool) { return b.takeBut(-1) }

// takeBut is take, but takes one number only if there is no other, if it is not -1.
func (b bitmap) takeBut(last int) (int, bool) {
	for i := range b {
		for {
			word := b[i].Load()
			if last/64 == i && last >= 0 {
				word &^= 1 << (last % 64)
			}
			if word == 0 {
				break
			}
			n := i*64 + bits.TrailingZeros64(word)
			if b.clear(n) {
				return n, true
			}
		}
	}
	return last, last >= 0 && b.clear(last)
}
