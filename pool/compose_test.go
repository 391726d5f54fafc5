package pool

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// promise is a future of p whose function returns when the test says so, and with what.
type promise struct {
	*Future[int]
	end func(value int, err error)
}

func newPromise(p *Pool) promise {
	type outcome struct {
		value int
		err   error
	}
	c := make(chan outcome, 1)
	f := Async(p, func(w *Worker) (value int, err error) {
		w.Block(func() { o := <-c; value, err = o.value, o.err })
		return value, err
	})
	return promise{f, func(value int, err error) { c <- outcome{value, err} }}
}

func constant[T any](v T, err error) func(*Worker) (T, error) {
	return func(*Worker) (T, error) { return v, err }
}

func TestThenRunsWithTheResultOfAnotherType(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for i := range testutil.Stress(200) {
			f := Then(Async(p, constant(i, nil)), func(w *Worker, n int) (string, error) {
				if w.Pool() != p {
					t.Error("it runs elsewhere")
				}
				return strconv.Itoa(n), nil
			})
			s, err := waitFor(t, f)
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i), s)
			s, err = waitFor(t, Then(f, func(_ *Worker, s string) (string, error) { return s + s, io.EOF }))
			require.Equal(t, io.EOF, err)
			require.Equal(t, strconv.Itoa(i)+strconv.Itoa(i), s, "both, as the function returned both")
		}
	})
}

// TestThenPassesOnHowItsFutureEnded: its function does not run.
func TestThenPassesOnHowItsFutureEnded(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	never := func(*Worker, int) (string, error) { t.Error("it runs"); return "", nil }
	_, err := waitFor(t, Then(Then(Async(p, constant(1, io.EOF)), never), func(*Worker, string) (int, error) { t.Error("it runs"); return 0, nil }))
	require.Same(t, io.EOF, err)
	_, err = waitFor(t, Then(Async(p, func(*Worker) (int, error) { runtime.Goexit(); return 0, nil }), never))
	require.Same(t, ErrGoexit, err)

	broken := Async(p, func(*Worker) (int, error) { panic(io.EOF) })
	e := panicOf(func() { _, _ = waitFor(t, Then(broken, never)) })
	require.Same(t, panicOf(func() { _, _ = waitFor(t, broken) }), e, "the stack is that of the first panic")

	waiting := newPromise(p)
	then := Then(waiting.Future, never)
	require.True(t, then.Cancel())
	waiting.end(1, nil)
	_, err = waitFor(t, then)
	require.Equal(t, context.Canceled, err)

	cancelled := Async(p, constant(1, nil), Delay(time.Hour))
	then = Then(cancelled, never)
	require.True(t, cancelled.Cancel())
	_, err = waitFor(t, then)
	require.Equal(t, context.Canceled, err)
}

