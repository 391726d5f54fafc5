package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// # Places and the workers in them
//
// A pool has places and workers that take turns in them. How many places there are
// can change (Resize); how many workers there are follows from how many of them wait: each place
// that is neither asleep nor closed has one who computes in it. Workers without a place are idle,
// on the list of their placement, and beyond some that are kept for the next wake-up they end.

// workerSet is who works for a pool. Its fields are under mu unless it says otherwise.
type workerSet struct {
	mu      sync.Mutex
	changed sync.Cond    // a worker became idle, or what await waits for may have changed
	waiting atomic.Int32 // callers of await; they write

	size   atomic.Int32 // how many places there should be; anybody reads
	chosen bool         // by Resize, so that GOMAXPROCS does not matter any more
	paused bool
	atRest bool // a Pause has returned, and nobody has resumed

	gaveUp atomic.Bool // a Shutdown came back before the end, and nobody else yet
}

// await returns when the condition holds, which it asks under mu whenever something
// has changed.
func (c *workerSet) await(condition func() bool) { _ = c.awaitContext(context.Background(), condition) }

func (c *workerSet) awaitContext(ctx context.Context, condition func() bool) error {
	defer context.AfterFunc(ctx, c.signal)()
	c.waiting.Add(1) // before the first look: who signals looks in the opposite order
	defer c.waiting.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !condition() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.changed.Wait()
	}
	return nil
}

