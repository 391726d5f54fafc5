package heist

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPauseComesBack(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, 1, 2, pauseBurst - 1, pauseBurst, pauseBurst + 1, 2 * pauseBurst, 1000} {
		Pause(n)
	}
}

func TestPauseCostIsPositiveAndTheSameEveryTime(t *testing.T) {
	cost := pauseCost()
	require.Greater(t, cost, 0.0)
	require.Less(t, cost, 1e9, "a second")
	for range 10 {
		require.Equal(t, cost, pauseCost())
	}
}

func TestCalibrationNeverGivesNothing(t *testing.T) {
	calls := 0
	cost := measurePause(func(n int64) {
		require.LessOrEqual(t, n, int64(pauseBurst))
		calls++
	})
	require.Greater(t, cost, 0.0, "not even for a hint that does nothing")
	require.Positive(t, calls)
}

func TestSpinComesBack(t *testing.T) {
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, time.Nanosecond, 100 * time.Nanosecond, 10 * time.Microsecond} {
		Spin(d)
	}
}

func TestLongerWaitsAreMorePauses(t *testing.T) {
	require.Equal(t, 1, pausesFor(1), "at least one")
	last := 0
	for d := time.Nanosecond; d <= time.Second; d *= 10 {
		n := pausesFor(d)
		require.GreaterOrEqual(t, n, last)
		require.InDelta(t, float64(d)/pauseCost(), float64(n), 1.5)
		last = n
	}
	// Longer than any spin should be, but not so long that the number overflows and the wait turns
	// into none.
	require.GreaterOrEqual(t, pausesFor(math.MaxInt64), last)
}

// TestPausesTakeTime: a pause takes a tenth of a nanosecond at least on any processor.
func TestPausesTakeTime(t *testing.T) {
	start := time.Now()
	Pause(10_000_000)
	require.Greater(t, time.Since(start), time.Millisecond)
}
