package pool

import (
	"math"
	"runtime"
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

// TestAWorkerDoesNotSearchWhileAGoroutineWaitsForItsP: the worker's task has ended a wait that heist knows nothing of, and who has waited comes before a
// search that would be in vain.
func TestAWorkerDoesNotSearchWhileAGoroutineWaitsForItsP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
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
}
