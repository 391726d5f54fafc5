package pool

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/testutil"
)

// A test in which the order of tasks matters has one worker that is not pinned, so that no other
// can run them.

// onlyWorker runs f as a task on the pool's only worker and waits until all that f queues has run,
// none of which begins before f has ended.
func onlyWorker(t testing.TB, p *Pool, f func(w *Worker)) {
	t.Helper()
	require.Equal(t, 1, p.Workers())
	ran := make(chan struct{})
	err := p.Go(func(w *Worker) { // a require before f has ended would hold t's lock, and f's own wait for it, which lends the place
		defer close(ran)
		f(w)
	})
	ended := err == nil && closed(ran)
	require.NoError(t, err)
	require.True(t, ended)
	requireAtRest(t, p)
}

// occupyAll keeps all workers busy, in tasks that have begun, until release is called.
func occupyAll(t testing.TB, p *Pool) (release func()) {
	t.Helper()
	var begun atomic.Int32
	done := make(chan struct{})
	for range p.Workers() {
		require.NoError(t, p.Go(func(*Worker) { begun.Add(1); testutil.Compute(done) }))
	}
	require.True(t, testutil.Eventually(func() bool { return int(begun.Load()) == p.Workers() }))
	return sync.OnceFunc(func() { close(done) })
}

// diary is the order in which tasks began.
type diary struct {
	mu    sync.Mutex
	names []string
}

func (d *diary) note(name string) {
	d.mu.Lock()
	d.names = append(d.names, name)
	d.mu.Unlock()
}

func (d *diary) task(name string) func(*Worker) { return func(*Worker) { d.note(name) } }

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.names)
}

// never is a period after which the injector does not come first in a test.
const never = 1 << 30

func TestOwnTasksComeBeforeThoseOfTheInjector(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
	var d diary
	onlyWorker(t, p, func(w *Worker) {
		require.NoError(t, p.Go(d.task("outside")))
		for _, name := range []string{"first", "second", "last"} {
			require.NoError(t, w.Go(d.task(name)))
		}
	})
	require.Equal(t, []string{"last", "first", "second", "outside"}, d.read())
}

// TestWhatWasPulledComesBeforeOwnTasks: it has waited longer.
func TestWhatWasPulledComesBeforeOwnTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
	var d diary
	onlyWorker(t, p, func(w *Worker) {
		require.NoError(t, p.Go(func(w *Worker) {
			d.note("0")
			require.NoError(t, w.Go(d.task("own")))
			require.NoError(t, w.Go(d.task("own, last")))
		}))
		for i := 1; i < 8; i++ {
			require.NoError(t, p.Go(d.task(fmt.Sprint(i))))
		}
	})
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "own, last", "own"}, d.read())
}

func TestTheSlotGivesWayToTheRingAfterThreeInARow(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
	var d diary
	var chain func(n int) func(*Worker)
	chain = func(n int) func(*Worker) {
		return func(w *Worker) {
			d.note(fmt.Sprint(n))
			if n < 8 {
				require.NoError(t, w.Go(chain(n+1)))
			}
		}
	}
	onlyWorker(t, p, func(w *Worker) {
		w.tick.lifo, w.tick.budget = 0, budget
		require.NoError(t, w.Go(d.task("old")))
		require.NoError(t, w.Go(d.task("older than 4")))
		require.NoError(t, w.Go(chain(1)))
	})
	require.Equal(t, []string{"1", "2", "3", "old", "older than 4", "4", "5", "6", "7", "8"}, d.read())
}

func TestTheRingDoesNotStarveUnderTheSlot(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	const waiting = 300 // some of them in the injector
	var ran, inARow, most int
	var chain func(*Worker)
	chain = func(w *Worker) {
		inARow++
		most = max(most, inARow)
		if ran < waiting {
			_ = w.Go(chain)
		}
	}
	onlyWorker(t, p, func(w *Worker) {
		w.tick.budget = budget
		for range waiting {
			require.NoError(t, w.Go(func(*Worker) { ran++; inARow = 0 }))
		}
		require.NoError(t, w.Go(chain))
	})
	require.Equal(t, waiting, ran)
	// A tick that ends begins a new row; and the injector, to which the ring spills, comes
	// once in a period if it is all that is left.
	require.LessOrEqual(t, most, mostPoll+2*maxLIFO)
}

