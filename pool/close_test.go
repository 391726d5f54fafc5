package pool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed53057037/heist"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// adders are the ways in which a task, running on w, adds f.
var adders = map[string]func(p *Pool, w *Worker, f func(w *Worker)) error{
	"Worker.Go":     func(_ *Pool, w *Worker, f func(*Worker)) error { return w.Go(f) },
	"Pool.Go":       func(p *Pool, _ *Worker, f func(*Worker)) error { return p.Go(f) },
	"Submit":        func(p *Pool, _ *Worker, f func(*Worker)) error { return p.Submit(background, f) },
	"high priority": func(p *Pool, _ *Worker, f func(*Worker)) error { return p.Submit(background, f, PriorityHigh) },
	"low priority":  func(p *Pool, _ *Worker, f func(*Worker)) error { return p.Submit(background, f, PriorityLow) },
	"a delay": func(p *Pool, _ *Worker, f func(*Worker)) error {
		return p.Submit(background, f, Delay(time.Microsecond))
	},
	"TrySubmit": func(p *Pool, _ *Worker, f func(*Worker)) error { return p.TrySubmit(f) },
	"SubmitAll": func(p *Pool, _ *Worker, f func(*Worker)) error {
		_, err := p.SubmitAll(background, []func(*Worker){f})
		return err
	},
	"Async": func(p *Pool, _ *Worker, f func(*Worker)) error {
		future := Async(p, func(w *Worker) (int, error) { f(w); return 0, nil })
		if future.Ready() {
			_, err := future.Wait(background)
			return err
		}
		return nil
	},
	"Async with a priority": func(p *Pool, _ *Worker, f func(*Worker)) error {
		_, err := tryAsync(p, func(w *Worker) (int, error) { f(w); return 0, nil }, PriorityHigh)
		return err
	},
	"a group": func(p *Pool, _ *Worker, f func(*Worker)) error {
		g, ctx := NewGroup(p)
		g.GoWorker(func(w *Worker) error { f(w); return nil })
		return context.Cause(ctx)
	},
	"a group that is waited for": func(p *Pool, _ *Worker, f func(*Worker)) error {
		g := newGroup(p)
		g.GoWorker(func(w *Worker) error { f(w); return nil })
		return g.Wait()
	},
	"a scope": func(_ *Pool, w *Worker, f func(*Worker)) error {
		w.Scope(func(s *Scope) { s.Go(w, f) })
		return nil
	},
	"Run": func(p *Pool, _ *Worker, f func(*Worker)) (err error) {
		return errors.Join(p.Run(func(w *Worker) { err = w.Go(f) }), err)
	},
	"a loop at the pool": func(p *Pool, _ *Worker, f func(*Worker)) (err error) {
		return errors.Join(ForRange(p, 1, func(w *Worker, _, _ int) { err = w.Go(f) }, Grain(1)), err)
	},
	"a call in Block": func(p *Pool, w *Worker, f func(*Worker)) (err error) {
		w.Block(func() { err = p.Go(f) })
		return err
	},
	"a call after Block": func(_ *Pool, w *Worker, f func(*Worker)) error {
		w.Block(func() { time.Sleep(10 * time.Microsecond) })
		return w.Go(f)
	},
	"a guest of its own pool": func(p *Pool, w *Worker, f func(*Worker)) (err error) {
		w.Block(func() { err = errors.Join(p.Run(func(w *Worker) { err = w.Go(f) }), err) })
		return err
	},
	"a broadcast": func(p *Pool, _ *Worker, f func(*Worker)) error {
		var once atomic.Bool
		return p.Broadcast(background, func(w *Worker) error {
			if once.CompareAndSwap(false, true) {
				return w.Go(f)
			}
			return nil
		})
	},
}

