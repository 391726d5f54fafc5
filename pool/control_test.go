package pool

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// crowd counts the goroutines that are in the middle of something at the same time.
type crowd struct{ now, most atomic.Int32 }

func (c *crowd) enter() {
	n := c.now.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
}

func (c *crowd) leave() { c.now.Add(-1) }

// # Block

func TestBlockedTaskDoesNotHoldUpTheOnlyWorker(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(300) {
		ran, went := make(chan struct{}), make(chan bool, 1)
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() { went <- closed(ran) })
		}))
		require.NoError(t, p.Go(func(*Worker) { close(ran) }))
		var did bool
		require.True(t, testutil.Returns(func() { did = <-went }), "the task did not run")
		require.True(t, did, "the other task did not run")
		pause()
	}
	requireAtRest(t, p)
}

// TestBlocksOnTopOfOneAnother has each of many tasks wait for the next one.
func TestBlocksOnTopOfOneAnother(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, depth := range []int{0, 1, 5, 300} {
			p := newPool(t, WithWorkers(workers))
			for range testutil.Stress(20) {
				var failed atomic.Int32
				var chain func(w *Worker, left int, done chan struct{})
				chain = func(w *Worker, left int, done chan struct{}) {
					defer close(done)
					if left == 0 {
						return
					}
					next := make(chan struct{})
					if err := w.Go(func(w *Worker) { chain(w, left-1, next) }); err != nil {
						t.Error(err)
					}
					w.Block(func() {
						if !closed(next) {
							failed.Add(1)
						}
					})
				}
				done := make(chan struct{})
				require.NoError(t, p.Go(func(w *Worker) { chain(w, depth, done) }))
				require.True(t, closed(done))
				require.Zero(t, failed.Load())
				requireAtRest(t, p)
			}
		}
	}
}

// TestAnyNumberOfTasksCanLendTheirPlaces: a task that waits keeps no other task from beginning.
func TestAnyNumberOfTasksCanLendTheirPlaces(t *testing.T) {
	for _, pinning := range []Pinning{PinNone, PinCores} {
		for _, workers := range []int{1, 3} {
			p := newPool(t, WithWorkers(workers), WithPinning(pinning))
			for range testutil.Stress(20) {
				const tasks = 300
				var inside crowd
				release, ended := make(chan struct{}), make(chan struct{}, tasks)
				for range tasks {
					require.NoError(t, p.Go(func(w *Worker) {
						inside.enter()
						w.Block(func() { <-release })
						inside.leave()
						ended <- struct{}{}
					}))
				}
				require.True(t, testutil.Eventually(func() bool { return int(inside.now.Load()) == tasks }),
					"%d tasks of %d wait, with %d workers", inside.now.Load(), tasks, workers)
				close(release)
				for range tasks {
					require.True(t, closed(ended))
				}
				requireAtRest(t, p)
			}
		}
	}
}

// TestSpareRunsWhatTheBlockedWorkerQueued in its LIFO slot, its ring and its batch buffer.
func TestSpareRunsWhatTheBlockedWorkerQueued(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, n := range []int{1, 2, 100, 1000} {
		for range testutil.Stress(10) {
			ran := make(tally, 2*n)
			missing := testutil.NewBarrier(2*n + 1)
			went, queued := make(chan bool, 1), make(chan struct{})
			run := func(i int) { ran[i].Add(1); go missing.Wait() }
			require.NoError(t, p.Go(func(w *Worker) {
				<-queued
				for i := range n {
					if err := w.Go(func(*Worker) { run(i) }); err != nil {
						t.Error(err)
					}
				}
				go missing.Wait()
				w.Block(func() { went <- closed(missing.Open) })
			}))
			for i := range n {
				require.NoError(t, p.Go(func(*Worker) { run(n + i) }))
			}
			close(queued)
			require.True(t, <-went, "the spare did not run everything")
			ran.requireEachOnce(t)
		}
	}
}

func TestBlockInAStolenFork(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		ran, went := make(chan struct{}), false
		require.NoError(t, p.Run(func(w *Worker) {
			stolenJoin(w,
				func(w *Worker) int { return fib(w, 8) },
				func(w *Worker) int {
					if err := p.Go(func(*Worker) { close(ran) }); err != nil {
						t.Error(err)
					}
					w.Block(func() { went = closed(ran) })
					return fib(w, 8)
				})
		}))
		require.True(t, went)
	}
}

// TestForksAreTakenFromABlockedWorker, in whatever way they were made.
func TestForksAreTakenFromABlockedWorker(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		var went atomic.Int32
		wait := func(w *Worker, ran chan struct{}) {
			w.Block(func() {
				if closed(ran) {
					went.Add(1)
				}
			})
		}
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(done)
			a, b := make(chan struct{}), make(chan struct{})
			w.Do(
				func(w *Worker) {
					dive(w, 10, func(w *Worker) { // makes private forks
						Join(w,
							func(w *Worker, _ int) int { wait(w, a); wait(w, b); return 0 }, 0,
							func(w *Worker, _ int) int { close(b); return 0 }, 0)
					})
				},
				func(*Worker) { close(a) })
		}))
		require.True(t, closed(done))
		require.EqualValues(t, 2, went.Load())
	}
}

func TestBlockedGuestFreesItsPlace(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		require.True(t, whenParked(p))
		var inside, outside int
		require.NoError(t, p.Run(func(w *Worker) {
			outside = p.core.Sleep.Load().Sleepers()
			w.Block(func() { inside = p.core.Sleep.Load().Sleepers() })
			require.Equal(t, outside, p.core.Sleep.Load().Sleepers())
		}))
		require.EqualValues(t, 0, outside)
		require.EqualValues(t, 1, inside)
	}
}

