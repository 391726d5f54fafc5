package pool

import (
	"cmp"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// needsStatuses skips a test of what is not so where time decides.
func needsStatuses(t *testing.T) {
	if goroutineStatuses().at == 0 {
		t.Skip("the status of goroutines cannot be read here")
	}
}

// TestATaskMayWaitForALaterOneWithoutAWord, in all ways that Go has, on few workers.
func TestATaskMayWaitForALaterOneWithoutAWord(t *testing.T) {
	noticeSoon(t)
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for range testutil.Stress(30) {
			const tasks = 20
			var mutex sync.Mutex
			var group, all sync.WaitGroup
			links := make([]chan int, tasks+1)
			for i := range links {
				links[i] = make(chan int)
			}
			cond, ready := sync.NewCond(&mutex), false
			group.Add(1)
			for i := range tasks {
				all.Add(4)
				require.NoError(t, p.Go(func(*Worker) { defer all.Done(); links[i] <- <-links[i+1] }))
				require.NoError(t, p.Go(func(*Worker) { defer all.Done(); group.Wait() }))
				require.NoError(t, p.Go(func(*Worker) {
					defer all.Done()
					mutex.Lock()
					for !ready {
						cond.Wait()
					}
					mutex.Unlock()
				}))
				require.NoError(t, p.Go(func(*Worker) { defer all.Done(); time.Sleep(time.Microsecond) }))
			}
			require.NoError(t, p.Go(func(*Worker) {
				mutex.Lock()
				ready = true
				mutex.Unlock()
				cond.Broadcast()
				group.Done()
				links[tasks] <- 1
			}))
			require.True(t, testutil.Returns(func() { <-links[0]; all.Wait() }))
		}
		requireAtRest(t, p)
		require.Zero(t, p.core.Waits())
	}
}

// TestAFunctionThatWaitsGivesUpItsTurn: in a group with AtMost, and among callers.
func TestAFunctionThatWaitsGivesUpItsTurn(t *testing.T) {
	noticeSoon(t)
	p := newPool(t, WithWorkers(1), WithCallers(1))
	g, _ := NewGroup(p)
	g.AtMost(1)
	met := testutil.NewBarrier(10)
	for range 10 {
		g.Go(func() error { met.Wait(); return nil })
	}
	require.True(t, testutil.Returns(func() { require.NoError(t, g.Wait()) }))
	require.Zero(t, g.turns.Taken)

	met = testutil.NewBarrier(10)
	require.True(t, testutil.Returns(testutil.Together(10, func(int) { _ = p.Run(func(*Worker) { met.Wait() }) })))
	require.Zero(t, p.admission.Taken)
}

// TestAWorkerThatComputesKeepsItsPlace, whatever is queued.
func TestAWorkerThatComputesKeepsItsPlace(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(1))
	release := occupyAll(t, p)
	var ran atomic.Bool
	require.NoError(t, p.Go(func(*Worker) { ran.Store(true) }))
	for range 30 { // looks of the monitor
		time.Sleep(monitorPeriod)
		runtime.GC() // which has goroutines wait that compute
	}
	require.False(t, ran.Load())
	release()
	require.True(t, testutil.Eventually(ran.Load))
}

// TestNoWaitIsNoticedWhileAWorkerQueuesATask: it may be that of an allocation, and a stand-in would use the place at the same time.
func TestNoWaitIsNoticedWhileAWorkerQueuesATask(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(1))
	queues := false
	var over atomic.Bool
	var chain func(*Worker)
	chain = func(w *Worker) {
		for range 100_000 { // longer than a turn on one P, so that the test sees the worker in the middle of it
			_ = w.Go(func(*Worker) {})
		}
		if !over.Load() {
			_ = w.Go(chain)
		}
	}
	require.NoError(t, p.Go(chain))
	require.True(t, testutil.Eventually(func() bool {
		p.workers.each(func(w *Worker) { queues = queues || w.usesPlace.Load() != 0 })
		return queues
	}))
	over.Store(true)

	gate, began := make(chan struct{}), make(chan *Worker)
	require.NoError(t, p.Go(func(w *Worker) {
		w.usesPlace.Set(1)
		began <- w
		<-gate
		w.usesPlace.Set(0)
		<-gate
	}))
	w := <-began
	ran := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(ran) }))
	look := look{p: p, statuses: goroutineStatuses()}
	require.True(t, testutil.Eventually(func() bool { return look.waits(w) }))
	look.notice(w)
	require.Zero(t, p.core.Waits())
	gate <- struct{}{}
	require.True(t, closed(ran), "the wait behind it is noticed")
	gate <- struct{}{}
}

