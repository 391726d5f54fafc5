package hazards

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// group is what errgroup's Group and heist's have in common.
type group interface {
	Go(f func() error)
	TryGo(f func() error) bool
	SetLimit(n int)
	Wait() error
}

// scenario opens a group, uses it, and tells what came of it.
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
		var ended atomic.Int32
		g.Go(func() error { ended.Add(1); return errFirst })
		for range 10 {
			g.Go(func() error { <-ctx.Done(); ended.Add(1); return nil })
		}
		err := g.Wait()
		return []any{err, ended.Load()}
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
		return []any{err, tooMany.Load(), ended.Load()}
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
		return []any{err, ended.Load()}
	},
	"an error stays when the group goes on after Wait": func(open opener) []any {
		g, _ := open(context.Background())
		g.Go(func() error { return errFirst })
		once := g.Wait()
		var ran atomic.Bool
		g.Go(func() error { ran.Store(true); return errSecond })
		return []any{once, g.Wait(), ran.Load()}
	},
	"a cancelled parent stops no function": func(open opener) []any {
		parent, cancel := context.WithCancelCause(context.Background())
		cancel(errSecond)
		g, ctx := open(parent)
		g.Go(func() error { return errors.Join(errFirst, context.Cause(ctx)) })
		return []any{context.Cause(ctx), g.Wait(), context.Cause(ctx)}
	},
}

// TestErrgroupContract: an errgroup promises what its documentation says, and peers that
// imitate it have broken each sentence of it: an error that was not the first, a Wait that
// returned while functions ran, a limit that let one more in.
//
// Here one number counts the tasks that have not ended and decides about room in the same
// compare-and-swap (pool/group.go, enter), and the first error is kept and told under one lock
// (fail). Where the two differ, a group of heist is stricter: it is made by Pool.Group and has no
// zero value, and a panic, which ends the process there, continues in Wait.
//
// The same scenarios are played with both, and must end in the same way.
func TestErrgroupContract(t *testing.T) {
	claim.That(t, "errgroup: a group does what errgroup does, except that a panic continues in Wait",
		"the sentences of errgroup's documentation, played with both and compared")
	played := 0
	for _, workers := range []int{1, 2, 8} {
		p := newPool(t, pool.WithWorkers(workers))
		kinds := []opener{
			func(parent context.Context) (group, context.Context) { return errgroup.WithContext(parent) },
			func(parent context.Context) (group, context.Context) { return p.Group(parent) },
		}
		for range rounds(100) {
			for name, play := range scenarios {
				var outcomes [2][]any
				for i, open := range kinds {
					finishes(t, name, func() { outcomes[i] = play(open) })
				}
				require.Equal(t, outcomes[0], outcomes[1], "%s: errgroup, and heist with %d workers", name, workers)
				played++
			}
		}
		requirePanicReachesWait(t, p)
	}
	claim.Amount(t, "%s scenarios", claim.Count(played))
}

func requirePanicReachesWait(t *testing.T, p *pool.Pool) {
	t.Helper()
	g, ctx := p.Group(context.Background())
	var ended atomic.Bool
	g.Go(func() error { panic(errFirst) })
	g.Go(func() error { <-ctx.Done(); ended.Store(true); return errSecond })
	defer func() {
		t.Helper()
		e, ok := recover().(*pool.PanicError)
		require.True(t, ok, "Wait did not panic with a PanicError")
		require.ErrorIs(t, e, errFirst)
		require.True(t, ended.Load(), "Wait panicked while functions ran")
	}()
	_ = g.Wait()
}
