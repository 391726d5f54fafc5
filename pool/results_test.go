package pool

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// TestResultsComeInTheOrderOfTheFunctions, whichever ends first, and however they were added.
func TestResultsComeInTheOrderOfTheFunctions(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(50) {
			g, _ := GroupOf[int](p.With(t.Context()))
			for i := range 60 {
				f := func() (int, error) {
					if i%7 == 0 {
						runtime.Gosched()
					}
					return i, nil
				}
				switch i % 3 {
				case 0:
					g.Go(f)
				case 1:
					require.True(t, g.TryGo(f))
				case 2:
					g.GoWorker(func(*Worker) (int, error) { return f() })
				}
			}
			results, err := g.Wait()
			require.NoError(t, err)
			require.Len(t, results, 60)
			for i, v := range results {
				require.Equal(t, i, v)
			}
		}
		g, _ := GroupOf[int](p.With(t.Context()))
		results, err := g.Wait()
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

// TestAGroupOfResultsEndsAsAGroupDoes: by its first error, a panic, the end of its context, its limit, a closed pool.
func TestAGroupOfResultsEndsAsAGroupDoes(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, ctx := GroupOf[int](p.With(t.Context()))
	g.Go(func() (int, error) { return 1, io.EOF })
	results, err := g.Wait()
	require.Same(t, io.EOF, err)
	require.Equal(t, []int{0}, results, "the value beside an error is no result")
	require.Same(t, io.EOF, context.Cause(ctx))

	g, _ = GroupOf[int](p.With(t.Context()))
	g.SetLimit(1)
	release := make(chan struct{})
	g.Go(func() (int, error) { <-release; return 1, nil })
	require.False(t, g.TryGo(func() (int, error) { return 2, nil }))
	close(release)
	results, err = g.Wait()
	require.NoError(t, err)
	require.Equal(t, []int{1}, results, "what was not taken has no place")

	g, _ = GroupOf[int](p.With(t.Context()))
	g.Go(func() (int, error) { panic(7) })
	require.Equal(t, 7, testutil.Caught(func() { _, _ = g.Wait() }).(*PanicError).Value)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	g, _ = GroupOf[int](p.With(ctx))
	g.Go(func() (int, error) { return 1, nil })
	_, err = g.Wait()
	require.ErrorIs(t, err, errStop)
	require.Equal(t, 1, g.Skipped())

	for _, add := range []func(*ResultGroup[int]){
		func(g *ResultGroup[int]) { g.Go(nil) },
		func(g *ResultGroup[int]) { g.TryGo(nil) },
		func(g *ResultGroup[int]) { g.GoWorker(nil) },
	} {
		g, _ = GroupOf[int](p.With(t.Context()))
		add(g)
		_, err = g.Wait()
		require.ErrorContains(t, err, "nil function")
		require.ErrorContains(t, testutil.Caught(func() { add(new(ResultGroup[int])) }).(error), "not made by")
	}
	require.ErrorContains(t, testutil.Caught(func() { new(ResultGroup[int]).Go(func() (int, error) { return 1, nil }) }).(error), "not made by")
	require.NoError(t, p.Close())
	g, _ = GroupOf[int](p.With(t.Context()))
	g.Go(func() (int, error) { return 1, nil })
	_, err = g.Wait()
	require.Same(t, ErrClosed, err)
}

// TestJoinErrorsRunsAllFunctionsAndKeepsAllErrors. An error that is not a function's ends the group as ever.
func TestJoinErrorsRunsAllFunctionsAndKeepsAllErrors(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, ctx := NewGroup(p.With(t.Context()))
	g.JoinErrors()
	var ran atomic.Int64
	var want []error
	for i := range 50 {
		err := fmt.Errorf("error %d", i)
		if i%2 == 0 {
			err = nil
		} else {
			want = append(want, err)
		}
		g.Go(func() error { ran.Add(1); return err })
	}
	require.True(t, testutil.Eventually(func() bool { return ran.Load() == 50 }))
	require.NoError(t, ctx.Err(), "nothing is cancelled")
	err := g.Wait()
	for _, e := range want {
		require.ErrorIs(t, err, e)
	}
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), len(want))
	require.Zero(t, g.Skipped())

	ctx, cancel := context.WithCancelCause(t.Context())
	g, _ = NewGroup(p.With(ctx))
	g.JoinErrors()
	g.Go(func() error { return io.EOF })
	g.Go(func() error { runtime.Goexit(); return nil })
	require.True(t, testutil.Eventually(func() bool { return g.tasks.Load() == 0 }))
	cancel(errStop)
	g.Go(func() error { t.Error("the group is over"); return nil })
	err = g.Wait()
	for _, e := range []error{io.EOF, ErrGoexit, errStop} {
		require.ErrorIs(t, err, e)
	}
	require.Equal(t, 1, g.Skipped())

	g, _ = NewGroup(p.With(t.Context()))
	release := make(chan struct{})
	g.Go(func() error { <-release; return nil })
	require.ErrorContains(t, testutil.Caught(g.JoinErrors).(error), "before Go")
	close(release)
	require.NoError(t, g.Wait())
	require.ErrorContains(t, testutil.Caught(new(Group).JoinErrors).(error), "not made by")
}

