package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

var errStop = errors.New("enough of it")

func cancelledCalls(p *Pool) int64 { return p.cancelled.Load() }

// entries are the ways to begin a call with a context.
var entries = map[string]func(p *Pool, ctx context.Context, f func(w *Worker)) error{
	"Run": func(p *Pool, ctx context.Context, f func(w *Worker)) error { return p.With(ctx).Run(f) },
	"of a guest": func(p *Pool, ctx context.Context, f func(w *Worker)) (err error) {
		_ = p.Run(func(w *Worker) { err = w.With(ctx).Run(f) })
		return err
	},
	"of a task": func(p *Pool, ctx context.Context, f func(w *Worker)) error {
		result := make(chan error)
		_ = p.Go(func(w *Worker) { result <- w.With(ctx).Run(f) })
		return <-result
	},
	"Recursion": func(p *Pool, ctx context.Context, f func(w *Worker)) error {
		_, err := steps.Run(p.With(ctx), func(fork *Fork[step, any]) any { f(fork.Worker()); return nil })
		return err
	},
	"Recursion of a worker": func(p *Pool, ctx context.Context, f func(w *Worker)) (err error) {
		_ = p.Run(func(w *Worker) {
			_, err = steps.Run(w.With(ctx), func(fork *Fork[step, any]) any { f(fork.Worker()); return nil })
		})
		return err
	},
}

func forEntries(t *testing.T, test func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error)) {
	for name, entry := range entries {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(3))
			test(t, p, func(ctx context.Context, f func(*Worker)) error { return entry(p, ctx, f) })
			requireAtRest(t, p)
			if state := p.core.Sleep.Load(); state != policy.State(p.Workers())*policy.OneSleeper {
				t.Errorf("the state is %x", state)
			}
		})
	}
}

func TestCancelledContextRunsNothing(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errStop)
		err := enter(ctx, func(*Worker) { t.Error("it runs") })
		require.ErrorIs(t, err, errStop, "the cause")

		ctx, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer stop()
		require.ErrorIs(t, enter(ctx, func(*Worker) { t.Error("it runs") }), context.DeadlineExceeded)
	})
}

func TestCallThatIsNotCancelledReturnsNoError(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		ctx, cancel := context.WithCancel(context.Background())
		for _, ctx := range []context.Context{ctx, context.Background()} {
			for range testutil.Stress(100) {
				result := 0
				require.NoError(t, enter(ctx, func(w *Worker) { result = fib(w, 10) }))
				require.Equal(t, serialFib(10), result)
			}
		}
		cancel()
	})
}

// TestCancelStopsADeepRecursion soon: each worker of the call sees it at the next fork. A recursion
// that would not stop would take years.
func TestCancelStopsADeepRecursion(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		for round := range testutil.Stress(30) {
			ctx, cancel := context.WithCancelCause(context.Background())
			var calls, after atomic.Int64
			var cancelled, enough atomic.Bool
			patient := time.AfterFunc(5*time.Second, func() { enough.Store(true) })
			grow := Recursive(func(f *Fork[int, int], n int) int {
				if cancelled.Load() {
					after.Add(1)
				}
				if calls.Add(1) == int64(1000*round) {
					cancel(errStop)
					for cancelledCalls(f.Worker().pool) == 0 {
						runtime.Gosched() // the context's goroutine says so
					}
					cancelled.Store(true)
				}
				if n == 0 || enough.Load() {
					return 1
				}
				x, y := f.Join(n-1, n-1)
				return x + y
			})
			if round == 0 {
				time.AfterFunc(time.Millisecond, func() { cancel(errStop) })
			}
			require.ErrorIs(t, enter(ctx, func(w *Worker) {
				if round%2 == 0 {
					grow.Call(w, 60)
				} else {
					Join(w, grow.Call, 60, grow.Call, 60)
				}
			}), errStop)
			patient.Stop()
			require.False(t, enough.Load(), "a stolen half ran on and on after %d calls", after.Load())
		}
	})
}

func TestCancelStopsJoinDoBothAndScopes(t *testing.T) {
	forks := map[string]func(w *Worker, f func(*Worker)){
		"Join": func(w *Worker, f func(*Worker)) {
			g := func(w *Worker, _ int) int { f(w); return 0 }
			Join(w, g, 0, g, 0)
		},
		"Do": func(w *Worker, f func(*Worker)) { w.Do(f, f, f) },
		"Both": func(w *Worker, f func(*Worker)) {
			g := func(w *Worker) int { f(w); return 0 }
			both(w, g, g)
		},
		"Scope": func(w *Worker, f func(*Worker)) {
			w.Scope(func(s *Scope) { s.Go(w, f); s.Go(w, f) })
		},
	}
	for name, fork := range forks {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(3))
			for range testutil.Stress(30) {
				ctx, cancel := context.WithTimeoutCause(context.Background(), 2*time.Millisecond, errStop)
				var grow func(n int) func(w *Worker)
				grow = func(n int) func(w *Worker) {
					return func(w *Worker) {
						if n > 0 {
							fork(w, grow(n-1))
						} else {
							heist.Spin(time.Microsecond)
						}
					}
				}
				var err error
				require.True(t, testutil.Returns(func() { err = p.With(ctx).Run(grow(40)) }))
				require.ErrorIs(t, err, errStop)
				cancel()
				requireAtRest(t, p)
			}
		})
	}
}