// TestAFutureKeepsFewOfTheFollowersThatHaveEnded, such as those of Any in a loop beside a future that takes long.
func TestAFutureKeepsFewOfTheFollowersThatHaveEnded(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	long := newPromise(p)
	for range 1000 {
		n, err := waitFor(t, Any(long.Future, Async(p, constant(1, nil))))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	kept := 0
	long.mu.Lock()
	for f := long.last; f != nil; f = f.next {
		kept++
	}
	long.mu.Unlock()
	require.LessOrEqual(t, kept, 2*leastRoom)
	long.end(2, nil)
	n, err := waitFor(t, Any(long.Future))
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

// TestALongChainTakesNoStack: each function is a task, and runs on top of none.
func TestALongChainTakesNoStack(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for _, planted := range []error{nil, io.EOF} {
			first := newPromise(p)
			f := first.Future
			n := testutil.Stress(20_000)
			var depth atomic.Int64
			for range n {
				f = Then(f, func(_ *Worker, v int) (int, error) {
					if v%1000 == 0 {
						depth.Store(max(depth.Load(), int64(runtime.Callers(0, make([]uintptr, 1000)))))
					}
					return v + 1, nil
				})
			}
			first.end(0, planted)
			v, err := waitFor(t, f)
			require.Equal(t, planted, err)
			if planted == nil {
				require.Equal(t, n, v)
				require.Less(t, depth.Load(), int64(100))
			}
		}
	}
}

func TestDoneIsClosedWhenTheResultIsThere(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	f := newPromise(p)
	done := f.Done()
	require.Equal(t, done, f.Done(), "one channel")
	select {
	case <-done:
		t.Fatal("it is closed")
	default:
	}
	f.end(7, nil)
	require.True(t, closed(done))
	require.True(t, f.Ready())
	n, err := waitFor(t, f.Future)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.True(t, closed(f.Done()))
	for name, f := range map[string]*Future[int]{
		"nil": nil, "zero": {}, "refused": Async[int](p, nil), "of nothing": Any[int](),
	} {
		select {
		case <-f.Done():
		default:
			t.Error(name, "Wait would return an error")
		}
	}
	cancelled := Async(p, constant(1, nil), Delay(time.Hour))
	done = cancelled.Done()
	require.True(t, cancelled.Cancel())
	require.True(t, closed(done))
}

// TestAFutureThatNobodyAsksForAChannelHasNone, and one that is done needs none.
func TestAFutureThatNobodyAsksForAChannelHasNone(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	inTask(t, p, func(w *Worker) {
		f := constant(1, nil)
		ctx := context.Background()
		without := allocsPerRun(100, func() { _, _ = Async(p, f).Wait(ctx) })
		with := allocsPerRun(100, func() {
			f := Async(p, f)
			f.Done()
			_, _ = f.Wait(ctx)
		})
		require.GreaterOrEqual(t, with, without+1, "the channel")
		done := Async(p, f)
		_, _ = done.Wait(ctx)
		require.Zero(t, allocsPerRun(100, func() { <-done.Done() }))
	})
	p.watched.Range(func(any, any) bool { t.Error("it is watched"); return true })
}

// TestATaskStartsAfterItsFutures, whatever their results are, whatever their types and pools, and once if one is given twice.
func TestATaskStartsAfterItsFutures(t *testing.T) {
	p, other := newPool(t, WithWorkers(2)), newPool(t, WithWorkers(1))
	for _, options := range [][]TaskOption{nil, {PriorityHigh}, {PriorityLow}, {OnNode(p.Nodes()[0])}, {Named("late")}, {Delay(time.Microsecond)}} {
		a, b, c := newPromise(p), newPromise(other), newPromise(p)
		broken := Async(p, func(*Worker) (string, error) { panic("planted") })
		refused := Async[int](p, nil)
		var runs atomic.Int32
		f := Async(p, func(w *Worker) (int, error) {
			runs.Add(1)
			assert.True(t, a.Ready() && b.Ready() && c.Ready() && broken.Ready())
			n, _ := b.Wait(background)
			return n, nil
		}, append(options, After(a, b, broken), After(c.Future, a.Future, refused))...)
		submitted := make(chan struct{})
		require.NoError(t, p.Submit(background, func(*Worker) { close(submitted) }, append(options, After(f))...))
		for _, end := range []func(){func() { c.end(1, io.EOF) }, func() { b.end(7, nil) }} {
			end()
			time.Sleep(time.Millisecond) // if it began too early, it would most likely do so now
			require.Zero(t, runs.Load())
			require.Equal(t, 2, p.Load().Delayed)
		}
		a.end(1, nil)
		n, err := waitFor(t, f)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.True(t, closed(submitted))
		require.EqualValues(t, 1, runs.Load())
		// The task is queued before it is counted out.
		require.True(t, testutil.Eventually(func() bool { return p.Load().Delayed == 0 }))
	}
	n, err := waitFor(t, Async(p, constant(5, nil), After()))
	require.NoError(t, err)
	require.Equal(t, 5, n)
}

func TestAfterRefusesWhatIsNoFuture(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.ErrorContains(t, p.Submit(background, nop2, After(nil)), "Pool.Submit was given a Future")
	require.ErrorContains(t, p.Submit(background, nop2, After(new(Future[int]))), "not made by Async")
	_, err := waitFor(t, Async(p, constant(1, nil), After((*Future[string])(nil))))
	require.ErrorContains(t, err, "Async was given a Future")
	_, err = waitFor(t, Then((*Future[int])(nil), func(*Worker, int) (int, error) { return 1, nil }))
	require.ErrorIs(t, err, errNoFuture)
	_, err = waitFor(t, Then[int, int](Async(p, constant(1, nil)), nil))
	require.EqualError(t, err, "pool: Then was given a nil function")
	_, err = waitFor(t, All[int](nil))
	require.ErrorIs(t, err, errNoFuture)
	_, err = waitFor(t, All(Async(p, constant(1, nil)), nil))
	require.ErrorContains(t, err, "a Future to be run after that is nil")
	require.False(t, All[int]().Cancel(), "it is done")
}

// TestWhoWaitsForFuturesOccupiesNoWorker: 1,000 tasks wait, and the only worker runs another one.
func TestWhoWaitsForFuturesOccupiesNoWorker(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithQueueBound(2))
	before := newPromise(p)
	var ran atomic.Int32
	for range 1000 { // beyond the bound
		require.NoError(t, p.Submit(background, func(*Worker) { ran.Add(1) }, After(before)))
	}
	goroutines := runtime.NumGoroutine()
	n, err := waitFor(t, Async(p, constant(1, nil)))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.LessOrEqual(t, goroutines, 100)
	require.Equal(t, 1000, p.Load().Delayed)
	require.Zero(t, ran.Load())
	before.end(0, nil)
	require.NoError(t, p.WaitIdle(t.Context()))
	require.EqualValues(t, 1000, ran.Load())
}