func TestGuestBlocksUntilATaskHasRun(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	testutil.Together(4, func(int) {
		for range testutil.Stress(200) {
			err := p.Run(func(w *Worker) {
				ran := make(chan struct{})
				if err := w.Go(func(*Worker) { close(ran) }); err != nil {
					t.Error(err)
				}
				w.Block(func() {
					if !closed(ran) {
						t.Error("the task did not run")
					}
				})
				if fib(w, 6) != serialFib(6) {
					t.Error("wrong")
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	})()
}

// TestPlaceComesBackHoweverTheBlockedFunctionEnds: otherwise a later task would find no stand-in.
func TestPlaceComesBackHoweverTheBlockedFunctionEnds(t *testing.T) {
	var handled atomic.Int32
	p := newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) { handled.Add(1) }))
	n := testutil.Stress(50)
	for range n {
		require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { explode(io.EOF) }) }))
		require.NoError(t, p.Go(func(w *Worker) { w.Block(runtime.Goexit) }))
		require.NoError(t, p.Go(func(w *Worker) {
			require.Same(t, io.EOF, testutil.Caught(func() { w.Block(func() { explode(io.EOF) }) }))
		}))
		require.Same(t, io.EOF, testutil.Caught(func() {
			_ = p.Run(func(w *Worker) { w.Block(func() { explode(io.EOF) }) })
		}))
		require.True(t, testutil.Returns(func() {
			_ = p.Run(func(w *Worker) { w.Block(runtime.Goexit) })
		}))
		ran, went := make(chan struct{}), make(chan bool, 1)
		require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { went <- closed(ran) }) }))
		require.NoError(t, p.Go(func(*Worker) { close(ran) }))
		require.True(t, <-went, "there is no spare any more")
		requireAtRest(t, p)
	}
	require.EqualValues(t, n, handled.Load())
}

func TestBlockRefusesNil(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		require.ErrorContains(t, testutil.Caught(func() { w.Block(nil) }).(error), "Worker.Block was given a nil function")
	}))
}

// TestIdleStandInsDoNotMakeForksHungry: a pool with one place and one guest is not hungry, however many
// idle workers there are.
func TestIdleStandInsDoNotMakeForksHungry(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(20) {
		inside := testutil.NewBarrier(5)
		release, ended := make(chan struct{}), make(chan struct{}, 4)
		for range 4 {
			require.NoError(t, p.Go(func(w *Worker) {
				w.Block(func() { inside.Wait(); <-release })
				ended <- struct{}{}
			}))
		}
		go inside.Wait()
		require.True(t, closed(inside.Open))
		require.True(t, whenParked(p)) // the last stand-in has found nothing
		close(release)
		for range 4 {
			require.True(t, closed(ended))
		}
		requireAtRest(t, p)
		require.NoError(t, p.Run(func(*Worker) { require.False(t, p.core.Sleep.Hungry()) }))
	}
}

// TestStandInGivesThePlaceBack as soon as it is in the middle of nothing, so that no more workers compute
// than there are places: a queued task does not begin before the worker that has come back has ended its
// own.
func TestStandInGivesThePlaceBack(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		inside, back, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var over, early atomic.Bool
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() { <-inside })
			close(back)
			heist.Spin(time.Millisecond)
			over.Store(true)
		}))
		require.NoError(t, p.Go(func(*Worker) { close(inside); testutil.Compute(back) }))
		require.NoError(t, p.Go(func(*Worker) { early.Store(!over.Load()); close(ended) }))
		require.True(t, closed(ended))
		require.False(t, early.Load(), "the stand-in has begun something else")
		requireAtRest(t, p)
	}
}

// # Resize

func TestResizeRefusesWhatThePoolCannotHave(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithTuning(Tuning{MaxWorkers: 3}))
	for _, n := range []int{-1, 0, 4, 1 << 30} {
		require.ErrorContains(t, p.Resize(n), "this pool can have from 1 to 3 workers")
		require.Equal(t, 2, p.Workers())
	}
	require.NoError(t, p.Resize(3))
	require.Equal(t, 3, p.Workers())
	requireAtRest(t, p)
	requireCloses(t, p)
	require.ErrorIs(t, p.Resize(2), ErrClosed)
	require.Equal(t, 3, p.Workers())
}

// requireRunsTogether has n tasks meet, so that each needs a worker of its own.
func requireRunsTogether(t *testing.T, p *Pool, n int) {
	t.Helper()
	meet := testutil.NewBarrier(n)
	ids := make(chan int, n)
	for range n {
		require.NoError(t, p.Go(func(w *Worker) { meet.Wait(); ids <- w.ID() }))
	}
	require.True(t, closed(meet.Open), "%d tasks do not run at once", n)
	seen := make(map[int]bool)
	for range n {
		seen[<-ids] = true
	}
	require.Len(t, seen, n)
}

func TestAllWhoJoinWork(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTuning(Tuning{MaxWorkers: 16}))
	for range testutil.Stress(20) {
		for _, n := range []int{1, 2, 16, 3, 16, 1, 7} {
			require.NoError(t, p.Resize(n))
			require.Equal(t, n, p.Workers())
			requireRunsTogether(t, p, n)
			if rand.N(2) == 0 {
				requireAtRest(t, p)
			}
		}
	}
}

