package core

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/published"
)

// # States of a worker
//
// A worker is a goroutine that computes for the pool. It is always in one of these states, which it alone reads and
// changes. What others tell it, they tell by Worker.granted, a place that is the worker's from then on.
//
//	state      has       is listed                               granted is written by               goes on as
//	Fresh      nothing   nowhere                                 who hires it, before it begins      Holding, Beside, Idle
//	Holding    a place   on the place's roster                   nobody                              Waiting, Idle
//	Waiting    nothing   on its home, if it has forks to show    its stand-in (HandBack)             Beside
//	Beside     nothing   on its home, which owes it a place      who gives that place back           Holding, Waiting, Idle
//	Idle       nothing   on its placement's list                 who takes it off that list          Holding, Ended; guests: Beside
//	Ended      nothing   nowhere                                 nobody
//
// Its **home** is the roster of the place that it has or had last. A worker in the state Beside computes without a place: it
// has come back from a wait while a stand-in has its place.
//
// A guest is Idle while it is away, Beside while it computes, and Waiting. Its home is a roster of guests, which owes
// nothing. A worker that was hired for one job that no place could run is like a guest, and then becomes idle.

// State is the state of a worker.
type State uint8

// The states of a worker.
const (
	Fresh State = iota
	Holding
	Waiting
	Beside
	Idle
	Ended
)

// follows has the states in which a worker may go on, as bits, for each state.
var follows = [...]uint8{
	Fresh:   1<<Holding | 1<<Beside | 1<<Idle,
	Holding: 1<<Waiting | 1<<Idle,
	Waiting: 1 << Beside,
	Beside:  1<<Holding | 1<<Waiting | 1<<Idle,
	Idle:    1<<Holding | 1<<Beside | 1<<Ended,
	Ended:   0,
}

func (s State) String() string {
	return [...]string{"fresh", "holding", "waiting", "beside", "idle", "ended"}[s]
}

// Worker is what the protocol knows of a worker. Only its goroutine may call the methods that change its state, and the
// monitor for it (noticed.go).
type Worker struct {
	// Thieves read the first two, and nothing else.

	below atomic.Pointer[Worker] // the next of the workers linked to home; under home.Mu
	shown Shown                  // what thieves see of it; constant

	linked  bool                  // to home; under home.Mu
	granted atomic.Pointer[Place] // see the table of states

	noticed

	Parker Parker
	Guest  bool  // it is a goroutine from outside; constant
	pool   *Pool // constant

	// placement is where it may run, or, if it is not bound, where it ran when it last looked. The owner writes, and the monitor
	// when it gives the worker its place back. Either value will do for who reads it meanwhile.
	placement published.Pointer[Placement]

	// Owner only, and the monitor while the owner's goroutine waits.

	state published.Word // a State
	home  *Roster        // nil if it is idle and no guest
}

// Init makes a worker, which is Fresh. One that is locked to its thread sleeps on a futex.
func (w *Worker) Init(p *Pool, s *Placement, shown Shown, locked bool) {
	w.pool, w.shown = p, shown
	w.placement.Set(s)
	w.Parker.Init(locked)
}

// InitGuest makes a guest of a roster, which is away.
func (w *Worker) InitGuest(p *Pool, s *Placement, shown Shown, r *Roster) {
	w.Init(p, s, shown, false)
	w.Guest, w.home = true, r
	w.state.Set(uintptr(Idle))
}

// State returns the state. Owner only.
func (w *Worker) State() State { return State(w.state.Own()) }

// Placement returns where the worker may run, or, if it is not bound, where it ran when it last looked. Owner only.
func (w *Worker) Placement() *Placement { return w.placement.Own() }

// Node returns the node of the placement. Owner only.
func (w *Worker) Node() int { return w.placement.Own().Node }

// SeenOn is Node for others.
func (w *Worker) SeenOn() int { return w.placement.Load().Node }

// Move is called by a worker that is not bound, with its place, when it runs at another placement.
func (w *Worker) Move(pl *Place, placement int) {
	w.pool.seats.Move(pl.Index, placement)
	w.placement.Set(pl.Placement())
}

// Home returns the worker's home, or nil if it has none.
func (w *Worker) Home() *Roster { return w.home }

// HomeIndex returns the index of the place at whose roster the worker is, or -1 for one of guests.
func (w *Worker) HomeIndex() int {
	if pl := w.home.of; pl != nil {
		return pl.Index
	}
	return -1
}

// Next returns the next worker on the roster, or nil.
func (w *Worker) Next() *Worker { return w.below.Load() }

// Shown returns what Init was given.
func (w *Worker) Shown() Shown { return w.shown }

func (w *Worker) become(s State) {
	if before := w.State(); follows[before]>>s&1 == 0 {
		w.pool.host.Broken(fmt.Sprintf("a worker that is %v cannot become %v", before, s))
	}
	w.state.Set(uintptr(s))
}