// signal is for the goroutine that may have made a condition true.
func (c *workerSet) signal() {
	if c.waiting.Load() > 0 {
		c.mu.Lock()
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// Orders to workers.
const (
	controlHold  = 1 << iota // the pool is paused
	controlClose             // there are too many places
)

func (p *Pool) setControl(what uint32, on bool) {
	if on {
		p.control.Or(what)
	} else {
		p.control.And(^what)
	}
}

// isControlled says whether the worker should give up its place.
func (w *Worker) isControlled() bool {
	if len(w.stash) > 0 {
		return false // nobody else sees what is there
	}
	return w.owed.Load() > 0 || w.letters.Load() > 0 || w.pool.control.Load() != 0 && (w.pool.held() || w.isTooMany())
}

// held says whether no task is to begin. A running task that waits may wait for one that has not
// begun, so while one does, the pool goes on.
func (p *Pool) held() bool {
	return p.control.Load()&controlHold != 0 && p.waits.Load() == 0
}

// isTooMany says whether the pool has more places than it should have, and this is one that
// should not be there.
func (pl *place) isTooMany() bool {
	return pl.pool.control.Load()&controlClose != 0 && pl.rank >= pl.pool.size()
}

// obeyControl is for a worker that is in the middle of nothing and was ordered to give up its place. It
// says whether it has.
func (w *Worker) obeyControl() bool {
	w.stopSearching() // wakes another one for what this one was woken for
	if w.owed.Load() == 0 && !w.pool.held() {
		if letter := w.openLetter(); letter != nil {
			w.run(job{task: letter})
			return true
		}
	}
	if w.isTooMany() && w.owed.Load() == 0 {
		return w.closePlace()
	}
	w.giveUp()
	return true
}

// closePlace closes the worker's place, unless the pool has come to need it meanwhile.
func (w *Worker) closePlace() bool {
	p, pl := w.pool, w.place
	for t := w.nextLocalTask(); t != nil; t = w.nextLocalTask() { // before it is off the list, or drain would not see the tasks
		if !w.injector().Push(t) { // the pool began to close just now, and this was accepted before
			w.run(job{task: t})
			return true
		}
	}
	p.workerSet.mu.Lock()
	defer p.workerSet.mu.Unlock()
	if pl.rank < p.size() {
		return false
	}
	pl.open = false
	pl.dropLetters()
	p.setControl(controlClose, p.anyTooMany())
	pl.mu.Lock()
	pl.unlink(w)
	pl.mu.Unlock()
	w.place = nil
	w.trim()
	w.home = nil
	w.kept = w.placement.push(w)
	p.active.Add(-1)
	p.workerSet.changed.Broadcast()
	// What this worker has seen and stayed awake for is left to others, and if it was the hot one,
	// another one has to be.
	if p.latency {
		p.wakeOne(pl.placement.node, -1)
	} else {
		p.notifySeen()
	}
	return true
}

// anyTooMany says whether there is a place that should not be there, under workerSet.mu.
func (p *Pool) anyTooMany() bool {
	for rank := p.size(); rank < p.maxWorkers; rank++ {
		if pl := p.placeOf(rank); pl != nil && pl.open {
			return true
		}
	}
	return false
}

// placeOf returns the place with a rank, or nil if it was never made.
func (p *Pool) placeOf(rank int) *place {
	if i := p.indexOf(rank); i < int(p.reach.Load()) {
		return p.places[i]
	}
	return nil
}

// indexOf returns the index of the place with a rank: those for guests lie between the first
// ones and the others.
func (p *Pool) indexOf(rank int) int {
	if rank < p.first {
		return rank
	}
	return rank + p.nGuests
}

// Resize changes the number of workers to n, from 1 to [Tuning].MaxWorkers. New workers start
// at once; those who are too many finish the task that they are in and leave the others
// to the rest. Anybody may call it, any number at the same time; the last one counts. From then on
// the pool does not follow GOMAXPROCS any more.
func (p *Pool) Resize(n int) error {
	if err := p.usable(); err != nil {
		return err
	}
	if p.shared {
		return errShared
	}
	return p.resize(n, true)
}

// followPeriod is how often a pool looks at GOMAXPROCS.
const followPeriod = 100 * time.Millisecond

// follow is for who comes by now and then: it notes how many Ps there are, and a pool whose number of
// workers nobody has chosen gets as many. Go changes that with the limits of its cgroup, every second or so.
func (p *Pool) follow(now int64) {
	due := p.followDue.Load()
	if now < due || !p.followDue.CompareAndSwap(due, now+p.ticksFollow) {
		return
	}
	p.ps.Store(int32(runtime.GOMAXPROCS(0)))
	if n := min(ownPs(), p.follows); n > 0 && n != p.size() {
		_ = p.resize(n, false) // which fails only if the pool is closed
	}
}

func (p *Pool) resize(n int, chosen bool) error {
	if n < 1 || n > p.maxWorkers {
		return fmt.Errorf("pool: Resize(%d): this pool can have from 1 to %d workers; Tuning.MaxWorkers sets the limit", n, p.maxWorkers)
	}
	if p.closing.Load() {
		return ErrClosed
	}
	var opened []*place
	c := &p.workerSet
	c.mu.Lock()
	if p.exit.Load() {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.chosen = c.chosen || chosen; c.chosen && !chosen {
		c.mu.Unlock()
		return nil
	}
	c.size.Store(int32(n))
	p.setControl(controlClose, p.anyTooMany()) // before the look at who sleeps, or a place could sleep through both
	for rank := range p.maxWorkers {
		pl := p.placeOf(rank)
		switch {
		case rank < n && pl == nil:
			pl = newPlace(p, p.indexOf(rank), rank)
			p.places[pl.index] = pl
			p.reach.Store(int32(pl.index) + 1)
			fallthrough
		case rank < n && !pl.open:
			pl.open = true
			opened = append(opened, pl)
		case rank >= n && pl != nil && pl.open && p.sleep.Choose(pl.index):
			p.sleep.Taken()
			pl.open = false
			pl.dropLetters()
		}
	}
	p.setControl(controlClose, p.anyTooMany())
	c.mu.Unlock()
	for _, pl := range opened {
		pl.doze() // and wakes up, if there is something to do
	}
	p.notifySeen()
	return nil
}

// Pause keeps the workers from starting tasks, and returns when none is in the middle of
// one, or with the cause when ctx ends before that. Tasks are accepted and queue up. What
// a running task waits for goes on, and so do guests, without help. [Pool.Resume] ends
// it, and so does Close; the end of ctx ends only the wait. A task must not pause its own
// pool, for which it would wait.
func (p *Pool) Pause(ctx context.Context) (err error) {
	if err := p.usable(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext("Pool.Pause")
	}
	if p.shared {
		return errShared
	}
	if p.current() != nil {
		return errors.New("pool: Pause was called inside a task of the same pool, for which it would wait; call it from outside")
	}
	c := &p.workerSet
	c.mu.Lock()
	if p.closing.Load() {
		c.mu.Unlock()
		return ErrClosed
	}
	c.paused = true
	p.setControl(controlHold, true)
	c.mu.Unlock()
	resumed := false
	p.wait("Pool.Pause of another pool", nil, func() {
		err = c.awaitContext(ctx, func() bool {
			resumed = !c.paused
			c.atRest = !resumed && p.allRest()
			return resumed || c.atRest
		})
	})
	if err == nil && resumed {
		return errors.New("pool: Resume was called before all workers had paused")
	}
	return err
}

// Resume ends a Pause. It does nothing if the pool is not paused.
func (p *Pool) Resume() {
	if p.usable() != nil {
		return
	}
	c := &p.workerSet
	c.mu.Lock()
	c.paused, c.atRest = false, false
	p.setControl(controlHold, false)
	c.changed.Broadcast()
	c.mu.Unlock()
	if p.latency && !p.closing.Load() {
		p.wakeOne(0, -1) // one is to watch
	}
	p.notifySeen() // the first who wakes up wakes the next
	p.forward()
}

// Block calls f, which waits for something: the network, a lock, a channel, another
// process. Meanwhile the caller's place is lent: another worker computes in it, and the caller's
// queued tasks and forks can be stolen. When f has returned, the caller goes on at once. F must
// not use the worker. A guest does not count as computing while it waits.
//
// As many places may be lent at a time as there are tasks. Cost: a microsecond, and the
// start of a goroutine if no worker is idle.
func (w *Worker) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Worker.Block"))
	}
	w.mustBeMine("Worker.Block")
	w.pool.wait("Worker.Block", nil, f)
}

// Block is [Worker.Block] for functions that were given no worker, such as those of package par: it finds the one that the calling goroutine
// is. Where there is none it just calls f.
func (p *Pool) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Pool.Block"))
	}
	p.wait("Pool.Block", nil, f)
}