// TestEachFollowerRunsOnce, whether it is added before the future is done, after that, or at that moment; 64 goroutines'
// worth of tasks follow the same futures.
func TestEachFollowerRunsOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p, other := newPool(t, WithWorkers(workers)), newPool(t, WithWorkers(2))
		for range testutil.Stress(300) {
			var futures [3]*Future[int]
			for i := range futures {
				futures[i] = Async([]*Pool{p, other}[rand.IntN(2)], func(*Worker) (int, error) {
					for range rand.IntN(30) {
						runtime.Gosched()
					}
					return i, nil
				})
			}
			const each = 20
			ran := make([]atomic.Int32, 4*each)
			testutil.Together(4, func(who int) {
				for i := range each {
					a, b := futures[rand.IntN(3)], futures[rand.IntN(3)]
					f := func(*Worker) (int, error) {
						if !a.Ready() || !b.Ready() {
							t.Error("too early")
						}
						ran[who*each+i].Add(1)
						return 0, nil
					}
					switch rand.IntN(3) {
					case 0:
						assert.NoError(t, other.Submit(background, func(w *Worker) { _, _ = f(w) }, After(a, b)))
					case 1:
						Async(p, f, After(a, b))
					default:
						Then(All(a, b), func(w *Worker, _ []int) (int, error) { return f(w) })
					}
				}
			})()
			require.True(t, testutil.Eventually(func() bool {
				for i := range ran {
					if ran[i].Load() == 0 {
						return false
					}
				}
				return true
			}), "a follower is lost")
			require.NoError(t, p.WaitIdle(t.Context()))
			require.NoError(t, other.WaitIdle(t.Context()))
			for i := range ran {
				require.EqualValues(t, 1, ran[i].Load())
			}
		}
	}
}

func TestAllHasTheResultsInOrder(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	a, b, c := newPromise(p), newPromise(p), newPromise(p)
	all := All(a.Future, b.Future, a.Future, c.Future)
	c.end(3, nil)
	a.end(1, nil)
	require.False(t, all.Ready())
	b.end(2, nil)
	ns, err := waitFor(t, all)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 1, 3}, ns)
	ns, err = waitFor(t, All[int]())
	require.NoError(t, err)
	require.Empty(t, ns)
	fails, failsToo := errors.New("one"), errors.New("two")
	_, err = waitFor(t, All(Async(p, constant(1, nil)), Async(p, constant(1, fails), Delay(time.Millisecond)), Async(p, constant(1, failsToo))))
	require.Same(t, fails, err, "the first in order, not in time")
	require.ErrorContains(t, panicOf(func() {
		_, _ = waitFor(t, All(a.Future, Async(p, func(*Worker) (int, error) { panic("planted") })))
	}), "planted")
}