// hold has the worker hold a place, which may have moved to another placement while others held it.
func (w *Worker) hold(pl *Place) {
	w.become(Holding)
	w.placement.Set(pl.Placement())
}

// # Beginning

// Grant gives the place to a Fresh worker, before it begins.
func (w *Worker) Grant(pl *Place) { w.granted.Store(pl) }

// BeginBeside has a Fresh worker begin without a place, in the manner of a guest on the roster.
func (w *Worker) BeginBeside(r *Roster) {
	w.become(Beside)
	w.home = r
	r.Mu.Lock()
	r.Link(w)
	r.Mu.Unlock()
	w.pool.Sleep.Add(policy.OneGuest)
}

// KeptGuests is how many guests that are away a roster keeps for the next callers.
const KeptGuests = 4

// EnterGuest has a guest of the roster compute: one that is away, or one that newGuest makes. It is on the roster, and then
// counts, before it forks, since thieves look at the rosters of guests only if there are guests.
func (p *Pool) EnterGuest(r *Roster, newGuest func() *Worker) (w *Worker) {
	r.Mu.Lock()
	if n := len(r.away); n > 0 {
		w, r.away[n-1] = r.away[n-1], nil
		r.away = r.away[:n-1]
	} else {
		w = newGuest()
	}
	w.become(Beside)
	r.Link(w)
	r.Mu.Unlock()
	p.Sleep.Add(policy.OneGuest - policy.OneSleeper)
	return w
}

// LeaveGuest has the guest be away, and says whether the roster keeps it for the next caller. A worker may have left a fork
// alone because of this guest. If all places sleep, no worker waits and there is no other guest, not even one that waits,
// there is no fork either.
func (w *Worker) LeaveGuest() (kept bool) {
	p, r := w.pool, w.home
	r.Mu.Lock()
	w.become(Idle)
	r.Unlink(w)
	if kept = len(r.away) < KeptGuests; kept {
		r.away = append(r.away, w)
	}
	r.Mu.Unlock()
	state := p.Sleep.Add(policy.OneSleeper - policy.OneGuest)
	nobody := state.Sleepers() >= p.Size() && !state.HasGuests() && p.waits.Load() == 0
	if state.WantsForks() && !nobody {
		p.NotifySeen()
	}
	return kept
}

// # Between jobs

// TakeUp takes up the place that the worker was granted, and returns it; nil if there is none.
func (w *Worker) TakeUp() *Place {
	if w.granted.Load() == nil {
		return nil
	}
	pl := w.granted.Swap(nil)
	before := w.home
	w.home = &pl.Roster
	w.hold(pl) // before the lock: a wait for it may be noticed
	if before != w.home {
		pl.Mu.Lock()
		pl.Link(w)
		pl.Mu.Unlock()
	}
	return pl
}

// EndBeside is called when the job of a worker without a place has ended. If the worker was granted its place just now,
// that is returned. Else the worker is to become idle: BeIdle.
func (w *Worker) EndBeside() *Place {
	if pl := w.forgo(); pl != nil {
		w.hold(pl)
		return pl
	}
	w.home.unlink(w)
	if w.home.of == nil {
		w.pool.Sleep.Add(-policy.OneGuest)
	}
	return nil
}

// BeIdle puts the worker on the list of idle workers, unless that is full, and then lets go of pl, the place
// that it had until now, if any. Once on the list, it may be granted another place at any time. The place goes to the first
// worker that wants it back; if there is none, it sleeps.
func (w *Worker) BeIdle(pl *Place) {
	kept := false
	if pl != nil {
		kept = w.pool.host.LetsGo(pl)
		w.home.unlink(w)
	}
	w.listIdle()
	switch {
	case pl == nil:
	case !pl.giveBack(false):
		pl.FallAsleep()
	case kept: // the worker that has the place now is in the middle of a job
		w.pool.NotifySeen()
	}
	w.pool.Leave()
}

// listIdle makes the worker Idle, or Ended if the list is full.
func (w *Worker) listIdle() {
	w.home = nil
	w.become(Idle) // before it is on the list, from which a waker may take it at once
	if !w.Placement().push(w) {
		w.become(Ended)
	}
}

// AwaitPlace is called by an idle worker. It returns the place that the worker is granted; nil if the worker must end.
// Meanwhile the worker may be the lookout of others.
func (w *Worker) AwaitPlace() *Place {
	for w.State() == Idle {
		w.Parker.Park()
		if pl := w.TakeUp(); pl != nil {
			return pl
		}
		w.lookOut()
	}
	return nil
}

