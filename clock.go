package heist

import (
	"math"
	"sync"
	"time"
)

// Ticks reads the CPU's own clock: the time-stamp counter on amd64, CNTVCT_EL0 on arm64,
// the system's monotonic clock elsewhere and in purego and race builds. It is for
// measuring short intervals on one thread; [TicksIn] gives the unit. On a CPU whose
// counter stops or changes its rate the measurements are wrong, but the program is not.
//
// Any goroutine may call it. Cost: 10 ns on amd64, a quarter of time.Now.
func Ticks() int64 { return ticks() }

// TicksIn returns how many [Ticks] there are in d, rounded down, or the nearest int64 if
// there are more than fit. The first call in a process calibrates the clock, which takes
// 200 microseconds on amd64.
func TicksIn(d time.Duration) int64 { return ticksIn(d, ticksPerNanosecond()) }

func ticksIn(d time.Duration, rate float64) int64 {
	n := math.Floor(float64(d) * rate)
	switch {
	case n >= math.MaxInt64: // which is 1<<63 as a float64
		return math.MaxInt64
	case n <= math.MinInt64:
		return math.MinInt64
	}
	return int64(n)
}

var ticksPerNanosecond = sync.OnceValue(calibrateTicks)

// measureTicks compares Ticks with the system's clock. A stretch is long compared to
// reading the clocks and short compared to a time slice. The result is the median of
// several stretches, in case one is interrupted.
func measureTicks() float64 {
	const stretch, stretches = 40 * time.Microsecond, 5
	var rates [stretches]float64
	for i := range rates {
		start, from := nanotime(), ticks()
		for nanotime()-start < int64(stretch) {
		}
		took := nanotime() - start
		rates[i] = float64(ticks()-from) / float64(took)
	}
	return max(median(rates), 1e-6)
}

func median(v [5]float64) float64 {
	for i := range v {
		for j := i; j > 0 && v[j] < v[j-1]; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
	return v[len(v)/2]
}
