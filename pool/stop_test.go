package pool

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// endless is a search that does not end by itself.
var endless = Recursive(func(f *Fork[func(w *Worker), int], look func(*Worker)) int {
	look(f.Worker())
	x, y := f.Join(look, look)
	return x + y
})

// TestStopEndsAllOfASearch, whichever worker finds the result, in forks, joins, scopes and loops, and
// ends nothing around it.
func TestStopEndsAllOfASearch(t *testing.T) {
	found := errors.New("found")
	p := newPool(t, WithWorkers(2))
	searches := map[string]func(at Place, look func(w *Worker)) error{
		"Recursion": func(at Place, look func(w *Worker)) error {
			_, err := endless.Run(at, look)
			return err
		},
		"ForWorker": func(at Place, look func(w *Worker)) error {
			return ForRange(at, math.MaxInt, func(w *Worker, lo, hi int) { look(w) }, Grain(1))
		},
		"Scope": func(at Place, look func(w *Worker)) error {
			return Do(at, func(w *Worker) {
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
			return Do(at, func(w *Worker) { again(w, 0) })
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
					continue // it takes the newest child first and would need memory for the others until the result is found
				}
				t.Run(name+" at a "+at, func(t *testing.T) {
					place(func(at Place) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						var looks atomic.Int64
						var inside atomic.Pointer[context.Context]
						err := search(at.With(ctx), func(w *Worker) {
							if looks.Add(1) == by {
								inner := w.Context()
								inside.Store(&inner)
								w.Stop(found)
								t.Error("it has stopped and goes on")
							}
						})
						require.Same(t, found, err)
						require.Same(t, found, context.Cause(*inside.Load()))
						require.NoError(t, ctx.Err(), "it is its maker's")
						require.NoError(t, ForRange(at, 10, func(int, int) {}), "the place around it goes on")
					})
				})
			}
		}
	}
	requireAtRest(t, p)
}

// TestStopEndsTheInnermostSearch that can be stopped, while its caller goes on.
func TestStopEndsTheInnermostSearch(t *testing.T) {
	inner, outer := errors.New("inner"), errors.New("outer")
	p := newPool(t, WithWorkers(2))
	at := p.With(context.Background())
	require.Same(t, outer, at.Run(func(w *Worker) {
		at := w.With(w.Context())
		require.Same(t, inner, at.Run(func(w *Worker) {
			require.NoError(t, w.With(context.WithValue(w.Context(), at, 1)).Run(func(w *Worker) {
				require.Equal(t, 1, w.Context().Value(at))
			}))
			require.Same(t, errStop, w.With(t.Context()).Run(func(w *Worker) { w.Stop(errStop) }), "it is the innermost")
			require.NoError(t, w.Context().Err())
			w.Do(func(*Worker) {}, func(w *Worker) { w.Stop(inner) })
			t.Error("it has stopped and goes on")
		}))
		w.Stop(outer)
	}))
	require.NoError(t, p.Run(func(w *Worker) {
		require.Equal(t, context.Background(), w.Context())
		require.ErrorContains(t, testutil.Caught(func() { w.Stop(inner) }).(error), "outside of a call at a place with a context")
	}))
	require.NoError(t, at.Run(func(w *Worker) {
		require.ErrorContains(t, testutil.Caught(func() { w.Stop(nil) }).(error), "nil error")
		w.Uncancelled(func(func() bool) {
			require.ErrorContains(t, testutil.Caught(func() { w.Stop(inner) }).(error), "outside of a call")
		})
	}))
}

// depth calls itself, though a variable cannot be named in its own value.
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
	require.Equal(t, 7, testutil.Caught(func() { _ = Do(p, f, func(*Worker) { panic(7) }) }).(*PanicError).Value)
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

// TestAPanicBesideAStopIsNotLost: where one function of a join, scope or loop ends the call, and another one panics on another worker
// before it is over, the panic reaches the caller.
func TestAPanicBesideAStopIsNotLost(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	type f = func(w *Worker)
	shapes := map[string]func(w *Worker, stops, panics f){
		"Do":          func(w *Worker, stops, panics f) { w.Do(stops, panics) },
		"Do of three": func(w *Worker, stops, panics f) { w.Do(stops, panics, func(*Worker) {}) },
		"Do in an inner call": func(w *Worker, stops, panics f) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_ = w.With(ctx).Run(func(w *Worker) { w.Do(stops, panics) })
		},
		"Do in Do":          func(w *Worker, stops, panics f) { w.Do(stops, func(w *Worker) { w.Do(func(*Worker) {}, panics) }) },
		"Do, the other way": func(w *Worker, stops, panics f) { w.Do(panics, stops) },
		"Both": func(w *Worker, stops, panics f) {
			both(w, func(w *Worker) int { stops(w); return 1 }, func(w *Worker) int { panics(w); return 1 })
		},
		"Join": func(w *Worker, stops, panics f) {
			run := func(w *Worker, f f) int { f(w); return 1 }
			Join(w, run, stops, run, panics)
		},
		"Scope": func(w *Worker, stops, panics f) {
			w.Scope(func(s *Scope) { s.Go(w, stops); s.Go(w, panics) })
		},
		"the body of a Scope": func(w *Worker, stops, panics f) {
			w.Scope(func(s *Scope) { s.Go(w, panics); stops(w) })
		},
		"ForWorker": func(w *Worker, stops, panics f) {
			require.NoError(t, ForRange(w, 2, func(w *Worker, lo, _ int) { []f{stops, panics}[lo](w) }, Grain(1)))
		},
	}
	for name, shape := range shapes {
		for range testutil.Stress(50) {
			at, _, cancel := cancellable(p)
			started, stopped := make(chan struct{}), make(chan struct{})
			got := testutil.Caught(func() {
				err := at.Run(func(w *Worker) {
					shape(w, func(w *Worker) {
						w.Block(func() { <-started })
						defer close(stopped)
						w.Stop(errStop)
					}, func(w *Worker) {
						close(started)
						w.Block(func() { <-stopped })
						panic("boom")
					})
				})
				t.Error(name, "lost the panic and returned", err)
			})
			e, ok := got.(*PanicError)
			require.True(t, ok || got == "boom", "%s: %v", name, got)
			if ok {
				require.Equal(t, "boom", e.Value, name)
			}
			cancel(nil)
		}
	}
	// A panic that was handled does not come back.
	at, _, cancel := cancellable(p)
	defer cancel(nil)
	require.Same(t, errStop, at.Run(func(w *Worker) {
		require.NotNil(t, testutil.Caught(func() { w.Do(func(*Worker) {}, func(*Worker) { panic("boom") }) }))
		w.Stop(errStop)
	}))
}