// TestCancelStopsStolenHalves: both halves run on and on when the context ends.
func TestCancelStopsStolenHalves(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(50) {
		ctx, cancel := context.WithCancelCause(context.Background())
		var begun, ended atomic.Int32
		endless := func(w *Worker) int {
			defer ended.Add(1)
			begun.Add(1)
			for {
				fib(w, 5)
			}
		}
		go func() {
			testutil.Eventually(func() bool { return begun.Load() == 3 })
			cancel(errStop)
		}()
		require.ErrorIs(t, p.With(ctx).Run(func(w *Worker) {
			stolenJoin(w, endless, func(w *Worker) int {
				stolenJoin(w, endless, endless)
				return 0
			})
		}), errStop)
		require.EqualValues(t, 3, ended.Load(), "somebody was left behind")
		requireAtRest(t, p)
	}
}

// TestCancelAfterTheLastForkIsTooLate: the work is done, so its results count.
func TestCancelAfterTheLastForkIsTooLate(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		ctx, cancel := context.WithCancel(context.Background())
		result := 0
		require.NoError(t, enter(ctx, func(w *Worker) {
			result = fib(w, 10)
			cancel()
			require.True(t, testutil.Eventually(func() bool { return cancelledCalls(p) > 0 }))
		}))
		require.Equal(t, serialFib(10), result)

		x, err := 0, error(nil)
		ctx, cancel = context.WithCancel(context.Background())
		r := Recursive(func(f *Fork[int, int], n int) int {
			if n == 0 {
				cancel()
				return 5
			}
			x, y := f.Join(n-1, n-1)
			return x + y
		})
		x, err = r.Run(p.With(ctx), 0)
		require.NoError(t, err)
		require.Equal(t, 5, x)
	})
}

// TestCancelOfTheInnerCallOnly leaves the outer one alone.
func TestCancelOfTheInnerCallOnly(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		outer, stop := context.WithCancel(context.Background())
		defer stop()
		for range testutil.Stress(25) {
			var result [2]int
			var innerErr error
			stole := 0
			require.NoError(t, enter(outer, func(w *Worker) {
				inner, cancel := context.WithCancelCause(outer)
				Join(w,
					func(w *Worker, _ int) int {
						innerErr = w.With(inner).Run(func(w *Worker) {
							stolenJoin(w, func(w *Worker) int {
								cancel(errStop)
								for {
									fib(w, 5)
								}
							}, func(w *Worker) int {
								stole++
								for {
									forkFib.Call(w, 5)
								}
							})
						})
						result[0] = fib(w, 12)
						return 0
					}, 0,
					func(w *Worker, _ int) int { result[1] = forkFib.Call(w, 12); return 0 }, 0)
				require.Equal(t, serialFib(8), closureFib(w, 8))
			}))
			require.ErrorIs(t, innerErr, errStop)
			require.Equal(t, [2]int{serialFib(12), serialFib(12)}, result)
			require.Equal(t, 1, stole)
		}
	})
}

func TestCancelOfTheOuterCallEndsTheInnerOne(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		for range testutil.Stress(15) {
			outer, cancel := context.WithCancelCause(context.Background())
			inner, stop := context.WithCancel(context.Background())
			after := false
			require.ErrorIs(t, enter(outer, func(w *Worker) {
				_ = w.With(inner).Run(func(w *Worker) {
					stolenJoin(w,
						func(w *Worker) int {
							cancel(errStop)
							for {
								forkFib.Call(w, 5)
							}
						},
						func(w *Worker) int {
							_, err := forkFib.Run(w.With(inner), 60)
							after = err == nil
							return 0
						})
				})
				after = true
			}), errStop)
			require.False(t, after, "the inner call returned, though the outer one was cancelled")
			stop()
		}
	})
}

// TestBothCallsCancelled: the outermost one ends, whichever was cancelled first.
func TestBothCallsCancelled(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for round := range testutil.Stress(200) {
		outer, stopOuter := context.WithCancelCause(context.Background())
		inner, stopInner := context.WithCancelCause(context.Background())
		err := p.With(outer).Run(func(w *Worker) {
			_ = w.With(inner).Run(func(w *Worker) {
				if round%2 == 0 {
					stopInner(errors.New("inner"))
				}
				stopOuter(errStop)
				stopInner(errors.New("inner"))
				_, _ = forkFib.Run(w, 60)
			})
			_, _ = forkFib.Run(w, 60)
		})
		require.ErrorIs(t, err, errStop)
	}
}

