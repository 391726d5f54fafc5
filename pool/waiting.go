package pool

import (
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// The rule of waiting, and why no program hangs because of it, are in internal/core/waiting.md.

// latch is what one worker waits for: a stolen fork, or the children of a scope. The waiter moves it
// from pending to waiting before it sleeps; another goroutine completes it.
type latch struct{ state atomic.Uint32 }

const (
	latchPending = iota
	latchWaiting // the waiter sleeps, or is about to
	latchDone
)

func (l *latch) done() bool { return l.state.Load() == latchDone }

// complete is called by w, which ends the wait of waiter. The latch must not be touched afterwards:
// its memory is the waiter's again.
func (l *latch) complete(w, waiter *Worker) {
	if l.state.Swap(latchDone) == latchWaiting {
		waiter.core.Parker.Unpark()
		w.woke = true
	}
}

// A worker looks at a latch for shortLook before it lends its place: a stolen fork is often done soon, to lend
// takes a microsecond, and to come back takes another. If other workers look for work in vain, a stand-in would be
// of no use, so the waiter looks on until longLook: as long as a sleeping waiter takes to wake up if its thread has
// gone to sleep as well. With the default, transforms of 2^14 elements, which are short loops in a row, take 0.73 of
// the time of an even split among goroutines, and 1.2 without the longer look (bench mixed/ntt-14-1).
const (
	shortLook = 4 * time.Microsecond
	longLook  = 30 * time.Microsecond
)

// await waits until l is done.
func (w *Worker) await(l *latch) {
	if l.done() {
		return
	}
	w.mustBeMine("a join")
	w.expose() // lest forks lie hidden while their owner waits
	p := w.pool
	start := heist.Ticks()
	if w.watchLatch(l, start+p.ticks.shortLook) || w.isSpare() && w.watchLatch(l, start+p.ticks.longLook) ||
		!l.state.CompareAndSwap(latchPending, latchWaiting) {
		return
	}
	lent := p.lend("a fork or scope", l)
	w.core.Parker.Park()
	lent.comeBack()
}

// watchLatch looks at l until it is done or until the time has come, and says whether it is done.
func (w *Worker) watchLatch(l *latch, until int64) bool {
	for ; !l.done(); heist.Pause(latchPauses) {
		if heist.Ticks() >= until {
			return false
		}
	}
	return true
}

// isSpare says whether other workers look for work in vain, or could: a guest that waits makes room for one more.
func (w *Worker) isSpare() bool {
	state := w.pool.core.Sleep.Load()
	if w.core.Guest {
		state += policy.OneSleeper
	}
	return state >= policy.OneSleeper // as Sleep.Hungry
}

// latchPauses is the number of pauses between two looks at a latch: some 100 ns, as long as the
// latch's cache line takes to come over.
const latchPauses = 4

// wait calls f, which waits for something that is no latch. Meanwhile the goroutine's places, in all pools,
// are lent. what describes the wait; of is the future or group whose function has to end, or nil.
func (p *Pool) wait(what string, of any, f func()) {
	lent := p.lend(what, of)
	defer lent.comeBack() // f may be the user's, and panic
	f()
}

// loan is what a goroutine has lent: the places of its workers, of which w is the innermost; nil for none.
type loan struct {
	w        *Worker
	relieved func() // ends the relief that a coroutine's wait has begun, see coroutine.go; nil for others
}

// ofWorker says whether the goroutine belongs to a pool, and is not one from outside.
func (l loan) ofWorker() bool {
	for v := l.w; v != nil; v = v.outer {
		if !v.core.Guest {
			return true
		}
	}
	return false
}

// lend lends all places that the calling goroutine has. It is about to wait at p.
func (p *Pool) lend(what string, of any) loan {
	w := goroutines.find(goroutineID())
	for v := w; v != nil; v = v.outer {
		if v.away++; v.away == 1 {
			// The monitor reads waitsFor after it has written seen, and this reads seen after it has written waitsFor. So from here on it lends
			// nothing for v. To look at seen first is not enough: an allocation may wait, see noticed.go.
			v.waitsFor.Store(&waitsFor{what: what, of: of, home: v.homePlace(), since: heist.Ticks()})
			v.answerNotice()
			v.region = region("heist: wait")
			v.inside.Own().waits(v)
			v.lend()
		}
	}
	l := loan{w: w}
	if !l.ofWorker() && inCoroutine() {
		l.relieved = p.relieve()
	}
	return l
}

// comeBack ends the loan when the wait is over: the goroutine computes again.
func (l loan) comeBack() {
	if l.relieved != nil {
		l.relieved()
	}
	for v := l.w; v != nil; v = v.outer {
		if v.away--; v.away == 0 {
			if v.pool.stamps {
				v.waited += heist.Ticks() - v.waitsFor.Load().since
			}
			endRegion(v.region)
			v.comeBack()
			v.inside.Own().goesOn()
			v.waitsFor.Store(nil) // as the last: from here on the monitor looks
		}
	}
}

// lend is called by a worker that is about to wait: another worker may work in its place.
func (w *Worker) lend() {
	w.expose()
	w.trim()
	w.freeCells(false)
	if pl := w.place; pl != nil {
		pl.hand(w)
		w.place = nil
		w.core.Lend(&pl.core, w.showsForks())
	} else {
		w.core.Lend(nil, w.showsForks())
	}
	if w.core.Guest {
		w.pool.exitAdmission()
	}
}

// handed is what a stand-in begins with: the task of the future for which the worker that lends the place waits. Then the stand-in hands the
// place back. So a tree of futures is computed from its leaves on, as if the futures ran in place, and not all of them wait at a time.
type handed struct {
	of   awaited
	task *task
	to   *Worker
	wait *waitsFor // to's
}

// awaited is a future.
type awaited interface {
	comesFirst(p *Pool) *task
	Ready() bool
}

// mostHandings is how many stand-ins of a place in a row begin with what their waiters wait for. The next one begins with what is queued, or tasks that
// wait for one new future after the other would keep it waiting for ever.
const mostHandings = 64

// hand is called by the holder, which is about to lend the place.
func (pl *place) hand(w *Worker) {
	wait := w.waitsFor.Load()
	var t *task
	of, ok := wait.of.(awaited)
	if ok && pl.handings < mostHandings {
		t = of.comesFirst(pl.pool)
	}
	if t == nil {
		pl.handings = 0
		return
	}
	pl.handings++
	pl.dropHanded()
	pl.handed = &handed{of: of, task: t, to: w, wait: wait}
}

// dropHanded drops what no stand-in has begun with, as the place was given back, or the pool pauses. The task is still in its queue.
func (pl *place) dropHanded() {
	if pl.handed != nil {
		pl.handed = nil
		pl.pool.stale.Add(-1)
	}
}

// runHanded is called by a stand-in that has not run anything yet. It says whether there was something.
func (w *Worker) runHanded() bool {
	h := w.handed
	if h == nil {
		return false
	}
	w.handed = nil
	w.woke, w.ran, w.ranTask = false, true, true
	w.do(job{task: h.task}) // it counts when its turn comes in its queue
	if h.of.Ready() && w.hasPlace() {
		w.leaveNothing() // the worker is idle then
		pl := w.place
		w.place = nil
		if !w.core.HandBack(&pl.core, &h.to.core, func() bool { return h.to.waitsFor.Load() == h.wait }) {
			w.place = pl
		}
	}
	return true
}

// comeBack is called by a worker whose wait is over.
func (w *Worker) comeBack() {
	w.place = w.pool.placeOf(w.core.ComeBack())
	if w.core.Guest {
		w.pool.reenterAdmission()
	}
}

// waitsFor is what a worker waits for. Constant, but for the spot.
type waitsFor struct {
	what  string  // a call of heist's, or what the runtime says if only a snapshot has seen the wait; empty for one that was noticed
	code  uintptr // of the task that was noticed to wait; 0 for none
	of    any     // the future, group or latch; nil for anything else
	home  *place  // the place that it has lent; nil for guests
	since int64   // in heist.Ticks
	job   uintptr // in which a snapshot has seen it, by Worker.jobs

	spot atomic.Pointer[spot] // where it waits, once a snapshot has looked
}
