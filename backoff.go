package heist

import (
	"math"
	"time"
)

// The schedule's defaults. They cover a futex wake-up, measured at 4 to 10 microseconds:
// a goroutine that has to wait longer had better sleep.
const (
	// DefaultSpin is the total time for which a [Backoff] spins before it yields.
	DefaultSpin = 10 * time.Microsecond
	// DefaultYields is how often it then yields before it advises parking. Rayon yields
	// 32 times and does not spin.
	DefaultYields = 8

	firstSpin = 50 * time.Nanosecond // a cache line's transfer between two cores
	// The longest time between two looks. A fork that comes while a thief searches starts 1.1 us later, and with 2 us
	// between two looks 1.6 to 1.8 (bench primitives/start, cores 70 to 230 ns apart; rayon 0.6).
	longestSpin = 500 * time.Nanosecond
)

// Backoff is the waiting schedule of a thread that polls for something: it spins, longer
// each time, then yields the CPU to other threads, and then reports that it is time to
// park. A Backoff belongs to one goroutine. The zero value is ready to use, with the
// defaults.
//
//	var b heist.Backoff
//	for !look() {
//		if !b.Wait() {
//			park()
//			b.Reset()
//		}
//	}
type Backoff struct {
	// Spin is the total time spent spinning; 0 means [DefaultSpin], and negative means
	// none.
	Spin time.Duration
	// Yields is the number of yields; 0 means [DefaultYields], and negative means none.
	Yields int

	spun    time.Duration
	step    time.Duration
	yielded int
	rand    FastRand
}

// Wait spins or yields once and returns true. At the end of the schedule it returns false
// at once: the thread should park.
//
// Each spin is longer than the one before by a random factor from 1.5 to 2, up to half a
// microsecond, so that threads that lost the same race do not meet again.
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

// Next is Wait without the waiting: it returns how long to spin, or 0 and true to yield,
// or false to park.
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

// Lost spins for a moment after a lost race ([Retry]), whatever the field Spin says.
// There is something to find, so a lost race does not bring the thread closer to parking;
// the spin only keeps the losers apart.
func (b *Backoff) Lost() { Spin(b.NextLost()) }

// NextLost is Lost without the spinning: it returns how long to spin.
func (b *Backoff) NextLost() time.Duration {
	b.grow()
	return b.step
}

// Seed seeds the lengths of the spins: the same seed gives the same spins. Without Seed
// they are random.
func (b *Backoff) Seed(seed uint64) { b.rand = NewFastRand(seed) }

// Reset goes back to the start of the schedule, for a thread that found what it looked
// for or that was woken.
func (b *Backoff) Reset() { b.spun, b.step, b.yielded = 0, 0, 0 }

// End skips to the end of the schedule, for a thread that has been asked to stop.
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
