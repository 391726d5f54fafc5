package pool

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// TestWhatIsMadeAtAPlaceHasItsPriority: groups, their functions that waited for a turn, and futures, unless an option says otherwise.
func TestWhatIsMadeAtAPlaceHasItsPriority(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
	var d diary
	note := func(name string) func() error { return func() error { d.note(name); return nil } }
	future := func(name string) func(*Worker) (int, error) {
		return func(*Worker) (int, error) { return 0, note(name)() }
	}
	low, _ := NewGroup(p.At(PriorityLow))
	low.AtMost(1)
	high, _ := NewGroup(p.With(background).At(PriorityHigh))
	onlyWorker(t, p, func(w *Worker) {
		w.tick.turn = 0
		low.Go(note("low 1"))
		low.Go(note("low 2"))
		Async(p.At(PriorityLow), future("low 3"))
		Async(p.At(PriorityLow), future("high 1"), PriorityHigh)
		require.NoError(t, p.Go(d.task("normal 1")))
		high.Go(note("high 2"))
		Async(p.At(PriorityLow), future("normal 2"), PriorityNormal)
	})
	require.NoError(t, low.Wait())
	require.NoError(t, high.Wait())
	require.Equal(t, []string{"high 1", "high 2"}, d.read()[:2])
	require.ElementsMatch(t, []string{"normal 1", "normal 2"}, d.read()[2:4])
	require.Equal(t, []string{"low 1", "low 3", "low 2"}, d.read()[4:])
	require.Zero(t, p.urgent.Load())

	first, err := First(p.At(PriorityHigh), func(context.Context, *Worker) (int, error) { return 1, nil })
	require.Equal(t, 1, first)
	require.NoError(t, err)
}

// beginLow makes a call of low priority in another goroutine, and returns when it waits for its turn.
func beginLow(t *testing.T, p *Pool, ctx context.Context, f func()) (ended <-chan error) {
	result := make(chan error, 1)
	go func() { result <- Do(p.At(PriorityLow).With(ctx), func(*Worker) { f() }) }()
	require.True(t, testutil.Eventually(func() bool { return p.Load().Queued.Low == 1 }))
	return result
}

func TestACallOfLowPriorityWaitsForOtherTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	var d diary
	release := occupyAll(t, p)
	ended := beginLow(t, p, background, func() { d.note("low") })
	for range 20 {
		require.NoError(t, p.Go(d.task("normal")))
	}
	require.NoError(t, Do(p.At(PriorityHigh), d.task("high")), "it does not wait")
	release()
	require.NoError(t, <-ended)
	names := d.read()
	require.Len(t, names, 22)
	require.Equal(t, "high", names[0])
	require.Equal(t, "low", names[21])
}

func TestACallOfLowPriorityEndsWithItsContextAndWithThePool(t *testing.T) {
	cause := errors.New("enough")
	for name, c := range map[string]struct {
		end  func(p *Pool, cancel context.CancelCauseFunc)
		want error
	}{
		"context": {func(_ *Pool, cancel context.CancelCauseFunc) { cancel(cause) }, cause},
		"abort":   {func(p *Pool, _ context.CancelCauseFunc) { go func() { _, _ = p.Abort(background) }() }, ErrClosed},
		"close":   {func(p *Pool, _ context.CancelCauseFunc) { go p.Close() }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1), WithPinning(PinNone))
			release := occupyAll(t, p)
			ctx, cancel := context.WithCancelCause(background)
			defer cancel(nil)
			ended := beginLow(t, p, ctx, func() { t.Error("it runs") })
			c.end(p, cancel)
			if c.want == ErrClosed {
				require.True(t, testutil.Eventually(p.isClosed))
			} else {
				require.ErrorIs(t, <-ended, cause, "before the worker is free")
			}
			release()
			if c.want == ErrClosed {
				require.ErrorIs(t, <-ended, ErrClosed)
			}
			p.Close()
			require.ErrorIs(t, Do(p.At(PriorityLow), func(*Worker) {}), ErrClosed)
		})
	}
}

func TestACallOfLowPriorityInsideBeginsAtOnce(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	var d diary
	onlyWorker(t, p, func(*Worker) {
		require.NoError(t, p.Go(d.task("queued")))
		require.NoError(t, p.At(PriorityLow).Run(d.task("inside")))
	})
	require.Equal(t, []string{"inside", "queued"}, d.read())
	require.NoError(t, Do(Serial().(*Pool).At(PriorityLow), d.task("serial")))
	require.PanicsWithError(t, "pool: View.At was given the priority 7; it must be PriorityHigh, PriorityNormal or PriorityLow", func() { p.At(7) })
	require.ErrorContains(t, (*Pool)(nil).At(PriorityLow).Run(d.task("none")), "was not made by New")
}
