package pool

// Stats counts what a pool has done since it was made. While the pool works, the
// numbers may be of slightly different moments.
type Stats struct {
	// Workers has an entry for each worker, by its ID, and then one for each guest
	// slot.
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
}

// Stats returns the pool's counters. On 32-bit systems they wrap at 2^32.
func (p *Pool) Stats() Stats {
	s := Stats{Workers: make([]WorkerStats, len(p.slots))}
	for i, w := range p.slots {
		s.Workers[i] = WorkerStats{
			Tasks:     w.tasks.Load(),
			Attempts:  w.attempts.Load(),
			Steals:    w.steals.Load(),
			Items:     w.items.Load(),
			LostRaces: w.lost.Load(),
			Parks:     w.parks.Load(),
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
	}
	return t
}
