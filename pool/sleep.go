package pool

import (
	"slices"
	"time"

	"github.com/seed53057037/heist"
)

// The protocol of sleep is in internal/core: sleep.md, sleep.go, search.go. Here is what the pool does beside it.

// wakeHelper wakes a place for forks or children of the caller, w, which goes on computing. The woken worker,
// if it is an ordinary goroutine, is then the next one on the caller's P. Another P takes it from there only
// after a nap, lest it take what the P is about to run: 3 microseconds in Go's runqgrab, 50 to 110 with the
// system's timer slack. But a P takes a goroutine from the global queue at once. So w gives its P to the woken
// worker, and goes on on the other P.
func (w *Worker) wakeHelper() {
	now := heist.Ticks()
	if !w.pool.core.WakeOne(w.core.Node(), w.core.HomeIndex()) {
		return
	}
	if !w.core.Parker.Locked() && now >= w.backoffUntil {
		w.gosched(now)
	}
	w.pool.lengths.noteWake(heist.Ticks() - now)
}

// A yield that takes longer than dearYield has let another process, or a long function, have the CPU: a thread that has been woken up for
// something short takes some tens of microseconds, and the kernel's slices are milliseconds. noYield is the longest time without a yield after that.
const dearYield, noYield = 500 * time.Microsecond, time.Second

// searcher is a worker that searches.
type searcher Worker

func (s *searcher) Look() (r heist.StealResult) {
	s.found, r = (*Worker)(s).stealWork(s.search.Last())
	return r
}

// MaySpin is false where what brings work has to have the worker's P: if there is no other one, and if the worker owes it to a goroutine.
func (s *searcher) MaySpin() bool { return s.pool.ps.Load() > 1 && !s.owesP() }

// owesP says whether the worker's last task may have made a goroutine ready, for which it has not stepped aside, because it did so just now, or its turn would not come soon. Then it
// sleeps: the goroutine goes on at once, and if it brings the next task, the worker that it wakes is the next one on this P.
func (s *searcher) owesP() bool { return s.ranTask && !s.core.Parker.Locked() }

func (s *searcher) Spin(d time.Duration) { s.lets(d, func() { heist.Spin(d) }) }

// Yield lets a thread of this process have the CPU that a wake-up has put there; it takes a microsecond, or as long as that thread has something to do.
// But if another process computes on the CPU, or a thread for long, the system gives it a whole slice of some milliseconds, and this
// process's tasks wait meanwhile. So after a dear yield no worker yields for a hundred times as long as that took, a second at most.
func (s *searcher) Yield() {
	begin, r := heist.Ticks(), &s.pool.rounds
	if s.owesP() || begin < r.yieldAgain.Load() {
		return
	}
	s.lets(0, heist.Yield)
	if end := heist.Ticks(); end-begin > s.pool.ticks.dearYield {
		r.yieldAgain.Store(end + min(100*(end-begin), s.pool.ticks.noYield))
	}
}

func (s *searcher) StepAside() { s.lets(0, func() { (*Worker)(s).stepAside() }) }

func (s *searcher) GiveWay(now int64) { (*Worker)(s).giveWayIfDue(now) }

// lets calls f, which lets others run. What it takes beyond twice its own time does not count as a search.
func (s *searcher) lets(own time.Duration, f func()) {
	if s.timings == nil {
		f()
		return
	}
	before := heist.Ticks()
	f()
	s.timings.left += max(heist.Ticks()-before-2*heist.TicksIn(own), 0)
}

// anyWork says whether there is a task or a child of a scope that others than its holder may take, or, if forks count, a fork, and where: on which
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
		if pl.offersTask() || pl.core.First() != nil && pl.core.AnyFork(forks) {
			return pl.core.Node(), i, true
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

// showsFork says whether thieves can see a fork, or a child of a scope.
func (p *Pool) showsFork() bool {
	for r := range p.rosters() {
		if r.Shows(true) {
			return true
		}
	}
	return false
}

// anyTask says whether there is a task or a child of a scope.
func (p *Pool) anyTask() bool {
	_, _, ok := p.anyWork(false)
	return ok || slices.ContainsFunc(p.victims(), func(pl *place) bool { return pl.lifoSlot.Load() != nil })
}

// idle returns how many workers could help the caller, which has a place of its own.
func (p *Pool) idle() int {
	state := p.core.Sleep.Load()
	return max(state.Sleepers()+state.Searching(), 0)
}
