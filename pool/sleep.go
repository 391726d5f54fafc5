package pool

import (
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// The protocol and its argument are in sleep.md; the comments here point to it. Who sleeps and
// who searches is in policy.Sleep.

// notifyTask is called after a task has become visible in a queue of a node, by a push that
// ends with a full fence.
func (p *Pool) notifyTask(node int) {
	if p.sleep.Load().Searching() == 0 {
		p.wakeOne(node, -1)
	}
}

// notifyOutside is notifyTask for a task that comes from outside: the doorman is asked
// first.
func (p *Pool) notifyOutside(node int) {
	if p.sleep.Load().Searching() == 0 && !p.ring() {
		p.wakeOne(node, -1)
	}
}

// notifySeen is for the searcher who was the last one, when it stops: what was made
// visible while it searched woke nobody, because it was there to find it (sleep.md,
// "The last searcher").
func (p *Pool) notifySeen() {
	if node, slot, ok := p.anyWork(p.sleep.Load().Sleepers() > 0); ok {
		p.wakeOne(node, slot)
	}
}

// wakeOne wakes a worker, if one is parked, and one that is near the node if there is a
// choice. It wakes up as a searcher, and looks first at the slot where the caller knows of
// work, if that is not -1: there the pieces are larger than what lies nearest to it. In the
// simulation of 512 CPUs that saved a quarter of the steals of a tree.
//
// The caller, a guest perhaps, has the CPU that it runs on, so the worker that is pinned
// there is the last choice: the two would take turns until the system's balancer sees
// it, some milliseconds later.
//
//go:noinline
func (p *Pool) wakeOne(node, slot int) {
	if p.sleep.Nobody() { // as always in a busy pool
		return
	}
	if i, ok := p.sleep.ChooseNear(p.nodes[node].nearby, p.workerHere()); ok {
		w := p.slots[i]
		if slot >= 0 {
			w.hint = slot
		}
		w.wakeUp()
	}
}

// workerHere returns the first worker that is bound to the CPU on which the caller runs, -1
// for none.
func (p *Pool) workerHere() int {
	if p.onCPU == nil {
		return -1
	}
	if cpu := numa.CurrentCPU(); uint(cpu) < uint(len(p.onCPU)) {
		return p.onCPU[cpu]
	}
	return -1
}

// wakeUp is for whoever chose the worker. It wakes whoever has its place.
func (w *Worker) wakeUp() {
	w.pool.sleep.Woken()
	if other := w.standIn.Load(); other != nil {
		w = other
	}
	if w.bell != nil {
		w.bell <- struct{}{} // it has room: there is one waker for each sleep
		return
	}
	w.awake.Store(1)
	heist.FutexWake(&w.awake, 1)
}

// stopSearching is called by a searcher that found what it looked for.
func (w *Worker) stopSearching() {
	if !w.searching {
		return
	}
	w.searching = false
	if w.pool.sleep.StopSearching() {
		w.pool.notifySeen()
	}
}

// park puts the worker to sleep until somebody wakes it, unless there is work to see
// once it has announced that it sleeps. If l is not nil, its completion ends the
// sleep too.
func (w *Worker) park(l *latch) {
	p := w.pool
	s := &p.sleep

	// Announce first, look afterwards: sleep.md, "Nothing is missed".
	searching := w.searching
	state := s.Announce(w.owner().id, searching)
	w.searching = false
	if (l != nil && l.done() || p.worthWaking(state)) && s.Retract(w.owner().id, searching) {
		w.searching = searching
		return
	}
	// Either there is nothing to do, or somebody cleared the bit and is about to
	// wake this worker. It does not take its bit back any more, so the doorman may have
	// its place; whoever cleared the bit before that wakes the worker itself.
	w.idle.Store(l == nil)
	w.parks.Add(1)
	if w.bell != nil {
		<-w.bell
	} else {
		for w.awake.Load() == 0 {
			heist.FutexWait(&w.awake, 0, -1)
		}
		w.awake.Store(0)
		w.stay()
	}
	w.idle.Store(false)
	w.searching = true // counted by wakeUp
}

// owner returns whose place the worker has: the bit of that one says that the worker
// sleeps. It is nil for a doorman that has none.
func (w *Worker) owner() *Worker {
	if w.doorman {
		return w.standsFor.Load()
	}
	return w
}

// watch is for a worker that would park: the first to come stays awake in its place, as a
// searcher, and returns when there may be something to do. It says whether it was that
// one.
func (w *Worker) watch() bool {
	p := w.pool
	if !p.watched.CompareAndSwap(false, true) {
		return false
	}
	defer p.watched.Store(false)
	if !w.searching { // there may be half of the workers searching; they give up soon
		w.searching = true
		p.sleep.Add(policy.OneSearching)
	}
	for i := 1; ; i++ {
		if _, _, ok := p.anyWork(p.sleep.Load().Sleepers() >= 0); ok || w.ordered() || p.exit.Load() {
			return true
		}
		heist.Spin(watchSpin)
		if i%watchLooks == 0 {
			w.giveWay()
		}
	}
}

// A watching worker looks every 100 ns, which is about the time that a task's cache lines
// take to come over, and every 100 microseconds it gives way.
const (
	watchSpin  = 100 * time.Nanosecond
	watchLooks = 1000
)

// unpark ends the sleep of a parked waiter whose latch the caller has completed.
func (w *Worker) unpark() {
	if w.guest {
		w = w.host.Load()
	}
	if owner := w.owner(); owner != nil && w.pool.sleep.Choose(owner.id) {
		owner.wakeUp()
	}
}

// worthWaking says whether there is something for a worker that has announced its sleep,
// after which the state was this.
func (p *Pool) worthWaking(state policy.State) bool {
	_, _, ok := p.anyWork(state.Sleepers() > 0)
	return ok || p.exit.Load()
}

// anyWork says whether there is a task, or a fork if those count too, and where: on which
// node, and in which slot, -1 for an injector.
func (p *Pool) anyWork(forks bool) (node, slot int, ok bool) {
	for node := range p.nodes {
		for _, q := range p.nodes[node].queues {
			if q.Ready() {
				return node, -1, true
			}
		}
	}
	for i, w := range p.victims() {
		if w.queued() > 0 || forks && w.anyFork() {
			return w.site.node, i, true
		}
	}
	return 0, -1, false
}

// anyTask says whether a task lies in a queue.
func (p *Pool) anyTask() bool {
	_, _, ok := p.anyWork(false)
	return ok
}

// anyFork says whether one of the worker's forks can be stolen.
func (w *Worker) anyFork() bool {
	for _, s := range w.forkStacks() {
		if s.visible() {
			return true
		}
	}
	return false
}
