package core

import (
	"context"
	"testing"

	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// Programs whose tasks wait without a word to heist. The status of a worker's goroutine is a word; who looks is a monitor, or a
// lookout, of the program.

// waitsUnsaid has the worker wait until the condition holds, without a word to heist.
func waitsUnsaid(w *Worker, what string, condition func() bool) {
	waits := &w.Shown().(*hidden).waits
	waits.Store(true)
	explore.Block(what, condition)
	waits.Store(false) // the runtime does that before the goroutine goes on
}

// waitsTwice is a task that waits for a moment, twice, and uses its place after each wait.
func (h *host) waitsTwice(w *Worker, pl *Place) *Place {
	for range 2 {
		waitsUnsaid(w, "wait", func() bool { return true })
		pl = h.use(w, pl)
	}
	return pl
}

// notice looks at the workers on the rosters once.
func (h *host) notice() {
	for _, r := range h.rosters() {
		for w := r.First(); w != nil; w = w.Next() {
			h.LookAt(w)
		}
	}
}

// monitors is the monitor of a program with n tasks.
func (h *host) monitors(n int32) func() {
	return func() {
		for {
			explore.Block("wait for something to see", func() bool { return h.anyWaits() || h.ran.Load() == n })
			if h.ran.Load() == n {
				return
			}
			h.notice()
		}
	}
}

func (h *host) anyWaits() bool {
	for _, r := range h.rosters() {
		for w := r.First(); w != nil; w = w.Next() {
			if isWaiting(w) && !w.lent {
				return true
			}
		}
	}
	return false
}

func isWaiting(w *Worker) bool { return w.Shown().(*hidden).waits.Load() }

// The first task to begin waits for the second in a way that only the monitor sees. In one place both come to their ends.
func TestAWaitThatIsNoticedHoldsNothingUp(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1, Random: 20_000}, func() {
		h := newHost(1)
		h.monitor = h.monitors(2)
		var begun atomic.Int32
		h.task = func(w *Worker, pl *Place) *Place {
			pl = h.use(w, pl)
			if begun.Add(1) == 1 {
				waitsUnsaid(w, "wait for the other task", func() bool { return begun.Load() == 2 })
			}
			return h.use(w, pl)
		}
		h.start()
		h.submit(2)
		h.await(2)
	})
}

// Two tasks wait twice, for a moment, and the monitor looks at any moment, twice: nobody uses a place that is another's, and
// all come to rest.
func TestAWaitMayBeginAndEndWhileTheMonitorLooks(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 2}, func() {
		h := newHost(1)
		var over atomic.Bool
		h.task = h.waitsTwice
		h.start()
		h.submit(2)
		explore.Go("monitor", func() {
			h.notice()
			h.notice()
			over.Store(true)
		})
		explore.Block("wait for the monitor", over.Load)
		h.await(2)
	})
}

// The monitor ends the wait for the worker, as in a pause, while the worker looks or waits again.
func TestTheMonitorMaySeeTheEndOfAWait(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1, Random: 20_000}, func() {
		h := newHost(1)
		var begun atomic.Int32
		var seen, over atomic.Bool
		h.task = func(w *Worker, pl *Place) *Place {
			if begun.Add(1) == 1 {
				waitsUnsaid(w, "wait until that is seen", seen.Load)
				pl = h.use(w, pl)
				waitsUnsaid(w, "wait again", func() bool { return true })
			}
			return h.use(w, pl)
		}
		h.start()
		h.submit(2)
		explore.Go("monitor", func() {
			explore.Block("wait for a wait", h.anyWaits)
			w := h.pool.Places()[0].First()
			h.LookAt(w)
			seen.Store(true)
			explore.Block("wait for the end of the wait", func() bool { return !isWaiting(w) })
			w.NoticeEnd(func() bool { return isWaiting(w) })
			h.LookAt(w)
			over.Store(true)
		})
		explore.Block("wait for the monitor", over.Load)
		h.await(2)
	})
}

