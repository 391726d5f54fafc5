package pool

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// # No program hangs here that would not hang with goroutines

// forLawPools runs a test with pools that have hardly a worker to spare.
func forLawPools(t *testing.T, test func(t *testing.T, p *Pool)) {
	for name, options := range map[string][]Option{
		"default":    nil,
		"one worker": {WithWorkers(1)},
		"bound":      {WithWorkers(2), WithPinning(PinCores)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, options...)
			require.True(t, testutil.Returns(func() { test(t, p) }), "it hangs")
		})
	}
}

func TestFuturesMayWaitForFutures(t *testing.T) {
	forLawPools(t, func(t *testing.T, p *Pool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for round := range testutil.Stress(1000) {
			how := []context.Context{context.Background(), ctx}[round%2] // in place, or not
			f := Async(p, func(w *Worker) (int, error) { return fib(w, 5), nil })
			for range 8 {
				before := f
				f = Async(p, func(*Worker) (int, error) {
					n, err := before.Wait(how)
					return n + 1, err
				})
			}
			n, err := f.Wait(how)
			require.NoError(t, err)
			require.Equal(t, serialFib(5)+8, n)
		}
	})
}

func TestAGroupAtItsLimitMayBeFilledInAJoin(t *testing.T) {
	forLawPools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(1000) {
			g := newGroup(p)
			g.SetLimit(2)
			var ran atomic.Int32
			for range 6 {
				g.GoWorker(func(w *Worker) error { fib(w, 8); ran.Add(1); return nil })
			}
			h := newGroup(p)
			h.Go(func() error {
				for range 6 {
					g.GoWorker(func(w *Worker) error { fib(w, 8); ran.Add(1); return nil })
				}
				return nil
			})
			require.NoError(t, h.Wait())
			require.NoError(t, g.Wait())
			require.EqualValues(t, 12, ran.Load())
		}
	})
}

func TestATaskMayBlockForATaskBehindIt(t *testing.T) {
	forLawPools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(1000) {
			c, done := make(chan int), make(chan int, 1)
			require.NoError(t, p.Go(func(w *Worker) {
				stolenOrNot := func(w *Worker) int { return fib(w, 6) }
				both(w, stolenOrNot, stolenOrNot)
				w.Block(func() { done <- <-c })
			}))
			require.NoError(t, p.Go(func(w *Worker) { fib(w, 6); w.Block(func() { c <- 1 }) }))
			require.Equal(t, 1, <-done)
		}
	})
}

func TestATaskMayYieldUntilAnotherHasRun(t *testing.T) {
	forLawPools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(300) {
			var flag atomic.Bool
			g := newGroup(p)
			for range 2 {
				g.GoWorker(func(w *Worker) error {
					for !flag.Load() {
						w.Yield()
					}
					return nil
				})
			}
			g.Go(func() error { flag.Store(true); return nil })
			require.NoError(t, g.Wait())
		}
	})
}

// TestGuestsMayWaitForLoopsOfTheirGoroutines: there are more guests than places for them, as in a server whose
// handlers call loops whose bodies start goroutines that call loops.
func TestGuestsMayWaitForLoopsOfTheirGoroutines(t *testing.T) {
	forLawPools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			var items atomic.Int64
			loop := func() {
				if err := For(p, 100, func(int) { items.Add(1) }, Grain(10)); err != nil {
					t.Error(err)
				}
			}
			testutil.Together(16, func(int) {
				err := For(p, 4, func(int) {
					var inner sync.WaitGroup
					inner.Go(loop)
					inner.Wait()
				}, Grain(1))
				if err != nil {
					t.Error(err)
				}
				_ = p.Run(func(w *Worker) {
					w.Block(func() {
						var inner sync.WaitGroup
						inner.Go(loop)
						inner.Wait()
					})
				})
			})()
			require.EqualValues(t, 16*5*100, items.Load())
		}
	})
}

func TestAThousandTasksMayWaitForTheirPredecessors(t *testing.T) {
	forLawPools(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			const n = 1000
			c := make([]chan struct{}, n+1)
			for i := range c {
				c[i] = make(chan struct{})
			}
			for i := range n {
				require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { <-c[i] }); close(c[i+1]) }))
			}
			close(c[0])
			<-c[n]
		}
	})
}

func TestTwoPoolsMayWaitForEachOthersFutures(t *testing.T) {
	for range testutil.Stress(300) {
		a, b := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
		require.True(t, testutil.Returns(func() {
			background := context.Background()
			first := Async(a, func(*Worker) (int, error) { return 1, nil })
			second := Async(b, func(*Worker) (int, error) { return first.Wait(background) })
			third := Async(a, func(*Worker) (int, error) {
				inner := Async(b, func(*Worker) (int, error) { return second.Wait(background) })
				return inner.Wait(background)
			})
			n, err := third.Wait(background)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}), "they wait for each other")
		requireCloses(t, a)
		requireCloses(t, b)
	}
}

