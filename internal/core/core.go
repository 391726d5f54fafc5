// Package core is the protocol of a pool: who computes, who sleeps, who wakes whom, and what happens while a worker
// waits. It knows places, workers and wake-ups, but no task, fork, label or group: the [Host], which is package pool or a
// test, says what there is to do, and does it.
//
//	core.go      Pool and Host; size, pause, end
//	worker.go    the states of a worker; lend and come back
//	place.go     places and rosters; give back
//	sleep.go     places fall asleep and are woken up; sleep.md has the argument
//	search.go    how long a worker searches before its place falls asleep
//	idle.go      idle workers, and how many are bound to CPUs
//	noticed.go   waits that heist does not know of
//	park.go      what an idle or waiting goroutine sleeps on
//	turns.go     bounds that count what computes
//
// sleep.md and waiting.md say why nothing is missed and nothing hangs. verify/interleave runs small programs over this
// package in all their interleavings. A step that a worker's state does not allow ends the
// process.
package core

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// Host is what the protocol is for.
type Host interface {
	// AnyWork says whether there is something that a worker could take: a task or a child, or, if forks count, a fork. It
	// also says where: on which node, and at which place, or -1 for none. If forks count and it finds none, it raises
	// the alarm on all rosters. If they do not count and there is one, a monitor is to look from now on (sleep.md, "Forks"). It looks
	// at everything.
	AnyWork(forks bool) (node, place int, ok bool)
	// Hire makes a new worker of the placement, calls begin for it, and then starts it.
	Hire(s *Placement, begin func(w *Worker))
	// NewPlace makes what belongs to a place, and returns the place. Under the lock of the size.
	NewPlace(index int) *Place
	// Broken is called for a step that a worker's state does not allow, after which nothing can be trusted. It does not return.
	Broken(what string)
	// LetsGo is called before a holder lets go of its place, by it or for it, unless the place closes: what the holder kept for itself is everybody's
	// from then on. It says whether there is something for which no worker has been woken.
	LetsGo(pl *Place) bool
	// Closes is called when a place closes, for what its holder alone would have done. Under the lock of the size.
	Closes(pl *Place)
	// Monitor is called when there is something to do and no place sleeps: from now on a monitor is to look for workers that
	// wait. It may be called again before it has set Monitored.
	Monitor()
	// Lent and GoesOn are called for a worker whose wait is noticed, and when the wait is over. What belongs to its job has
	// turns to give away, and to take back.
	Lent(w *Worker)
	GoesOn(w *Worker)
	// LookAt looks whether w waits, and then calls Notice.
	LookAt(w *Worker)
}

// Pool is the protocol's state for a pool. The exported methods may be called by any goroutine, unless they say who may.
type Pool struct {
	host Host // constant

	placements []Placement   // the list itself is constant
	seats      *policy.Seats // constant; holders move their places
	nearby     [][]int       // node -> all nodes, nearest first; constant
	onCPU      []int         // CPU -> the first place that is bound to this CPU alone, or -1; nil if no place is; constant
	hot        bool          // a worker watches for ever; constant
	time       Time          // nil for the CPU's; constant

	// Periods, in heist.Ticks. Constant.

	TicksAnswer           int64 // how recent a sign of a searcher must be, for others to rely on it
	TicksSpin, TicksWatch int64 // the gaps that a spin and a watch bridge

	// places holds the places that the pool has begun with, then those that Resize adds. The places below reach have
	// been made. Constant below reach, under mu from there on.
	places []*Place
	reach  atomic.Int32 // written under mu

	_ pad.Line

	// Workers and submitters read these fields for each task. In a pool that just works no goroutine writes them.

	control   atomic.Uint32 // orders to workers, see below; written under mu
	Closing   atomic.Bool   // the pool accepts nothing more; the first caller of Close writes, once
	exit      atomic.Bool   // everything is done; End writes, once
	Monitored atomic.Bool   // a monitor looks, or none is wanted; the host writes
	size      atomic.Int32  // how many places there should be; written under mu

	_ pad.Line

	Sleep policy.Sleep

	_ pad.Line

	// These fields change when a worker goes to sleep or waits, or a guest comes.

	watched    atomic.Bool  // a worker watches; that worker writes
	Woken      atomic.Int32 // woken places whose workers do not run yet; wakers add, these workers subtract
	SearchedAt atomic.Int64 // when a searcher last looked or was woken, in heist.Ticks; searchers and wakers write
	active     atomic.Int32 // workers that are not idle; wakers and lenders add, a worker that becomes idle or watches subtracts
	waits      atomic.Int32 // of these, the workers that wait; they write

	mu      sync.Mutex   // the lock of the size
	changed sync.Cond    // signalled when a worker has become idle, or the condition of an Await may have changed
	waiting atomic.Int32 // callers of Await; they write

	chosen bool // Resize has chosen size, so the pool no longer follows; under mu
	paused bool // under mu
	atRest bool // a Pause has returned, and no Resume has followed; under mu

	ended sync.WaitGroup // workers that have not ended, and what else the end waits for
}

