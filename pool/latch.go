package pool

import "sync/atomic"

// latch is something that one worker or guest waits for. It goes from pending to
// done, by way of waiting if the waiter has gone to sleep over it.
type latch struct {
	// state is written by the waiter, who alone moves it between pending and
	// waiting, and by whoever completes the latch.
	state atomic.Uint32
	// tasks says that the waiter may run tasks meanwhile, not only forks.
	tasks bool
}

const (
	latchPending = iota
	latchWaiting
	latchDone
)

func (l *latch) done() bool { return l.state.Load() == latchDone }

// complete ends the wait of waiter. The latch must not be touched afterwards: its
// memory is the waiter's again.
func (l *latch) complete(waiter *Worker) {
	if l.state.Swap(latchDone) == latchWaiting {
		waiter.unparkFor()
	}
}

// await runs what others have to offer until l is done: forks, and tasks as well if
// the latch says so. Only when there is nothing does it sleep.
func (w *Worker) await(l *latch) {
	for !l.done() {
		if j, ok := w.search(l); ok {
			w.run(j)
			continue
		}
		if !l.state.CompareAndSwap(latchPending, latchWaiting) {
			break
		}
		w.sleepOver(l)
		l.state.CompareAndSwap(latchWaiting, latchPending)
	}
	w.stopSearching()
}

// sleepOver sleeps until the latch is done or there is work.
func (w *Worker) sleepOver(l *latch) {
	if w.guest {
		w.guestSleep(l)
		return
	}
	b := w.pool.sleep.joining
	if l.tasks {
		b = w.pool.sleep.idle
	}
	w.park(b, l)
}