// A function of iter.Pull runs in a goroutine of its own, so the pool cannot know whose place stands still
// while that function waits.
func TestCoroutinesMayWaitForTheirPool(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waits := map[string]func(p *Pool){
		"Future": func(p *Pool) {
			before := Async(p, func(*Worker) (int, error) { return 1, nil })
			n, err := Async(p, func(*Worker) (int, error) { return before.Wait(ctx) }).Wait(ctx)
			if n != 1 || err != nil {
				panic(err)
			}
		},
		"Group": func(p *Pool) {
			g := newGroup(p)
			g.SetLimit(1)
			for range 3 {
				g.Go(func() error { return nil })
			}
			if err := g.Wait(); err != nil {
				panic(err)
			}
		},
		"Block": func(p *Pool) {
			sent := make(chan struct{})
			if err := p.Run(func(w *Worker) {
				_ = w.Go(func(*Worker) { close(sent) })
				w.Block(func() { <-sent })
			}); err != nil {
				panic(err)
			}
		},
	}
	for name, waitFor := range waits {
		t.Run(name, func(t *testing.T) {
			forLawPools(t, func(t *testing.T, p *Pool) {
				var ended, queued sync.WaitGroup
				for range p.Workers() {
					ended.Add(1)
					require.NoError(t, p.Go(func(w *Worker) {
						defer ended.Done()
						for range 40 { // in the slot and the ring, before what is waited for
							queued.Add(1)
							_ = w.Go(func(*Worker) { queued.Done() })
						}
						next, stop := iter.Pull(func(yield func(int) bool) {
							waitFor(p)
							yield(1)
						})
						defer stop()
						next()
					}))
				}
				ended.Wait()
				queued.Wait()
			})
		})
	}
}

// TestACoroutineMayWaitForAPoolThatWaitsForItsOwn: the task that stands still belongs to another pool than the
// one that the coroutine waits for, which neither pool can know.
func TestACoroutineMayWaitForAPoolThatWaitsForItsOwn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background()) // so that no future runs in place
	defer cancel()
	waitFor := func(p *Pool) (int, error) {
		return Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(ctx)
	}
	for name, body := range map[string]func(p, q *Pool){
		"future": func(p, q *Pool) {
			_, _ = Async(q, func(*Worker) (int, error) { return waitFor(p) }).Wait(ctx)
		},
		"group": func(p, q *Pool) {
			g := newGroup(q)
			g.Go(func() error { _, err := waitFor(p); return err })
			_ = g.Wait()
		},
		"Block": func(p, q *Pool) {
			_ = q.Run(func(w *Worker) {
				done := make(chan struct{})
				_ = q.Go(func(*Worker) { _, _ = waitFor(p); close(done) })
				w.Block(func() { <-done })
			})
		},
		"Pause": func(p, q *Pool) {
			begun := make(chan struct{})
			_ = q.Go(func(*Worker) { close(begun); _, _ = waitFor(p) })
			<-begun
			_ = q.Pause(ctx)
			q.Resume()
		},
		"a fork": func(p, _ *Pool) {
			var stolen atomic.Bool
			q := newPool(t, WithWorkers(2)) // the coroutine computes in place of one of them
			_ = Do(q, func(*Worker) { testutil.Eventually(stolen.Load) }, func(*Worker) { stolen.Store(true); _, _ = waitFor(p) })
		},
		"a child of a scope": func(p, q *Pool) {
			_ = q.Run(func(w *Worker) {
				w.Scope(func(s *Scope) {
					var stolen atomic.Bool
					s.Go(w, func(*Worker) { stolen.Store(true); _, _ = waitFor(p) })
					testutil.Eventually(stolen.Load)
				})
			})
		},
		"Close": func(p, q *Pool) {
			_ = q.Go(func(*Worker) { _, _ = waitFor(p) })
			_ = q.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, q := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
			f := Async(p, func(*Worker) (int, error) {
				next, stop := iter.Pull(func(yield func(int) bool) { body(p, q); yield(1) })
				defer stop()
				n, _ := next()
				return n, nil
			})
			require.True(t, testutil.Returns(func() { _, _ = f.Wait(ctx) }), "it hangs")
		})
	}
}

