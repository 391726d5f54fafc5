package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// waitFor waits for a future, but not for ever.
func waitFor[T any](t testing.TB, f *Future[T]) (value T, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(background, testutil.Patience, errors.New("the future never comes"))
	defer cancel()
	return f.Wait(ctx)
}

// inTask runs f as a task and waits for its end.
func inTask(t testing.TB, p *Pool, f func(w *Worker)) {
	t.Helper()
	over := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		defer close(over)
		f(w)
	}))
	require.True(t, closed(over), "the task does not end")
}

func TestFutureHasWhatTheFunctionReturned(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for i := range testutil.Stress(100) {
			f := Async(p, func(w *Worker) (int, error) { return fib(w, i%12), nil })
			failed := Async(p, func(*Worker) (string, error) { return "some", io.EOF }, Priority(i%priorities))
			n, err := waitFor(t, f)
			require.NoError(t, err)
			require.Equal(t, serialFib(i%12), n)
			for range 2 { // any number of times
				s, err := waitFor(t, failed)
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, "some", s, "both, as the function returned both")
			}
			require.True(t, f.Ready())
			require.True(t, failed.Ready())
		}
	})
}

func TestFutureIsNotDoneBeforeItsFunction(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	release := make(chan struct{})
	f := Async(p, func(*Worker) (int, error) { <-release; return 1, nil })
	require.False(t, f.Ready())
	close(release)
	require.True(t, testutil.Eventually(f.Ready))
}

func TestAsyncTakesTheOptionsOfSubmit(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	begin := time.Now()
	d, err := waitFor(t, Async(p, func(*Worker) (time.Duration, error) { return time.Since(begin), nil }, Delay(5*time.Millisecond)))
	require.NoError(t, err)
	require.GreaterOrEqual(t, d, 5*time.Millisecond)

	var diary diary
	onlyWorker(t, p, func(w *Worker) {
		w.tick.turn = 0
		note := func(name string) func(*Worker) (int, error) {
			return func(*Worker) (int, error) { diary.note(name); return 0, nil }
		}
		Async(p, note("low"), PriorityLow)
		Async(p, note("normal"))
		Async(p, note("high"), PriorityHigh)
	})
	require.Equal(t, []string{"high", "normal", "low"}, diary.read())

	f := func(*Worker) (int, error) { t.Error("it runs"); return 0, nil }
	for want, option := range map[string]TaskOption{
		"nil TaskOption":               nil,
		"the priority 9":               Priority(9),
		"StartBy was given a nil func": StartBy(time.Now(), nil),
	} {
		future := Async(p, f, option)
		require.True(t, future.Ready())
		_, err := waitFor(t, future)
		require.ErrorContains(t, err, want)
	}
	_, err = waitFor(t, Async[int](p, nil))
	require.EqualError(t, err, "pool: Async was given a nil function")
}

// TestAFutureRunsInPlaceWhateverItsOptions: the only worker is busy until the guest has its result.
func TestAFutureRunsInPlaceWhateverItsOptions(t *testing.T) {
	for bound, pools := range map[string][]Option{"no bound": nil, "a bound": {WithQueueBound(3)}} {
		for name, option := range map[string]TaskOption{
			"normal": PriorityNormal, "high": PriorityHigh, "low": PriorityLow, "named": Named("one"),
			"in time": StartBy(time.Now().Add(time.Hour), func(*Worker) { t.Error("late") }),
		} {
			t.Run(bound+", "+name, func(t *testing.T) {
				p := newPool(t, append(pools, WithWorkers(1))...)
				begun, release := make(chan struct{}), make(chan struct{})
				defer close(release)
				require.NoError(t, p.Go(func(*Worker) { close(begun); <-release }))
				<-begun
				require.True(t, testutil.Returns(func() {
					_ = p.Run(func(*Worker) {
						for want := range 3 { // the tasks stay in the queue, and count
							n, err := Async(p, func(*Worker) (int, error) { return want, nil }, option).Wait(background)
							assert.NoError(t, err)
							assert.Equal(t, want, n)
						}
					})
				}))
			})
		}
	}
}

