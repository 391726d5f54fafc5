package pool

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// pause waits for a random time near the one after which a worker parks.
func pause() {
	switch rand.N(4) {
	case 0:
	case 1:
		runtime.Gosched()
	default:
		heist.Spin(rand.N(40 * time.Microsecond))
	}
}

// TestTasksThatComeOneByOneAreRun gives each task to workers that are just about to
// sleep, or sleep.
func TestTasksThatComeOneByOneAreRun(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		ran := make(chan int)
		for i := range testutil.Stress(4000) {
			require.NoError(t, p.Go(func(*Worker) { ran <- i }))
			require.Equal(t, i, <-ran)
			pause()
		}
	}
}

func TestBurstsOfTasksAreRun(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(200) {
			n := 1 + rand.N(10)
			var ran atomic.Int32
			for range n {
				require.NoError(t, p.Go(func(w *Worker) {
					_ = w.Go(func(*Worker) { ran.Add(1) })
				}))
				pause()
			}
			require.True(t, testutil.Eventually(func() bool { return ran.Load() == int32(n) }))
		}
	})
}

// TestAsManyTasksAsWorkersRunAtOnce: each task waits for all the others, so every worker must be
// woken, though each worker that wakes up wakes the next.
func TestAsManyTasksAsWorkersRunAtOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		n := p.Workers()
		for round := range testutil.Stress(3000 / (n + 10)) {
			if round%2 == 0 {
				require.True(t, whenParked(p))
			}
			meet := testutil.NewBarrier(n)
			g := newGroup(p)
			spawn := func() {
				g.Go(func() error { meet.Wait(); return nil })
			}
			switch round % 3 {
			case 0: // from outside
				for range n {
					spawn()
				}
			case 1: // from outside, with pauses
				for range n {
					spawn()
					pause()
				}
			case 2: // from inside
				g.GoWorker(func(w *Worker) error {
					for range n - 1 {
						g.tasks.Add(1)
						if err := w.Go(func(*Worker) { meet.Wait(); g.done(1) }); err != nil {
							return err
						}
					}
					meet.Wait()
					return nil
				})
			}
			require.NoError(t, g.Wait())
		}
	})
}

// TestTaskThatWaitsForTheNextOne: where there is another worker, it runs the next task meanwhile.
func TestTaskThatWaitsForTheNextOne(t *testing.T) {
	for _, workers := range []int{2, 3, 16} {
		p := newPool(t, WithWorkers(workers))
		for round := range testutil.Stress(500) {
			if round%2 == 0 {
				require.True(t, whenParked(p))
			}
			next, done := make(chan struct{}), make(chan struct{})
			require.NoError(t, p.Go(func(*Worker) { <-next; close(done) }))
			pause()
			require.NoError(t, p.Go(func(*Worker) { close(next) }))
			<-done
		}
	}
}

// TestPingPong has two tasks that take turns, each of which starts the other anew.
func TestPingPong(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for _, inside := range []bool{true, false} {
			left := testutil.Stress(10_000)
			over := make(chan struct{})
			var ping, pong func(w *Worker)
			next := func(w *Worker, f func(*Worker)) {
				if left--; left == 0 {
					close(over)
				} else if inside {
					_ = w.Go(f)
				} else {
					_ = p.Go(f)
				}
			}
			ping = func(w *Worker) { next(w, pong) }
			pong = func(w *Worker) { next(w, ping) }
			require.NoError(t, p.Go(ping))
			<-over
		}
	}
}

// TestForksThatAppearWhileOthersSleepAreStolen: f waits for g, so the test hangs if the fork wakes
// no worker.
func TestForksThatAppearWhileOthersSleepAreStolen(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for round := range testutil.Stress(2000) {
		if round%4 == 0 {
			require.True(t, whenParked(p))
		}
		require.NoError(t, p.Run(func(w *Worker) {
			pause()
			stolenJoin(w, nop[int], nop[int])
			pause()
			stolenJoin(w, nop[int], nop[int])
		}))
		pause()
	}
}

func TestALongComputationIsShared(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("with a single P, nobody steals before the runtime interrupts the guest")
	}
	p := newPool(t, WithWorkers(4))
	n := 25
	if testutil.Short() {
		n = 16
	}
	before := p.Stats().Total()
	shared := testutil.Eventually(func() bool {
		require.True(t, whenParked(p))
		require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(n), fib(w, n)) }))
		now := p.Stats().Total()
		return now.Steals > before.Steals && now.Items > before.Items && now.Looks > before.Looks
	})
	require.True(t, shared, "nothing was ever stolen")
}

