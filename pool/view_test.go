package pool

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// TestAPlaceKeepsWhatItWasMadeWith, whatever place is made of it: the pool or worker, the context, and that its calls
// do not wait for admission.
func TestAPlaceKeepsWhatItWasMadeWith(t *testing.T) {
	type key struct{}
	one, cancelOne := context.WithCancel(context.WithValue(context.Background(), key{}, 1))
	defer cancelOne()
	two, cancelTwo := context.WithCancel(context.WithValue(context.Background(), key{}, 2))
	defer cancelTwo()
	stoppable := func(at Place) *View {
		inner, _, cancel := cancellable(at)
		t.Cleanup(func() { cancel(nil) })
		return inner
	}
	p := newPool(t, WithWorkers(1), WithCallers(1))
	places := []struct {
		name  string
		at    func() *View
		value any // of key in the call's context
		tries bool
	}{
		{"With", func() *View { return p.With(one) }, 1, false},
		{"With With", func() *View { return p.With(one).With(two) }, 2, false},
		{"With Try", func() *View { return p.With(one).Try() }, 1, true},
		{"Try With", func() *View { return p.With(one).Try().With(two) }, 2, true},
		{"WithCancel", func() *View { return stoppable(p.With(two)) }, 2, false},
		{"WithCancel of Try", func() *View { return stoppable(p.With(two).Try()) }, 2, true},
		{"WithCancel Try", func() *View { return stoppable(p.With(one)).Try() }, 1, true},
		{"WithCancel of Try, With", func() *View { return stoppable(p.With(one).Try()).With(two) }, 2, true},
	}
	call := func(at Place) (value any, err error) {
		return value, at.(*View).Run(func(w *Worker) {
			require.Same(t, p, w.Pool())
			value = w.Context().Value(key{})
		})
	}
	for _, c := range places {
		var value any
		require.NoError(t, c.at().Run(func(w *Worker) { value = w.Context().Value(key{}) }), c.name)
		require.Equal(t, c.value, value, c.name)
	}
	require.NoError(t, p.Run(func(w *Worker) { // the pool has as many callers as it may have
		testutil.Together(1, func(int) {
			for _, c := range places {
				if c.tries {
					_, err := call(c.at())
					require.ErrorIs(t, err, ErrFull, c.name)
				}
			}
		})()
		for _, c := range []struct {
			name  string
			at    *View
			value any
		}{
			{"With", w.With(one), 1}, {"With With", w.With(one).With(two), 2}, {"With Try With", w.With(one).Try().With(two), 2}, {"WithCancel", stoppable(w.With(one)), 1},
		} {
			require.NoError(t, c.at.Run(func(other *Worker) {
				require.Same(t, w, other, c.name)
				require.Equal(t, c.value, other.Context().Value(key{}), c.name)
				require.NoError(t, Do(stoppable(other), func(w *Worker) { require.Equal(t, c.value, w.Context().Value(key{}), c.name) }))
			}))
			require.Equal(t, context.Background(), w.Context(), c.name)
		}
	}))

	at := p.With(one) // to make a place of it does not change it
	_, _, _ = at.With(two), at.Try(), stoppable(at)
	value, err := call(at)
	require.NoError(t, err)
	require.Equal(t, 1, value)
	cancelOne()
	for _, c := range places {
		require.Equal(t, c.value == 1, errors.Is(Do(c.at()), context.Canceled), c.name)
	}
}

