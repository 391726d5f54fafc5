package pool

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// # Places
//
// A place is the right to compute, and what belongs to it: run queues, and what its holder
// remembers of its search for work. There are as many as the pool has workers. A worker is a
// goroutine and its fork stacks. It has a place while it computes, lends it while it waits
// (waiting.md), and gives it up when there is nothing to do: then the place sleeps, and the waker that
// wakes it gives it to a worker that is idle, or to a new one. (In Go's own scheduler a place is
// a P and a worker an M.)
//
// A place belongs to one of these at any time, and only that one touches what is marked as the
// holder's:
//   - the worker whose place field says so, its holder,
//   - the waker that has cleared its bit among the sleepers, until a worker has it,
//   - nobody, while it sleeps or is closed (Resize).
//
// Thieves find work at places: tasks in their run queues, and forks at all workers that are
// linked to them: the holder, and those who have lent it and have forks that can be stolen.
// Guests have no place of their own, for they need neither queues nor a turn; they are linked to
// places that are there for that alone.

// place is the right to compute.
type place struct {
	pool      *Pool
	index     int        // in Pool.places; constant
	rank      int        // among the places of workers; -1 for guests; constant
	placement *placement // where the holder may run; constant

	// The run queues; the pointers are constant. Holder pushes, thieves take too.

	ring  *heist.Ring[task]
	batch *heist.Ring[task] // what was pulled from the injector and not begun

	// Holder only.

	tick        tick
	search      policy.Search
	victim      int     // the last place that had something to steal; -1 at first
	firstVictim int     // the place that the next look visits first, or -1; the waker saw something there
	searching   bool    // the holder counts as a searcher
	woken       bool    // the place was woken, and its worker has not run yet
	dozedAt     int64   // when the place went to sleep, in heist.Ticks
	tasksThen   uint64  // how many tasks there had been when it was woken
	idled       bool    // it was woken, and nothing was found since
	standIn     bool    // the holder was given the place by one who waits, and has not run anything yet
	stash       []*task // accepted tasks for which no queue was left when the pool closed
	pulled      [heist.MaxPull]*task

	// Holder writes, anybody reads.

	tasks      heist.Counter
	looks      heist.Counter
	parks      heist.Counter
	wakes      heist.Counter
	fruitless  heist.Counter
	gaveWay    heist.Counter
	lends      heist.Counter
	displaced  heist.Counter
	stealStats stealStats

	_ pad.Line

	// lifoSlot is the LIFO lifoSlot: the task that was queued last. The holder exchanges it, thieves
	// empty it by CAS. It has lines of its own: what follows changes seldom.
	lifoSlot atomic.Pointer[task]

	_ pad.Line

	top  atomic.Pointer[Worker] // the first of the workers that are linked here; under mu, anybody reads
	owed atomic.Int32           // len(back); under mu, anybody reads

	letters atomic.Int32 // len(mail); under mu, anybody reads

	mu   sync.Mutex
	back []*Worker // those who have lent the place and compute again without it, in their order
	free []*Worker // guests that have left
	mail []letter  // of broadcasts, for the holder of the place, the oldest first

	open bool // it is one of the places that there are; under workerSet.mu
}

func newPlace(p *Pool, index, rank int) *place {
	pl := &place{pool: p, index: index, rank: rank, placement: &p.placements[p.placementOf[index]], victim: -1, firstVictim: -1}
	pl.search.Init(p.victimOrder, index, &p.search, heist.RandomSeed())
	pl.search.Backoff.Spin, pl.search.Backoff.Yields = p.spin, p.yields
	pl.stealStats.init(p)
	pl.tick.begin(p)
	// The capacities are constants that NewRing takes.
	pl.ring, _ = heist.NewRing(heist.DefaultRingCapacity, pl.injector())
	pl.batch, _ = heist.NewRing[task](heist.MaxPull, nil)
	return pl
}

// injector returns the one for normal tasks of the place's node.
func (pl *place) injector() *heist.Injector[task] {
	return pl.pool.nodes[pl.placement.node].queues[PriorityNormal]
}

// queued returns how many tasks lie in the place's queues.
func (pl *place) queued() int {
	n := pl.ring.Len() + pl.batch.Len()
	if pl.lifoSlot.Load() != nil {
		n++
	}
	return n
}

// link shows the worker's forks to thieves that come to the place. Under mu.
func (pl *place) link(w *Worker) {
	if !w.linked {
		w.linked = true
		w.below.Store(pl.top.Load())
		pl.top.Store(w)
	}
}