// Time is the time of a host that simulates.
type Time interface {
	// Now is the clock, instead of heist.Ticks. It is never 0.
	Now() int64
	// Changes is called before a change of the words that all workers share, for the time that it takes: of the state of
	// Sleep and, unless place is -1, of the bit of a place.
	Changes(place int)
}

// Config is what a pool is made from.
type Config struct {
	Host       Host
	Size       int           // how many places the pool has at first
	Seats      *policy.Seats // the placement of each place that there may be, and its node
	Placements []Placement   // where the workers may run
	Nearby     [][]int       // node -> all nodes, nearest first
	OnCPU      []int         // CPU -> the place whose thread that CPU is for alone, or -1; may be nil
	Hot        bool          // one worker always watches

	TicksAnswer, TicksSpin, TicksWatch int64 // see Pool

	Time Time // of a host that has its own; else nil
}

// Init makes the pool, with its first places, for each of which the host then starts a worker. Without a place the size is 1:
// the caller computes.
func (p *Pool) Init(c Config) {
	p.host, p.placements, p.nearby, p.onCPU, p.hot = c.Host, c.Placements, c.Nearby, c.OnCPU, c.Hot
	p.time = c.Time
	p.TicksAnswer, p.TicksSpin, p.TicksWatch = c.TicksAnswer, c.TicksSpin, c.TicksWatch
	p.changed.L = &p.mu
	for i := range p.placements {
		s := &p.placements[i]
		s.trimmer = time.AfterFunc(math.MaxInt64, s.trim)
		s.trimmer.Stop()
	}
	p.size.Store(int32(max(c.Size, 1)))
	p.active.Store(int32(c.Size))
	p.seats = c.Seats
	p.Sleep.Init(c.Seats, len(c.Nearby))
	p.places = make([]*Place, c.Seats.Len())
	for i := range c.Size {
		p.places[i] = p.host.NewPlace(i)
		p.places[i].open = true
	}
	p.reach.Store(int32(c.Size))
}

// Places returns the places that have been made.
func (p *Pool) Places() []*Place { return p.places[:p.reach.Load()] }

// Placements returns the list of placements.
func (p *Pool) Placements() []Placement { return p.placements }

// Size returns how many places there should be.
func (p *Pool) Size() int { return int(p.size.Load()) }

// Waits returns how many workers wait.
func (p *Pool) Waits() int { return int(p.waits.Load()) }

// # Rest
//
// Active counts the workers that are not idle. Who waits for an end or a pause looks at it whenever a worker has become
// idle.

// Active returns how many workers are not idle.
func (p *Pool) Active() int { return int(p.active.Load()) }

// Rests says whether all workers are idle.
func (p *Pool) Rests() bool { return p.active.Load() == 0 }

// Enter counts one worker more that is not idle. What keeps a pool from its end may call it, and Leave afterwards.
func (p *Pool) Enter() { p.active.Add(1) }

// EnterUnlessAtRest is Enter, unless a Pause has returned: then nothing may begin.
func (p *Pool) EnterUnlessAtRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.atRest {
		p.Enter()
	}
	return !p.atRest
}

// Leave counts one worker less that is not idle.
func (p *Pool) Leave() {
	p.active.Add(-1)
	p.Signal()
}

// Await returns when the condition holds, or with the cause when ctx ends. It evaluates the condition under the lock of
// the size, whenever something may have changed.
func (p *Pool) Await(ctx context.Context, condition func() bool) error {
	defer context.AfterFunc(ctx, p.Signal)()
	p.waiting.Add(1) // before the first look: the goroutine that signals looks in the opposite order
	defer p.waiting.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for !condition() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.changed.Wait()
	}
	return nil
}

// Awaiting returns how many callers of Await there are.
func (p *Pool) Awaiting() int { return int(p.waiting.Load()) }

