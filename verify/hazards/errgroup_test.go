package hazards

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	dropin "github.com/seed53057037/heist/errgroup"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// group is what errgroup's Group and heist's have in common.
type group interface {
	errgroupGroup
	Skipped() int // functions that never began
}

type errgroupGroup interface {
	Go(f func() error)
	TryGo(f func() error) bool
	SetLimit(n int)
	Wait() error
}

// beginsAll is an errgroup: it begins all functions, whatever others returned.
type beginsAll struct{ errgroupGroup }

func (beginsAll) Skipped() int { return 0 }

// scenario opens a group, uses it, and returns the outcome.
type scenario func(open opener) (outcome []any)

// opener makes a group of one kind or the other.
type opener func(parent context.Context) (group, context.Context)

var (
	errFirst  = errors.New("the first error")
	errSecond = errors.New("the second error")
)

// scenarios are the sentences of errgroup's documentation.
var scenarios = map[string]scenario{
	"an empty group waits for nothing": func(open opener) []any {
		g, ctx := open(context.Background())
		return []any{ctx.Err(), g.Wait(), ctx.Err(), context.Cause(ctx)}
	},
	"the first error counts, and cancels the context": func(open opener) []any {
		g, ctx := open(context.Background())
		g.Go(func() error { return errFirst })
		g.Go(func() error { <-ctx.Done(); return errSecond })
		<-ctx.Done()
		cause := context.Cause(ctx)
		return []any{cause, g.Wait()}
	},
	"Wait returns when all have ended, not at the first error": func(open opener) []any {
		g, ctx := open(context.Background())
		var begun, ended atomic.Int32
		g.Go(func() error { begun.Add(1); ended.Add(1); return errFirst })
		for range 10 {
			g.Go(func() error { begun.Add(1); <-ctx.Done(); ended.Add(1); return nil })
		}
		err := g.Wait()
		return []any{err, ended.Load() == begun.Load(), int(begun.Load()) + g.Skipped()}
	},
	"the context ends with a Wait that finds no error": func(open opener) []any {
		g, ctx := open(context.Background())
		g.Go(func() error { return nil })
		return []any{ctx.Err(), g.Wait(), ctx.Err(), context.Cause(ctx)}
	},
	"the limit holds": func(open opener) []any {
		g, _ := open(context.Background())
		const limit = 3
		g.SetLimit(limit)
		var active, ended atomic.Int32
		var tooMany atomic.Bool
		for range 100 {
			g.Go(func() error {
				if active.Add(1) > limit {
					tooMany.Store(true)
				}
				ended.Add(1)
				active.Add(-1)
				return nil
			})
		}
		err := g.Wait()
		return []any{err, tooMany.Load(), ended.Load(), g.Skipped()}
	},
	"Go waits at the limit, and TryGo does not": func(open opener) []any {
		g, _ := open(context.Background())
		g.SetLimit(1)
		release := make(chan struct{})
		first := g.TryGo(func() error { <-release; return nil })
		second := g.TryGo(func() error { return errSecond })
		var third atomic.Bool
		entered := make(chan struct{})
		go func() {
			g.Go(func() error { third.Store(true); return nil })
			close(entered)
		}()
		early := third.Load()
		close(release)
		<-entered
		return []any{first, second, early, g.Wait(), third.Load()}
	},
	"a limit of 0 lets nobody in, and a negative one everybody": func(open opener) []any {
		g, _ := open(context.Background())
		g.SetLimit(0)
		none := g.TryGo(func() error { return errFirst })
		g.SetLimit(-1)
		some := g.TryGo(func() error { return errSecond })
		return []any{none, some, g.Wait()}
	},
	"the limit must not change while functions run": func(open opener) []any {
		g, _ := open(context.Background())
		g.SetLimit(1)
		release := make(chan struct{})
		g.Go(func() error { <-release; return nil })
		panicked := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			g.SetLimit(2)
			return false
		}()
		close(release)
		return []any{panicked, g.Wait()}
	},
	"functions may add functions": func(open opener) []any {
		g, _ := open(context.Background())
		var ended atomic.Int32
		g.Go(func() error {
			for range 10 {
				g.Go(func() error {
					g.Go(func() error { ended.Add(1); return nil })
					ended.Add(1)
					return nil
				})
			}
			return nil
		})
		err := g.Wait()
		return []any{err, ended.Load(), g.Skipped()}
	},
}

