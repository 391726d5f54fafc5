package pool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// TestSerialRunsEverythingInItsOrderInTheCaller, whatever the granularity, and nothing is stolen.
func TestSerialRunsEverythingInItsOrderInTheCaller(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	at := Serial()
	for _, g := range [][]Granularity{{}, {Grain(1)}, {Grain(7)}, {Chunks(3)}, {Grain(3).AtMost(2)}, {Granularity{}.InOrder()}, {new(AdaptiveGrain).Granularity()}} {
		for _, n := range []int{0, 1, 2, 1000, 30_000} {
			next := 0
			me := goroutineID()
			require.NoError(t, ForRange(at, n, func(lo, hi int) {
				require.Equal(t, next, lo)
				require.Equal(t, me, goroutineID())
				next = hi
				if n > 1000 {
					for start := time.Now(); time.Since(start) < time.Duration(hi-lo)*20*time.Nanosecond; { // longer than a loop that is not worth a worker
					}
				}
			}, g...))
			require.Equal(t, n, next)
		}
	}
	var order []int
	note := func(i int) func(*Worker) { return func(*Worker) { order = append(order, i) } }
	require.NoError(t, Do(at, note(0), note(1), note(2), note(3)))
	require.Equal(t, []int{0, 1, 2, 3}, order)
	require.NoError(t, Do(at, func(w *Worker) {
		x, y := Join(w, fib, 10, fib, 11)
		require.Equal(t, [2]int{55, 89}, [2]int{x, y})
		n := 0
		w.Scope(func(s *Scope) {
			for range 100 {
				s.Go(w, func(w *Worker) {
					n++
					s.Go(w, func(*Worker) { n++ })
				})
			}
		})
		require.Equal(t, 200, n)
		w.Block(func() { time.Sleep(time.Millisecond) })
		w.Yield()
		require.Zero(t, w.Idle())
	}))
	v, err := forkFib.Run(at, 20)
	require.NoError(t, err)
	require.Equal(t, 6765, v)

	// Panics, Goexit and the end of a context arrive as at any pool.
	require.Equal(t, 7, testutil.Caught(func() { _ = ForRange(at, 10, func(int, int) { panic(7) }) }).(*PanicError).Value)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = Do(at, func(*Worker) { runtime.Goexit() })
	}()
	<-over
	inner, _, cancel := WithCancel(at)
	stop := errors.New("stop")
	require.ErrorIs(t, Do(inner, func(w *Worker) { w.Stop(stop) }), stop)
	cancel(nil)

	var all sync.WaitGroup // many at the same time, more than it has places
	for range 100 {
		all.Go(func() {
			sum := 0
			if err := ForRange(at, 10_000, func(lo, hi int) { sum += hi - lo }); err != nil || sum != 10_000 {
				t.Error(sum, err)
			}
		})
	}
	all.Wait()
	require.True(t, testutil.Eventually(func() bool { return runtime.NumGoroutine() <= goroutines }))

	synctest.Test(t, func(t *testing.T) { // the serial pool belongs to no bubble
		require.NoError(t, Do(at, func(w *Worker) {
			w.Do(func(*Worker) { time.Sleep(time.Second) }, func(w *Worker) { w.Block(func() { time.Sleep(time.Second) }) })
		}))
	})
}

// TestSerialRefusesWhatNobodyWouldRun later, by an error; nothing is accepted and lost.
func TestSerialRefusesWhatNobodyWouldRun(t *testing.T) {
	never := func(*Worker) { t.Error("nobody runs it") }
	require.NoError(t, Do(Serial(), func(w *Worker) {
		p := w.Pool()
		ctx := context.Background()
		require.Same(t, errSerial, w.Go(never))
		require.Same(t, errSerial, p.Go(never))
		for _, o := range [][]TaskOption{{}, {PriorityHigh}, {PriorityLow}, {Delay(time.Nanosecond)}, {StartBy(time.Now(), never)}} {
			require.Same(t, errSerial, p.Submit(ctx, never, o...))
			require.Same(t, errSerial, p.TrySubmit(never, o...))
			_, err := Async(p, func(*Worker) (int, error) { never(nil); return 0, nil }, o...).Wait(ctx)
			require.Same(t, errSerial, err)
		}
		n, err := p.SubmitAll(ctx, []func(*Worker){never})
		require.Zero(t, n)
		require.Same(t, errSerial, err)
		g, _ := p.Group(ctx)
		g.Go(func() error { never(nil); return nil })
		require.Same(t, errSerial, g.Wait())
		require.Same(t, errShared, p.Resize(1))
		require.Same(t, errShared, p.Pause(ctx))
		require.ErrorContains(t, p.WaitIdle(ctx), "inside a task")
		require.Equal(t, 1, p.Workers())
		_ = p.Stats()
	}))
	require.Same(t, errShared, Serial().(*Pool).Close())
	_, err := Serial().(*Pool).Abort(context.Background())
	require.Same(t, errShared, err)
}
