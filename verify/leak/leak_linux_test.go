// Package leak checks that a closed pool leaves nothing behind: no goroutine, as goleak sees
// it, and no thread.
package leak

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// use does something of every kind on the pool.
func use(t *testing.T, p *pool.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, par.For(p.With(ctx), 10_000, func(int) {}))
	require.NoError(t, p.Go(func(w *pool.Worker) { w.Block(func() { time.Sleep(time.Millisecond) }) }))
	require.NoError(t, p.Resize(p.Workers()+2))
	n, err := pool.Async(p, func(w *pool.Worker) (int, error) {
		x, y := pool.Join(w, func(*pool.Worker, int) int { return 1 }, 0, func(*pool.Worker, int) int { return 2 }, 0)
		return x + y, nil
	}).Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.NoError(t, p.Pause(ctx))
	p.Resume()
	require.NoError(t, p.Resize(1))
	require.NoError(t, p.Submit(ctx, func(*pool.Worker) {}, pool.Delay(time.Millisecond)))
}

func TestClosedPoolLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, options := range [][]pool.Option{
		{},
		{pool.WithPinning(pool.PinNone)},
		{pool.WithWorkers(20)},
		{pool.WithTuning(pool.Tuning{HotWorker: true})},
	} {
		p, err := pool.New(append(options, pool.WithTuning(pool.Tuning{MaxWorkers: 64}))...)
		require.NoError(t, err)
		use(t, p)
		require.NoError(t, p.Close())
	}
}

// TestAbandonedShutdownEndsInTheEnd: no caller waits any more when the last task ends.
func TestAbandonedShutdownEndsInTheEnd(t *testing.T) {
	p, err := pool.New(pool.WithWorkers(2))
	require.NoError(t, err)
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*pool.Worker) { close(begun); <-release }))
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, p.Shutdown(ctx), context.Canceled)
	close(release)
	require.True(t, testutil.Eventually(func() bool { err = goleak.Find(); return err == nil }), "%v", err)
}

// TestPoolsLeaveNoThreads opens and closes so many pools that threads that stayed would show among
// those that the runtime keeps for itself.
func TestPoolsLeaveNoThreads(t *testing.T) {
	const pools, workers = 40, 4
	for range pools {
		p, err := pool.New(pool.WithWorkers(workers), pool.WithTuning(pool.Tuning{MaxWorkers: 64}))
		require.NoError(t, err)
		use(t, p)
		require.NoError(t, p.Close())
	}
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	require.Less(t, len(threads), pools*workers/2)
}
