package pool

// Stats counts what a pool has done since it was made. While the pool works, the
// numbers may be of slightly different moments.
type Stats struct {
	// Workers has an entry for each [Worker.ID] that there has been: the first workers,
	// the guest slots, and workers that came later.
	Workers []WorkerStats
}

// WorkerStats counts what one worker, or all guests in one slot, have done.
type WorkerStats struct {
	Tasks     uint64 // tasks run
	Attempts  uint64 // times that it looked through the others' queues
	Steals    uint64 // times that it found something there
	Items     uint64 // forks and tasks that it took there
	LostRaces uint64 // attempts in which another was faster
	Parks     uint64 // times that it went to sleep
	GaveWay   uint64 // times that it let other goroutines have its P
}

// Stats returns the pool's counters. On 32-bit systems they wrap at 2^32.
func (p *Pool) Stats() Stats {
	workers := p.victims()
	s := Stats{Workers: make([]WorkerStats, len(workers))}
	for i, w := range workers {
		s.Workers[i] = WorkerStats{
			Tasks:     w.tasks.Load(),
			Attempts:  w.attempts.Load(),
			Steals:    w.steals.Load(),
			Items:     w.items.Load(),
			LostRaces: w.lost.Load(),
			Parks:     w.parks.Load(),
			GaveWay:   w.gaveWay.Load(),
		}
	}
	return s
}

// Total returns the sums over all workers and guests.
func (s Stats) Total() WorkerStats {
	var t WorkerStats
	for _, w := range s.Workers {
		t.Tasks += w.Tasks
		t.Attempts += w.Attempts
		t.Steals += w.Steals
		t.Items += w.Items
		t.LostRaces += w.LostRaces
		t.Parks += w.Parks
		t.GaveWay += w.GaveWay
	}
	return t
}