// TestACallWatchesItsContextOnce from its first fork, child or loop on, since forks on the fast path look at nothing. One that has none costs nothing that
// its context has to know of.
func TestACallWatchesItsContextOnce(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for name, c := range map[string]struct {
		watches int64
		f       func(w *Worker)
	}{
		"nothing": {0, func(*Worker) {}},
		"a look":  {0, func(w *Worker) { w.Checkpoint(); w.Cancelled(); w.Call().Cancelled() }},
		"forks":   {1, func(w *Worker) { fib(w, 5); fib(w, 5) }},
		"children": {1, func(w *Worker) {
			w.Scope(func(s *Scope) {
				for range 3 {
					s.Go(w, func(*Worker) {})
				}
			})
		}},
		"a stray":     {1, func(w *Worker) { w.Scope(func(s *Scope) { w.Scope(func(*Scope) { s.Go(w, func(*Worker) {}) }) }) }},
		"loop":        {1, func(w *Worker) { _ = For(w, 3, func(int) {}, Grain(1)) }},
		"inner forks": {0, func(w *Worker) { _ = w.Pool().Run(func(w *Worker) { fib(w, 5) }) }},
	} {
		counts := &watchCounts{Context: t.Context()}
		require.NoError(t, p.With(counts).Run(c.f), name)
		require.Equal(t, c.watches, counts.Load(), name)
	}
	// Forks are on the fast path at once where there are some already.
	counts := &watchCounts{Context: t.Context()}
	require.NoError(t, p.Run(func(w *Worker) {
		Join(w, func(w *Worker, _ int) int { _ = w.With(counts).Run(func(*Worker) {}); return 0 }, 0, nop1, 0)
	}))
	require.EqualValues(t, 1, counts.Load())
}

// watchCounts counts how often it is watched.
type watchCounts struct {
	context.Context
	atomic.Int64
}

func (*watchCounts) Value(any) any { return nil } // what the context is derived from would be watched otherwise

func (c *watchCounts) AfterFunc(f func()) (stop func() bool) {
	c.Add(1)
	return context.AfterFunc(c.Context, f)
}

// TestACallThatIsCancelledWhileOneInsideItUnwinds ends, too: the unwinding of the inner call ends in the outer one.
func TestACallThatIsCancelledWhileOneInsideItUnwinds(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	outer, stopOuter := context.WithCancelCause(context.Background())
	inner, stopInner := context.WithCancelCause(context.Background())
	err := p.With(outer).Run(func(w *Worker) {
		fib(w, 2) // from its first fork on, the context is watched
		_ = w.With(inner).Run(func(w *Worker) {
			fib(w, 2)
			defer func() {
				stopOuter(errStop)
				require.True(t, testutil.Eventually(func() bool { return cancelledCalls(p) == 2 }))
			}()
			stopInner(io.EOF)
			_, _ = forkFib.Run(w, 60)
		})
		t.Error("the outer call went on")
	})
	require.ErrorIs(t, err, errStop)
	require.Zero(t, cancelledCalls(p))
}

// TestACallThatIsCancelledDuringWorkThatIsNoPartOfIt ends at the first fork after that work, however deep it is: the forks of the
// work have answered the alarm.
func TestACallThatIsCancelledDuringWorkThatIsNoPartOfIt(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	for name, apart := range map[string]func(w *Worker, f func(w *Worker)){
		"Uncancelled":      func(w *Worker, f func(w *Worker)) { w.Uncancelled(func(func() bool) { f(w) }) },
		"a call at a pool": func(_ *Worker, f func(w *Worker)) { _ = p.Run(f) },
		"another context":  func(_ *Worker, f func(w *Worker)) { _ = p.With(t.Context()).Run(f) },
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		var descend func(w *Worker, n int) int
		descend = func(w *Worker, n int) int {
			if n > 0 {
				x, _ := Join(w, descend, n-1, nop1, 0)
				return x
			}
			apart(w, func(w *Worker) {
				cancel(errStop)
				require.True(t, testutil.Eventually(func() bool { return cancelledCalls(p) == 1 }))
				require.Equal(t, serialFib(12), fib(w, 12))
			})
			Join(w, func(*Worker, int) int { t.Error(name, "went on"); return 0 }, 0, nop1, 0)
			return 0
		}
		require.ErrorIs(t, p.With(ctx).Run(func(w *Worker) { descend(w, 2*mostLevels) }), errStop, name)
		require.Zero(t, p.Stats().Cancelled, name)
	}
}

