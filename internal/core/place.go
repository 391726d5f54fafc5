package core

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
//   - its **holder**, a worker in the state Holding, or one that is just letting go of it (Lend, BeIdle);
//   - the waker that has cleared its bit among the sleepers, until the worker to which it is granted takes it up;
//   - no goroutine, while it sleeps or is closed (Resize).
//
// Thieves find work at places: tasks in the run queues, and forks at all workers on the place's
// **roster**. These are the holder, and the workers that have lent the place and have forks that can
// be stolen. Guests have no place, because they need neither queues nor a turn; there are rosters
// for them alone.

// Place is the right to compute.
type Place struct {
	pool  *Pool
	Index int // constant

	// Holder only.

	FirstVictim int  // the place that the next look visits first, because the waker saw work there; -1 for none
	Searching   bool // the holder counts as a searcher
	woken       bool // the place was woken, and its worker has not run yet
	Gaps        policy.Gaps
	idleSince   int64 // when a look found nothing and the gap began, in heist.Ticks; 0 if the place is in none
	wokenAt     int64 // when the place was woken in that gap, in heist.Ticks; 0 if it was not, or nothing was found after
	standIn     bool  // the holder is a stand-in that has not run anything yet

	// Holder writes, any goroutine reads.

	Parks, Wakes, Fruitless, Lends heist.Counter

	_ pad.Line // thieves look at the roster, while the holder writes what is above

	Roster

	owed atomic.Int32 // len(back); under Mu, any goroutine reads
	back []*Worker    // workers that lent the place and compute again without it, the first to return first; under Mu

	// Mail counts what the holder alone has to do (a broadcast). The host writes it, and calls Forward after it adds some.
	Mail atomic.Int32

	open bool // the place is not closed; under the lock of the size
}

// Init makes a place of the pool.
func (pl *Place) Init(p *Pool, index int) {
	pl.pool, pl.Index, pl.FirstVictim, pl.Roster.of = p, index, -1, pl
}

// Placement returns where the holder may run, or, if it is not bound, where it ran when it last looked.
func (pl *Place) Placement() *Placement { return &pl.pool.placements[pl.pool.seats.Of(pl.Index)] }

// Node returns the node of the placement.
func (pl *Place) Node() int { return pl.pool.seats.Node(pl.Index) }

// IsOpen says whether the place is open. Under the lock of the size, or in tests of a pool at rest.
func (pl *Place) IsOpen() bool { return pl.open }

// Owed returns how many workers want the place back.
func (pl *Place) Owed() int { return int(pl.owed.Load()) }

// IsTooMany says whether the pool has more places than it should have, and this is one of those that must close.
func (pl *Place) IsTooMany() bool {
	return pl.pool.control.Load()&controlClose != 0 && pl.Index >= pl.pool.Size()
}

// HasOrders says whether the holder, between two tasks, has something to obey: it must give the place back or up, close it,
// or look after Mail.
func (pl *Place) HasOrders() bool {
	return pl.owed.Load() > 0 || pl.Mail.Load() > 0 || pl.pool.control.Load() != 0 && (pl.pool.Held() || pl.IsTooMany())
}

// MustClose says whether the holder must close the place and not give it back.
func (pl *Place) MustClose() bool { return pl.IsTooMany() && pl.owed.Load() == 0 }

// MayOpenMail says whether the holder may look after Mail now.
func (pl *Place) MayOpenMail() bool {
	return pl.Mail.Load() > 0 && pl.owed.Load() == 0 && !pl.pool.Held()
}

// IsStandIn says whether the holder is a stand-in that has not run anything yet, and notes that now it has.
func (pl *Place) IsStandIn() (first bool) {
	first, pl.standIn = pl.standIn, false
	return first
}

// # Rosters

// Roster lists workers whose forks thieves can find there.
type Roster struct {
	of *Place // nil for a roster of guests; constant

	Mu   sync.Mutex
	top  atomic.Pointer[Worker] // the first of the workers; under Mu, any goroutine reads
	left atomic.Uint32          // how many workers have left; under Mu, any goroutine reads

	away []*Worker // guests that have left; under Mu
}

// Shown is what thieves see of a worker.
type Shown interface {
	// AnyFork says whether a child of one of the worker's scopes can be stolen, or, if forks count, one of its forks.
	AnyFork(forks bool) bool
	// Alarm makes the worker's next fork or join publish its forks, if the pool is hungry.
	Alarm()
}

// First returns the first worker on the roster, or nil; Worker.Next returns the others. A worker may leave meanwhile, and
// so the caller miss others: see Shows.
func (r *Roster) First() *Worker { return r.top.Load() }

