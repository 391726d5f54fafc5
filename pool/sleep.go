package pool

import (
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// The protocol and its argument are in sleep.md; the comments here point to it. policy.Sleep knows which
// places sleep and how many workers search; place.go puts places to sleep and wakes them up.

// notifyTask is called after a task has become visible in a queue of a node, by a push that
// ends with a full fence.
func (p *Pool) notifyTask(node int) {
	if p.sleep.Load().Searching() == 0 || p.unanswered() {
		p.wakeOne(node, -1)
	}
}

// unanswered says whether no searcher seems to run: none has looked or was woken for longer than answerTime.
// The searchers' threads wait for a CPU, or the searchers wait for a P.
func (p *Pool) unanswered() bool { return heist.Ticks()-p.searchedAt.Load() > p.ticksAnswer }

// searches is called by a searcher that is about to look.
func (p *Pool) searches() {
	if now := heist.Ticks(); now-p.searchedAt.Load() > p.ticksAnswer/8 { // seldom, because all searchers read the word
		p.searchedAt.Store(now)
	}
}

// notifyAgain is called by a worker between two tasks: if there is work, and no searcher seems to run, it
// wakes another worker.
func (p *Pool) notifyAgain() {
	if p.sleep.Load().Searching() > 0 && p.unanswered() {
		p.notifySeen()
	}
}

// notifySeen wakes a place if there is work. The last searcher calls it when it stops: what became
// visible while it searched woke no worker, because a searcher was there to find it (sleep.md,
// "The last searcher").
func (p *Pool) notifySeen() {
	if node, place, ok := p.anyWork(p.sleep.Load().Sleepers() > 0); ok {
		p.wakeOne(node, place)
	}
}

// wakeOne wakes the sleeping place that is nearest to the node, and says whether one slept. The
// place's worker begins as a searcher. Unless firstVictim is -1, it looks first at that place, where
// the caller knows of work: the pieces there are larger than those nearest to the worker. In the
// simulation of 512 CPUs that saved a quarter of the steals of a tree.
//
// The caller, perhaps a guest, occupies the CPU that it runs on, so the place that is bound there is
// the last choice: the two threads would take turns until the system's balancer sees it, some
// milliseconds later.
//
//go:noinline
func (p *Pool) wakeOne(node, firstVictim int) bool {
	if p.sleep.Nobody() || p.held() { // in a busy pool no place sleeps
		return false
	}
	i, ok := p.sleep.ChooseNear(p.nodes[node].nearby, p.placeHere())
	if !ok {
		return false
	}
	pl := p.places[i]
	if firstVictim >= 0 {
		pl.firstVictim = firstVictim
	}
	pl.wakeUp()
	return true
}

// wakeHelper wakes a place for forks or children of the caller, w, which goes on computing. The woken worker,
// if it is an ordinary goroutine, is then the next one on the caller's P. Another P takes it from there only
// after a nap, lest it take what the P is about to run: 3 microseconds in Go's runqgrab, 50 to 110 with the
// system's timer slack. But a P takes a goroutine from the global queue at once. So w gives its P to the woken
// worker, and goes on on the other P.
func (w *Worker) wakeHelper() {
	if !w.pool.wakeOne(w.placement.node, w.homeIndex()) || w.parker.channel == nil {
		return
	}
	if now := heist.Ticks(); now >= w.politeAfter {
		w.gosched(now)
	}
}

// homeIndex returns the index of the place at whose roster the worker is, or -1 for one of guests.
func (w *Worker) homeIndex() int {
	if pl := w.home.of; pl != nil {
		return pl.index
	}
	return -1
}

// placeHere returns the first place that is bound to the CPU on which the caller runs, or -1.
func (p *Pool) placeHere() int {
	if p.onCPU == nil {
		return -1
	}
	if cpu := numa.CurrentCPU(); uint(cpu) < uint(len(p.onCPU)) {
		return p.onCPU[cpu]
	}
	return -1
}

// watch is called by a worker that would park. The first to come watches: it stays awake in its place,
// as a searcher, and watch returns true when there may be something to do. With Tuning.HotWorker it
// watches for ever; otherwise for watchTime, and only where the place's gaps have been as short as that.
// watch returns false for any other worker, and after it has watched in vain.
func (w *Worker) watch() bool {
	p := w.pool
	if !p.latency && (!w.gaps.Watches() || p.closing.Load()) || !p.watched.CompareAndSwap(false, true) {
		return false
	}
	defer p.watched.Store(false)
	p.active.Add(-1) // as an idle worker
	defer p.active.Add(1)
	p.workerSet.signal()
	w.trim()
	if !w.searching { // even if half of the workers search already; they give up soon
		w.searching = true
		p.sleep.Add(policy.OneSearching)
	}
	for start := heist.Ticks(); ; heist.Spin(watchSpin) {
		p.searches()
		state := p.sleep.Load()
		if _, _, ok := p.anyWork(state.Sleepers() >= 0); ok || w.isControlled() || p.exit.Load() {
			return true
		}
		now := heist.Ticks()
		// With more guests than sleepers, guests would find the pool hungry for nothing.
		if !p.latency && (now-start > p.ticksWatch || state.Sleepers() < 0) {
			return false
		}
		w.giveWayIfDue(now)
	}
}

// lacksWatch says whether a hot worker should watch and none does: the last one may have stopped because
// another worker wanted its place back, and a moment later did not want it any more.
func (p *Pool) lacksWatch() bool { return p.latency && !p.watched.Load() && !p.exit.Load() }

const (
	// watchSpin is the pause between two looks of a watching worker: about as long as a task's cache
	// lines take to come over.
	watchSpin = 100 * time.Nanosecond
	// watchTime is how long a worker watches for the next task if tasks come that often: a
	// wake-up takes 4 to 10 microseconds, and a hundred times as long if the system puts the thread
	// onto a CPU that is busy.
	watchTime = 100 * time.Microsecond
	// answerTime is how recent the last look, or wake-up, of a searcher must be for others to rely on it.
	// A look and the pause after it take 2 microseconds at most, a wake-up 4 to 10.
	answerTime = 30 * time.Microsecond
)

// worthWaking says whether there is work for a place whose sleep was announced; state is the one that
// the announcement returned.
func (p *Pool) worthWaking(state policy.State) bool {
	_, _, ok := p.anyWork(state.Sleepers() > 0)
	return ok
}

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
		if pl.queued() > 0 || pl.top.Load() != nil && pl.anyFork(forks) {
			return pl.placement.node, i, true
		}
	}
	if p.sleep.Load().HasGuests() {
		for node := range p.nodes {
			for i := range p.nodes[node].guests {
				if g := &p.nodes[node].guests[i]; g.top.Load() != nil && g.anyFork(forks) {
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

// anyFork says whether a child of one of the worker's scopes can be stolen, or, if forks count, one of
// its forks.
func (w *Worker) anyFork(forks bool) bool {
	if forks {
		for _, s := range w.forkStacks() {
			if s.visible() {
				return true
			}
		}
	}
	return w.anyChild()
}

// idle returns how many workers could help the caller, which has a place of its own.
func (p *Pool) idle() int {
	state := p.sleep.Load()
	return max(state.Sleepers()+state.Searching(), 0)
}
