package pool

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// # Places
//
// A **place** is the right to compute, and what belongs to it: run queues, and what its holder
// remembers of its search for work. There are as many as the pool has workers. A worker is a
// goroutine and its fork stacks. It has a place while it computes, lends it while it waits
// (waiting.md), and gives it up when there is nothing to do. Then the place sleeps, and a waker
// gives it to an idle worker, or to a new one. (In Go's own scheduler a place is a P and a worker
// an M.)
//
// At any time a place belongs to one of these, which alone touches the fields marked as the holder's:
//   - its **holder**, the worker whose place field refers to it;
//   - the waker that has cleared its bit among the sleepers, until a worker has it;
//   - no goroutine, while it sleeps or is closed (Resize).
//
// Thieves find work at places: tasks in the run queues, and forks at all workers on the place's
// **roster**. These are the holder, and the workers that have lent the place and have forks that can
// be stolen. Guests have no place, because they need neither queues nor a turn; there are rosters
// for them alone (guest.go).

// place is the right to compute.
type place struct {
	_ pad.Line

	pool      *Pool
	index     int        // in Pool.places; constant
	placement *placement // where the holder may run; constant

	// The run queues; the pointers are constant. Holder pushes, thieves take too.

	ring  *heist.Ring[task]
	batch *heist.Ring[task] // tasks pulled from the injector

	// Holder only.

	tick        tick
	search      policy.Search
	victim      int  // the last place from which something was stolen; -1 at first
	from, tier  int  // the victim of the last steal, as in StealMatrix, and its tier
	firstVictim int  // the place that the next look visits first, because the waker saw work there; -1 for none
	searching   bool // the holder counts as a searcher
	woken       bool // the place was woken, and its worker has not run yet
	gaps        policy.Gaps
	idleSince   int64   // when a look found nothing and the gap began, in heist.Ticks; 0 if the place is in none
	wokenAt     int64   // when the place was woken in that gap, in heist.Ticks; 0 if it was not, or nothing was found after
	standIn     bool    // the holder is a stand-in that has not run anything yet
	stash       []*task // accepted tasks for which no queue was left when the pool closed
	pulled      [heist.MaxPull]*task

	// Holder writes, any goroutine reads.

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

	// lifoSlot is the LIFO slot: the task that was queued last. The holder exchanges it, thieves
	// empty it by CAS. It has a cache line of its own, because the fields after it seldom change.
	lifoSlot atomic.Pointer[task]

	_ pad.Line

	roster

	owed    atomic.Int32 // len(back); under mu, any goroutine reads
	letters atomic.Int32 // len(mail); under mu, any goroutine reads
	back    []*Worker    // workers that lent the place and compute again without it, the first to return first; under mu
	mail    []letter     // of broadcasts, for the holder, the oldest first; under mu

	open bool // the place is not closed; under workerSet.mu

	_ pad.Line
}

func newPlace(p *Pool, index int) *place {
	pl := &place{pool: p, index: index, placement: &p.placements[p.placementOf[index]], victim: -1, firstVictim: -1}
	pl.roster.of = pl
	pl.search.Init(p.victimOrder, index, &p.search, heist.RandomSeed())
	pl.search.Backoff.Spin, pl.search.Backoff.Yields = p.spin, p.yields
	pl.stealStats.init(p)
	pl.tick.begin(p)
	// The capacities are constants that NewRing takes.
	pl.ring, _ = heist.NewRing(heist.DefaultRingCapacity, pl.injector())
	pl.batch, _ = heist.NewRing[task](heist.MaxPull, nil)
	return pl
}

// injector returns the injector for normal tasks of the place's node.
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

// roster lists workers whose forks thieves can find there.
type roster struct {
	of *place // nil for a roster of guests; constant

	mu  sync.Mutex
	top atomic.Pointer[Worker] // the first of the workers; under mu, any goroutine reads

	free []*Worker // guests that have left; under mu
}

// link shows the worker's forks to thieves that come to the roster. Under mu.
func (r *roster) link(w *Worker) {
	if !w.linked {
		w.linked = true
		w.below.Store(r.top.Load())
		r.top.Store(w)
	}
}

// unlink undoes link. A thief that has come to the worker goes on from there, perhaps to workers of
// another roster. That does no harm: it would have looked at their forks later. Under mu.
func (r *roster) unlink(w *Worker) {
	if !w.linked {
		return
	}
	w.linked = false
	at := &r.top
	for at.Load() != w {
		at = &at.Load().below
	}
	at.Store(w.below.Load())
}

// anyFork is Worker.anyFork for the workers that are linked here. If forks count, which they do if the
// pool is hungry, and there are none, it raises the alarm.
func (r *roster) anyFork(forks bool) bool {
	for w := r.top.Load(); w != nil; w = w.below.Load() {
		if w.anyFork(forks) {
			return true
		}
	}
	if forks {
		r.alarm()
	}
	return false
}