// TestNoMoreRunThanThereShouldBe, after workers that are too many have had the time to leave.
func TestNoMoreRunThanThereShouldBe(t *testing.T) {
	p := newPool(t, WithWorkers(8))
	for range testutil.Stress(20) {
		n := 1 + rand.N(4)
		require.NoError(t, p.Resize(8))
		var stop atomic.Bool
		var inside atomic.Pointer[crowd]
		inside.Store(new(crowd))
		var submitted, ran atomic.Int64
		wait := testutil.Together(2, func(int) {
			for !stop.Load() {
				for submitted.Load()-ran.Load() > 200 {
					runtime.Gosched()
				}
				submitted.Add(1)
				err := p.Go(func(w *Worker) {
					c := inside.Load()
					c.enter()
					runtime.Gosched()
					c.leave()
					fib(w, 4) // may wait for a thief; then a stand-in has its place
					ran.Add(1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		require.True(t, testutil.Eventually(func() bool { return ran.Load() > 100 }))
		require.NoError(t, p.Resize(n))
		left := testutil.Eventually(func() bool { // workers that sleep leave as soon as they are woken
			return openPlaces(p) <= n
		})
		fewer := new(crowd)
		inside.Store(fewer)
		before := ran.Load()
		more := testutil.Eventually(func() bool { return ran.Load() > before+200 })
		stop.Store(true)
		wait()
		require.True(t, left, "nobody leaves")
		require.True(t, more, "nobody works")
		require.LessOrEqual(t, int(fewer.most.Load()), n)
		require.True(t, testutil.Eventually(func() bool { return ran.Load() == submitted.Load() }))
		requireAtRest(t, p)
	}
}

// TestLeaverHandsItsTasksOver: a task fills the queues of its worker, which then has to leave.
func TestLeaverHandsItsTasksOver(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(50) {
		require.NoError(t, p.Resize(4))
		each := 1 + rand.N(400)
		ran := make(tally, 4*each)
		meet, release := testutil.NewBarrier(5), make(chan struct{})
		for who := range 4 {
			require.NoError(t, p.Go(func(w *Worker) {
				meet.Wait()
				<-release
				for i := range each {
					if err := w.Go(func(*Worker) { ran[who*each+i].Add(1) }); err != nil {
						t.Error(err)
					}
				}
			}))
		}
		meet.Wait()
		require.NoError(t, p.Resize(1+rand.N(2)))
		close(release)
		ran.requireEachOnce(t)
		requireAtRest(t, p)
	}
}

// load submits tasks that bring others, in all ways, until it is told to stop, and counts exactly how
// many tasks there should be.
type load struct {
	p              *Pool
	accepted, done atomic.Int64
	blocks         bool
}

func (l *load) count(err error) {
	if err == nil {
		l.accepted.Add(1)
	}
}

func (l *load) leaf(*Worker) { l.done.Add(1) }

func (l *load) tree(w *Worker, depth int) {
	if depth > 0 {
		for range 2 {
			l.count(w.Go(func(w *Worker) { l.tree(w, depth-1) }))
		}
	}
	if l.blocks && depth == 1 && rand.N(4) == 0 {
		w.Block(pause)
	}
	fib(w, 5)
	l.done.Add(1)
}

func (l *load) submit(t *testing.T) {
	if l.accepted.Load()-l.done.Load() > 500 { // the workers are slower
		runtime.Gosched()
		return
	}
	ctx := context.Background()
	switch rand.N(6) {
	case 0, 1:
		l.count(l.p.Go(func(w *Worker) { l.tree(w, 3) }))
	case 2:
		l.count(l.p.Submit(ctx, l.leaf, PriorityHigh))
	case 3:
		l.count(l.p.Submit(ctx, l.leaf, PriorityLow))
	case 4:
		n, _ := l.p.SubmitAll(ctx, []func(*Worker){l.leaf, l.leaf, l.leaf})
		l.accepted.Add(int64(n))
	case 5:
		err := l.p.Run(func(w *Worker) {
			l.count(w.Go(l.leaf))
			if fib(w, 8) != serialFib(8) {
				t.Error("wrong")
			}
		})
		if err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func (l *load) requireAllDone(t *testing.T) {
	t.Helper()
	require.True(t, testutil.Eventually(func() bool { return l.done.Load() == l.accepted.Load() }),
		"%d tasks were accepted, %d ran", l.accepted.Load(), l.done.Load())
}

// loads keeps n goroutines submitting until the function that it returns is called.
func loads(t *testing.T, n int, l *load) (stop func()) {
	var enough atomic.Bool
	wait := testutil.Together(n, func(int) {
		for !enough.Load() {
			l.submit(t)
		}
	})
	return func() {
		enough.Store(true)
		wait()
	}
}

// TestResizeUnderLoadLosesNothing has several goroutines ask for all sizes, while tasks
// bring others and block.
func TestResizeUnderLoadLosesNothing(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		p := newPool(t, WithWorkers(2), WithTuning(Tuning{MaxWorkers: 8}))
		l := &load{p: p, blocks: blocks}
		stop := loads(t, 2, l)
		testutil.Together(3, func(int) {
			for range testutil.Stress(300) {
				if err := p.Resize(1 + rand.N(8)); err != nil {
					t.Error(err)
				}
				pause()
			}
		})()
		stop()
		l.requireAllDone(t)
		requireAtRest(t, p)
		requireRunsTogether(t, p, p.Workers())
	}
}

// TestResizeAmongGuests: forks of guests are computed whichever guests come and go.
func TestResizeAmongGuests(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	var enough atomic.Bool
	wait := testutil.Together(3, func(int) {
		for !enough.Load() {
			_ = p.Run(func(w *Worker) {
				if fib(w, 12) != serialFib(12) {
					t.Error("wrong")
				}
			})
		}
	})
	for range testutil.Stress(300) {
		require.NoError(t, p.Resize(1+rand.N(4)))
		pause()
	}
	enough.Store(true)
	wait()
}

func TestResizeDuringClose(t *testing.T) {
	for range testutil.Stress(200) {
		p, err := New(WithWorkers(1+rand.N(4)), WithTuning(Tuning{MaxWorkers: 6}))
		require.NoError(t, err)
		l := &load{p: p, blocks: true}
		wait := testutil.Together(3, func(who int) {
			for range 100 {
				if who > 0 {
					l.submit(t)
				} else if err := p.Resize(1 + rand.N(6)); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		})
		for range rand.N(20) {
			pause()
		}
		requireCloses(t, p)
		wait()
		require.Equal(t, l.accepted.Load(), l.done.Load(), "tasks that were accepted and tasks that ran")
		require.False(t, p.anyTask())
		require.True(t, testutil.Eventually(func() bool { // a worker that Resize woke at the last moment ends by itself
			n := 0
			p.workers.each(func(w *Worker) {
				if !w.core.Guest {
					n++
				}
			})
			return n == 0
		}), "a worker has not ended")
	}
}

// # Pause

func TestPauseOutsideOnly(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	refused := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "Pause was called inside a task of the same pool")
	}
	result := make(chan error)
	ctx := context.Background()
	require.NoError(t, p.Go(func(*Worker) { result <- p.Pause(ctx) }))
	refused(<-result)
	require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { result <- p.Pause(ctx) }) }))
	refused(<-result)
	require.NoError(t, p.Go(func(*Worker) {
		_ = p.Run(func(*Worker) { result <- p.Pause(ctx) })
	}))
	refused(<-result)
	require.False(t, p.core.IsPaused())

	p.Resume() // does nothing
	requireRunsTogether(t, p, 1)
}

func TestTasksQueueUpWhileThePoolIsPaused(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(50) {
			if rand.N(2) == 0 {
				requireRunsTogether(t, p, workers) // so that the workers are awake
			}
			require.NoError(t, p.Pause(context.Background()))
			n := 1 + rand.N(300)
			ran := make(tally, n)
			var early atomic.Int32
			var resumed atomic.Bool
			for i := range n {
				require.NoError(t, p.TrySubmit(func(*Worker) {
					if !resumed.Load() {
						early.Add(1)
					}
					ran[i].Add(1)
				}, Priority(rand.N(int(priorities)))))
			}
			pause()
			resumed.Store(true)
			p.Resume()
			ran.requireEachOnce(t)
			require.Zero(t, early.Load(), "tasks that ran while the pool was paused")
		}
	}
}

// TestNoTaskRunsWhenPauseHasReturned looks during each of many pauses.
func TestNoTaskRunsWhenPauseHasReturned(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		p := newPool(t, WithWorkers(workers))
		var inside crowd
		var stop atomic.Bool
		var submitted, ran atomic.Int64
		wait := testutil.Together(2, func(int) {
			for !stop.Load() {
				if submitted.Load()-ran.Load() > 200 {
					runtime.Gosched()
					continue
				}
				submitted.Add(1)
				err := p.Go(func(w *Worker) {
					inside.enter()
					pause()
					inside.leave()
					ran.Add(1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		for range testutil.Stress(200) {
			if err := p.Pause(context.Background()); err != nil {
				t.Error(err)
			}
			before := ran.Load()
			for range 10 {
				if n := inside.now.Load(); n != 0 {
					t.Errorf("%d tasks run", n)
				}
				pause()
			}
			if n := ran.Load(); n != before {
				t.Errorf("%d tasks ran", n-before)
			}
			p.Resume()
			pause()
		}
		stop.Store(true)
		wait()
		require.True(t, testutil.Eventually(func() bool { return ran.Load() == submitted.Load() }))
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(begun); <-release }))
	require.True(t, closed(begun))
	ctx, cancel := context.WithCancelCause(context.Background())
	result := make(chan error, 1)
	go func() { result <- p.Pause(ctx) }()
	require.True(t, testutil.Eventually(func() bool { return p.core.IsPaused() }))
	cancel(io.EOF)
	select {
	case err := <-result:
		require.ErrorIs(t, err, io.EOF)
	case <-time.After(testutil.Patience):
		t.Fatal("Pause does not return")
	}
	close(release)
	require.NoError(t, p.Pause(context.Background()))
	p.Resume()
	requireRunsTogether(t, p, 2)
}

func TestResumeEndsAPauseThatStillWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(50) {
		begun, release := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(begun); <-release }))
		require.True(t, closed(begun))
		results := make(chan error, 3)
		for range 3 {
			go func() { results <- p.Pause(context.Background()) }()
		}
		require.True(t, testutil.Eventually(func() bool { return p.core.Awaiting() == 3 }))
		p.Resume()
		// A caller of Pause that looked only after others had paused again would wait on.
		for range 3 {
			select {
			case err := <-results:
				require.ErrorContains(t, err, "Resume was called before all workers had paused")
			case <-time.After(testutil.Patience):
				t.Fatal("Pause does not return")
			}
		}
		close(release)
		requireRunsTogether(t, p, 2)
	}
}