// Block is [Pool.Block].
func (b *View) Block(f func()) {
	if f == nil {
		panic(errNilFunc("View.Block"))
	}
	b.at().p.wait("View.Block", nil, f)
}

// # Idle workers

// sparesPerPlacement is how many idle workers a placement keeps beyond those that its places need: for the
// next ones that lend their places. Each is a goroutine, or a thread if it is bound.
const sparesPerPlacement = 8

// push makes w one of the placement's idle workers, and says whether it is. If there are enough, or
// the pool has ended, w has to end.
func (s *placement) push(w *Worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= s.places+sparesPerPlacement {
		return false
	}
	s.idle = append(s.idle, w)
	return true
}

// pop takes the one who came last, whose stack is the most likely to be in the cache, or returns
// nil.
func (s *placement) pop() *Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle) - 1
	if n < 0 {
		return nil
	}
	w := s.idle[n]
	s.idle[n] = nil
	s.idle = s.idle[:n]
	return w
}

// hire starts a worker: for a place, or with something to do first, and then pl is just its home.
// If the pool has ended, only a guest that has stayed longer can need it: then the worker is not
// bound, nobody waits for its end, and it ends when it would become idle.
func (p *Pool) hire(pl *place, first *job) {
	s := pl.placement
	s.mu.Lock()
	late := s.closed
	if !late {
		p.ended.Add(1) // under the lock, before close: a caller that waits for the end waits for this one
	}
	s.mu.Unlock()
	w := p.newWorker(s, false, !late && s.bind())
	w.late = late
	if w.first = first; first == nil {
		w.granted.Store(pl)
	} else {
		w.home = pl
		pl.mu.Lock()
		pl.link(w)
		pl.mu.Unlock()
	}
	go w.start(nil)
}

// close ends all idle workers, and those who would become idle.
func (s *placement) close() {
	s.mu.Lock()
	idle := s.idle
	s.closed, s.idle = true, nil
	s.mu.Unlock()
	for _, w := range idle {
		w.parker.unpark() // without a place
	}
}

// mostBound is how many workers of the process are bound to CPUs at a time, each by a thread of
// its own. The Go runtime ends a process that has 10,000 threads (debug.SetMaxThreads). A
// placement's share is as many as it keeps when they are idle. Those who come beyond that, because as
// many others wait, are not bound.
const mostBound = maxWorkers

var boundWorkers atomic.Int32

var errTooManyBound = fmt.Errorf("the process has bound %d threads for pools already, and the Go runtime ends "+
	"a process with 10,000 threads; use fewer workers, or PinNone", mostBound)

// bind says whether the next worker of the placement is to be bound, and counts it.
func (s *placement) bind() bool {
	if s.cpus == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound >= s.places+sparesPerPlacement {
		return false
	}
	if boundWorkers.Add(1) > mostBound {
		boundWorkers.Add(-1)
		return false
	}
	s.bound++
	return true
}

// unbind is for a bound worker that ends.
func (s *placement) unbind() {
	s.mu.Lock()
	s.bound--
	s.mu.Unlock()
	boundWorkers.Add(-1)
}

// # All workers

// workerList holds all workers of a pool by their IDs, guests too.
type workerList struct {
	mu      sync.Mutex
	all     []*Worker // nil for an ID that is free
	free    []int
	retired account // of workers that have ended
}

// add gives w a number.
func (l *workerList) add(w *Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		w.id, l.free = l.free[n-1], l.free[:n-1]
	} else {
		w.id = len(l.all)
		l.all = append(l.all, nil)
	}
	l.all[w.id] = w
}

// remove takes back the number of a worker that has ended.
func (l *workerList) remove(w *Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[w.id] = nil
	l.free = append(l.free, w.id)
	l.retired.settle(w)
}

// accounts returns the sums of what workers have counted and measured.
func (l *workerList) accounts() (published uint64, t *timings) {
	sum := new(account)
	l.mu.Lock()
	defer l.mu.Unlock()
	sum.published = l.retired.published
	sum.timings.merge(&l.retired.timings)
	for _, w := range l.all {
		if w != nil {
			sum.settle(w)
		}
	}
	return sum.published, &sum.timings
}

// account is what workers have counted and measured by themselves, and not for a place.
type account struct {
	published uint64
	timings   timings
}

func (a *account) settle(w *Worker) {
	a.published += w.publishes.Load()
	if w.timings != nil {
		a.timings.merge(w.timings)
	}
}

// len returns a number above all that are in use.
func (l *workerList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

func (l *workerList) each(f func(w *Worker)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.all {
		if w != nil {
			f(w)
		}
	}
}
