package heist

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// A reader sees values that the writer wrote, in their order.
func TestCounterIsReadWhileItIsWritten(t *testing.T) {
	var c Counter
	require.Zero(t, c.Load())
	n := testutil.Stress(100_000)
	var done atomic.Bool
	wait := testutil.Together(1, func(int) {
		for range n {
			c.Add(2)
		}
		done.Store(true)
	})
	last := uint64(0)
	for !done.Load() {
		now := c.Load()
		require.GreaterOrEqual(t, now, last)
		require.Zero(t, now%2)
		last = now
	}
	wait()
	require.EqualValues(t, 2*n, c.Load())
}