// TestUnwindingThatUserCodeRecovers ends the call all the same, at the latest at its
// last fork.
func TestUnwindingThatUserCodeRecovers(t *testing.T) {
	forEntries(t, func(t *testing.T, p *Pool, enter func(context.Context, func(*Worker)) error) {
		for range testutil.Stress(50) {
			ctx, cancel := context.WithCancelCause(context.Background())
			recovered := 0
			require.ErrorIs(t, enter(ctx, func(w *Worker) {
				cancel(errStop)
				for range 10 {
					if testutil.Caught(func() { fib(w, 10) }) != nil {
						recovered++
					}
					if testutil.Caught(func() { w.Do(func(*Worker) {}, func(*Worker) {}) }) != nil {
						recovered++
					}
				}
			}), errStop)
			require.Equal(t, 20, recovered)
			require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(10), fib(w, 10)) }))
		}
	})
}

func TestPanicOfACancelledCall(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(100) {
		ctx, cancel := context.WithCancelCause(context.Background())
		v := testutil.Caught(func() {
			_ = p.With(ctx).Run(func(w *Worker) {
				defer explode("on the way out")
				cancel(errStop)
				fib(w, 30)
			})
		})
		require.Equal(t, "on the way out", v)
		requireAtRest(t, p)
	}
}

func TestGoexitOfACancelledCall(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(100) {
		ctx, cancel := context.WithCancelCause(context.Background())
		after := false
		require.True(t, testutil.Returns(func() {
			_ = p.With(ctx).Run(func(w *Worker) {
				stolenJoin(w, func(w *Worker) int {
					cancel(errStop)
					runtime.Goexit()
					return 0
				}, func(w *Worker) int { return fib(w, 20) })
			})
			after = true
		}))
		require.False(t, after)
		requireAtRest(t, p)
	}
}

// TestCancelStopsStolenHalvesOfACallThatPanics: a call that ends by a panic waits for its
// stolen halves, and must not wait for all that they would do.
func TestCancelStopsStolenHalvesOfACallThatPanics(t *testing.T) {
	for name, counted := range map[string]bool{"cancelled before": true, "cancelled after": false} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			ctx, cancel := context.WithCancelCause(context.Background())
			var enough atomic.Bool
			grow := Recursive(func(f *Fork[int, int], n int) int {
				if n == 0 || enough.Load() {
					return 1
				}
				x, y := f.Join(n-1, n-1)
				return x + y
			})
			time.AfterFunc(2*time.Second, func() { enough.Store(true) })
			require.Equal(t, "f", testutil.Caught(func() {
				_ = p.With(ctx).Run(func(w *Worker) {
					stolenJoin(w,
						func(*Worker) int {
							time.Sleep(10 * time.Millisecond) // the thief is somewhere deep
							if counted {
								cancel(errStop)
								require.True(t, testutil.Eventually(func() bool { return cancelledCalls(p) > 0 }))
							} else {
								time.AfterFunc(10*time.Millisecond, func() { cancel(errStop) })
							}
							return explode("f")
						},
						func(w *Worker) int { return grow.Call(w, 60) })
				})
			}))
			require.False(t, enough.Load(), "the stolen half ran on and on")
		})
	}
}

// TestTasksAreNotCancelledWithTheCall in whose worker's place they run: the only free worker waits for a
// fork of a cancelled call and lends its place to a worker that runs a task.
func TestTasksAreNotCancelledWithTheCall(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(50) {
		ctx, cancel := context.WithCancelCause(context.Background())
		result := make(chan int, 1)
		release := make(chan struct{})
		failed := make(chan error)
		require.NoError(t, p.Go(func(w *Worker) {
			failed <- w.With(ctx).Run(func(w *Worker) {
				stolenJoin(w,
					func(w *Worker) int {
						_ = p.Go(func(w *Worker) {
							cancel(errStop)
							for cancelledCalls(w.pool) == 0 {
								runtime.Gosched()
							}
							x, err := forkFib.Run(w, 10)
							g := newGroup(p)
							g.GoWorker(func(w *Worker) error { x += fib(w, 10); return nil })
							if err := errors.Join(err, g.Wait()); err != nil {
								t.Error(err)
							}
							result <- x
							close(release)
						})
						return 0
					},
					func(*Worker) int { <-release; return 0 })
				fib(w, 3)
			})
		}))
		require.Equal(t, 2*serialFib(10), <-result)
		require.ErrorIs(t, <-failed, errStop)
	}
}

// TestScopeOfACancelledCall runs no more children, and ends with the call.
func TestScopeOfACancelledCall(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(100) {
		ctx, cancel := context.WithCancelCause(context.Background())
		var late atomic.Int32
		after := false
		require.ErrorIs(t, p.With(ctx).Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, func(w *Worker) { _, _ = forkFib.Run(w, 60) })
				s.Go(w, func(w *Worker) {
					w.Scope(func(s *Scope) { s.Go(w, func(w *Worker) { fib(w, 60) }) })
				})
				cancel(errStop)
				require.True(t, testutil.Eventually(func() bool { return cancelledCalls(p) > 0 }))
				s.Go(w, func(*Worker) { late.Add(1) })
			})
			after = true
		}), errStop)
		require.False(t, after)
		require.Zero(t, late.Load())
		requireAtRest(t, p)
	}
}

