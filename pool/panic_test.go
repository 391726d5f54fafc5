package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/internal/testutil"
)

// explode is a function to look for in stacks.
//
//go:noinline
func explode(v any) int { panic(v) }

func nop[X any](*Worker) (zero X) { return zero }

func TestPanicOfTheFirstFunctionArrivesAsItIs(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	boom := errors.New("boom")
	for range testutil.Stress(200) {
		require.NoError(t, p.Run(func(w *Worker) {
			require.Same(t, boom, testutil.Caught(func() {
				Join(w, func(*Worker, int) int { return explode(boom) }, 0, func(*Worker, int) int { return 0 }, 0)
			}))
		}))
	}
}

func TestPanicInAForkThatWasTakenBackArrivesAsItIs(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	boom := errors.New("boom")
	require.NoError(t, p.Run(func(w *Worker) {
		require.Same(t, boom, testutil.Caught(func() {
			Join(w, func(*Worker, int) int { return 0 }, 0, func(*Worker, int) int { return explode(boom) }, 0)
		}))
		require.Equal(t, serialFib(12), fib(w, 12))
	}))
}

func TestPanicInAStolenForkArrivesWithItsValueAndItsStack(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	boom := fmt.Errorf("boom: %w", io.EOF)
	for range testutil.Stress(100) {
		require.NoError(t, p.Run(func(w *Worker) {
			v := testutil.Caught(func() {
				stolenJoin(w, nop[int], func(*Worker) int { return explode(boom) })
			})
			e, ok := v.(*PanicError)
			require.True(t, ok, "%T", v)
			require.Same(t, boom, e.Value)
			require.Contains(t, string(e.Stack), "pool.explode(")
			require.Contains(t, string(e.Stack), "panic_test.go:")
			require.ErrorIs(t, e, io.EOF)
			require.True(t, strings.HasPrefix(e.Error(), "boom: EOF\n"), e.Error())
			require.Contains(t, e.Error(), "pool.explode(")
			require.Equal(t, serialFib(12), fib(w, 12))
		}))
	}
}

func TestPanicErrorUnwrapsErrorsOnly(t *testing.T) {
	require.NoError(t, errors.Unwrap(&PanicError{Value: "text"}))
	require.NoError(t, errors.Unwrap(&PanicError{}))
	require.Same(t, io.EOF, errors.Unwrap(&PanicError{Value: io.EOF}))
	require.Equal(t, "42\n\nstack", (&PanicError{Value: 42, Stack: []byte("stack")}).Error())
}

func TestOfTwoPanicsThatOfTheFirstFunctionArrives(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		ended := false
		require.NoError(t, p.Run(func(w *Worker) {
			require.Equal(t, "f", testutil.Caught(func() {
				stolenJoin(w,
					func(*Worker) int { return explode("f") },
					func(*Worker) int {
						defer func() { ended = true }()
						return explode("g")
					})
			}))
			require.Equal(t, serialFib(12), fib(w, 12))
		}))
		require.True(t, ended, "Run left the fork behind")
	}
}