func TestAnyHasTheFirstSuccess(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	slow, quick := newPromise(p), newPromise(p)
	failed := Async(p, constant(0, io.EOF))
	broken := Async(p, func(*Worker) (int, error) { panic("planted") })
	first := Any(slow.Future, failed, broken, quick.Future)
	_, _ = waitFor(t, failed)
	require.False(t, first.Ready())
	quick.end(7, nil)
	n, err := waitFor(t, first)
	require.NoError(t, err)
	require.Equal(t, 7, n, "though another one never ends")
	slow.end(8, nil)

	other := errors.New("other")
	_, err = waitFor(t, Any(failed, Async(p, constant(0, other)), new(Future[int])))
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, err, other)
	require.ErrorIs(t, err, errNoFuture)
	require.ErrorContains(t, panicOf(func() { _, _ = waitFor(t, Any(failed, broken)) }), "planted")
	_, err = waitFor(t, Any[int]())
	require.ErrorContains(t, err, "no futures")
}

// TestCloseWaitsForWhatWaitsForFutures, even for those of another pool, and accepts nothing that would begin later.
func TestCloseWaitsForWhatWaitsForFutures(t *testing.T) {
	p, err := New(WithWorkers(1))
	require.NoError(t, err)
	other := newPool(t, WithWorkers(1))
	before := newPromise(other)
	f := Async(p, constant(7, nil), After(before))
	closing := testutil.Together(1, func(int) { assert.NoError(t, p.Close()) })
	require.True(t, testutil.Eventually(p.core.Closing.Load))
	_, err = waitFor(t, Async(p, constant(7, nil), After(before)))
	require.Same(t, ErrClosed, err)
	_, err = waitFor(t, Then(f, func(*Worker, int) (int, error) { return 1, nil }))
	require.Same(t, ErrClosed, err)
	over, cancel := context.WithCancel(background)
	cancel()
	var left *UnfinishedError
	require.ErrorAs(t, p.Shutdown(over), &left)
	require.Equal(t, 1, left.Delayed)
	require.Contains(t, left.Snapshot.String(), "waits for")
	before.end(0, nil)
	n, err := waitFor(t, f)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	closing()
}

// TestAbortGivesBackWhatWaitsForFutures, and whoever waits for these in another way learns of it: by a channel, by a task of another
// pool, and by a task of the same pool that is given back.
func TestAbortGivesBackWhatWaitsForFutures(t *testing.T) {
	for range testutil.Stress(30) {
		p, err := New(WithWorkers(1))
		require.NoError(t, err)
		other := newPool(t, WithWorkers(1))
		release := occupyAll(t, p)
		queued := Async(p, constant(1, nil))
		done := queued.Done()
		var ran atomic.Int32
		given := Async(p, func(*Worker) (int, error) { ran.Add(1); return 1, nil }, After(queued))
		require.NoError(t, p.Submit(background, func(*Worker) { ran.Add(1) }, After(given)))
		abroad := Async(other, func(*Worker) (int, error) { return given.Wait(background) }, After(given))
		then := Then(All(queued, given), func(*Worker, []int) (int, error) { return 1, nil })
		doneThen := then.Done()
		over, cancel := context.WithCancel(background)
		cancel()
		left, err := p.Abort(over)
		require.Error(t, err, "a task runs")
		require.Len(t, left, 5)
		require.True(t, closed(done))
		require.True(t, closed(doneThen))
		for _, f := range []*Future[int]{queued, given, abroad, then} {
			_, err := waitFor(t, f)
			require.Same(t, ErrClosed, err)
		}
		_, err = waitFor(t, Async(p, constant(1, nil), After(queued)))
		require.Same(t, ErrClosed, err)
		for _, f := range left {
			f(nil)
		}
		require.EqualValues(t, 1, ran.Load(), "what was given to Submit, by the caller of Abort")
		release()
		_ = p.Close()
		p.watched.Range(func(any, any) bool { t.Error("it is still watched"); return true })
	}
}