// ClosePlace closes the place that the worker has, unless the pool needs it again by now. If it returns true the worker is
// idle. Nothing may be left in the place's queues.
func (w *Worker) ClosePlace(pl *Place) bool {
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl.Index < p.Size() {
		return false
	}
	pl.open = false
	p.host.Closes(pl)
	p.setControl(controlClose, p.anyTooMany())
	w.home.unlink(w)
	w.listIdle()
	p.active.Add(-1)
	p.changed.Broadcast()
	// This worker leaves the work that it saw, and stayed awake for, to other workers. If it was the hot worker,
	// another one must be.
	if p.hot {
		p.WakeOne(pl.Node(), -1)
	} else {
		p.NotifySeen()
	}
	return true
}

// # Waiting: waiting.md

// Lend is called by a worker that is about to wait, and has made its forks visible: another worker may work in its place,
// pl, which is nil if it has none, or the place sleeps. If it shows forks or may do so while it waits, it stays on its home.
func (w *Worker) Lend(pl *Place, shows bool) {
	p := w.pool
	if pl == nil && !w.Guest { // it came back from an earlier wait, and has not got its place yet
		pl = w.forgo()
	}
	w.become(Waiting)
	if !shows {
		w.home.unlink(w)
	}
	if w.Guest {
		p.Sleep.Add(policy.OneSleeper)
		p.NotifySeen() // its forks, or those that were left alone because of it
		return
	}
	p.waits.Add(1)
	if p.control.Load()&controlHold != 0 {
		p.NotifySeen() // what the worker waits for goes on
		p.Forward()
	}
	if pl == nil {
		return
	}
	pl.Lends.Add(1)
	kept := p.host.LetsGo(pl)
	// Queued tasks come first, or two tasks that wait again and again would pass the place to each
	// other for ever. If none is queued, a stand-in would search, so where that would be in vain the place sleeps.
	sleeps := !pl.Gaps.Spins() && !pl.Gaps.Watches()
	if (sleeps || pl.owed.Load() > 0) && !p.anyWork(false) {
		if pl.giveBack(false) {
			return
		}
		if sleeps {
			pl.FallAsleep()
			return
		}
	}
	pl.standIn = true
	pl.occupy()
	if kept {
		p.NotifySeen() // the worker may poll, on the P on which the stand-in is to run
	}
}

// ComeBack is called by a worker whose wait is over. If its place sleeps, the worker takes it back, and ComeBack returns it.
// If a stand-in works there, both compute until the stand-in is between two jobs, and gives the
// place back.
func (w *Worker) ComeBack() *Place {
	p, home := w.pool, w.home
	home.Mu.Lock()
	defer home.Mu.Unlock()
	home.Link(w)
	w.become(Beside)
	if w.Guest {
		p.Sleep.Add(-policy.OneSleeper)
		return nil
	}
	p.waits.Add(-1)
	pl := home.of
	if pl == nil { // it never had a place
		return nil
	}
	if w.granted.Swap(nil) != nil { // who ended the wait has handed it back
		w.hold(pl)
		return pl
	}
	// The list first, then the bit: the worker that puts the place to sleep does it in the opposite order.
	pl.back = append(pl.back, w)
	pl.owed.Store(int32(len(pl.back)))
	if !p.Sleep.Choose(pl.Index) {
		return nil
	}
	pl.back[len(pl.back)-1] = nil
	pl.back = pl.back[:len(pl.back)-1]
	pl.owed.Store(int32(len(pl.back)))
	p.Sleep.Resumed()
	w.hold(pl)
	pl.endGapInVain()
	return pl
}

// HandBack is called between two jobs by a stand-in, the holder of pl, if its job has ended the wait for which to has lent pl. The place is
// to's from then on, unless others want it back, and the caller is idle. waits says whether to is still in that wait. HandBack says
// whether it was so.
func (w *Worker) HandBack(pl *Place, to *Worker, waits func() bool) bool {
	if pl.HasOrders() {
		return false
	}
	pl.Mu.Lock()
	if !waits() || len(pl.back) > 0 { // perhaps to itself is on the list, and about to say that it does not wait
		pl.Mu.Unlock()
		return false
	}
	kept := w.pool.host.LetsGo(pl)
	w.home.Unlink(w)
	to.granted.Store(pl) // to takes it up in ComeBack, under the lock
	pl.Mu.Unlock()
	w.listIdle()
	if kept { // to is in the middle of a job
		w.pool.NotifySeen()
	}
	w.pool.Leave()
	return true
}

// forgo takes the worker off the list of those that want their place back: its job has ended, or it waits again. It
// returns the place if the worker was given it just now, and else nil.
func (w *Worker) forgo() *Place {
	pl := w.home.of
	if pl == nil { // it never had one
		return nil
	}
	pl.Mu.Lock()
	defer pl.Mu.Unlock()
	pl.back = slices.DeleteFunc(pl.back, func(other *Worker) bool { return other == w })
	pl.owed.Store(int32(len(pl.back)))
	return w.granted.Swap(nil)
}
