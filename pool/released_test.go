package pool

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

type memory [1 << 16]byte

// TestWhatIsKeptDoesNotKeepItsFunction: a future, a group or a pool that is kept, as in a cache, holds results and errors,
// but not the functions that made them, nor what these captured.
func TestWhatIsKeptDoesNotKeepItsFunction(t *testing.T) {
	ctx := context.Background()
	ended := func(f *Future[int]) *Future[int] {
		_, _ = f.Wait(ctx)
		return f
	}
	uses := func(b *memory) func(w *Worker) (int, error) {
		return func(*Worker) (int, error) { b[0]++; return 1, nil }
	}
	inTask := func(p *Pool, f func(w *Worker)) {
		over := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { defer close(over); f(w) }))
		require.True(t, closed(over))
	}
	never := func() error { t.Error("it runs"); return nil }
	for name, make := range map[string]func(p *Pool, b *memory) (kept any){
		"a future": func(p *Pool, b *memory) any { return ended(Async(p, uses(b))) },
		"a future run in place": func(p *Pool, b *memory) (kept any) {
			inTask(p, func(*Worker) { kept = ended(Async(p, uses(b))) })
			return kept
		},
		"a future that failed": func(p *Pool, b *memory) any {
			return ended(Async(p, func(*Worker) (int, error) { b[0]++; return 0, errors.New("failed") }))
		},
		"a future in time": func(p *Pool, b *memory) any {
			return ended(Async(p, uses(b), StartBy(time.Now().Add(time.Hour), func(*Worker) { b[0]++ })))
		},
		"a future that is late": func(p *Pool, b *memory) any {
			return ended(Async(p, uses(b), StartBy(time.Time{}, func(*Worker) { b[0]++ })))
		},
		"a future with a delay": func(p *Pool, b *memory) any { return ended(Async(p, uses(b), Delay(1))) },
		"a future with a name":  func(p *Pool, b *memory) any { return ended(Async(p, uses(b), Named("name"))) },
		"a cancelled future": func(p *Pool, b *memory) any {
			release := occupyAll(t, p)
			defer release()
			f := Async(p, uses(b))
			require.True(t, f.Cancel())
			return f
		},
		"a cancelled future that is queued": func(p *Pool, b *memory) any {
			f := Async(p, uses(b), StartBy(time.Now().Add(time.Hour), func(*Worker) { b[0]++ }), Delay(time.Hour))
			require.True(t, f.Cancel())
			return f
		},
		"a future of a closed pool": func(p *Pool, b *memory) any {
			require.NoError(t, p.Close())
			return Async(p, uses(b))
		},
		"an aborted future": func(p *Pool, b *memory) any {
			f := Async(p, uses(b), Delay(time.Hour))
			_, err := p.Abort(ctx)
			require.NoError(t, err)
			return ended(f)
		},
		"an aborted pool, and a task with a delay": func(p *Pool, b *memory) any {
			require.NoError(t, p.Submit(ctx, func(*Worker) { b[0]++ }, Delay(time.Hour)))
			left, err := p.Abort(ctx)
			require.NoError(t, err)
			require.Len(t, left, 1)
			return p
		},
		"a task with a delay that its context ended": func(p *Pool, b *memory) any {
			ctx, cancel := context.WithCancel(ctx)
			require.NoError(t, p.Submit(ctx, func(*Worker) { b[0]++ }, Delay(time.Hour)))
			cancel()
			require.True(t, testutil.Eventually(func() bool { return p.Load().Delayed == 0 }))
			return ctx
		},
		"a group": func(p *Pool, b *memory) any {
			g := newGroup(p)
			for range 5 {
				g.Go(func() error { b[0]++; return nil })
			}
			require.NoError(t, g.Wait())
			return g
		},
		"a group of results": func(p *Pool, b *memory) any {
			g, _ := GroupOf[int](p.With(ctx))
			g.AtMost(1)
			for range 5 {
				g.Go(func() (int, error) { b[0]++; return 1, nil })
			}
			_, err := g.Wait()
			require.NoError(t, err)
			return g
		},
		"a group that failed": func(p *Pool, b *memory) any {
			g := newGroup(p)
			g.AtMost(1)
			failed := errors.New("failed")
			release := occupyAll(t, p)
			for range 5 {
				g.Go(func() error { b[0]++; return failed })
			}
			release()
			require.Same(t, failed, g.Wait())
			return g
		},
		"an aborted group": func(p *Pool, b *memory) any {
			require.NoError(t, p.Pause(ctx))
			g := newGroup(p)
			g.AtMost(1)
			for range 5 {
				g.Go(func() error { b[0]++; return never() })
			}
			_, err := p.Abort(ctx)
			require.NoError(t, err)
			require.ErrorIs(t, g.Wait(), ErrClosed)
			return g
		},
		"an error of Shutdown": func(p *Pool, b *memory) any {
			gate := make(chan struct{})
			f := Async(p, func(w *Worker) (int, error) { w.Block(func() { <-gate }); b[0]++; return 1, nil })
			require.True(t, testutil.Eventually(func() bool { return p.Load().Waiting == 1 }))
			over, cancel := context.WithCancel(ctx)
			cancel()
			err := p.Shutdown(over)
			require.Error(t, err)
			close(gate)
			ended(f)
			return err
		},
		"a broadcast": func(p *Pool, b *memory) any {
			require.NoError(t, p.Broadcast(ctx, func(*Worker) error { b[0]++; return nil }))
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1))
			b := new(memory)
			gone := weak.Make(b)
			kept := make(p, b)
			b = nil
			require.True(t, testutil.Eventually(func() bool { runtime.GC(); return gone.Value() == nil }), "it keeps the function")
			runtime.KeepAlive(kept)
			runtime.KeepAlive(p)
		})
	}
}