func TestCloseEndsAPause(t *testing.T) {
	for range testutil.Stress(100) {
		p := newPool(t, WithWorkers(1+rand.N(4)))
		require.NoError(t, p.Pause(context.Background()))
		var ran atomic.Int64
		for range 50 {
			require.NoError(t, p.Go(func(w *Worker) { ran.Add(1) }))
		}
		require.NoError(t, p.Submit(context.Background(), func(*Worker) { ran.Add(1) }, Delay(time.Microsecond)))
		require.Zero(t, ran.Load())
		requireCloses(t, p)
		require.EqualValues(t, 51, ran.Load())
		require.ErrorIs(t, p.Pause(context.Background()), ErrClosed)
		p.Resume()
	}
}

// TestCloseEndsAPauseThatStillWaits: a task runs on, and so Pause waits.
func TestCloseEndsAPauseThatStillWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	begun, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(begun); <-release }))
	require.True(t, closed(begun))
	result := make(chan error, 1)
	go func() { result <- p.Pause(context.Background()) }()
	require.True(t, testutil.Eventually(func() bool { return p.core.Awaiting() == 1 }))
	wait := testutil.Together(1, func(int) {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case err := <-result:
		require.Error(t, err)
	case <-time.After(testutil.Patience):
		t.Fatal("Pause does not return")
	}
	close(release)
	require.True(t, testutil.Returns(wait))
}

func TestGuestsWorkWhileThePoolIsPaused(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(20) {
		require.NoError(t, p.Pause(context.Background()))
		var ran atomic.Bool
		testutil.Together(3, func(int) {
			require.NoError(t, p.Run(func(w *Worker) {
				require.Equal(t, serialFib(12), fib(w, 12))
				require.NoError(t, w.Go(func(*Worker) { ran.Store(true) }))
				w.Do(func(*Worker) {}, func(*Worker) {}, func(w *Worker) { fib(w, 5) })
			}))
		})()
		require.False(t, ran.Load())
		p.Resume()
		require.True(t, testutil.Eventually(ran.Load))
	}
}

// TestWhatARunningTaskWaitsForGoesOnInAPause: it may lie in the queues of workers that are
// held already.
func TestWhatARunningTaskWaitsForGoesOnInAPause(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(50) {
			begun, release := make(chan struct{}), make(chan struct{})
			var ran atomic.Int32
			require.NoError(t, p.Go(func(w *Worker) {
				close(begun)
				<-release
				g := newGroup(p)
				for range 20 {
					g.GoWorker(func(w *Worker) error { fib(w, 5); ran.Add(1); return nil })
				}
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
				fib(w, 10)
			}))
			require.True(t, closed(begun))
			result := make(chan error, 1)
			go func() { result <- p.Pause(context.Background()) }()
			require.True(t, testutil.Eventually(func() bool { return p.core.IsPaused() }))
			pause()
			close(release)
			require.True(t, testutil.Returns(func() {
				if err := <-result; err != nil {
					t.Error(err)
				}
			}), "Pause waits for a task that waits for others")
			require.EqualValues(t, 20, ran.Load())
			p.Resume()
		}
	}
}

