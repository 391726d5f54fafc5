package pool

import (
	"runtime"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// # Neighbours
//
// A worker that always has something to do holds its P, and on that P no timer fires and
// no network event is seen until Go preempts the worker, after 10 ms. The other goroutines
// of the process wait that long, and a queue of them longer.
//
// A worker that is an ordinary goroutine therefore calls runtime.Gosched every now and
// then: it costs 0.2 microseconds, and the P looks after its timers and the network. For
// a worker that is locked to its thread the same call costs two thread switches, 70
// microseconds on a virtual machine, whether somebody waits or not. To ask runtime/metrics
// first how many goroutines wait for a P, which takes 0.1 microseconds, does not help: those
// whose timer has not fired do not wait yet. So locked workers leave it to Go, and who
// cannot accept that uses [PinNone], or [WithFreePs].

// giveWayPeriod is how often an unlocked worker gives way: a tick's end that comes earlier
// does nothing. At 100 microseconds it is a fifth of a percent of the time.
const giveWayPeriod = 100 * time.Microsecond

// giveWay lets another goroutine have the worker's P, if that is cheap and has not been
// done just now.
func (w *Worker) giveWay() {
	if w.bell == nil {
		return
	}
	if now := heist.Ticks(); now-w.gaveWayAt >= w.pool.ticksGiveWay {
		runtime.Gosched()
		w.gaveWay.Add(1)
		w.gaveWayAt = heist.Ticks()
	}
}

// freePs changes the number of Ps.
func freePs(by int) {
	if by != 0 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + by)
	}
}

// Yield is for a function that takes long, now and then in the middle of it: it lets other
// goroutines have the P, unless the worker is pinned, offers all forks to thieves, and runs
// one task that is queued here, if there is one. After as many as a tick has, 128, it runs
// none until the worker has come back to its queues, so that whoever yields goes on. If the
// call was cancelled to which the function belongs, it unwinds, as a fork does.
//
// Cost: a look at the worker's queues and at the clock, and what others then do.
func (w *Worker) Yield() {
	w.call.check()
	w.expose()
	w.giveWay()
	k := &w.tick
	if w.guest || k.yields >= budget || w.helping >= policy.MaxHelping {
		return
	}
	if t := w.next(); t != nil {
		k.yields++
		w.runNested(job{task: t})
	}
}