// keepsSlot runs f in a task as if it came after tasks so short that the worker keeps its LIFO slot, and closes done when f has returned.
func keepsSlot(t *testing.T, p *Pool, f func(w *Worker)) (done chan struct{}) {
	t.Helper()
	done = make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		w.keepSlot(true)
		f(w)
		close(done)
	}))
	return done
}

func TestAChainOfShortTasksWakesNobody(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	const links = 10_000
	over := make(chan struct{})
	var before, after uint64
	slow := false
	left := 2 * links
	var link func(w *Worker)
	link = func(w *Worker) {
		left--
		switch {
		case left == links:
			before = p.Stats().Total().Wakes
		case left == 0:
			after = p.Stats().Total().Wakes
			close(over)
			return
		}
		slow = slow || left < links && w.tick.average >= soon
		_ = w.Go(link)
	}
	require.NoError(t, p.Go(link))
	require.True(t, closed(over))
	if slow {
		t.Skip("this machine, or an emulator, has no tasks as short as that")
	}
	require.Less(t, after-before, uint64(links/50)) // a worker may be woken where the chain's thread has no CPU for a millisecond
}

// TestATaskInAKeptSlotIsRunByOthersIfItsHolderIsBusy, or waits.
func TestATaskInAKeptSlotIsRunByOthersIfItsHolderIsBusy(t *testing.T) {
	for name, until := range map[string]func(w *Worker, ran chan struct{}){
		"computes":           func(_ *Worker, ran chan struct{}) { testutil.Compute(ran) },
		"waits and says so":  func(w *Worker, ran chan struct{}) { w.Block(func() { <-ran }) },
		"waits and does not": func(_ *Worker, ran chan struct{}) { <-ran },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			for range testutil.Stress(20) {
				require.True(t, closed(keepsSlot(t, p, func(w *Worker) {
					ran := make(chan struct{})
					_ = w.Go(func(*Worker) { close(ran) })
					until(w, ran)
				})))
			}
		})
	}
}

// TestATaskInAKeptSlotSurvivesPauseAndClose: the pool is paused while the task's place has a holder, so nobody comes to the slot before Close.
func TestATaskInAKeptSlotSurvivesPauseAndClose(t *testing.T) {
	for i := range testutil.Stress(100) {
		p := newPool(t, WithWorkers(2))
		queued, paused := make(chan struct{}), make(chan struct{})
		var ran atomic.Bool
		done := keepsSlot(t, p, func(w *Worker) {
			_ = w.Go(func(*Worker) { ran.Store(true) })
			close(queued)
			testutil.Compute(paused)
		})
		<-queued
		go func() {
			for !p.core.IsPaused() {
				runtime.Gosched()
			}
			close(paused)
		}()
		require.NoError(t, p.Pause(t.Context()))
		if i%2 == 0 {
			p.Resume()
		}
		require.NoError(t, p.Close())
		require.True(t, closed(done))
		require.True(t, ran.Load())
	}
}

// TestATaskInAKeptSlotBeginsThoughItsPlaceGoesToABusyWorker, which has come back from a wait, and computes until the task has run.
func TestATaskInAKeptSlotBeginsThoughItsPlaceGoesToABusyWorker(t *testing.T) {
	went := 0
	for round := 0; round < testutil.Stress(50) || went == 0 && round < 1000; round++ {
		p := newPool(t, WithWorkers(2))
		back, ran := make(chan struct{}), make(chan struct{})
		var isBack atomic.Bool
		var home atomic.Pointer[place]
		over := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			home.Store(w.place)
			w.Block(func() { <-back })
			isBack.Store(true)
			testutil.Compute(ran)
			close(over)
		}))
		done := keepsSlot(t, p, func(w *Worker) {
			if w.place == home.Load() { // else this is the other worker
				went++
			}
			close(back)
			for !isBack.Load() {
				runtime.Gosched()
			}
			_ = w.Go(func(*Worker) { close(ran) })
		})
		require.True(t, closed(over))
		require.True(t, closed(done))
	}
	require.Positive(t, went)
}

