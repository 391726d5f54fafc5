package pool

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// endless is a search that does not come to its end by itself.
var endless = Recursive(func(f *Fork[func(w *Worker), int], look func(*Worker)) int {
	look(f.Worker())
	x, y := f.Join(look, look)
	return x + y
})

// TestStopEndsAllOfASearch, whichever worker finds what is looked for, in forks, joins, scopes and loops, and nothing around it.
func TestStopEndsAllOfASearch(t *testing.T) {
	found := errors.New("found")
	p := newPool(t, WithWorkers(2))
	searches := map[string]func(at Place, look func(w *Worker)) error{
		"Recursion": func(at Place, look func(w *Worker)) error {
			_, err := endless.Run(at, look)
			return err
		},
		"ForWorker": func(at Place, look func(w *Worker)) error {
			return ForWorker(at, 1<<40, func(w *Worker, lo, hi int) { look(w) }, Grain(1))
		},
		"Scope": func(at Place, look func(w *Worker)) error {
			return Call(at, func(w *Worker) {
				w.Scope(func(s *Scope) {
					var again func(w *Worker)
					again = func(w *Worker) {
						look(w)
						s.Go(w, again)
						s.Go(w, again)
					}
					s.Go(w, again)
				})
			})
		},
		"Join": func(at Place, look func(w *Worker)) error {
			var again func(w *Worker, n int) int
			again = func(w *Worker, n int) int {
				look(w)
				x, y := Join(w, again, n+1, again, n+1)
				return x + y
			}
			return Call(at, func(w *Worker) { again(w, 0) })
		},
	}
	for name, search := range searches {
		for _, by := range []int64{1, 2, 10, 1000} {
			for at, place := range map[string]func(f func(at Place)){
				"pool":   func(f func(at Place)) { f(p) },
				"worker": func(f func(at Place)) { require.NoError(t, p.Run(func(w *Worker) { f(w) })) },
				"serial": func(f func(at Place)) { f(Serial()) },
			} {
				if at == "serial" && name == "Scope" {
					continue // which takes the newest first and needs memory for the others until it is found
				}
				t.Run(name+" at a "+at, func(t *testing.T) {
					place(func(at Place) {
						inner, ctx, cancel := WithCancel(at)
						defer cancel(nil)
						var looks atomic.Int64
						err := search(inner, func(w *Worker) {
							if looks.Add(1) == by {
								w.Stop(found)
								t.Error("it has stopped and goes on")
							}
						})
						require.Same(t, found, err)
						require.Same(t, found, context.Cause(ctx))
						require.NoError(t, ForRange(at, 10, func(int, int) {}), "the place around it goes on")
					})
				})
			}
		}
	}
	requireAtRest(t, p)
}

// TestStopEndsTheInnermostSearch that can be stopped, and its caller goes on.
func TestStopEndsTheInnermostSearch(t *testing.T) {
	inner, outer := errors.New("inner"), errors.New("outer")
	p := newPool(t, WithWorkers(2))
	at, _, cancel := WithCancel(p)
	defer cancel(nil)
	require.Same(t, outer, at.Run(func(w *Worker) {
		at, ctx, cancel := WithCancel(w)
		defer cancel(nil)
		require.Same(t, inner, at.Run(func(w *Worker) {
			require.Equal(t, ctx, w.Context())
			require.NoError(t, w.With(context.WithValue(w.Context(), at, 1)).Run(func(w *Worker) {
				require.Equal(t, 1, w.Context().Value(at))
			}))
			_ = w.With(t.Context()).Run(func(w *Worker) { w.Stop(inner) }) // the call between the two ends with it
			t.Error("it has stopped and goes on")
		}))
		w.Stop(outer)
	}))
	require.NoError(t, p.Run(func(w *Worker) {
		require.Equal(t, context.Background(), w.Context())
		require.ErrorContains(t, caught(func() { w.Stop(inner) }).(error), "WithCancel")
	}))
	require.ErrorContains(t, at.Run(func(*Worker) {}), "outer", "it is over")
	fresh, _, end := WithCancel(p)
	defer end(nil)
	require.NoError(t, fresh.Run(func(w *Worker) {
		require.ErrorContains(t, caught(func() { w.Stop(nil) }).(error), "nil error")
		w.Uncancelled(func(func() bool) {
			require.ErrorContains(t, caught(func() { w.Stop(inner) }).(error), "WithCancel")
		})
	}))
}

// TestARecursionCallsItself for one part, though it is the value of a variable that it could not name.
var depth = Recursive(func(f *Fork[int, int], n int) int {
	if n == 0 {
		return 0
	}
	if n%2 == 0 {
		return 1 + f.Call(n-1)
	}
	x, y := f.Join(n-1, n/2)
	return 1 + max(x, y)
})

func TestARecursionCallsItself(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	got, err := depth.Run(p, 40)
	require.NoError(t, err)
	require.Equal(t, 40, got)
}

// TestDoAtAPlace runs each function once, and ends as Worker.Do and Pool.Run do.
func TestDoAtAPlace(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var ran atomic.Int64
	f := func(*Worker) { ran.Add(1) }
	require.NoError(t, Do(p))
	require.NoError(t, Do(p, f))
	require.NoError(t, Do(p, f, f, f))
	require.NoError(t, p.Run(func(w *Worker) {
		require.NoError(t, Do(w, f, f))
		require.NoError(t, Do(p, f, f), "as the worker that it is")
	}))
	require.EqualValues(t, 8, ran.Load())
	require.ErrorContains(t, Do(p, f, nil), "nil")
	require.ErrorContains(t, Do(nil, f), "place")
	require.Equal(t, 7, caught(func() { _ = Do(p, f, func(*Worker) { panic(7) }) }).(*PanicError).Value)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Do(p.With(ctx), f), context.Canceled)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Do(p, f, func(*Worker) { runtime.Goexit() })
	}()
	<-done
	requireAtRest(t, p)
	require.NoError(t, p.Close())
	require.ErrorIs(t, Do(p, f), ErrClosed)
}