// differences are the scenarios that end in another way with heist: functions that have not begun when there
// is an error, or when the parent's context has ended, never do.
var differences = map[string]struct {
	play     scenario
	errgroup []any
	heist    []any
}{
	"an error stays when the group goes on after Wait": {
		func(open opener) []any {
			g, _ := open(context.Background())
			g.Go(func() error { return errFirst })
			once := g.Wait()
			var ran atomic.Bool
			g.Go(func() error { ran.Store(true); return errSecond })
			return []any{once, g.Wait(), ran.Load(), g.Skipped()}
		},
		[]any{errFirst, errFirst, true, 0},
		[]any{errFirst, errFirst, false, 1},
	},
	"a parent that was cancelled before": {
		func(open opener) []any {
			parent, cancel := context.WithCancelCause(context.Background())
			cancel(errSecond)
			g, ctx := open(parent)
			g.Go(func() error { return errors.Join(errFirst, context.Cause(ctx)) })
			err := g.Wait() // heist's is context.Canceled, too
			return []any{context.Cause(ctx), err.Error(), errors.Is(err, errSecond), context.Cause(ctx), g.Skipped()}
		},
		[]any{errSecond, errors.Join(errFirst, errSecond).Error(), true, errSecond, 0},
		[]any{errSecond, errSecond.Error(), true, errSecond, 1},
	},
	"a parent that is cancelled in the middle of a function": {
		func(open opener) []any {
			parent, cancel := context.WithCancelCause(context.Background())
			g, ctx := open(parent)
			g.SetLimit(1)
			var ran atomic.Int32
			g.Go(func() error { cancel(errSecond); <-ctx.Done(); ran.Add(1); return nil })
			for range 3 {
				g.Go(func() error { ran.Add(1); return errFirst })
			}
			err := g.Wait()
			return []any{err.Error(), errors.Is(err, errSecond), ran.Load(), g.Skipped()}
		},
		[]any{errFirst.Error(), false, int32(4), 0},
		[]any{errSecond.Error(), true, int32(1), 3},
	},
	"none begins after an error": {
		func(open opener) []any {
			g, _ := open(context.Background())
			g.SetLimit(1) // so that each begins when the one before has ended
			var ran atomic.Int32
			for range 3 {
				g.Go(func() error { ran.Add(1); return nil })
			}
			for range 3 {
				g.Go(func() error { ran.Add(1); return errFirst })
			}
			return []any{g.Wait(), ran.Load(), g.Skipped()}
		},
		[]any{errFirst, int32(6), 0},
		[]any{errFirst, int32(4), 2},
	},
}

// TestErrgroupContract: an errgroup promises what its documentation says, and peers that
// imitate it have broken each sentence of it: an error that was not the first, a Wait that
// returned while functions ran, a limit that let one more in.
//
// Here one number counts the tasks that have not ended and decides about room in the same compare-and-swap
// (pool/group.go, tryReserve), and the first error is kept and told under one lock (fail). Where the two
// differ, a group of heist is stricter: it is made by NewGroup and has no zero value, and a panic, which
// ends the process in an errgroup, continues in Wait.
//
// In one thing heist's groups do something else. An errgroup begins every function, and leaves it to each to
// look at the context. A group of heist skips functions that have not begun at the first error, or at the end
// of the parent's context. It counts them (Skipped), and Wait returns the error or the context's cause.
//
// Heist's package errgroup is the original in all of this.
//
// The same scenarios are played with each. They must end in the same way, and those that show the difference
// each in its own way.
func TestErrgroupContract(t *testing.T) {
	claim.That(t, "errgroup: a group does what errgroup does, except that it skips what has not begun after an error, and a panic continues in Wait",
		"the sentences of errgroup's documentation, played with both and compared")
	played := 0
	for _, workers := range []int{1, 2, 8} {
		p := newPool(t, pool.WithWorkers(workers))
		kinds := []opener{
			func(parent context.Context) (group, context.Context) {
				g, ctx := errgroup.WithContext(parent)
				return beginsAll{g}, ctx
			},
			func(parent context.Context) (group, context.Context) { return pool.NewGroup(p.With(parent)) },
			func(parent context.Context) (group, context.Context) {
				g, ctx := dropin.WithContext(parent)
				return beginsAll{g}, ctx
			},
		}
		for range rounds(100) {
			for name, play := range scenarios {
				var outcomes [3][]any
				for i, open := range kinds {
					finishes(t, name, func() { outcomes[i] = play(open) })
				}
				require.Equal(t, outcomes[0], outcomes[1], "%s: errgroup, and heist with %d workers", name, workers)
				require.Equal(t, outcomes[0], outcomes[2], "%s: errgroup, and heist's package", name)
				played++
			}
			for name, d := range differences {
				for i, want := range [][]any{d.errgroup, d.heist, d.errgroup} {
					var outcome []any
					finishes(t, name, func() { outcome = d.play(kinds[i]) })
					require.Equal(t, want, outcome, "%s: %s, with %d workers", name, [...]string{"errgroup", "heist", "heist's package"}[i], workers)
				}
				played++
			}
		}
		requirePanicReachesWait(t, p)
	}
	claim.Amount(t, "%s scenarios", claim.Count(played))
}

func requirePanicReachesWait(t *testing.T, p *pool.Pool) {
	t.Helper()
	g, ctx := pool.NewGroup(p)
	var ended atomic.Bool
	begun := make(chan struct{})
	g.GoWorker(func(w *pool.Worker) error {
		close(begun)
		w.Block(func() { <-ctx.Done() })
		ended.Store(true)
		return errSecond
	})
	soon(t, begun, "the beginning of a function")
	g.Go(func() error { panic(errFirst) })
	g.Go(func() error { <-ctx.Done(); return nil }) // begun, or skipped
	defer func() {
		t.Helper()
		e, ok := recover().(*pool.PanicError)
		require.True(t, ok, "Wait did not panic with a PanicError")
		require.ErrorIs(t, e, errFirst)
		require.True(t, ended.Load(), "Wait panicked while functions ran")
	}()
	_ = g.Wait()
}
