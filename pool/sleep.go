package pool

import (
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
)

// The protocol and its argument are in sleep.md; the comments here point to it.

// sleep is what a pool knows of who sleeps and who searches.
type sleep struct {
	// state packs three numbers, so that a fork finds in one load whether anybody
	// should be woken for it:
	//
	//	cancelled << 48 + searching << 32 + (parked - guests - surplus)
	//
	// cancelled counts the calls that were cancelled and are not over (call.go),
	// searching the workers that look for work in others' queues; parked those that
	// sleep; guests the goroutines that took a worker's place; surplus the workers that
	// are too many (crew.go). The lower half is signed. Written by workers, wakers,
	// guests, cancelled contexts and whoever changes the crew, by addition.
	state atomic.Int64

	_ pad // forks read state all the time; the bitmap changes with each sleep

	// parked holds the workers that sleep. A worker sets its own bit; whoever clears
	// the bit must wake the worker.
	parked bitmap
}

const (
	oneCancelled = 1 << 48
	oneSearching = 1 << 32
	oneSpare     = 1
)

func searching(state int64) int64 { return (state + 1<<31) >> 32 & 0xffff }
func spare(state int64) int32     { return int32(state) }

// hungry says whether a worker searches or sleeps that could take a fork, or a call
// was cancelled. Forks ask it all the time, so it is one load and one comparison: the
// word is positive just if one of its upper parts is, or the lowest.
func (s *sleep) hungry() bool { return s.state.Load() > 0 }

// wantsForks says whether a fork should wake somebody: nobody searches, and there
// are more sleepers than guests.
func wantsForks(state int64) bool { return searching(state) == 0 && spare(state) > 0 }

// startSearching makes the caller a searcher, unless half of the n workers search
// already.
func (s *sleep) startSearching(n int) bool {
	for {
		state := s.state.Load()
		if k := searching(state); k > 0 && 2*(k+1) > int64(n) {
			return false
		}
		if s.state.CompareAndSwap(state, state+oneSearching) {
			return true
		}
	}
}

// notifyTask is called after a task has become visible in a queue, by a push that
// ends with a full fence.
func (p *Pool) notifyTask() {
	if searching(p.sleep.state.Load()) == 0 {
		p.wakeOne()
	}
}

// notifyOutside is notifyTask for a task that comes from outside: the doorman is asked
// first.
func (p *Pool) notifyOutside() {
	if searching(p.sleep.state.Load()) == 0 && !p.ring() {
		p.wakeOne()
	}
}

// notifySeen is for the searcher who was the last one, when it stops: what was made
// visible while it searched woke nobody, because it was there to find it (sleep.md,
// "The last searcher").
func (p *Pool) notifySeen() {
	if p.anyTask() || spare(p.sleep.state.Load()) > 0 && p.anyFork() {
		p.wakeOne()
	}
}

// wakeOne wakes a worker, if one is parked. It wakes up as a searcher.
//
// The caller, a guest perhaps, has the CPU that it runs on, so the worker that is pinned
// there is the last choice: the two would take turns until the system's balancer sees
// it, some milliseconds later.
//
//go:noinline
func (p *Pool) wakeOne() {
	if p.sleep.parked.empty() { // as always in a busy pool, and cheaper to find out than the CPU
		return
	}
	last := -1
	if p.cpus != nil {
		if w, ok := p.onCPU[currentCPU()]; ok {
			last = w
		}
	}
	if i, ok := p.sleep.parked.takeBut(last); ok {
		p.slots[i].wakeUp()
	}
}

// wakeUp is for whoever cleared the worker's bit. It wakes whoever has its place.
func (w *Worker) wakeUp() {
	w.pool.sleep.state.Add(oneSearching - oneSpare)
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
	if searching(w.pool.sleep.state.Add(-oneSearching)) == 0 {
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
	s.parked.set(w.owner().id)
	change := int64(oneSpare)
	if w.searching {
		change -= oneSearching
		w.searching = false
	}
	state := s.state.Add(change)
	stay := l != nil && l.done() || p.worthWaking(state)
	if stay && s.parked.clear(w.owner().id) {
		s.state.Add(-oneSpare)
		return
	}
	// Either there is nothing to do, or somebody cleared the bit and is about to
	// wake this worker.
	w.parks.Add(1)
	if w.bell != nil {
		<-w.bell
	} else {
		for w.awake.Load() == 0 {
			heist.FutexWait(&w.awake, 0, -1)
		}
		w.awake.Store(0)
	}
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
		p.sleep.state.Add(oneSearching)
	}
	for i := 1; ; i++ {
		if p.anyTask() || w.ordered() || p.exit.Load() ||
			spare(p.sleep.state.Load()) >= 0 && p.anyFork() {
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
	if owner := w.owner(); owner != nil && w.pool.sleep.parked.clear(owner.id) {
		owner.wakeUp()
	}
}

// worthWaking says whether there is something for a worker that has announced its sleep,
// after which the state was this.
func (p *Pool) worthWaking(state int64) bool {
	return p.anyTask() || spare(state) > 0 && p.anyFork() || p.exit.Load()
}

// anyTask says whether a task lies in a queue.
func (p *Pool) anyTask() bool {
	for _, q := range p.queues {
		if q.Ready() {
			return true
		}
	}
	for _, w := range p.victims() {
		if w.queued() > 0 {
			return true
		}
	}
	return false
}

// anyFork says whether a fork can be stolen.
func (p *Pool) anyFork() bool {
	for _, w := range p.victims() {
		for _, s := range w.forkStacks() {
			if s.visible() {
				return true
			}
		}
	}
	return false
}