// TestThievesFindWhatATaskShowsAfterANoticedWait: it had nothing to show while it waited, and has not come back before
// it has.
func TestThievesFindWhatATaskShowsAfterANoticedWait(t *testing.T) {
	needsStatuses(t)
	shows := map[string]func(w *Worker, first, second func(*Worker)){
		"children": func(w *Worker, first, second func(*Worker)) {
			w.Scope(func(s *Scope) {
				s.Go(w, second)
				s.Go(w, first)
			})
		},
		"forks": func(w *Worker, first, second func(*Worker)) { _ = Do(w, first, second) },
	}
	for what, show := range shows {
		t.Run(what, func(t *testing.T) {
			p := newPool(t, WithWorkers(1))
			for range testutil.Stress(20) {
				gate, over := make(chan struct{}), make(chan struct{})
				require.NoError(t, p.Go(func(w *Worker) {
					<-gate
					met := testutil.NewBarrier(2)
					show(w, func(*Worker) { met.Wait() }, func(*Worker) { met.Wait() })
					close(over)
				}))
				require.NoError(t, p.Go(func(*Worker) {}))
				require.True(t, testutil.Eventually(func() bool { return p.core.Waits() == 1 }))
				close(gate)
				require.True(t, testutil.Returns(func() { <-over }))
			}
		})
	}
}

// TestATaskThatWaitsForAMomentAgainAndAgainIsNoticed on one P, where the clock wakes it whenever it wakes the monitor.
func TestATaskThatWaitsForAMomentAgainAndAgainIsNoticed(t *testing.T) {
	needsStatuses(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1))
	for _, pause := range []time.Duration{100 * time.Microsecond, 300 * time.Microsecond, 800 * time.Microsecond} {
		var over atomic.Bool
		polls := Async(p, func(*Worker) (int, error) {
			for !over.Load() {
				time.Sleep(pause)
			}
			return 0, nil
		})
		require.NoError(t, p.Go(func(*Worker) { over.Store(true) }))
		_, err := waitFor(t, polls)
		require.NoError(t, err)
	}
}