func TestResizeWhileThePoolIsPaused(t *testing.T) {
	p := newPool(t, WithWorkers(4), WithTuning(Tuning{MaxWorkers: 8}))
	for range testutil.Stress(50) {
		require.NoError(t, p.Pause(context.Background()))
		ran := make(tally, 50)
		for i := range ran {
			require.NoError(t, p.Go(func(*Worker) { ran[i].Add(1) }))
		}
		n := 1 + rand.N(8)
		require.NoError(t, p.Resize(n))
		require.NoError(t, p.Pause(context.Background()), "those who join are held as well")
		for i := range ran {
			require.Zero(t, ran[i].Load())
		}
		p.Resume()
		ran.requireEachOnce(t)
		requireRunsTogether(t, p, n)
		requireAtRest(t, p)
	}
}

// TestPausesAtRandomLoseNothing has several goroutines pause and resume under load.
func TestPausesAtRandomLoseNothing(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		l := &load{p: p, blocks: true}
		stop := loads(t, 2, l)
		testutil.Together(4, func(who int) {
			for range testutil.Stress(200) {
				if who%2 == 0 {
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(time.Millisecond))
					_ = p.Pause(ctx)
					cancel()
				}
				pause()
				p.Resume()
			}
		})()
		p.Resume()
		stop()
		l.requireAllDone(t)
		requireAtRest(t, p)
	}
}

// # Close

func TestShutdownSaysWhatItLeaves(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	release := make(chan struct{})
	begun := make(chan struct{}, 2)
	var ran atomic.Int32
	queued := 0
	for range 2 {
		require.NoError(t, p.Go(func(w *Worker) {
			begun <- struct{}{}
			testutil.Compute(release)
		}))
	}
	require.True(t, closed(begun))
	require.True(t, closed(begun))
	for i := range 10 { // in all queues
		require.NoError(t, p.TrySubmit(func(*Worker) { ran.Add(1) }, Priority(i%int(priorities))))
		queued++
	}
	const delay = 500 * time.Millisecond
	start := time.Now()
	require.NoError(t, p.TrySubmit(func(*Worker) { ran.Add(1) }, Delay(delay)))

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var err error
	require.True(t, testutil.Returns(func() { err = p.Shutdown(ctx) }))
	slow := time.Since(start) >= delay
	var left *UnfinishedError
	require.ErrorAs(t, err, &left)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrClosed)
	require.Equal(t, queued+1, left.Queued+left.Delayed)
	require.True(t, slow || left.Delayed == 1)
	require.Equal(t, 2, left.Running)
	require.ErrorContains(t, err, "2 workers are at work")

	gone, cancel2 := context.WithCancelCause(context.Background())
	cancel2(io.EOF)
	require.True(t, testutil.Returns(func() { err = p.Shutdown(gone) }))
	require.ErrorIs(t, err, io.EOF, "somebody may give up twice")

	close(release)
	requireCloses(t, p)
	require.EqualValues(t, queued+1, ran.Load())
	require.ErrorIs(t, p.Close(), ErrClosed)
	require.ErrorIs(t, p.Shutdown(gone), ErrClosed, "the end has come before the context's")
}

// TestShutdownCountsBlockedTasksOnce, and not the stand-ins that have gone to sleep.
func TestShutdownCountsBlockedTasksOnce(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	release := make(chan struct{})
	inside := testutil.NewBarrier(4)
	for range 3 {
		require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { inside.Wait(); <-release }) }))
	}
	go inside.Wait()
	require.True(t, closed(inside.Open))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	require.True(t, testutil.Eventually(func() bool { // workers that look for work are counted as well
		var left *UnfinishedError
		return errors.As(p.Shutdown(gone), &left) && left.Running == 3 && left.Queued == 0 && left.Delayed == 0
	}))
	close(release)
	requireCloses(t, p)
}

func TestWorkersEndWithoutAnybodyWhoWaits(t *testing.T) {
	for range testutil.Stress(50) {
		p := newPool(t, WithWorkers(2))
		release := make(chan struct{})
		var ran atomic.Int32
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() { <-release })
			ran.Add(1)
		}))
		require.NoError(t, p.TrySubmit(func(*Worker) { ran.Add(1) }, Delay(time.Millisecond)))
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		require.Error(t, p.Shutdown(gone))
		close(release)
		require.True(t, closed(p.closed), "the pool has not ended")
		require.EqualValues(t, 2, ran.Load())
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.Close(), ErrClosed)
	}
}

// TestCloseUnderFullLoad: tasks keep giving others to their own pool while it closes.
func TestCloseUnderFullLoad(t *testing.T) {
	for round := range testutil.Stress(40) {
		options := []Option{WithWorkers(1 + round%5)}
		if round%3 == 0 {
			options = append(options, WithPinning(PinNone))
		}
		p, err := New(options...)
		require.NoError(t, err)
		l := &load{p: p, blocks: true}
		var late atomic.Int64
		var forever func(w *Worker)
		forever = func(w *Worker) { // and for a while when the pool closes, which keeps it from its end
			var err error
			if p.core.Closing.Load() && late.Add(1) > 200 {
				l.done.Add(1)
				return
			}
			switch rand.N(4) {
			case 0:
				err = w.Go(forever)
			case 1:
				err = p.Go(forever)
			case 2:
				err = p.TrySubmit(forever, Priority(rand.N(int(priorities))))
			case 3:
				w.Block(func() { err = p.TrySubmit(forever, Delay(rand.N(100*time.Microsecond))) })
			}
			if err != nil {
				t.Error(err)
			}
			l.count(err)
			l.done.Add(1)
		}
		for range 8 {
			l.count(p.Go(forever))
		}
		stop := loads(t, 2, l)
		for range rand.N(20) {
			pause()
		}
		requireCloses(t, p)
		// A guest may have been let in before, and its task accepted; it ends on its own.
		stop()
		require.Equal(t, l.accepted.Load(), l.done.Load())
	}
}

