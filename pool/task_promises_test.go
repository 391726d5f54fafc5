package pool

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/stretchr/testify/require"
)

// TestEndlessTasksFromOutsideDoNotStarveTheWorkersOwn: the injector always has more than a
// worker pulls in a period, so the batch buffer never becomes empty.
func TestEndlessTasksFromOutsideDoNotStarveTheWorkersOwn(t *testing.T) {
	for name, options := range map[string][]Option{
		"61":       {WithTuning(Tuning{PollPeriod: 61})},
		"adaptive": nil, // of tasks that take 20 microseconds it is 50
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, append(options, WithWorkers(1), WithPinning(PinNone))...)
			const enough = 20_000
			var ran, queued, began int
			var again func(*Worker)
			again = func(w *Worker) {
				if ran++; ran == 2000 {
					queued = ran
					_ = w.Go(func(*Worker) { began = ran })
				}
				heist.Spin(20 * time.Microsecond)
				if began == 0 && ran < enough {
					_ = p.Go(again)
				}
			}
			onlyWorker(t, p, func(w *Worker) {
				for range 200 {
					_ = p.Go(again)
				}
			})
			require.NotZero(t, began, "the worker's own task never began")
			require.Less(t, began-queued, 1000, "tasks from outside began before the worker's own")
		})
	}
}

// TestWhatWasPulledIsNotOvertaken by tasks that came later: the first of the next batch begins
// while older ones lie in the batch buffer.
func TestWhatWasPulledIsNotOvertaken(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: 10}))
	const n = 200
	var ran []int
	fs := make([]func(*Worker), n)
	for i := range fs {
		fs[i] = func(*Worker) { ran = append(ran, i) }
	}
	onlyWorker(t, p, func(*Worker) { _, _ = p.SubmitAll(context.Background(), fs) })
	require.Len(t, ran, n)
	for i, got := range ran {
		require.Equal(t, i, got)
	}
}

// TestOneTurnInEightIsForNormalUnderHigh, also if the tasks lie in the injector.
func TestOneTurnInEightIsForNormalUnderHigh(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	var high, began []int
	onlyWorker(t, p, func(w *Worker) {
		for range 400 {
			_ = p.Submit(context.Background(), func(*Worker) { high = append(high, len(began)) }, PriorityHigh)
		}
		for range 30 {
			_ = p.Go(func(*Worker) { began = append(began, len(high)) })
		}
	})
	require.LessOrEqual(t, began[0], 2*otherTurns, "tasks of high priority before the first other one")
	require.LessOrEqual(t, began[len(began)-1], 31*otherTurns, "tasks of high priority before the last other one")
}

// TestALentPlaceLooksIntoTheInjector: what the waiter waits for lies there, and the place's own queue never
// becomes empty.
func TestALentPlaceLooksIntoTheInjector(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: 61}))
	for name, priority := range map[string]Priority{"high": PriorityHigh, "normal": PriorityNormal, "low": PriorityLow} {
		t.Run(name, func(t *testing.T) {
			const enough = 100_000
			var ran int64
			var ended bool
			var again func(*Worker)
			again = func(w *Worker) {
				if ran++; !ended && ran < enough {
					_ = w.Go(again)
				}
			}
			var before int64
			onlyWorker(t, p, func(w *Worker) {
				require.NoError(t, w.Go(again))
				_, err := Async(p, func(*Worker) (int, error) { before, ended = ran, true; return 0, nil }, priority).Wait(context.Background())
				if err != nil {
					t.Error(err)
				}
			})
			require.Less(t, before, int64(1000), "tasks of the worker began before the one that is waited for")
		})
	}
}