// TestPanicNilArrives wherever it happens, and whatever GODEBUG says of it.
func TestPanicNilArrives(t *testing.T) {
	for _, setting := range []string{"panicnil=0", "panicnil=1"} {
		t.Setenv("GODEBUG", setting)
		var handled atomic.Pointer[PanicError]
		p := newPool(t, WithWorkers(3), WithPanicHandler(func(e *PanicError) { handled.Store(e) }))
		boom := func(*Worker) { explode(nil) }
		idle := func(*Worker) {}
		ctx, cancel := context.WithCancel(t.Context())
		for name, call := range map[string]func(){
			"Run":            func() { _ = p.Run(boom) },
			"Run in a place": func() { _ = p.With(ctx).Run(boom) },
			"Do":             func() { _ = Do(p, boom) },
			"Do, the second": func() { _ = Do(p, idle, boom) },
			"Worker.Do":      func() { _ = p.Run(func(w *Worker) { w.Do(idle, boom) }) },
			"Join":           func() { _ = p.Run(func(w *Worker) { both(w, nop[int], func(*Worker) int { return explode(nil) }) }) },
			"stolen": func() {
				_ = p.Run(func(w *Worker) { stolenJoin(w, nop[int], func(*Worker) int { return explode(nil) }) })
			},
			"Scope": func() { _ = p.Run(func(w *Worker) { w.Scope(func(s *Scope) { s.Go(w, boom) }) }) },
			"stolen child": func() {
				_ = p.Run(func(w *Worker) {
					w.Scope(func(s *Scope) {
						begun := make(chan struct{})
						s.Go(w, func(*Worker) { close(begun); explode(nil) })
						<-begun
					})
				})
			},
			"short loop": func() { _ = ForRange(p, 1, func(int, int) { explode(nil) }) },
			"loop": func() {
				_ = ForRange(p, 1<<20, func(lo, hi int) {
					if work(20 * (hi - lo)); hi > 1<<19 {
						explode(nil)
					}
				})
			},
			"loop with a grain": func() { _ = ForRange(p, 100, func(w *Worker, lo, hi int) { explode(nil) }, Grain(1)) },
			"Recursion": func() {
				_, _ = Recursive(func(f *Fork[int, int], n int) int {
					if n == 0 {
						return explode(nil)
					}
					x, y := f.Join(n-1, n-1)
					return x + y
				}).Run(p, 5)
			},
			"Future": func() {
				_, _ = Async(p, func(*Worker) (int, error) { return explode(nil), nil }).Wait(ctx)
			},
			"Future in place": func() {
				_ = p.Run(func(*Worker) {
					_, _ = Async(p, func(*Worker) (int, error) { return explode(nil), nil }).Wait(context.Background())
				})
			},
			"Group": func() {
				g := newGroup(p)
				g.Go(func() error { explode(nil); return nil })
				_ = g.Wait()
			},
			"Broadcast": func() { _ = p.Broadcast(ctx, func(*Worker) error { explode(nil); return nil }) },
			"First": func() {
				_, _ = First(p.With(ctx), func(context.Context, *Worker) (int, error) { return explode(nil), nil })
			},
			"Go": func() {
				handled.Store(nil)
				require.NoError(t, p.Go(boom))
				require.True(t, testutil.Eventually(func() bool { return handled.Load() != nil }))
				panic(handled.Load())
			},
		} {
			var v any
			require.True(t, testutil.Returns(func() { v = caught(call) }), "%s, %s: it hangs, or its goroutine ends", setting, name)
			err, _ := v.(error)
			require.ErrorAs(t, err, new(*runtime.PanicNilError), "%s, %s: %v", setting, name, v)
			requireAtRest(t, p)
		}
		cancel()
	}
}

// caught is testutil.Caught for a panic that may be nil.
func caught(f func()) (v any) {
	returned := false
	defer func() {
		if !returned {
			v = panics.Recovered(recover())
		}
	}()
	f()
	returned = true
	return nil
}

// TestAPanicNilOfAHandlerEndsTheProcess, as any other panic of it does.
func TestAPanicNilOfAHandlerEndsTheProcess(t *testing.T) {
	if inChild() {
		p, err := New(WithWorkers(1), WithPanicHandler(func(*PanicError) { panic(nil) }))
		require.NoError(t, err)
		require.NoError(t, p.Go(func(*Worker) { explode("boom") }))
		time.Sleep(testutil.Patience)
		return
	}
	output, err := child(t, "GODEBUG=panicnil=1")
	require.Error(t, err)
	require.Contains(t, output, "panic called with nil argument")
}

// TestPanicKeepsItsFirstStack on its way from thief to thief.
func TestPanicKeepsItsFirstStack(t *testing.T) {
	const steals = 4
	p := newPool(t, WithWorkers(steals+1))
	var relay func(w *Worker, n int) int
	relay = func(w *Worker, n int) int {
		if n == 0 {
			return explode("at the end")
		}
		_, y := stolenJoin(w, nop[int], func(w *Worker) int { return relay(w, n-1) })
		return y
	}
	require.NoError(t, p.Run(func(w *Worker) {
		e, ok := testutil.Caught(func() { relay(w, steals) }).(*PanicError)
		require.True(t, ok)
		require.Equal(t, "at the end", e.Value)
		require.Contains(t, string(e.Stack), "pool.explode(")
	}))
}

