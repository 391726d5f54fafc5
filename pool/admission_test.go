package pool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// queued returns how many callers wait for admission.
func (a *admission) queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.Waiting)
}

// TestNoMoreCallersComputeThanAreAllowed, whatever they call, short loops too, and all callers end.
func TestNoMoreCallersComputeThanAreAllowed(t *testing.T) {
	for _, most := range []int{1, 2, 3} {
		p := newPool(t, WithWorkers(2), WithCallers(most))
		var inside, high atomic.Int64
		body := func() {
			n := inside.Add(1)
			for h := high.Load(); n > h && !high.CompareAndSwap(h, n); h = high.Load() {
			}
			runtime.Gosched()
			inside.Add(-1)
		}
		var ran atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context()) // with a lock of its own: one that waits for a lock lets another one in
				defer cancel()
				for range testutil.Stress(30) {
					var err error
					switch i % 5 {
					case 0: // runs in the caller alone, as does any loop that is short or has one worker
						err = ForRange(p, 3, func(int, int) { body() }, Grain(3))
					case 1:
						err = p.Run(func(*Worker) { body() })
					case 2:
						err = Do(p.With(ctx), func(*Worker) { body() })
					case 3:
						_, err = Recursive(func(f *Fork[int, int], n int) int { body(); return n }).Run(p, 1)
					case 4:
						err = ForRange(p, 1, func(int, int) { body() })
					}
					if err != nil {
						t.Error(err)
					}
					ran.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 40*testutil.Stress(30), ran.Load())
		require.LessOrEqual(t, high.Load(), int64(most))
		require.Zero(t, p.admission.Taken)
		require.Zero(t, p.admission.queued())
	}
}

// occupyAsGuest has a guest compute in the pool until release is called, which returns when the guest has left.
func occupyAsGuest(p *Pool) (release func()) {
	inside, done := make(chan struct{}), make(chan struct{})
	left := testutil.Together(1, func(int) {
		_ = p.Run(func(*Worker) { close(inside); testutil.Compute(done) })
	})
	<-inside
	return func() { close(done); left() }
}

// TestCallersAreLetInInTheirOrder, and a caller that gives up does not block the others.
func TestCallersAreLetInInTheirOrder(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithCallers(1))
	var order []int
	var all sync.WaitGroup
	gone := errors.New("gone")
	release := occupyAsGuest(p)
	for i := range 6 {
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		all.Go(func() {
			err := p.With(ctx).Run(func(*Worker) { order = append(order, i) })
			if i%3 == 1 && !errors.Is(err, gone) || i%3 != 1 && err != nil {
				t.Error(i, err)
			}
		})
		require.True(t, testutil.Eventually(func() bool { return p.admission.queued() == i+1-(i+1)/3 }))
		if i%3 == 1 {
			cancel(gone)
			require.True(t, testutil.Eventually(func() bool { return p.admission.queued() == i-i/3 }))
		}
	}
	require.Same(t, ErrFull, inGoroutine(func() error { return p.Try().Run(func(*Worker) { t.Error("it has no room") }) }))
	require.Same(t, ErrFull, inGoroutine(func() error {
		return ForRange(p.With(t.Context()).Try(), 10, func(int, int) { t.Error("it has no room") })
	}))
	require.Same(t, ErrFull, inGoroutine(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
		defer cancel()
		return p.With(t.Context()).Try().With(ctx).Run(func(*Worker) { t.Error("it has no room") })
	}), "another context changes nothing else")
	require.Same(t, ErrFull, inGoroutine(func() error {
		at, _, cancel := cancellable(p.With(t.Context()).Try())
		defer cancel(nil)
		return Do(at, func(*Worker) { t.Error("it has no room") })
	}))
	release()
	all.Wait()
	require.Equal(t, []int{0, 2, 3, 5}, order)
	require.NoError(t, p.Try().Run(func(*Worker) {
		require.NoError(t, p.Try().Run(func(*Worker) {}), "it is in already")
	}))
	require.Nil(t, (*View)(nil).Try())
	require.ErrorContains(t, (*View)(nil).Try().Run(func(*Worker) {}), "nil")
	require.ErrorContains(t, p.Try().Run(nil), "nil")
	require.ErrorContains(t, (*Pool)(nil).Try().Run(func(*Worker) {}), "not made by New")
}