// TestInjectorComesFirstOnceInAPeriod: the worker's own queues never become empty, and
// yet a task from outside starts within the period.
func TestInjectorComesFirstOnceInAPeriod(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []Option
		within  int64
	}{
		{"1", []Option{WithTuning(Tuning{PollPeriod: 1})}, 1},
		{"2", []Option{WithTuning(Tuning{PollPeriod: 2})}, 2},
		{"61", []Option{WithTuning(Tuning{PollPeriod: 61})}, 61},
		{"1000", []Option{WithTuning(Tuning{PollPeriod: 1000})}, 1000},
		{"adaptive", nil, mostPoll},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, append([]Option{WithWorkers(1), WithPinning(PinNone)}, c.options...)...)
			var ran atomic.Int64
			var enough atomic.Bool
			defer enough.Store(true) // also if the test fails
			var again func(*Worker)
			again = func(w *Worker) {
				if ran.Add(1); !enough.Load() {
					_ = w.Go(again)
				}
			}
			for range 3 { // so that the ring is in use, too
				require.NoError(t, p.Go(again))
			}
			require.True(t, testutil.Eventually(func() bool { return ran.Load() > 100 }))
			for range testutil.Stress(200) {
				started := make(chan int64, 1)
				require.NoError(t, p.Go(func(*Worker) { started <- ran.Load() }))
				before := ran.Load() // after the push, so the task counts from here
				select {
				case after := <-started:
					require.LessOrEqual(t, after-before, c.within+1) // and one that is about to begin
				case <-time.After(testutil.Patience):
					require.Fail(t, "the task starves")
				}
			}
		})
	}
}

// TestInjectorComesFirstAfterEachPeriod counts the worker's own tasks before each task that lies in
// the injector.
func TestInjectorComesFirstAfterEachPeriod(t *testing.T) {
	for _, period := range []int{1, 2, 60, 61} {
		const looks = 3
		p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: period}))
		var before []int
		ran := 0
		onlyWorker(t, p, func(w *Worker) {
			w.tick.poll = period // as after a look
			var outside func(*Worker)
			outside = func(*Worker) {
				if before = append(before, ran); len(before) < looks {
					_ = p.Go(outside)
				}
			}
			_ = p.Go(outside) // without require, which takes a lock and may wait for it, and a wait lends the place
			for range (looks + 1) * period {
				_ = w.Go(func(*Worker) { ran++ })
			}
		})
		require.Equal(t, []int{period, 2 * period, 3 * period}, before, "a period of %d", period)
		require.Equal(t, (looks+1)*period, ran)
	}
}

// TestPollPeriods checks blitz-io's table, and values beyond it.
func TestPollPeriods(t *testing.T) {
	for average, want := range map[time.Duration]int{
		-time.Second:           255,
		0:                      255,
		1:                      255,
		time.Microsecond:       255,
		10 * time.Microsecond:  100,
		50 * time.Microsecond:  20,
		100 * time.Microsecond: 10,
		125 * time.Microsecond: 8,
		126 * time.Microsecond: 8,
		time.Millisecond:       8,
		time.Second:            8,
		1<<63 - 1:              8,
		3921:                   255, // the edges
		3922:                   254,
	} {
		require.Equal(t, want, pollPeriod(average), "%v", average)
	}
}

// busy has the account measure tasks of one length that come one after the other, as many at a time as a tick has.
func busy(k *tick, each time.Duration, tasks int) {
	for now := int64(1); tasks > 0; {
		n := min(tasks, int(min(max(giveWayPeriod/k.average, 1), budget)))
		for range n {
			k.begins()
		}
		k.since, now = now, now+int64(n)*int64(each)
		k.measure(now, 1)
		tasks -= n
	}
}