// TestAFutureThatNeedsNoTaskLeavesTheRoomToOthers: its task stays in the injector, where it counted for the bound.
func TestAFutureThatNeedsNoTaskLeavesTheRoomToOthers(t *testing.T) {
	seven := func(*Worker) (int, error) { return 7, nil }
	for name, take := range map[string]func(f *Future[int]){
		"cancelled": func(f *Future[int]) { require.True(t, f.Cancel()) },
		"in place": func(f *Future[int]) {
			require.NoError(t, f.pool.Run(func(*Worker) {
				n, err := f.Wait(background)
				assert.NoError(t, err)
				assert.Equal(t, 7, n)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(1))
			release := occupyAll(t, p)
			f, err := tryAsync(p, seven)
			require.NoError(t, err)
			submitted := make(chan error, 1)
			go func() { submitted <- p.Submit(background, func(*Worker) {}) }()
			require.True(t, waits(p, 1))
			take(f)
			require.NoError(t, <-submitted)
			require.Equal(t, 1, p.waiting())
			require.ErrorIs(t, p.TrySubmit(func(*Worker) {}), ErrFull)
			release()
			require.True(t, whenParked(p))
			require.Zero(t, p.room.stale.Load())
		})
	}
}

// TestCancelledFuturesDoNotFillTheQueue of a bounded pool without end: each keeps its memory until its turn comes.
func TestCancelledFuturesDoNotFillTheQueue(t *testing.T) {
	needsStatuses(t) // or one begins every 10 ms
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(8))
	release := occupyAll(t, p)
	defer release()
	refused := 0
	for range 10_000 {
		f, err := tryAsync(p, func(*Worker) (int, error) { return 0, nil })
		if err != nil {
			require.ErrorIs(t, err, ErrFull)
			refused++
			continue
		}
		require.True(t, f.Cancel())
	}
	require.Equal(t, 10_000-8-maxStale, refused)
}

// TestAsyncKeepsToTheBound: Async waits for room, as Submit does.
func TestAsyncKeepsToTheBound(t *testing.T) {
	p, release := boundedPool(t, 1)
	future := make(chan *Future[int])
	go func() { future <- Async(p, func(*Worker) (int, error) { return 2, nil }) }()
	require.True(t, waits(p, 1))
	release()
	n, err := waitFor(t, <-future)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestPanicReachesEveryWaitForAFuture(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for round := range testutil.Stress(100) {
			f := Async(p, func(w *Worker) (int, error) {
				if round%2 == 0 && workers > 1 {
					stolenJoin(w, nop[int], func(*Worker) int { return explode(io.EOF) })
				}
				return explode(io.EOF), nil
			})
			check := func(where string) {
				e, ok := testutil.Caught(func() { _, _ = waitFor(t, f) }).(*PanicError)
				if !ok || e.Value != io.EOF || !errors.Is(e, io.EOF) {
					t.Error(where, ok, e)
					return
				}
				require.Contains(t, string(e.Stack), "pool.explode(")
				require.Contains(t, string(e.Stack), "future_test.go:")
			}
			check("outside")
			check("outside, again")
			require.NoError(t, p.Run(func(*Worker) { check("in a guest") }))
			inTask(t, p, func(*Worker) { check("in a task") })
			require.True(t, f.Ready())
		}
	}
}

func TestPanicNilIsNotTakenForGoexit(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	f := Async(p, func(*Worker) (int, error) { return explode(nil), nil })
	require.ErrorAs(t, testutil.Caught(func() { _, _ = waitFor(t, f) }).(error), new(*runtime.PanicNilError))
}

func TestGoexitOfAFutureIsAnError(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(100) {
			f := Async(p, func(w *Worker) (int, error) { fib(w, 5); runtime.Goexit(); return 1, nil })
			n, err := waitFor(t, f)
			require.ErrorIs(t, err, ErrGoexit)
			require.Zero(t, n)
			inTask(t, p, func(*Worker) { // which comes when it is done
				if _, err := waitFor(t, f); !errors.Is(err, ErrGoexit) {
					t.Error(err)
				}
			})
		}
	}
}