// # Many workers, and few Ps

// everything does a little of all that a pool can do.
func everything(t *testing.T, p *Pool, sizes ...int) {
	for _, n := range sizes {
		require.NoError(t, p.Resize(n))
		requireRunsTogether(t, p, n)
		require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(15), fib(w, 15)) }))
		ran := make(tally, 1000)
		for i := range ran {
			require.NoError(t, p.Go(func(w *Worker) {
				ran[i].Add(1)
				switch i % 100 {
				case 0:
					w.Block(pause)
				case 1:
					fib(w, 8)
				}
			}))
			if i%100 == 0 {
				pause()
			}
		}
		ran.requireEachOnce(t)
		g := newGroup(p)
		for range 2 * n {
			g.GoWorker(func(w *Worker) error {
				stolenOrNot, _ := Join(w, fib, 5, fib, 5)
				if stolenOrNot != serialFib(5) {
					return errors.New("wrong")
				}
				return nil
			})
		}
		require.True(t, testutil.Returns(func() {
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		}))
		require.NoError(t, p.Pause(context.Background()))
		p.Resume()
		requireAtRest(t, p)
	}
}

func TestManyMoreWorkersThanCPUs(t *testing.T) {
	for workers, pinning := range map[int]Pinning{64: PinNone, 65: PinAuto, 200: PinAuto} {
		p := newPool(t, WithWorkers(workers), WithPinning(pinning))
		everything(t, p, workers, 1, workers)
		requireCloses(t, p)
	}
}

func TestControlOnASingleP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, workers := range []int{1, 3, 16} {
		p := newPool(t, WithWorkers(workers))
		everything(t, p, 1, workers, 1)
		requireCloses(t, p)
	}
}

// # Hot workers

// whenHot waits until one worker watches and the others sleep.
func whenHot(p *Pool) bool {
	return testutil.Eventually(func() bool { return p.core.IsWatched() && unrest(p) == "" })
}

func TestOneWorkerOfAnIdlePoolStaysHot(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers), WithTuning(Tuning{HotWorker: true}))
		rounds, woken := 0, 0
		for range testutil.Stress(50) {
			require.True(t, whenHot(p), unrest(p))
			parks := p.Stats().Total().Parks
			ran := make(chan struct{})
			looked := p.core.SearchedAt.Load()
			require.NoError(t, p.Go(func(*Worker) { close(ran) }))
			trusted := heist.Ticks()-looked <= p.core.TicksAnswer // otherwise the hot worker shared its CPU with the test, say
			require.True(t, closed(ran))
			require.True(t, whenHot(p), unrest(p))
			if trusted {
				rounds++
				if p.Stats().Total().Parks != parks { // the hot worker had the task before Go looked for a searcher, so Go woke another
					woken++
				}
			}
			if workers > 1 {
				require.NoError(t, p.Run(func(w *Worker) {
					stolenJoin(w, nop[int], nop[int])
					require.Equal(t, serialFib(12), fib(w, 12))
				}))
			}
			requireRunsTogether(t, p, workers)
		}
		require.LessOrEqual(t, woken, 1+rounds/4, "of %d tasks for which a worker was awake", rounds)
		require.True(t, whenHot(p))
		requireCloses(t, p)
		require.False(t, p.core.IsWatched())
	}
}

func TestHotPoolPausesResizesAndCloses(t *testing.T) {
	for range testutil.Stress(30) {
		p := newPool(t, WithWorkers(3), WithTuning(Tuning{MaxWorkers: 5}), WithTuning(Tuning{HotWorker: true}))
		if rand.N(2) == 0 {
			require.True(t, whenHot(p))
		}
		require.True(t, testutil.Returns(func() {
			if err := p.Pause(context.Background()); err != nil {
				t.Error(err)
			}
		}))
		var ran atomic.Bool
		require.NoError(t, p.Go(func(*Worker) { ran.Store(true) }))
		pause()
		require.False(t, ran.Load())
		p.Resume()
		require.True(t, testutil.Eventually(ran.Load))
		for _, n := range []int{5, 1, 3} {
			require.NoError(t, p.Resize(n))
			requireRunsTogether(t, p, n)
		}
		l := &load{p: p, blocks: true}
		stop := loads(t, 2, l)
		for range 5 {
			pause()
			require.NoError(t, p.Resize(1+rand.N(5)))
		}
		stop()
		l.requireAllDone(t)
		requireCloses(t, p)
	}
}

// This is for a former bug. When the pool closed, a worker whose place was too many put it to sleep. The
// place was still too many, or the pool needed one that watches, so the worker woke itself up for ever.
func TestAClosingPoolClosesAPlaceTooMany(t *testing.T) {
	for range testutil.Stress(50) {
		p := newPool(t, WithWorkers(2), WithTuning(Tuning{HotWorker: true}))
		require.True(t, whenHot(p))
		for i := 0; p.core.Sleep.Parked(1); i++ { // until the second is the hot one: it comes to rest while the first computes
			require.Less(t, i, 100)
			meet, rests := testutil.NewBarrier(2), make(chan struct{})
			for range 2 {
				require.NoError(t, p.Go(func(w *Worker) {
					meet.Compute()
					if w.hasPlace() && w.index == 0 { // a worker whose wait was noticed may have come back to the other's place
						testutil.Compute(rests)
					}
				}))
			}
			watched := closed(meet.Open) && testutil.Eventually(p.core.IsWatched)
			close(rests)
			require.True(t, watched)
			require.True(t, whenHot(p))
		}
		p.core.Enter() // a worker comes to rest a little later
		done, resized := make(chan struct{}), make(chan struct{})
		closing := false
		underLock(p, func() { // Resize(1) and Close at the same time
			go func() {
				defer close(resized)
				_ = p.Resize(1)
			}()
			time.Sleep(time.Millisecond)
			go func() {
				defer close(done)
				_ = p.Close()
			}()
			closing = testutil.Eventually(p.core.Closing.Load)
		})
		require.True(t, closing)
		<-resized
		pause()
		p.core.Leave()
		require.True(t, closed(done), "Close hangs")
	}
}

