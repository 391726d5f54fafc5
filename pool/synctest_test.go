package pool

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// # Bubbles of testing/synctest, in which time passes only when all goroutines wait

// TestAPoolMayBeMadeInABubble, also if it is the first pool of the process, for which clocks are
// measured.
func TestAPoolMayBeMadeInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(WithWorkers(3), WithPinning(PinNone))
		require.NoError(t, err)
		var ran atomic.Int32
		require.NoError(t, For(p, 1000, func(int) { ran.Add(1) }))
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 15) }))
		n, err := Async(p, func(w *Worker) (int, error) { return fib(w, 15), nil }).Wait(context.Background())
		require.NoError(t, err)
		require.Equal(t, serialFib(15), n)
		g, _ := NewGroup(p)
		g.SetLimit(2)
		for range 10 {
			g.Go(func() error { time.Sleep(time.Second); ran.Add(1); return nil })
		}
		require.NoError(t, g.Wait())
		require.EqualValues(t, 1010, ran.Load())
		require.NoError(t, p.Close())
	})
}

func TestDelaysAndDeadlinesFollowTheTimeOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(WithWorkers(2), WithPinning(PinNone))
		require.NoError(t, err)
		start := time.Now()
		var ran, late atomic.Int64
		require.NoError(t, p.Submit(context.Background(), func(*Worker) { ran.Store(int64(time.Since(start))) }, Delay(time.Hour)))
		time.Sleep(time.Hour - time.Nanosecond)
		synctest.Wait()
		require.Zero(t, ran.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualValues(t, time.Hour, ran.Load())

		require.NoError(t, p.Submit(context.Background(), func(*Worker) { t.Error("it runs") }, Delay(time.Second),
			StartBy(time.Now().Add(time.Millisecond), func(*Worker) { late.Add(1) })))
		require.NoError(t, p.Submit(context.Background(), func(*Worker) { ran.Store(0) },
			StartBy(time.Now(), func(*Worker) { t.Error("it is late") })))
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, late.Load())
		require.Zero(t, ran.Load())

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		f := Async(p, func(w *Worker) (int, error) {
			w.Block(func() { time.Sleep(time.Hour) })
			return 1, nil
		})
		_, err = f.Wait(ctx)
		require.True(t, errors.Is(err, context.DeadlineExceeded))
		require.ErrorIs(t, For(p.With(ctx), 10, func(int) { t.Error("it runs") }), context.DeadlineExceeded)
		start = time.Now()
		require.NoError(t, p.Close()) // waits for the future
		require.Equal(t, time.Hour-time.Minute, time.Since(start))
	})
}

// TestPoolsOutsideAreNoMatterOfABubble: what is measured once in a process is right inside and
// outside.
func TestPoolsOutsideAreNoMatterOfABubble(t *testing.T) {
	outside := newPool(t, WithWorkers(2))
	for range testutil.Stress(20) {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(WithWorkers(2), WithPinning(PinNone))
			require.NoError(t, err)
			require.NoError(t, For(p, 10_000, func(int) { work(20) }))
			require.NoError(t, p.Pause(context.Background()))
			p.Resume()
			require.NoError(t, p.Close())
		})
		require.NoError(t, outside.Run(func(w *Worker) { fib(w, 15) }))
	}
}

// TestWorkersThatHoldUpABubbleAreRefused: its time would stand still, because a thread that sleeps is no goroutine that
// waits, and a hot worker never waits.
func TestWorkersThatHoldUpABubbleAreRefused(t *testing.T) {
	allowed, err := heist.Allowed()
	if err != nil || len(allowed) == 0 {
		t.Skip("the system does not say which CPUs the process may use")
	}
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []Option{WithPinning(PinCores), WithPinning(PinNodes), WithCPUs(allowed[0]), WithTuning(Tuning{Isolate: true})} {
			_, err := New(o)
			require.ErrorContains(t, err, "in a bubble of testing/synctest workers cannot be bound")
		}
		_, err := New(WithTuning(Tuning{HotWorker: true}))
		require.ErrorContains(t, err, "in a bubble of testing/synctest the worker of Tuning.HotWorker would keep")
		p, err := New()
		require.NoError(t, err)
		pinning, _ := p.Pinning()
		require.Equal(t, PinNone, pinning)
		require.NoError(t, p.Close())
	})
}

// A coroutine that waits outside, or in another bubble, must not touch the pools of a bubble:
// touching something from two bubbles ends the process.
func TestCoroutinesOutsideLeaveTheBubbleAlone(t *testing.T) {
	ctx := context.Background()
	waits := func(p *Pool, until chan struct{}) {
		future := Async(p, func(w *Worker) (int, error) { w.Block(func() { <-until }); return 1, nil })
		begun := make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) {
			next, stop := iter.Pull(func(yield func(int) bool) {
				close(begun)
				n, _ := future.Wait(ctx)
				yield(n)
			})
			defer stop()
			next()
		}))
		<-begun
	}
	outside, over := newPool(t, WithWorkers(1)), make(chan struct{})
	waits(outside, over)
	defer close(over)
	for range testutil.Stress(20) {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(WithWorkers(2))
			require.NoError(t, err)
			inner := make(chan struct{})
			waits(p, inner)
			var ran atomic.Int32
			for range 20 {
				require.NoError(t, p.Submit(ctx, func(*Worker) { ran.Add(1) }, Delay(time.Millisecond)))
			}
			time.Sleep(50 * time.Millisecond)
			close(inner)
			require.NoError(t, p.Close())
			require.EqualValues(t, 20, ran.Load())
		})
	}
}
