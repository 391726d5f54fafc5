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
	inner, _, cancel := cancellable(at)
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
	testutil.NoMoreGoroutines(t, goroutines)

	synctest.Test(t, func(t *testing.T) { // the serial pool belongs to no bubble
		require.NoError(t, Do(at, func(w *Worker) {
			w.Do(func(*Worker) { time.Sleep(time.Second) }, func(w *Worker) { w.Block(func() { time.Sleep(time.Second) }) })
		}))
	})
}

// TestNobodyLooksWhetherACallerOfSerialWaits: a monitor would start workers, which find no place.
func TestNobodyLooksWhetherACallerOfSerialWaits(t *testing.T) {
	me := goroutineID()
	require.NoError(t, Do(Serial(), func(w *Worker) {
		w.Scope(func(s *Scope) {
			for range 3 {
				s.Go(w, func(*Worker) {
					require.Equal(t, me, goroutineID())
					time.Sleep(5 * monitorPeriod)
				})
			}
		})
		require.Nil(t, w.Pool().monitor.last)
	}))
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
		}
		_, err := Async(Serial(), func(*Worker) (int, error) { never(nil); return 0, nil }, Delay(time.Nanosecond)).Wait(ctx)
		require.Same(t, errSerial, err)
		n, err := p.SubmitAll(ctx, []func(*Worker){never})
		require.Zero(t, n)
		require.Same(t, errSerial, err)
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

// TestSerialComposesFuturesInTheCaller: they are done when they are made, so nothing has to run later. What is not done is a pool's to wait for.
func TestSerialComposesFuturesInTheCaller(t *testing.T) {
	ctx := context.Background()
	value := func(n int) *Future[int] { return Async(Serial(), func(*Worker) (int, error) { return n, nil }) }
	fails := Async(Serial(), func(*Worker) (int, error) { return 0, errStop })
	ran := 0 // without a lock
	twice := func(_ *Worker, n int) (int, error) { ran++; return 2 * n, nil }
	then := Then(value(3), twice)
	require.True(t, then.Ready())
	n, err := then.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 6, n)
	_, err = Then(fails, twice).Wait(ctx)
	require.Same(t, errStop, err)
	require.Equal(t, 1, ran)
	all, err := All(value(1), then).Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{1, 6}, all)
	n, err = Any(fails, value(4)).Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	_, err = Any(fails).Wait(ctx)
	require.ErrorIs(t, err, errStop)
	blown := Async(Serial(), func(*Worker) (int, error) { panic(7) })
	require.Equal(t, 7, testutil.Caught(func() { _, _ = Any(fails, blown).Wait(ctx) }).(*PanicError).Value)

	p := newPool(t)
	release := make(chan struct{})
	slow := Async(p, func(w *Worker) (n int, err error) { w.Block(func() { <-release }); return 5, nil })
	_, err = Async(Serial(), func(*Worker) (int, error) { t.Error("it runs"); return 0, nil }, After(slow)).Wait(ctx)
	require.Same(t, errSerial, err)
	_, err = Then(value(3), twice, Delay(time.Nanosecond)).Wait(ctx)
	require.Same(t, errSerial, err)
	mixed := All(value(1), slow)
	close(release)
	all, err = mixed.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{1, 5}, all)
	n, err = Async(Serial(), func(*Worker) (int, error) { return 8, nil }, After(slow)).Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 8, n)
}

// TestSerialRunsGroupsAndFuturesInTheCaller, one function after the other, whatever bounds the group has.
func TestSerialRunsGroupsAndFuturesInTheCaller(t *testing.T) {
	ctx := context.Background()
	at := Serial()
	ran := 0 // without a lock
	for _, o := range [][]TaskOption{{}, {PriorityHigh}, {PriorityLow}, {StartBy(time.Now().Add(time.Hour), func(*Worker) {})}} {
		f := Async(at, func(w *Worker) (int, error) { ran++; return fib(w, 5), nil }, o...)
		require.True(t, f.Ready())
		n, err := f.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, n)
	}
	_, err := Async(at, func(*Worker) (int, error) { return 0, nil }, StartBy(time.Now().Add(-time.Hour), func(*Worker) {})).Wait(ctx)
	require.Same(t, ErrLate, err)
	blown := Async(at, func(*Worker) (int, error) { panic(7) })
	require.Equal(t, 7, testutil.Caught(func() { _, _ = blown.Wait(ctx) }).(*PanicError).Value)
	require.Equal(t, 4, ran)

	g, derived := NewGroup(at)
	g.AtMost(1)
	g.SetLimit(2)
	g.Go(func() error {
		g.GoWorker(func(w *Worker) error { ran += fib(w, 5); return nil })
		ran++
		return nil
	})
	require.Equal(t, 10, ran)
	g.Go(func() error { return errStop })
	require.ErrorIs(t, context.Cause(derived), errStop)
	g.Go(func() error { t.Error("the group is over"); return nil })
	require.Same(t, errStop, g.Wait())

	all, _ := GroupOf[int](at)
	for i := range 3 {
		all.Go(func() (int, error) { return i, nil })
	}
	results, err := all.Wait()
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, results)
	fails := func(context.Context, *Worker) (int, error) { return 0, errStop }
	wins := func(context.Context, *Worker) (int, error) { return 3, nil }
	never := func(context.Context, *Worker) (int, error) { t.Error("there is a result"); return 0, nil }
	n, err := First(at, fails, wins, never)
	require.NoError(t, err)
	require.Equal(t, 3, n)
}