func TestHotWorkerOnASingleP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(2), WithTuning(Tuning{HotWorker: true}))
	for range testutil.Stress(20) {
		requireRunsTogether(t, p, 2)
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 8) }))
		pause()
	}
	requireCloses(t, p)
}

// # All of it

// TestControlSoak calls everything that changes the workers from several goroutines, and has tasks do all
// that disturbs them, at random from one seed. In the end each task that was accepted has run.
func TestControlSoak(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEIST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("HEIST_SEED=%d", seed)
	deadline := time.Now().Add(time.Duration(testutil.Stress(1000)) * time.Millisecond)
	for round := uint64(0); round == 0 || time.Now().Before(deadline) && !t.Failed(); round++ {
		controlSoak(t, seed, round)
	}
}

// soak is a round of TestControlSoak.
type soak struct {
	t                                *testing.T
	p                                *Pool
	tasks                            []func(soaker) // soakTasks, which refer to what refers to this
	accepted, ran, exploded, handled atomic.Int64
}

// soaker is a task of a soak, or a goroutine that submits them.
type soaker struct {
	*soak
	*rand.Rand
	w     *Worker // of the task
	depth int     // how long a chain of tasks it may begin
}

// atRandom does one of the actions.
func (s soaker) atRandom(actions []func(soaker)) { actions[s.IntN(len(actions))](s) }

// soakTasks are what a task does after it has queued others; those that come more often stand here more often.
var soakTasks = []func(soaker){
	func(s soaker) { s.w.Block(pause) },
	func(s soaker) { s.w.Block(func() { s.queue(s.p.Go); pause() }) },
	func(soaker) { runtime.Goexit() },
	func(s soaker) { s.w.Block(runtime.Goexit) },
	soaker.explode,
	func(s soaker) { s.w.Block(s.explode) },
	soaker.group,
	func(s soaker) { _ = s.p.Run(func(w *Worker) { fib(w, 6) }) },
	func(s soaker) {
		s.w.Do(func(w *Worker) { s.queue(s.w.Go); w.Block(pause) }, func(w *Worker) { fib(w, 7) })
	},
	soaker.resize,
	soaker.compute, soaker.compute, soaker.compute,
}

// soakCalls are what goroutines outside do.
var soakCalls = []func(soaker){
	func(s soaker) { s.queue(s.p.Go) }, func(s soaker) { s.queue(s.p.Go) }, func(s soaker) { s.queue(s.p.Go) },
	func(s soaker) {
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		s.queue(func(f func(*Worker)) error { return s.p.Submit(ctx, f) })
	},
	func(s soaker) {
		s.queue(func(f func(*Worker)) error { return s.p.TrySubmit(f, Priority(s.IntN(int(priorities)))) })
	},
	func(s soaker) {
		s.queue(func(f func(*Worker)) error {
			return s.p.TrySubmit(f, Delay(time.Duration(s.IntN(200))*time.Microsecond))
		})
	},
	soaker.visit, soaker.visit,
	soaker.resize, soaker.resize,
	func(s soaker) {
		ctx, cancel := context.WithTimeout(background, time.Duration(s.IntN(500))*time.Microsecond)
		_ = s.p.Pause(ctx)
		cancel()
		pause()
		s.p.Resume()
	},
	func(soaker) { pause() },
}

// queue queues a task, unless the chain is long enough.
func (s soaker) queue(queue func(func(*Worker)) error) {
	if s.depth > 0 && queue(s.task(s.Uint64(), s.depth-1)) == nil {
		s.accepted.Add(1)
	}
}

func (s *soak) task(seed uint64, depth int) func(w *Worker) {
	return func(w *Worker) {
		s.ran.Add(1)
		if s.p.current() == nil {
			s.t.Error("a worker that runs a task is not known as one")
		}
		s := soaker{s, rand.New(rand.NewPCG(seed, uint64(depth))), w, depth}
		for range s.IntN(3) {
			s.queue(w.Go)
		}
		s.atRandom(s.tasks)
	}
}

func (s soaker) explode() {
	s.exploded.Add(1)
	panic("handled")
}

func (s soaker) group() {
	g := newGroup(s.p)
	members, n := new(atomic.Int32), s.IntN(4)
	for range n {
		g.GoWorker(func(w *Worker) error { fib(w, 7); members.Add(1); return nil })
	}
	if err := g.Wait(); err == nil && int(members.Load()) != n || err != nil && !errors.Is(err, ErrClosed) {
		s.t.Errorf("%d of %d members of a group ran: %v", members.Load(), n, err)
	}
	s.accepted.Add(int64(g.Skipped())) // members accepted before one that Close refused
}

func (s soaker) resize() {
	if err := s.p.Resize(1 + s.IntN(s.p.maxWorkers)); err != nil && !errors.Is(err, ErrClosed) {
		s.t.Error(err)
	}
}

func (s soaker) compute() { fib(s.w, s.IntN(10)) }

// visit is a guest.
func (s soaker) visit() {
	_ = s.p.Run(func(w *Worker) {
		s.queue(w.Go)
		if n := s.IntN(12); fib(w, n) != serialFib(n) {
			s.t.Error("wrong")
		}
		if s.IntN(4) == 0 {
			w.Block(pause)
		}
	})
}

func controlSoak(t *testing.T, seed, round uint64) {
	r := rand.New(rand.NewPCG(seed, round))
	s := &soak{t: t, tasks: soakTasks}
	s.p = newPool(t, append(soakOptions(r), WithPanicHandler(func(*PanicError) { s.handled.Add(1) }))...)
	p := s.p
	ended := testutil.Returns(testutil.Together(4, func(who int) {
		r := rand.New(rand.NewPCG(seed, round<<32+uint64(who)+1))
		for range 150 {
			soaker{s, r, nil, 1 + r.IntN(4)}.atRandom(soakCalls)
		}
		p.Resume()
	}))
	require.True(t, ended, "those who submit hang")
	if r.IntN(2) == 0 {
		p.Resume()
		require.True(t, testutil.Eventually(func() bool { return s.ran.Load()+p.skipped.Load() == s.accepted.Load() && p.delayed.Load() == 0 }),
			"%d tasks were accepted, %d ran", s.accepted.Load(), s.ran.Load())
		if !p.latency {
			requireAtRest(t, p)
		}
	}
	requireCloses(t, p)
	require.Equal(t, s.accepted.Load(), s.ran.Load()+p.skipped.Load(), "tasks that were accepted, and tasks that ran or were skipped")
	require.Equal(t, s.exploded.Load(), s.handled.Load())
}