// TestFramesKeepTheirCall interleaves by hand: frames of an outer call are made public inside an inner one,
// which took a frame of its own back meanwhile. When the inner call is cancelled, a thief that runs the
// frames must not take them for frames of the inner call.
func TestFramesKeepTheirCall(t *testing.T) {
	w := loneWorker(&Pool{ticks: periods{giveWay: math.MaxInt64}})
	thief := loneWorker(w.pool)
	hungry := func(yes bool) {
		setState(w, map[bool]policy.State{true: policy.OneSearching}[yes])
	}
	s := stackOf[Fork[int, int]](w)
	const depth = 3 * policy.AlwaysPublic
	ctx, cancel := context.WithCancelCause(context.Background())
	var innerErr error
	var r *Recursion[int, int]
	r = Recursive(func(f *Fork[int, int], n int) int {
		switch {
		case n == 0:
			return 1
		case n <= depth:
			x, y := f.Join(n+1, 0)
			return x + y
		case n == depth+1:
			_, innerErr = r.Run(w.With(ctx), depth+2)
		case n == depth+2:
			hungry(true)
			f.Join(depth+3, 0)
			hungry(true)
			f.Join(depth+4, 0)
		case n == depth+3:
			hungry(false)
		case n == depth+4:
			cancel(errStop)
			require.True(t, testutil.Eventually(func() bool { return cancelledCalls(w.pool) > 0 }))
			for range depth {
				c, _ := s.claim(0)
				s.run(thief, c)
			}
			f.Join(0, 0)
		}
		return 1
	})
	sum := 0
	require.Nil(t, testutil.Caught(func() { sum = r.Call(w, 1) }), "the outer call was not cancelled")
	require.ErrorIs(t, innerErr, errStop)
	require.Equal(t, depth+1, sum)
}

// TestInnerCallsOfABusyPool is the same in the large: inner calls are cancelled all the
// time while the frames of the outer call are stolen.
func TestInnerCallsOfABusyPool(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	grow := Recursive(func(f *Fork[int, int], n int) int {
		if n == 0 {
			return 1
		}
		if n == 2 || n == 5 {
			ctx, cancel := context.WithCancel(context.Background())
			_, err := steps.Run(f.Worker().With(ctx), func(s *Fork[step, any]) any {
				if n == 2 {
					cancel()
				}
				forkFib.Call(s.Worker(), 10)
				return nil
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			cancel()
			if n == 2 {
				return 1
			}
		}
		x, y := f.Join(n-1, n-1)
		return x + y
	})
	for range testutil.Stress(50) {
		var got int
		var err error
		require.Nil(t, testutil.Caught(func() { got, err = grow.Run(p, 10) }))
		require.NoError(t, err)
		require.Equal(t, 1<<8, got)
		requireAtRest(t, p)
	}
}

func TestDeadlinesOfManyCalls(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	testutil.Together(12, func(who int) {
		for i := range testutil.Stress(100) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%20)*20*time.Microsecond)
			got, err := forkFib.Run(p.With(ctx), 16)
			if err == nil && got != serialFib(16) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(got, err)
			}
			cancel()
			if got, err := forkFib.Run(p, 10); err != nil || got != serialFib(10) {
				t.Error(got, err)
			}
		}
	})()
	requireAtRest(t, p)
	require.Equal(t, policy.State(p.Workers())*policy.OneSleeper, p.core.Sleep.Load())
}

// TestCallsLeaveNothingBehind: no goroutine, nothing that waits for the context, no count.
func TestCallsLeaveNothingBehind(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	shared, stop := context.WithCancel(context.Background())
	requireAtRest(t, p)
	workers := func() (n int) {
		p.workers.each(func(w *Worker) {
			if !w.core.Guest {
				n++
			}
		})
		return n
	}
	before := runtime.NumGoroutine() - workers()
	for i := range testutil.Stress(5000) {
		require.NoError(t, p.With(shared).Run(func(w *Worker) { fib(w, 3) }))
		ctx, cancel := context.WithCancel(shared)
		if i%2 == 0 {
			cancel()
		}
		_ = p.With(ctx).Run(func(w *Worker) { cancel(); fib(w, 3) })
		cancel()
	}
	require.True(t, testutil.Eventually(func() bool {
		pools := 0
		if p.network.Load() != nil { // it has a goroutine until it ends
			pools++
		}
		return runtime.NumGoroutine()-workers()-pools <= before
	}))
	requireAtRest(t, p)
	require.Equal(t, policy.State(p.Workers())*policy.OneSleeper, p.core.Sleep.Load())
	stop()
	runtime.Gosched()
	requireAtRest(t, p)
	require.Equal(t, policy.State(p.Workers())*policy.OneSleeper, p.core.Sleep.Load())
}

