package sim

import (
	"slices"

	"github.com/seed53057037/heist/internal/policy"
)

// place is the right to compute on a CPU, and the state that stays there when one worker
// hands over to another.
type place struct {
	cpu   int
	cache []uint32 // the field seen of the workers that compute there

	// running are the workers that compute there. One that comes back from a wait may
	// find another in the middle of a job. The first of them that ends its job or begins
	// to wait leaves.
	running []*worker

	ring, batch queue
	slot        int32 // the LIFO slot: a request, or -1

	search      policy.Search
	lastVictim  bool // the search begins each tier with the last victim
	victim      int
	firstVictim int // the place where the waker saw work, or -1
	lifo, poll  int

	awake  bool // a waker has cleared the bit
	parked bool // running[0] sleeps, and is not only about to
	since  int64
}

func (p *place) crowded() bool { return len(p.running) > 1 }

// visible says whether a thief could take a fork there.
func (p *place) visible() bool {
	for _, w := range p.running {
		if w.top < w.split {
			return true
		}
	}
	return false
}

func (p *place) queued() int {
	n := p.ring.len() + p.batch.len()
	if p.slot >= 0 {
		n++
	}
	return n
}

// enter lets a worker compute at the place from now on.
func (p *place) enter(w *worker) {
	w.place, w.at, w.seen = p, p.cpu, p.cache
	p.running = append(p.running, w)
	p.divide(w.now)
}

// divide divides the CPU evenly among the workers that compute there from time t on. The
// steps that they are in end later or earlier than they would have.
func (p *place) divide(t int64) {
	awake := p.running
	if p.parked && len(awake) > 0 {
		awake = awake[1:]
	}
	share := int64(len(awake))
	for _, w := range awake {
		if w.now > t && w.share != share {
			w.now = t + (w.now-t)*share/w.share
			w.synced = w.now
			w.engine.agenda.set(w.id, w.now)
		}
		w.share = share
	}
}

// leave leaves the place to another worker that computes there, or to a stand-in.
func (w *worker) leave() {
	p := w.place
	i := slices.Index(p.running, w)
	p.running = slices.Delete(p.running, i, i+1)
	w.share = 1
	if len(p.running) > 0 {
		p.divide(w.now)
		return
	}
	other := w.engine.standIn()
	other.wake(w.now + handOver)
	p.enter(other)
}

// makeRoom lets a worker leave a place that it shares, between two jobs.
func (w *worker) makeRoom() {
	w.stopSearching()
	if w.crowded() { // still shared
		w.leave()
		w.rest()
	}
}

// rest suspends a worker without a place until it becomes a stand-in.
func (w *worker) rest() {
	w.engine.idle = append(w.engine.idle, w)
	w.sleepUntilWoken()
}

// standIn returns a worker without a place.
func (e *engine) standIn() *worker {
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return w
	}
	w := new(worker)
	e.begin(w, w.main)
	return w
}

// takeBack takes the worker's place from the stand-in, if the stand-in sleeps or is about to
// and no waker has chosen the place.
func (w *worker) takeBack() {
	e, p := w.engine, w.place
	bitmap := e.bitmapWord(e.nodeOf[w.at])
	w.read(bitmap)
	if !e.sleep.Parked(w.at) {
		return
	}
	w.write(bitmap)
	w.write(e.stateWord())
	if !e.sleep.Choose(w.at) {
		return
	}
	e.sleep.Add(-policy.OneSleeper)
	other := p.running[0]
	p.running = p.running[:0]
	other.displaced = true // a stand-in that is only about to sleep sees this
	if p.parked {
		w.rise()
		e.idle = append(e.idle, other)
	}
}

// rise ends the sleep of the worker's place.
func (w *worker) rise() {
	w.parked = false
	w.engine.stats.Parked += w.now - w.since
	w.divide(w.now)
}

// rouse is what the system does to the place when a waker wakes it at time t.
func (p *place) rouse(t int64) {
	p.awake = true
	if p.parked { // otherwise it has not gone to sleep yet
		p.running[0].wake(p.wakes(t))
	}
}

// wakes returns when the CPU of a sleeping place begins with work made ready at time t.
func (p *place) wakes(t int64) int64 {
	if t-p.since > deepAfter {
		return t + deep
	}
	return t + woken
}
