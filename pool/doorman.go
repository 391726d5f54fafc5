package pool

// # The doorman
//
// A thread that sleeps on another CPU starts late: 20 to 60 microseconds after the futex
// wake on a virtual machine whose idle CPUs stop. A goroutine starts sooner, because Go runs
// it on the P that its creator leaves when it waits for something, or on any other that is
// free.
//
// So each pool of pinned workers has one more, the doorman, who is an ordinary goroutine
// and stands in for one of them: it takes the place of a worker that sleeps in the middle
// of nothing, and as long as it has it that worker sleeps on. The doorman is woken for a task that comes from outside
// to a pool where nobody searches. If that is all there is, no thread is woken. If more
// comes meanwhile, the workers are woken as ever, and the doorman, when it is done with its
// task and sees that they are awake, gives the place back, and goes to sleep.
//
// A place is what is counted in the state of sleep and has a bit among the sleepers, and there are as
// many as workers. Who owns the place when its bit is cleared is the stand-in, if there is
// one, or the worker. Only [PinAuto] pools have a doorman: with [PinCores] all tasks are to
// run on bound threads, and with [PinNone] all workers are goroutines.

// hire makes the doorman, who has been counted.
func (p *Pool) hire(id int) {
	w := newWorker(p, id, -1)
	w.doorman, w.bell = true, make(chan struct{}, 1)
	p.slots[id], p.doorman = w, w
	p.crew.active++
}

// ring wakes the doorman, if it sleeps and there is a place for it.
func (p *Pool) ring() bool {
	d := p.doorman
	if d == nil || !p.atDoor.Load() || !p.atDoor.CompareAndSwap(true, false) {
		return false
	}
	// The worker that is pinned to the CPU where the doorman is likely to run is the one
	// that could not run meanwhile in any case.
	place := p.workerHere()
	if place < 0 || !p.sleep.Choose(place) {
		var ok bool
		if place, ok = p.sleep.ChooseNear(p.nodes[p.here()].nearby, -1); !ok {
			p.atDoor.Store(true)
			return false
		}
	}
	// Its bit is cleared, so it stays where it is until it is woken.
	owner := p.slots[place]
	if owner.idle.Load() && !owner.isTooMany() {
		d.standsFor.Store(owner)
		owner.standIn.Store(d)
	} else { // it waits for something, and must not be kept from that; or it has to leave
		p.atDoor.Store(true)
	}
	owner.wakeUp()
	return true
}

// standsIn says whether the doorman is to go on: it has a place, and all workers sleep, or
// did a moment ago.
func (w *Worker) standsIn() bool {
	owner := w.standsFor.Load()
	return owner != nil && !owner.isTooMany() && int(w.pool.resting.Load()) >= w.pool.Workers()
}

// retreat gives the doorman's place back to its worker, and waits at the door.
func (w *Worker) retreat() {
	p := w.pool
	w.handOver()
	w.forget()
	if owner := w.standsFor.Load(); owner != nil {
		// As in park, for the worker: announce first, look afterwards.
		owner.standIn.Store(nil)
		w.standsFor.Store(nil)
		state := p.sleep.Announce(owner.id, w.searching)
		w.searching = false
		if p.worthWaking(state) || owner.isTooMany() {
			if p.sleep.Choose(owner.id) {
				owner.wakeUp()
			} else {
				// It was woken before, perhaps too early to see what the doorman sees; and while
				// the doorman still counted as a searcher, it did not have to answer for that.
				p.wakeOne(w.site.node, -1)
			}
		}
	}
	p.resting.Add(1)
	p.crew.signal()
	p.atDoor.Store(true)
	if !p.exit.Load() || !p.atDoor.CompareAndSwap(true, false) {
		w.parks.Add(1)
		<-w.bell
		w.searching = w.standsFor.Load() != nil // counted by wakeUp
	}
	p.resting.Add(-1)
}