// TestWithCancelEndsCallsWithTheErrorThatItIsGiven, at each kind of place. Its context ends with that of the
// place.
func TestWithCancelEndsCallsWithTheErrorThatItIsGiven(t *testing.T) {
	boom := errors.New("boom")
	p := newPool(t, WithWorkers(2))
	ends := func(at Place) {
		inner, ctx, cancel := cancellable(at)
		defer cancel(nil)
		require.NoError(t, ForRange(inner, 10, func(int, int) {}))
		require.NoError(t, ctx.Err())
		var calls atomic.Int64
		require.ErrorIs(t, ForRange(inner, math.MaxInt, func(int, int) { // does not end otherwise
			if calls.Add(1) == 1 {
				cancel(boom)
			}
		}, Grain(1)), boom)
		require.ErrorIs(t, context.Cause(ctx), boom)
		require.NoError(t, ForRange(at, 10, func(int, int) {}), "the place around it goes on")
	}
	ends(p)
	ends(p.With(t.Context()))
	require.NoError(t, p.Run(func(w *Worker) {
		ends(w)
		ends(w.With(t.Context()))
	}))

	type key struct{}
	around, stop := context.WithCancelCause(context.WithValue(t.Context(), key{}, 7))
	require.ErrorIs(t, p.With(around).Run(func(w *Worker) {
		inner, ctx, cancel := cancellable(w) // its context is derived from that of the call
		defer cancel(nil)
		require.Equal(t, 7, ctx.Value(key{}))
		stop(boom)
		<-ctx.Done()
		_ = ForRange(inner, 10, func(int, int) {})
		t.Error("the call around did not unwind")
	}), boom)

	for _, at := range []Place{(*Pool)(nil), (*Worker)(nil), (*View)(nil)} {
		inner, ctx, cancel := cancellable(at)
		require.NoError(t, ctx.Err())
		require.ErrorContains(t, ForRange(inner, 1, func(int, int) {}), "nil")
		cancel(nil)
	}
}

// blockingCalls are the calls at a place whose functions get a worker, each with functions functions.
const functions = 3

var blockingCalls = map[string]func(at Place, f func(w *Worker)) error{
	"Run": func(at Place, f func(w *Worker)) error {
		return Do(at, func(w *Worker) {
			for range functions {
				if err := w.With(context.Background()).Run(f); err != nil {
					panic(err) // its own context has not ended
				}
			}
		})
	},
	"Do": func(at Place, f func(w *Worker)) error { return Do(at, f, f, f) },
	"Do in Do": func(at Place, f func(w *Worker)) error {
		return Do(at, f, func(w *Worker) {
			if err := Do(w, f, f); err != nil {
				panic(err) // it belongs to the call around it, which has the context
			}
		})
	},
	"Join": func(at Place, f func(w *Worker)) error {
		return Do(at, func(w *Worker) {
			both(w, func(w *Worker) int { f(w); f(w); return 0 }, func(w *Worker) int { f(w); return 0 })
		})
	},
	"Scope": func(at Place, f func(w *Worker)) error {
		return Do(at, func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, f)
				s.Go(w, func(w *Worker) { s.Go(w, f) })
				f(w)
			})
		})
	},
	"Uncancelled": func(at Place, f func(w *Worker)) error {
		return Do(at, func(w *Worker) {
			for range functions {
				w.Uncancelled(func(cancelled func() bool) { f(w); cancelled() })
			}
		})
	},
	"Call": func(at Place, f func(w *Worker)) error {
		return Do(at, func(w *Worker) {
			call := w.Call()
			for range functions {
				// Code of the caller, in a call of its own, as a sequence that yields from there.
				if err := Do(w.Pool(), func(w *Worker) { f(w); call.Cancelled() }); err != nil {
					panic(err)
				}
			}
		})
	},
	"ForRange": func(at Place, f func(w *Worker)) error {
		return ForRange(at, functions, func(w *Worker, lo, hi int) {
			for range hi - lo {
				f(w)
			}
		})
	},
	"ForRange with a grain": func(at Place, f func(w *Worker)) error {
		return ForRange(at, functions, func(w *Worker, _, _ int) { f(w) }, Grain(1))
	},
	"ForRange by one": func(at Place, f func(w *Worker)) error {
		return ForRange(at, functions, func(w *Worker, lo, hi int) {
			for range hi - lo {
				f(w)
			}
		}, Granularity{}.AtMost(1))
	},
	"Recursion": func(at Place, f func(w *Worker)) error {
		_, err := Recursive(func(fork *Fork[int, int], n int) int {
			if n > 1 {
				fork.Join(1, n-1)
			} else {
				f(fork.Worker())
			}
			return 0
		}).Run(at, functions)
		return err
	},
}

