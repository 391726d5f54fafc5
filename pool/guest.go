package pool

import (
	"context"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/pad"
)

// # Guests
//
// A goroutine from outside that needs the pool does not hand its work over and wait: a hand-off
// costs several microseconds each way. It becomes a **guest**: a worker for the time of the call, on
// its own stack. Tasks that it queues go to the injector. It wakes workers only for forks that they
// could take, and not at once in a call that is likely to be short (worth.go).
//
// As many workers as there are guests leave forks alone, so that no more threads compute than the pool
// has workers. A guest that waits does not count. Without [WithCallers] the number of guests is not
// bounded: a goroutine computes in any case, and all that it needs of the pool is a roster on which
// thieves find it. Each node has some, so that guests that come and go at the same time seldom meet at one. Thieves look
// at them only if there are guests: a guest is first on its roster, and then counts (policy.State), before it forks.
//
// If a goroutine is already a worker or guest of the pool, and calls at the pool instead of at the
// worker that it was given, it goes on as that worker.

// guestRosters is how many rosters a node has for guests.
const guestRosters = 8

// guests is a roster of guests, on lines of its own: guests on other rosters come and go at the same time.
type guests struct {
	_ pad.Line

	core.Roster

	_ pad.Line
}

// Run calls f in the calling goroutine, as a guest of the pool, and returns when f does. Workers of
// the pool can take what f forks. A panic in f is a panic of Run. If the pool is closed, see [Pool.Close], Run returns
// [ErrClosed] without calling f. It waits for other callers only with [WithCallers].
//
// Any goroutine may call Run. Inside a task or a function that was given a worker, Run calls f with that
// same worker.
//
// While f computes, one worker fewer takes forks: in a pool with one worker, none takes those of f.
// So f must not wait, other than in [Worker.Block], for something that one of its forks does; forks
// of one computation may be run one after the other.
//
// If the last calls of f were short, forks and children of f wake no worker of a pool that sleeps until the call, from the first of them on, has lasted
// for eight wake-ups, some 30 microseconds on most machines. The next fork or join sees that; if there is none, the pool sees it within some 10
// milliseconds. After such a call, forks wake workers at once for some calls. The same holds for [Do], [Recursion.Run] and all other calls from outside.
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
		w.code.Set(codeOf(f))
	}
	f(w)
	return nil
}

// admitGuest returns the worker as which the calling goroutine computes: the one that it already is, or
// a guest, for which releaseGuest must be called.
func (p *Pool) admitGuest(ctx context.Context, try bool) (w *Worker, guest bool, err error) {
	if p.isClosed() {
		return nil, false, p.turnAway(ErrClosed)
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
	here := &p.nodes[p.here()]
	g := &here.guests[hashOf(goroutine)%guestRosters]
	w = workerOf(p.core.EnterGuest(&g.Roster, func() *core.Worker {
		return &p.newGuest(&p.core.Placements()[here.guestsAt], &g.Roster).core
	}))
	w.goroutine, w.outer = goroutine, outer
	goroutines.set(goroutine, w)
	w.locateLabels()
	w.code.Set(someCode)
	w.jobs.Set(w.jobs.Own() + 1)
	if p.stamps {
		w.since.Store(heist.Ticks())
	}
	return w, true, nil
}

// someCode is an address at which no function is.
const someCode = 1

// releaseGuest ends the guest's call.
func (p *Pool) releaseGuest(w *Worker) {
	w.settle()
	w.code.Set(0) // from here on no wait of it is noticed
	w.answerNotice()
	w.leaveNothing()
	goroutines.set(w.goroutine, w.outer)
	w.outer, w.goroutine, w.cancelScope, w.around, w.gaveWayAt = nil, 0, nil, nil, 0
	if !w.core.LeaveGuest() {
		p.workers.remove(w)
	}
	p.exitAdmission()
}
