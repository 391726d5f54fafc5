package core

import (
	"context"
	"testing"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// Small programs over the protocol of sleep, wake-ups and waits. The host's work is a number of tasks, and its workers do what a
// worker of package pool does between two tasks. A worker that sleeps over a task is a deadlock: nothing goes on.

// host has tasks, and one fork at most.
type host struct {
	pool  Pool
	tasks atomic.Int32 // that are queued
	ran   atomic.Int32
	fork  atomic.Int32 // 1 while a fork can be stolen
	stole atomic.Int32 // forks that were stolen

	task func(w *Worker, pl *Place) *Place // what a task does; it returns the place that the worker has afterwards

	// For waits that are noticed.

	monitor func()       // the monitor; nil for none
	uses    atomic.Int32 // workers that use the place; there must be one at most
	turns   atomic.Int32 // what Lent and GoesOn have counted
}

func newHost(size int) *host {
	h := &host{task: func(_ *Worker, pl *Place) *Place { return pl }}
	h.pool.Init(Config{Host: h, Size: size, PlaceNodes: make([]int, size), Placements: []Placement{{Places: size}}, Nearby: [][]int{{0}}})
	return h
}

func (h *host) AnyWork(forks bool) (node, place int, ok bool) {
	return 0, -1, h.tasks.Load() > 0 || forks && h.fork.Load() > 0
}

func (h *host) NewPlace(index int) *Place {
	pl := new(Place)
	pl.Init(&h.pool, index, 0)
	return pl
}

func (h *host) Hire(_ *Placement, begin func(w *Worker)) {
	w := h.worker()
	begin(w)
	explore.Go("worker", func() {
		pl := w.TakeUp()
		if pl == nil {
			w.BeginLookout()
		}
		h.live(w, pl)
	})
}

func (h *host) Monitor() {
	if h.monitor != nil && h.pool.Monitored.CompareAndSwap(false, true) {
		explore.Go("monitor", h.monitor)
	}
}

func (h *host) Lent(*Worker)   { h.turns.Add(-1) }
func (h *host) GoesOn(*Worker) { h.turns.Add(1) }

func (h *host) LookAt(w *Worker) { w.Notice(w.Shown().(*hidden).waits.Load, never) }

func never() bool { return false }

func (h *host) Closes(pl *Place) { pl.Mail.Store(0) }

func (h *host) Broken(what string) { panic(what) }

func (h *host) worker() *Worker {
	w := new(Worker)
	w.Init(&h.pool, &h.pool.placements[0], new(hidden), false)
	return w
}

// hidden is a worker whose forks the host shows.
type hidden struct {
	waits atomic.Bool // its goroutine waits, as the runtime says
}

func (*hidden) AnyFork(bool) bool { return false }
func (*hidden) Alarm()            {}

// start hires a worker for each place.
func (h *host) start() {
	for _, pl := range h.pool.Places() {
		h.Hire(pl.Placement, func(w *Worker) { w.Grant(pl) })
	}
}

// live is the loop of a worker.
func (h *host) live(w *Worker, pl *Place) {
	for {
		if pl != nil {
			pl = h.step(w, pl)
		}
		if w.Seen() {
			pl = w.GoOn()
		}
		if pl != nil {
			continue
		}
		if w.State() == Beside {
			if pl = w.EndBeside(); pl != nil {
				continue
			}
			w.BeIdle(nil)
		}
		if w.State() == Ended {
			return
		}
		if pl = w.AwaitPlace(); pl == nil {
			return
		}
		pl.Answers()
	}
}

// step does one thing in a place, and returns the place that the worker has afterwards.
func (h *host) step(w *Worker, pl *Place) *Place {
	if pl.IsStandIn() && h.take() {
		return h.run(w, pl)
	}
	if pl.HasOrders() {
		pl.StopSearching()
		if pl.MayOpenMail() {
			pl.Mail.Add(-1)
			h.ran.Add(1)
			return pl
		}
		if pl.MustClose() {
			if w.ClosePlace(pl) {
				return nil
			}
			return pl
		}
		w.BeIdle(pl)
		return nil
	}
	if h.take() {
		pl.StopSearching()
		return h.run(w, pl)
	}
	if h.steal() || pl.Searching && h.steal() {
		pl.StopSearching()
		return pl
	}
	if !pl.Searching && pl.startSearching() {
		return pl // and looks once more
	}
	w.BeIdle(pl)
	return nil
}

func (h *host) take() bool { return h.takeFrom(&h.tasks) }

func (h *host) takeFrom(n *atomic.Int32) bool {
	for k := n.Load(); k > 0; k = n.Load() {
		if n.CompareAndSwap(k, k-1) {
			return true
		}
	}
	return false
}

// steal takes the fork, unless more guests compute than places sleep.
func (h *host) steal() bool {
	if h.pool.Sleep.Load().Sleepers() < 0 || !h.takeFrom(&h.fork) {
		return false
	}
	h.stole.Add(1)
	return true
}

func (h *host) run(w *Worker, pl *Place) *Place {
	pl = h.task(w, pl)
	h.ran.Add(1)
	return pl
}

// use is what a worker does in the middle of a task with its place, if it has one.
func (h *host) use(w *Worker, pl *Place) *Place {
	if w.Seen() {
		pl = w.GoOn()
	}
	if pl != nil {
		explore.Assert(h.uses.Add(1) == 1, "two workers use the place")
		h.uses.Add(-1)
	}
	return pl
}

// submit queues tasks one by one, each as Pool.Go does.
func (h *host) submit(n int) {
	for range n {
		h.tasks.Add(1)
		h.pool.NotifyTask(0)
	}
}

// await waits until so many tasks have run, and then ends the pool.
func (h *host) await(n int32) {
	explore.Block("wait for the tasks", func() bool { return h.ran.Load() == n })
	explore.Block("wait until the workers rest", h.pool.Rests)
	state := h.pool.Sleep.Load()
	explore.Assert(state == policy.State(h.pool.Size())*policy.OneSleeper, "at rest the state is %x", int64(state))
	for i, pl := range h.pool.Places() {
		explore.Assert(i >= h.pool.Size() || h.pool.Sleep.Parked(i), "place %d does not sleep", i)
		explore.Assert(pl.Owed() == 0, "%d want the place back", pl.Owed())
		explore.Assert(pl.First() == nil, "somebody is on the roster")
	}
	explore.Assert(h.turns.Load() == 0, "a turn is lost")
	h.pool.End()
	explore.Wait()
}

func TestNoPlaceSleepsOverATask(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 3}, func() {
		h := newHost(1)
		h.start()
		h.submit(2)
		h.await(2)
	})
}