// spaced has the account measure tasks of one length between which the worker searches.
func spaced(k *tick, each time.Duration, tasks int) {
	for range tasks {
		k.begins()
		k.measure(k.since+int64(each), 1)
		k.pause(1)
	}
}

func newTick(pollPeriod int) *tick {
	k := new(tick)
	k.begin(&Pool{config: config{pollPeriod: pollPeriod}})
	return k
}

// TestThePeriodFollowsWhatTasksTake within some tens of them, whether they are long or short, and come one after the
// other or one by one: blitz-io's table.
func TestThePeriodFollowsWhatTasksTake(t *testing.T) {
	for name, run := range map[string]func(k *tick, each time.Duration, tasks int){"busy": busy, "spaced": spaced} {
		k := newTick(0)
		require.Equal(t, 20, k.period)
		require.Equal(t, k.period, k.poll)
		for _, c := range []struct {
			each time.Duration
			want int
		}{
			{time.Microsecond, 255}, {10 * time.Microsecond, 100}, {100 * time.Microsecond, 10}, {50 * time.Microsecond, 20},
			{time.Millisecond, 8}, {time.Nanosecond, 255}, {500 * time.Microsecond, 8},
		} {
			k = newTick(0)
			run(k, c.each, 50)
			require.InEpsilon(t, c.want, k.period, 0.05, "%s, after 50 tasks of %v", name, c.each)
		}
		// And from one end to the other.
		run(k, time.Millisecond, 50)
		run(k, time.Microsecond, 80)
		require.Equal(t, 255, k.period, name)
		run(k, time.Millisecond, 2)
		require.Equal(t, 8, k.period, name)
		require.LessOrEqual(t, k.poll, 8, "the next look, too, comes after long tasks")
	}
}

func TestTheAverageSurvivesAClockThatGoesBack(t *testing.T) {
	k := newTick(0)
	for range 1000 {
		k.since, k.tasks = 1<<50, 1
		k.measure(1, 1)
	}
	require.EqualValues(t, 1, k.average)
	require.Equal(t, 255, k.period)
}

// TestAFixedPeriodStays, but the length of a tick follows what tasks take.
func TestAFixedPeriodStays(t *testing.T) {
	k := newTick(61)
	require.Equal(t, 61, k.poll)
	busy(k, time.Hour, 100)
	require.Equal(t, 61, k.period)
	require.Greater(t, k.average, time.Minute)
}

// TestWhatIsNotMeasuredChangesNothing: a time without a task, and a time in which there was nothing to do.
func TestWhatIsNotMeasuredChangesNothing(t *testing.T) {
	k := newTick(0)
	k.measure(1<<50, 1) // no beginning
	k.measure(1<<60, 1) // no task
	k.pause(1)
	require.Zero(t, k.since)
	k.begins()
	require.NotZero(t, k.since)
	k.measure(k.since+int64(firstAverage), 1)
	require.Equal(t, firstAverage, k.average)
	require.Equal(t, 20, k.period)
}

// TestWorkersMeasureWhatTheyRun: long and short tasks, that come one after the other or one by one, from outside or from
// the worker itself. Each run goes on until the period shows it.
func TestWorkersMeasureWhatTheyRun(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	long := func(*Worker) { heist.Spin(500 * time.Microsecond) }
	period := 0
	for name, one := range map[string]func(f func(*Worker)){
		"spaced": func(f func(*Worker)) {
			require.NoError(t, p.Go(f))
			requireAtRest(t, p)
		},
		"busy": func(f func(*Worker)) {
			for range 20 {
				require.NoError(t, p.Go(f))
			}
			requireAtRest(t, p)
		},
		"its own": func(f func(*Worker)) {
			onlyWorker(t, p, func(w *Worker) {
				for range 20 {
					require.NoError(t, w.Go(f))
				}
			})
		},
	} {
		after := func(f func(*Worker), is func() bool) bool {
			return testutil.Eventually(func() bool {
				one(f)
				onlyWorker(t, p, func(w *Worker) { period = w.tick.period })
				return is()
			})
		}
		require.True(t, after(long, func() bool { return period == leastPoll }), "%s, long: the period is %d", name, period)
		first := pollPeriod(firstAverage)
		require.True(t, after(func(*Worker) {}, func() bool { return period > first }), "%s, short: the period is %d", name, period)
	}
}

