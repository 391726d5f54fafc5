package core

import (
	"context"
	"testing"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// Programs over what happens to places: their number changes, the pool ends, a worker watches, searchers do not answer, there are
// several nodes; and over workers that begin beside them.

// The place of a worker that waits is closed, and opened again, while a stand-in has it or it sleeps.
func TestALentPlaceMayCloseAndOpen(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: explore.None, Random: 20_000}, func() {
		h := newHost(2)
		h.task = func(w *Worker, pl *Place) *Place {
			w.Lend(pl, false)
			return w.ComeBack()
		}
		h.start()
		h.resizesForATask()
	})
}

// In the end no place beyond the size is open, whoever has it, and nobody has an order to close one.
func TestAPlaceThatIsTooManyCloses(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(2)
		h.start()
		h.pool.Resize(1, true)
		h.await(0)
		explore.Assert(h.pool.control.Load() == 0, "the orders are %x", h.pool.control.Load())
	})
}

// close ends the pool as Pool.Close of package pool does, and returns when its workers have ended.
func (h *host) close() {
	h.pool.Closing.Store(true)
	_ = h.pool.Await(context.Background(), func() bool {
		return h.pool.Rests() && !h.pool.anyWork(false) && h.pool.Rests()
	})
	h.atRest()
	h.pool.End()
	h.pool.AwaitEnd()
}

// A pool ends after all tasks, also those that wait; and all workers end.
func TestThePoolEndsAfterAllWaits(t *testing.T) {
	for _, says := range []bool{true, false} {
		programs.Explore(t, explore.Options{Preemptions: 1, Random: 5_000}, func() {
			h := newHost(1)
			h.counts = true
			var event atomic.Bool
			h.task = func(w *Worker, pl *Place) *Place {
				if says {
					w.Lend(pl, false)
					explore.Block("wait for the event", event.Load)
					return w.ComeBack()
				}
				w.ExpectWait(false) // the lookout may come after all others have ended
				waitsUnsaid(w, "wait for the event", event.Load)
				return h.use(w, pl)
			}
			h.start()
			h.submit(1)
			explore.Go("event", func() {
				h.notice()
				event.Store(true)
			})
			h.close()
			explore.Assert(h.ran.Load() == 1, "the pool has ended before its task")
			explore.Wait()
		})
	}
}

// In a hot pool at rest one worker watches. Here it stops for one that wants its place back, and a moment later does not.
func TestAHotPoolIsWatched(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		h.pool.hot = true
		h.task = func(w *Worker, pl *Place) *Place {
			w.Lend(pl, false)
			explore.Block("wait until the stand-in watches", h.pool.IsWatched)
			return w.ComeBack()
		}
		h.start()
		h.submit(1)
		explore.Block("wait for the task and a watch", func() bool {
			return h.ran.Load() == 1 && h.pool.Rests() && h.pool.IsWatched()
		})
		h.pool.End()
		explore.Wait()
	})
}

// clock is a time that a program makes pass.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() int64 { return 1 + c.now.Load() }
func (*clock) Changes(int)  {}

// stalled makes a host whose first searcher stands still until n tasks have run, as if its thread waited for a CPU.
func stalled(size int, n int32) (h *host, c *clock, stands *atomic.Bool) {
	c, stands = new(clock), new(atomic.Bool)
	h = newHostOf(Config{Size: size, Seats: policy.NewSeats(make([]int, size), []int{0}), Placements: []Placement{{Places: size}}, Nearby: [][]int{{0}}, TicksAnswer: 10, Time: c})
	h.searching = func() {
		if stands.CompareAndSwap(false, true) {
			explore.Block("wait for a CPU", func() bool { return h.ran.Load() == n })
		}
	}
	return h, c, stands
}

func TestASearcherThatDoesNotAnswerIsNotReliedOn(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1}, func() {
		h, c, stands := stalled(2, 1)
		h.start()
		explore.Block("wait for a searcher", stands.Load)
		c.now.Store(100)
		h.submit(1)
		h.await(1)
	})
}

// Tasks came while the searcher seemed to answer. A worker wakes another one for them between two tasks.
func TestAWorkerWakesAnotherIfNoSearcherAnswers(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: explore.None, Random: 10_000}, func() {
		h, c, stands := stalled(3, 3)
		var begun atomic.Int32
		var submitted atomic.Bool
		h.task = func(_ *Worker, pl *Place) *Place {
			if begun.Add(1) == 1 {
				explore.Block("compute until all are queued", submitted.Load)
				c.now.Store(200)
			} else {
				explore.Block("wait for the other task", func() bool { return begun.Load() == 3 })
			}
			return pl
		}
		h.between = h.pool.NotifyAgain
		h.start()
		explore.Block("wait for a searcher", stands.Load)
		c.now.Store(100)
		h.submit(3)
		submitted.Store(true)
		h.await(3)
	})
}

// twoNodes makes a host with a place on each of two nodes.
func twoNodes() *host {
	return newHostOf(Config{Size: 2, Seats: policy.NewSeats([]int{0, 1}, []int{0, 1}), Placements: []Placement{{Places: 1}, {Node: 1, Places: 1}}, Nearby: [][]int{{0, 1}, {1, 0}}})
}

// The first task to begin stands still until the second has begun, in its place. Both are of the same node, or not.
func TestNoPlaceSleepsOverTasksOfAnotherNode(t *testing.T) {
	for second := range 2 {
		programs.Explore(t, explore.Options{Preemptions: 1}, func() {
			h := twoNodes()
			var begun atomic.Int32
			h.task = func(_ *Worker, pl *Place) *Place {
				begun.Add(1)
				explore.Block("wait for the other task", func() bool { return begun.Load() == 2 })
				return pl
			}
			h.start()
			h.submitOn(0)
			h.submitOn(second)
			h.await(2)
		})
	}
}

