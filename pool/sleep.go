package pool

import (
	"time"

	"github.com/seed53057037/heist"
)

// The protocol of sleep is in internal/core: sleep.md, sleep.go. Here is what the pool does beside it.

// wakeHelper wakes a place for forks or children of the caller, w, which goes on computing. The woken worker,
// if it is an ordinary goroutine, is then the next one on the caller's P. Another P takes it from there only
// after a nap, lest it take what the P is about to run: 3 microseconds in Go's runqgrab, 50 to 110 with the
// system's timer slack. But a P takes a goroutine from the global queue at once. So w gives its P to the woken
// worker, and goes on on the other P.
func (w *Worker) wakeHelper() {
	if !w.pool.core.WakeOne(w.core.Placement.Node, w.core.HomeIndex()) || w.core.Parker.Locked() {
		return
	}
	if now := heist.Ticks(); now >= w.backoffUntil {
		w.gosched(now)
	}
}

// watch is called by a worker that would park. The first to come watches: it stays awake in its place,
// as a searcher, and watch returns true when there may be something to do. With Tuning.HotWorker it
// watches for ever; otherwise for watchTime, and only where the place's gaps have been as short as that.
// watch returns false for any other worker, and after it has watched in vain.
func (w *Worker) watch() bool {
	p := w.pool
	if !p.latency && (!w.place.core.Gaps.Watches() || p.core.Closing.Load()) || !w.place.core.BeginWatch() {
		return false
	}
	defer w.place.core.EndWatch()
	w.trim()
	for start := heist.Ticks(); ; heist.Spin(watchSpin) {
		p.core.Searches()
		state := p.core.Sleep.Load()
		if _, _, ok := p.anyWork(state.Sleepers() >= 0); ok || w.isControlled() || p.core.Exits() {
			return true
		}
		now := heist.Ticks()
		// With more guests than sleepers, guests would find the pool hungry for nothing.
		if !p.latency && (now-start > p.core.TicksWatch || state.Sleepers() < 0) {
			return false
		}
		w.giveWayIfDue(now)
	}
}

const (
	// watchSpin is the pause between two looks of a watching worker: about as long as a task's cache
	// lines take to come over.
	watchSpin = 100 * time.Nanosecond
	// watchTime is how long a worker watches for the next task if tasks come that often: a
	// wake-up takes 4 to 10 microseconds, and a hundred times as long if the system puts the thread
	// onto a CPU that is busy.
	watchTime = 100 * time.Microsecond
)

// anyWork says whether there is a task or a child of a scope, or, if forks count, a fork, and where: on which
// node, and at which place, or -1 for an injector or a guest.
func (p *Pool) anyWork(forks bool) (node, place int, ok bool) {
	for node := range p.nodes {
		for _, q := range p.nodes[node].queues {
			if q.Ready() {
				return node, -1, true
			}
		}
	}
	for i, pl := range p.victims() {
		if pl.queued() > 0 || pl.core.First() != nil && pl.core.AnyFork(forks) {
			return pl.placement.Node, i, true
		}
	}
	if p.core.Sleep.Load().HasGuests() {
		for node := range p.nodes {
			for i := range p.nodes[node].guests {
				if g := &p.nodes[node].guests[i]; g.First() != nil && g.AnyFork(forks) {
					return node, -1, true
				}
			}
		}
	}
	return 0, -1, false
}

// anyTask says whether there is a task or a child of a scope.
func (p *Pool) anyTask() bool {
	_, _, ok := p.anyWork(false)
	return ok
}

// idle returns how many workers could help the caller, which has a place of its own.
func (p *Pool) idle() int {
	state := p.core.Sleep.Load()
	return max(state.Sleepers()+state.Searching(), 0)
}