// TestFirstReturnsOneResultAndEndsTheOthers, which have ended when it returns.
func TestFirstReturnsOneResultAndEndsTheOthers(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	type f = func(ctx context.Context, w *Worker) (int, error)
	for range testutil.Stress(100) {
		var inside atomic.Int64
		slow := func(ctx context.Context, w *Worker) (int, error) {
			inside.Add(1)
			defer inside.Add(-1)
			w.Block(func() { <-ctx.Done() })
			return 1, context.Cause(ctx)
		}
		fails := func(context.Context, *Worker) (int, error) { return 2, io.EOF }
		wins := func(context.Context, *Worker) (int, error) { return 3, nil }
		for _, fs := range [][]f{{wins}, {slow, wins}, {fails, slow, wins}, {slow, slow, fails, slow, slow, slow, wins}, {wins, wins}} {
			v, err := First(p.With(t.Context()), fs...)
			require.NoError(t, err)
			require.Equal(t, 3, v)
			require.Zero(t, inside.Load())
		}
		v, err := First(p.With(t.Context()), fails, func(context.Context, *Worker) (int, error) { return 4, io.ErrShortWrite })
		require.Zero(t, v)
		require.ErrorIs(t, err, io.EOF)
		require.ErrorIs(t, err, io.ErrShortWrite, "all errors")
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(100*time.Microsecond, func() { cancel(errStop) })
		_, err = First(p.With(ctx), slow, slow, fails)
		require.ErrorIs(t, err, errStop)
		stop.Stop()
		cancel(nil)
	}
	require.NoError(t, p.Run(func(*Worker) { // on a single place, too
		one := newPool(t, WithWorkers(1))
		result := make(chan error, 1)
		require.NoError(t, one.Go(func(*Worker) {
			_, err := First(one, func(context.Context, *Worker) (int, error) { return 1, nil })
			result <- err
		}))
		require.NoError(t, <-result)
	}))
	wins := func(context.Context, *Worker) (int, error) { return 3, nil }
	require.Equal(t, 7, testutil.Caught(func() { _, _ = First(p.With(t.Context()), func(context.Context, *Worker) (int, error) { panic(7) }) }).(*PanicError).Value)
	_, err := First(p.With(t.Context()), func(context.Context, *Worker) (int, error) { runtime.Goexit(); return 0, nil })
	require.ErrorIs(t, err, ErrGoexit)
	v, err := First(p.With(t.Context()), func(context.Context, *Worker) (int, error) { runtime.Goexit(); return 0, nil }, wins)
	require.NoError(t, err)
	require.Equal(t, 3, v)
	_, err = First[int](p)
	require.ErrorContains(t, err, "no functions")
	_, err = First(p.With(t.Context()), wins, nil)
	require.ErrorContains(t, err, "nil function")
	_, err = First((*Pool)(nil), wins)
	require.ErrorContains(t, err, "not made by New")
	_, err = First(nil, wins)
	require.ErrorContains(t, err, "nil as its place")
	require.NoError(t, p.Close())
	_, err = First(p.With(t.Context()), wins)
	require.ErrorIs(t, err, ErrClosed)
}