// TestTasksThatWaitForAMomentOneAfterTheOtherAreNoticed on one P, where the clock wakes the first of them whenever it wakes the monitor, and the
// next one does not begin before the monitor has looked a second time.
func TestTasksThatWaitForAMomentOneAfterTheOtherAreNoticed(t *testing.T) {
	needsStatuses(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, pause := range []time.Duration{100 * time.Microsecond, 300 * time.Microsecond, 800 * time.Microsecond} {
		p := newPool(t, WithWorkers(1))
		for range 300 {
			require.NoError(t, p.Go(func(*Worker) { time.Sleep(pause) }))
		}
		requireAtRest(t, p)
		require.Greater(t, p.Stats().Noticed, uint64(100), "%v", pause)
	}
}

// TestAllComesToRestAfterTasksThatWaitAgainAndAgain, with their waits noticed at any moment.
func TestAllComesToRestAfterTasksThatWaitAgainAndAgain(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(2000) {
		require.NoError(t, p.Go(func(w *Worker) {
			time.Sleep(50 * time.Microsecond)
			runtime.Gosched()
			time.Sleep(50 * time.Microsecond)
			_ = w.Go(func(*Worker) {})
		}))
	}
	requireAtRest(t, p)
	require.Zero(t, p.core.Waits())
}

// TestAForkThatASearcherLeavesAloneIsTakenOnceAGuestWaits: as many guests seem to compute as there are workers, one of them waits for its fork, and the searcher
// that the fork has relied on falls asleep, stops for something else, or goes on for ever.
func TestAForkThatASearcherLeavesAloneIsTakenOnceAGuestWaits(t *testing.T) {
	needsStatuses(t)
	for name, test := range map[string]struct {
		hot bool
		end func(p *Pool)
	}{
		"falls asleep": {false, func(p *Pool) {
			p.core.EachOpen(func(pl *core.Place) {
				if p.core.Sleep.Choose(pl.Index) {
					pl.WakeUp()
				}
			})
			p.core.Sleep.Add(-policy.OneSearching)
		}},
		"stops": {false, func(p *Pool) {
			if p.core.Sleep.StopSearching() {
				p.core.NotifySeen()
			}
		}},
		"goes on": {true, func(p *Pool) { p.core.Sleep.Add(-policy.OneSearching) }},
	} {
		p := newPool(t, WithWorkers(2), WithTuning(Tuning{HotWorker: test.hot}))
		requireAtRest(t, p)
		stolen := make(chan struct{})
		begun := make(chan struct{})
		other := testutil.Together(1, func(int) { _ = p.Run(func(*Worker) { close(begun); testutil.Compute(stolen) }) })
		<-begun
		p.core.Sleep.Add(policy.OneSearching)
		p.core.SearchedAt.Store(math.MaxInt64 / 2) // just now
		forked := make(chan struct{})
		guest := testutil.Together(1, func(int) {
			_ = Do(p, func(*Worker) { close(forked); <-stolen }, func(*Worker) { close(stolen) })
		})
		<-forked
		test.end(p)
		require.True(t, testutil.Returns(guest), name)
		other()
	}
}

// TestWhoLooksAtAllWorkersHoldsUpNoNewOne: in a paused pool the monitor looks whether waits are over, and takes the lock of a
// worker, under which a lookout may be about to hire another one to which it lends the place.
func TestWhoLooksAtAllWorkersHoldsUpNoNewOne(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	p.workers.each(func(*Worker) {
		require.True(t, testutil.Returns(func() { require.NoError(t, p.Run(func(*Worker) {})) }), "a guest, which is new, must wait")
	})
}

// TestAWorkerNoticesAWaitBetweenItsTasks, without the timer.
func TestAWorkerNoticesAWaitBetweenItsTasks(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(2))
	p.core.Monitored.Store(true) // so that nobody starts the timer
	gate := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { <-gate }))
	require.True(t, testutil.Eventually(func() bool {
		_ = p.Go(func(*Worker) { work(100_000) })
		return p.core.Waits() == 1
	}))
	close(gate)
	requireAtRest(t, p)
}

// TestTheTimerLooksSeldomWhereItFindsNothing, and soon again once a wait is noticed.
func TestTheTimerLooksSeldomWhereItFindsNothing(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(1))
	period := func() (d time.Duration) {
		for !p.monitor.looking.CompareAndSwap(false, true) {
			runtime.Gosched()
		}
		defer p.monitor.looking.Store(false)
		return p.monitor.period
	}
	seldom, gate := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) {
		testutil.Compute(seldom)
		<-gate
	}))
	require.NoError(t, p.Go(func(*Worker) {})) // queued meanwhile
	require.True(t, testutil.Eventually(func() bool { return period() == mostPeriod }))
	close(seldom)
	require.True(t, testutil.Eventually(func() bool { return p.core.Waits() == 1 }))
	require.Less(t, period(), mostPeriod)
	close(gate)
	requireAtRest(t, p)
}

// TestTheMonitorEndsWhenThereIsNothingToSee.
func TestTheMonitorEndsWhenThereIsNothingToSee(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(1))
	gate := make(chan struct{})
	for range 3 {
		require.NoError(t, p.Go(func(*Worker) { <-gate }))
	}
	require.True(t, testutil.Eventually(func() bool { return p.core.Waits() == 3 }), "all have begun")
	require.True(t, testutil.Eventually(func() bool { return !p.core.Monitored.Load() }), "they wait, and nothing is queued")
	requireDump(t, p, "waits in chan receive", ", noticed", "All wait, and nothing is queued")
	close(gate)
	requireAtRest(t, p)
}