func TestWhatACoroutineWaitsForGoesOnInAPause(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range testutil.Stress(20) {
		p := newPool(t, WithWorkers(1))
		begun, pausing := make(chan struct{}), make(chan struct{})
		f := Async(p, func(*Worker) (int, error) {
			next, stop := iter.Pull(func(yield func(int) bool) {
				close(begun)
				<-pausing
				n, _ := Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(ctx)
				yield(n)
			})
			defer stop()
			n, _ := next()
			return n, nil
		})
		<-begun
		ended, end := context.WithCancel(ctx)
		end()
		require.Error(t, p.Pause(ended)) // begins the pause
		close(pausing)
		require.True(t, testutil.Returns(func() { require.NoError(t, p.Pause(ctx)) }), "it hangs")
		require.True(t, f.Done())
		p.Resume()
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

func TestADelayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := newPool(t, WithWorkers(2))
	const n = 1000
	for range n {
		require.NoError(t, p.Submit(ctx, func(*Worker) { t.Error("it runs") }, Delay(time.Hour)))
	}
	cancel()
	require.True(t, testutil.Eventually(func() bool { return p.delayed.Load() == 0 }))
	require.EqualValues(t, n, p.Stats().Skipped, "a task is counted before its delay ends")

	// However the two meet, the task runs or is skipped.
	p = newPool(t, WithWorkers(2))
	var ran atomic.Int64
	var running sync.WaitGroup
	for i := range testutil.Stress(2000) {
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, p.Submit(ctx, func(*Worker) { ran.Add(1) }, Delay(time.Duration(i%50)*time.Microsecond)))
		running.Add(1)
		go func() { defer running.Done(); cancel() }()
	}
	running.Wait()
	requireCloses(t, p)
	require.EqualValues(t, testutil.Stress(2000), uint64(ran.Load())+p.Stats().Skipped)
}

func TestAPanicOfATaskBesideACoroutineIsHandled(t *testing.T) {
	var handled atomic.Int32
	p := newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) { handled.Add(1) }))
	require.True(t, testutil.Returns(func() {
		begun := make(chan struct{})
		_ = Async(p, func(w *Worker) (int, error) {
			_ = w.Go(func(*Worker) { panic("in a task") })
			_ = w.Go(func(*Worker) { runtime.Goexit() })
			f := Async(p, func(*Worker) (int, error) { return 1, nil })
			close(begun)
			next, stop := iter.Pull(func(yield func(int) bool) {
				n, _ := f.Wait(context.Background())
				yield(n)
			})
			defer stop()
			n, _ := next()
			return n, nil
		})
		<-begun
		requireCloses(t, p)
	}))
	require.EqualValues(t, 1, handled.Load())
	require.EqualValues(t, 4, p.Stats().Total().Tasks)
}

func TestNoMoreTasksThanWorkersWhileOneWaitsInsideABlock(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		var c crowd
		done := make(chan error, 1)
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() {
				g := newGroup(p)
				for range 5 {
					g.Go(func() error { c.enter(); runtime.Gosched(); c.leave(); return nil })
				}
				done <- g.Wait()
			})
		}))
		require.NoError(t, <-done)
		require.EqualValues(t, 1, c.most.Load())
	}
}

