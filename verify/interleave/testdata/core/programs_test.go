package core

import (
	"context"
	"testing"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// Small programs over the protocol of sleep, wake-ups and waits. The host's work is a number of tasks, and its workers do what a
// worker of package pool does between two tasks. A worker that sleeps over a task is a deadlock: nothing goes on.

// host has tasks, on one node or two, one fork at most, and children that its workers show.
type host struct {
	pool  Pool
	tasks [2]atomic.Int32 // that are queued, by node
	ran   atomic.Int32
	fork  atomic.Int32 // 1 while a fork can be stolen
	stole atomic.Int32 // forks that were stolen

	guests Roster // of guests, and of workers that begin without a place

	task job // what a task does

	shows     bool   // workers show children, so looks go to the rosters
	searching func() // what a worker does when it has become a searcher; nil for nothing
	between   func() // what a worker does between two tasks; nil for nothing
	counts    bool   // the pool's end waits for its workers

	// For waits that are noticed.

	monitor func()       // the monitor; nil for none
	uses    atomic.Int32 // workers that use the place; there must be one at most
	turns   atomic.Int32 // what Lent and GoesOn have counted
}

// job is something to run in a place; it returns the place that the worker has afterwards.
type job func(w *Worker, pl *Place) *Place

// newHost makes a host with so many places on one node.
func newHost(size int) *host {
	return newHostOf(Config{Size: size, Seats: policy.NewSeats(make([]int, size), []int{0}), Placements: []Placement{{Places: size}}, Nearby: [][]int{{0}}})
}

func newHostOf(c Config) *host {
	h := &host{task: func(_ *Worker, pl *Place) *Place { return pl }}
	c.Host = h
	h.pool.Init(c)
	return h
}

func (h *host) AnyWork(forks bool) (node, place int, ok bool) {
	for node := range h.pool.placements {
		if h.tasks[node].Load() > 0 {
			return node, -1, true
		}
	}
	if h.shows {
		for i, pl := range h.pool.Places() {
			if pl.AnyFork(forks) {
				return pl.Node(), i, true
			}
		}
		if h.pool.Sleep.Load().HasGuests() && h.guests.AnyFork(forks) {
			return 0, -1, true
		}
	}
	return 0, -1, forks && h.fork.Load() > 0
}

func (h *host) NewPlace(index int) *Place {
	pl := new(Place)
	pl.Init(&h.pool, index)
	return pl
}

func (h *host) Hire(s *Placement, begin func(w *Worker)) {
	h.hire(s, begin, func(w *Worker) *Place {
		pl := w.TakeUp()
		if pl == nil {
			w.BeginLookout()
		}
		return pl
	})
}

// hire is Hire for a worker that begins with something.
func (h *host) hire(s *Placement, begin func(w *Worker), first func(w *Worker) *Place) {
	w := h.worker(s)
	after := true
	if h.counts {
		_, after = s.Begins(&h.pool)
	}
	begin(w)
	explore.Go("worker", func() {
		h.live(w, first(w))
		if !after {
			s.Ends(&h.pool, false, after)
		}
	})
}

func (h *host) Monitor() {
	if h.monitor != nil && h.pool.Monitored.CompareAndSwap(false, true) {
		explore.Go("monitor", h.monitor)
	}
}

func (h *host) Lent(*Worker)   { h.turns.Add(-1) }
func (h *host) GoesOn(*Worker) { h.turns.Add(1) }

func (h *host) LookAt(w *Worker) { w.Notice(w.Shown().(*hidden).waits.Load, w.Shown().(*hidden).any) }

func (h *host) LetsGo(*Place) bool { return false }
func (h *host) Closes(pl *Place)   { pl.Mail.Store(0) }

func (h *host) Broken(what string) { panic(what) }

func (h *host) worker(s *Placement) *Worker {
	w, shown := new(Worker), new(hidden)
	if h.shows {
		shown.children = new(atomic.Int32)
	}
	w.Init(&h.pool, s, shown, false)
	return w
}

// hidden is a worker as the others see it. Its forks the host shows.
type hidden struct {
	waits    atomic.Bool   // its goroutine waits, as the runtime says
	children *atomic.Int32 // that can be stolen; nil for a worker that shows none
}

func (s *hidden) AnyFork(bool) bool { return s.children != nil && s.children.Load() > 0 }
func (s *hidden) any() bool         { return s.children != nil }
func (*hidden) Alarm()              {}

// start hires a worker for each place.
func (h *host) start() {
	for _, pl := range h.pool.Places() {
		h.Hire(pl.Placement(), func(w *Worker) { w.Grant(pl) })
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
	if pl.IsStandIn() {
		if j := h.find(pl); j != nil {
			return j(w, pl)
		}
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
	if j := h.find(pl); j != nil {
		pl.StopSearching()
		return j(w, pl)
	}
	if h.steal() || pl.Searching && h.steal() {
		pl.StopSearching()
		return pl
	}
	if !pl.Searching && pl.startSearching() {
		if h.searching != nil {
			h.searching()
		}
		return pl // and looks once more
	}
	if h.pool.hot && !pl.HasOrders() && !h.pool.Exits() && pl.Watch(looks{}) {
		return pl
	}
	w.BeIdle(pl)
	return nil
}

// looks is a worker that watches.
type looks struct{}

func (looks) Look() heist.StealResult { return heist.Empty }
func (looks) Spin(time.Duration)      { explore.Yield() }
func (looks) Yield()                  {}
func (looks) StepAside()              {}
func (looks) MaySpin() bool           { return true }
func (looks) GiveWay(int64)           {}

// find takes a task, one of the place's node first, or else a child.
func (h *host) find(pl *Place) job {
	for _, node := range h.pool.nearby[pl.Node()] {
		if h.takeFrom(&h.tasks[node]) {
			return h.run
		}
	}
	if h.shows {
		for _, r := range append(h.rosters(), &h.guests) {
			for at := r.First(); at != nil; at = at.Next() {
				if c := at.Shown().(*hidden).children; c != nil && h.takeFrom(c) {
					h.stole.Add(1)
					return func(_ *Worker, pl *Place) *Place { return pl }
				}
			}
		}
	}
	return nil
}

// rosters returns those of the places.
func (h *host) rosters() (all []*Roster) {
	for _, pl := range h.pool.Places() {
		all = append(all, &pl.Roster)
	}
	return all
}

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
	if h.between != nil {
		h.between()
	}
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
		h.submitOn(0)
	}
}

func (h *host) submitOn(node int) {
	h.tasks[node].Add(1)
	h.pool.NotifyTask(node)
}

// await waits until so many tasks have run, and then ends the pool.
func (h *host) await(n int32) {
	explore.Block("wait for the tasks", func() bool { return h.ran.Load() == n })
	explore.Block("wait until the workers rest", h.pool.Rests)
	h.atRest()
	h.pool.End()
	explore.Wait()
}

// atRest says how the pool is when nothing is to do.
func (h *host) atRest() {
	state := h.pool.Sleep.Load()
	explore.Assert(state == policy.State(h.pool.Size())*policy.OneSleeper, "at rest the state is %x", int64(state))
	for i, pl := range h.pool.Places() {
		explore.Assert(pl.open == (i < h.pool.Size()), "of %d places, place %d is open: %v", h.pool.Size(), i, pl.open)
		explore.Assert(h.pool.Sleep.Parked(i) == pl.open, "place %d is open, %v, and sleeps, %v", i, pl.open, !pl.open)
		explore.Assert(pl.Owed() == 0, "%d want the place back", pl.Owed())
		explore.Assert(pl.First() == nil, "somebody is on the roster")
	}
	explore.Assert(h.guests.First() == nil, "somebody is on the roster of guests")
	explore.Assert(h.turns.Load() == 0, "a turn is lost")
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

// firstWaitsForSecond is a task that lends its place until both have begun, if it is the first of two.
func firstWaitsForSecond() job {
	var begun atomic.Int32
	return func(w *Worker, pl *Place) *Place {
		if begun.Add(1) > 1 {
			return pl
		}
		w.Lend(pl, false)
		explore.Block("wait for the other task", func() bool { return begun.Load() == 2 })
		return w.ComeBack()
	}
}

// The first task to begin waits for the second, and lends its only place meanwhile.
func TestATaskMayWaitForTheNextOneInOnePlace(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		h.task = firstWaitsForSecond()
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

// The first task to begin waits for the second, whose worker hands the place back then. The wait may end by itself before that, and the task with it; then
// there may be another wait, in which it must not be handed anything.
func TestAStandInHandsThePlaceBack(t *testing.T) {
	for name, again := range map[string]bool{"one wait": false, "two": true} {
		t.Run(name, func(t *testing.T) {
			programs.Explore(t, explore.Options{Preemptions: 1}, func() {
				h := newHost(1)
				var begun, wait atomic.Int32 // which wait of the first goes on
				var ended, late atomic.Bool
				var first *Worker
				h.task = func(w *Worker, pl *Place) *Place {
					switch begun.Add(1) {
					case 1:
						first = w
						wait.Store(1)
						w.Lend(pl, false)
						explore.Block("wait for the second task", func() bool { return ended.Load() || late.Load() })
						pl = w.ComeBack()
						if again {
							wait.Store(2)
							w.Lend(pl, false)
							explore.Block("wait for all others", func() bool { return h.ran.Load() == 2 })
							pl = w.ComeBack()
						}
						wait.Store(0)
					case 2:
						ended.Store(true)
						if w.HandBack(pl, first, func() bool { return wait.Load() == 1 }) {
							return nil
						}
					}
					return pl
				}
				h.start()
				explore.Go("context", func() { late.Store(true) })
				h.submit(3)
				h.await(3)
			})
		})
	}
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
		h.task = firstWaitsForSecond()
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
		h.resizesForATask()
	})
}

// resizesForATask runs a task while the number of places goes from two to one and back.
func (h *host) resizesForATask() {
	var resized atomic.Bool
	explore.Go("resizes", func() {
		h.pool.Resize(1, true)
		h.pool.Resize(2, true)
		resized.Store(true)
	})
	h.submit(1)
	explore.Block("wait for the size", resized.Load)
	h.await(1)
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
