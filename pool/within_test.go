package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// forks computes until it unwinds.
func forks(w *Worker) {
	for {
		w.Do(func(w *Worker) { work(10) }, func(w *Worker) { work(10) })
	}
}

// limitedCalls are the calls and functions that have a time limit. Each gives the error of f.
var limitedCalls = map[string]func(at Place, f func(w *Worker)) error{
	"Do":  func(at Place, f func(*Worker)) error { return Do(at, f) },
	"Run": func(at Place, f func(*Worker)) error { return at.(*View).Run(f) },
	"ForRange": func(at Place, f func(*Worker)) error {
		return ForRange(at, 1, func(w *Worker, _, _ int) { f(w) }, Grain(1))
	},
	"Recursive": func(at Place, f func(*Worker)) error { return at.(*View).Run(func(w *Worker) { w.Do(f, f) }) },
	"a group": func(at Place, f func(*Worker)) error {
		g, _ := NewGroup(at)
		g.GoWorker(func(w *Worker) error { f(w); return nil })
		return g.Wait()
	},
	"GroupOf": func(at Place, f func(*Worker)) error {
		g, _ := GroupOf[int](at)
		g.GoWorker(func(w *Worker) (int, error) { f(w); return 0, nil })
		_, err := g.Wait()
		return err
	},
	"First": func(at Place, f func(*Worker)) error {
		_, err := First(at, func(ctx context.Context, w *Worker) (int, error) { f(w); return 0, context.Cause(ctx) })
		return err
	},
	"Async": func(at Place, f func(*Worker)) error {
		_, err := Async(at, func(w *Worker) (int, error) { f(w); return 0, nil }).Wait(background)
		return err
	},
}

func TestWhatRunsTooLongEnds(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for name, call := range limitedCalls {
			require.ErrorIs(t, call(p.Within(time.Millisecond), forks), context.DeadlineExceeded, name)
			require.NoError(t, p.Run(func(w *Worker) {
				require.ErrorIs(t, call(w.With(w.Context()).Within(time.Millisecond), forks), context.DeadlineExceeded, name)
			}))
			require.ErrorIs(t, call(p.Within(time.Millisecond), func(w *Worker) {
				ctx := w.Context()
				w.Block(func() { <-ctx.Done() })
				assert.Equal(t, context.DeadlineExceeded, ctx.Err())
				_, limited := ctx.Deadline()
				assert.True(t, limited)
				w.Cancelled() // so the call is told
			}), context.DeadlineExceeded, name)
			require.NoError(t, call(p.Within(time.Hour), func(*Worker) {}), name)
		}
	})
}

// TestEachFunctionHasItsOwnTime, which begins with the function, and not with the group.
func TestEachFunctionHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(WithWorkers(2), WithPinning(PinNone))
		require.NoError(t, err)
		start := time.Now()
		g, _ := NewGroup(p.Within(10 * time.Second))
		g.SetLimit(1)
		for range 5 {
			g.GoWorker(func(w *Worker) error {
				ctx := w.Context()
				time.Sleep(8 * time.Second)
				return ctx.Err()
			})
		}
		var ended time.Duration
		g.GoWorker(func(w *Worker) error {
			ctx := w.Context()
			<-ctx.Done()
			ended = time.Since(start)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, g.Wait(), context.DeadlineExceeded)
		require.Equal(t, 50*time.Second, ended)
		require.NoError(t, p.Close())
	})
}

// TestAnOuterCallThatEndsWithAnInnerOneRecoversItsUnwinding: the inner call saw that the outer one had been cancelled just now, and unwound to it
// without a note there.
func TestAnOuterCallThatEndsWithAnInnerOneRecoversItsUnwinding(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	began := time.Now()
	for range testutil.Stress(20_000) {
		if time.Since(began) > 2*time.Second { // beside other programs, when the goroutine that ends the calls waits for a CPU
			break
		}
		ctx, end := context.WithCancel(background)
		var outer *cancelScope
		inside := make(chan struct{})
		stops := testutil.Together(1, func(int) {
			<-inside
			end()
			outer.stopWith(context.Canceled)
		})
		err := p.With(background).Run(func(w *Worker) {
			outer = w.cancelScope
			_ = w.With(ctx).Run(func(w *Worker) {
				close(inside)
				for !w.Cancelled() {
				}
			})
		})
		stops()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}

func TestATimeLimitIsPositive(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.ErrorContains(t, testutil.Caught(func() { p.Within(0) }).(error), "must be more than 0")
}