// alarm has the workers that are linked here publish their forks (fork.go). The caller counts as a
// searcher, or its place as asleep.
func (r *roster) alarm() {
	for w := r.top.Load(); w != nil; w = w.below.Load() {
		w.alarm()
	}
}

// stealFork takes the oldest child or, if forks is set, the oldest fork of a worker that is linked here, for a
// thief on the node. Children come first: they may be meant for the node, and forks are often parts of them.
func (r *roster) stealFork(forks bool, node int) (j job, result heist.StealResult) {
	for v := r.top.Load(); v != nil; v = v.below.Load() {
		j, this := v.robChild(node)
		if this == heist.Success {
			return j, this
		}
		result = max(result, this)
		if !forks {
			continue
		}
		for _, s := range v.forkStacks() {
			index, this := s.claim()
			if this == heist.Success {
				return job{forks: s, index: index}, this
			}
			result = max(result, this)
		}
	}
	return job{}, result
}

// doze puts the place, which has no holder any more, to sleep, and wakes it again if there is work, or a worker
// that wants it back: sleep.md, "Nothing is missed".
func (pl *place) doze() {
	p := pl.pool
	searching := pl.searching
	pl.searching = false
	pl.parks.Add(1)
	if pl.wokenAt != 0 {
		pl.wokenAt = 0
		pl.fruitless.Add(1)
		pl.sawGap(math.MaxInt64)
	} else {
		pl.beginGap()
	}
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
	} else { // a waker chose it before, perhaps too early for its worker to see what is there
		p.notifySeen()
	}
}

// wakeUp gives the place to a worker. The caller has cleared its bit.
func (pl *place) wakeUp() {
	p := pl.pool
	if pl.owed.Load() > 0 && pl.giveBack(true) {
		// The worker that has the place now is in the middle of a job, and does not search for
		// what the waker saw.
		p.notifySeen()
		return
	}
	p.sleep.Woken()
	pl.searching = true
	pl.woken = true
	p.woken.Add(1)
	pl.wokenAt = heist.Ticks()
	p.searchedAt.Store(pl.wokenAt)
	pl.occupy()
}

// answer is called by an idle or new worker that was given the place.
func (pl *place) answer() {
	if pl.woken {
		pl.woken = false
		pl.pool.woken.Add(-1)
		pl.wakes.Add(1)
	}
}

// beginGap is called when a look has found nothing.
func (pl *place) beginGap() {
	if pl.idleSince == 0 {
		pl.idleSince = heist.Ticks()
	}
}

// endGap is called when there is something to do.
func (pl *place) endGap() {
	if pl.idleSince != 0 {
		pl.gapEnded()
	}
}

// gapEnded records the gap. If the place was woken for what there is to do, the gap ended then.
//
//go:noinline
func (pl *place) gapEnded() {
	end := pl.wokenAt
	if end == 0 {
		end = heist.Ticks()
	}
	pl.sawGap(end - pl.idleSince)
	pl.idleSince, pl.wokenAt = 0, 0
}

func (pl *place) sawGap(ticks int64) { pl.gaps.Saw(ticks, pl.pool.ticksSpin, pl.pool.ticksWatch) }

// occupy gives the place to an idle worker, or to a new one.
func (pl *place) occupy() {
	pl.pool.active.Add(1)
	w := pl.placement.pop()
	if w == nil {
		pl.pool.hire(pl)
		return
	}
	w.granted.Store(pl)
	w.parker.unpark()
}

// giveBack gives the place to the first worker that wants it back, and says whether there is one. The
// caller is the holder, or, if the place was asleep, has cleared its bit.
func (pl *place) giveBack(asleep bool) bool {
	pl.mu.Lock()
	if len(pl.back) == 0 {
		pl.mu.Unlock()
		return false
	}
	pl.endGap()
	last := false
	if asleep {
		pl.pool.sleep.Resumed()
	} else if pl.searching { // the worker that gets the place does not search
		pl.searching = false
		last = pl.pool.sleep.StopSearching()
	}
	w := pl.back[0]
	pl.back = slices.Delete(pl.back, 0, 1)
	pl.owed.Store(int32(len(pl.back)))
	w.granted.Store(pl) // w takes it up when it needs a place, or when its job ends
	pl.mu.Unlock()
	if last {
		pl.pool.notifySeen()
	}
	return true
}

// forgo takes the worker off the list of those that want their place back: its job has ended, or it waits again. It
// returns the place if the worker was given it just now, and else nil.
func (w *Worker) forgo() *place {
	pl := w.home.of
	if pl == nil { // it never had one
		return nil
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.back = slices.DeleteFunc(pl.back, func(other *Worker) bool { return other == w })
	pl.owed.Store(int32(len(pl.back)))
	return w.granted.Swap(nil)
}

// stopSearching is for a holder that may count as a searcher, and has found something.
func (pl *place) stopSearching() {
	if !pl.searching {
		return
	}
	pl.searching = false
	if pl.pool.sleep.StopSearching() {
		pl.pool.notifySeen()
	}
}