// TestAPanicErrorHasTheStackOfThePanic, not that of where it arrives, whatever it comes from.
func TestAPanicErrorHasTheStackOfThePanic(t *testing.T) {
	handled := make(chan *PanicError, 1)
	p := newPool(t, WithWorkers(2), WithPanicHandler(func(e *PanicError) { handled <- e }))
	loop := func(at Place) { _ = ForRange(at, 2, func(w *Worker, lo, hi int) { explode("in a loop") }, Grain(1)) }
	for name, f := range map[string]func(){
		"a loop of the caller":       func() { loop(p) },
		"a short loop of the caller": func() { _ = ForRange(p, 1, func(lo, hi int) { explode("in a loop") }) },
		"a loop in a stolen fork": func() {
			_ = p.Run(func(w *Worker) { stolenJoin(w, nop[int], func(w *Worker) int { loop(w); return 0 }) })
		},
		"a child": func() {
			_ = p.Run(func(w *Worker) {
				w.Scope(func(s *Scope) {
					stolen := make(chan struct{})
					s.Go(w, func(w *Worker) { close(stolen); explode("in a child") })
					<-stolen
				})
			})
		},
		"a group": func() {
			g := newGroup(p)
			g.Go(func() error { explode("in a group"); return nil })
			_ = g.Wait()
		},
		"a future": func() {
			_, _ = Async(p, func(*Worker) (int, error) { return explode("in a future"), nil }).Wait(context.Background())
		},
		"a task": func() {
			require.NoError(t, p.Go(func(*Worker) { explode("in a task") }))
			panic(<-handled)
		},
	} {
		e, ok := testutil.Caught(f).(*PanicError)
		require.True(t, ok, name)
		require.Contains(t, string(e.Stack), "pool.explode(", name)
		require.Contains(t, e.Value, "in a ", name)
	}
}

func TestPanicInDoArrivesWhenNoFunctionRunsAnyMore(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for round := range testutil.Stress(200) {
		const n = 6
		culprit := round % n
		var running atomic.Int32
		var began [n]atomic.Int32
		fs := make([]func(*Worker), n)
		for i := range fs {
			fs[i] = func(w *Worker) {
				running.Add(1)
				defer running.Add(-1)
				began[i].Add(1)
				fib(w, 8)
				if i == culprit {
					explode(i)
				}
			}
		}
		require.NoError(t, p.Run(func(w *Worker) {
			v := testutil.Caught(func() { w.Do(fs...) })
			if e, ok := v.(*PanicError); ok {
				v = e.Value
			}
			require.Equal(t, culprit, v)
			require.Zero(t, running.Load())
		}))
		for i := range began {
			require.LessOrEqual(t, began[i].Load(), int32(1))
		}
	}
}

func TestPanicLeavesRunAndFreesTheSlot(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for i := range 4 * p.Slots() {
		require.Equal(t, i, testutil.Caught(func() {
			_ = p.Run(func(w *Worker) {
				Join(w,
					func(w *Worker, _ int) int { return w.ID() }, 0,
					func(w *Worker, _ int) int { return fib(w, 5) }, 0)
				explode(i)
			})
		}))
	}
	requireAtRest(t, p)
}

func TestPanicOfADetachedTaskEndsTheProcess(t *testing.T) {
	if inChild() {
		p := newPool(t, WithWorkers(2))
		require.NoError(t, p.Go(func(*Worker) { explode("nobody waits for this") }))
		select {}
	}
	output, err := child(t)
	require.Error(t, err)
	require.Contains(t, output, "panic: nobody waits for this")
	require.Contains(t, output, "pool.explode(")
}