// A worker that is not bound goes to the other node with its place, and sleeps there, while mail comes for the place, a task for either
// node, or a worker that wants the place back.
func TestNothingIsMissedAtAPlaceThatMoves(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(h *host)
	}{
		{"mail", func(h *host) { h.pool.places[0].Mail.Add(1); h.pool.Forward(); h.await(2) }},
		{"a task of the first node", func(h *host) { h.submitOn(0); h.await(2) }},
		{"a task of the other node", func(h *host) { h.submitOn(1); h.await(2) }},
	} {
		programs.Explore(t, explore.Options{Preemptions: explore.None, Random: 20_000}, func() {
			h := newHostOf(Config{Size: 1, Seats: policy.NewSeats([]int{0}, []int{0, 1}), Placements: []Placement{{Places: 1}, {Node: 1, Places: 1}}, Nearby: [][]int{{0, 1}, {1, 0}}})
			h.task = func(w *Worker, pl *Place) *Place {
				w.Move(pl, 1-w.Node())
				return pl
			}
			h.start()
			h.submitOn(0)
			c.then(h)
		})
	}
}

// The stand-in goes to the other node with the place, and sleeps there, while the worker comes back.
func TestAWorkerGetsAPlaceBackThatHasMoved(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: explore.None, Random: 20_000}, func() {
		h := newHostOf(Config{Size: 1, Seats: policy.NewSeats([]int{0}, []int{0, 1}), Placements: []Placement{{Places: 1}, {Node: 1, Places: 1}}, Nearby: [][]int{{0, 1}, {1, 0}}})
		first := true
		h.task = func(w *Worker, pl *Place) *Place {
			if !first {
				w.Move(pl, 1)
				return pl
			}
			first = false
			w.Lend(pl, false)
			return w.ComeBack()
		}
		h.start()
		h.submitOn(0)
		h.submitOn(0)
		h.await(2)
		h.submitOn(1)
		h.await(3)
	})
}

// A worker begins beside the places, waits, and then becomes a worker like others. A pool that closes waits for it.
func TestAWorkerThatBeginsBesideThePlacesIsOneOfThem(t *testing.T) {
	programs.Explore(t, explore.Options{Preemptions: 1, Random: 5_000}, func() {
		h := newHost(1)
		h.counts = true
		h.task = firstWaitsForSecond()
		h.start()
		h.pool.Enter()
		h.beside()
		h.submit(1)
		h.close()
		explore.Assert(h.ran.Load() == 2, "the pool has ended before its tasks")
		explore.Wait()
	})
}

// beside runs a task in a worker without a place, which counts as active already.
func (h *host) beside() {
	h.hire(&h.pool.placements[0], func(w *Worker) { w.BeginBeside(&h.guests) }, func(w *Worker) *Place { return h.run(w, nil) })
}

// Nothing begins beside the places from the end of a Pause to Resume.
func TestNothingBeginsInAPausedPool(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		var atRest, over atomic.Bool
		h.task = func(_ *Worker, pl *Place) *Place {
			explore.Assert(!atRest.Load(), "a task runs in a pool at rest")
			return pl
		}
		h.start()
		h.pool.Pause()
		explore.Go("relief", func() {
			if h.pool.EnterUnlessAtRest() {
				h.beside()
			}
			over.Store(true)
		})
		_, err := h.pool.AwaitPause(context.Background())
		explore.Assert(err == nil, "the pause ends with %v", err)
		atRest.Store(true)
		explore.Block("wait for the relief", over.Load)
		explore.Assert(h.pool.Rests(), "a worker computes in a pool at rest")
		atRest.Store(false)
		h.pool.Resume()
		h.await(h.ran.Load())
	})
}

// A task shows a child and waits for it, in a way that heist knows of or not.
func TestAChildOfAWorkerThatWaitsIsStolen(t *testing.T) {
	for _, says := range []bool{true, false} {
		programs.Explore(t, explore.Options{Preemptions: 1, Random: 5_000}, func() {
			h := newHost(1)
			h.shows, h.monitor = true, h.monitors(1)
			h.task = func(w *Worker, pl *Place) *Place {
				h.show(w)
				stolen := func() bool { return h.stole.Load() == 1 }
				if !says {
					waitsUnsaid(w, "wait for the child", stolen)
					return h.use(w, pl)
				}
				w.Lend(pl, true)
				explore.Block("wait for the child", stolen)
				return w.ComeBack()
			}
			h.start()
			h.submit(1)
			h.await(1)
		})
	}
}

// show adds a child to a scope of the worker.
func (h *host) show(w *Worker) {
	w.Shown().(*hidden).children.Add(1)
	if h.pool.Sleep.Load().Searching() == 0 {
		h.pool.WakeOne(0, w.HomeIndex())
	}
}

// A worker that is above another one on a roster leaves it, and is given a place, while somebody looks.
func TestALookAtARosterSeesAllWhoStay(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		h := newHost(1)
		h.shows = true
		s := &h.pool.placements[0]
		stays, leaves := h.worker(s), h.worker(s)
		stays.BeginBeside(&h.guests)
		leaves.BeginBeside(&h.guests)
		stays.Shown().(*hidden).children.Store(1)
		explore.Go("leaves", func() {
			leaves.EndBeside()
			leaves.BeIdle(nil)
			leaves.Grant(h.pool.Places()[0])
			leaves.TakeUp()
		})
		explore.Assert(h.guests.AnyFork(false), "a look has not seen the child of a worker that was there all the time")
		explore.Wait()
	})
}
