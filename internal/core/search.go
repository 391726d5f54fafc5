package core

import (
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// Searcher is the host's part of a worker that searches.
type Searcher interface {
	// Look looks once at what others have, where the place's policy.Search says, and takes something if there is any. Then it
	// returns Success.
	Look() heist.StealResult
	Spin(d time.Duration)
	// MaySpin says whether others can do something while the worker spins.
	MaySpin() bool
	// Yield lets other threads have the CPU.
	Yield()
	// StepAside lets the goroutines go on that the worker's last task has made ready. The worker is about to yield and to sleep.
	StepAside()
	// GiveWay is called now and then by a worker that watches.
	GiveWay(now int64)
}

// FindWork looks for work of others until it finds some, or until the search's backoff says that it is time to sleep. If half
// of the workers search already, the place's gaps are too long for a spin, or Go has one P, it gives up after one look. If it finds
// nothing, the holder stays a searcher: falling asleep ends that.
//
// It leaves LIFO slots alone until the last look. Their owners are likely to come to them soon,
// with the tasks' data in the cache, unless they are in the middle of something long. (In
// Tokio a task in the slot of such a worker had to wait for it: tokio#4941.)
func (pl *Place) FindWork(search *policy.Search, s Searcher) bool {
	search.Begin()
	spins := pl.Gaps.Spins() && s.MaySpin()
	if !spins {
		search.Backoff.End()
	}
	for {
		if pl.Searching {
			pl.pool.searches()
		}
		r := s.Look()
		if r == heist.Success {
			pl.StopSearching()
			return true
		}
		if pl.HasOrders() {
			return false
		}
		pl.BeginGap()
		// The worker counts as a searcher only after the first look. That look often finds
		// something, and to count is to change a word that all workers share, twice.
		if !pl.Searching {
			if !spins && r == heist.Empty { // sleep.md, "Spinning"
				s.StepAside()
				s.Yield()
				return false
			}
			if !pl.startSearching() {
				return false
			}
			continue
		}
		switch action, spin := search.Next(r); action {
		case policy.Spin:
			if pl.pool.Closing.Load() { // the caller of Close waits for this worker to rest
				search.Backoff.End()
			} else {
				s.Spin(spin)
			}
		case policy.Yield:
			s.Yield()
		case policy.Park:
			return false
		}
	}
}

const (
	// watchSpin is the pause between two looks of a watching worker: about as long as a task's cache
	// lines take to come over.
	watchSpin = 100 * time.Nanosecond
	// WatchTime is how long a worker watches for the next task if tasks come that often: a
	// wake-up takes 4 to 10 microseconds, and a hundred times as long if the system puts the thread
	// onto a CPU that is busy.
	WatchTime = 100 * time.Microsecond
)

// Watch is called by a holder that would fall asleep. The first to come watches: it stays awake in its place,
// as a searcher, and Watch returns true when there may be something to do. A hot worker
// watches for ever; another one for WatchTime, and only where the place's gaps have been as short as that.
// Watch returns false for any other worker, and after it has watched in vain.
func (pl *Place) Watch(s Searcher) bool {
	p := pl.pool
	if !p.hot && (!pl.Gaps.Watches() || !s.MaySpin() || p.Closing.Load()) || !pl.beginWatch() {
		return false
	}
	defer pl.endWatch()
	for start := p.now(); ; s.Spin(watchSpin) {
		p.searches()
		state := p.Sleep.Load()
		if p.anyWork(state.Sleepers() >= 0) || pl.HasOrders() || p.exit.Load() {
			return true
		}
		now := p.now()
		// With more guests than sleepers, guests would find the pool hungry for nothing.
		if !p.hot && (now-start > p.TicksWatch || state.Sleepers() < 0) {
			return false
		}
		s.GiveWay(now)
	}
}

// beginWatch says whether the holder watches. Then it counts as idle.
func (pl *Place) beginWatch() bool {
	p := pl.pool
	if !p.watched.CompareAndSwap(false, true) {
		return false
	}
	p.Leave()
	if !pl.Searching { // even if half of the workers search already; they give up soon
		pl.Searching = true
		p.Sleep.Add(policy.OneSearching)
	}
	return true
}

func (pl *Place) endWatch() {
	pl.pool.active.Add(1)
	pl.pool.watched.Store(false)
}

// IsWatched says whether a worker watches.
func (p *Pool) IsWatched() bool { return p.watched.Load() }
