package pool

import (
	"context"
	"errors"
	"io"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/testutil"
)

// TestTheErrorOfAContextIsItsCauseAndItsErr, whatever ended because of it, so that a handler may ask for DeadlineExceeded alone.
func TestTheErrorOfAContextIsItsCauseAndItsErr(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithQueueBound(1), WithCallers(1))
	enough := errors.New("enough")
	never := func(*Worker) { t.Error("it runs") }
	calls := map[string]func(ctx context.Context) error{
		"a call": func(ctx context.Context) error {
			return p.With(ctx).Run(func(w *Worker) {
				for {
					w.Checkpoint()
				}
			})
		},
		"a wait for admission": func(ctx context.Context) (err error) {
			done := make(chan struct{})
			_ = p.Run(func(*Worker) {
				go func() {
					defer close(done)
					err = p.With(ctx).Run(never)
				}()
				testutil.Compute(done)
			})
			return err
		},
		"a loop": func(ctx context.Context) error {
			return ForRange(Serial().With(ctx), math.MaxInt, func(int, int) {}, Grain(1))
		},
		"forks": func(ctx context.Context) error {
			return Serial().With(ctx).Run(func(w *Worker) {
				for {
					fib(w, 5)
				}
			})
		},
		"Submit":    func(ctx context.Context) error { return p.Submit(ctx, never) },
		"SubmitAll": func(ctx context.Context) error { _, err := p.SubmitAll(ctx, []func(*Worker){never}); return err },
		"Async": func(ctx context.Context) error {
			_, err := Async(p.With(ctx), func(*Worker) (int, error) { never(nil); return 0, nil }).Wait(background)
			return err
		},
		"a wait for a future": func(ctx context.Context) error {
			_, err := Async(p, func(*Worker) (int, error) { return 0, nil }, PriorityHigh).Wait(ctx)
			return err
		},
		"a group": func(ctx context.Context) error {
			g, _ := NewGroup(p.With(ctx))
			<-ctx.Done()
			g.GoWorker(func(*Worker) error { never(nil); return nil })
			return g.Wait()
		},
		"First": func(ctx context.Context) error {
			_, err := First(p.With(ctx), func(ctx context.Context, w *Worker) (int, error) {
				w.Block(func() { <-ctx.Done() })
				w.Do(never, never)
				return 0, nil
			})
			return err
		},
		"Broadcast": func(ctx context.Context) error { return p.Broadcast(ctx, func(*Worker) error { return nil }) },
		"Pause":     func(ctx context.Context) error { defer p.Resume(); return p.Pause(ctx) },
		"WaitIdle":  func(ctx context.Context) error { return p.WaitIdle(ctx) },
		"Shutdown":  func(ctx context.Context) error { <-ctx.Done(); return p.unfinished(ctx) },
	}
	for name, call := range calls {
		deadline, cancel := context.WithTimeoutCause(background, time.Millisecond, enough)
		cancelled, end := context.WithCancelCause(background)
		time.AfterFunc(time.Millisecond, func() { end(enough) })
		for err, ctx := range map[error]context.Context{context.DeadlineExceeded: deadline, context.Canceled: cancelled} {
			release := func() {}
			if name != "a group" && name != "First" {
				release = occupyAll(t, p)
				require.NoError(t, p.Submit(background, func(*Worker) {})) // there is no room for another one
			}
			got := call(ctx)
			release()
			require.ErrorIs(t, got, enough, name)
			require.ErrorIs(t, got, err, name)
			require.NoError(t, p.WaitIdle(background))
		}
		cancel()
	}
	plain, cancel := context.WithCancel(background)
	require.NoError(t, causes.Of(plain))
	cancel()
	require.Same(t, context.Canceled, causes.Of(plain), "the cause is the Err")
	require.EqualError(t, causes.Of(func() context.Context {
		ctx, cancel := context.WithCancelCause(background)
		cancel(io.EOF)
		return ctx
	}()), "EOF")
}

