package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

func ended() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(io.EOF)
	return ctx
}

var background = context.Background()

// # Worker.Go

func TestTasksOfGuestsRunOnWorkers(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		n := testutil.Stress(5000) // more than the guest's ring holds
		ran := make(tally, n)
		require.NoError(t, p.Run(func(w *Worker) {
			for i := range n {
				require.NoError(t, w.Go(func(v *Worker) {
					if v.core.Guest {
						t.Error("run in a guest slot")
					}
					ran[i].Add(1)
				}))
			}
			require.True(t, testutil.Eventually(func() bool { return ran[0].Load() == 1 }), "none runs while the guest is there")
		}))
		ran.requireEachOnce(t)
	})
}

// TestTasksOfAGuestThatIsHereStillRun while it waits for them.
func TestTasksOfAGuestThatIsHereStillRun(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	for range testutil.Stress(100) {
		require.True(t, whenParked(p))
		require.NoError(t, p.Run(func(w *Worker) {
			ran := make(chan struct{})
			require.NoError(t, w.Go(func(*Worker) { close(ran) }))
			require.True(t, closed(ran))
		}))
	}
}

func TestWorkerGoRefusesNil(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	require.NoError(t, p.Run(func(w *Worker) {
		require.EqualError(t, w.Go(nil), "pool: Worker.Go was given a nil function")
	}))
}

// TestFullRingOfAClosingPoolLosesNothing: the injector, to which the ring spills, is closed, but
// the tasks that were accepted before must run.
func TestFullRingOfAClosingPoolLosesNothing(t *testing.T) {
	for _, place := range []string{"worker", "guest"} {
		t.Run(place, func(t *testing.T) {
			p := newPool(t, WithWorkers(1), WithPinning(PinNone))
			var accepted, ran, ranRefused atomic.Int64
			fill := func(w *Worker) {
				p.nodes[0].queues[PriorityNormal].Close()
				for range 3 * heist.DefaultRingCapacity {
					refused := new(atomic.Bool)
					err := w.Go(func(*Worker) {
						if refused.Load() {
							ranRefused.Add(1)
						}
						ran.Add(1)
					})
					if err == nil {
						accepted.Add(1)
					} else {
						refused.Store(true)
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
					}
				}
			}
			if place == "worker" {
				filled := make(chan struct{})
				require.NoError(t, p.Go(func(w *Worker) { fill(w); close(filled) }))
				require.True(t, closed(filled))
				require.EqualValues(t, 3*256, accepted.Load(), "a worker can always run one itself")
			} else {
				release := occupyAll(t, p) // so that no worker steals
				require.NoError(t, p.Run(fill))
				release()
				require.Zero(t, accepted.Load(), "only the injector takes tasks of guests")
			}
			require.True(t, testutil.Eventually(func() bool { return ran.Load() == accepted.Load() }))
			requireCloses(t, p)
			require.Equal(t, accepted.Load(), ran.Load())
			require.Zero(t, ranRefused.Load())
		})
	}
}

func TestCloseAmongTasksOfWorkersAndGuests(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for range testutil.Stress(20) {
			p := newPool(t, WithWorkers(workers))
			var accepted, ran atomic.Int64
			var spread func(w *Worker)
			count := func(err error) {
				if err == nil {
					accepted.Add(1)
				} else if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
			spread = func(w *Worker) {
				ran.Add(1)
				for range 2 {
					if ran.Load() < 10_000 { // Close waits for what the tasks add
						count(w.Go(spread))
					}
				}
			}
			count(p.Go(spread))
			wait := testutil.Together(2, func(int) {
				_ = p.Run(func(w *Worker) {
					for range 400 {
						count(w.Go(func(*Worker) { ran.Add(1) }))
					}
				})
			})
			require.True(t, testutil.Eventually(func() bool { return ran.Load() > 100 }))
			requireCloses(t, p)
			wait()
			require.Equal(t, accepted.Load(), ran.Load())
		}
	}
}

// # Submit

