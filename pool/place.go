package pool

import (
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

	pool      *Pool
	index     int             // in Pool.places; constant
	placement *core.Placement // where the holder may run; constant

	// The run queues; the pointers are constant. Holder pushes, thieves take too.

	ring  *heist.Ring[task]
	batch *heist.Ring[task] // tasks pulled from the injector

	// Holder only.

	tick       tick
	search     policy.Search
	victim     int     // the last place from which something was stolen; -1 at first
	from, tier int     // the victim of the last steal, as in StealMatrix, and its tier
	stash      []*task // accepted tasks for which no queue was left when the pool closed
	pulled     [heist.MaxPull]*task

	// Holder writes, any goroutine reads.

	tasks      heist.Counter
	looks      heist.Counter
	gaveWay    heist.Counter
	displaced  heist.Counter
	stealStats stealStats

	_ pad.Line

	// lifoSlot is the LIFO slot: the task that was queued last. The holder exchanges it, thieves
	// empty it by CAS. It has a cache line of its own, because the fields after it seldom change.
	lifoSlot atomic.Pointer[task]

	_ pad.Line

	core core.Place

	mail []letter // of broadcasts, the oldest first; under core.Mu

	_ pad.Line
}

func newPlace(p *Pool, index int) *place {
	placement := p.placementOf[index]
	pl := &place{pool: p, index: index, placement: &p.core.Placements()[placement], victim: -1}
	pl.core.Init(&p.core, index, placement)
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
	return pl.pool.nodes[pl.placement.Node].queues[PriorityNormal]
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

func (h *host) AnyWork(forks bool) (node, place int, ok bool) { return (*Pool)(h).anyWork(forks) }

func (h *host) Hire(s *core.Placement, begin func(w *core.Worker)) {
	(*Pool)(h).start(s, func(w *Worker) { begin(&w.core) })
}

func (h *host) NewPlace(index int) *core.Place {
	pl := newPlace((*Pool)(h), index)
	h.places[index] = pl
	return &pl.core
}

func (h *host) Broken(what string) { fatal(what) }

func (h *host) Closes(pl *core.Place) { h.places[pl.Index].dropLetters() }

// shown is a worker as thieves see it.
type shown Worker

func (s *shown) AnyFork(forks bool) bool { return (*Worker)(s).anyFork(forks) }

func (s *shown) Alarm() { (*Worker)(s).alarm() }

// workerOf returns the pool's part of a worker that is on a roster.
func workerOf(w *core.Worker) *Worker { return (*Worker)(w.Shown().(*shown)) }

// stealFork takes the oldest child or, if forks is set, the oldest fork of a worker on the roster, for a
// thief on the node. Children come first: they may be meant for the node, and forks are often parts of them.
func stealFork(r *core.Roster, forks bool, node int) (j job, result heist.StealResult) {
	for at := r.First(); at != nil; at = at.Next() {
		v := workerOf(at)
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