// TestPanicOfADetachedTaskIsNotTheAffairOfWhoeverRanIt: the panic of a detached task must not reach
// a task that is in Group.Wait meanwhile.
func TestPanicOfADetachedTaskIsNotTheAffairOfWhoeverRanIt(t *testing.T) {
	if inChild() {
		p := newPool(t, WithWorkers(1))
		g := newGroup(p)
		g.GoWorker(func(w *Worker) error {
			defer func() {
				if v := recover(); v != nil {
					fmt.Println("recovered by a task that had nothing to do with it")
					os.Exit(0)
				}
			}()
			inner := newGroup(p)
			require.NoError(t, w.Go(func(*Worker) { explode("nobody waits for this") }))
			inner.Go(func() error { return nil })
			return inner.Wait()
		})
		_ = g.Wait()
		require.True(t, whenParked(p))
		os.Exit(0)
	}
	output, err := child(t)
	require.Error(t, err, output)
	require.Contains(t, output, "nobody waits for this")
	require.Contains(t, output, "pool.explode(")
}

// # Orphans
//
// A panic in the first function of a join leaves the second one behind.

func TestOrphanThatNobodyStoleNeverRuns(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	var ran atomic.Bool
	abandon := func(w *Worker) {
		Join(w, func(*Worker, int) int { return explode("f") }, 0,
			func(*Worker, int) int { ran.Store(true); return 0 }, 0)
	}
	require.Equal(t, "f", testutil.Caught(func() { _ = p.Run(abandon) }))
	require.NoError(t, p.Run(func(w *Worker) {
		require.Equal(t, "f", testutil.Caught(func() { abandon(w) }))
	}))
	require.NoError(t, p.Run(func(w *Worker) {
		x, y := Join(w, func(w *Worker, n int) int {
			require.Equal(t, "f", testutil.Caught(func() { abandon(w) }))
			return n
		}, 1, func(_ *Worker, n int) int { return n }, 2)
		require.Equal(t, []int{1, 2}, []int{x, y})
		require.Zero(t, applications[int, int](w).depth(), "the enclosing join takes the orphan back")
		require.Equal(t, serialFib(12), fib(w, 12))
	}))
	requireAtRest(t, p)
	require.False(t, ran.Load())
}

// abandon leaves an orphan behind that was stolen and runs until release is closed.
// Both functions say when they are gone.
func abandon(w *Worker, release <-chan struct{}, running *atomic.Int32) {
	_ = testutil.Caught(func() {
		stolenJoin(w,
			func(*Worker) int { return explode("f") },
			func(*Worker) int {
				running.Add(1)
				defer running.Add(-1)
				<-release
				return 1000
			})
	})
}

// later closes a channel after a moment in which a mistake could show.
func later() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		for range 100 {
			runtime.Gosched()
		}
		close(c)
	}()
	return c
}

func TestOrphanIsWaitedForBeforeRunReturns(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(300) {
		var running atomic.Int32
		require.NoError(t, p.Run(func(w *Worker) {
			abandon(w, later(), &running)
			abandon(w, later(), &running)
		}))
		require.Zero(t, running.Load())

		left := make(chan int32)
		require.NoError(t, p.Go(func(*Worker) { // as a guest inside a task
			_ = p.Run(func(w *Worker) { abandon(w, later(), &running) })
			left <- running.Load()
		}))
		require.Zero(t, <-left)
	}
}

func TestOrphanIsWaitedForAtTheEnclosingJoin(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(300) {
		require.NoError(t, p.Run(func(w *Worker) {
			var running atomic.Int32
			_, y := stolenJoin(w,
				func(w *Worker) int {
					abandon(w, later(), &running)
					abandon(w, later(), &running)
					return 1
				},
				func(*Worker) int { return 2 })
			require.Equal(t, 2, y)
			require.Zero(t, running.Load())
		}))
	}
}