func TestBadTasksAreRefusedWithAReason(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(10))
	f := func(*Worker) { t.Error("it runs") }
	for _, c := range []struct {
		f       func(*Worker)
		options []TaskOption
		want    string
	}{
		{nil, nil, "nil function"},
		{nil, []TaskOption{PriorityHigh}, "Submit was given a nil function"},
		{nil, []TaskOption{Delay(time.Hour)}, "nil function"},
		{f, []TaskOption{nil}, "nil TaskOption"},
		{f, []TaskOption{PriorityHigh, nil}, "nil TaskOption"},
		{f, []TaskOption{Priority(3)}, "the priority 3; it must be PriorityHigh, PriorityNormal or PriorityLow"},
		{f, []TaskOption{Priority(-1)}, "the priority -1"},
		{f, []TaskOption{StartBy(time.Now(), nil)}, "StartBy was given a nil function"},
	} {
		for name, err := range map[string]error{
			"Submit":    p.Submit(background, c.f, c.options...),
			"TrySubmit": p.TrySubmit(c.f, c.options...),
		} {
			require.ErrorContains(t, err, c.want, name)
			require.True(t, strings.HasPrefix(err.Error(), "pool: "), err)
		}
	}
	n, err := p.SubmitAll(background, []func(*Worker){f, nil, f})
	require.EqualError(t, err, "pool: Pool.SubmitAll was given a nil function")
	require.Zero(t, n, "nothing is queued")
	require.Zero(t, p.delayed.Load())
	require.Zero(t, p.urgent.Load())
}

func TestBadQueueOptionsAreNamedInTheError(t *testing.T) {
	for _, c := range []struct {
		option Option
		want   string
	}{
		{WithTuning(Tuning{PollPeriod: -5}), "Tuning.PollPeriod is -5; it must be at least 1"},
		{WithQueueBound(0), "WithQueueBound(0)"},
		{WithQueueBound(-1), "must be at least 1; leave it out for none"},
		{WithPanicHandler(nil), "WithPanicHandler was given a nil function"},
	} {
		p, err := New(c.option)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, p)
	}
}

func TestSubmitWithoutABoundNeverWaits(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	release := occupyAll(t, p)
	n := testutil.Stress(10_000)
	ran := make(tally, n)
	require.True(t, testutil.Returns(func() {
		for i := range n {
			submit := p.TrySubmit
			if i%2 == 0 {
				submit = func(f func(*Worker), options ...TaskOption) error { return p.Submit(background, f, options...) }
			}
			if err := submit(func(*Worker) { ran[i].Add(1) }); err != nil {
				t.Error(err)
			}
		}
	}))
	release()
	ran.requireEachOnce(t)
}

// boundedPool returns a pool whose worker is busy and whose queue is at its bound.
func boundedPool(t *testing.T, bound int) (p *Pool, release func()) {
	p = newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(bound))
	release = occupyAll(t, p)
	for range bound {
		require.NoError(t, p.TrySubmit(func(*Worker) {}))
	}
	return p, release
}

func waits(p *Pool, n int32) bool {
	return testutil.Eventually(func() bool { return p.room.waiting.Load() == n })
}

func TestSubmitWaitsAtTheBound(t *testing.T) {
	for _, bound := range []int{1, 2, 64, 300} {
		p, release := boundedPool(t, bound)
		require.ErrorIs(t, p.TrySubmit(func(*Worker) { t.Error("it runs") }), ErrFull)
		require.Equal(t, bound, p.waiting())
		submitted, ran := make(chan error, 1), make(chan struct{})
		go func() { submitted <- p.Submit(background, func(*Worker) { close(ran) }) }()
		require.True(t, waits(p, 1))
		require.Empty(t, submitted)
		require.Equal(t, bound, p.waiting())
		release()
		require.True(t, closed(ran), "it waits for ever")
		require.NoError(t, <-submitted)
		require.True(t, waits(p, 0))
		require.True(t, whenParked(p))
		require.NoError(t, p.TrySubmit(func(*Worker) {}), "there is room again")
	}
}

