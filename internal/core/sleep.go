package core

import (
	"math"
	"time"

	"github.com/seed53057037/heist/numa"
)

// The protocol and its argument are in sleep.md; the comments here point to it. policy.Sleep knows which
// places sleep and how many workers search.

// AnswerTime is how recent the last look, or wake-up, of a searcher must be for others to rely on it.
// A look and the pause after it take a microsecond, a wake-up 4 to 10.
const AnswerTime = 30 * time.Microsecond

// # Who wakes
//
//	NotifyTask    after a task has become visible, unless a searcher will see it
//	NotifySeen    for whatever is visible: when a searcher stops, a guest leaves or waits, a worker waits in a paused pool, a place
//	              closes or is given back, the pool is resized or resumes, a guest is patient for long (pool/monitor.go)
//	NotifyAgain   between two tasks, if no searcher seems to run
//	Forward       after mail has come for certain places, or when the pool may go on
//	WakeOne       for forks and children, whose owner has looked at the state of Sleep itself, and for a hot worker
//	FallAsleep    the place itself, if there is work after it has announced its sleep

// NotifyTask is called after a task has become visible in a queue of a node, by a push that
// ends with a full fence.
func (p *Pool) NotifyTask(node int) {
	if p.Sleep.Load().Searching() == 0 || p.unanswered() {
		p.WakeOne(node, -1)
	}
}

// unanswered says whether no searcher seems to run: none has looked or was woken for longer than AnswerTime.
// The searchers' threads wait for a CPU, or the searchers wait for a P.
func (p *Pool) unanswered() bool { return p.now()-p.SearchedAt.Load() > p.TicksAnswer }

// searches is called by a searcher that is about to look.
func (p *Pool) searches() {
	if now := p.now(); now-p.SearchedAt.Load() > p.TicksAnswer/8 { // seldom, because all searchers read the word
		p.SearchedAt.Store(now)
	}
}

// NotifyAgain is called by a worker between two tasks: if there is work, and no searcher seems to run, it
// wakes another worker.
func (p *Pool) NotifyAgain() {
	if p.Sleep.Load().Searching() > 0 && p.unanswered() {
		p.NotifySeen()
	}
}

// NotifySeen wakes a place if there is work. Above all the last searcher calls it when it stops: what became
// visible while it searched woke no worker, because a searcher was there to find it (sleep.md,
// "The last searcher").
func (p *Pool) NotifySeen() {
	if node, place, ok := p.host.AnyWork(p.Sleep.Load().Sleepers() > 0); ok {
		p.WakeOne(node, place)
	}
}

// Forward wakes the places that sleep and have mail, unless the pool is held.
func (p *Pool) Forward() {
	for _, pl := range p.Places() {
		switch {
		case pl.Mail.Load() == 0 || p.Held():
		case p.Sleep.Choose(pl.Index):
			pl.WakeUp()
		default:
			p.MayWait()
		}
	}
}

// WakeOne wakes the sleeping place that is nearest to the node, and says whether one slept. The
// place's worker begins as a searcher. Unless firstVictim is -1, it looks first at that place, where
// the caller knows of work: the pieces there are larger than those nearest to the worker. In the
// simulation of 512 CPUs that saves 4 to 39% of the steals of a tree, and 2 to 8% of its time.
//
// The caller, perhaps a guest, occupies the CPU that it runs on, so the place that is bound there is
// the last choice: the two threads would take turns until the system's balancer sees it, some
// milliseconds later.
//
//go:noinline
func (p *Pool) WakeOne(node, firstVictim int) bool {
	if p.Held() {
		return false
	}
	if p.Sleep.Nobody() { // in a busy pool no place sleeps
		p.MayWait()
		return false
	}
	i, ok := p.Sleep.ChooseNear(p.nearby[node], p.placeHere())
	if !ok {
		return false
	}
	pl := p.places[i]
	if firstVictim >= 0 {
		pl.FirstVictim = firstVictim
	}
	pl.WakeUp()
	return true
}

// MayWait is called when there is something to do, or to wait for, and no place sleeps: the workers may all wait, without
// having said so.
func (p *Pool) MayWait() {
	if !p.Monitored.Load() {
		p.host.Monitor()
	}
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

// # How a place falls asleep and wakes up

// FallAsleep puts the place, which has no holder any more, to sleep, and wakes it again if there is work, or a worker
// that wants it back: sleep.md, "Nothing is missed".
func (pl *Place) FallAsleep() {
	p := pl.pool
	searching := pl.Searching
	pl.Searching = false
	pl.Parks.Add(1)
	if pl.wokenAt != 0 {
		pl.wokenAt = 0
		pl.Fruitless.Add(1)
		pl.sawGap(math.MaxInt64)
	} else {
		pl.BeginGap()
	}
	p.changes(pl.Index)
	state := p.Sleep.Announce(pl.Index, searching)
	switch {
	case pl.owed.Load() > 0,
		pl.IsTooMany(), // Resize came between the look at control and the bit
		!p.Held() && (pl.Mail.Load() > 0 || p.anyWork(state.Sleepers() > 0) || p.lacksWatch()):
	default:
		return
	}
	if p.Sleep.Choose(pl.Index) {
		pl.WakeUp()
	} else { // a waker chose it before, perhaps too early for its worker to see what is there
		p.NotifySeen()
	}
}

// anyWork says whether there is a task or a child of a scope, or, if forks count, a fork.
func (p *Pool) anyWork(forks bool) bool {
	_, _, ok := p.host.AnyWork(forks)
	return ok
}

// lacksWatch says whether a hot worker should watch and none does: the last one may have stopped because
// another worker wanted its place back, and a moment later did not want it any more.
func (p *Pool) lacksWatch() bool { return p.hot && !p.watched.Load() && !p.exit.Load() }

// WakeUp gives the place to a worker. The caller has cleared its bit.
func (pl *Place) WakeUp() {
	p := pl.pool
	if pl.owed.Load() > 0 && pl.giveBack(true) {
		// The worker that has the place now is in the middle of a job, and does not search for
		// what the waker saw.
		p.NotifySeen()
		return
	}
	p.changes(pl.Index)
	p.Sleep.Woken()
	pl.Searching = true
	pl.woken = true
	p.Woken.Add(1)
	pl.wokenAt = p.now()
	p.SearchedAt.Store(pl.wokenAt)
	pl.occupy()
}

// Answers is called by an idle or new worker that was given the place.
func (pl *Place) Answers() {
	if pl.woken {
		pl.woken = false
		pl.pool.Woken.Add(-1)
		pl.Wakes.Add(1)
	}
}

// startSearching makes the holder a searcher, unless half of the workers search already.
func (pl *Place) startSearching() bool {
	pl.pool.changes(-1)
	pl.Searching = pl.pool.Sleep.StartSearching(pl.pool.Size())
	return pl.Searching
}

// StopSearching is for a holder that may count as a searcher, and has found something.
func (pl *Place) StopSearching() {
	if !pl.Searching {
		return
	}
	pl.Searching, pl.FirstVictim = false, -1 // what the waker saw there may be gone when the next search begins
	pl.pool.changes(-1)
	if pl.pool.Sleep.StopSearching() {
		pl.pool.NotifySeen()
	}
}