// TestTheWaitForAFutureEndsWithTheContext; the function goes on, and one can wait again.
func TestTheWaitForAFutureEndsWithTheContext(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	release := make(chan struct{})
	f := Async(p, func(*Worker) (int, error) { <-release; return 7, nil })
	for range 3 {
		ctx, cancel := context.WithCancelCause(background)
		failed := make(chan error, 1)
		go func() {
			_, err := f.Wait(ctx)
			failed <- err
		}()
		require.True(t, testutil.Eventually(func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.over != nil
		}), "it does not wait")
		cancel(io.EOF)
		require.True(t, testutil.Eventually(func() bool { return len(failed) == 1 }), "the wait does not end")
		require.ErrorIs(t, <-failed, io.EOF)
		require.False(t, f.Ready())
	}
	_, err := f.Wait(ended())
	require.ErrorIs(t, err, io.EOF)
	close(release)
	n, err := waitFor(t, f)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	n, err = f.Wait(ended())
	require.NoError(t, err, "what is done needs no wait")
	require.Equal(t, 7, n)
}

// TestTheWaitInATaskEndsWithTheContext in each state in which the waiting worker may be.
func TestTheWaitInATaskEndsWithTheContext(t *testing.T) {
	for _, state := range []string{"before", "asleep", "place lent", "at some time"} {
		t.Run(state, func(t *testing.T) {
			for round := range testutil.Stress(25) {
				p := newPool(t, WithWorkers(1), WithPinning(PinNone))
				future := &Future[int]{pool: p} // of a function that does not return
				ctx, cancel := context.WithCancelCause(background)
				waited := make(chan error, 1)
				lent := make(chan struct{})
				if state == "before" {
					cancel(io.EOF)
				}
				require.NoError(t, p.Go(func(w *Worker) {
					if state == "place lent" {
						_ = w.Go(func(*Worker) {
							close(lent)
							<-ctx.Done()
						})
					}
					_, err := future.Wait(ctx)
					waited <- err
				}))
				switch state {
				case "asleep":
					require.True(t, whenParked(p))
				case "place lent":
					require.True(t, closed(lent))
				case "at some time":
					time.Sleep(time.Duration(round) * time.Microsecond)
				}
				cancel(io.EOF)
				require.True(t, testutil.Eventually(func() bool { return len(waited) == 1 }), "the wait does not end")
				require.ErrorIs(t, <-waited, io.EOF)

				// The wait leaves nothing behind that could do harm when the future is done.
				future.end(nil)
				future.release(nil)
				inTask(t, p, func(*Worker) {
					if _, err := future.Wait(background); err != nil {
						t.Error(err)
					}
				})
				requireCloses(t, p)
			}
		})
	}
}

// TestFutureComesWhileTheContextEnds, at the same moment.
func TestFutureComesWhileTheContextEnds(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(250) {
		ctx, cancel := context.WithCancel(background)
		release := make(chan struct{})
		f := Async(p, func(*Worker) (int, error) { <-release; return 3, nil })
		inTask(t, p, func(*Worker) {
			go cancel()
			go close(release)
			if n, err := f.Wait(ctx); (err != nil || n != 3) && !errors.Is(err, context.Canceled) {
				t.Error(n, err)
			}
		})
		n, err := waitFor(t, f)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		cancel()
	}
}

func TestManyWaitForOneFuture(t *testing.T) {
	for _, workers := range []int{1, 2, 16} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(100) {
			release := make(chan struct{})
			f := Async(p, func(*Worker) (int, error) { <-release; return 5, io.EOF })
			var right atomic.Int32
			wait := func() {
				if n, err := waitFor(t, f); n == 5 && err == io.EOF {
					right.Add(1)
				}
			}
			const n = 12
			outside := testutil.Together(n, func(who int) {
				switch who % 3 {
				case 0:
					_ = p.Run(func(*Worker) { wait() })
				case 1:
					_ = p.Go(func(*Worker) { wait() })
				default:
					wait()
				}
			})
			close(release)
			require.True(t, testutil.Returns(outside))
			require.True(t, testutil.Eventually(func() bool { return right.Load() == n }), "somebody was not told")
		}
	}
}

