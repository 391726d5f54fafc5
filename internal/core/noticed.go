package core

import (
	"sync"
	"sync/atomic"
)

// # Waits that are noticed
//
// A worker may wait in something that heist does not know of: a channel, a lock, a system call. Then another goroutine,
// the **monitor** (pool/monitor.go), sees from outside that the worker's goroutine waits, and lends the worker's place for
// it, as Lend does for a worker that says that it waits. The worker cannot say when it goes on. So it looks at
// Worker.seen, one load, whenever it is about to use what Lend and ComeBack change: its place, its state.
//
//	monitor: lock; seen = true; look whether the goroutine waits, inside a job and in no wait of heist;
//	         if so lend, else seen = false again; unlock
//	worker:  if seen: lock; come back if the place was lent; seen = false; unlock
//
// Why the two do not both act: the monitor writes seen before it looks, and the goroutine goes on before the worker looks at
// seen; that the goroutine waits, and that it goes on, are operations on one atomic word of the runtime. If the monitor
// finds that the goroutine waits, it has written seen before the goroutine goes on, so the worker finds it when it next
// looks, and then waits for the lock. If the worker is between its look and the use of the place, its goroutine does not
// wait there, since no such stretch of code waits for anything; or it waited before the look. Nor does it matter in which of several waits
// the monitor finds the goroutine.
//
// A lock waits, and so may an allocation: where it begins a collection for which there are too few mark workers yet, the goroutine
// waits for them by a channel. So a stretch with one of these either looks again after it, or says before it that the monitor is to
// leave it alone, and takes that back behind its last use of the place. The monitor asks for that after it has found that the goroutine
// waits. If it finds the word taken back, the goroutine has gone on, and looks at seen before it uses its place again.
//
// What the worker wrote before its goroutine waited is visible to the monitor, by the runtime's atomic word. So the monitor
// may read the worker's fields while the goroutine waits, and whatever it changes is visible to the worker by seen.
//
// Between the end of the wait and the next look the worker computes in the state Waiting. That is one more that computes,
// as after ComeBack; the look comes at the latest between two jobs.

// noticed is the part of a Worker for this protocol. Its lines are the owner's: the monitor writes only to a worker that waits.
type noticed struct {
	seen atomic.Bool // monitor and worker write, under mu
	mu   sync.Mutex  // the monitor, or the worker once it has found seen
	lent bool        // the monitor has lent the worker's place, and the worker has not come back; under mu

	// For lookouts, see below.

	hasLookout atomic.Bool            // a lookout for the worker has not looked yet; the worker sets it, the lookout clears it
	target     atomic.Pointer[Worker] // whom this worker, which is idle and on no list, is the lookout for; who takes it off the list writes, it clears
}

// Notice is called by the monitor for a worker that seems to wait. It lends the worker's place, unless waits, which it
// calls at the right moment, returns false, and says whether it did. shows says whether the worker has forks to show.
func (w *Worker) Notice(waits func() bool, shows func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lent {
		return false
	}
	before := w.seen.Load()
	w.seen.Store(true)
	waiting := waits()
	state := State(w.state.Load()) // which stays so while the goroutine waits
	if !waiting || state != Holding && state != Beside {
		w.seen.Store(before)
		return false
	}
	var pl *Place
	if state == Holding {
		pl = w.home.of
	}
	w.Lend(pl, shows())
	w.lent = true
	w.pool.host.Lent(w)
	return true
}

// NoticeEnd is called by the monitor: if the place of the worker is lent and the wait is over, it does what the worker would do
// when it next looks.
func (w *Worker) NoticeEnd(waits func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lent && !waits() {
		w.backFromNoticed() // seen stays: the worker must find out which place it has
	}
}

// Seen says whether the worker has to call GoOn before it uses its place or changes its state. Owner only.
func (w *Worker) Seen() bool { return w.seen.Load() }

// GoOn is called by the worker if Seen is true. It returns the place that the worker has; nil for none.
func (w *Worker) GoOn() *Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backFromNoticed()
	w.seen.Store(false)
	if w.State() == Holding {
		return w.home.of
	}
	return nil
}

// backFromNoticed ends a noticed wait. Under mu.
func (w *Worker) backFromNoticed() {
	if w.lent {
		w.lent = false
		w.ComeBack()
		w.pool.host.GoesOn(w)
	}
}

// # Lookouts
//
// A monitor that looks once a millisecond is of no use for functions that wait for 50 microseconds. But functions that wait
// do so again and again, and the host knows which. When a worker begins with one, an idle worker becomes its **lookout**:
// it is made ready, so that it is the next goroutine on the worker's P, and Go runs it at the moment at which the worker's
// goroutine waits. Then it looks as the monitor does, and as it has put itself on the list of idle workers before, as the
// newest, the place goes to it. If the worker does not wait, the lookout is idle again.

// ExpectWait is called by a worker that begins something that may soon wait, and says whether that may be long. Where
// workers are locked to threads the lookout has to wake up another one, which a short wait is not worth.
func (w *Worker) ExpectWait(long bool) {
	if w.Parker.Locked() && !long || w.hasLookout.Load() {
		return
	}
	w.hasLookout.Store(true)
	s := w.Placement().pop()
	if s == nil {
		w.pool.host.Hire(w.Placement(), func(s *Worker) { s.target.Store(w) })
		return
	}
	s.target.Store(w)
	s.Parker.Unpark()
}

// BeginLookout has a Fresh worker that was not granted a place be idle: it was hired as a lookout.
func (w *Worker) BeginLookout() {
	w.become(Idle)
	w.lookOut()
}

// lookOut has the worker, which is Idle and on no list, look for its target. It is on the list before that, unless the list is full: then it
// becomes Ended, and the place goes to another idle worker. It becomes Ended as well if it has no target.
func (w *Worker) lookOut() {
	target := w.target.Swap(nil)
	if target == nil {
		w.become(Ended)
		return
	}
	if !w.Placement().push(w) {
		w.become(Ended)
	}
	target.hasLookout.Store(false) // before the look: the target may begin something else, and wait in that
	w.pool.host.LookAt(target)
}