func TestAnyPlaceHasAContextAndBlocks(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(io.ErrUnexpectedEOF)
	for name, place := range map[string]Place{"pool": p, "view": p.With(context.Background()), "serial": Serial(), "nested": p.With(ctx).With(context.Background()).With(ctx)} {
		require.ErrorIs(t, ForRange(place.With(ctx), 10, func(lo, hi int) { t.Error("its context has ended") }), io.ErrUnexpectedEOF, name)
		blocked := false
		place.Block(func() { blocked = true })
		require.True(t, blocked, name)
		require.Panics(t, func() { place.Block(nil) }, name)
		var none context.Context
		require.Panics(t, func() { place.With(none) }, name)
	}
	// The only worker waits for a task in the body of a loop.
	require.NoError(t, p.Go(func(w *Worker) {}))
	future := Async(p, func(w *Worker) (bool, error) {
		ran := make(chan struct{})
		err := ForRange(w, 1, func(lo, hi int) {
			_ = p.Go(func(*Worker) { close(ran) })
			p.Block(func() { <-ran })
		})
		return true, err
	})
	ok, err := future.Wait(context.Background())
	require.NoError(t, err)
	require.True(t, ok)
}

// TestStopWorksBelowAnyContext, whether it can end or not, and ends nothing but the call and the context of its functions.
func TestStopWorksBelowAnyContext(t *testing.T) {
	type key struct{}
	found := errors.New("found")
	p := newPool(t, WithWorkers(2))
	other, cancelOther := context.WithCancel(context.Background())
	defer cancelOther()
	for name, ctx := range map[string]context.Context{
		"one with a value": context.WithValue(other, key{}, 1), "one that ends": other, "one that never ends": context.Background(),
		"one without the end": context.WithoutCancel(other),
	} {
		for at, place := range map[string]func(f func(at Place)){
			"pool":   func(f func(at Place)) { f(p) },
			"worker": func(f func(at Place)) { require.NoError(t, p.Run(func(w *Worker) { f(w) })) },
		} {
			t.Run(name+" at a "+at, func(t *testing.T) {
				place(func(at Place) {
					var looks, waits atomic.Int64
					_, err := endless.Run(at.With(ctx), func(w *Worker) {
						switch looks.Add(1) {
						case 5:
							w.Block(func() { <-w.Context().Done() })
							waits.Add(1)
						case 10:
							w.Stop(found)
							t.Error("it has stopped and goes on")
						}
					})
					require.Equal(t, found, err)
					require.EqualValues(t, 1, waits.Load())
					require.NoError(t, other.Err())
				})
			})
		}
	}
}

// TestTheContextOfACallEndsWithIt, and has the values of the place's.
func TestTheContextOfACallEndsWithIt(t *testing.T) {
	type key struct{}
	p := newPool(t, WithWorkers(1))
	var inside context.Context
	require.NoError(t, p.With(context.WithValue(context.Background(), key{}, 7)).Run(func(w *Worker) {
		inside = w.Context()
		require.Equal(t, inside, w.Context())
		require.Equal(t, inside, w.With(inside).With(inside).Context())
		require.Equal(t, 7, inside.Value(key{}))
		require.NoError(t, inside.Err())
	}))
	require.ErrorIs(t, inside.Err(), context.Canceled)
	require.Equal(t, context.Background(), p.Context())
	require.Equal(t, context.Background(), p.Try().Context())
	require.Equal(t, context.Background(), Serial().Context())
}

func TestShutdownSaysWhoWaitsForWhat(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release, blocked := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { close(blocked); <-release }) }))
	<-blocked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.Shutdown(ctx)
	require.ErrorContains(t, err, "TestShutdownSaysWhoWaitsForWhat")
	require.ErrorContains(t, err, "waits in Worker.Block")
	close(release)
	require.NoError(t, p.Close())
}