// placesOf are the kinds of places with a context.
var placesOf = map[string]func(p *Pool, ctx context.Context, call func(at Place) error) error{
	"pool": func(p *Pool, ctx context.Context, call func(at Place) error) error { return call(p.With(ctx)) },
	"guest": func(p *Pool, ctx context.Context, call func(at Place) error) (err error) {
		_ = p.Run(func(w *Worker) { err = call(w.With(ctx)) })
		return err
	},
	"task": func(p *Pool, ctx context.Context, call func(at Place) error) error {
		_, err := Async(p, func(w *Worker) (int, error) { return 0, call(w.With(ctx)) }).Wait(context.Background())
		return err
	},
	"call": func(p *Pool, ctx context.Context, call func(at Place) error) error {
		return p.With(ctx).Run(func(w *Worker) {
			if err := call(w); err != nil {
				panic(err) // it belongs to the call around it, which has the context
			}
		})
	},
	"serial": func(_ *Pool, ctx context.Context, call func(at Place) error) error { return call(Serial().With(ctx)) },
}

func forBlockingCalls(t *testing.T, test func(t *testing.T, call func(ctx context.Context, f func(w *Worker)) error)) {
	for _, workers := range []int{1, 3} {
		p := newPool(t, WithWorkers(workers))
		for where, place := range placesOf {
			for name, call := range blockingCalls {
				t.Run(fmt.Sprintf("%s/%s/%d", name, where, workers), func(t *testing.T) {
					for range testutil.Stress(50) {
						test(t, func(ctx context.Context, f func(w *Worker)) error {
							return place(p, ctx, func(at Place) error { return call(at, f) })
						})
					}
					requireAtRest(t, p)
				})
			}
		}
	}
}

// TestACallWhoseFunctionWasToldToStopReturnsTheCause: what the function has left out must not look as if it were there.
func TestACallWhoseFunctionWasToldToStopReturnsTheCause(t *testing.T) {
	forBlockingCalls(t, func(t *testing.T, call func(context.Context, func(*Worker)) error) {
		for first := range functions {
			ctx, cancel := context.WithCancelCause(t.Context())
			var begun atomic.Int64
			require.ErrorIs(t, call(ctx, func(w *Worker) {
				if begun.Add(1) > int64(first) {
					cancel(errStop)
				}
				w.Cancelled()
			}), errStop)
		}
	})
}

// TestACallWhoseFunctionsWereNotToldToStopIsWhole, and returns no error, though its context has ended meanwhile.
func TestACallWhoseFunctionsWereNotToldToStopIsWhole(t *testing.T) {
	forBlockingCalls(t, func(t *testing.T, call func(context.Context, func(*Worker)) error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var begun atomic.Int64
		err := call(ctx, func(*Worker) {
			if begun.Add(1) == functions { // nothing begins after it
				cancel(errStop)
			}
		})
		if strings.Contains(t.Name(), "Uncancelled") || strings.Contains(t.Name(), "Call/") { // they ask once more
			require.ErrorIs(t, err, errStop)
		} else {
			require.NoError(t, err)
		}
	})
}

func TestACancelledCallThatGoesOnLeavesOthersAlone(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	in, release := make(chan struct{}), make(chan struct{})
	ended := testutil.Together(1, func(int) {
		_ = p.With(ctx).Run(func(w *Worker) {
			fib(w, 2) // from now on it watches
			close(in)
			<-release
		})
	})
	<-in
	cancel()
	require.True(t, testutil.Eventually(func() bool { return p.Stats().Cancelled == 1 }))
	require.NoError(t, p.Run(func(w *Worker) {
		require.True(t, testutil.Eventually(func() bool { // the worker may still search
			fib(w, 12) // answers the alarm
			alarms := 0
			for _, s := range w.stacks {
				if s.(*frames[application[int, int], int]).slow.Load() == alarmed {
					alarms++
				}
			}
			return alarms == 0 && !p.core.Sleep.Hungry()
		}))
	}))
	close(release)
	ended()
	require.Zero(t, p.Stats().Cancelled)
}

// TestALoopSeesItsContextWhileNobodyElseCan, because the context's goroutine gets no P.
func TestALoopSeesItsContextWhileNobodyElseCan(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(20*time.Millisecond))
	defer cancel()
	require.ErrorIs(t, For(p.With(ctx), math.MaxInt, func(int) { work(100) }), context.DeadlineExceeded)
}

// countingContext counts the waits for its end, by context.AfterFunc or by a context derived from it.
type countingContext struct {
	context.Context
	registered atomic.Int64
}

func (c *countingContext) AfterFunc(func()) (stop func() bool) {
	c.registered.Add(1)
	var once sync.Once
	return func() (first bool) {
		once.Do(func() { first = true; c.registered.Add(-1) })
		return first
	}
}

// Value hides the standard library's context, to which others would be attached without AfterFunc.
func (c *countingContext) Value(any) any { return nil }

