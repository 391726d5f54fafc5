package pool

import (
	"context"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/policy"
)

// # Guests
//
// A goroutine from outside that needs the pool does not hand its work over and wait:
// a hand-off costs several microseconds each way. It becomes a guest: it takes a
// free slot, which is a worker without a thread, and runs its function at once, on its
// own stack. Tasks that it queues go to the injector. Workers are woken only for the forks
// that they could take.
//
// While there are guests, as many workers as there are guests leave their forks
// alone, so that not more threads compute than the pool has workers.
//
// When all slots are taken, goroutines queue for them. One that has a place already,
// because it is inside a task or is a guest, must not wait for another one: it
// would hold what the others wait for. It uses the place that it has.

// maxGuests bounds the number of guest slots, which thieves have to look through.
const maxGuests = 64

// guestSlots is four times the workers: there have to be more than workers, because
// guests also wait.
func guestSlots(workers int) int { return min(max(4*workers, 8), maxGuests) }

// guests are the slots for goroutines from outside.
type guests struct {
	free    []policy.Bitmap // by node; guests clear and set
	waiting atomic.Int32
	// freed holds a token for a slot that became free while somebody waited. It is a
	// hint: whoever comes by may be faster.
	freed chan struct{}
}

// take takes a free slot, of the nearest node that has one.
func (g *guests) take(nearby []int) (slot int, ok bool) {
	for _, node := range nearby {
		if slot, ok := g.free[node].Take(); ok {
			return slot, true
		}
	}
	return 0, false
}

// Run calls f in the calling goroutine, as a guest of the pool, and returns when f
// has: what f forks, other workers can take. A panic in f is a panic of Run. It
// returns [ErrClosed], without calling f, if the pool is closed. If all guest slots
// (four per worker, from 8 to 64) are taken, Run waits for one; [Pool.With] bounds the
// wait by a context.
//
// Anybody may call Run, inside a task too, though handing the worker on saves the
// slot.
//
// Cost: 20 ns, no allocation.
func (p *Pool) Run(f func(w *Worker)) error {
	if f == nil {
		return errNilFunc("Pool.Run")
	}
	w, host, err := p.enter(context.Background())
	if err != nil {
		return err
	}
	if host {
		defer w.end(w.begin())
		f(w)
		return nil
	}
	defer p.leave(w)
	f(w)
	return nil
}

// enter finds the caller a place: a slot that it must leave again or, if there is
// none, the place that it has already.
func (p *Pool) enter(ctx context.Context) (w *Worker, has bool, err error) {
	if p.closing.Load() {
		return nil, false, ErrClosed
	}
	i, ok := p.guests.take(p.nodes[p.here()].nearby)
	if !ok {
		if w := p.placeOf(goroutineID()); w != nil {
			return w, true, nil
		}
		if i, err = p.queue(ctx); err != nil {
			return nil, false, err
		}
	}
	p.sleep.Add(-policy.OneSleeper)
	w = p.slots[p.first+i]
	w.goroutine.Store(goroutineID())
	return w, false, nil
}

// placeOf returns the worker as which the goroutine runs, or nil.
func (p *Pool) placeOf(goroutine uintptr) *Worker {
	for _, w := range p.victims() {
		if w.goroutine.Load() == goroutine {
			return w
		}
	}
	return nil
}

// expose publishes all forks of the goroutine, in all places that it has.
func (p *Pool) expose(goroutine uintptr) {
	for _, w := range p.victims() {
		if w.goroutine.Load() == goroutine {
			w.expose()
		}
	}
}

// replace gives all places of one goroutine to another, while the first waits.
func (p *Pool) replace(goroutine, by uintptr) {
	for _, w := range p.victims() {
		if w.goroutine.Load() == goroutine {
			w.goroutine.Store(by)
		}
	}
}

// queue waits for a slot.
func (p *Pool) queue(ctx context.Context) (slot int, err error) {
	done := ctx.Done()
	g := &p.guests
	g.waiting.Add(1) // before the look: leave looks in the opposite order
	defer g.waiting.Add(-1)
	for {
		if slot, ok := g.take(p.nodes[0].nearby); ok {
			return slot, nil
		}
		select {
		case <-g.freed:
		case <-done:
			return 0, context.Cause(ctx)
		case <-p.refuses:
			return 0, ErrClosed
		}
	}
}

func (p *Pool) leave(w *Worker) {
	w.unwindAll()
	w.forget()
	w.goroutine.Store(0)
	p.freePlace()
	g := &p.guests
	g.free[w.site.node].Set(w.id - p.first)
	if g.waiting.Load() > 0 {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}

// freePlace is for a guest that computes no longer. A worker may have let a fork lie
// because the guest was there. If all workers sleep and there is no other guest, there
// is no fork either.
func (p *Pool) freePlace() {
	state := p.sleep.Add(policy.OneSleeper)
	nobody := state.Sleepers() >= p.Workers() && p.crew.lent.Load() == 0
	if state.WantsForks() && !nobody {
		p.notifySeen()
	}
}

// guestPlaces returns how many places the goroutine has as a guest.
func (p *Pool) guestPlaces(goroutine uintptr) (n policy.State) {
	for _, w := range p.victims() {
		if w.guest && w.goroutine.Load() == goroutine {
			n++
		}
	}
	return n
}
