package pool

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// somebodyWaits starts a goroutine that waits for a byte. It returns a function that sends the byte,
// and whether the goroutine has got it.
func somebodyWaits(t *testing.T) (send func(), came *atomic.Bool) {
	in, out, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { in.Close(); out.Close() })
	came = new(atomic.Bool)
	go func() {
		if n, _ := in.Read(make([]byte, 1)); n == 1 {
			came.Store(true)
		}
	}()
	for range 100 {
		runtime.Gosched() // until it waits
	}
	return func() {
		_, err := out.Write([]byte{0})
		require.NoError(t, err)
	}, came
}

// TestWhoWaitsForTheNetworkRunsBeforeTheWorker that has let the network be polled, except for one
// turn in 61, in which Go's scheduler looks at its queues in another order. The same holds without
// /proc, where the worker cannot find out whether a poll is worth it.
func TestWhoWaitsForTheNetworkRunsBeforeTheWorker(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, asks := range []bool{true, false} {
		var ended sync.WaitGroup
		ended.Add(1)
		n, err := newNetwork(ended.Done)
		require.NoError(t, err)
		require.True(t, testutil.Eventually(func() bool { return n.poller.Load() > 0 }), "the poller was not found")
		if asks {
			require.True(t, testutil.Eventually(func() bool { return !n.ready() }))
			require.True(t, testutil.Eventually(func() bool { return !n.poll() }))
		} else {
			n.poller.Store(-1)
		}
		polled, late := 0, 0
		for range 1000 {
			send, came := somebodyWaits(t)
			send()
			if n.poll() { // otherwise Go's monitor has come first
				if polled++; !came.Load() {
					late++
				}
			}
			if polled == 100 {
				break
			}
		}
		require.Equal(t, 100, polled)
		require.Less(t, late, 20)
		n.stop()
		ended.Wait()
		require.False(t, n.poll() && asks)
	}
}

// TestABusyPoolPollsTheNetwork with tasks and with a loop, and leaves nothing behind.
func TestABusyPoolPollsTheNetwork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	busy := map[string]func(p *Pool, over *atomic.Bool){
		"tasks": func(p *Pool, over *atomic.Bool) {
			var again func(w *Worker)
			again = func(w *Worker) {
				work(1000)
				if !over.Load() {
					_ = w.Go(again)
				}
			}
			for range 4 {
				_ = p.Go(again)
			}
		},
		"loop": func(p *Pool, over *atomic.Bool) {
			_ = p.Go(func(w *Worker) {
				for !over.Load() {
					_ = For(w, 100_000, func(int) { work(10) })
				}
			})
		},
	}
	for name, begin := range busy {
		p, err := New(WithWorkers(2), WithPinning(PinNone))
		require.NoError(t, err)
		var over atomic.Bool
		begin(p, &over)
		require.True(t, testutil.Eventually(func() bool { return p.network.Load() != nil }), name)
		over.Store(true)
		require.NoError(t, p.Close())
	}
}

// TestAPoolInABubbleHasNoGoroutineForTheNetwork: time would stand still there.
func TestAPoolInABubbleHasNoGoroutineForTheNetwork(t *testing.T) {
	require.False(t, inBubble())
	synctest.Test(t, func(t *testing.T) {
		require.True(t, inBubble())
		p, err := New(WithWorkers(1), WithPinning(PinNone))
		require.NoError(t, err)
		require.NoError(t, p.Go(func(w *Worker) {
			for range 100 {
				untilGiveWayIsDue()
				w.Yield()
			}
		}))
		time.Sleep(time.Second)
		require.Nil(t, p.network.Load())
		require.NoError(t, p.Close())
	})
}

func TestAPoolPollsTheNetworkWhenItIsDueOnly(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	polls := func(due int64) (moved int64, made bool) {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(done)
			before := p.network.Load() // the worker may have polled before this task
			now := heist.Ticks()
			p.networkDue.Store(now + due)
			w.pollNetwork(now)
			moved, made = p.networkDue.Load()-now, p.network.Load() != before
		}))
		<-done
		return moved, made
	}
	moved, made := polls(p.ticks.network)
	require.Equal(t, p.ticks.network, moved, "it is not due for that long")
	require.False(t, made)
	// If the poll takes long, because the poller cannot be asked, another worker may hold the place meanwhile, and take the next turn.
	moved, _ = polls(-1)
	require.GreaterOrEqual(t, moved, p.ticks.network)
	require.NotNil(t, p.network.Load())
}