// TestAFutureEndsWithThePlacesContext: at once if its function has not begun, delayed or not, and where it forks if it has.
func TestAFutureEndsWithThePlacesContext(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	never := func(*Worker) (int, error) { t.Error("it runs"); return 0, nil }
	ctx, cancel := context.WithCancelCause(background)
	release := occupyAll(t, p)
	queued, delayed := Async(p.With(ctx), never), Async(p.With(ctx), never, Delay(time.Hour))
	other := Async(p, func(*Worker) (int, error) { return 7, nil })
	cancel(errStop)
	for _, f := range []*Future[int]{queued, delayed, Async(p.With(ctx), never)} {
		_, err := waitFor(t, f)
		require.ErrorIs(t, err, errStop)
	}
	release()
	n, err := waitFor(t, other)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.EqualValues(t, 2, p.Stats().Skipped)

	ctx, cancel = context.WithCancelCause(background)
	begun := make(chan struct{})
	runs := Async(p.With(ctx), func(w *Worker) (int, error) {
		close(begun)
		for {
			w.Checkpoint()
		}
	})
	<-begun
	cancel(errStop)
	_, err = waitFor(t, runs)
	require.ErrorIs(t, err, errStop)

	ctx, cancel = context.WithCancelCause(background)
	n, err = waitFor(t, Async(p.With(ctx), func(w *Worker) (int, error) { return fib(w, 10), nil }))
	require.NoError(t, err)
	require.Equal(t, 55, n)
	_, err = waitFor(t, Async(p.With(ctx), func(w *Worker) (int, error) { w.Stop(io.EOF); return 0, nil }))
	require.Same(t, io.EOF, err)
	require.NoError(t, ctx.Err())
	cancel(nil)
}

// TestWhatIsMadeAtAWorkerEndsWithTheCallAround.
func TestWhatIsMadeAtAWorkerEndsWithTheCallAround(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release := occupyAll(t, p)
	var future, own *Future[int]
	var ran atomic.Bool
	require.NoError(t, p.With(background).Run(func(w *Worker) {
		future = Async(w, func(*Worker) (int, error) { t.Error("it runs"); return 0, nil }, PriorityLow)
		own = Async(p, func(*Worker) (int, error) { ran.Store(true); return 0, nil })
		g, ctx := NewGroup(w)
		require.Error(t, func() error {
			defer g.Go(func() error { t.Error("it runs"); return nil })
			return w.With(background).Run(func(w *Worker) { w.Stop(errStop) })
		}())
		require.NoError(t, ctx.Err(), "another call has ended")
	}))
	_, err := waitFor(t, future)
	require.ErrorIs(t, err, context.Canceled)
	release()
	_, err = waitFor(t, own)
	require.NoError(t, err)
	require.True(t, ran.Load())
}

// TestWhatIsMadeAtANestedPlaceEndsWithTheCallAround: at w.With(ctx) the call around w ends groups, futures and First, too,
// whatever ctx is, and before or after they are made. Afterwards nothing stays in ctx.
func TestWhatIsMadeAtANestedPlaceEndsWithTheCallAround(t *testing.T) {
	counting := &countingContext{Context: t.Context()}
	unrelated, cancel := context.WithCancel(counting)
	defer cancel()
	p := newPool(t, WithWorkers(1))
	never := func(*Worker) (int, error) { t.Error("it runs"); return 0, nil }
	requireEnded := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, errStop)
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, before := range []bool{false, true} {
		outer, stop := context.WithCancelCause(t.Context())
		end := func(now bool) {
			if now {
				stop(errStop)
			}
		}
		release := func() {}
		err := p.With(outer).Run(func(w *Worker) {
			if !before {
				release = occupyAll(t, p)
			}
			end(before)
			future := Async(w.With(unrelated), never, PriorityLow)
			g, ctx := NewGroup(w.With(unrelated))
			g.Go(func() error { t.Error("it runs"); return nil })
			r, _ := GroupOf[int](w.With(unrelated))
			r.GoWorker(never)
			end(!before)
			release()
			_, err := future.Wait(background)
			requireEnded(t, err)
			requireEnded(t, g.Wait())
			requireEnded(t, context.Cause(ctx))
			_, err = r.Wait()
			requireEnded(t, err)
			_, err = First(w.With(unrelated), func(context.Context, *Worker) (int, error) { return never(nil) })
			requireEnded(t, err)
			_ = Do(w.With(unrelated), func(*Worker) { t.Error("it runs") })
			t.Error("the call goes on")
		})
		requireEnded(t, err)
	}
	require.NoError(t, p.With(t.Context()).Run(func(w *Worker) {
		for range 3 {
			n, err := Async(w.With(counting), func(*Worker) (int, error) { return 1, nil }).Wait(background)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			g, _ := NewGroup(w.With(counting))
			g.Go(func() error { return nil })
			require.NoError(t, g.Wait())
			_, err = First(w.With(counting), func(context.Context, *Worker) (int, error) { return 1, nil })
			require.NoError(t, err)
		}
		require.EqualValues(t, 1, counting.registered.Load(), "that of unrelated")
	}))
}

