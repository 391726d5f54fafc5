package pool

import (
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// latch is something that one worker or guest waits for. The waiter moves it from
// pending to waiting or alone before it goes to sleep over it, and back afterwards;
// somebody else completes it.
type latch struct {
	state atomic.Uint32
	// thief is 1 + the slot of whoever works at what is waited for, if that is known;
	// the thief writes.
	thief atomic.Uint32
}

const (
	latchPending = iota
	latchWaiting // the waiter is parked, and may be woken for work as well
	latchAlone   // the waiter sleeps until the latch is done
	latchDone
)

func (l *latch) done() bool { return l.state.Load() == latchDone }

// complete ends the wait of waiter. The latch must not be touched afterwards: its
// memory is the waiter's again.
func (l *latch) complete(waiter *Worker) {
	switch l.state.Swap(latchDone) {
	case latchWaiting:
		waiter.unpark()
	case latchAlone:
		waiter.wakeAlone()
	}
}

// await waits until l is done, helping others meanwhile: with forks, and with tasks as
// well, though without the second argument only when it would otherwise sleep.
func (w *Worker) await(l *latch, tasks bool) {
	waiter := w
	goroutine := w.goroutine.Load()
	w.pool.expose(goroutine) // lest work lies hidden while nobody does any
	if w.guest {
		// A guest inside a task has the task's worker to wait with, which can run
		// tasks too. The latch is the guest's, so unpark must find the worker.
		if host := w.pool.workerOf(goroutine); host != nil {
			w.host.Store(host)
			w = host
		}
	}
	for !l.done() {
		if j, ok := w.search(l, tasks); ok {
			w.runNested(j)
			continue
		}
		sleeping := uint32(latchWaiting)
		if w.guest || w.helping >= policy.MaxHelping && !tasks {
			sleeping = latchAlone
		}
		if !l.state.CompareAndSwap(latchPending, sleeping) {
			break
		}
		if sleeping == latchAlone {
			w.stopSearching()
			waiter.sleepAlone(l)
		} else {
			w.park(l)
		}
		l.state.CompareAndSwap(sleeping, latchPending)
	}
	w.stopSearching()
}

// awaitAside is await for deferred calls. What a worker helps with may end by
// runtime.Goexit; if that loses the one who waits, another one waits on.
func (w *Worker) awaitAside(l *latch) {
	for !l.done() {
		w.aside(func() { w.await(l, false) })
	}
}

// aside calls f, which may end by runtime.Goexit. In a deferred call that would cut
// short the call and all that is still to be tidied up there. So another goroutine is
// the worker meanwhile, in all places that the caller has, and the caller waits for it.
func (w *Worker) aside(f func()) {
	original, ended := w.goroutine.Load(), make(chan struct{})
	go func() {
		self := goroutineID()
		defer func() {
			w.pool.replace(self, original)
			close(ended)
		}()
		w.pool.replace(original, self)
		f()
	}()
	<-ended
}

// sleepAlone sleeps outside the protocol of sleep.md: nothing but the latch wakes a
// guest, or a worker that must not help with forks any more. In a guest's place a worker may
// compute meanwhile.
func (w *Worker) sleepAlone(l *latch) {
	if w.guest {
		w.pool.freePlace()
	}
	w.alone.Store(0)
	for !l.done() {
		heist.FutexWait(&w.alone, 0, -1)
		w.alone.Store(0)
	}
	if w.guest {
		w.pool.sleep.Add(-policy.OneSleeper)
	}
}

// wakeAlone ends sleepAlone. A call that comes late is harmless, for the sleeper looks
// again; that is why it has a futex of its own.
func (w *Worker) wakeAlone() {
	w.alone.Store(1)
	heist.FutexWake(&w.alone, 1)
}