// TestAWaitForAFutureLendsThePlace: on a single worker, the function runs in the place of the waiter.
func TestAWaitForAFutureLendsThePlace(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	for _, options := range [][]TaskOption{nil, {PriorityHigh}, {PriorityLow}, {Delay(time.Microsecond)}} {
		for range testutil.Stress(100) {
			inTask(t, p, func(w *Worker) {
				n, err := Async(p, func(*Worker) (int, error) { return 9, nil }, options...).Wait(background)
				if n != 9 || err != nil {
					t.Error(n, err)
				}
			})
			// A guest inside the task waits as the task's worker.
			inTask(t, p, func(*Worker) {
				_ = p.Run(func(*Worker) {
					n, err := Async(p, func(*Worker) (int, error) { return 9, nil }, options...).Wait(background)
					if n != 9 || err != nil {
						t.Error(n, err)
					}
				})
			})
		}
	}
}

func TestChainOfFutures(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		var chain func(n int) *Future[int]
		chain = func(n int) *Future[int] {
			return Async(p, func(*Worker) (int, error) {
				if n == 0 {
					return 0, nil
				}
				m, err := chain(n - 1).Wait(background)
				return m + 1, err
			})
		}
		for range testutil.Stress(20) {
			n, err := waitFor(t, chain(100))
			require.NoError(t, err)
			require.Equal(t, 100, n)
		}
	})
}

// TestTreeOfFutures: each node waits for its children, in the order in which they were
// made and the other way round.
func TestTreeOfFutures(t *testing.T) {
	var tree func(p *Pool, depth int) *Future[int]
	tree = func(p *Pool, depth int) *Future[int] {
		return Async(p, func(w *Worker) (int, error) {
			if depth == 0 {
				return fib(w, 3) / 2, nil
			}
			children := []*Future[int]{tree(p, depth-1), tree(p, depth-1), tree(p, depth-1)}
			sum := 0
			for i := range children {
				if depth%2 == 0 {
					i = len(children) - 1 - i
				}
				n, err := children[i].Wait(background)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		})
	}
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			n, err := waitFor(t, tree(p, 5))
			require.NoError(t, err)
			require.Equal(t, 243, n)
		}
	})
}

// TestAWaitForAFutureOfItsOwnLendsNoPlace in a tree of some thousand futures: each runs in place, whatever is left in the queues.
func TestAWaitForAFutureOfItsOwnLendsNoPlace(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var tree func(depth int) *Future[int]
	tree = func(depth int) *Future[int] {
		return Async(p, func(*Worker) (int, error) {
			if depth == 0 {
				return 1, nil
			}
			a, b := tree(depth-1), tree(depth-1)
			n, err := a.Wait(background)
			require.NoError(t, err)
			m, err := b.Wait(background)
			return n + m, err
		})
	}
	n, err := waitFor(t, tree(11))
	require.NoError(t, err)
	require.Equal(t, 1<<11, n)
	var lent uint64
	for _, w := range p.Stats().Workers {
		lent += w.Lent
	}
	require.Less(t, lent, uint64(100))
}

// TestErrorsAndPanicsGoUpAChain of futures that wait for each other.
func TestErrorsAndPanicsGoUpAChain(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		var chain func(n int, end func() (int, error)) *Future[int]
		chain = func(n int, end func() (int, error)) *Future[int] {
			return Async(p, func(*Worker) (int, error) {
				if n == 0 {
					return end()
				}
				return chain(n-1, end).Wait(background)
			})
		}
		_, err := waitFor(t, chain(10, func() (int, error) { return 0, io.EOF }))
		require.ErrorIs(t, err, io.EOF)
		e, ok := testutil.Caught(func() { _, _ = waitFor(t, chain(10, func() (int, error) { return explode("far away"), nil })) }).(*PanicError)
		require.True(t, ok)
		require.Equal(t, "far away", e.Value)
		require.Contains(t, string(e.Stack), "pool.explode(")
	}
}