func TestWhoWaitsForItselfGetsAnErrorAtOnce(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g := newGroup(p)
	own := make(chan error, 2)
	g.Go(func() error { own <- g.Wait(); return nil })
	require.NoError(t, g.Wait())
	require.ErrorIs(t, <-own, ErrOwnWait)
	var f *Future[int]
	ready := make(chan struct{})
	f = Async(p, func(*Worker) (int, error) {
		<-ready
		_, err := f.Wait(context.Background())
		own <- err
		return 1, nil
	})
	close(ready)
	n, err := f.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ErrorIs(t, <-own, ErrOwnWait)
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

// # Others

func TestACancelledCallThatGoesOnLeavesOthersAlone(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	in, release := make(chan struct{}), make(chan struct{})
	ended := testutil.Together(1, func(int) {
		_ = p.With(ctx).Run(func(*Worker) { close(in); <-release })
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

// TestWhoWakesAHelperLetsItHaveTheP: on one P, a fork or child for which a worker was woken has begun when
// its parent goes on.
func TestWhoWakesAHelperLetsItHaveTheP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(2), WithPinning(PinNone))
	for name, hasBegun := range map[string]func(w *Worker) bool{
		"fork": func(w *Worker) (begun bool) {
			var theirs atomic.Bool
			w.Do(func(*Worker) { begun = theirs.Load() }, func(*Worker) { theirs.Store(true) })
			return begun
		},
		"child": func(w *Worker) (begun bool) {
			var theirs atomic.Bool
			w.Scope(func(s *Scope) {
				s.Go(w, func(*Worker) { theirs.Store(true) })
				begun = theirs.Load()
			})
			return begun
		},
	} {
		t.Run(name, func(t *testing.T) {
			const rounds = 40
			begun := 0
			for range rounds {
				requireAtRest(t, p)
				require.NoError(t, p.Run(func(w *Worker) {
					w.backoffUntil = 0 // the last helper may have been slow to sleep
					if hasBegun(w) {
						begun++
					}
				}))
			}
			// Once in 61 times Go looks at the global queue first, where the waker is.
			require.GreaterOrEqual(t, begun, rounds*3/4, "of %d", rounds)
		})
	}
}

// TestWhoGaveWayForLongDoesNotSoonAgain: where others compute for long, the worker would be last again and
// again.
func TestWhoGaveWayForLongDoesNotSoonAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	onlyWorker(t, p, func(w *Worker) {
		p.networkDue.Store(heist.Ticks() + heist.TicksIn(time.Hour))
		gives := func() bool {
			before := w.gaveWay.Load()
			w.giveWay()
			return w.gaveWay.Load() > before
		}
		long := func() bool {
			go func() {
				for end := heist.Ticks() + heist.TicksIn(2*time.Millisecond); heist.Ticks() < end; {
				}
			}()
			untilGiveWayIsDue()
			return gives() && w.backoffUntil > w.gaveWayAt
		}
		require.True(t, testutil.Eventually(long)) // once in 61 times Go picks the worker itself next
		require.Greater(t, w.backoffUntil-w.gaveWayAt, heist.TicksIn(time.Millisecond))
		require.LessOrEqual(t, w.backoffUntil-w.gaveWayAt, heist.TicksIn(maxTurn))
		w.backoffUntil = heist.Ticks() + heist.TicksIn(time.Hour)
		untilGiveWayIsDue()
		require.False(t, gives())
		w.backoffUntil = 0
		require.True(t, gives())
	})
}

// TestAWaiterIsSpareWhereOthersLookForWorkInVain, and only then looks at its latch for longer.
func TestAWaiterIsSpareWhereOthersLookForWorkInVain(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	spare := func(w *Worker, state policy.State) bool {
		before := p.core.Sleep.Load()
		defer setState(w, before)
		setState(w, state)
		return w.isSpare()
	}
	require.NoError(t, p.Run(func(w *Worker) {
		require.True(t, spare(w, 0), "a guest makes room for one more")
		require.True(t, spare(w, policy.OneSleeper))
		require.False(t, spare(w, -policy.OneSleeper), "more guests than sleepers")
		require.True(t, spare(w, policy.OneSearching-policy.OneSleeper))
	}))
	onlyWorker(t, p, func(w *Worker) {
		require.False(t, spare(w, 0), "all have something to do")
		require.True(t, spare(w, policy.OneSleeper))
		require.True(t, spare(w, policy.OneSearching))
	})
}

// TestWhoEndsAWaitLetsTheWaiterGoOn before it searches and sleeps: on one P, the waiter goes on before the
// worker has gone to sleep.
func TestWhoEndsAWaitLetsTheWaiterGoOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(2), WithPinning(PinNone)) // a guest computes in the stead of one
	while := func(condition func() bool) {
		for condition() {
			runtime.Gosched()
		}
	}
	waits := func(ws *waiters) bool {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		return ws.over != nil
	}
	for name, wait := range map[string]func() (parks uint64){
		"future": func() uint64 {
			ready, begun := make(chan *Future[int], 1), make(chan struct{})
			f := Async(p, func(*Worker) (int, error) {
				close(begun)
				f := <-ready
				while(func() bool { return !waits(&f.waiters) })
				return 1, nil
			})
			<-begun // otherwise the waiter would begin it
			ready <- f
			_, _ = f.Wait(context.Background())
			return p.Stats().Total().Parks
		},
		"group": func() uint64 {
			g := newGroup(p)
			g.Go(func() error { while(func() bool { return !waits(&g.ended) }); return nil })
			_ = g.Wait()
			return p.Stats().Total().Parks
		},
		"fork": func() (parks uint64) {
			_ = p.Run(func(w *Worker) {
				stolenJoin(w, nop[int], func(*Worker) int { while(func() bool { return w.waitsFor.Load() == nil }); return 1 })
				parks = p.Stats().Total().Parks
			})
			return parks
		},
	} {
		t.Run(name, func(t *testing.T) {
			const rounds = 40
			first := 0
			for range rounds {
				requireAtRest(t, p)
				sawGaps(p, math.MaxInt64) // so that no worker stays awake, and gives way then
				before := p.Stats().Total().Parks
				if wait() == before {
					first++
				}
			}
			require.Greater(t, first, rounds/2, "the system may take the worker's thread away now and then")
		})
	}
}

