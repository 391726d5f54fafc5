package pool

import (
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// The protocol and its argument are in sleep.md; the comments here point to it. Which places sleep
// and how many search is in policy.Sleep; how a place goes to sleep and wakes up is in place.go.

// notifyTask is called after a task has become visible in a queue of a node, by a push that
// ends with a full fence.
func (p *Pool) notifyTask(node int) {
	if p.sleep.Load().Searching() == 0 || p.unanswered() {
		p.wakeOne(node, -1)
	}
}

// unanswered says whether those who count as searchers do not run, though they should: none has looked for a
// while, or was woken just now. Their threads wait for a CPU, or they for a P.
func (p *Pool) unanswered() bool { return heist.Ticks()-p.searchedAt.Load() > p.ticksAnswer }

// searches is for a searcher that is about to look.
func (p *Pool) searches() {
	if now := heist.Ticks(); now-p.searchedAt.Load() > p.ticksAnswer/8 { // all of them read the word
		p.searchedAt.Store(now)
	}
}

// notifyAgain is for a worker between two tasks: if what is queued waits for a worker that does not
// run, it wakes another one.
func (p *Pool) notifyAgain() {
	if p.sleep.Load().Searching() > 0 && p.unanswered() {
		p.notifySeen()
	}
}

// notifySeen is for the searcher who was the last one, when it stops: what was made
// visible while it searched woke nobody, because it was there to find it (sleep.md,
// "The last searcher").
func (p *Pool) notifySeen() {
	if node, place, ok := p.anyWork(p.sleep.Load().Sleepers() > 0); ok {
		p.wakeOne(node, place)
	}
}

// wakeOne wakes a place, if one sleeps, and one that is near the node if there is a choice. Its
// worker begins as a searcher, and looks first at the place where the caller knows of
// work, if that is not -1: there the pieces are larger than what lies nearest to it. In the
// simulation of 512 CPUs that saved a quarter of the steals of a tree.
//
// The caller, a guest perhaps, has the CPU that it runs on, so the place that is bound
// there is the last choice: the two would take turns until the system's balancer sees
// it, some milliseconds later. It says whether it has woken one.
//
//go:noinline
func (p *Pool) wakeOne(node, firstVictim int) bool {
	if p.sleep.Nobody() || p.held() { // nobody, as always in a busy pool
		return false
	}
	i, ok := p.sleep.ChooseNear(p.nodes[node].nearby, p.placeHere())
	if !ok {
		return false
	}
	pl := p.places[i]
	if firstVictim >= 0 {
		pl.firstVictim = firstVictim
	} else { // for a task
		p.sleptFor(heist.Ticks() - pl.dozedAt)
	}
	pl.wakeUp()
	return true
}

// wakeHelper wakes a place for forks or children of the caller, w, who would compute on. A worker that
// is a goroutine is then the next one on the caller's P. Another P takes it from there only after a nap,
// lest it takes what the P is about to run: 3 microseconds in Go's runqgrab, 50 to 110 with the
// system's timer slack. But it takes a goroutine from the global queue at once. So w gives its P to the worker, and goes on
// on the other one.
func (w *Worker) wakeHelper() {
	if !w.pool.wakeOne(w.placement.node, w.home.index) || w.parker.channel == nil {
		return
	}
	if now := heist.Ticks(); now >= w.politeAfter {
		w.gosched(now)
	}
}

// placeHere returns the first place that is bound to the CPU on which the caller runs, -1
// for none.
func (p *Pool) placeHere() int {
	if p.onCPU == nil {
		return -1
	}
	if cpu := numa.CurrentCPU(); uint(cpu) < uint(len(p.onCPU)) {
		return p.onCPU[cpu]
	}
	return -1
}

// watch is for a worker that would park: the first to come stays awake in its place, as a
// searcher, and returns when there may be something to do. It says whether it was that
// one. With a hot worker it watches for ever; else, where tasks have woken the pool again and
// again soon after it went to sleep, for lingerTime.
func (w *Worker) watch() bool {
	p := w.pool
	if !p.latency && (p.shortSleeps.Load() < lingerAfter || p.closing.Load()) || !p.watched.CompareAndSwap(false, true) {
		return false
	}
	defer p.watched.Store(false)
	p.active.Add(-1) // as an idle worker
	defer p.active.Add(1)
	p.workerSet.signal()
	w.trim()
	if !w.searching { // there may be half of the workers searching; they give up soon
		w.searching = true
		p.sleep.Add(policy.OneSearching)
	}
	for start := heist.Ticks(); ; heist.Spin(watchSpin) {
		p.searches()
		state := p.sleep.Load()
		if _, place, ok := p.anyWork(state.Sleepers() >= 0); ok || w.isControlled() || p.exit.Load() {
			if ok && place < 0 {
				p.sleptFor(0)
			}
			return true
		}
		now := heist.Ticks()
		// Guests would find the pool hungry for nothing.
		if !p.latency && (now-start > p.ticksLinger || state.Sleepers() < 0) {
			p.sleptFor(p.ticksLinger + 1)
			return false
		}
		w.giveWayIfDue(now)
	}
}

// sleptFor keeps account of how long there was no task.
func (p *Pool) sleptFor(ticks int64) {
	n := p.shortSleeps.Load()
	if ticks <= p.ticksLinger {
		n = min(n+1, mostShortSleeps)
	} else {
		n = max(n-lingerAfter, 0)
	}
	p.shortSleeps.Store(n)
}

// lacksWatch says whether a worker should watch and none does: the one that did may have left because
// of a worker that wanted its place back, and did not want it any more a moment later.
func (p *Pool) lacksWatch() bool { return p.latency && !p.watched.Load() && !p.exit.Load() }

const (
	// watchSpin is between two looks of a watching worker: about the time that a task's cache lines
	// take to come over.
	watchSpin = 100 * time.Nanosecond
	// lingerTime is how long a worker stays awake for the next task if tasks come that often: a
	// wake-up takes 4 to 10 microseconds, and a hundred times as long if the system puts the thread
	// onto a CPU that is busy.
	lingerTime = 100 * time.Microsecond
	// lingerAfter is how many sleeps must have been shorter than that. One that was not counts as
	// much as that, so in the end a worker stays awake in vain once for each 4 times that it did not.
	lingerAfter, mostShortSleeps = 4, 8
	// answerTime is how long ago the last look of a searcher, or wake-up of one, may be for others to
	// trust that a worker searches. A look and the pause after it take 2 at most, a wake-up 4 to 10.
	answerTime = 30 * time.Microsecond
)

// worthWaking says whether there is something for a place whose sleep was announced,
// after which the state was this.
func (p *Pool) worthWaking(state policy.State) bool {
	_, _, ok := p.anyWork(state.Sleepers() > 0)
	return ok
}

// anyWork says whether there is a task or a child of a scope, or a fork if those count too, and where: on which
// node, and at which place, -1 for an injector.
func (p *Pool) anyWork(forks bool) (node, place int, ok bool) {
	for node := range p.nodes {
		for _, q := range p.nodes[node].queues {
			if q.Ready() {
				return node, -1, true
			}
		}
	}
	for i, pl := range p.victims() {
		if pl.queued() > 0 || pl.anyFork(forks) {
			return pl.placement.node, i, true
		}
	}
	return 0, -1, false
}

// anyTask says whether a task lies in a queue.
func (p *Pool) anyTask() bool {
	_, _, ok := p.anyWork(false)
	return ok
}

// anyFork says whether a child of one of the worker's scopes can be stolen, or, if those count
// too, one of its forks.
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

// idle returns how many workers could help a caller that has its place.
func (p *Pool) idle() int {
	state := p.sleep.Load()
	return max(state.Sleepers()+state.Searching(), 0)
}