// TestAFutureThatNobodyWatchesNeverBeginsAfterItsContext: its task comes to its turn, and sees the end itself.
func TestAFutureThatNobodyWatchesNeverBeginsAfterItsContext(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, nested := range []bool{false, true} {
		skipped := p.Stats().Skipped
		at, _, cancel := cancellable(p)
		release := occupyAll(t, p)
		var begun atomic.Bool
		async := func(at Place) *Future[int] {
			return Async(at, func(*Worker) (int, error) { begun.Store(true); return 1, nil }, StartBy(time.Now().Add(time.Hour), func(*Worker) { begun.Store(true) }))
		}
		var f *Future[int]
		if nested {
			_ = p.With(context.WithValue(t.Context(), &begun, 1)).Run(func(w *Worker) { f = async(w.With(at.Context())) })
		} else {
			f = async(at)
		}
		cancel(errStop)
		release()
		requireAtRest(t, p)
		require.False(t, begun.Load())
		require.EqualValues(t, 1, p.Stats().Skipped-skipped)
		require.Nil(t, f.ctx, "the future keeps the context")
		_, err := f.Wait(background)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// TestTheContextInANestedCallEndsWithBothCalls, as soon as Cancelled says so.
func TestTheContextInANestedCallEndsWithBothCalls(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	key := new(int)
	for _, made := range []bool{false, true} {
		outer, stop := context.WithCancelCause(t.Context())
		require.ErrorIs(t, p.With(outer).Run(func(w *Worker) {
			_ = w.With(context.WithValue(background, key, 7)).Run(func(w *Worker) {
				var ctx context.Context
				if made {
					ctx = w.Context()
					require.NoError(t, ctx.Err())
				}
				stop(errStop)
				require.True(t, w.Cancelled())
				if !made {
					ctx = w.Context()
				}
				require.Equal(t, 7, ctx.Value(key))
				require.ErrorIs(t, ctx.Err(), context.Canceled)
				require.ErrorIs(t, context.Cause(ctx), errStop)
				<-ctx.Done()
			})
		}), errStop)
	}
}

// TestAGroupsForksUnwindWithItsContext, because of an error in the group as well.
func TestAGroupsForksUnwindWithItsContext(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(background)
	defer cancel(nil)
	g, derived := NewGroup(p.With(ctx))
	begun := make(chan struct{})
	g.GoWorker(func(w *Worker) error {
		close(begun)
		for {
			fib(w, 5)
		}
	})
	<-begun
	g.Go(func() error { return errStop })
	require.Same(t, errStop, g.Wait())
	require.Same(t, errStop, context.Cause(derived))
	require.NoError(t, ctx.Err())
}

// TestFunctionsOfAnyGroupAreInACallWithItsContext, at a place whose context never ends, too: an error or panic of another function
// unwinds their forks, Stop ends the group with its error, and Context is derived from the group's.
func TestFunctionsOfAnyGroupAreInACallWithItsContext(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, fail := range map[string]func(*Worker) error{
		"error": func(*Worker) error { return errStop },
		"stop":  func(w *Worker) error { w.Stop(errStop); return nil },
		"forked": func(w *Worker) error {
			w.Do(func(w *Worker) { w.Stop(errStop) }, func(w *Worker) { fib(w, 3) })
			return nil
		},
		"panic": func(*Worker) error { panic(errStop) },
	} {
		t.Run(name, func(t *testing.T) {
			forks := func(begun chan struct{}) func(*Worker) error {
				return func(w *Worker) error {
					close(begun)
					for {
						fib(w, 5)
					}
				}
			}
			wait := func(wait func() error) (err error) {
				if v := testutil.Caught(func() { err = wait() }); v != nil {
					err = v.(error)
				}
				return err
			}
			g, ctx := NewGroup(p)
			for range 2 { // again after Reset
				begun := make(chan struct{})
				g.GoWorker(forks(begun))
				<-begun
				g.GoWorker(fail)
				require.ErrorIs(t, wait(g.Wait), errStop)
				require.ErrorIs(t, context.Cause(ctx), errStop)
				ctx = g.Reset(background)
			}
			r, _ := GroupOf[int](p)
			begun := make(chan struct{})
			endless := forks(begun)
			r.GoWorker(func(w *Worker) (int, error) { return 1, endless(w) })
			<-begun
			r.GoWorker(func(w *Worker) (int, error) { return 1, fail(w) })
			require.ErrorIs(t, wait(func() error {
				results, err := r.Wait()
				require.Equal(t, []int{0, 0}, results)
				return err
			}), errStop)
		})
	}
	g, ctx := NewGroup(Serial())
	g.GoWorker(func(w *Worker) error { w.Stop(errStop); return nil })
	require.Same(t, errStop, g.Wait())
	require.Same(t, errStop, context.Cause(ctx))
	g, _ = NewGroup(p)
	g.JoinErrors()
	g.GoWorker(func(w *Worker) error { w.Stop(errStop); return nil })
	g.GoWorker(func(w *Worker) error { require.NoError(t, w.Context().Err()); return nil })
	require.ErrorIs(t, g.Wait(), errStop)
	require.Zero(t, cancelledCalls(p))
}

// TestACallOfAGroupCostsNoAllocation beyond that of any function of a group, whatever the place.
func TestACallOfAGroupCostsNoAllocation(t *testing.T) {
	if testutil.UnderRace {
		t.Skip("the race detector allocates, too")
	}
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const n = 1000
	for _, at := range []Place{p, p.With(ctx)} {
		require.LessOrEqual(t, allocsPerRun(10, func() {
			g, _ := NewGroup(at)
			for range n {
				g.GoWorker(func(*Worker) error { return nil })
			}
			_ = g.Wait()
		}), float64(2*n+50))
	}
}

// TestAGroupOrFutureAtAnotherFunctionsWorkerIsRefused.
func TestAGroupOrFutureAtAnotherFunctionsWorkerIsRefused(t *testing.T) {
	if goroutineIDIsSlow {
		t.Skip("without assembly a worker is not compared with its caller")
	}
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := Async(w, func(*Worker) (int, error) { return 0, nil }).Wait(background)
			require.ErrorContains(t, err, "worker of another function")
			_, err = First(w, func(context.Context, *Worker) (int, error) { return 0, nil })
			require.ErrorContains(t, err, "worker of another function")
			require.ErrorContains(t, testutil.Caught(func() { NewGroup(w) }).(error), "worker of another function")
			require.ErrorContains(t, testutil.Caught(func() { GroupOf[int](w) }).(error), "worker of another function")
		}()
		<-done
	}))
	_, err := Async[int](nil, func(*Worker) (int, error) { return 0, nil }).Wait(background)
	require.ErrorContains(t, err, "nil as its place")
	require.Panics(t, func() { NewGroup(nil) })
}