// TestAFunctionThatWaitsIsRemembered, and forgotten once it waits no longer.
func TestAFunctionThatWaitsIsRemembered(t *testing.T) {
	var h habits
	begins := func(code uintptr) bool { waits, _ := h.begins(code); return waits }
	const code, other = 4711, 4712
	require.False(t, begins(code))
	h.waits(code)
	require.EqualValues(t, 1, h.known.Load())
	require.True(t, begins(code))
	require.False(t, begins(other))
	for begins(code) {
	}
	require.Zero(t, h.known.Load())
	for range 10 * habitMemory {
		h.waits(code)
		require.True(t, begins(code))
	}
	require.Less(t, h.slot(code).Load().begun.Load(), int64(habitMemory))
}

// TestWaysToWaitAreFoundBesideGoroutinesThatCompute: each time that a goroutine goes on it waits for its turn, and the pool that looks waits meanwhile.
func TestWaysToWaitAreFoundBesideGoroutinesThatCompute(t *testing.T) {
	if goroutineStatuses().at == 0 {
		t.Skip("statuses cannot be read here")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var over atomic.Bool
	var computing sync.WaitGroup
	for range 4 {
		computing.Go(func() {
			for !over.Load() {
				heist.Spin(time.Microsecond)
			}
		})
	}
	found := findStatusesIn(mostLooks / 10) // where each look takes a turn of some 20 milliseconds, all take 10 seconds
	over.Store(true)
	computing.Wait()
	require.NotZero(t, found.at)
}

// TestTheStatusOfGoroutinesIsFound where the goroutine's record is, and tells waits from computing.
func TestTheStatusOfGoroutinesIsFound(t *testing.T) {
	s := goroutineStatuses()
	if goroutineRecord() == nil {
		require.Zero(t, s.at)
		require.Equal(t, isUnclear, s.of(nil))
		return
	}
	require.NotZero(t, s.at, "not on this Go release: time decides now, see docs/runtime.md")
	require.Equal(t, isRunning, s.of((*record)(goroutineRecord())))
	gate, records := make(chan int), make(chan *record)
	over := testutil.Together(1, func(int) { records <- (*record)(goroutineRecord()); <-gate })
	r := <-records
	require.True(t, testutil.Eventually(func() bool { return s.of(r) == isWaiting }))
	close(gate)
	over()
}

// TestStatusesAreLookedForAgain where a machine stood still at the first try, but not for ever on a release of Go whose records differ.
func TestStatusesAreLookedForAgain(t *testing.T) {
	for _, fits := range []int{1, 2, 0} {
		tries := 0
		f := finder{tries: 3, find: func() *statuses {
			if tries++; tries == fits {
				return &statuses{at: 1}
			}
			return new(statuses)
		}}
		for range 5 {
			f.get()
		}
		require.Equal(t, cmp.Or(fits, 3), tries)
		require.Equal(t, fits > 0, f.get().at > 0)
	}
}

// TestNoMoreTasksBeginThanThereArePlaces, where tasks wait again and again without a word. Those that come back go on at once, so only the time
// until the first wait counts.
func TestNoMoreTasksBeginThanThereArePlaces(t *testing.T) {
	needsStatuses(t)
	const workers = 4
	p := newPool(t, WithWorkers(workers))
	var begun, most atomic.Int32
	compute := func() {
		for range 10 {
			heist.Spin(5 * time.Microsecond)
			runtime.Gosched() // so that others may compute at the same time, however many CPUs there are
		}
	}
	var all sync.WaitGroup
	for i := range testutil.Stress(2000) {
		all.Add(1)
		require.NoError(t, p.Go(func(*Worker) {
			defer all.Done()
			now := begun.Add(1)
			for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			compute()
			begun.Add(-1)
			for range 5 {
				time.Sleep(time.Duration(i%5) * 500 * time.Microsecond)
				compute()
			}
		}))
	}
	all.Wait()
	require.LessOrEqual(t, int(most.Load()), workers+int(p.Stats().Beside))
}