func TestTheWaitForRoomEndsWithTheContext(t *testing.T) {
	p, release := boundedPool(t, 1)
	defer release()
	ctx, cancel := context.WithCancelCause(background)
	submitted := make(chan error, 1)
	go func() { submitted <- p.Submit(ctx, func(*Worker) { t.Error("it runs") }) }()
	require.True(t, waits(p, 1))
	cancel(io.EOF)
	require.True(t, testutil.Eventually(func() bool { return len(submitted) == 1 }))
	require.ErrorIs(t, <-submitted, io.EOF, "the cause")
	require.True(t, waits(p, 0))
	require.Equal(t, 1, p.waiting())

	require.ErrorIs(t, p.Submit(ended(), func(*Worker) { t.Error("it runs") }), io.EOF)
	n, err := p.SubmitAll(ended(), []func(*Worker){func(*Worker) { t.Error("it runs") }})
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, n)
}

// TestOneWhoGivesUpLeavesTheRoomToAnother: there may be a single token for a submitter that gives
// up and one that goes on.
func TestOneWhoGivesUpLeavesTheRoomToAnother(t *testing.T) {
	for range testutil.Stress(100) {
		p, release := boundedPool(t, 1)
		ctx, cancel := context.WithCancel(background)
		var left atomic.Int32
		wait := testutil.Together(4, func(who int) {
			c := background
			if who%2 == 0 {
				c = ctx
			}
			if err := p.Submit(c, func(*Worker) {}); err == nil {
				left.Add(1)
			} else if who%2 != 0 {
				t.Error(err)
			}
		})
		require.True(t, waits(p, 4))
		testutil.Together(2, func(who int) {
			if who == 0 {
				cancel()
			} else {
				release()
			}
		})()
		require.True(t, testutil.Returns(wait), "somebody waits for ever")
		require.GreaterOrEqual(t, left.Load(), int32(2))
		requireCloses(t, p)
	}
}

func TestTheWaitForRoomEndsWithThePool(t *testing.T) {
	p, release := boundedPool(t, 2)
	errs := make(chan error, 3)
	for range 2 {
		go func() { errs <- p.Submit(background, func(*Worker) { t.Error("it runs") }) }()
	}
	go func() {
		n, err := p.SubmitAll(background, []func(*Worker){func(*Worker) { t.Error("it runs") }})
		if n != 0 {
			t.Error("queued")
		}
		errs <- err
	}()
	require.True(t, waits(p, 3))
	closes := make(chan error, 1)
	go func() { closes <- p.Close() }()
	for range 3 {
		select {
		case err := <-errs:
			require.ErrorIs(t, err, ErrClosed)
		case <-time.After(testutil.Patience):
			require.Fail(t, "it waits for ever")
		}
	}
	require.Empty(t, closes, "the worker is busy")
	release()
	require.True(t, testutil.Eventually(func() bool { return len(closes) == 1 }))
	require.NoError(t, <-closes)
	require.ErrorIs(t, p.Submit(background, func(*Worker) {}), ErrClosed)
	require.ErrorIs(t, p.TrySubmit(func(*Worker) {}), ErrClosed)
	require.ErrorIs(t, p.Submit(background, func(*Worker) {}, PriorityLow), ErrClosed)
	require.ErrorIs(t, p.Submit(background, func(*Worker) {}, PriorityHigh), ErrClosed)
	require.ErrorIs(t, p.Submit(background, func(*Worker) {}, Delay(1)), ErrClosed)
	n, err := p.SubmitAll(background, []func(*Worker){func(*Worker) {}})
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, n)
	require.Zero(t, p.urgent.Load())
	require.Zero(t, p.delayed.Load())
}

// TestTasksOfThePoolDoNotWaitForRoom, because only they can make room.
func TestTasksOfThePoolDoNotWaitForRoom(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(1))
	const n = 100
	ran := make(tally, 3*n)
	submitted, over := make(chan error, 3*n), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) {
		for i := range n {
			submitted <- p.Submit(background, func(*Worker) { ran[i].Add(1) })
			submitted <- p.TrySubmit(func(*Worker) { ran[n+i].Add(1) })
		}
		var fs []func(*Worker)
		for i := range n {
			fs = append(fs, func(*Worker) { ran[2*n+i].Add(1) })
		}
		queued, err := p.SubmitAll(background, fs)
		if queued != n {
			err = fmt.Errorf("%d queued: %w", queued, err)
		}
		submitted <- err
		close(over)
	}))
	require.True(t, closed(over), "it waits for itself")
	for range 2*n + 1 {
		require.NoError(t, <-submitted)
	}
	ran.requireEachOnce(t)
}

