package pool

// # Guests
//
// A goroutine from outside that needs the pool does not hand its work over and wait:
// a hand-off costs several microseconds each way. It becomes a guest: it takes a
// free slot, which is a worker without a thread and without a run queue, and runs
// its function at once, on its own stack. Workers are woken only for the forks that
// they could take.
//
// While there are guests, as many workers as there are guests leave their forks
// alone, so that not more threads compute than the pool has workers.

// maxGuests bounds the number of guest slots, which thieves have to look through.
const maxGuests = 64

// guestSlots is four times the workers: there have to be more than workers, because
// guests also wait.
func guestSlots(workers int) int { return min(max(4*workers, 8), maxGuests) }

// Run calls f in the calling goroutine, as a guest of the pool, and returns when f
// has: what f forks, other workers can take. A panic in f is a panic of Run. It
// returns [ErrClosed], without calling f, if the pool is closed.
//
// Anybody may call Run, inside a task too, though handing the worker on saves the
// slot. If all guest slots are taken, f runs just the same, but alone: the machine
// has enough to do then.
//
// Cost: 15 ns, no allocation.
func (p *Pool) Run(f func(w *Worker)) error {
	if f == nil {
		return errNilFunc("Pool.Run")
	}
	if p.closing.Load() {
		return ErrClosed
	}
	w := p.enter()
	defer p.leave(w)
	f(w)
	return nil
}

func (p *Pool) enter() *Worker {
	i, ok := p.guests.take()
	if !ok {
		return &Worker{pool: p, id: p.Slots() - 1, guest: true, serial: true}
	}
	p.sleep.state.Add(-oneSpare)
	return p.slots[p.Workers()+i]
}

func (p *Pool) leave(w *Worker) {
	if w.serial {
		return
	}
	w.unwindAll()
	w.forget()
	p.freePlace()
	p.guests.set(w.id - p.Workers())
}

// freePlace is for a guest that computes no longer. A worker may have let a fork lie
// because the guest was there. If all workers sleep and there is no other guest, there
// is no fork either.
func (p *Pool) freePlace() {
	state := p.sleep.state.Add(oneSpare)
	if wantsForks(state) && int(spare(state)) < p.Workers() && p.anyFork() {
		p.wakeOne()
	}
}