// TestOrphanEndsWithItsTask, which recovers the panic itself and returns.
func TestOrphanEndsWithItsTask(t *testing.T) {
	t.Run("not stolen", func(t *testing.T) {
		p := newPool(t, WithWorkers(1))
		for range 100 {
			var over, late atomic.Bool
			noticed := p.Stats().Noticed
			require.NoError(t, p.Go(func(w *Worker) {
				_ = w.Go(func(*Worker) { over.Store(true) })
				_ = testutil.Caught(func() {
					Join(w, func(*Worker, int) int { return explode("f") }, 0,
						func(*Worker, int) int { late.Store(over.Load()); return 0 }, 0)
				})
			}))
			require.True(t, testutil.Eventually(over.Load))
			require.True(t, whenParked(p))
			if p.Stats().Noticed == noticed { // else over is set beside a task that waits, for the collector
				require.False(t, late.Load(), "the orphan ran after its task had ended")
			}
		}
	})
	t.Run("stolen", func(t *testing.T) {
		p := newPool(t, WithWorkers(4))
		for range testutil.Stress(200) {
			var running atomic.Int32
			result := make(chan int)
			require.NoError(t, p.Go(func(w *Worker) {
				abandon(w, later(), &running)
				abandon(w, later(), &running)
				_ = w.Go(func(w *Worker) { result <- fib(w, 10) })
			}))
			require.Equal(t, serialFib(10), <-result)
		}
	})
}

// TestOrphanEndsWithItsGroupFunction, which panics, or recovers the panic itself.
func TestOrphanEndsWithItsGroupFunction(t *testing.T) {
	t.Run("not stolen", func(t *testing.T) {
		p := newPool(t, WithWorkers(1))
		for round := range 100 {
			var over, late atomic.Bool
			g := newGroup(p)
			g.GoWorker(func(w *Worker) error {
				if round%2 == 0 {
					defer func() { _ = recover() }()
				}
				Join(w, func(*Worker, int) int { return explode("f") }, 0,
					func(*Worker, int) int { late.Store(over.Load()); return 0 }, 0)
				return nil
			})
			_ = testutil.Caught(func() { _ = g.Wait() })
			over.Store(true)
			require.True(t, whenParked(p))
			require.False(t, late.Load(), "the orphan ran after Wait had returned")
		}
	})
	t.Run("stolen", func(t *testing.T) {
		p := newPool(t, WithWorkers(4))
		for round := range testutil.Stress(200) {
			var running atomic.Int32
			g := newGroup(p)
			g.GoWorker(func(w *Worker) error {
				abandon(w, later(), &running)
				if round%2 == 0 {
					explode("again")
				}
				return nil
			})
			_ = testutil.Caught(func() { _ = g.Wait() })
			require.Zero(t, running.Load(), "Wait returned while an orphan ran")
		}
	})
}

// TestOrphanEndsWithItsStolenFork, which recovers a panic in a join of its own.
func TestOrphanEndsWithItsStolenFork(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(200) {
		require.NoError(t, p.Run(func(w *Worker) {
			var running atomic.Int32
			_, y := stolenJoin(w, nop[int], func(thief *Worker) int {
				abandon(thief, later(), &running)
				return 2
			})
			require.Zero(t, running.Load(), "the join returned while an orphan ran")
			require.Equal(t, 2, y)
			require.Equal(t, serialFib(10), fib(w, 10))
		}))
	}
}

// TestPanicOfAnOrphanDoesNotComeBack: the panic of an orphan must not be taken for the result of
// the next fork at its depth.
func TestPanicOfAnOrphanDoesNotComeBack(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(100) {
		require.NoError(t, p.Run(func(w *Worker) {
			nested := func(f, g func(*Worker) int) any {
				return testutil.Caught(func() {
					x, y := stolenJoin(w,
						func(w *Worker) int {
							_ = testutil.Caught(func() { stolenJoin(w, f, g) })
							return 1
						},
						func(*Worker) int { return 2 })
					require.Equal(t, []int{1, 2}, []int{x, y})
				})
			}
			require.Nil(t, nested(
				func(*Worker) int { return explode("f") },
				func(*Worker) int { return explode("an orphan") }))
			require.Nil(t, testutil.Caught(func() {
				stolenJoin(w,
					func(w *Worker) int {
						_, y := stolenJoin(w, nop[int], func(*Worker) int { return 3 })
						return y
					},
					nop[int])
			}))
		}))
	}
}