// TestGuestsInsideTasksDoNotWaitForRoom either, because their worker is the task's.
func TestGuestsInsideTasksDoNotWaitForRoom(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(1))
	submitted := make(chan error, 1)
	require.NoError(t, p.Go(func(*Worker) {
		_ = p.Run(func(*Worker) {
			var err error
			for range 10 {
				err = errors.Join(err, p.Submit(background, func(*Worker) {}))
			}
			submitted <- err
		})
	}))
	require.True(t, testutil.Eventually(func() bool { return len(submitted) == 1 }), "it waits for itself")
	require.NoError(t, <-submitted)
}

// TestWhatHasAPriorityOrADelayDoesNotCount for the bound, and does not wait.
func TestWhatHasAPriorityOrADelayDoesNotCount(t *testing.T) {
	p, release := boundedPool(t, 1)
	var ran atomic.Int32
	f := func(*Worker) { ran.Add(1) }
	for _, option := range []TaskOption{PriorityHigh, PriorityLow, Delay(time.Millisecond)} {
		require.True(t, testutil.Returns(func() {
			if err := errors.Join(p.Submit(background, f, option), p.TrySubmit(f, option)); err != nil {
				t.Error(err)
			}
		}))
	}
	require.NoError(t, p.Go(f), "Go never waits")
	require.True(t, testutil.Returns(func() {
		g := newGroup(p)
		g.Go(func() error { ran.Add(1); return nil })
	}))
	release()
	require.True(t, testutil.Eventually(func() bool { return ran.Load() == 8 }))
}

func TestManySubmittersAtABoundLoseNothingAndNoneStays(t *testing.T) {
	for _, c := range []struct{ workers, bound int }{{1, 1}, {1, 16}, {2, 1}, {4, 3}, {4, 100}} {
		t.Run(fmt.Sprintf("%d workers, bound %d", c.workers, c.bound), func(t *testing.T) {
			p := newPool(t, WithWorkers(c.workers), WithQueueBound(c.bound))
			const submitters = 12
			n := (testutil.Stress(30) + 9) / 10 * 10
			ran := make(tally, submitters*n)
			var most atomic.Int64
			wait := testutil.Together(submitters, func(who int) {
				for i := 0; i < n; {
					task := func(i int) func(*Worker) { return func(*Worker) { ran[who*n+i].Add(1) } }
					switch who % 3 {
					case 0:
						k, err := p.SubmitAll(background, []func(*Worker){task(i), task(i + 1), task(i + 2), task(i + 3), task(i + 4)})
						if err != nil || k != 5 {
							t.Error(k, err)
						}
						i += 5
					case 1:
						if err := p.Submit(background, task(i)); err != nil {
							t.Error(err)
						}
						i++
					default:
						if err := p.TrySubmit(task(i)); err == nil {
							i++
						} else if errors.Is(err, ErrFull) {
							runtime.Gosched()
						} else {
							t.Error(err)
						}
					}
					most.Store(max(most.Load(), int64(p.waiting())))
				}
			})
			require.True(t, testutil.Returns(wait), "somebody waits for ever")
			ran.requireEachOnce(t)
			require.LessOrEqual(t, most.Load(), int64(c.bound+5*submitters), "about the bound")
			require.Zero(t, p.room.waiting.Load())
		})
	}
}

func TestSubmitAllKeepsTheOrder(t *testing.T) {
	for _, bound := range []int{0, 1, 7, 1000} {
		t.Run(fmt.Sprint("bound ", bound), func(t *testing.T) {
			options := []Option{WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never})}
			if bound > 0 {
				options = append(options, WithQueueBound(bound))
			}
			p := newPool(t, options...)
			for _, n := range []int{0, 1, 63, 64, 65, 500} {
				var ran []int
				var fs []func(*Worker)
				for i := range n {
					fs = append(fs, func(*Worker) { ran = append(ran, i) })
				}
				queued, err := p.SubmitAll(background, fs)
				require.NoError(t, err)
				require.Equal(t, n, queued)
				requireAtRest(t, p)
				require.Len(t, ran, n)
				for i, got := range ran {
					require.Equal(t, i, got)
				}
			}
		})
	}
}

