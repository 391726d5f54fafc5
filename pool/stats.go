package pool

import (
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/pool/inspect"
)

// Stats returns the pool's counters. On 32-bit systems they wrap at 2^32.
func (p *Pool) Stats() inspect.Stats {
	p.mustBeMade()
	places := p.victims()
	published, t := p.workers.accounts()
	s := inspect.Stats{
		Workers: make([]inspect.WorkerStats, len(places)),
		Tiers:   make([]inspect.TierStats, len(p.victimOrder.Tiers)),

		Waiting:   p.core.Waits(),
		Cancelled: max(0, int(p.cancelled.Load())),

		Beside:    uint64(p.beside.Load()),
		Submitted: uint64(p.inInjectors().Total()) + uint64(p.beside.Load()) + uint64(max(0, p.delayed.Load())) + uint64(p.dropped.Load()),
		Refused:   uint64(p.refused.Load()),
		Late:      uint64(p.late.Load()),
		Skipped:   uint64(p.skipped.Load()),
		Panicked:  uint64(p.panicked.Load()),

		RefusedCallers: uint64(p.turnedAway.Load()),

		Noticed:    uint64(p.monitor.noticed.Load()),
		NoticedFor: p.duration(uint64(max(p.monitor.ticks.Load(), 0))),

		Published: published,
		Computing: p.duration(t.computing.Load()),
		Searching: p.duration(t.searching.Load()),
	}
	for i, distance := range p.victimOrder.Tiers {
		s.Tiers[i].Name = p.latencies.name(distance)
	}
	for i, pl := range places {
		ws := &s.Workers[i]
		*ws = inspect.WorkerStats{
			Role:      pl.role(),
			State:     pl.state(),
			Queued:    pl.queued(),
			Tasks:     pl.tasks.Load(),
			Looks:     pl.looks.Load(),
			Parks:     pl.core.Parks.Load(),
			Wakes:     pl.core.Wakes.Load(),
			Fruitless: pl.core.Fruitless.Load(),
			Lent:      pl.core.Lends.Load(),
			GaveWay:   pl.gaveWay.Load(),
			Displaced: pl.displaced.Load(),
		}
		s.Submitted += ws.Tasks + uint64(ws.Queued)
		for j := range pl.stealStats.tiers {
			c, t := &pl.stealStats.tiers[j], &s.Tiers[j]
			steals, items, lost := c.steals.Load(), c.items.Load(), c.lost.Load()
			ws.Steals += steals
			ws.Items += items
			ws.LostRaces += lost
			t.Attempts += c.attempts.Load()
			t.Steals += steals
			t.Items += items
			t.LostRaces += lost
		}
	}
	return s
}

func (pl *place) role() inspect.Role {
	if pl.index < pl.pool.first {
		return inspect.RoleWorker
	}
	return inspect.RoleAdded
}

// state says what goes on in the place. It follows the chain of linked workers, as thieves do, and reads what they publish.
func (pl *place) state() inspect.State {
	if pl.pool.core.Sleep.Parked(pl.index) {
		return inspect.Parked
	}
	state := inspect.Away
	for at := pl.core.First(); at != nil; at = at.Next() {
		switch w := workerOf(at); {
		case w.waitsNow() != nil:
		case w.job.Load() != nil || w.forWhom.Load() != nil:
			return inspect.Runs
		default:
			state = inspect.Searches
		}
	}
	return state
}

// Load returns what the pool does at the moment; all is zero when the pool has ended. Cost: a look at all places.
func (p *Pool) Load() inspect.Load {
	p.mustBeMade()
	select {
	case <-p.closed:
		return inspect.Load{}
	default:
	}
	l := inspect.Load{
		Workers:   p.core.Size(),
		Searching: p.core.Sleep.Load().Searching(),
		Waiting:   p.core.Waits(),
		Queued:    p.inInjectors(),
		Delayed:   max(0, int(p.delayed.Load())),
	}
	for _, pl := range p.victims() {
		l.Queued.Normal += pl.queued()
		if p.core.Sleep.Parked(pl.index) {
			l.Parked++
		}
	}
	l.Running = max(0, p.core.Active()-l.Waiting-l.Searching)
	p.workers.each(func(w *Worker) {
		if w.core.Guest && w.code.Load() != 0 && w.waitsNow() == nil {
			l.CallersInside++
		}
	})
	if p.callers > 0 {
		p.admission.mu.Lock()
		l.CallersWaiting = len(p.admission.Waiting)
		p.admission.mu.Unlock()
	}
	return l
}

// inInjectors counts the tasks that lie in the injectors.
func (p *Pool) inInjectors() (q inspect.Queued) {
	for i := range p.nodes {
		queues := &p.nodes[i].queues
		q.High += queues[PriorityHigh].Len()
		q.Normal += queues[PriorityNormal].Len()
		q.Low += queues[PriorityLow].Len()
	}
	return q
}

// queued counts the tasks that have not begun.
func (p *Pool) queued() int {
	n := p.inInjectors().Total()
	for _, pl := range p.victims() {
		n += pl.queued()
	}
	return n
}

// StealMatrix returns how often the workers in each place have stolen from each place:
// steals[thief][victim], in the order of [inspect.Stats].Workers. The last row and column are for all
// guests together, who steal nothing.
func (p *Pool) StealMatrix() [][]uint64 {
	p.mustBeMade()
	workers := p.victims()
	steals := make([][]uint64, len(workers)+1)
	for i := range steals {
		steals[i] = make([]uint64, len(workers)+1)
	}
	for i, w := range workers {
		for victim := range workers {
			steals[i][victim] = w.stealStats.from(victim)
		}
		steals[i][len(workers)] = w.stealStats.from(len(p.places))
	}
	return steals
}

// stealStats is a place's account of the victims that its holder tried to steal from. Holder writes, observers read.
type stealStats struct {
	tiers []tierCounts
	// pages hold the number of steals by victim: an index into Pool.places, or its length for guests. A page of victims
	// from which nothing was stolen is nil: in a large pool most pages are.
	pages []atomic.Pointer[[victimsPerPage]heist.Counter]
}

type tierCounts struct{ attempts, steals, lost, items heist.Counter }

const victimsPerPage = 64

func (t *stealStats) init(p *Pool) {
	t.tiers = pad.Slice[tierCounts](len(p.victimOrder.Tiers))
	t.pages = make([]atomic.Pointer[[victimsPerPage]heist.Counter], len(p.places)/victimsPerPage+1)
}

// from returns the number of steals from a victim.
func (t *stealStats) from(victim int) uint64 {
	if page := t.pages[victim/victimsPerPage].Load(); page != nil {
		return page[victim%victimsPerPage].Load()
	}
	return 0
}

func (t *stealStats) failed(tier int, lost bool) {
	t.tiers[tier].attempts.Add(1)
	if lost {
		t.tiers[tier].lost.Add(1)
	}
}

func (t *stealStats) succeeded(tier, victim, items int) {
	c := &t.tiers[tier]
	c.attempts.Add(1)
	c.steals.Add(1)
	c.items.Add(items)
	page := t.pages[victim/victimsPerPage].Load()
	if page == nil {
		page = (*[victimsPerPage]heist.Counter)(pad.Slice[heist.Counter](victimsPerPage))
		t.pages[victim/victimsPerPage].Store(page)
	}
	page[victim%victimsPerPage].Add(1)
}
