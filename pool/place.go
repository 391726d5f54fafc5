package pool

import (
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// place is a place with what belongs to it in a pool: the run queues, and what its holder remembers of its search for
// work. internal/core says what a place is, who its holder is, and who touches the fields of the holder.
type place struct {
	_ pad.Line

	// Thieves read these at each look.

	pool  *Pool
	index int // in Pool.places; constant

	// The run queues; the pointers are constant. Holder pushes, thieves take too.

	ring  *heist.Ring[task]
	batch *heist.Ring[task] // tasks pulled from the injector

	// keeps says that the LIFO slot is the holder's alone, since it comes to it soon: find.go, "The slot". The holder sets and clears it;
	// the monitor and the worker that lends the place for the holder clear it. It seldom changes.
	keeps atomic.Bool

	_ pad.Line

	// Holder only.

	tick       tick
	search     policy.Search
	victim     int     // the last place from which something was stolen; -1 at first
	from, tier int     // the victim of the last steal, as in StealMatrix, and its tier
	handed     *handed // what the stand-in is to begin with; nil for nothing
	handings   int     // how often in a row it was something
	stash      []*task // accepted tasks for which no queue was left when the injectors were closed
	pulled     [heist.MaxPull]*task

	// Holder writes, any goroutine reads.

	tasks      heist.Counter
	looks      heist.Counter
	gaveWay    heist.Counter
	displaced  heist.Counter
	stealStats stealStats

	_ pad.Line

	// lifoSlot is the LIFO slot: the task that was queued last. The holder exchanges it, thieves
	// empty it by CAS.
	lifoSlot atomic.Pointer[task]

	_ pad.Line

	core core.Place

	mail []mail // of broadcasts, the oldest first; under core.Mu

	_ pad.Line
}

func newPlace(p *Pool, index int) *place {
	pl := &place{pool: p, index: index, victim: -1}
	pl.core.Init(&p.core, index)
	pl.search.Init(p.victimOrder, index, &p.search, heist.RandomSeed())
	pl.search.Backoff.Spin, pl.search.Backoff.Yields = p.spin, p.yields
	pl.stealStats.init(p)
	pl.tick.begin(p)
	// The capacities are constants that NewRing takes.
	pl.ring, _ = heist.NewRing(heist.DefaultRingCapacity, pl.injector())
	pl.batch, _ = heist.NewRing[task](heist.MaxPull, nil)
	return pl
}

// injector returns the injector for normal tasks of the node on which the place is at first.
func (pl *place) injector() *heist.Injector[task] {
	return pl.pool.nodes[pl.core.Node()].queues[PriorityNormal]
}

// offersTask says whether there is a task that a thief may take.
func (pl *place) offersTask() bool {
	return pl.ring.Len()+pl.batch.Len() > 0 || pl.lifoSlot.Load() != nil && !pl.keeps.Load()
}

// queued returns how many tasks lie in the place's queues.
func (pl *place) queued() int {
	n := pl.ring.Len() + pl.batch.Len()
	if pl.lifoSlot.Load() != nil {
		n++
	}
	return n
}

// placeOf returns the pool's part of a place; nil for nil.
func (p *Pool) placeOf(pl *core.Place) *place {
	if pl == nil {
		return nil
	}
	return p.places[pl.Index]
}

// homePlace returns the place that the worker has or had last; nil for one that never had any, such as a guest.
func (w *Worker) homePlace() *place { return w.pool.placeOf(w.core.Home().Place()) }

// host is the pool as the protocol sees it.
type host Pool

func (h *host) AnyWork(forks bool) (node, place int, ok bool) {
	p := (*Pool)(h)
	node, place, ok = p.anyWork(forks)
	if !ok && !forks && !p.core.Monitored.Load() && p.showsFork() {
		p.monitored()
	}
	return node, place, ok
}

func (h *host) Hire(s *core.Placement, begin func(w *core.Worker)) {
	(*Pool)(h).start(s, func(w *Worker) { begin(&w.core) })
}

func (h *host) NewPlace(index int) *core.Place {
	pl := newPlace((*Pool)(h), index)
	h.places[index] = pl
	return &pl.core
}

func (h *host) Broken(what string) { fatal(what) }

func (h *host) LetsGo(pl *core.Place) bool { return h.places[pl.Index].shareSlot() }

func (h *host) Closes(pl *core.Place) {
	h.places[pl.Index].shareSlot()
	h.places[pl.Index].dropMail()
}

// shown is a worker as thieves see it.
type shown Worker

func (s *shown) AnyFork(forks bool) bool { return (*Worker)(s).anyFork(forks) }

func (s *shown) Alarm() { (*Worker)(s).alarm() }

// workerOf returns the pool's part of a worker that is on a roster.
func workerOf(w *core.Worker) *Worker { return (*Worker)(w.Shown().(*shown)) }

// stealable is what a worker offers to thieves: the children of its scopes, or a fork stack. Any goroutine may call
// its methods.
type stealable interface {
	// claim takes the oldest item for a thief on a node, which must run it.
	claim(node int) (claimed, heist.StealResult)
	// run runs what was claimed.
	run(thief *Worker, c claimed)
	// visible says whether there is something to steal.
	visible() bool
	// alarm asks the owner to let thieves see all that it has.
	alarm()
}

// claimed is an item that a thief has claimed: the fork at an index, or a child of a branch.
type claimed struct {
	index  int
	branch *branch
	child  *task
}

// offers returns what the worker offers to thieves, or, without forks, the children alone. Children come first:
// they may be meant for the thief's node, and forks are often parts of them.
func (w *Worker) offers(forks bool) []stealable {
	all := *w.offered.Load()
	if !forks {
		return all[:1]
	}
	return all
}

func (w *Worker) offer(all []stealable) { w.offered.Store(&all) }

// anyFork says whether a child of one of the worker's scopes can be stolen, or, if forks count, one of
// its forks.
func (w *Worker) anyFork(forks bool) bool {
	return slices.ContainsFunc(w.offers(forks), stealable.visible)
}

// stealFork takes a child or, if forks is set, a fork of a worker on the roster, for a thief on the node.
func stealFork(r *core.Roster, forks bool, node int) (_ job, result heist.StealResult) {
	for at := r.First(); at != nil; at = at.Next() {
		for _, from := range workerOf(at).offers(forks) {
			c, this := from.claim(node)
			if this == heist.Success {
				return job{from: from, claimed: c}, this
			}
			result = max(result, this)
		}
	}
	return job{}, result
}