// TestSubmitAllSaysHowManyWereQueued when it could not queue all.
func TestSubmitAllSaysHowManyWereQueued(t *testing.T) {
	const n = 20
	for _, c := range []struct {
		bound int
		give  func(p *Pool, cancel func(error))
		want  error
	}{
		{5, func(_ *Pool, cancel func(error)) { cancel(io.EOF) }, io.EOF},
		{5, func(p *Pool, _ func(error)) { go p.Close() }, ErrClosed},
		{1, func(_ *Pool, cancel func(error)) { cancel(io.EOF) }, io.EOF},
	} {
		t.Run(fmt.Sprint(c.bound, " ", c.want), func(t *testing.T) {
			bound := c.bound
			p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(bound))
			release := occupyAll(t, p)
			ctx, cancel := context.WithCancelCause(background)
			var ran atomic.Int32
			var queued int
			var err error
			wait := testutil.Together(1, func(int) {
				fs := make([]func(*Worker), n)
				for i := range fs {
					fs[i] = func(*Worker) {
						if i >= bound {
							t.Error("a task runs that was not queued")
						}
						ran.Add(1)
					}
				}
				queued, err = p.SubmitAll(ctx, fs)
			})
			require.True(t, waits(p, 1))
			c.give(p, cancel)
			require.True(t, testutil.Returns(wait))
			require.Equal(t, bound, queued)
			require.ErrorIs(t, err, c.want)
			release()
			require.True(t, testutil.Eventually(func() bool { return int(ran.Load()) == bound }))
			cancel(nil)
			_ = p.Close()
		})
	}
}

// TestSubmitAllAmongClose: what it counts is what runs.
func TestSubmitAllAmongClose(t *testing.T) {
	for round := range testutil.Stress(40) {
		p := newPool(t, WithWorkers(1+round%3))
		var ran, queued atomic.Int64
		wait := testutil.Together(3, func(int) {
			fs := make([]func(*Worker), 150)
			for i := range fs {
				fs[i] = func(*Worker) { ran.Add(1) }
			}
			for {
				n, err := p.SubmitAll(background, fs)
				queued.Add(int64(n))
				if (err == nil) != (n == len(fs)) {
					t.Error(n, err)
				}
				if err != nil || queued.Load() > 100_000 {
					return
				}
			}
		})
		require.True(t, testutil.Eventually(func() bool { return queued.Load() > 0 }))
		requireCloses(t, p)
		wait()
		require.Equal(t, queued.Load(), ran.Load())
	}
}

// # Delays and deadlines

func TestDelayedTasksRunNotBeforeTheirTime(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for _, d := range []time.Duration{-time.Hour, 0, 1, time.Millisecond, 20 * time.Millisecond} {
		for _, priority := range []Priority{PriorityLow, PriorityNormal, PriorityHigh} {
			begin := time.Now()
			ran := make(chan time.Duration, 1)
			require.NoError(t, p.Submit(background, func(*Worker) { ran <- time.Since(begin) }, Delay(d), priority))
			require.True(t, testutil.Eventually(func() bool { return len(ran) == 1 }))
			require.GreaterOrEqual(t, <-ran, d)
		}
	}
	require.True(t, testutil.Eventually(func() bool { return p.delayed.Load() == 0 }))
}

func TestCloseWaitsForDelayedTasks(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for range testutil.Stress(20) {
			p := newPool(t, WithWorkers(workers))
			const n = 20
			ran := make(tally, n)
			for i := range n {
				require.NoError(t, p.Submit(background, func(*Worker) { ran[i].Add(1) },
					Delay(time.Duration(1+i*100)*time.Microsecond), Priority(i%priorities)))
			}
			requireCloses(t, p)
			for i := range ran {
				require.EqualValues(t, 1, ran[i].Load(), "the delayed task %d is lost", i)
			}
		}
	}
}

// TestDelaysAmongClose: each is either refused or runs.
func TestDelaysAmongClose(t *testing.T) {
	for range testutil.Stress(50) {
		p := newPool(t, WithWorkers(2))
		var accepted, ran atomic.Int64
		wait := testutil.Together(3, func(int) {
			for range 1000 {
				err := p.Submit(background, func(*Worker) { ran.Add(1) }, Delay(time.Microsecond))
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				accepted.Add(1)
			}
		})
		require.True(t, testutil.Eventually(func() bool { return accepted.Load() > 0 }))
		requireCloses(t, p)
		wait()
		require.Equal(t, accepted.Load(), ran.Load())
	}
}