// TestRecoverAndForkOn throws many panics into trees of joins, and recovers them in nodes above,
// which fork on. Each tree's result is known, and none of its functions may run when the tree is
// over.
func TestRecoverAndForkOn(t *testing.T) {
	type branch struct {
		seed  uint32
		depth int
		over  *atomic.Bool // the tree of this branch is over
	}
	var late atomic.Int64
	var grow func(w *Worker, b branch) uint64
	grow = func(w *Worker, b branch) (sum uint64) {
		if b.over.Load() {
			late.Add(1)
		}
		left, right := b.seed*2654435761+1, b.seed*2246822519+3
		if b.depth == 0 {
			if b.seed%5 == 0 {
				panic(b.seed)
			}
			return uint64(b.seed)
		}
		if b.seed%3 == 0 {
			defer func() {
				switch v := recover().(type) {
				case uint32:
					sum = uint64(v)
				case *PanicError:
					sum = uint64(v.Value.(uint32))
				}
			}()
		}
		fork := Join[branch, branch, uint64, uint64]
		if b.seed%7 == 0 {
			fork = func(w *Worker, f func(*Worker, branch) uint64, a branch, g func(*Worker, branch) uint64, b branch) (uint64, uint64) {
				var x, y uint64
				w.Do(func(w *Worker) { x = f(w, a) }, func(w *Worker) { y = g(w, b) })
				return x, y
			}
		}
		x, y := fork(w, grow, branch{left, b.depth - 1, b.over}, grow, branch{right, b.depth - 1, b.over})
		return x*3 + y
	}
	tree := func(w *Worker, seed uint32, depth int) (sum uint64) {
		defer func() {
			if recover() != nil {
				sum = 1
			}
		}()
		return grow(w, branch{seed, depth, new(atomic.Bool)})
	}

	// A pool of one worker steals nothing, and so tells what is right.
	lone := newPool(t, WithWorkers(1))
	requireAtRest(t, lone)
	depth := 9
	for _, workers := range []int{2, 4, 16} {
		p := newPool(t, WithWorkers(workers))
		for seed := range uint32(testutil.Stress(100)) {
			var want, got uint64
			require.NoError(t, lone.Run(func(w *Worker) { want = tree(w, seed, depth) }))

			over := new(atomic.Bool)
			require.NoError(t, p.Run(func(w *Worker) {
				for range 3 { // orphans of the first are there in the second
					_ = testutil.Caught(func() { grow(w, branch{seed, depth, over}) })
				}
				got = tree(w, seed, depth)
			}))
			over.Store(true)
			require.Equal(t, want, got, "seed %d", seed)

			over = new(atomic.Bool)
			task := newGroup(p)
			task.GoWorker(func(w *Worker) error {
				_ = testutil.Caught(func() { grow(w, branch{seed, depth, over}) })
				got = tree(w, seed, depth)
				return nil
			})
			require.NoError(t, task.Wait())
			over.Store(true)
			require.Equal(t, want, got, "seed %d", seed)
		}
		requireAtRest(t, p)
	}
	require.Zero(t, late.Load(), "functions that ran when their tree was over")
}

// # Goexit

func TestGoexitInATaskReplacesTheWorker(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		var deferred atomic.Int64
		n := testutil.Stress(200)
		for range n {
			require.NoError(t, p.Go(func(w *Worker) {
				defer deferred.Add(1)
				fib(w, 5)
				runtime.Goexit()
			}))
		}
		requireAtRest(t, p)
		require.EqualValues(t, n, deferred.Load())

		// All of the workers are there.
		meet := testutil.NewBarrier(workers)
		seen := make([]atomic.Int32, p.Slots())
		g := newGroup(p)
		for range workers {
			g.GoWorker(func(w *Worker) error {
				meet.Wait()
				seen[w.ID()].Add(1)
				return nil
			})
		}
		require.NoError(t, g.Wait())
		total := int32(0)
		for i := range seen {
			require.LessOrEqual(t, seen[i].Load(), int32(1))
			total += seen[i].Load()
		}
		require.EqualValues(t, workers, total)
	}
}

func TestGoexitInAJoinTakesItsForksBack(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		ended := make(chan struct{})
		var running atomic.Int32
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(ended)
			stolenJoin(w,
				func(*Worker) int { runtime.Goexit(); return 0 },
				func(*Worker) int {
					running.Add(1)
					defer running.Add(-1)
					<-later()
					return 0
				})
		}))
		<-ended
		requireAtRest(t, p)
		require.Zero(t, running.Load())
	}
}