// TestNothingPilesUpAtAContextThatLivesOn: a server may use one context for all of its life.
func TestNothingPilesUpAtAContextThatLivesOn(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := &countingContext{Context: ended}
	p := newPool(t, WithWorkers(2), WithQueueBound(4))
	for range testutil.Stress(200) {
		n, err := Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, p.Submit(ctx, func(*Worker) {}))
		require.NoError(t, For(p.With(ctx), 100, func(int) { work(10) }))
		require.NoError(t, p.With(ctx).Run(func(w *Worker) { fib(w, 5) }))
		g, _ := NewGroup(p.With(ctx))
		g.Go(func() error { return nil })
		require.NoError(t, g.Wait())
		require.NoError(t, p.Pause(ctx))
		p.Resume()
	}
	requireAtRest(t, p)
	require.NoError(t, p.Shutdown(ctx))
	require.Zero(t, ctx.registered.Load())
}

// TestGoexitIsNotLostWhereItsCallIsCancelled: the function that calls runtime.Goexit, often a thief's, ends the context first, so that whoever
// waits for it may unwind. The caller's goroutine must end all the same.
func TestGoexitIsNotLostWhereItsCallIsCancelled(t *testing.T) {
	const n = 20
	forms := map[string]func(at Place, item func()) error{
		"loop": func(at Place, item func()) error { return ForRange(at, n, func(int, int) { item() }, Grain(1)) },
		"do": func(at Place, item func()) error {
			return Do(at, slices.Repeat([]func(*Worker){func(*Worker) { item() }}, n)...)
		},
		"forks": func(at Place, item func()) error {
			return at.With(at.Context()).Run(func(w *Worker) { leaves(w, n, item) })
		},
		"scope": func(at Place, item func()) error {
			return at.With(at.Context()).Run(func(w *Worker) {
				w.Scope(func(s *Scope) {
					for range n {
						s.Go(w, func(w *Worker) { item(); w.Checkpoint() })
					}
				})
			})
		},
	}
	p := newPool(t, WithWorkers(5))
	for name, form := range forms {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s nested %t", name, nested), func(t *testing.T) {
				for range testutil.Stress(200) {
					ctx, cancel := context.WithCancel(context.Background())
					inner := context.Background()
					if !nested {
						inner = ctx
					}
					var begun atomic.Int32
					item := func() {
						if begun.Add(1) == 3 {
							cancel()
							runtime.Goexit()
						}
						for start := time.Now(); time.Since(start) < 20*time.Microsecond; {
						}
					}
					exited := true
					require.True(t, testutil.Returns(func() {
						if nested {
							_ = p.With(ctx).Run(func(w *Worker) { _ = form(w.With(inner), item) })
						} else {
							_ = form(p.With(inner), item)
						}
						exited = begun.Load() < 3
					}))
					require.True(t, exited)
				}
				requireAtRest(t, p)
			})
		}
	}
}

// TestWhatAnInnerCallKeepsIsPassedOn to the call around it, if that one ends while the inner one unwinds.
func TestWhatAnInnerCallKeepsIsPassedOn(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(50) {
		outer, endOuter := context.WithCancel(context.Background())
		inner, endInner := context.WithCancel(context.Background())
		var stolen atomic.Bool
		exited := true
		require.True(t, testutil.Returns(func() {
			_ = p.With(outer).Run(func(w *Worker) {
				_ = w.With(inner).Run(func(w *Worker) {
					defer endOuter()
					w.Do(func(w *Worker) {
						for ; !stolen.Load() || !w.Cancelled(); runtime.Gosched() {
						}
						w.Checkpoint()
					}, func(*Worker) {
						stolen.Store(true)
						endInner()
						runtime.Goexit()
					})
				})
			})
			exited = false
		}))
		require.True(t, exited)
	}
	requireAtRest(t, p)
}

// leaves calls f n times, in a tree of forks.
func leaves(w *Worker, n int, f func()) {
	if n == 1 {
		f()
		return
	}
	w.Do(func(w *Worker) { leaves(w, n/2, f) }, func(w *Worker) { leaves(w, n-n/2, f) })
}

// unannounced is a context that has ended once its Err says so, but of whose end nothing tells the pool.
type unannounced struct {
	context.Context
	over atomic.Bool
}

func (c *unannounced) Done() <-chan struct{} { return make(chan struct{}) }

func (c *unannounced) Err() error {
	if c.over.Load() {
		return errStop
	}
	return nil
}

// TestEachLoopLooksAtItsContext: the goroutine that would mark the call as cancelled may wait for a P.
func TestEachLoopLooksAtItsContext(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, how := range map[string]Granularity{"measured": {}, "grain": Grain(1), "chunks": Chunks(1000), "limited": Grain(1).AtMost(1)} {
		ctx := &unannounced{Context: t.Context()}
		const n = 10_000
		var done atomic.Int64
		err := ForRange(p.With(ctx), n, func(lo, hi int) {
			for range hi - lo {
				for start := time.Now(); time.Since(start) < lookPeriod/50; {
				}
			}
			if done.Add(int64(hi-lo)) > 100 {
				ctx.over.Store(true)
			}
		}, how)
		require.ErrorIs(t, err, errStop, name)
		require.Less(t, done.Load(), int64(n), name)
	}
}