// TestTheSlotOfABusyWorkerIsStolen: thieves look at LIFO slots last, but they do. (In Tokio such a
// task waited for its worker: tokio#4941.)
func TestTheSlotOfABusyWorkerIsStolen(t *testing.T) {
	for _, workers := range []int{2, 4, 16} {
		p := newPool(t, WithWorkers(workers))
		for round := range testutil.Stress(100) {
			result := make(chan error, 1)
			require.NoError(t, p.Go(func(w *Worker) {
				if round%2 == 0 && !whenOneParked(p) {
					result <- fmt.Errorf("the others do not go to sleep")
					return
				}
				ran := make(chan struct{})
				_ = w.Go(func(v *Worker) {
					if v == w {
						t.Error("run by the worker that is busy")
					}
					close(ran)
				})
				if !closed(ran) {
					result <- fmt.Errorf("the task in the slot starves")
				}
				result <- nil
			}))
			require.NoError(t, <-result)
		}
	}
}

// TestATaskInTheSlotIsTakenOnce: by its holder or by a thief.
func TestATaskInTheSlotIsTakenOnce(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	pl := newPlace(p, 0)
	stolen, err := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	require.NoError(t, err)
	var lost []*task // to the thief
	var times, over atomic.Int32
	var thief sync.WaitGroup
	thief.Go(func() {
		for over.Load() == 0 {
			if t, _, _ := pl.stealTasks(stolen, true); t != nil {
				lost = append(lost, t)
				times.Add(1)
			} else {
				runtime.Gosched()
			}
		}
	})
	taken := map[*task]int{}
	for i := 0; int(times.Load()) < testutil.Stress(5_000); i++ {
		task := taskOf(func(*Worker) { t.Error(i) })
		taken[task] = 0
		pl.lifoSlot.Swap(task)
		if i%64 == 0 {
			runtime.Gosched() // on one CPU the thief would hardly ever come now
		} else {
			heist.Spin(time.Duration(i%64) * time.Nanosecond)
		}
		if got := pl.lifoSlot.Swap(nil); got != nil {
			taken[got]++
		}
	}
	over.Store(1)
	thief.Wait()
	for _, task := range lost {
		taken[task]++
	}
	for _, n := range taken {
		require.Equal(t, 1, n)
	}
}

// TestTheBatchOfABusyWorkerIsStolen: it has pulled tasks, and the first of them takes long.
func TestTheBatchOfABusyWorkerIsStolen(t *testing.T) {
	for _, workers := range []int{2, 4} {
		p := newPool(t, WithWorkers(workers))
		pulled := 0
		for round := 0; round < testutil.Stress(50) || pulled == 0 && round < 1000; round++ {
			const n = 40
			var ran atomic.Int32
			result := make(chan bool, 1)
			batch := []*task{taskOf(func(w *Worker) {
				pulled += w.batch.Len()
				result <- testutil.Eventually(func() bool { return ran.Load() == n })
			})}
			for range n {
				batch = append(batch, taskOf(func(*Worker) { ran.Add(1) }))
			}
			require.NoError(t, p.Go(func(w *Worker) {
				whenOneParked(p)
				p.nodes[0].queues[PriorityNormal].PushBatch(batch) // wakes no worker
			}))
			require.True(t, <-result, "tasks in the batch buffer starve")
		}
		require.NotZero(t, pulled, "thieves were always faster")
	}
}