func TestShutdownCountsWhatIsLeft(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	release := occupyAll(t, p)
	var ran atomic.Int32
	f := func(*Worker) { ran.Add(1) }
	for range 3 {
		require.NoError(t, p.Go(f))
	}
	require.NoError(t, p.Submit(background, f, PriorityHigh))
	require.NoError(t, p.Submit(background, f, PriorityLow))
	for range 4 {
		require.NoError(t, p.Submit(background, f, Delay(300*time.Millisecond)))
	}
	var e *UnfinishedError
	err := p.Shutdown(ended())
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, io.EOF)
	// On a slow machine some delays may be over.
	require.Equal(t, 9, e.Queued+e.Delayed)
	require.GreaterOrEqual(t, e.Queued, 5)
	require.Equal(t, 2, e.Running)
	require.Contains(t, err.Error(), fmt.Sprintf("%d tasks have not started, %d wait for their time, and 2 workers", e.Queued, e.Delayed))
	release()
	requireCloses(t, p)
	require.EqualValues(t, 9, ran.Load())
}

func TestWhatStartsLateIsReplaced(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	for _, c := range []struct {
		name     string
		deadline time.Duration
		options  []TaskOption
		want     string
	}{
		{"long ago", -time.Hour, nil, "late"},
		{"in an hour", time.Hour, nil, "in time"},
		{"before its delay ends", time.Millisecond, []TaskOption{Delay(10 * time.Millisecond)}, "late"},
		{"after its delay", time.Hour, []TaskOption{Delay(time.Millisecond)}, "in time"},
		{"high", -time.Hour, []TaskOption{PriorityHigh}, "late"},
		{"low", time.Hour, []TaskOption{PriorityLow}, "in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d diary
			late := func(w *Worker) {
				if w == nil {
					t.Error("no worker")
				}
				d.note("late")
			}
			options := append(c.options, StartBy(time.Now().Add(c.deadline), late))
			require.NoError(t, p.Submit(background, d.task("in time"), options...))
			require.True(t, testutil.Eventually(func() bool { return len(d.read()) > 0 }))
			require.True(t, whenParked(p))
			require.Equal(t, []string{c.want}, d.read())
		})
	}
}

// TestExactlyOneOfTheTwoRuns while the deadline passes.
func TestExactlyOneOfTheTwoRuns(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	n := testutil.Stress(2000)
	ran := make(tally, n)
	for i := range n {
		f := func(*Worker) { ran[i].Add(1) }
		require.NoError(t, p.Submit(background, f, StartBy(time.Now().Add(time.Microsecond), f)))
	}
	ran.requireEachOnce(t)
}

func TestWhatWaitsTooLongInTheQueueIsReplaced(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	release := occupyAll(t, p)
	deadline := time.Now().Add(time.Millisecond)
	var d diary
	require.NoError(t, p.Submit(background, d.task("in time"), StartBy(deadline, d.task("late"))))
	for !time.Now().After(deadline) {
		time.Sleep(time.Millisecond)
	}
	release()
	require.True(t, testutil.Eventually(func() bool { return len(d.read()) > 0 }))
	require.Equal(t, []string{"late"}, d.read())
}

// # Panics

// handled is a panic handler that keeps what it was given.
type handled struct {
	mu  sync.Mutex
	all []*PanicError
}

func (h *handled) handle(e *PanicError) {
	h.mu.Lock()
	h.all = append(h.all, e)
	h.mu.Unlock()
}

func (h *handled) read() []*PanicError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*PanicError(nil), h.all...)
}