func TestGoexitInAStolenForkArrivesAtTheJoin(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		var deferred, after bool
		testutil.Together(1, func(int) {
			_ = p.Run(func(w *Worker) {
				defer func() {
					deferred = true
					require.Nil(t, recover())
				}()
				stolenJoin(w, nop[int], func(*Worker) int { runtime.Goexit(); return 0 })
				after = true
			})
			after = true
		})()
		require.True(t, deferred)
		require.False(t, after)
		require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(10), fib(w, 10)) }))
	}
	requireAtRest(t, p)
}

// TestGoexitWhileForksAreWaitedFor: a worker or guest waits for a stolen fork, and what that fork
// forks ends its goroutine.
func TestGoexitWhileForksAreWaitedFor(t *testing.T) {
	// exiting forks g, which forks a function that calls Goexit. It calls before, and then waits
	// for g when that function can be stolen.
	exiting := func(w *Worker, before func(w *Worker)) {
		begun, forked, stolen := make(gate), make(gate), make(gate)
		Join(w,
			func(w *Worker, _ int) int {
				begun.await()
				before(w)
				forked.await()
				return 0
			}, 0,
			func(w *Worker, _ int) int {
				begun.open()
				Join(w,
					func(*Worker, int) int { forked.open(); stolen.await(); return 0 }, 0,
					func(*Worker, int) int { stolen.open(); runtime.Goexit(); return 0 }, 0)
				return 0
			}, 0)
	}
	for name, before := range map[string]func(w *Worker){
		"in a join":            func(*Worker) {},
		"after another Goexit": nil,
	} {
		job := func(w *Worker) { exiting(w, before) }
		if before == nil {
			job = func(w *Worker) {
				// The waiter is on its way out already.
				defer exiting(w, func(*Worker) {})
				runtime.Goexit()
			}
		}
		t.Run(name+" of a guest", func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			for range testutil.Stress(5) {
				require.True(t, testutil.Returns(func() { _ = p.Run(job) }), "the guest does not leave")
				requireAtRest(t, p)
			}
		})
		t.Run(name+" of a task", func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			for range testutil.Stress(5) {
				require.NoError(t, p.Go(job))
				requireAtRest(t, p)
			}
		})
		t.Run(name+" of a stolen fork", func(t *testing.T) {
			p := newPool(t, WithWorkers(3))
			for range testutil.Stress(5) {
				require.True(t, testutil.Returns(func() {
					_ = p.Run(func(w *Worker) {
						stolenJoin(w, nop[int], func(w *Worker) int { job(w); return 0 })
					})
				}), "the join does not return")
				requireAtRest(t, p)
			}
		})
	}
}

// TestGoexitBetweenTwoForksThatAreWaitedFor: a join waits for an orphan and for its own fork. If
// its goroutine ends when the wait for the orphan is over, it must wait for both once more.
func TestGoexitBetweenTwoForksThatAreWaitedFor(t *testing.T) {
	job := func(w *Worker) {
		begun, joining, stolen := make(gate), make(gate), make(gate)
		Join(w,
			func(w *Worker, _ int) int {
				begun.await()
				ended := make(gate)
				_ = testutil.Caught(func() {
					stolenJoin(w,
						func(*Worker) int { return explode("f") },
						func(*Worker) int { ended.open(); return 0 })
				})
				ended.await()
				joining.open()
				return 0
			}, 0,
			func(w *Worker, _ int) int {
				begun.open()
				joining.await()
				heist.Spin(5 * time.Microsecond)
				Join(w,
					func(*Worker, int) int { stolen.await(); return 0 }, 0,
					func(*Worker, int) int { stolen.open(); runtime.Goexit(); return 0 }, 0)
				return 0
			}, 0)
	}
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(50) {
		require.True(t, testutil.Returns(func() { _ = p.Run(job) }), "the guest does not leave")
		requireAtRest(t, p)
		require.NoError(t, p.Go(job))
		requireAtRest(t, p)
	}
}