// TestPullTakesAShare of what lies in the injector: from 4 to 64, and no more than the
// buffer has room for.
func TestPullTakesAShare(t *testing.T) {
	for _, c := range []struct{ lie, batched, want int }{
		{1, 0, 1}, {3, 0, 3}, {4, 0, 4}, {40, 0, 41 - 1}, {100, 0, 64}, {1000, 0, 64},
		{1000, 10, 55}, {1000, 60, 5}, {1000, 63, 2}, {1000, 64, 1},
	} {
		p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
		onlyWorker(t, p, func(w *Worker) {
			for range c.batched {
				w.batch.PushBatch([]*task{taskOf(func(*Worker) {})})
			}
			for range c.lie {
				require.NoError(t, p.Go(func(*Worker) {}))
			}
			first, r := w.pullBatch(0)
			require.Equal(t, heist.Success, r)
			require.NotNil(t, first)
			require.Equal(t, c.batched+c.want-1, w.batch.Len())
			require.Equal(t, c.lie-c.want, p.waiting())
			for _, x := range w.pulled {
				require.Nil(t, x, "it keeps a task alive")
			}
			require.NoError(t, w.Go(func(w *Worker) { first.run(w) }))
		})
	}
}

// TestPullLeavesTheOthersTheirShare while they are busy.
func TestPullLeavesTheOthersTheirShare(t *testing.T) {
	onMachine(t, pretended(1, 4))
	const workers, lie = 4, 100
	p := newPool(t, WithWorkers(workers))
	begun := testutil.NewBarrier(workers)
	done, got := make(chan struct{}), make(chan int, 1)
	for range workers - 1 {
		require.NoError(t, p.Go(func(*Worker) { begun.Compute(); testutil.Compute(done) }))
	}
	require.NoError(t, p.Go(func(w *Worker) {
		begun.Compute()
		for range lie {
			_ = p.Go(func(*Worker) {})
		}
		first, _ := w.pullBatch(0)
		got <- lie - p.waiting()
		close(done)
		first.run(w)
	}))
	require.True(t, testutil.Eventually(func() bool { return len(got) == 1 }))
	require.Equal(t, lie/workers+1, <-got)
}

// # Priorities

func TestHighComesFirstAndLowLast(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
	var d diary
	ctx := context.Background()
	onlyWorker(t, p, func(w *Worker) {
		w.tick.turn = 0
		require.NoError(t, p.Submit(ctx, d.task("low"), PriorityLow))
		require.NoError(t, p.Go(d.task("normal")))
		require.NoError(t, w.Go(d.task("own")))
		require.NoError(t, p.Submit(ctx, d.task("high"), PriorityHigh))
		require.NoError(t, p.Submit(ctx, d.task("higher"), PriorityLow, PriorityHigh)) // the last option counts
	})
	require.Equal(t, []string{"high", "higher", "own", "normal", "low"}, d.read())
	require.Zero(t, p.urgent.Load())
}

// TestOneTurnInEightIsNotForHigh, however many tasks of high priority there are: the worker's own
// tasks go on.
func TestOneTurnInEightIsNotForHigh(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: never}))
	var d diary
	onlyWorker(t, p, func(w *Worker) {
		w.tick.turn = 0
		for range 70 {
			require.NoError(t, p.Submit(context.Background(), d.task("high"), PriorityHigh))
		}
		for range 20 {
			require.NoError(t, w.Go(d.task("own")))
		}
	})
	names := d.read()
	require.Len(t, names, 90)
	for i, name := range names[:80] {
		want := "high"
		if i%otherTurns == otherTurns-1 {
			want = "own"
		}
		require.Equal(t, want, name, "the task at %d", i)
	}
}