// TestALoopSeesItsContextWhileNobodyElseCan, because the context's goroutine gets no P.
func TestALoopSeesItsContextWhileNobodyElseCan(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(20*time.Millisecond))
	defer cancel()
	require.ErrorIs(t, For(p.With(ctx), math.MaxInt, func(int) { work(100) }), context.DeadlineExceeded)
}

func TestAWorkerComesToItsOwnTasksForEveryPollPeriod(t *testing.T) {
	for _, period := range []int{1, 2, 3, 61} {
		p := newPool(t, WithWorkers(1), WithTuning(Tuning{PollPeriod: period}))
		var own, outside atomic.Int64
		var again func(*Worker)
		again = func(*Worker) {
			if outside.Add(1) < 10_000 && own.Load() == 0 {
				_ = p.Go(again)
			}
		}
		done := make(chan struct{})
		onlyWorker(t, p, func(w *Worker) {
			for range 100 {
				_ = p.Go(again)
			}
			require.NoError(t, w.Go(func(*Worker) { own.Add(1); close(done) }))
		})
		require.True(t, closed(done))
		require.Less(t, outside.Load(), int64(1000))
		requireAtRest(t, p)
	}
}

func TestLoopsOverAsManyItemsAsThereAre(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for _, n := range []int{math.MaxInt / 5, math.MaxInt / 2, math.MaxInt} {
		var last atomic.Int64
		var wrong atomic.Bool
		ctx, cancel := context.WithCancelCause(context.Background())
		enough := errors.New("enough")
		err := ForRange(p.With(ctx), n, func(lo, hi int) {
			if lo < 0 || hi < lo || hi > n {
				wrong.Store(true)
			}
			if last.Add(1) == 200 {
				cancel(enough)
			}
			work(100)
		})
		require.False(t, wrong.Load(), "%d items", n)
		if err != nil {
			require.ErrorIs(t, err, enough)
		}
		cancel(nil)
	}
	require.Equal(t, 100, times(16, 7, 100))
	require.Equal(t, math.MaxInt, times(16, math.MaxInt/8, math.MaxInt))
}

func TestWhatNobodyMadeIsCalledThat(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for what, use := range map[string]func(){
		"a Group":     func() { new(Group).Go(func() error { return nil }) },
		"its Wait":    func() { _ = new(Group).Wait() },
		"its TryGo":   func() { new(Group).TryGo(func() error { return nil }) },
		"its limit":   func() { new(Group).SetLimit(1) },
		"its members": func() { new(Group).GoWorker(func(*Worker) error { return nil }) },
		"a Worker":    func() { new(Worker).Do(func(*Worker) {}) },
		"none":        func() { (*Worker)(nil).Block(func() {}) },
		"a Scope":     func() { new(Scope).Go(nil, func(*Worker) {}) },
		"Stats":       func() { new(Pool).Stats() },
		"a scope that has ended": func() {
			_ = p.Run(func(w *Worker) {
				var over *Scope
				w.Scope(func(s *Scope) { over = s })
				over.Go(w, func(*Worker) {})
			})
		},
	} {
		err, ok := testutil.Caught(use).(error)
		require.True(t, ok, what)
		require.ErrorContains(t, err, "pool: ", what)
	}
	_, err := (*Future[int])(nil).Wait(context.Background())
	require.ErrorContains(t, err, "not made by Async")
	_, err = new(Recursion[int, int]).Run(p, 1)
	require.ErrorContains(t, err, "not made by Recursive")
	require.Error(t, new(Worker).Go(func(*Worker) {}))
}