// TestJoiningSleeperIsWokenWhenItsForkIsDone has the thief take its time, so that
// the worker, or the guest, that waits has gone to sleep.
func TestJoiningSleeperIsWokenWhenItsForkIsDone(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	join := func(w *Worker) int {
		_, y := stolenJoin(w, nop[int], func(*Worker) int {
			pause()
			if rand.N(4) == 0 {
				time.Sleep(time.Duration(rand.N(200)) * time.Microsecond)
			}
			return 1
		})
		return y
	}
	for range testutil.Stress(700) {
		require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, 1, join(w)) }))
		result := make(chan int)
		require.NoError(t, p.Go(func(w *Worker) { result <- join(w) }))
		require.Equal(t, 1, <-result)
		require.NoError(t, p.Go(func(*Worker) { // a guest inside a task
			_ = p.Run(func(w *Worker) { result <- join(w) })
		}))
		require.Equal(t, 1, <-result)
	}
}

// TestTaskIsRunInThePlaceOfAWorkerThatWaitsInAJoin: the worker waits for a fork that waits for the
// task.
func TestTaskIsRunInThePlaceOfAWorkerThatWaitsInAJoin(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithPinning(PinNone))
	for range testutil.Stress(100) {
		joining := make(chan *Worker)
		ran := make(chan *Worker, 1)
		released, ended := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(ended)
			stolenJoin(w, nop[int], func(*Worker) int {
				joining <- w
				<-released
				return 0
			})
		}))
		w := <-joining
		require.True(t, testutil.Eventually(func() bool { return p.core.Waits() >= 1 }))
		require.NoError(t, p.Go(func(w *Worker) { ran <- w }))
		require.NotSame(t, w, <-ran)
		close(released)
		<-ended
	}
}

// TestTaskIsRunBesideASleeperInAJoin has a sleeper in the way: a worker that waits for a fork.
func TestTaskIsRunBesideASleeperInAJoin(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(200) {
		release, ended := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(ended)
			stolenJoin(w, nop[int], func(*Worker) int { <-release; return 0 })
		}))
		pause()
		ran := make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(ran) }))
		<-ran
		close(release)
		<-ended
	}
}

// TestWorkerOfAGuestThatWaitsRunsTasks: the guest is inside a task, and so the task's
// worker is free while the guest waits for a stolen fork, which waits for a task.
func TestWorkerOfAGuestThatWaitsRunsTasks(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(100) {
		ended, ran := make(chan struct{}), make(chan struct{})
		busy, release := make(chan struct{}), make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) {
			defer close(ended)
			_ = p.Run(func(w *Worker) {
				stolenJoin(w, nop[int], func(*Worker) int {
					_ = p.Go(func(*Worker) { close(busy); <-release })
					<-busy // now there is no other worker left
					_ = p.Go(func(*Worker) { close(ran) })
					<-ran
					close(release)
					return 0
				})
			})
		}))
		<-ended
	}
}

// TestPoolComesToRest checks that the counts of searching and parked workers and of
// guests are what they were at the start, after everything that moves them.
func TestPoolComesToRest(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			requireAtRest(t, p)
			wait := testutil.Together(8, func(who int) {
				for i := range 20 {
					switch (who + i) % 4 {
					case 0:
						_ = p.Run(func(w *Worker) { fib(w, 10) })
					case 1:
						_ = p.Go(func(w *Worker) { fib(w, 10) })
					case 2:
						g := newGroup(p)
						g.Go(func() error { return nil })
						g.GoWorker(func(w *Worker) error { fib(w, 8); return nil })
						_ = g.Wait()
					case 3:
						_ = testutil.Caught(func() {
							_ = p.Run(func(w *Worker) {
								Join(w, fib, 8, func(*Worker, int) int { return explode("g") }, 0)
							})
						})
					}
					pause()
				}
			})
			wait()
		}
		requireAtRest(t, p)
	})
}

// TestNoPlaceSleepsOverATask that became visible after the place's last look, and whose submitter
// saw a searcher and woke no worker.
func TestNoPlaceSleepsOverATask(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for range testutil.Stress(100) {
		require.True(t, whenParked(p))
		require.True(t, p.core.Sleep.Choose(0)) // the place is the test's
		p.core.Sleep.Resumed()
		ran := make(chan struct{})
		require.True(t, p.nodes[0].queues[PriorityNormal].Push(taskOf(func(*Worker) { close(ran) })))
		p.places[0].core.FallAsleep()
		require.True(t, closed(ran))
	}
}

