package pool

import (
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// Stats counts what a pool has done since it was made. While the pool works, the
// numbers may be of slightly different moments.
type Stats struct {
	// Workers has an entry for each place (waiting.md): those of the first workers, those for
	// guests, and those that Resize has added.
	Workers []WorkerStats

	// Tiers has the sums over all thieves for each tier of victims, the nearest first, see
	// [Tuning].Latencies.
	Tiers []TierStats

	Waiting   int // tasks that wait at the moment, and have lent their places
	Cancelled int // calls that were cancelled, and whose functions have not all returned
	Skipped   int // tasks that were cancelled before they began, since the pool was made
}

// WorkerStats counts what the workers have done in one place.
type WorkerStats struct {
	Tasks     uint64 // tasks that it came to, skipped ones too
	Looks     uint64 // times that it looked through the others' queues
	Steals    uint64 // times that it found something there
	Items     uint64 // forks and tasks that it took there
	LostRaces uint64 // victims at whom another was faster
	Parks     uint64 // times that it went to sleep
	Lent      uint64 // times that a worker waited and lent the place
	GaveWay   uint64 // times that it let other goroutines have its P
	Displaced uint64 // times that the system took it off the CPUs that it was bound to
}

// TierStats counts what thieves did at victims that are equally far away. The victims are places, those for guests too, which are empty
// mostly; idle workers look again and again, so shares of steals tell more than numbers of attempts.
type TierStats struct {
	Name      string // such as "same core" or "nodes at distance 21"
	Attempts  uint64 // victims that were tried
	Steals    uint64 // of those, victims that had something
	LostRaces uint64 // of those, victims at whom another was faster
	Items     uint64 // forks and tasks that were taken
}

// Stats returns the pool's counters. On 32-bit systems they wrap at 2^32.
func (p *Pool) Stats() Stats {
	if err := p.usable(); err != nil {
		panic(err)
	}
	workers := p.victims()
	s := Stats{
		Workers: make([]WorkerStats, len(workers)),
		Tiers:   make([]TierStats, len(p.victimOrder.Tiers)),

		Waiting:   int(p.waits.Load()),
		Cancelled: max(0, int(p.cancelled.Load())),
		Skipped:   int(p.skipped.Load()),
	}
	for i, distance := range p.victimOrder.Tiers {
		s.Tiers[i].Name = p.latencies.name(distance)
	}
	for i, w := range workers {
		ws := &s.Workers[i]
		*ws = WorkerStats{
			Tasks:     w.tasks.Load(),
			Looks:     w.looks.Load(),
			Parks:     w.parks.Load(),
			Lent:      w.lends.Load(),
			GaveWay:   w.gaveWay.Load(),
			Displaced: w.displaced.Load(),
		}
		for j := range w.thefts.tiers {
			c, t := &w.thefts.tiers[j], &s.Tiers[j]
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

// Total returns the sums over all workers and guests.
func (s Stats) Total() WorkerStats {
	var t WorkerStats
	for _, w := range s.Workers {
		t.Tasks += w.Tasks
		t.Looks += w.Looks
		t.Steals += w.Steals
		t.Items += w.Items
		t.LostRaces += w.LostRaces
		t.Parks += w.Parks
		t.Lent += w.Lent
		t.GaveWay += w.GaveWay
		t.Displaced += w.Displaced
	}
	return t
}

// Thefts returns how often each worker has stolen from each: thefts[thief][victim], by
// [Worker.ID].
func (p *Pool) Thefts() [][]uint64 {
	workers := p.victims()
	thefts := make([][]uint64, len(workers))
	for i, w := range workers {
		thefts[i] = make([]uint64, len(workers))
		for victim := range thefts[i] {
			if page := w.thefts.pages[victim/victimsPerPage].Load(); page != nil {
				thefts[i][victim] = page[victim%victimsPerPage].Load()
			}
		}
	}
	return thefts
}

// thefts is a worker's account of whom it tried to steal from. Owner writes, anybody reads.
type thefts struct {
	tiers []tierCounts
	// pages hold the number of steals by victim. Those of whom nothing was stolen are nil:
	// in a large pool that is most of them.
	pages []atomic.Pointer[[victimsPerPage]heist.Counter]
}

type tierCounts struct{ attempts, steals, lost, items heist.Counter }

const victimsPerPage = 64

func (t *thefts) init(p *Pool) {
	t.tiers = make([]tierCounts, len(p.victimOrder.Tiers))
	t.pages = make([]atomic.Pointer[[victimsPerPage]heist.Counter], (len(p.places)+victimsPerPage-1)/victimsPerPage)
}

func (t *thefts) failed(tier int, lost bool) {
	t.tiers[tier].attempts.Add(1)
	if lost {
		t.tiers[tier].lost.Add(1)
	}
}

func (t *thefts) succeeded(tier, victim, items int) {
	c := &t.tiers[tier]
	c.attempts.Add(1)
	c.steals.Add(1)
	c.items.Add(items)
	page := t.pages[victim/victimsPerPage].Load()
	if page == nil {
		page = new([victimsPerPage]heist.Counter)
		t.pages[victim/victimsPerPage].Store(page)
	}
	page[victim%victimsPerPage].Add(1)
}
