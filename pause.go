package heist

import (
	"math"
	"sync"
	"time"
)

// A thread that waits for something that is about to happen spins, and tells the CPU so
// by a hint. The hint saves power, lets the other hardware thread of the core run, and
// keeps the pipeline from filling with loads that will all be wrong. Its cost differs by
// a factor of thirty: PAUSE takes 5 cycles on some CPUs and about 150 since Intel's
// Skylake; on most arm64 cores YIELD takes one cycle and does nothing, while ISB takes
// tens (Rust's spin_loop uses ISB for that reason). So waits are given in time, and the
// cost of the hint is measured once.

// pauseBurst bounds a loop in assembly, which is never preempted: 16 of the
// slowest known PAUSE, at 150 cycles, are about a microsecond at 2.4 GHz.
const pauseBurst = 16

// Pause executes the CPU's spin-wait hint n times: PAUSE on amd64, YIELD or ISB on arm64,
// a few empty loops elsewhere. The cost of one differs from CPU to CPU; use [Spin] to
// wait for a time. Pause does nothing if n is not positive.
func Pause(n int) {
	for ; n > pauseBurst; n -= pauseBurst {
		burst(pauseBurst)
	}
	if n > 0 {
		burst(int64(n))
	}
}

// burst is a call, so that the goroutine gives way here if it should: every function with
// a stack frame checks for that at its entry. The signal by which Go preempts a loop
// would nearly always find the thread in assembly, where it has no effect, and the world
// would stop only after the whole Pause.
//
//go:noinline
func burst(n int64) { pause(n) }

// pauseCost returns the cost of one pause on this machine, in nanoseconds. The first call
// measures it, which takes some 50 microseconds.
var pauseCost = sync.OnceValue(calibratePause)

// Spin keeps the CPU busy for about d, without a system call, a timer or reading the
// clock. It is for waits of up to some microseconds; for a longer wait, [Yield] or park.
// It does nothing if d is not positive.
func Spin(d time.Duration) {
	if d > 0 {
		Pause(pausesFor(d))
	}
}

// pausesFor returns how many pauses take d, at least one. Its upper bound fits into an
// int on every system, and is far more than any thread should spin.
func pausesFor(d time.Duration) int {
	return int(min(max(float64(d)/pauseCost(), 1), math.MaxInt32))
}

// measurePause returns the cost of one call of hint(1), in nanoseconds: the least
// of several rounds, because everything that disturbs a round makes it longer.
func measurePause(hint func(int64)) float64 {
	const rounds, bursts = 8, 16
	best := int64(math.MaxInt64)
	for range rounds {
		start := nanotime()
		for range bursts {
			hint(pauseBurst)
		}
		best = min(best, nanotime()-start)
	}
	// A clock too coarse to see it gives 0; a pause is never free.
	return max(float64(best)/(bursts*pauseBurst), 0.1)
}
