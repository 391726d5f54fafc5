package pool

import (
	"context"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// # Guests
//
// A goroutine from outside that needs the pool does not hand its work over and wait: a hand-off
// costs several microseconds each way. It becomes a **guest**: a worker for the time of the call, on
// its own stack. Tasks that it queues go to the injector. It wakes workers only for forks that they
// could take.
//
// As many workers as there are guests leave forks alone, so that no more threads compute than the pool
// has workers. A guest that waits does not count. Without [WithCallers] the number of guests is not
// bounded: a goroutine computes in any case, and all that it needs of the pool is a list on which
// thieves find it. The lists are places of their own (place.go); with more guests than these, several
// share one.
//
// If a goroutine is already a worker or guest of the pool, and calls at the pool instead of at the
// worker that it was given, it goes on as that worker.

// maxGuests bounds the number of places for guests, because thieves have to look through them.
const maxGuests = 64

// guestPlaces is four times the workers: with more guests than workers, thieves look only at those
// that wait.
func guestPlaces(workers int) int { return min(max(4*workers, 8), maxGuests) }

// Run calls f in the calling goroutine, as a guest of the pool, and returns when f does. Workers of
// the pool can take what f forks. A panic in f is a panic of Run. If the pool is closed, Run returns
// [ErrClosed] without calling f. It waits for other callers only with [WithCallers].
//
// Any goroutine may call Run. Inside a task or a function that was given a worker, Run calls f with that
// same worker.
//
// While f computes, one worker fewer takes forks: in a pool with one worker, none takes those of f.
// So f must not wait, other than in [Worker.Block], for something that one of its forks does; forks
// of one computation may be run one after the other.
//
// Cost: 40 ns, no allocation.
func (p *Pool) Run(f func(w *Worker)) error {
	if err := p.usable(); err != nil {
		return err
	}
	if f == nil {
		return errNilFunc("Pool.Run")
	}
	w, guest, err := p.admitGuest(context.Background(), false)
	if err != nil {
		return err
	}
	if guest {
		defer p.releaseGuest(w)
	} else {
		defer w.endInner(w.beginInner())
	}
	if guest {
		w.code.set(codeOf(f))
	}
	f(w)
	return nil
}

// admitGuest returns the worker as which the calling goroutine computes: the one that it already is, or
// a guest, for which releaseGuest must be called.
func (p *Pool) admitGuest(ctx context.Context, try bool) (w *Worker, guest bool, err error) {
	if p.closing.Load() {
		return nil, false, p.refuse(ErrClosed)
	}
	goroutine := goroutineID()
	outer := goroutines.find(goroutine)
	if outer != nil {
		if w := p.computes(goroutine); w != nil {
			return w, false, nil
		}
	}
	if p.callers > 0 {
		if err := p.admit(ctx, try); err != nil {
			return nil, false, err
		}
	}
	here := p.nodes[p.here()].guests
	pl := here[hashOf(goroutine)%uint(len(here))]
	pl.mu.Lock()
	if n := len(pl.free); n > 0 {
		w, pl.free[n-1] = pl.free[n-1], nil
		pl.free = pl.free[:n-1]
	} else {
		w = p.newWorker(pl.placement, true, false)
		w.home = pl
	}
	pl.link(w)
	pl.mu.Unlock()
	p.sleep.Add(-policy.OneSleeper)
	w.goroutine, w.outer = goroutine, outer
	goroutines.set(goroutine, w)
	w.code.set(someCode)
	w.wearer()
	if p.stamps {
		w.since.Store(heist.Ticks())
	}
	return w, true, nil
}

// someCode is an address at which no function is.
const someCode = 1

// releaseGuest ends the guest's call.
func (p *Pool) releaseGuest(w *Worker) {
	w.trim()
	w.freeCells(true)
	goroutines.set(w.goroutine, w.outer)
	w.outer, w.goroutine, w.cancelScope, w.around, w.asked, w.gaveWayAt = nil, 0, nil, nil, false, 0
	w.code.set(0)
	pl := w.home
	pl.mu.Lock()
	pl.unlink(w)
	if keep := len(pl.free) < keptGuests; keep {
		pl.free = append(pl.free, w)
		pl.mu.Unlock()
	} else {
		pl.mu.Unlock()
		p.workers.remove(w)
	}
	p.exitAdmission()
	p.freePlace()
}

// keptGuests is how many guests that have left a place keeps for the next callers.
const keptGuests = 4

// freePlace is called by a guest that computes no longer. A worker may have left a fork alone because
// of this guest. If all places sleep, no worker waits and there is no other guest, there is no fork either.
func (p *Pool) freePlace() {
	state := p.sleep.Add(policy.OneSleeper)
	nobody := state.Sleepers() >= p.size() && p.waits.Load() == 0
	if state.WantsForks() && !nobody {
		p.notifySeen()
	}
}