// TestClosingPoolRefusesWhileItWaitsForADelay: Close refuses from its first moment on, also while
// it waits for a delayed task.
func TestClosingPoolRefusesWhileItWaitsForADelay(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	require.NoError(t, p.Submit(context.Background(), func(*Worker) {}, Delay(200*time.Millisecond)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var unfinished *UnfinishedError
	require.ErrorAs(t, p.Shutdown(ctx), &unfinished)
	if unfinished.Delayed == 0 {
		t.Skip("the machine was too slow")
	}
	f := func(*Worker) {}
	require.ErrorIs(t, p.Go(f), ErrClosed, "Go")
	require.ErrorIs(t, p.Submit(context.Background(), f), ErrClosed, "Submit")
	require.ErrorIs(t, p.Submit(context.Background(), f, PriorityHigh), ErrClosed, "Submit with an option")
	require.ErrorIs(t, p.TrySubmit(f), ErrClosed, "TrySubmit")
	n, err := p.SubmitAll(context.Background(), []func(*Worker){f})
	require.ErrorIs(t, err, ErrClosed, "SubmitAll")
	require.Zero(t, n)
	requireCloses(t, p)
}

// TestTheBoundHoldsForTasksWithADeadline: they lie in the same queue, and have neither a
// priority nor a delay.
func TestTheBoundHoldsForTasksWithADeadline(t *testing.T) {
	for name, option := range map[string]TaskOption{
		"a deadline":      StartBy(time.Now().Add(time.Hour), func(*Worker) {}),
		"normal priority": PriorityNormal,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(1))
			release := occupyAll(t, p)
			defer release()
			require.NoError(t, p.TrySubmit(func(*Worker) {}))
			require.ErrorIs(t, p.TrySubmit(func(*Worker) {}, option), ErrFull)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			require.ErrorIs(t, p.Submit(ctx, func(*Worker) {}, option), context.Canceled)
		})
	}
}

// TestSubmitReturnsTheCauseOfItsContextsEnd, whether the task counts for the bound or not.
func TestSubmitReturnsTheCauseOfItsContextsEnd(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	f := func(*Worker) { t.Error("it runs") }
	for _, options := range [][]TaskOption{{PriorityHigh}, {PriorityLow}, {Delay(time.Millisecond)}} {
		require.Same(t, io.EOF, p.Submit(ended(), f, options...))
	}
}

// TestSleepIsNotMeasuredAsWork: a worker that finds enough others searching goes to sleep
// at once, and the sleep must not count as the time of its next tasks.
func TestSleepIsNotMeasuredAsWork(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	require.True(t, whenParked(p))
	since := make(chan int64, 1)
	require.NoError(t, p.Go(func(w *Worker) {
		whenOneParked(p)
		w.tick.since, w.tick.tasks = 1, 1
		p.core.Sleep.Add(policy.OneSearching) // a worker searches
		_, found := w.searchWork()
		p.core.Sleep.Add(-policy.OneSearching)
		if found || w.place.core.Searching {
			t.Error("it searched")
		}
		since <- w.tick.since
	}))
	require.Zero(t, <-since, "the time until the next task counts")
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

// TestADeadlineAtTheBeginningOfTimeHasPassed: the zero time does not mean that there is no
// deadline.
func TestADeadlineAtTheBeginningOfTimeHasPassed(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	ran := make(chan string, 1)
	require.NoError(t, p.Submit(context.Background(),
		func(*Worker) { ran <- "in time" },
		StartBy(time.Time{}, func(*Worker) { ran <- "late" })))
	require.Equal(t, "late", <-ran)
	require.Error(t, p.Submit(context.Background(), func(*Worker) {}, StartBy(time.Time{}, nil)))
}

// TestTheSlotGivesWayToTheRingWhenTasksAreLong: not more than 3 in a row come from the
// LIFO slot, however short a tick is.
func TestTheSlotGivesWayToTheRingWhenTasksAreLong(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: 1 << 20}))
	var row, before int
	waits := true
	var again func(*Worker)
	again = func(w *Worker) {
		if row++; waits && row < 10_000 {
			_ = w.Go(again)
		}
	}
	onlyWorker(t, p, func(w *Worker) {
		w.tick.average, w.tick.budget = 2*time.Millisecond, 1 // as if it had measured that
		require.NoError(t, w.Go(func(*Worker) { waits, before = false, row }))
		require.NoError(t, w.Go(again))
	})
	require.LessOrEqual(t, before, 2*maxLIFO)
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

func TestErrorsNameTheMethodThatWasCalled(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	require.EqualError(t, p.Submit(context.Background(), nil), "pool: Pool.Submit was given a nil function")
	require.EqualError(t, p.TrySubmit(nil), "pool: Pool.TrySubmit was given a nil function")
	require.EqualError(t, p.TrySubmit(nil, PriorityHigh), "pool: Pool.TrySubmit was given a nil function")
}