func TestWhatIsNilIsCalledThat(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var none *Pool
	var noWorker *Worker
	nothing := func(*Worker) {}
	for _, place := range []Place{nil, none, noWorker, (*View)(nil), new(Pool)} {
		require.Error(t, For(place, 10, func(int) {}))
		require.Error(t, ForRange(place, 10, func(*Worker, int, int) {}))
	}
	for _, bad := range []*Pool{nil, new(Pool)} {
		require.ErrorContains(t, bad.Run(nothing), "not made by New")
		require.ErrorContains(t, bad.Go(nothing), "not made by New")
		require.ErrorContains(t, bad.TrySubmit(nothing), "not made by New")
		require.ErrorContains(t, bad.Close(), "not made by New")
		ctx := context.Background()
		require.ErrorContains(t, bad.Submit(ctx, nothing), "not made by New")
		require.ErrorContains(t, bad.Pause(ctx), "not made by New")
		require.ErrorContains(t, bad.Resize(1), "not made by New")
		require.ErrorContains(t, bad.Shutdown(ctx), "not made by New")
		bad.Resume()
		_, err := Async(bad, func(*Worker) (int, error) { return 1, nil }).Wait(context.Background())
		require.ErrorContains(t, err, "not made by New")
	}
	var noContext context.Context
	require.ErrorContains(t, testutil.Caught(func() { p.With(noContext) }).(error), "nil context")
	require.ErrorContains(t, p.Submit(noContext, nothing), "nil context")
	require.ErrorContains(t, p.Shutdown(noContext), "nil context")
	f := Async(p, func(*Worker) (int, error) { return 1, nil })
	_, err := f.Wait(noContext)
	require.ErrorContains(t, err, "nil context")
	n, err := f.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestAnotherFunctionsWorkerIsRefused(t *testing.T) {
	if goroutineIDIsSlow {
		t.Skip("goroutines are told apart only where that is cheap")
	}
	p := newPool(t, WithWorkers(2))
	require.NoError(t, p.Run(func(outer *Worker) {
		stolenJoin(outer, nop[int], func(*Worker) int {
			for _, use := range []func(){
				func() { outer.Do(func(*Worker) {}, func(*Worker) {}) },
				func() {
					if testutil.UnderRace { // it sees the misuse before it is refused
						panic(errors.New("a worker of another function"))
					}
					Join(outer, fib, 1, fib, 1)
				},
				func() { outer.Scope(func(*Scope) {}) },
				func() { panic(For(outer, 1000, func(int) {})) }, // a call that can return an error returns it
				func() { panic(outer.With(context.Background()).Run(func(*Worker) {})) },
				func() { panic(Do(outer, func(*Worker) {})) },
				func() {
					inner, _, cancel := WithCancel(outer)
					defer cancel(nil)
					_, err := forkFib.Run(inner, 3)
					panic(err)
				},
				func() { outer.Stop(io.EOF) },
				func() { outer.Block(func() {}) },
				outer.Yield,
			} {
				err, _ := testutil.Caught(use).(error)
				require.ErrorContains(t, err, "worker of another function")
			}
			return 0
		})
	}))
}

func TestWorkersHaveNoLabelsOfOthers(t *testing.T) {
	var p *Pool
	pprof.Do(context.Background(), pprof.Labels("whose", "New's"), func(context.Context) { p = newPool(t, WithWorkers(1)) })
	count := func() int {
		n := 0
		profile := pprof.Lookup("goroutine")
		var text writer
		require.NoError(t, profile.WriteTo(&text, 1))
		for i := 0; i+len("New's") <= len(text); i++ {
			if string(text[i:i+len("New's")]) == "New's" {
				n++
			}
		}
		return n
	}
	inside := make(chan struct{})
	release := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(inside); <-release }))
	<-inside
	require.Zero(t, count())
	close(release)

	// The goroutine for the network does not have the labels of the task that needs it first, either.
	looked := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		pprof.Do(context.Background(), pprof.Labels("whose", "New's"), func(context.Context) { w.pollNetwork(heist.Ticks()) })
		close(looked)
	}))
	<-looked
	require.True(t, testutil.Eventually(func() bool { return count() == 0 }))
}

type writer []byte

func (w *writer) Write(b []byte) (int, error) { *w = append(*w, b...); return len(b), nil }

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

func TestWhatIsCancelledBeforeItBeginsIsSkippedAndCounted(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release := occupyAll(t, p)
	ctx, cancel := context.WithCancelCause(context.Background())
	g, _ := p.Group(ctx)
	for range 10 {
		g.Go(func() error { t.Error("it runs"); return nil })
		never := func(*Worker) { t.Error("it runs") }
		require.NoError(t, p.Submit(ctx, never))
		require.NoError(t, p.Submit(ctx, never, StartBy(time.Now(), never)))
	}
	cancel(io.EOF)
	release()
	require.ErrorIs(t, g.Wait(), io.EOF)
	require.Equal(t, 10, g.Skipped())
	requireAtRest(t, p)
	require.EqualValues(t, 30, p.Stats().Skipped)

	failing := newGroup(p)
	release = occupyAll(t, p)
	failing.Go(func() error { return io.ErrUnexpectedEOF })
	for range 5 {
		failing.Go(func() error { t.Error("it runs"); return nil })
	}
	release()
	require.ErrorIs(t, failing.Wait(), io.ErrUnexpectedEOF)
	require.Equal(t, 5, failing.Skipped())
}

func TestFreePsAreGivenBackOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range testutil.Stress(30) {
		testutil.Together(8, func(int) {
			p, err := New(WithWorkers(1), WithTuning(Tuning{FreePs: 1}))
			if err != nil {
				t.Error(err)
				return
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})()
		require.Equal(t, before, runtime.GOMAXPROCS(0))
	}
}