func TestPanicsAreHandledOnceEachAndTheWorkersGoOn(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		var h handled
		p := newPool(t, WithWorkers(workers), WithPanicHandler(h.handle))
		n := testutil.Stress(300)
		for i := range n {
			f := func(*Worker) { explode(i) }
			switch i % 4 {
			case 0:
				require.NoError(t, p.Go(f))
			case 1:
				require.NoError(t, p.Submit(background, f, Priority(i/4%priorities)))
			case 2:
				require.NoError(t, p.Run(func(w *Worker) { require.NoError(t, w.Go(f)) }))
			default:
				require.NoError(t, p.Go(func(w *Worker) { _ = w.Go(f); fib(w, 5) }))
			}
		}
		require.True(t, testutil.Eventually(func() bool { return len(h.read()) >= n }))
		requireAtRest(t, p)
		times := make(map[any]int)
		for _, e := range h.read() {
			times[e.Value]++
			require.Contains(t, string(e.Stack), "pool.explode(")
			require.Contains(t, string(e.Stack), "TestPanicsAreHandledOnceEach", "the task's function")
		}
		require.Len(t, times, n)
		require.Len(t, h.read(), n)

		// All of the workers are there.
		meet := testutil.NewBarrier(workers)
		g := newGroup(p)
		for range workers {
			g.Go(func() error { meet.Wait(); return nil })
		}
		require.True(t, testutil.Returns(func() { _ = g.Wait() }), "a worker has ended")
		require.EqualValues(t, n+n/4+workers, p.Stats().Total().Tasks)
	}
}

// TestPanicOfATaskInTheMiddleOfAWaitIsHandled, and does not reach the task that waits.
func TestPanicOfATaskInTheMiddleOfAWaitIsHandled(t *testing.T) {
	var h handled
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithPanicHandler(h.handle))
	for range testutil.Stress(100) {
		g := newGroup(p)
		g.GoWorker(func(w *Worker) error {
			inner := newGroup(p)
			_ = w.Go(func(*Worker) { explode(io.EOF) })
			inner.Go(func() error { return nil })
			return inner.Wait()
		})
		require.NoError(t, g.Wait())
	}
	// The last panic may come after its group's end, because the injector must wait for its turn.
	require.True(t, testutil.Eventually(func() bool { return len(h.read()) == testutil.Stress(100) }))
	for _, e := range h.read() {
		require.ErrorIs(t, e, io.EOF)
	}
}

// TestPanicsThatSomebodyWaitsForAreNotHandled, because they reach the waiter.
func TestPanicsThatSomebodyWaitsForAreNotHandled(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithPanicHandler(func(*PanicError) { t.Error("the handler is called") }))
	g := newGroup(p)
	g.Go(func() error { explode("group"); return nil })
	require.NotNil(t, testutil.Caught(func() { _ = g.Wait() }))
	f := Async(p, func(*Worker) (int, error) { return explode("future"), nil })
	require.NotNil(t, testutil.Caught(func() { _, _ = f.Wait(background) }))
	require.Equal(t, "guest", testutil.Caught(func() { _ = p.Run(func(*Worker) { explode("guest") }) }))
}

func TestGoexitIsNoPanic(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithPanicHandler(func(*PanicError) { t.Error("the handler is called") }))
	for range testutil.Stress(100) {
		require.NoError(t, p.Go(func(*Worker) { runtime.Goexit() }))
	}
	ran := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(ran) }))
	require.True(t, closed(ran))
}

func TestLateTasksAreHandledToo(t *testing.T) {
	var h handled
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithPanicHandler(h.handle))
	require.NoError(t, p.Submit(background, func(*Worker) {}, StartBy(time.Now().Add(-1), func(*Worker) { explode("late") })))
	require.NoError(t, p.Submit(background, func(*Worker) { explode("delayed") }, Delay(time.Microsecond)))
	require.True(t, testutil.Eventually(func() bool { return len(h.read()) == 2 }))
}

// TestAPanicHandlerMayUseThePool, for example to try again: it is inside the task.
func TestAPanicHandlerMayUseThePool(t *testing.T) {
	var p *Pool
	results := make(chan error, 2)
	p = newPool(t, WithWorkers(1), WithPinning(PinNone), WithQueueBound(1), WithPanicHandler(func(*PanicError) {
		var err error
		for range 3 {
			err = errors.Join(err, p.Submit(background, func(*Worker) {}))
		}
		results <- err
		results <- p.Close() // an error at once
	}))
	require.NoError(t, p.Go(func(*Worker) { explode("handled") }))
	require.True(t, testutil.Eventually(func() bool { return len(results) == 2 }), "the handler waits for its own worker")
	require.NoError(t, <-results)
	require.ErrorContains(t, <-results, "inside a task")
}

