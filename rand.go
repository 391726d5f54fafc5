package heist

import (
	"sync/atomic"
	"time"
)

// FastRand is a small random number generator for choosing victims and spreading
// retries: Marsaglia's xorshift64+ with the shifts 17, 7, 16, as in Go's scheduler,
// Tokio and blitz-io. It is not for secrets. It belongs to one goroutine at a time;
// the zero value is not usable, see [NewFastRand].
type FastRand struct{ one, two uint32 }

// golden is 2^64 divided by the golden ratio: multiples of it differ in most bits.
const golden = 0x9E3779B97F4A7C15

var seeds atomic.Uint64

// NewFastRand returns a generator for the seed. The same seed gives the same
// numbers; neighbouring seeds give unrelated ones.
func NewFastRand(seed uint64) FastRand {
	// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
	z := (seed + 1) * golden
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	r := FastRand{one: uint32(z >> 32), two: uint32(z)}
	if r.one == 0 && r.two == 0 { // the one state that xorshift never leaves
		r.one = 1
	}
	return r
}

// RandomSeed returns a seed that differs from call to call and run to run.
func RandomSeed() uint64 { return uint64(time.Now().UnixNano()) + seeds.Add(1)*golden }

// Uint32 returns the next number.
func (r *FastRand) Uint32() uint32 {
	s1, s0 := r.one, r.two
	s1 ^= s1 << 17
	s1 = s1 ^ s0 ^ s1>>7 ^ s0>>16
	r.one, r.two = s0, s1
	return s0 + s1
}

// N returns a number from 0 to n-1; n must not be 0. It takes the upper half of a
// 64-bit product instead of a remainder (Lemire, ACM TOMACS 2019), without the
// rejection step that would make it exact: some results are more likely than
// others by at most n/2^32, which is nothing for a number of victims.
func (r *FastRand) N(n uint32) uint32 {
	return uint32(uint64(r.Uint32()) * uint64(n) >> 32)
}