// tree returns a function that adds two like it, and so on to the given depth, and counts in ran.
func tree(t *testing.T, p *Pool, depth int, ran *atomic.Int64, add func(p *Pool, w *Worker, f func(w *Worker)) error) func(w *Worker) {
	return func(w *Worker) {
		ran.Add(1)
		for range 2 {
			if depth > 1 {
				if err := add(p, w, tree(t, p, depth-1, ran, add)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// forAdders runs a test for each way to add tasks, with several numbers of workers.
func forAdders(t *testing.T, test func(t *testing.T, p *Pool, add func(p *Pool, w *Worker, f func(w *Worker)) error)) {
	for name, add := range adders {
		for _, workers := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(name, ", ", workers), func(t *testing.T) {
				test(t, newPool(t, WithWorkers(workers)), add)
			})
		}
	}
}

const treeDepth, treeSize = 10, 1<<10 - 1

func TestCloseKeepsWhatAcceptedTasksAdd(t *testing.T) {
	forAdders(t, func(t *testing.T, p *Pool, add func(p *Pool, w *Worker, f func(w *Worker)) error) {
		var ran atomic.Int64
		require.NoError(t, p.Go(tree(t, p, treeDepth, &ran, add)))
		requireCloses(t, p)
		require.EqualValues(t, treeSize, ran.Load())
		require.Zero(t, p.Stats().Refused)
	})
}

// TestATaskThatCameAtTheLastMomentKeepsItsTree: the injectors are closed by then.
func TestATaskThatCameAtTheLastMomentKeepsItsTree(t *testing.T) {
	const depth = 6
	forAdders(t, func(t *testing.T, p *Pool, add func(p *Pool, w *Worker, f func(w *Worker)) error) {
		var ran atomic.Int64
		closing := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			<-closing
			p.eachQueue(func(q *heist.Injector[task]) { q.Close() })
			tree(t, p, depth, &ran, add)(w)
		}))
		closed := testutil.Together(1, func(int) { requireCloses(t, p) })
		require.True(t, testutil.Eventually(p.core.Closing.Load))
		close(closing)
		closed()
		require.EqualValues(t, 1<<depth-1, ran.Load())
	})
}

// TestAForkOfAGuestAddsNothingToAPoolThatIsAboutToEnd: a worker steals the fork when all accepted tasks are done, and the end
// would not wait for what it added.
func TestAForkOfAGuestAddsNothingToAPoolThatIsAboutToEnd(t *testing.T) {
	for name, add := range adders {
		if name == "a scope" {
			continue // whose children are the guest's own
		}
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			isSealed := make(chan struct{})
			var ran atomic.Int64
			guest := testutil.Together(1, func(int) {
				var inFork error
				require.NoError(t, p.Run(func(w *Worker) {
					<-isSealed
					_, inFork = stolenJoin(w, func(*Worker) error { return nil }, func(w *Worker) error {
						return add(p, w, func(*Worker) { ran.Add(1) })
					})
				}))
				require.ErrorIs(t, inFork, ErrClosed)
			})
			require.True(t, testutil.Eventually(func() bool { return p.core.Sleep.Load().HasGuests() }))
			_, _, err := p.beginClose(background, "Close")
			require.NoError(t, err)
			p.seal()
			close(isSealed)
			guest()
			p.end()
			require.Zero(t, ran.Load())
		})
	}
}

// TestCloseWaitsForABacklogThatGrows: the functions of a group add others to the group, which wait for turns.
func TestCloseWaitsForABacklogThatGrows(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		g := newGroup(p)
		g.AtMost(2)
		var ran atomic.Int64
		add := func(_ *Pool, _ *Worker, f func(*Worker)) error {
			g.GoWorker(func(w *Worker) error { f(w); return nil })
			return nil
		}
		require.NoError(t, p.Go(tree(t, p, treeDepth, &ran, add)))
		requireCloses(t, p)
		require.EqualValues(t, treeSize, ran.Load())
		require.NoError(t, g.Wait())
	}
}

// TestCloseKeepsWhatIsAddedWhereAFunctionEnds: by its deferred functions, and by the handler of its panic.
func TestCloseKeepsWhatIsAddedWhereAFunctionEnds(t *testing.T) {
	var p *Pool
	var ran atomic.Int64
	add := func() {
		if err := p.Go(func(*Worker) { ran.Add(1) }); err != nil {
			t.Error(err)
		}
	}
	p = newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) { add() }))
	release := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) {
		<-release
		defer add()
		panic("over")
	}))
	closed := testutil.Together(1, func(int) { requireCloses(t, p) })
	require.True(t, testutil.Eventually(p.core.Closing.Load))
	close(release)
	closed()
	require.EqualValues(t, 2, ran.Load())
}

// TestATaskInACallAtAnotherPoolIsInside.
func TestATaskInACallAtAnotherPoolIsInside(t *testing.T) {
	p, q := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
	var ran atomic.Int64
	require.NoError(t, p.Go(tree(t, p, 5, &ran, func(p *Pool, _ *Worker, f func(*Worker)) (err error) {
		return errors.Join(q.Run(func(*Worker) { err = p.Go(f) }), err)
	})))
	requireCloses(t, p)
	require.EqualValues(t, 31, ran.Load())
}