// Signal wakes the callers of Await. A goroutine calls it when it may have made their condition true.
func (p *Pool) Signal() {
	if p.waiting.Load() > 0 {
		p.mu.Lock()
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// # Size, pause, end
//
// A pool has places, and workers that take turns in them. Resize changes the number of places. The number of
// workers follows from how many of them wait: each place that is neither asleep nor closed has one worker that
// computes in it. Workers without a place are idle, on the list of their placement. Some are kept for the next
// wake-ups; idle workers beyond these end.

// Orders to workers, in Pool.control.
const (
	controlHold  = 1 << iota // the pool is paused
	controlClose             // there are too many places
)

// setControl gives an order or takes it back. Under mu.
func (p *Pool) setControl(what uint32, on bool) {
	if on {
		p.control.Or(what)
	} else {
		p.control.And(^what)
	}
}

// Held says whether no task may begin. A running task that waits may wait for one that has not begun, so while a
// worker waits the pool goes on.
func (p *Pool) Held() bool {
	return p.control.Load()&controlHold != 0 && p.waits.Load() == 0
}

// anyTooMany says whether there is an open place that must close. Under mu.
func (p *Pool) anyTooMany() bool {
	places := p.Places()
	return slices.ContainsFunc(places[min(p.Size(), len(places)):], func(pl *Place) bool { return pl.open })
}

// Resize changes the number of places. It returns false if the pool has ended. Once a caller has chosen the number,
// calls that only follow the machine change nothing.
func (p *Pool) Resize(n int, chosen bool) bool {
	var opened []*Place
	p.mu.Lock()
	if p.exit.Load() {
		p.mu.Unlock()
		return false
	}
	if p.chosen = p.chosen || chosen; p.chosen && !chosen {
		p.mu.Unlock()
		return true
	}
	p.size.Store(int32(n))
	p.setControl(controlClose, p.anyTooMany()) // before Choose: a place that falls asleep does the two in the opposite order
	for i := len(p.Places()); i < n; i++ {
		p.places[i] = p.host.NewPlace(i)
		p.reach.Store(int32(i) + 1)
	}
	for i, pl := range p.Places() {
		switch {
		case i < n && !pl.open:
			pl.open = true
			opened = append(opened, pl)
		case i >= n && pl.open && p.Sleep.Choose(i):
			p.Sleep.Resumed()
			pl.open = false
			p.host.Closes(pl)
		}
	}
	p.setControl(controlClose, p.anyTooMany())
	p.mu.Unlock()
	for _, pl := range opened {
		pl.FallAsleep() // the place wakes up again if there is work
	}
	p.NotifySeen()
	return true
}

// IsChosen says whether a Resize has chosen the size.
func (p *Pool) IsChosen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chosen
}

// EachOpen calls f for each place that is open, while none opens or closes.
func (p *Pool) EachOpen(f func(pl *Place)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range p.Places() {
		if pl.open {
			f(pl)
		}
	}
}

// Pause keeps workers from beginning tasks. It returns false if the pool is closing, whose end it must not hold up.
func (p *Pool) Pause() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Closing.Load() {
		return false
	}
	p.paused = true
	p.setControl(controlHold, true)
	return true
}

// AwaitPause returns when no worker is in the middle of a task, or says that a Resume came before, or returns the cause of
// ctx's end.
func (p *Pool) AwaitPause(ctx context.Context) (resumed bool, err error) {
	p.MayWait()
	err = p.Await(ctx, func() bool {
		resumed = !p.paused
		p.atRest = !resumed && p.Rests()
		return resumed || p.atRest
	})
	return resumed, err
}

// IsPaused says whether a Pause is in effect.
func (p *Pool) IsPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Hold is a Pause of a pool that is closing. A Resume follows.
func (p *Pool) Hold() {
	p.mu.Lock()
	p.setControl(controlHold, true)
	p.mu.Unlock()
}

// Resume ends a Pause or Hold.
func (p *Pool) Resume() {
	p.mu.Lock()
	p.paused, p.atRest = false, false
	p.setControl(controlHold, false)
	p.changed.Broadcast()
	p.mu.Unlock()
	if p.hot && !p.Closing.Load() {
		p.WakeOne(0, -1) // one is to watch
	}
	p.NotifySeen() // the first who wakes up wakes the next
	p.Forward()
}

// Exits says whether everything is done.
func (p *Pool) Exits() bool { return p.exit.Load() }

// End ends the workers. Everything must be done. The host then calls AwaitEnd.
func (p *Pool) End() {
	p.mu.Lock()
	p.exit.Store(true) // under the lock: from here on no place is opened
	p.mu.Unlock()
	for i := range p.placements {
		p.placements[i].close()
	}
}

// AwaitEnd waits until all workers have ended, and what else BeforeEnd has counted.
func (p *Pool) AwaitEnd() { p.ended.Wait() }

// BeforeEnd counts one thing that AwaitEnd waits for until the caller calls over. Only a goroutine that the end waits for may call it, such as a worker.
func (p *Pool) BeforeEnd() (over func()) {
	p.ended.Add(1)
	return p.ended.Done
}

// now is the protocol's clock.
func (p *Pool) now() int64 {
	if p.time != nil {
		return p.time.Now()
	}
	return heist.Ticks()
}

// changes is called before a change of the state of Sleep, by a caller that has cleared the bit of the place or is about to set it;
// -1 for none. The caller holds no lock of a roster or placement, since others may go on meanwhile.
func (p *Pool) changes(place int) {
	if p.time != nil {
		p.time.Changes(place)
	}
}