func soakOptions(r *rand.Rand) []Option {
	size := 1 + r.IntN(6)
	options := []Option{WithWorkers(size), WithTuning(Tuning{MaxWorkers: size + r.IntN(6)})}
	if r.IntN(2) == 0 {
		options = append(options, WithPinning(PinNone))
	}
	if r.IntN(8) == 0 {
		options = append(options, WithTuning(Tuning{HotWorker: true}))
	}
	if r.IntN(4) == 0 {
		options = append(options, WithQueueBound(1+r.IntN(50)))
	}
	return options
}

// TestWhoeverWaitsForWorkersToRestNeedNotWaitForTheirSpin, which may be long.
func TestWhoeverWaitsForWorkersToRestNeedNotWaitForTheirSpin(t *testing.T) {
	for name, wait := range map[string]func(p *Pool) error{
		"Close":  func(*Pool) error { return nil },
		"Pause":  func(p *Pool) error { return p.Pause(t.Context()) },
		"Resize": func(p *Pool) error { return p.Resize(1) },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(WithWorkers(2), WithTuning(Tuning{Spin: time.Hour}))
			require.NoError(t, err)
			ran := make(chan struct{})
			require.NoError(t, p.Go(func(*Worker) { close(ran) }))
			require.True(t, closed(ran))
			require.True(t, testutil.Returns(func() { err = wait(p) }))
			require.NoError(t, err)
			require.True(t, testutil.Returns(func() { err = p.Close() }))
			require.NoError(t, err)
		})
	}
}

// TestWaitIdleWaitsForAllThatWasSubmitted, in any way and by tasks themselves, and the pool goes on.
func TestWaitIdleWaitsForAllThatWasSubmitted(t *testing.T) {
	for name, options := range map[string][]Option{"one": {WithWorkers(1)}, "two": {WithWorkers(2)}, "hot": {WithWorkers(2), WithTuning(Tuning{HotWorker: true})}} {
		p := newPool(t, append(options, WithPinning(PinNone))...)
		require.NoError(t, p.WaitIdle(t.Context()), "nothing was submitted")
		for range testutil.Stress(200) {
			var left atomic.Int64
			done := func() { work(rand.IntN(1000)); left.Add(-1) }
			left.Add(9)
			require.NoError(t, p.Go(func(w *Worker) {
				if err := errors.Join(w.Go(func(*Worker) { done() }), w.Go(func(w *Worker) {
					if err := p.Submit(background, func(*Worker) { done() }, PriorityLow); err != nil {
						t.Error(err)
					}
					done()
				})); err != nil {
					t.Error(err)
				}
				done()
			}))
			require.NoError(t, p.Submit(background, func(*Worker) { done() }, PriorityHigh))
			require.NoError(t, p.Submit(background, func(*Worker) { done() }, Delay(time.Duration(rand.IntN(300))*time.Microsecond)))
			g, _ := NewGroup(p)
			g.Go(func() error { done(); return nil })
			Async(p, func(w *Worker) (struct{}, error) {
				w.Block(func() { time.Sleep(10 * time.Microsecond) })
				done()
				return struct{}{}, nil
			})
			_, err := p.SubmitAll(background, []func(*Worker){func(*Worker) { done() }})
			require.NoError(t, err)
			require.NoError(t, p.WaitIdle(t.Context()), name)
			require.Zero(t, left.Load(), name)
		}
	}
}

// TestNobodyWaitsForTheChildrenOfAGuest: a guest that runs its own last child would tell nobody.
func TestNobodyWaitsForTheChildrenOfAGuest(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Pause(t.Context())) // no worker takes the child
	hasChild, release := make(chan struct{}), make(chan struct{})
	guest := testutil.Together(1, func(int) {
		require.NoError(t, p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, func(*Worker) {})
				close(hasChild)
				<-release
			})
		}))
	})
	<-hasChild
	require.NoError(t, p.WaitIdle(t.Context()))
	close(release)
	guest()
	p.Resume()
}

func TestWaitIdleEndsWithItsContextAndRefusesItsOwnTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	release, blocked := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) {
		if err := p.WaitIdle(background); err == nil || !strings.Contains(err.Error(), "inside a task of the same pool") {
			t.Error(err)
		}
		close(blocked)
		<-release
	}))
	<-blocked
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(io.EOF) })
	require.ErrorIs(t, p.WaitIdle(ctx), io.EOF)
	close(release)
	require.NoError(t, p.WaitIdle(t.Context()))

	require.NoError(t, p.Pause(t.Context()))
	require.NoError(t, p.Go(func(*Worker) {}))
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(io.EOF) })
	require.ErrorIs(t, p.WaitIdle(ctx), io.EOF, "what is queued in a paused pool is left to do")
	p.Resume()
	require.NoError(t, p.WaitIdle(t.Context()))
	var none context.Context
	require.ErrorContains(t, p.WaitIdle(none), "nil context")
	require.Error(t, (*Pool)(nil).WaitIdle(t.Context()))
	requireCloses(t, p)
	require.NoError(t, p.WaitIdle(t.Context()), "a closed pool has nothing left to do")
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

// TestResizeWakesSomebodyForForksThatWereLeftAlone because there were as many guests that compute as sleeping
// places.
func TestResizeWakesSomebodyForForksThatWereLeftAlone(t *testing.T) {
	for range testutil.Stress(100) {
		p := newPool(t, WithWorkers(1), WithTuning(Tuning{MaxWorkers: 2}), WithPinning(PinNone))
		published, stolen := make(chan struct{}), make(chan struct{})
		guest := testutil.Together(1, func(int) {
			_ = p.Run(func(w *Worker) {
				w.Do(func(*Worker) {
					close(published)
					<-stolen
				}, func(*Worker) { close(stolen) })
			})
		})
		<-published
		require.NoError(t, p.Resize(2))
		require.True(t, testutil.Returns(guest), "the fork was not stolen")
	}
}