// TestWhatIsOutsideIsRefusedFromTheBeginningOfClose: other goroutines, those of a task too, guests, and hooks.
func TestWhatIsOutsideIsRefusedFromTheBeginningOfClose(t *testing.T) {
	refused := make(chan error, 10)
	p := newPool(t, WithWorkers(2), WithHooks(nil, func(w *Worker) {
		never := func(*Worker) { t.Error("what a hook added runs") }
		refused <- errors.Join(w.Go(never), w.Pool().Go(never))
	}))
	never := func(*Worker) { t.Error("it runs") }
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) {
		close(begun)
		<-release
		done := make(chan error)
		go func() { done <- p.Go(never) }()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Error("a goroutine that a task started:", err)
		}
	}))
	<-begun
	require.NoError(t, p.Run(func(w *Worker) {
		closed := testutil.Together(1, func(int) { requireCloses(t, p) })
		require.True(t, testutil.Eventually(p.core.Closing.Load))
		require.ErrorIs(t, w.Go(never), ErrClosed)
		for name, add := range adders {
			if name != "a scope" && name != "a broadcast" {
				require.ErrorIs(t, add(p, w, never), ErrClosed, name)
			}
		}
		close(release)
		closed()
	}))
	for range 2 {
		require.EqualError(t, <-refused, fmt.Sprintf("%v\n%v", ErrClosed, ErrClosed))
	}
}

// TestWhatAlwaysAddsMoreEndsWithAbort, in the middle of a Shutdown that gave up.
func TestWhatAlwaysAddsMoreEndsWithAbort(t *testing.T) {
	for name, add := range adders {
		for _, workers := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(name, ", ", workers), func(t *testing.T) {
				p := newPool(t, WithWorkers(workers))
				var ran atomic.Int64
				var more func(w *Worker)
				more = func(w *Worker) {
					if ran.Add(1) < 1<<20 && !p.aborted.Load() {
						_ = add(p, w, more)
					}
				}
				for range 3 {
					require.NoError(t, p.Go(more))
				}
				ctx, cancel := context.WithTimeout(background, time.Millisecond)
				defer cancel()
				if err := p.Shutdown(ctx); err != nil {
					require.ErrorAs(t, err, new(*UnfinishedError))
				}
				var err error
				require.True(t, testutil.Returns(func() { _, err = p.Abort(background) }))
				if err != nil {
					require.ErrorIs(t, err, ErrClosed)
				}
				require.ErrorIs(t, p.Go(more), ErrClosed)
			})
		}
	}
}

// TestATaskThatAbortLetsEndAddsNothing: its calls at the pool go on, and what it adds is refused and not skipped.
func TestATaskThatAbortLetsEndAddsNothing(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	never := func(*Worker) { t.Error("it runs") }
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		close(begun)
		testutil.Compute(release)
		for name, err := range map[string]error{
			"Pool.Go": p.Go(never), "Worker.Go": w.Go(never), "Submit": p.Submit(background, never, Delay(1)),
			"a group": adders["a group that is waited for"](p, w, never),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Error(name, err)
			}
		}
		if err := p.Run(func(w *Worker) { fib(w, 5) }); err != nil {
			t.Error(err)
		}
	}))
	<-begun
	require.NoError(t, p.Go(never))
	g := newGroup(p)
	g.Go(func() error { never(nil); return nil })
	var left []func(*Worker)
	aborted := testutil.Together(1, func(int) {
		var err error
		left, err = p.Abort(background)
		require.NoError(t, err)
	})
	require.True(t, testutil.Eventually(func() bool { return p.aborted.Load() && p.queued() == 0 }))
	close(release)
	aborted()
	require.Len(t, left, 2)
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.EqualValues(t, 1, p.Stats().Skipped)
	require.EqualValues(t, 4, p.Stats().Refused)
}

// TestAPausedPoolThatIsResizedClosesWithItsTree.
func TestAPausedPoolThatIsResizedClosesWithItsTree(t *testing.T) {
	p := newPool(t, WithWorkers(4), WithQueueBound(8))
	require.NoError(t, p.Pause(background))
	var ran atomic.Int64
	require.NoError(t, p.Go(tree(t, p, treeDepth, &ran, adders["Submit"])))
	require.NoError(t, p.Resize(1))
	requireCloses(t, p)
	require.EqualValues(t, treeSize, ran.Load())
}
