package inside

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// TestClockOnTheWallIsNotLookedAt sets that clock, as an administrator or a time server does. A
// delay that depended on it would end a year too early or too late.
func TestClockOnTheWallIsNotLookedAt(t *testing.T) {
	claim.That(t, "delays, deadlines, time-outs and backoff do not mind when the clock is set",
		"CLOCK_REALTIME of an emulated machine, set forth and back by a year under load and in the middle of waits")
	m := machine(t)
	p := newPool(t, allCPUs(m))
	distant, err := pool.New(pool.WithWorkers(1), pool.WithPinning(pool.PinNone))
	require.NoError(t, err)

	const year = 365 * 24 * time.Hour
	jumps := []time.Duration{year, -2 * year, year}
	var early atomic.Int32
	underLoad(t, p, func(settle func()) {
		for _, jump := range jumps {
			inTime := make(chan bool, 1)
			require.NoError(t, distant.Submit(t.Context(), func(*pool.Worker) { early.Add(1) }, pool.Delay(time.Hour)))
			require.NoError(t, p.Submit(t.Context(), func(*pool.Worker) { inTime <- true }, pool.Delay(100*time.Millisecond),
				pool.StartBy(time.Now().Add(time.Hour), func(*pool.Worker) { inTime <- false })))
			over := make(chan struct{})
			go func() {
				defer close(over)
				var word atomic.Uint32
				for heist.FutexWait(&word, 0, 100*time.Millisecond) {
				}
				var b heist.Backoff
				for b.Wait() {
				}
			}()
			setClock(t, jump)
			ended := false
			require.True(t, testutil.ReturnsWithin(patience, func() { ended = <-inTime; <-over }), "a wait of 100 ms does not end")
			require.True(t, ended, "a deadline in an hour has passed")
			settle()
		}
	})
	// Nobody waits for the hour to pass.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var left *pool.UnfinishedError
	require.ErrorAs(t, distant.Shutdown(ctx), &left)
	require.Equal(t, len(jumps), left.Delayed)
	require.Zero(t, early.Load(), "delays of an hour have ended")
	claim.Amount(t, "%d jumps; as many delays of an hour that did not end, and waits of 100 ms that did", len(jumps))
}

// setClock sets the clock on the wall forth or back.
func setClock(t *testing.T, by time.Duration) {
	t.Helper()
	before := time.Now()
	wall := unix.NsecToTimespec(before.Add(by).UnixNano())
	require.NoError(t, unix.ClockSettime(unix.CLOCK_REALTIME, &wall))
	seen := time.Now().Round(0).Sub(before.Round(0)) // without the monotonic clock
	require.InDelta(t, by.Hours(), seen.Hours(), 1, "the clock was not set")
}