// TestFuturesOfTwoPools wait for each other.
func TestFuturesOfTwoPools(t *testing.T) {
	p, q := newPool(t, WithWorkers(1), WithPinning(PinNone)), newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		n, err := waitFor(t, Async(p, func(*Worker) (int, error) {
			return Async(q, func(*Worker) (int, error) { return 4, nil }).Wait(background)
		}))
		require.NoError(t, err)
		require.Equal(t, 4, n)
	}
}

func TestFutureOfAClosedPool(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	before := Async(p, func(*Worker) (int, error) { return 1, nil })
	delayed := Async(p, func(*Worker) (int, error) { return 2, nil }, Delay(time.Millisecond))
	requireCloses(t, p)
	for want, f := range map[int]*Future[int]{1: before, 2: delayed} {
		require.True(t, f.Ready(), "Close waits for it")
		n, err := waitFor(t, f)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	for _, options := range [][]TaskOption{nil, {PriorityHigh}, {PriorityLow}, {Delay(1)}} {
		f := Async(p, func(*Worker) (int, error) { t.Error("it runs"); return 0, nil }, options...)
		require.True(t, f.Ready())
		_, err := waitFor(t, f)
		require.ErrorIs(t, err, ErrClosed)
	}
}

// TestFuturesAmongClose: each is done in the end, with a value or with ErrClosed.
func TestFuturesAmongClose(t *testing.T) {
	for round := range testutil.Stress(100) {
		p := newPool(t, WithWorkers(1+round%2))
		var made atomic.Int64
		wait := testutil.Together(3, func(int) {
			for range 10_000 {
				f := Async(p, func(*Worker) (int, error) { made.Add(1); return 1, nil })
				n, err := waitFor(t, f)
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				if n != 1 {
					t.Error(n)
				}
			}
		})
		require.True(t, testutil.Eventually(func() bool { return made.Load() > 0 }))
		requireCloses(t, p)
		require.True(t, testutil.Returns(wait), "a future never comes")
	}
}

// TestFuturesAndOtherTasksTogether has everything wait for everything.
func TestFuturesAndOtherTasksTogether(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			p := newPool(t, WithWorkers(workers))
			var mix func(w *Worker, n int) int
			mix = func(w *Worker, n int) int {
				if n == 0 {
					return 1
				}
				switch n % 3 {
				case 0:
					x, y := Join(w, mix, n-1, mix, n-1)
					return x + y
				case 1:
					f := Async(p, func(w *Worker) (int, error) { return mix(w, n-1), nil }, Priority(n/3%priorities))
					x := mix(w, n-1)
					y, _ := f.Wait(background)
					return x + y
				default:
					var x, y int
					g := newGroup(p)
					g.SetLimit(1)
					g.GoWorker(func(w *Worker) error { x = mix(w, n-1); return nil })
					g.GoWorker(func(w *Worker) error { y = mix(w, n-1); return nil })
					_ = g.Wait()
					return x + y
				}
			}
			for range testutil.Stress(15) {
				n, err := waitFor(t, Async(p, func(w *Worker) (int, error) { return mix(w, 8), nil }))
				require.NoError(t, err)
				require.Equal(t, 1<<8, n)
			}
		})
	}
}

// TestAFutureThatCameTooLateIsDone: the function for late tasks runs instead of its own, and the waiter must learn of
// that.
func TestAFutureThatCameTooLateIsDone(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ran := false
	f := Async(p, func(*Worker) (int, error) { return 1, nil }, StartBy(time.Time{}, func(*Worker) { ran = true }))
	_, err := f.Wait(t.Context())
	require.ErrorIs(t, err, ErrLate)
	require.True(t, ran)
	f = Async(p, func(*Worker) (int, error) { return 1, nil }, StartBy(time.Time{}, func(*Worker) { panic("too late") }))
	require.Panics(t, func() { _, _ = f.Wait(t.Context()) })
}