// TestFirstReturnsNoHalfDoneWork: what a function returns after it was told to stop is no result. If the place's context has ended,
// First returns the cause; but a result that came before counts, and so does one beside a function that was stopped.
func TestFirstReturnsNoHalfDoneWork(t *testing.T) {
	for name, p := range map[string]Place{"workers": newPool(t, WithWorkers(2)), "serial": Serial()} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			partial := func(_ context.Context, w *Worker) (int, error) {
				cancel(errStop)
				require.True(t, w.Cancelled())
				return 1, nil
			}
			v, err := First(p.With(ctx), partial)
			require.Zero(t, v)
			require.ErrorIs(t, err, errStop)
			require.ErrorIs(t, err, context.Canceled)

			ctx, cancel = context.WithCancelCause(t.Context())
			v, err = First(p.With(ctx), func(context.Context, *Worker) (int, error) { cancel(errStop); return 2, nil })
			require.NoError(t, err, "nobody was told")
			require.Equal(t, 2, v)

			stops := func(_ context.Context, w *Worker) (int, error) { w.Stop(errStop); return 0, nil }
			v, err = First(p.With(t.Context()), stops, func(context.Context, *Worker) (int, error) { return 3, nil })
			require.NoError(t, err)
			require.Equal(t, 3, v)
		})
	}
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := make(chan struct{})
	v, err := First(p.With(ctx), func(ctx context.Context, w *Worker) (int, error) { // loses, and then the place's context ends, too
		close(begun)
		w.Block(func() { <-ctx.Done() })
		cancel(errStop)
		require.True(t, w.Cancelled())
		return 4, nil
	}, func(_ context.Context, w *Worker) (int, error) { w.Block(func() { <-begun }); return 5, nil })
	require.NoError(t, err)
	require.Equal(t, 5, v)
}

// TestHooksAreCalledAtBothEndsOfAWorker, once each, before and after all that it runs; also where a task ends the goroutine.
func TestHooksAreCalledAtBothEndsOfAWorker(t *testing.T) {
	var begun, ended atomic.Int64
	var here sync.Map // *Worker -> struct{}
	p, err := New(WithWorkers(2), WithHooks(
		func(w *Worker) {
			begun.Add(1)
			if _, twice := here.LoadOrStore(w, nil); twice {
				t.Error("it has begun twice")
			}
		},
		func(w *Worker) { ended.Add(1); here.Delete(w) }))
	require.NoError(t, err)
	for range testutil.Stress(100) {
		require.NoError(t, p.Go(func(w *Worker) {
			if _, ok := here.Load(w); !ok {
				t.Error("it has not begun")
			}
			w.Block(runtime.Gosched)
		}))
		require.NoError(t, p.Go(func(w *Worker) { runtime.Goexit() }))
	}
	require.NoError(t, p.Run(func(w *Worker) {
		_, ok := here.Load(w)
		require.False(t, ok, "a guest is none")
	}))
	require.NoError(t, p.WaitIdle(t.Context()))
	require.True(t, testutil.Eventually(func() bool { return begun.Load()-ended.Load() >= 2 }))
	require.NoError(t, p.Close())
	require.True(t, testutil.Eventually(func() bool { return begun.Load() == ended.Load() }))
	require.Greater(t, begun.Load(), int64(testutil.Stress(100)))
	here.Range(func(any, any) bool { t.Error("a worker has not ended"); return false })
	p = newPool(t, WithWorkers(1), WithHooks(nil, nil))
	require.NoError(t, Do(p, func(*Worker) {}))
}

// TestWhatGroupsOfResultsAndAdmissionAllocate is as much as their comments say.
func TestWhatGroupsOfResultsAndAdmissionAllocate(t *testing.T) {
	if testutil.UnderRace {
		t.Skip("the race detector allocates, too")
	}
	const n = 1000
	f := func() (int, error) { return 1, nil }
	p := newPool(t, WithWorkers(1), WithCallers(1))
	require.LessOrEqual(t, allocsPerRun(10, func() {
		g, _ := GroupOf[int](p)
		for range n {
			g.Go(f)
		}
		_, _ = g.Wait()
	}), float64(3*n+50))
	if goroutineIDAllocates {
		return
	}
	nothing := func(*Worker) {}
	require.Zero(t, allocsPerRun(100, func() { _ = p.Run(nothing) }))
	require.Zero(t, allocsPerRun(100, func() { _ = Do(Serial(), nothing) }))
}

// TestResultsThatWereReturnedStay when the group is used again.
func TestResultsThatWereReturnedStay(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, _ := GroupOf[int](p)
	add := func(v int) []int {
		g.Go(func() (int, error) { return v, nil })
		results, err := g.Wait()
		require.NoError(t, err)
		return results
	}
	first := add(1)
	second := add(2) // without Reset the results go on
	require.Equal(t, [][]int{{1}, {1, 2}}, [][]int{first, second})
	_ = append(first, 7)
	require.Equal(t, []int{1, 2}, second, "who appends to results changes no others")
	g.Reset(context.Background())
	require.Equal(t, []int{3}, add(3))
	require.Equal(t, [][]int{{1}, {1, 2}}, [][]int{first, second})
}