func TestAPoolAsleepDoesNotWakeUp(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range 3 {
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 15) }))
		requireAtRest(t, p)
		before := p.Stats().Total()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, before, p.Stats().Total())
	}
}

// TestWhoIsWokenLooksFirstWhereWorkWasSeen: the nearest work is likely to be a smaller piece than
// the work that the worker was woken for.
func TestWhoIsWokenLooksFirstWhereWorkWasSeen(t *testing.T) {
	p := newPool(t, WithWorkers(3), WithPinning(PinNone))
	var come atomic.Int32
	over := make(chan struct{})
	found := make(chan []bool)
	for range 3 {
		require.NoError(t, p.Go(func(w *Worker) {
			for come.Add(1); come.Load() < 3; { // a wait would lend the place
				runtime.Gosched()
			}
			if w.id != 0 {
				testutil.Compute(over)
				return
			}
			// Both other places have a task. This worker announces that its place sleeps, and is
			// woken.
			var right []bool
			for seen := 1; seen < 3; seen++ {
				var tasks [3]*task
				for i := 1; i < 3; i++ {
					tasks[i] = taskOf(func(*Worker) {})
					p.places[i].ring.Push(tasks[i])
				}
				p.core.Sleep.Announce(w.index, false)
				pl := w.place
				i, ok := p.core.Sleep.ChooseNear(p.nodes[0].nearby, -1)
				p.core.Sleep.Resumed()
				pl.core.FirstVictim = seen // as wakeOne does
				hinted := ok && i == w.index
				j, _ := w.stealWork(false)
				right = append(right, hinted && j.task == tasks[seen] && w.place.core.FirstVictim == -1)
				p.places[3-seen].ring.Pop()
			}
			found <- right
		}))
	}
	require.Equal(t, []bool{true, true}, <-found)
	close(over)
}

// # Wake-ups that are not answered, and workers that stay awake

// phantom is a searcher that does not run.
func phantom(p *Pool) (leave func()) {
	p.core.Sleep.Add(policy.OneSearching)
	p.core.SearchedAt.Store(heist.Ticks() - 2*p.core.TicksAnswer)
	return func() { p.core.Sleep.Add(-policy.OneSearching) }
}

// TestASearcherThatDoesNotRunIsNotTrusted by the next submitter, which wakes another worker.
func TestASearcherThatDoesNotRunIsNotTrusted(t *testing.T) {
	for range testutil.Stress(50) {
		p := newPool(t, WithWorkers(2))
		requireAtRest(t, p)
		leave := phantom(p)
		ran := make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(ran) }))
		require.True(t, testutil.Returns(func() { <-ran }), "the task waits for a worker that does not run")
		leave()
	}
}

// TestASearcherShowsThatItRuns: otherwise the next submitter would wake another worker for nothing.
func TestASearcherShowsThatItRuns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // on one P it looks once
	for name, options := range map[string][]Option{"search": nil, "watch": {WithTuning(Tuning{HotWorker: true})}} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, append(options, WithWorkers(1))...)
			ended := make(chan int64)
			require.NoError(t, p.Go(func(*Worker) { ended <- heist.Ticks() }))
			end := <-ended // it searches once more before it sleeps
			require.True(t, testutil.Eventually(func() bool { return p.core.SearchedAt.Load() > end }))
		})
	}
}

// TestABusyWorkerWakesAnotherForWhatWaits, if the worker that was woken for it does not run.
func TestABusyWorkerWakesAnotherForWhatWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	requireAtRest(t, p)
	var leave func()
	var first atomic.Pointer[Worker]
	var second atomic.Bool
	require.NoError(t, p.Go(func(w *Worker) {
		leave = phantom(p)
		p.core.SearchedAt.Store(heist.Ticks() + p.ticks.follow) // so that the tasks trust it
		first.Store(w)
		for range 200 { // what does not fit in the ring is pulled from the injector, with a look at the searchers
			_ = w.Go(func(w *Worker) {
				if w != first.Load() {
					second.Store(true)
				}
				for start := time.Now(); !second.Load() && time.Since(start) < 5*time.Millisecond; {
				}
			})
		}
		p.core.SearchedAt.Store(heist.Ticks() - 2*p.core.TicksAnswer)
	}))
	require.True(t, testutil.Eventually(func() bool { return p.Stats().Total().Tasks > 200 }))
	require.True(t, second.Load())
	leave()
}

