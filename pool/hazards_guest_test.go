package pool

import (
	"testing"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/stretchr/testify/require"
)

// TestAGuestAsleepIsWokenWhenItsForkIsDone: a guest has no bit in the bitmap of sleepers, so only
// the thief of its fork wakes it.
func TestAGuestAsleepIsWokenWhenItsForkIsDone(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		require.True(t, whenParked(p))
		asleep := false
		returned := testutil.Returns(func() {
			_ = p.Run(func(w *Worker) {
				stolenJoin(w, nop[int], func(*Worker) int {
					// The thief is awake, the other worker and the guest sleep.
					asleep = testutil.Eventually(func() bool { return p.core.Sleep.Load().Sleepers() == 1 })
					heist.Spin(time.Millisecond) // from the announcement to the sleep
					return 0
				})
			})
		})
		require.True(t, returned, "the guest sleeps for ever")
		require.True(t, asleep)
	}
}
