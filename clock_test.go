package heist

import (
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

func TestMedianIsTheMiddle(t *testing.T) {
	require.EqualValues(t, 3, median([5]float64{5, 1, 4, 2, 3}))
	require.EqualValues(t, 1, median([5]float64{1, 1, 1, 9, 9}))
}

func BenchmarkTicks(b *testing.B) {
	for b.Loop() {
		Ticks()
	}
}
