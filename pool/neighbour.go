package pool

import (
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/seed53057037/heist"
)

// # Neighbours
//
// A worker that always has something to do holds its P. The other goroutines of the
// process, those with the timers and the network, then wait until Go preempts it, after
// 10 ms. So between two ticks a worker looks whether a goroutine waits for a P, which
// runtime/metrics tells since Go 1.26, and gives way if one does.

// runnable is the runtime's number of goroutines that wait for a P. Reading it takes
// some 100 ns.
const runnable = "/sched/goroutines/runnable:goroutines"

// giveWayPeriod is how often a worker that is not asked to looks for waiting goroutines.
const giveWayPeriod = time.Millisecond

func (w *Worker) giveWayNowAndThen() {
	if now := heist.Ticks(); now-w.gaveWayAt >= w.pool.ticksGiveWay {
		w.gaveWayAt = now
		w.giveWay()
	}
}

// giveWay lets a waiting goroutine have the worker's P.
func (w *Worker) giveWay() {
	if w.waiting == nil {
		w.waiting = []metrics.Sample{{Name: runnable}}
	}
	metrics.Read(w.waiting)
	if v := w.waiting[0].Value; v.Kind() == metrics.KindUint64 && v.Uint64() > 0 {
		w.gaveWay.Add(1)
		runtime.Gosched()
	}
}

// Yield is for a function that takes long, now and then in the middle of it: it lets a
// goroutine that waits have the P, offers all forks to thieves, and runs one task that is
// queued here, if there is one. After as many as a tick has, 128, it runs none until the
// worker has come back to its queues, so that whoever yields goes on. If the call was
// cancelled to which the function belongs, it unwinds, as a fork does.
//
// Cost: 0.2 microseconds, and what others then do.
func (w *Worker) Yield() {
	w.call.check()
	w.expose()
	w.giveWay()
	k := &w.tick
	if w.guest || k.yields >= budget || w.helping >= maxHelping {
		return
	}
	if t := w.next(); t != nil {
		k.yields++
		w.runNested(job{task: t})
	}
}