func TestACancelledFutureNeverRuns(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	for name, options := range map[string][]TaskOption{
		"queued": nil, "urgent": {PriorityHigh}, "delayed": {Delay(time.Millisecond)},
		"late": {StartBy(time.Now().Add(-time.Second), func(*Worker) { t.Error("late") })},
	} {
		release, blocked := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(blocked); testutil.Compute(release) }))
		<-blocked
		f := Async(p, func(*Worker) (int, error) { t.Error("it runs"); return 1, nil }, options...)
		waited := make(chan error)
		go func() {
			_, err := f.Wait(background)
			waited <- err
		}()
		require.False(t, f.Ready(), name)
		require.True(t, f.Cancel(), name)
		require.True(t, f.Ready(), name)
		require.Equal(t, context.Canceled, <-waited, name)
		require.False(t, f.Cancel(), name)
		close(release)
		require.NoError(t, p.WaitIdle(t.Context()))
		require.Zero(t, p.stale.Load(), name)
	}

	f := Async(p, func(*Worker) (int, error) { return 1, nil })
	n, err := waitFor(t, f)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, f.Cancel(), "it has run")
	f = Async[int](p, nil)
	require.False(t, f.Cancel(), "it was refused")
	_, err = waitFor(t, f)
	require.ErrorContains(t, err, "nil function")
	require.False(t, (*Future[int])(nil).Cancel())
	require.False(t, new(Future[int]).Cancel())
}

// TestAFutureRunsOrIsCancelled, never both and never neither, whichever comes first: a worker, a waiter that runs it
// in place, or a caller of Cancel.
func TestAFutureRunsOrIsCancelled(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(2000) {
			var ran, cancelled atomic.Int32
			f := Async(p, func(*Worker) (int, error) { ran.Add(1); return 7, nil })
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					if f.Cancel() {
						cancelled.Add(1)
					}
				})
			}
			require.NoError(t, p.Run(func(*Worker) {
				n, err := f.Wait(background)
				if err == nil && n != 7 || err != nil && !errors.Is(err, context.Canceled) {
					t.Error(n, err)
				}
			}))
			all.Wait()
			require.EqualValues(t, 1, ran.Load()+cancelled.Load())
		}
		require.NoError(t, p.WaitIdle(t.Context()))
		require.Zero(t, p.stale.Load())
	}
}

// TestCloseDoesNotWaitForADelayThatWasCancelled, however long it is, and does not lose count if the delay ends at
// that moment.
func TestCloseDoesNotWaitForADelayThatWasCancelled(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p, err := New(WithWorkers(workers))
		require.NoError(t, err)
		f := Async(p, func(*Worker) (int, error) { t.Error("it runs"); return 1, nil }, Delay(time.Hour))
		late := Async(p, func(*Worker) (int, error) { t.Error("it runs"); return 1, nil }, Delay(time.Hour), StartBy(time.Now(), func(*Worker) { t.Error("late") }))
		require.True(t, f.Cancel())
		require.True(t, late.Cancel())
		cancelled := 2
		for range testutil.Stress(1000) {
			var ran atomic.Bool
			f := Async(p, func(*Worker) (int, error) { ran.Store(true); return 1, nil }, Delay(time.Microsecond))
			runtime.Gosched()
			if f.Cancel() {
				cancelled++
			}
			_, err := f.Wait(background)
			require.Equal(t, err == nil, ran.Load())
		}
		require.NoError(t, p.WaitIdle(t.Context()))
		require.Zero(t, p.stale.Load())
		require.Zero(t, p.delayed.Load())
		require.EqualValues(t, cancelled, p.Stats().Skipped)
		require.NoError(t, p.Close())
	}
}

// TestCloseWaitsForAFutureThatAGuestRunsInPlace, and is refused inside of it.
func TestCloseWaitsForAFutureThatAGuestRunsInPlace(t *testing.T) {
	for range testutil.Stress(50) {
		p := newPool(t, WithWorkers(1))
		release := occupy(p)
		begun, over := make(chan struct{}), make(chan struct{})
		var ended atomic.Bool
		var inside error
		f := Async(p, func(*Worker) (int, error) {
			inside = p.Close()
			close(begun)
			<-over
			ended.Store(true)
			return 1, nil
		})
		guest := testutil.Together(1, func(int) {
			_ = p.Run(func(*Worker) { _, _ = f.Wait(context.Background()) })
		})
		<-begun
		release()
		closing := testutil.Together(1, func(int) {
			_ = p.Close()
			if !ended.Load() {
				t.Error("Close has returned")
			}
		})
		require.True(t, testutil.Eventually(p.core.Closing.Load))
		close(over)
		guest()
		closing()
		require.ErrorContains(t, inside, "inside a task")
	}
}