// unlink ends that. A thief that stands at the worker goes on from there, perhaps to workers of
// another place: it looks at forks that it would have come to later. Under mu.
func (pl *place) unlink(w *Worker) {
	if !w.linked {
		return
	}
	w.linked = false
	at := &pl.top
	for at.Load() != w {
		at = &at.Load().below
	}
	at.Store(w.below.Load())
}

// anyFork is Worker.anyFork for those that are linked here. If forks count, which they do for who is
// hungry, it asks for some where there are none.
func (pl *place) anyFork(forks bool) bool {
	for w := pl.top.Load(); w != nil; w = w.below.Load() {
		if w.anyFork(forks) {
			return true
		}
	}
	if forks {
		pl.alarm()
	}
	return false
}

// alarm has the workers that are linked here publish their forks (fork.go). The caller counts as a
// searcher, or its place as asleep.
func (pl *place) alarm() {
	for w := pl.top.Load(); w != nil; w = w.below.Load() {
		w.alarm()
	}
}

// doze puts the place to sleep, which nobody has from here on, unless there is work, or another worker
// who wants it back: sleep.md, "Nothing is missed".
func (pl *place) doze() {
	p := pl.pool
	searching := pl.searching
	pl.searching = false
	pl.parks.Add(1)
	if pl.idled && pl.tasks.Load() == pl.tasksThen {
		pl.fruitless.Add(1)
	}
	pl.idled = false
	pl.dozedAt = heist.Ticks()
	state := p.sleep.Announce(pl.index, searching)
	switch {
	case pl.owed.Load() > 0,
		pl.isTooMany(), // Resize came between the look at control and the bit
		!p.held() && (pl.letters.Load() > 0 || p.worthWaking(state) || p.lacksWatch()):
	default:
		return
	}
	if p.sleep.Choose(pl.index) {
		pl.wakeUp()
	} else { // it was chosen before, perhaps too early for who has it to see what is there
		p.notifySeen()
	}
}

// wakeUp gives the place to a worker. The caller has cleared its bit.
func (pl *place) wakeUp() {
	p := pl.pool
	if pl.owed.Load() > 0 && pl.giveBack(true) {
		// Who has the place now is in the middle of something, and does not search for what
		// the waker saw.
		p.notifySeen()
		return
	}
	p.sleep.Woken()
	pl.searching = true
	pl.woken = true
	p.woken.Add(1)
	p.searchedAt.Store(heist.Ticks())
	pl.occupy()
}

// answer is for a worker that has been given the place.
func (pl *place) answer() {
	if pl.woken {
		pl.woken = false
		pl.pool.woken.Add(-1)
		pl.wakes.Add(1)
		pl.idled, pl.tasksThen = true, pl.tasks.Load()
	}
}

// occupy has an idle worker take the place, or a new one.
func (pl *place) occupy() {
	pl.pool.active.Add(1)
	w := pl.placement.pop()
	if w == nil {
		pl.pool.hire(pl, nil)
		return
	}
	w.granted.Store(pl)
	w.parker.unpark()
}

// giveBack gives the place to the first who wants it back, if there is one. The caller has it, or,
// if it was asleep, has cleared its bit.
func (pl *place) giveBack(asleep bool) bool {
	pl.mu.Lock()
	if len(pl.back) == 0 {
		pl.mu.Unlock()
		return false
	}
	last := false
	if asleep {
		pl.pool.sleep.Taken()
	} else if pl.searching { // who gets the place does not search
		pl.searching = false
		last = pl.pool.sleep.StopSearching()
	}
	w := pl.back[0]
	pl.back = slices.Delete(pl.back, 0, 1)
	pl.owed.Store(int32(len(pl.back)))
	w.granted.Store(pl) // it takes it up when it needs it, or comes to its end
	pl.mu.Unlock()
	if last {
		pl.pool.notifySeen()
	}
	return true
}

// forgo is for a worker that does not want its place back any more: it has come to its end, or
// waits again. If it has just been given the place, it has it.
func (pl *place) forgo(w *Worker) *place {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.back = slices.DeleteFunc(pl.back, func(other *Worker) bool { return other == w })
	pl.owed.Store(int32(len(pl.back)))
	return w.granted.Swap(nil)
}

// stopSearching is for a holder that counts as a searcher and found what it looked for.
func (pl *place) stopSearching() {
	if !pl.searching {
		return
	}
	pl.searching = false
	if pl.pool.sleep.StopSearching() {
		pl.pool.notifySeen()
	}
}