// TestWorkerIsAsBeforeAfterAPanic: it forks, waits and queues as before.
func TestWorkerIsAsBeforeAfterAPanic(t *testing.T) {
	var h handled
	p := newPool(t, WithWorkers(2), WithPanicHandler(h.handle))
	for round := range testutil.Stress(100) {
		require.NoError(t, p.Go(func(w *Worker) {
			_ = w.Go(func(*Worker) {})
			if round%2 == 0 {
				Join(w, func(w *Worker, _ int) int { return explode("in a join") }, 0, fib, 5)
			} else {
				stolenJoin(w, nop[int], func(*Worker) int { return explode("in a stolen fork") })
			}
		}))
		require.True(t, testutil.Eventually(func() bool { return len(h.read()) == round+1 }))
	}
	requireAtRest(t, p)
	g := newGroup(p)
	g.GoWorker(func(w *Worker) error {
		if fib(w, 12) != serialFib(12) {
			return errors.New("wrong")
		}
		return nil
	})
	require.NoError(t, g.Wait())
}

func TestPanicInAPanicHandlerEndsTheProcess(t *testing.T) {
	if inChild() {
		p := newPool(t, WithWorkers(2), WithPanicHandler(func(e *PanicError) {
			fmt.Println("handler was given:", e.Value)
			explodeInHandler()
		}))
		require.NoError(t, p.Go(func(*Worker) { explode("the first") }))
		select {}
	}
	output, err := child(t)
	require.Error(t, err)
	require.Contains(t, output, "handler was given: the first")
	require.Contains(t, output, "panic: the second")
	require.Contains(t, output, "pool.explodeInHandler(")
}

//go:noinline
func explodeInHandler() { panic("the second") }

func TestPanicWithoutAHandlerEndsTheProcess(t *testing.T) {
	if inChild() {
		p := newPool(t, WithWorkers(1), WithPinning(PinNone))
		var err error
		switch os.Getenv("HEIST_TEST_TASK") {
		case "Submit":
			err = p.Submit(background, func(*Worker) { explode("nobody waits") })
		case "After":
			err = p.Submit(background, func(*Worker) { explode("nobody waits") }, Delay(1))
		case "Worker.Go":
			err = p.Run(func(w *Worker) { _ = w.Go(func(*Worker) { explode("nobody waits") }) })
		}
		require.NoError(t, err)
		select {}
	}
	for _, how := range []string{"Submit", "After", "Worker.Go"} {
		output, err := child(t, "HEIST_TEST_TASK="+how)
		require.Error(t, err)
		require.Contains(t, output, "panic: nobody waits")
		require.Contains(t, output, "pool.explode(", "the task's function")
	}
}

// # Stats

func TestStatsCountTasksOfAllKindsOnce(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := newPool(t, WithWorkers(workers), WithPanicHandler(func(*PanicError) {}))
		n := testutil.Stress(500)
		want := 0
		for range n {
			require.NoError(t, p.Submit(background, func(*Worker) {}))
			require.NoError(t, p.Submit(background, func(*Worker) {}, PriorityHigh))
			require.NoError(t, p.Submit(background, func(*Worker) {}, PriorityLow, Delay(1)))
			require.NoError(t, p.Go(func(w *Worker) { _ = w.Go(func(*Worker) {}) }))
			require.NoError(t, p.Go(func(w *Worker) { explode(1) }))
			require.NoError(t, p.Go(func(w *Worker) { runtime.Goexit() }))
			_, err := Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(background)
			require.NoError(t, err)
			g := newGroup(p)
			g.Go(func() error { return nil })
			require.NoError(t, g.Wait())
			want += 9
		}
		require.True(t, testutil.Eventually(func() bool { return p.Stats().Total().Tasks >= uint64(want) }))
		requireAtRest(t, p)
		require.EqualValues(t, want, p.Stats().Total().Tasks)
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

func TestWhatIsCancelledBeforeItBeginsIsSkippedAndCounted(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release := occupyAll(t, p)
	ctx, cancel := context.WithCancelCause(context.Background())
	g, _ := NewGroup(p.With(ctx))
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
		require.ErrorIs(t, p.Submit(ended(), f, options...), io.EOF)
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
