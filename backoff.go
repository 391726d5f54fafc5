package heist

import (
	"math"
	"time"
)

// The schedule's defaults. They cover a futex wake-up, which takes 4 to 10
// microseconds here: a goroutine that waits longer than that had better be asleep.
const (
	// DefaultSpin is how long a [Backoff] spins in all before it yields.
	DefaultSpin = 10 * time.Microsecond
	// DefaultYields is how often it then yields before it advises to park. Rayon
	// yields 32 times and spins not at all.
	DefaultYields = 8

	firstSpin   = 50 * time.Nanosecond // a cache line's way between two cores
	longestSpin = 2 * time.Microsecond // the longest time between two looks
)

// Backoff is the progressive schedule of a thread that looks for something again
// and again: it spins, longer each time, then yields the CPU to other threads, and
// then says that it is time to park. It belongs to one goroutine. The zero value is
// ready to use, with the defaults.
//
//	var b heist.Backoff
//	for !look() {
//		if !b.Wait() {
//			park()
//			b.Reset()
//		}
//	}
type Backoff struct {
	// Spin is the total time spent spinning, if it is not 0; negative is none.
	Spin time.Duration
	// Yields is the number of yields, if it is not 0; negative is none.
	Yields int

	spun    time.Duration
	step    time.Duration
	yielded int
	rand    FastRand
}

// Wait waits a little and returns true; or returns false at once, when the schedule
// has come to its end and the thread should park.
//
// Each spin is longer than the one before by a random factor from 1.5 to 2, up to 2
// microseconds, so that threads that lost the same race do not meet again.
func (b *Backoff) Wait() bool {
	spin, ok := b.Next()
	switch {
	case spin > 0:
		Spin(spin)
	case ok:
		Yield()
	}
	return ok
}

// Next is Wait without the waiting: it returns how long to spin, 0 to yield, or false to
// park.
func (b *Backoff) Next() (spin time.Duration, ok bool) {
	if total := orDefault(b.Spin, DefaultSpin); b.spun < total {
		b.grow()
		d := min(b.step, total-b.spun)
		b.spun += d
		return d, true
	}
	if b.yielded < orDefault(b.Yields, DefaultYields) {
		b.yielded++
		return 0, true
	}
	return 0, false
}

// Lost spins a little after a lost race ([Retry]), whatever Spin says. There is
// something to find, so it does not bring the thread nearer to parking; it only keeps
// the losers apart.
func (b *Backoff) Lost() { Spin(b.NextLost()) }

// NextLost is Lost without the spinning: it returns how long to spin.
func (b *Backoff) NextLost() time.Duration {
	b.grow()
	return b.step
}

// Seed makes the spins those of a seed: the same ones for the same seed. Without it they
// differ.
func (b *Backoff) Seed(seed uint64) { b.rand = NewFastRand(seed) }

// Reset goes back to the start of the schedule, for a thread that found what it
// was looking for or that was woken.
func (b *Backoff) Reset() { b.spun, b.step, b.yielded = 0, 0, 0 }

// End goes to the end of the schedule, for a thread that has been asked to stop.
func (b *Backoff) End() { b.spun, b.yielded = math.MaxInt64, math.MaxInt }

func (b *Backoff) grow() {
	if b.step == 0 {
		b.step = firstSpin
		if b.rand == (FastRand{}) {
			b.rand = NewFastRand(RandomSeed())
		}
		return
	}
	b.step = min(b.step+b.step/2+time.Duration(b.rand.N(uint32(b.step/2)+1)), longestSpin)
}

func orDefault[V time.Duration | int](v, byDefault V) V {
	if v == 0 {
		return byDefault
	}
	return v
}
