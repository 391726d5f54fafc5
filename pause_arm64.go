//go:build gc && !purego && !race

package heist

import "sync/atomic"

// pauseYield executes YIELD n times. n is from 1 to pauseBurst.
func pauseYield(n int64)

// pauseISB executes ISB n times. n is from 1 to pauseBurst.
func pauseISB(n int64)

// useISB is written once, by calibratePause; until then YIELD is used.
var useISB atomic.Bool

func pause(n int64) {
	if useISB.Load() {
		pauseISB(n)
		return
	}
	pauseYield(n)
}

// realDelay is the least, in nanoseconds, that a hint must take to be a delay at
// all. A YIELD that is a no-op takes one cycle, well under it; a YIELD that really
// yields, on a core with two hardware threads, takes more.
const realDelay = 5

// calibratePause chooses YIELD, the architecture's own hint, where it measures as
// a real delay, and ISB where it does not.
func calibratePause() float64 {
	if cost := measurePause(pauseYield); cost >= realDelay {
		return cost
	}
	useISB.Store(true)
	return measurePause(pauseISB)
}