// TestNoFollowerIsLostWhenAPoolIsAborted while others are added to its futures.
func TestNoFollowerIsLostWhenAPoolIsAborted(t *testing.T) {
	other := newPool(t, WithWorkers(1))
	for range testutil.Stress(200) {
		p, err := New(WithWorkers(1))
		require.NoError(t, err)
		var futures []*Future[int]
		for range 10 {
			futures = append(futures, Async(p, constant(1, nil)))
		}
		var mu sync.Mutex
		var followers []*Future[int]
		var channels []<-chan struct{}
		adding := testutil.Together(2, func(int) {
			for _, f := range futures {
				follower, channel := Async(other, constant(2, nil), After(f)), f.Done()
				mu.Lock()
				followers, channels = append(followers, follower), append(channels, channel)
				mu.Unlock()
			}
		})
		_, err = p.Abort(background)
		require.NoError(t, err)
		adding()
		for i, f := range followers {
			n, err := waitFor(t, f)
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.True(t, closed(channels[i]))
		}
	}
}

// TestAContextEndsTheWaitForFutures: the task counts as skipped, and does not hold up Close.
func TestAContextEndsTheWaitForFutures(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	before := newPromise(p)
	ctx, cancel := context.WithCancel(background)
	b := new(memory)
	gone := weak.Make(b)
	require.NoError(t, p.Submit(ctx, func(*Worker) { b[0]++; t.Error("it runs") }, After(before)))
	b = nil
	cancel()
	require.True(t, testutil.Eventually(func() bool { return p.Load().Delayed == 0 }))
	require.EqualValues(t, 1, p.Stats().Skipped)
	require.True(t, testutil.Eventually(func() bool { runtime.GC(); return gone.Value() == nil }), "its future keeps the function")
	before.end(0, nil)
	_, _ = waitFor(t, before.Future)
}

// TestAPoolSaysThatItEnds: first that it closes, and at last that it has ended.
func TestAPoolSaysThatItEnds(t *testing.T) {
	p, err := New(WithWorkers(1))
	require.NoError(t, err)
	require.False(t, p.Closing())
	f := newPromise(p)
	closing := testutil.Together(1, func(int) { assert.NoError(t, p.Close()) })
	require.True(t, testutil.Eventually(p.Closing))
	select {
	case <-p.Done():
		t.Error("a task still runs")
	default:
	}
	f.end(0, nil)
	closing()
	require.True(t, closed(p.Done()))
}

func TestDumpSaysWhatTasksWaitForFutures(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release := make(chan struct{})
	load := func(w *Worker) (int, error) { w.Block(func() { <-release }); return 1, nil }
	store := func(*Worker, int) (int, error) { return 1, nil }
	loaded := Async(p, load)
	for range 3 {
		Then(loaded, store)
	}
	require.NoError(t, p.Submit(background, nop2, After(loaded, loaded), Named("the report")))
	require.NoError(t, p.Submit(background, nop2, Delay(time.Millisecond)))
	s := p.Snapshot()
	require.Len(t, s.Dependents, 2)
	require.Equal(t, 3, s.Dependents[0].Tasks)
	require.Contains(t, s.Dependents[0].Does, "TestDumpSaysWhatTasksWaitForFutures.func2")
	require.Equal(t, "the report", s.Dependents[1].Does)
	require.Len(t, s.Dependents[1].WaitsFor, 1)
	require.Contains(t, s.Dependents[1].WaitsFor[0], "TestDumpSaysWhatTasksWaitForFutures.func1")
	var b strings.Builder
	require.NoError(t, p.Dump(&b))
	require.Contains(t, b.String(), "waits for")
	require.Contains(t, b.String(), "the report")
	close(release)
	require.NoError(t, p.WaitIdle(t.Context()))
	require.Empty(t, p.Snapshot().Dependents)
}

// TestThenIsShownAsItsFunction, not as one of heist's.
func TestThenIsShownAsItsFunction(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var does string
	_, err := waitFor(t, Then(Async(p, constant(1, nil)), func(*Worker, int) (int, error) {
		does = p.Snapshot().Workers[0].Does
		return 1, nil
	}))
	require.NoError(t, err)
	require.Contains(t, does, "TestThenIsShownAsItsFunction")
}