// TestWorkerLeftByGoexitLendsItsPlace: on its way out, the worker waits for a stolen fork, and a
// task is run in its place that opens a group. No other place can run the group's task.
func TestWorkerLeftByGoexitLendsItsPlace(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(20) {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			stolenJoin(w,
				func(*Worker) int { runtime.Goexit(); return 0 },
				func(*Worker) int {
					_ = p.Go(func(*Worker) {
						g := newGroup(p)
						g.Go(func() error { return nil })
						_ = g.Wait()
						close(done)
					})
					<-done
					return 0
				})
		}))
		require.True(t, closed(done), "nobody runs the group's task")
		requireAtRest(t, p)
	}
}

func TestAPanicInALoopArrivesTheSameWayWhoeverRanTheItem(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for i := range testutil.Stress(100) {
		for _, n := range []int{1, 100, 100_000} {
			v := testutil.Caught(func() {
				_ = For(p, n, func(j int) {
					if j == n-1-i%n {
						panic(io.EOF)
					}
				})
			})
			e, ok := v.(*PanicError)
			require.True(t, ok, "%T", v)
			require.ErrorIs(t, e, io.EOF)
		}
	}
}

// TestGoexitInAPanicHandlerKeepsTheWorker: testing's FailNow is one.
func TestGoexitInAPanicHandlerKeepsTheWorker(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithPanicHandler(func(*PanicError) { runtime.Goexit() }))
	require.NoError(t, p.Go(func(*Worker) { explode("handled") }))
	ran := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(ran) }))
	select {
	case <-ran:
	case <-time.After(testutil.Patience):
		t.Fatal("the worker is gone")
	}
}

// TestAPanicIsNotLostToAGoexit of the caller, or of another function: then the panic arrives, and the goroutine ends by it.
func TestAPanicIsNotLostToAGoexit(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, call := range map[string]func(at Place, exits, panics func()){
		"Do": func(at Place, exits, panics func()) {
			_ = Do(at, func(*Worker) { exits() }, func(*Worker) { panics() })
		},
		"loop": func(at Place, exits, panics func()) {
			_ = ForRange(at, 2, func(lo, _ int) { []func(){exits, panics}[lo]() }, Grain(1))
		},
		"join": func(at Place, exits, panics func()) {
			_ = at.With(at.Context()).Run(func(w *Worker) {
				Join(w, func(_ *Worker, _ int) int { exits(); return 0 }, 0, func(_ *Worker, _ int) int { panics(); return 0 }, 0)
			})
		},
		"recursion": func(at Place, exits, panics func()) {
			_, _ = Recursive(func(f *Fork[int, int], k int) int {
				switch k {
				case 0:
					f.Join(1, 2)
				case 1:
					exits()
				case 2:
					panics()
				}
				return 0
			}).Run(at, 0)
		},
		"scope": func(at Place, exits, panics func()) {
			_ = at.With(at.Context()).Run(func(w *Worker) {
				w.Scope(func(s *Scope) {
					s.Go(w, func(*Worker) { panics() })
					exits()
				})
			})
		},
		"two that were stolen": func(at Place, exits, panics func()) {
			var begun atomic.Int32
			all := func() {
				for begun.Add(1); begun.Load() < 3; {
					runtime.Gosched()
				}
			}
			_ = Do(at, func(*Worker) { all() }, func(*Worker) { all(); exits() }, func(*Worker) { all(); panics() })
		},
	} {
		for _, at := range []Place{p, p.With(ctx)} {
			for range testutil.Stress(20) {
				var exiting, panicking atomic.Bool
				wait := func(other *atomic.Bool) {
					for start := time.Now(); !other.Load() && time.Since(start) < testutil.Patience; {
						runtime.Gosched()
					}
				}
				var caught any
				require.True(t, testutil.Returns(func() {
					defer func() { caught = recover() }()
					call(at, func() {
						exiting.Store(true)
						wait(&panicking) // another worker runs it
						runtime.Goexit()
					}, func() {
						panicking.Store(true)
						wait(&exiting)
						panic("on purpose")
					})
				}))
				e, ok := caught.(*PanicError)
				require.True(t, ok, "%s: %v", name, caught)
				require.Equal(t, "on purpose", e.Value)
			}
		}
	}
	requireAtRest(t, p)
}