// # What stays behind

// TestScopesLeaveNothingBehind in the run queue of a worker that never returns to its queue.
func TestScopesLeaveNothingBehind(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	onlyWorker(t, p, func(w *Worker) {
		for range testutil.Stress(10_000) {
			w.Scope(func(s *Scope) {
				for range 4 {
					s.Go(w, func(*Worker) {})
				}
			})
		}
		require.Zero(t, w.queued())
		require.NoError(t, p.TrySubmit(func(*Worker) {}))
	})
}

// TestALoopThatRecoversPanicsLeavesABlockOfFrames, and no more, at any depth of forks.
func TestALoopThatRecoversPanicsLeavesABlockOfFrames(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, depth := range []int{0, 1, policy4, 300} {
		onlyWorker(t, p, func(w *Worker) {
			var most int
			dive(w, depth, func(w *Worker) {
				for range 5000 {
					testutil.Caught(func() {
						Join(w, func(*Worker, int) int { panic("recovered") }, 0, nop1, 0)
					})
					for _, s := range w.stacks {
						most = max(most, s.depth())
					}
				}
			})
			require.LessOrEqual(t, most, depth+2*blockLen+1, "at depth %d", depth)
		})
	}
}

const policy4 = 6 // a little more than the forks that are always public

// TestALargeArgumentIsGarbageWhenItsJoinIsOver, though the worker stays busy.
func TestALargeArgumentIsGarbageWhenItsJoinIsOver(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	onlyWorker(t, p, func(w *Worker) {
		collected := make(chan struct{})
		func() {
			large := new([1 << 20]byte)
			runtime.SetFinalizer(large, func(*[1 << 20]byte) { close(collected) })
			Join(w, nop1, 0, func(_ *Worker, b *[1 << 20]byte) byte { return b[0] }, large)
		}()
		require.True(t, testutil.Eventually(func() bool {
			runtime.GC()
			select {
			case <-collected:
				return true
			default:
				return false
			}
		}), "a frame keeps it alive")
	})
}

// TestForkStacksShrink: what a deep recursion needed is garbage when the worker has nothing to do.
func TestForkStacksShrink(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var block weak.Pointer[frame[application[int, int], int]]
	onlyWorker(t, p, func(w *Worker) {
		dive(w, 20*blockLen, func(w *Worker) {
			s := applications[int, int](w)
			require.Greater(t, s.bottom, 2*blockLen)
			block = weak.Make(s.at(2 * blockLen))
		})
	})
	requireAtRest(t, p)
	require.True(t, testutil.Eventually(func() bool {
		runtime.GC()
		return block.Value() == nil
	}), "a block of frames is kept")
}

// TestWhoGivesWayLetsOthersRun, on one P, while no look at the network is due.
func TestWhoGivesWayLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	ran := 0
	done := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		defer close(done)
		for range 100 {
			p.networkDue.Store(heist.Ticks() + heist.TicksIn(time.Hour))
			var other atomic.Bool
			go other.Store(true)
			untilGiveWayIsDue()
			w.backoffUntil = 0 // the last turn of the others may have taken long, on a busy machine
			w.giveWay()
			if other.Load() {
				ran++
			}
		}
	}))
	<-done
	require.Greater(t, ran, 90)
}

func TestAcceptedTasksThatNobodyElseSeesKeepTheWorkerInItsPlace(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	done := make(chan [2]bool)
	require.NoError(t, p.Go(func(w *Worker) {
		w.place.core.Mail.Add(1)
		without := w.isControlled()
		w.stash = append(w.stash, new(task))
		with := w.isControlled()
		w.stash = nil
		w.place.core.Mail.Add(-1)
		done <- [2]bool{without, with}
	}))
	require.Equal(t, [2]bool{true, false}, <-done)
}

// TestInnerCallsLeaveNoMarks: a task that goes on for ever may make any number of calls, so none may leave an
// unwind point.
func TestInnerCallsLeaveNoMarks(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.NoError(t, p.Run(func(w *Worker) {
		for range 10 {
			require.NoError(t, For(w.With(ctx), 10, func(int) {}))
			w.Scope(func(s *Scope) { s.Go(w, func(*Worker) {}) })
			_ = testutil.Caught(func() { w.Scope(func(*Scope) { panic(io.EOF) }) })
		}
		require.Empty(t, w.unwindPoints)
	}))
}