func inGoroutine(f func() error) error {
	result := make(chan error)
	go func() { result <- f() }()
	return <-result
}

// TestACallerThatWaitsLetsAnotherOneIn: otherwise each would wait for a caller that is not let in.
func TestACallerThatWaitsLetsAnotherOneIn(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithCallers(1))
	other := newPool(t, WithWorkers(1), WithCallers(1))
	for _, wait := range []func(w *Worker, f func()){
		func(w *Worker, f func()) { w.Block(f) },
		func(w *Worker, f func()) {
			_, err := Async(other, func(w *Worker) (int, error) { w.Block(f); return 0, nil }).Wait(t.Context())
			require.NoError(t, err)
		},
		func(w *Worker, f func()) {
			g, _ := NewGroup(p.With(t.Context()))
			g.GoWorker(func(w *Worker) error { w.Block(f); return nil }) // a task of the same pool makes the call
			require.NoError(t, g.Wait())
		},
	} {
		depth := 0
		var call func(w *Worker)
		call = func(w *Worker) {
			if depth++; depth < 10 {
				wait(w, func() {
					require.NoError(t, inGoroutine(func() error { return p.Run(call) }))
				})
			}
		}
		require.NoError(t, p.Run(call))
		require.Equal(t, 10, depth)
		require.Zero(t, p.admission.Taken)
	}
	// A call from a task needs no admission. A task of another pool that waits for admission lends its place.
	require.NoError(t, p.Run(func(*Worker) {
		inside := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { require.NoError(t, Do(p, func(*Worker) { close(inside) })) }))
		testutil.Compute(inside) // a guest that waits would let the other in
		waits, free := make(chan error), make(chan struct{})
		require.NoError(t, other.Go(func(*Worker) { waits <- p.Run(func(*Worker) {}) }))
		for p.admission.queued() != 1 {
			runtime.Gosched()
		}
		require.NoError(t, other.Go(func(*Worker) { close(free) }))
		<-free
		go func() { require.NoError(t, <-waits) }()
	}))
}

// TestCallersLeaveHoweverTheyEnd: by a panic, by Goexit, by a cancellation.
func TestCallersLeaveHoweverTheyEnd(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithCallers(2))
	for range testutil.Stress(50) {
		require.Equal(t, 7, testutil.Caught(func() { _ = p.Run(func(*Worker) { panic(7) }) }))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = ForRange(p, 10, func(int, int) { runtime.Goexit() })
		}()
		<-done
		at, _, cancel := cancellable(p)
		require.Same(t, errStop, at.Run(func(w *Worker) { w.Stop(errStop) }))
		cancel(nil)
		require.Equal(t, 8, testutil.Caught(func() { _ = p.Run(func(w *Worker) { w.Block(func() { panic(8) }) }) }))
	}
	require.Zero(t, p.admission.Taken)
	for _, n := range []int{0, -1} {
		_, err := New(WithCallers(n))
		require.ErrorContains(t, err, "at least 1")
	}
}

// TestCloseRefusesCallersWhoWait, and the callers inside come to their end.
func TestCloseRefusesCallersWhoWait(t *testing.T) {
	p, err := New(WithWorkers(1), WithCallers(1))
	require.NoError(t, err)
	inside, leave := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := p.Run(func(*Worker) { close(inside); testutil.Compute(leave) }); err != nil {
			t.Error(err)
		}
	})
	<-inside
	for range 5 {
		all.Go(func() {
			if err := p.Run(func(*Worker) {}); err != ErrClosed {
				t.Error(err)
			}
		})
	}
	require.True(t, testutil.Eventually(func() bool { return p.admission.queued() == 5 }))
	require.NoError(t, p.Close())
	require.True(t, testutil.Eventually(func() bool { return p.admission.queued() == 0 }))
	close(leave)
	all.Wait()
	require.Zero(t, p.admission.Taken)
}

// TestCallersWhoGiveUpLoseNobodysTurn, at whatever moment they give up.
func TestCallersWhoGiveUpLoseNobodysTurn(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithCallers(2))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range testutil.Stress(300) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Microsecond)
				err := p.With(ctx).Run(func(w *Worker) {
					if rand.IntN(2) == 0 {
						w.Block(runtime.Gosched)
					}
				})
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.Zero(t, p.admission.Taken)
	require.Zero(t, p.admission.queued())
	require.NoError(t, p.Try().Run(func(*Worker) {}))
}

func TestCallersWaitInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, WithWorkers(1), WithCallers(1))
		start := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { _ = p.Run(func(*Worker) { time.Sleep(time.Second) }) })
		}
		all.Wait()
		require.LessOrEqual(t, time.Since(start), 5*time.Second, "a caller that sleeps need not keep the others out")
	})
}

// TestAsyncAtTryRefusesWhereItWouldWait. What it accepts is a future like any other.
func TestAsyncAtTryRefusesWhereItWouldWait(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithQueueBound(1))
	one := func(*Worker) (int, error) { return 1, nil }
	release := make(chan struct{})
	running := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(running); testutil.Compute(release) }))
	<-running
	first, err := tryAsync(p, one)
	require.NoError(t, err)
	_, err = tryAsync(p, one)
	require.Same(t, ErrFull, err)
	urgent, err := tryAsync(p, one, PriorityHigh) // does not count
	require.NoError(t, err)
	close(release)
	for _, f := range []*Future[int]{first, urgent} {
		v, err := f.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, v)
	}
	_, err = tryAsync[int](p, nil)
	require.ErrorContains(t, err, "Async was given a nil function")
	_, err = tryAsync(p, one, nil)
	require.ErrorContains(t, err, "nil TaskOption")
	_, err = tryAsync((*Pool)(nil), one)
	require.ErrorContains(t, err, "not made by New")
	require.NoError(t, p.Close())
	_, err = tryAsync(p, one)
	require.Same(t, ErrClosed, err)
}

// TestAGuestThatWaitsForACoroutineHoldsUpNoCaller, whether the coroutine is the caller that waits for admission or waits
// for that caller: the guest keeps its turn, because heist does not see that it waits. It does not matter that tasks begin all the
// time: what the monitor does where none begins would never come.
func TestAGuestThatWaitsForACoroutineHoldsUpNoCaller(t *testing.T) {
	waits := map[string]func(p *Pool, f func()){
		"it calls":        func(p *Pool, f func()) { _ = p.Run(func(*Worker) { f() }) },
		"it calls a loop": func(p *Pool, f func()) { _ = ForRange(p, 1, func(int, int) { f() }) },
		"it waits in Pool": func(p *Pool, f func()) {
			p.Block(func() { _ = inGoroutine(func() error { return p.Run(func(*Worker) { f() }) }) })
		},
		"it waits in a call": func(p *Pool, f func()) {
			_ = p.Run(func(w *Worker) {
				w.Block(func() { _ = inGoroutine(func() error { return p.Run(func(*Worker) { f() }) }) })
			})
		},
		"it waits in another pool": func(p *Pool, f func()) {
			q, err := New(WithWorkers(1))
			if err != nil {
				panic(err)
			}
			defer q.Close()
			_ = q.Run(func(w *Worker) {
				w.Block(func() { _ = inGoroutine(func() error { return p.Run(func(*Worker) { f() }) }) })
			})
		},
	}
	test := func(t *testing.T, callers int, wait func(p *Pool, f func())) {
		p := newPool(t, WithWorkers(1), WithCallers(callers))
		if !p.inBubble { // whose time would stand still
			var over atomic.Bool
			defer over.Store(true)
			var again func(w *Worker)
			begun := 0
			again = func(w *Worker) {
				switch begun++; {
				case begun == 20_000_000: // some seconds
					t.Error("the caller was not let in")
				case !over.Load():
					_ = w.Go(again)
				}
			}
			require.NoError(t, p.Go(again))
		}
		var ran atomic.Int64
		inside := testutil.NewBarrier(callers)
		all := testutil.Together(callers, func(int) {
			if err := p.Run(func(*Worker) {
				inside.Wait()
				next, stop := iter.Pull(func(yield func(int) bool) {
					wait(p, func() { ran.Add(1) })
					yield(1)
				})
				defer stop()
				next()
			}); err != nil {
				t.Error(err)
			}
		})
		all()
		require.EqualValues(t, callers, ran.Load())
		require.Zero(t, p.admission.Taken)
		require.Zero(t, p.admission.queued())
	}
	for name, wait := range waits {
		for _, callers := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " ", callers), func(t *testing.T) {
				require.True(t, testutil.Returns(func() { test(t, callers, wait) }), "it hangs")
			})
		}
	}
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, 2, waits["it calls"]) })
	})
}