// Tasks that wait have lookouts, which look at any moment.
func TestALookoutWorksOnWhereItsTargetWaits(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: explore.None, Random: 20_000}, func() {
		h := newHost(1)
		h.monitor = h.monitors(2) // a lookout may look too early
		var begun atomic.Int32
		h.task = func(w *Worker, pl *Place) *Place {
			begun.Add(1)
			w.ExpectWait(false)
			waitsUnsaid(w, "wait for the other task", func() bool { return begun.Load() == 2 })
			return h.use(w, pl)
		}
		h.start()
		h.submit(2)
		h.await(2)
	})
}

// The wait is over as soon as the monitor has looked, so that the worker goes on while the monitor lends its place.
func TestAWaitMayEndAsItIsSeen(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		var begun atomic.Int32
		var seen atomic.Bool
		h.task = func(w *Worker, pl *Place) *Place {
			if begun.Add(1) == 1 {
				waitsUnsaid(w, "wait until that is seen", seen.Load)
			}
			return h.use(w, pl)
		}
		h.start()
		h.submit(2)
		explore.Go("monitor", func() {
			explore.Block("wait for a wait", h.anyWaits)
			w := h.pool.Places()[0].First()
			w.Notice(func() bool {
				waits := isWaiting(w)
				seen.Store(true)
				return waits
			}, w.Shown().(*hidden).any)
		})
		h.await(2)
	})
}

// The monitor and a lookout look at the same wait, and at a later one before the worker has come back.
func TestAWaitThatTwoSeeHasOneStandIn(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1, Random: 5_000}, func() {
		h := newHost(1)
		var begun, looked atomic.Int32
		h.task = func(w *Worker, pl *Place) *Place {
			if begun.Add(1) == 1 {
				waitsUnsaid(w, "wait for the other task", func() bool { return begun.Load() == 2 })
				waitsUnsaid(w, "wait for both looks", func() bool { return looked.Load() == 2 })
			}
			return h.use(w, pl)
		}
		h.start()
		h.submit(2)
		explore.Block("wait for a wait", h.anyWaits)
		w := h.pool.Places()[0].First()
		for _, who := range []string{"monitor", "lookout"} {
			explore.Go(who, func() {
				h.LookAt(w)
				looked.Add(1)
			})
		}
		explore.Block("wait for both", func() bool { return looked.Load() == 2 })
		h.await(2)
		explore.Assert(h.pool.Places()[0].Lends.Load() == 1, "the place is lent %d times", h.pool.Places()[0].Lends.Load())
	})
}

// A wait that heist knows of follows one that it does not, while the monitor looks.
func TestAWaitThatIsSaidMayFollowOneThatIsNot(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1, Random: 5_000}, func() {
		h := newHost(1)
		var over atomic.Bool
		h.task = func(w *Worker, pl *Place) *Place {
			waitsUnsaid(w, "wait", func() bool { return true })
			if pl = h.use(w, pl); pl == nil {
				pl = w.TakeUp()
			}
			w.Lend(pl, false)
			return h.use(w, w.ComeBack())
		}
		h.start()
		h.submit(2)
		explore.Go("monitor", func() {
			h.notice()
			over.Store(true)
		})
		explore.Block("wait for the monitor", over.Load)
		h.await(2)
	})
}

// While a worker waits, tasks begin in a paused pool. A worker whose wait was noticed does not say that it is over, and computes: the
// monitor says it.
func TestAPauseGoesOnWhenAWaitThatIsNoticedIsOver(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1, Random: 5_000}, func() {
		h := newHost(1)
		var paused atomic.Bool
		h.task = func(w *Worker, pl *Place) *Place {
			waitsUnsaid(w, "wait for the pause", paused.Load)
			explore.Block("compute until the pool is held", h.pool.Held)
			return h.use(w, pl)
		}
		h.start()
		h.submit(1)
		explore.Go("monitor", func() {
			explore.Block("wait for a wait", h.anyWaits)
			w := h.pool.Places()[0].First()
			h.LookAt(w)
			explore.Block("wait for the end of the wait", func() bool { return !isWaiting(w) })
			w.NoticeEnd(func() bool { return isWaiting(w) })
		})
		explore.Block("wait until the wait is noticed", func() bool { return h.pool.Waits() == 1 })
		h.pool.Pause()
		paused.Store(true)
		_, err := h.pool.AwaitPause(context.Background())
		explore.Assert(err == nil && h.ran.Load() == 1, "the pause ends with %v in the middle of a task", err)
		h.pool.Resume()
		h.await(1)
	})
}