// TestNothingStarvesUnderWhatNeverEnds: while tasks of the endless priorities queue themselves
// again, another task starts within so many tasks.
func TestNothingStarvesUnderWhatNeverEnds(t *testing.T) {
	const period = 61
	for _, c := range []struct {
		name    string
		endless []Priority
		own     bool // the worker's own queue never ends either
		starts  Priority
		within  int64
	}{
		{"high under high", []Priority{PriorityHigh}, false, PriorityHigh, 20},
		{"normal under high", []Priority{PriorityHigh}, false, PriorityNormal, otherTurns * (period + 1)},
		{"low under high", []Priority{PriorityHigh}, false, PriorityLow, lowTurns},
		{"high under normal", []Priority{PriorityNormal}, true, PriorityHigh, 2},
		{"low under normal", []Priority{PriorityNormal}, false, PriorityLow, lowTurns},
		{"low under own", nil, true, PriorityLow, lowTurns},
		{"low under both", []Priority{PriorityHigh, PriorityNormal}, true, PriorityLow, lowTurns},
		{"normal under high and own", []Priority{PriorityHigh}, true, PriorityNormal, otherTurns * (period + 1)},
		{"high under all", []Priority{PriorityHigh, PriorityNormal, PriorityLow}, true, PriorityHigh, 20},
		{"low under all", []Priority{PriorityHigh, PriorityNormal, PriorityLow}, true, PriorityLow, 4 * lowTurns},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{PollPeriod: period}))
			var ran atomic.Int64
			var enough atomic.Bool
			defer enough.Store(true) // also if the test fails
			if c.own {
				var again func(*Worker)
				again = func(w *Worker) {
					if ran.Add(1); !enough.Load() {
						_ = w.Go(again)
					}
				}
				require.NoError(t, p.Go(again))
				require.NoError(t, p.Go(again))
				require.True(t, testutil.Eventually(func() bool { return ran.Load() > 100 }))
			}
			for _, priority := range c.endless {
				var again func(*Worker)
				again = func(*Worker) {
					if ran.Add(1); !enough.Load() {
						_ = p.enqueue(again, priority, 0)
					}
				}
				for range 3 {
					require.NoError(t, p.enqueue(again, priority, 0))
				}
			}
			require.True(t, testutil.Eventually(func() bool { return ran.Load() > 1000 }))
			for range testutil.Stress(50) {
				started := make(chan int64, 1)
				require.NoError(t, p.Submit(context.Background(), func(*Worker) { started <- ran.Load() }, c.starts))
				before := ran.Load()
				select {
				case after := <-started:
					require.LessOrEqual(t, after-before, c.within)
				case <-time.After(testutil.Patience):
					require.Fail(t, "it starves")
				}
			}
		})
	}
}

// TestPrioritiesAmongManyWorkersLoseNothing has submitters of all kinds at once.
func TestPrioritiesAmongManyWorkersLoseNothing(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		const submitters = 6
		n := testutil.Stress(3000)
		ran := make(tally, submitters*n)
		testutil.Together(submitters, func(who int) {
			for i := range n {
				priority := Priority((who + i) % priorities)
				err := p.Submit(context.Background(), func(*Worker) { ran[who*n+i].Add(1) }, priority)
				if err != nil {
					t.Error(err)
				}
			}
		})()
		ran.requireEachOnce(t)
		require.Zero(t, p.urgent.Load())
	})
}

// BenchmarkTickEnd measures what the end of a tick costs, shared by its tasks: of one whose tasks were shorter than
// thought, and of a whole one.
func BenchmarkTickEnd(b *testing.B) {
	p := newPool(b, WithWorkers(1))
	onlyWorker(b, p, func(w *Worker) {
		fib(w, 20)
		w.Scope(func(s *Scope) { s.Go(w, func(*Worker) {}) })
		for name, began := range map[string]int64{"early": 1 << 62, "whole": 0} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					w.tick.begins()
					w.tick.began, w.gaveWayAt = began, 1<<62 // it does not give way
					w.endTick()
				}
			})
		}
	})
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

// TestOneLookInEightIsAtTheInjectorOfAnotherNode, each in turn, where an injector comes first.
func TestOneLookInEightIsAtTheInjectorOfAnotherNode(t *testing.T) {
	w := &Worker{pool: &Pool{layout: layout{nodes: []node{{}, {nearby: []int{1, 0, 2}}, {}}}}}
	w.core.Init(&w.pool.core, &core.Placement{Node: 1}, nil, false)
	w.place = new(place)
	looks := map[int]int{}
	for range 24 * otherNodes {
		looks[w.pollNode()]++
	}
	require.Equal(t, map[int]int{1: 24*(otherNodes-1) + 8, 0: 8, 2: 8}, looks)
}

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
