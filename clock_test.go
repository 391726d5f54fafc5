package heist

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTicksGoForward(t *testing.T) {
	last := Ticks()
	for range 1000 {
		now := Ticks()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
	time.Sleep(time.Millisecond)
	require.Greater(t, Ticks(), last)
}

func TestTicksInGrowsWithTheDuration(t *testing.T) {
	require.Positive(t, TicksIn(time.Millisecond))
	require.InEpsilon(t, float64(TicksIn(time.Second)), 1000*float64(TicksIn(time.Millisecond)), 0.01)
	require.Zero(t, TicksIn(0))
}

// TestTicksInRoundsDownAndKeepsToItsRange: a duration below 0 is rounded away from 0.
func TestTicksInRoundsDownAndKeepsToItsRange(t *testing.T) {
	for _, rate := range []float64{1, 0.024, 0.9, 2.45, 1e-6} {
		for d, want := range map[time.Duration]float64{
			1: math.Floor(rate), 1000: math.Floor(1000 * rate), -1: math.Floor(-rate), -1000: math.Floor(-1000 * rate),
		} {
			require.EqualValues(t, want, ticksIn(d, rate), "%d ns at %v", d, rate)
		}
	}
	require.Equal(t, int64(math.MaxInt64), ticksIn(math.MaxInt64, 2.45))
	require.Equal(t, int64(math.MinInt64), ticksIn(math.MinInt64, 2.45))
	require.Equal(t, int64(math.MaxInt64), ticksIn(math.MaxInt64, 1))
	require.Equal(t, int64(math.MinInt64), ticksIn(math.MinInt64, 1))
	require.Positive(t, TicksIn(math.MaxInt64))
	require.Negative(t, TicksIn(-1))
}

func TestMedianIsTheMiddle(t *testing.T) {
	require.EqualValues(t, 3, median([5]float64{5, 1, 4, 2, 3}))
	require.EqualValues(t, 1, median([5]float64{1, 1, 1, 9, 9}))
}

func BenchmarkTicks(b *testing.B) {
	for b.Loop() {
		Ticks()
	}
}