// Place returns the roster's place, or nil for one of guests.
func (r *Roster) Place() *Place { return r.of }

// Link shows the worker's forks to thieves that come to the roster. Under Mu.
func (r *Roster) Link(w *Worker) {
	if !w.linked {
		w.linked = true
		w.below.Store(r.top.Load())
		r.top.Store(w)
	}
}

// Unlink undoes Link. A thief that has come to the worker goes on from there, perhaps to workers of
// another roster, and misses those that were below the worker here. To a thief that does no harm. Under Mu.
func (r *Roster) Unlink(w *Worker) {
	if !w.linked {
		return
	}
	w.linked = false
	at := &r.top
	for at.Load() != w {
		at = &at.Load().below
	}
	at.Store(w.below.Load())
	r.left.Add(1) // afterwards, but before w can be on another roster: see Shows
}

func (r *Roster) unlink(w *Worker) {
	r.Mu.Lock()
	r.Unlink(w)
	r.Mu.Unlock()
}

// AnyFork is Shows, for a look on which others rely. If forks count, which they do if the pool is hungry, and there are none, it
// raises the alarm.
func (r *Roster) AnyFork(forks bool) bool {
	if r.Shows(forks) {
		return true
	}
	if forks {
		r.Alarm()
	}
	return false
}

// Shows is Shown.AnyFork for the workers that are linked here. It sees all who stay here for the time of the call. A worker that
// leaves may lead the look to another roster, away from those below it; so if one has left meanwhile, the look is made again
// while none can.
func (r *Roster) Shows(forks bool) bool {
	left := r.left.Load()
	if r.anyFork(forks) {
		return true
	}
	if r.left.Load() == left {
		return false
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.anyFork(forks)
}

func (r *Roster) anyFork(forks bool) bool {
	for w := r.top.Load(); w != nil; w = w.below.Load() {
		if w.shown.AnyFork(forks) {
			return true
		}
	}
	return false
}

// Alarm has the workers that are linked here publish their forks (pool/fork.go). The caller counts as a
// searcher, or its place as asleep.
func (r *Roster) Alarm() {
	for w := r.top.Load(); w != nil; w = w.below.Load() {
		w.shown.Alarm()
	}
}

// # Whose turn it is in a place

// occupy gives the place to an idle worker, or to a new one. The caller lends the place, or has cleared its bit.
func (pl *Place) occupy() {
	pl.pool.active.Add(1)
	placement := pl.Placement()
	w := placement.pop()
	if w == nil {
		pl.pool.host.Hire(placement, func(w *Worker) { w.Grant(pl) })
		return
	}
	w.granted.Store(pl)
	w.Parker.Unpark()
}

// giveBack gives the place to the first worker that wants it back, and says whether there is one. The
// caller is the holder, or, if the place was asleep, has cleared its bit.
func (pl *Place) giveBack(asleep bool) bool {
	pl.Mu.Lock()
	if len(pl.back) == 0 {
		pl.Mu.Unlock()
		return false
	}
	pl.endGapInVain()
	last := false
	if asleep {
		pl.pool.Sleep.Resumed()
	} else if pl.Searching { // the worker that gets the place does not search
		pl.Searching = false
		last = pl.pool.Sleep.StopSearching()
	}
	w := pl.back[0]
	pl.back = slices.Delete(pl.back, 0, 1)
	pl.owed.Store(int32(len(pl.back)))
	w.granted.Store(pl) // w takes it up when it needs a place, or when its job ends
	pl.Mu.Unlock()
	if last {
		pl.pool.NotifySeen()
	}
	return true
}

// # Gaps

// BeginGap is called when a look has found nothing.
func (pl *Place) BeginGap() {
	if pl.idleSince == 0 {
		pl.idleSince = pl.pool.now()
	}
}

// EndGap is called when there is something to do.
func (pl *Place) EndGap() {
	if pl.idleSince != 0 {
		pl.gapEnded()
	}
}

// gapEnded records the gap. If the place was woken for what there is to do, the gap ended then.
//
//go:noinline
func (pl *Place) gapEnded() {
	end := pl.wokenAt
	if end == 0 {
		end = pl.pool.now()
	}
	pl.sawGap(end - pl.idleSince)
	pl.idleSince, pl.wokenAt = 0, 0
}

// endGapInVain is called when the place is given back: whatever its holder did in the gap to find work was in vain.
func (pl *Place) endGapInVain() {
	if pl.idleSince != 0 {
		pl.sawGap(math.MaxInt64)
		pl.idleSince, pl.wokenAt = 0, 0
	}
}

func (pl *Place) sawGap(ticks int64) { pl.Gaps.Saw(ticks, pl.pool.TicksSpin, pl.pool.TicksWatch) }
