package pool

import (
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

func TestATaskMayYieldUntilAnotherHasRun(t *testing.T) {
	forScarcePools(t, func(t *testing.T, p *Pool) {
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

// TestAYieldEndsWithTheTurn that it gives, and not at the bound of a turn.
func TestAYieldEndsWithTheTurn(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	p.ticks.turn = math.MaxInt64 / 2
	g := newGroup(p)
	ran := false
	g.GoWorker(func(w *Worker) error {
		g.Go(func() error { ran = true; return nil })
		w.Yield()
		require.True(t, ran)
		return nil
	})
	require.NoError(t, g.Wait())
}

// TestWhoGaveWayForLongDoesNotSoonAgain: where others compute for long, the worker would be last again and
// again.
func TestWhoGaveWayForLongDoesNotSoonAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	onlyWorker(t, p, func(w *Worker) {
		p.networkDue.Store(heist.Ticks() + heist.TicksIn(time.Hour))
		gives := func() bool {
			before := w.gaveWayAt // the place, which counts, may be lent while Eventually sleeps
			w.giveWay()
			return w.gaveWayAt > before
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

// TestAGoroutineIsNotKeptWaitingByPieces that last long enough each, with whatever runs one after the other.
func TestAGoroutineIsNotKeptWaitingByPieces(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const pieces = 100
	for name, run := range map[string]func(p *Pool, piece func(w *Worker)){
		"children that the owner takes back": func(p *Pool, piece func(w *Worker)) {
			_ = p.Run(func(w *Worker) {
				w.Scope(func(s *Scope) {
					for range pieces {
						s.Go(w, piece)
					}
				})
			})
		},
		"pieces of a call": func(p *Pool, piece func(w *Worker)) {
			_ = p.Run(func(w *Worker) {
				call := w.Call()
				for range pieces {
					piece(w)
					call.Cancelled()
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1))
			var other, ran atomic.Int64
			other.Store(1)
			run(p, func(w *Worker) {
				if other.CompareAndSwap(1, 0) {
					ran.Add(1)
					go other.Store(1)
				}
				w.backoffUntil = 0 // the last turn of the others may have taken long, on a busy machine
				untilGiveWayIsDue()
			})
			require.Greater(t, ran.Load(), int64(pieces/4))
		})
	}
}

// TestAThiefGivesWayBetweenSteals, which succeed again and again, so that it never comes to search.
func TestAThiefGivesWayBetweenSteals(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	const steals = 100
	p := newPool(t, WithWorkers(2))
	end, ended := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { testutil.Compute(end); close(ended) })) // so that no P is to spare
	require.NoError(t, p.Run(func(w *Worker) {
		w.Scope(func(s *Scope) {
			var all sync.WaitGroup
			all.Add(steals)
			for range steals {
				s.Go(w, func(w *Worker) {
					defer all.Done()
					w.tick.budget = budget // as after short tasks
					w.backoffUntil = 0     // the last turn of the others may have taken long, on a busy machine
					untilGiveWayIsDue()
				})
			}
			w.Block(all.Wait)
		})
	}))
	close(end)
	<-ended
	require.Greater(t, p.Stats().Total().GaveWay, uint64(steals/4))
}

// TestALongTurnOfThePoolsOwnIsNotHeldAgainstOthers: with a guest more than Ps, whoever gives way waits for the pool's own.
func TestALongTurnOfThePoolsOwnIsNotHeldAgainstOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1))
	onlyWorker(t, p, func(w *Worker) {
		p.ticks.longTurn = -1 // each turn is long
		gives := func() (backsOff bool) {
			w.backoffUntil = 0
			w.gosched(heist.Ticks())
			return w.backoffUntil > 0
		}
		require.True(t, gives())
		entered, leave := make(chan struct{}), make(chan struct{})
		left := make(chan error)
		var others atomic.Bool
		go func() {
			left <- p.Run(func(guest *Worker) {
				close(entered)
				for {
					select {
					case <-leave:
						return
					default:
						if others.Load() {
							runtime.Gosched()
						} else {
							heist.Spin(50 * time.Microsecond)
							guest.gosched(heist.Ticks())
						}
					}
				}
			})
		}()
		w.Block(func() { <-entered }) // and has its place again
		require.True(t, testutil.Eventually(func() bool { return !gives() }))
		others.Store(true) // as far as heist knows
		require.True(t, testutil.Eventually(gives))
		close(leave)
		require.NoError(t, <-left)
	})
}

// TestAWorkerThatMayNotStepAsideSleepsForWhoIsReady: who waits for its task is the next one on its P, and goes on before it spins and watches for more.
func TestAWorkerThatMayNotStepAsideSleepsForWhoIsReady(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	const rounds = 100
	atOnce := 0
	for range rounds {
		sawGaps(p, 0) // it spins and watches
		done := make(chan *place)
		looks := uint64(0)
		require.NoError(t, p.Go(func(w *Worker) {
			pl := w.place
			looks, w.asideAfter = pl.looks.Load(), math.MaxInt64
			done <- pl
		}))
		if pl := <-done; pl.looks.Load() <= looks+2 {
			atOnce++
		}
	}
	require.Greater(t, atOnce, rounds/2)
}

// TestAWorkerDoesNotSearchWhileAGoroutineWaitsForItsP: the worker's task has ended a wait that heist knows nothing of, and who has waited comes before a
// search that would be in vain, also where another P is idle.
func TestAWorkerDoesNotSearchWhileAGoroutineWaitsForItsP(t *testing.T) {
	for _, ps := range []int{1, 2} {
		t.Run(strconv.Itoa(ps), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(ps))
			p := newPool(t, WithWorkers(1))
			const rounds = 100
			atOnce := 0
			for range rounds {
				done := make(chan *place)
				looks := uint64(0)
				require.NoError(t, p.Go(func(w *Worker) {
					pl := w.place
					looks, w.asideAfter = pl.looks.Load(), 0 // on a busy machine the turn before may have taken long
					done <- pl
				}))
				if pl := <-done; pl.looks.Load() == looks {
					atOnce++
				}
			}
			require.Greater(t, atOnce, rounds/2)
		})
	}
}