// TestTheErrorOfAnEndedContextIsItsCause, in each call that has a context, whether it ended before the call or
// while that waits.
func TestTheErrorOfAnEndedContextIsItsCause(t *testing.T) {
	why := errors.New("why")
	nothing := func(*Worker) {}
	for _, c := range []struct {
		name  string
		waits bool // the call also sees an end that comes later
		call  func(p *Pool, ctx context.Context) error
	}{
		{"Submit", true, func(p *Pool, ctx context.Context) error { return p.Submit(ctx, nothing) }},
		{"Submit high", false, func(p *Pool, ctx context.Context) error { return p.Submit(ctx, nothing, PriorityHigh) }},
		{"Submit low", false, func(p *Pool, ctx context.Context) error { return p.Submit(ctx, nothing, PriorityLow) }},
		{"Submit later", false, func(p *Pool, ctx context.Context) error { return p.Submit(ctx, nothing, Delay(time.Hour)) }},
		{"Submit with a deadline", true, func(p *Pool, ctx context.Context) error {
			return p.Submit(ctx, nothing, StartBy(time.Now().Add(time.Hour), nothing))
		}},
		{"SubmitAll", true, func(p *Pool, ctx context.Context) error {
			_, err := p.SubmitAll(ctx, []func(*Worker){nothing})
			return err
		}},
		{"WaitIdle", true, (*Pool).WaitIdle},
		{"Pause", true, func(p *Pool, ctx context.Context) error { defer p.Resume(); return p.Pause(ctx) }},
		{"Broadcast", true, func(p *Pool, ctx context.Context) error {
			return p.Broadcast(ctx, func(*Worker) error { return nil })
		}},
		{"Future.Wait", true, func(p *Pool, ctx context.Context) error {
			_, err := Async(p, func(*Worker) (int, error) { return 0, nil }, PriorityLow).Wait(ctx)
			return err
		}},
		{"Do", false, func(p *Pool, ctx context.Context) error { return Do(p.With(ctx), nothing) }},
		{"Do of nothing", false, func(p *Pool, ctx context.Context) error { return Do(p.With(ctx)) }},
		{"View.Run", false, func(p *Pool, ctx context.Context) error { return p.With(ctx).Run(nothing) }},
		{"Recursion.Run", false, func(p *Pool, ctx context.Context) error { _, err := forkFib.Run(p.With(ctx), 5); return err }},
		{"ForRange", true, func(p *Pool, ctx context.Context) error {
			return ForRange(p.With(ctx), math.MaxInt, func(lo, hi int) { time.Sleep(time.Microsecond) }, Grain(1))
		}},
		{"admission", true, func(p *Pool, ctx context.Context) error {
			defer occupyAsGuest(p)()
			return p.With(ctx).Run(nothing)
		}},
		{"Shutdown", true, (*Pool).Shutdown},
		{"Abort", true, func(p *Pool, ctx context.Context) error { _, err := p.Abort(ctx); return err }},
	} {
		for _, ended := range []string{"before", "meanwhile"} {
			if ended == "meanwhile" && !c.waits {
				continue
			}
			t.Run(c.name+"/"+ended, func(t *testing.T) {
				p := newPool(t, WithWorkers(1), WithQueueBound(1), WithCallers(1))
				release := occupyAll(t, p)
				require.NoError(t, p.TrySubmit(nothing))
				ctx, cancel := context.WithCancelCause(context.Background())
				if ended == "before" {
					cancel(why)
				} else {
					time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
				}
				require.ErrorIs(t, c.call(p, ctx), why)
				release()
				cancel(nil)
				if p.core.Closing.Load() {
					require.NoError(t, p.Close(), "the first one gave up")
				}
			})
		}
	}
}

// TestUncancelledWorkIsNotLeftHalfDone: no fork, loop or checkpoint in it ends early, though it is told that the call
// around it has ended, on any worker. Then the call ends.
func TestUncancelledWorkIsNotLeftHalfDone(t *testing.T) {
	why := errors.New("why")
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var did atomic.Int64
	did1 := func(*Worker) { did.Add(1) }
	inner := context.Background()
	require.ErrorIs(t, p.With(ctx).Run(func(w *Worker) {
		w.Checkpoint()
		require.False(t, w.Cancelled())
		w.Uncancelled(func(cancelled func() bool) {
			require.False(t, cancelled())
			cancel(why)
			require.True(t, cancelled())
			require.False(t, w.Cancelled(), "what it calls does not belong to the call")
			inner = w.Context()
			stolenJoin(w, func(w *Worker) int { did1(w); return 0 }, func(w *Worker) int {
				require.True(t, cancelled())
				w.Checkpoint()
				w.Do(did1, did1)
				return 0
			})
			w.Checkpoint()
			w.Do(did1, did1, did1)
			require.NoError(t, ForRange(w, 1000, func(lo, hi int) { did.Add(int64(hi - lo)) }, Grain(1)))
			w.Scope(func(s *Scope) { s.Go(w, did1) })
		})
		require.True(t, w.Cancelled())
		require.ErrorIs(t, context.Cause(w.Context()), why)
		w.Checkpoint()
		t.Error("the call goes on")
	}), why)
	require.Equal(t, context.Background(), inner)
	require.EqualValues(t, 1+2+3+1000+1, did.Load())
}

// TestACallKnowsTheValuesOfItsContext, though that context never ends.
func TestACallKnowsTheValuesOfItsContext(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "value")
	require.NoError(t, p.With(ctx).Run(func(w *Worker) {
		require.Equal(t, "value", w.Context().Value(key{}))
		require.NoError(t, w.With(context.Background()).Run(func(w *Worker) {
			require.Nil(t, w.Context().Value(key{}), "it is that of the innermost place")
		}))
	}))
}