func TestTwoPlacesDoNotSleepOverTasks(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(2)
		h.start()
		h.submit(2)
		h.await(2)
	})
}

// The first task waits for the second.
func TestTheLastSearcherWakesAnotherForWhatIsLeft(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(2)
		var begun atomic.Int32
		h.task = func(_ *Worker, pl *Place) *Place {
			if begun.Add(1) == 1 {
				explore.Block("wait for the other task", func() bool { return begun.Load() == 2 })
			}
			return pl
		}
		h.start()
		h.submit(2)
		h.await(2)
	})
}

// The first task to begin waits for the second, and lends its only place meanwhile.
func TestATaskMayWaitForTheNextOneInOnePlace(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		var begun atomic.Int32
		h.task = func(w *Worker, pl *Place) *Place {
			if begun.Add(1) > 1 {
				return pl
			}
			w.Lend(pl, false)
			explore.Block("wait for the other task", func() bool { return begun.Load() == 2 })
			return w.ComeBack()
		}
		h.start()
		h.submit(2)
		h.await(2)
	})
}

// Whoever waits comes back while the stand-in falls asleep, and gets the place.
func TestWhoComesBackGetsItsPlace(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 3}, func() {
		h := newHost(1)
		h.task = func(w *Worker, pl *Place) *Place {
			w.Lend(pl, false)
			pl = w.ComeBack()
			if pl == nil {
				explore.Block("wait for the place", func() bool { return w.granted.Load() != nil })
				pl = w.TakeUp()
			}
			return pl
		}
		h.start()
		h.submit(1)
		h.await(1)
	})
}