func TestAGuestIsNotTakenForTheOneBefore(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range 3 {
		require.NoError(t, p.Run(func(w *Worker) {
			require.Zero(t, w.gaveWayAt)
			require.False(t, w.asked)
			require.Nil(t, w.cancelScope)
			untilGiveWayIsDue()
			w.giveWay()
			require.NotZero(t, w.gaveWayAt)
			w.asked = true
		}))
	}
}

// TestCloseWaitsForTasksThatRunBesideAWorker: accepted tasks are taken from a busy worker, which is still busy
// when all of them have run.
func TestCloseWaitsForTasksThatRunBesideAWorker(t *testing.T) {
	const tasks = 8
	p := newPool(t, WithWorkers(1))
	busy, free := make(chan struct{}), make(chan struct{})
	var ran atomic.Int32
	require.NoError(t, p.Go(func(w *Worker) {
		for range tasks { // the newest lies in the slot
			_ = w.Go(func(*Worker) { ran.Add(1) })
		}
		close(busy)
		<-free
	}))
	<-busy
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	require.True(t, testutil.Eventually(func() bool { return !p.places[0].injector().Push(taskOf(func(*Worker) {})) }))
	loot, err := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	require.NoError(t, err)
	for range tasks { // a steal may take several tasks
		p.runBeside(loot)
	}
	require.True(t, testutil.Eventually(func() bool { return ran.Load() == tasks && p.core.Active() == 1 }))
	select {
	case <-closed:
		require.Fail(t, "a task still runs")
	case <-time.After(5 * time.Millisecond):
	}
	close(free)
	require.NoError(t, <-closed)
}

func TestARecursionBeginsWithAsFewForksThatGiveWayAsAnyOther(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		s := stackOf[frames[application[int, int], int]](w)
		s.levels = policy.AlwaysPublic + 5
		Join(w, func(*Worker, int) int {
			require.Equal(t, policy.AlwaysPublic, s.levels)
			require.Equal(t, policy.AlwaysPublic, s.eager())
			return 0
		}, 0, nop1, 0)
	}))
}

// TestTheFirstOfTheWorkersOnACPUHasIt: a waker chooses the place that is bound to its own CPU last.
func TestTheFirstOfTheWorkersOnACPUHasIt(t *testing.T) {
	cpu := allowed(t)[0]
	p := newPool(t, WithCPUs(cpu), WithWorkers(3))
	require.Equal(t, 0, p.onCPU[cpu])
}

// TestAForkOfBothCanBeStolenHoweverDeepItIs: it is private at first, and the next fork publishes it.
func TestAForkOfBothCanBeStolenHoweverDeepItIs(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var down func(w *Worker, n int) int
	down = func(w *Worker, n int) int {
		if n > 0 {
			x, _ := both(w, func(w *Worker) int { return down(w, n-1) }, func(*Worker) int { return 0 })
			return x
		}
		begun := make(chan struct{})
		x, _ := both(w, func(w *Worker) int {
			begins := testutil.Eventually(func() bool {
				both(w, nop[int], nop[int])
				select {
				case <-begun:
					return true
				default:
					return false
				}
			})
			if !begins {
				return 0
			}
			return 1
		}, func(*Worker) int { close(begun); return 0 })
		return x
	}
	require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, 1, down(w, 3*policy.AlwaysPublic)) }))
}

// TestACoroutineMayWaitForItsGroupsBacklog: the function that waits for the coroutine keeps its turn, and what the coroutine
// waits for waits for that turn, or for that of another group.
func TestACoroutineMayWaitForItsGroupsBacklog(t *testing.T) {
	for name, groups := range map[string]int{"the same group": 1, "another group": 2} {
		t.Run(name, func(t *testing.T) {
			forLawPools(t, func(t *testing.T, p *Pool) {
				a := newGroup(p)
				a.AtMost(1)
				b := a
				if groups == 2 {
					b = newGroup(p)
					b.AtMost(1)
				}
				sent, held := make(chan struct{}), make(chan struct{})
				a.Go(func() error {
					next, stop := iter.Pull(func(yield func(int) bool) {
						p.Block(func() { <-sent })
						yield(1)
					})
					defer stop()
					next()
					return nil
				})
				if groups == 2 {
					b.Go(func() error { // as the first one does, for another coroutine
						next, stop := iter.Pull(func(yield func(int) bool) {
							p.Block(func() { <-held })
							yield(1)
						})
						defer stop()
						next()
						return nil
					})
				}
				for range 3 {
					b.Go(func() error { return nil })
				}
				b.Go(func() error { close(sent); close(held); return nil })
				require.NoError(t, a.Wait())
				require.NoError(t, b.Wait())
				require.Empty(t, p.backlogs.all())
				require.Zero(t, a.turns.Taken)
				require.Zero(t, b.turns.Taken)
			})
		})
	}
}