// TestWaitsThatWereGivenUpLeaveNothingBehind: a goroutine may look at a future every now and
// then for as long as the process runs.
func TestWaitsThatWereGivenUpLeaveNothingBehind(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	future := &Future[int]{pool: p}
	left := make(chan int, 1)
	require.NoError(t, p.Go(func(w *Worker) {
		for range 100 {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Microsecond)
			_, _ = future.Wait(ctx)
			cancel()
		}
		left <- w.pool.core.Waits()
	}))
	require.LessOrEqual(t, <-left, 1)
}

// TestAStandInThatHandsThePlaceBackLeavesNothing: it is idle then, so its forks and what it asked a Local for are free.
func TestAStandInThatHandsThePlaceBackLeavesNothing(t *testing.T) {
	p := newPool(t, WithWorkers(1)) // which looks for forks that are not clear
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 50 {
		var l Local[int]
		n, err := Async(p, func(w *Worker) (int, error) {
			n, err := Async(w, func(w *Worker) (int, error) { *l.Of(w)++; return fib(w, 5), nil }).Wait(ctx)
			for !w.hasPlace() { // it may have gone on before the stand-in handed the place back
				runtime.Gosched()
			}
			*l.Of(w)++
			return n, err
		}).Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, serialFib(5), n)
		all := 0
		for x := range l.All() {
			all += *x
		}
		require.Equal(t, 2, all)
		require.Len(t, slices.Collect(l.All()), 1)
	}
}

// TestAFutureThatATaskWaitsForComesFirst where it cannot run in place: the stand-in begins with it, and hands the place back.
func TestAFutureThatATaskWaitsForComesFirst(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	var others sync.WaitGroup
	require.NoError(t, p.Run(func(w *Worker) {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(done)
			for range 5 {
				others.Add(1)
				_ = w.Go(func(*Worker) { note("other"); others.Done() })
			}
			for range 3 {
				_, err := Async(w, func(*Worker) (int, error) { note("future"); return 0, nil }).Wait(ctx)
				assert.NoError(t, err)
				note("waiter")
				for !w.hasPlace() { // it may have gone on before the stand-in handed the place back
					runtime.Gosched()
				}
			}
		}))
		w.Block(func() { <-done; others.Wait() })
	}))
	require.Equal(t, slices.Concat(slices.Repeat([]string{"future", "waiter"}, 3), slices.Repeat([]string{"other"}, 5)), order)
	requireAtRest(t, p)
	require.Zero(t, p.stale.Load())
}

// TestAFutureThatComesFirstMayOutlastItsWait: the waiter's context ends while the function runs, or before.
func TestAFutureThatComesFirstMayOutlastItsWait(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(2000) {
		ctx, cancel := context.WithCancel(t.Context())
		out := Async(p, func(w *Worker) (int, error) {
			f := Async(w, func(w *Worker) (int, error) { cancel(); return 1, nil })
			_, err := f.Wait(ctx)
			if err != nil && !errors.Is(err, context.Canceled) {
				return 0, err
			}
			return f.Wait(t.Context())
		})
		v, err := out.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, v)
		cancel()
	}
	requireAtRest(t, p)
	require.Zero(t, p.stale.Load())
}

// TestTasksThatWaitForNewFuturesLetOthersBegin, though each of the futures comes first.
func TestTasksThatWaitForNewFuturesLetOthersBegin(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var flag atomic.Bool
	require.NoError(t, p.Run(func(w *Worker) {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(done)
			_ = p.Go(func(*Worker) { flag.Store(true) })
			for n := 0; !flag.Load() && n < 1000; n++ {
				_, _ = Async(w, func(*Worker) (int, error) { return 0, nil }).Wait(t.Context())
			}
			assert.True(t, flag.Load())
		}))
		w.Block(func() { <-done })
	}))
}