// Two tasks wait again and again in one place: both come to their ends, and the place to rest.
func TestTwoWhoComeBackGetThePlaceInTurn(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		h.task = func(w *Worker, pl *Place) *Place {
			for range 2 {
				w.Lend(pl, false)
				pl = w.ComeBack()
			}
			return pl
		}
		h.start()
		h.submit(2)
		h.await(2)
	})
}

// The first task to begin waits for the second, which may not have begun when the pool pauses: a Pause waits for both then.
func TestAPausedPoolGoesOnForWhoWaits(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		var begun atomic.Int32
		h.task = func(w *Worker, pl *Place) *Place {
			if begun.Add(1) > 1 {
				return pl
			}
			w.Lend(pl, false)
			explore.Block("wait for the other task", func() bool { return begun.Load() == 2 })
			return w.ComeBack()
		}
		h.start()
		h.submit(2)
		h.pool.Pause()
		_, err := h.pool.AwaitPause(context.Background())
		explore.Assert(err == nil && h.ran.Load() != 1, "the pause ends with %v, and %d tasks have run", err, h.ran.Load())
		h.pool.Resume()
		h.await(2)
	})
}

func TestNoPlaceSleepsOverItsMail(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 3}, func() {
		h := newHost(1)
		h.start()
		h.pool.EachOpen(func(pl *Place) { pl.Mail.Add(1) })
		h.pool.Forward()
		h.await(1)
	})
}

// What comes for a place while the pool is paused waits, and the place wakes up for it when the pool resumes.
func TestResumeWakesPlacesForTheirMail(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		h.start()
		h.pool.Pause()
		h.pool.EachOpen(func(pl *Place) { pl.Mail.Add(1) })
		h.pool.Forward()
		h.pool.Resume()
		h.await(1)
	})
}

func TestPlacesCloseAndOpenWhileTasksCome(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1}, func() {
		h := newHost(2)
		h.start()
		var resized atomic.Bool
		explore.Go("resizes", func() {
			h.pool.Resize(1, true)
			h.pool.Resize(2, true)
			resized.Store(true)
		})
		h.submit(1)
		explore.Block("wait for the size", resized.Load)
		h.await(1)
	})
}

// The fork of a guest that waits is stolen, also if another guest leaves meanwhile.
func TestTheForkOfAGuestThatWaitsIsStolen(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		h.start()
		var r Roster
		newGuest := func() *Worker {
			w := new(Worker)
			w.InitGuest(&h.pool, &h.pool.placements[0], new(hidden), &r)
			return w
		}
		var left atomic.Bool
		explore.Go("another guest", func() {
			h.pool.EnterGuest(&r, newGuest).LeaveGuest()
			left.Store(true)
		})
		g := h.pool.EnterGuest(&r, newGuest)
		h.fork.Store(1)
		if h.pool.Sleep.Load().WantsForks() {
			h.pool.WakeOne(0, -1)
		}
		g.Lend(nil, true)
		explore.Block("wait for the thief", func() bool { return h.stole.Load() == 1 })
		g.ComeBack()
		g.LeaveGuest()
		explore.Block("wait for the other guest", left.Load)
		h.await(0)
	})
}

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

// notice looks at the workers that have places once.
func (h *host) notice() {
	for _, pl := range h.pool.Places() {
		for w := pl.First(); w != nil; w = w.Next() {
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
	for _, pl := range h.pool.Places() {
		for w := pl.First(); w != nil; w = w.Next() {
			if w.Shown().(*hidden).waits.Load() {
				return true
			}
		}
	}
	return false
}

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
	programs.Explore(t, explore.Options{Preemptions: 2}, func() {
		h := newHost(1)
		var over atomic.Bool
		h.task = h.waitsTwice
		h.start()
		w := h.pool.Places()[0].First()
		h.submit(1)
		explore.Go("monitor", func() {
			if w != nil {
				h.LookAt(w)
				w.NoticeEnd(w.Shown().(*hidden).waits.Load)
				h.LookAt(w)
			}
			over.Store(true)
		})
		explore.Block("wait for the monitor", over.Load)
		h.await(1)
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