// TestAWorkerStaysAwakeWhereTasksComeOften, and goes to sleep when they no longer do.
func TestAWorkerStaysAwakeWhereTasksComeOften(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	p.core.TicksWatch = heist.TicksIn(100 * time.Millisecond) // so that it is seen on busy CPUs, too
	one := func() {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(done) }))
		<-done
	}
	sawGaps(p, p.core.TicksWatch)
	one()
	require.True(t, testutil.Eventually(p.core.IsWatched))
	sawGaps(p, p.core.TicksWatch+1)
	one()
	requireAtRest(t, p)
	require.False(t, p.places[0].core.Gaps.Watches())
}

// sawGaps has the places of a pool that comes to rest see so many gaps of that length that these decide.
func sawGaps(p *Pool, ticks int64) {
	for _, pl := range p.places[:p.first] {
		testutil.Eventually(func() bool { return p.core.Sleep.Choose(pl.index) }) // the place is the caller's
		for range 10 {
			pl.core.Gaps.Saw(ticks, p.core.TicksSpin, p.core.TicksWatch)
		}
		pl.core.BeginGap()
		p.core.Sleep.Resumed()
		pl.core.FallAsleep()
	}
}

// TestAPlaceStopsSpinningWhereSpinsAreInVain, and spins again where they are not, but not on one P, where nobody could bring work meanwhile.
func TestAPlaceStopsSpinningWhereSpinsAreInVain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	looks := func() uint64 {
		requireAtRest(t, p)
		before := p.Stats().Total().Looks
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { w.asideAfter = 0; close(done) })) // the last turn may have taken long
		<-done
		requireAtRest(t, p)
		return p.Stats().Total().Looks - before
	}
	requireAtRest(t, p)
	sawGaps(p, p.core.TicksSpin+1)
	require.LessOrEqual(t, looks(), uint64(2))
	sawGaps(p, p.core.TicksSpin)
	require.Greater(t, looks(), uint64(heist.DefaultYields))

	runtime.GOMAXPROCS(1)
	p = newPool(t, WithWorkers(1), WithPinning(PinNone))
	requireAtRest(t, p)
	for _, gap := range []int64{p.core.TicksSpin, p.core.TicksSpin + 1} {
		sawGaps(p, gap)
		require.LessOrEqual(t, looks(), uint64(2))
	}
}

// TestAWaitWithNothingQueuedNeedsNoStandIn where one would search in vain, as it does if the waiter comes back first: the place sleeps until a task
// comes, or the waiter.
func TestAWaitWithNothingQueuedNeedsNoStandIn(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	requireAtRest(t, p)
	sawGaps(p, p.core.TicksSpin)
	done := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		defer close(done)
		looks := func() uint64 { return p.Stats().Total().Looks }
		for i := range 20 {
			before, ran := looks(), make(chan struct{})
			w.Block(func() {
				testutil.Eventually(func() bool { return p.core.Sleep.Load().Sleepers() == 1 })
				if i == 10 {
					assert.NoError(t, p.Go(func(*Worker) { close(ran) }))
					<-ran
					testutil.Eventually(func() bool { return p.core.Sleep.Load().Sleepers() == 1 })
				}
			})
			if i != 1 { // the gap before the task may have been long, too
				assert.Equal(t, i == 0 || i == 10, looks() > before, i)
			}
		}
	}))
	<-done
}

// TestWhoWaitsForATaskRunsBeforeItsWorkerSleeps: on one P the goroutine that the task makes ready is the next one there.
func TestWhoWaitsForATaskRunsBeforeItsWorkerSleeps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	// Go may take the P away at any moment, so it is a matter of how often: 2 of 100 times, and without stepping aside
	// 100 of them, or some 60 with -race, which has Go choose at random.
	const rounds = 100
	var asleepFirst int
	for range 10 {
		asleepFirst = 0
		for range rounds {
			requireAtRest(t, p)
			sawGaps(p, p.core.TicksSpin+1)
			done := make(chan struct{})
			require.NoError(t, p.Go(func(w *Worker) { w.asideAfter = 0; close(done) })) // the last turn may have taken long
			<-done
			asleepFirst += min(max(p.core.Sleep.Load().Sleepers(), 0), 1)
		}
		if asleepFirst <= rounds/10 {
			return
		}
	}
	require.LessOrEqual(t, asleepFirst, rounds/10)
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
					w.wantedAt = notWanted
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
