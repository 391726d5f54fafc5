package sim

import "slices"

// cpu is what the system and the Go runtime do: workers that compute on the same CPU take turns. A worker that comes back from a
// wait may find another in the middle of a job.
type cpu struct {
	cache   []uint32 // the field seen of the workers there
	running []*worker
	since   int64 // when it fell asleep, if nobody runs
}

// enter has the worker compute on its CPU from now on.
func (w *worker) enter() {
	c := w.cpu
	if len(c.running) == 0 {
		w.engine.stats.Parked += w.now - c.since
	}
	c.running = append(c.running, w)
	c.divide(w.now)
}

func (w *worker) leave() {
	c := w.cpu
	i := slices.Index(c.running, w)
	c.running = slices.Delete(c.running, i, i+1)
	w.share, c.since = 1, w.now
	c.divide(w.now)
}

// divide divides the CPU evenly among the workers that compute there from time t on. The
// steps that they are in end later or earlier than they would have.
func (c *cpu) divide(t int64) {
	share := int64(len(c.running))
	for _, w := range c.running {
		if w.now > t && w.share != share {
			w.now = t + (w.now-t)*share/w.share
			w.synced = w.now
			w.engine.agenda.set(w.id, w.now)
		}
		w.share = share
	}
}

// wakes returns when the CPU, which sleeps, begins with work made ready at time t.
func (c *cpu) wakes(t int64) int64 {
	if t-c.since > deepAfter {
		return t + deep
	}
	return t + woken
}

// A worker is the core.Sleeper of its own parker.

// Park has the worker sleep until it is unparked. Its CPU goes on with another one, or sleeps too.
func (w *worker) Park() {
	if !w.awake {
		if len(w.cpu.running) == 1 {
			w.now += park
		}
		w.sync()
	}
	if !w.awake {
		w.asleep = true
		w.leave()
		w.sleepUntil(never)
		w.enter()
	}
	w.awake = false
}

// Unpark is called on behalf of the current worker.
func (w *worker) Unpark() {
	w.awake = true
	w.rouse()
}

// rouse has a worker go on or begin that sleeps or is new.
func (w *worker) rouse() {
	by := w.engine.current
	by.wrote(w.engine.restWord())
	t := by.now
	if len(w.cpu.running) == 0 {
		by.now += waker
		t = w.cpu.wakes(t)
	} else {
		by.now += ready
		t = by.now + handOver
	}
	if w.asleep { // and not only about to
		w.asleep = false
		w.wake(t)
	}
}
