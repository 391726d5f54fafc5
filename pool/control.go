package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/internal/policy"
)

// # Places and the workers in them
//
// A pool has places, and workers that take turns in them. Resize changes the number of places. The number of
// workers follows from how many of them wait: each place that is neither asleep nor closed has one worker that
// computes in it. Workers without a place are idle, on the list of their placement. Some are kept for the next
// wake-ups; idle workers beyond these end.

// workerSet controls the workers of a pool. Its fields are under mu unless their comments say otherwise.
type workerSet struct {
	mu      sync.Mutex
	changed sync.Cond    // signalled when a worker has become idle, or the condition of an await may have changed
	waiting atomic.Int32 // callers of await; they write

	size   atomic.Int32 // how many places there should be; any goroutine reads
	chosen bool         // Resize has chosen size, so the pool no longer follows
	paused bool
	atRest bool // a Pause has returned, and no Resume has followed

	gaveUp atomic.Bool // a Shutdown returned before the end, and no later call has waited until the end yet
}

// await returns when the condition holds. It evaluates the condition under mu, whenever something may have changed.
func (c *workerSet) await(condition func() bool) { _ = c.awaitContext(context.Background(), condition) }

func (c *workerSet) awaitContext(ctx context.Context, condition func() bool) error {
	defer context.AfterFunc(ctx, c.signal)()
	c.waiting.Add(1) // before the first look: the goroutine that signals looks in the opposite order
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

// signal wakes the callers of await. A goroutine calls it when it may have made their condition true.
func (c *workerSet) signal() {
	if c.waiting.Load() > 0 {
		c.mu.Lock()
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// Orders to workers, in Pool.control.
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

// isControlled says whether the worker has an order for obeyControl: to give up its place, or to open a letter.
func (w *Worker) isControlled() bool {
	if len(w.stash) > 0 {
		return false // no other worker sees the tasks there
	}
	return w.owed.Load() > 0 || w.letters.Load() > 0 || w.pool.control.Load() != 0 && (w.pool.held() || w.isTooMany())
}

// held says whether no task may begin. A running task that waits may wait for one that has not begun, so while a
// worker waits the pool goes on.
func (p *Pool) held() bool {
	return p.control.Load()&controlHold != 0 && p.waits.Load() == 0
}

// isTooMany says whether the pool has more places than it should have, and this is one of those that must close.
func (pl *place) isTooMany() bool {
	return pl.pool.control.Load()&controlClose != 0 && pl.index >= pl.pool.size()
}

// obeyControl obeys an order that isControlled has found, in a worker that is between two jobs: the worker opens a
// letter, closes its place, or gives it up. It returns false if there is nothing to obey any more.
func (w *Worker) obeyControl() bool {
	w.stopSearching() // wakes another worker for what this one was woken for
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

// closePlace closes the worker's place, unless the pool needs it again by now.
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
	if pl.index < p.size() {
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
	w.freeCells(true)
	w.home = nil
	w.kept = w.placement.push(w)
	p.active.Add(-1)
	p.workerSet.changed.Broadcast()
	// This worker leaves the work that it saw, and stayed awake for, to other workers. If it was the hot worker,
	// another one must be.
	if p.latency {
		p.wakeOne(pl.placement.node, -1)
	} else {
		p.notifySeen()
	}
	return true
}

// anyTooMany says whether there is an open place that must close. Under workerSet.mu.
func (p *Pool) anyTooMany() bool {
	places := p.victims()
	return slices.ContainsFunc(places[min(p.size(), len(places)):], func(pl *place) bool { return pl.open })
}

// Resize changes the number of workers to n, from 1 to [Tuning].MaxWorkers. New workers start at once. A surplus
// worker finishes the task that it is in, and leaves its queued tasks to the others. Any goroutine may call Resize,
// any number at the same time; the last call counts. From then on the pool no longer follows GOMAXPROCS.
func (p *Pool) Resize(n int) error {
	if err := p.usable(); err != nil {
		return err
	}
	if p.shared {
		return errShared
	}
	return p.resize(n, true)
}

// followPeriod is how often a pool looks at GOMAXPROCS and the CPUs of the process.
const followPeriod = 100 * time.Millisecond

// follow looks at GOMAXPROCS if such a look is due. It notes the number of Ps, and gives the pool as many workers,
// but no more than there are CPUs that the process may use, unless an option or Resize has chosen their number. Go
// adapts GOMAXPROCS to the limits of its cgroup every second or so.
func (p *Pool) follow(now int64) {
	due := p.followDue.Load()
	if now < due || !p.followDue.CompareAndSwap(due, now+p.ticksFollow) {
		return
	}
	p.ps.Store(int32(runtime.GOMAXPROCS(0)))
	if !p.follows {
		return
	}
	most := min(p.maxWorkers, ownPs())
	if p.cpus != nil { // workers beyond these CPUs would share them
		most = min(most, len(p.cpus))
	}
	allowed, _ := p.machine.allowed()
	if n := min(most, countOf(allowed)); n != p.size() {
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
	p.setControl(controlClose, p.anyTooMany()) // before Choose: a place that goes to sleep does the two in the opposite order
	for i := len(p.victims()); i < n; i++ {
		p.places[i] = newPlace(p, i)
		p.reach.Store(int32(i) + 1)
	}
	for i, pl := range p.victims() {
		switch {
		case i < n && !pl.open:
			pl.open = true
			opened = append(opened, pl)
		case i >= n && pl.open && p.sleep.Choose(i):
			p.sleep.Resumed()
			pl.open = false
			pl.dropLetters()
		}
	}
	p.setControl(controlClose, p.anyTooMany())
	c.mu.Unlock()
	for _, pl := range opened {
		pl.doze() // the place wakes up again if there is work
	}
	p.notifySeen()
	return nil
}

// Pause keeps the workers from starting tasks. It returns when no worker is in the middle of a task, or with the
// cause when ctx ends first; that ends only the wait, not the pause. Tasks are accepted and queue up. What a
// running task waits for goes on; so do guests, but without help. [Pool.Resume] ends the pause, and so does Close.
// Pause is refused where Close is: inside a task, and in a function that a call at the pool runs.
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
	if p.serves() {
		return errors.New("pool: Pause was called inside a task of the same pool or a call at it, for which it may wait; call it from outside")
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
// process. Meanwhile the caller's place is lent: another worker computes in it, and thieves can take the caller's
// queued tasks and forks. When f has returned, the caller goes on at once. F must not use the worker. A guest does
// not count as computing while it waits. The items of one loop are not tasks: while one waits, those behind it in its
// chunk may not begin, see [Granularity].
//
// Any number of tasks may lend their places at a time. Cost: a microsecond, and the start of a goroutine if no
// worker is idle.
func (w *Worker) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Worker.Block"))
	}
	w.mustBeMine("Worker.Block")
	w.pool.wait("Worker.Block", nil, f)
}

// Block is [Worker.Block] for functions that were given no worker, such as those of package par: it finds the
// worker of the calling goroutine. If there is none it just calls f.
func (p *Pool) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Pool.Block"))
	}
	p.wait("Pool.Block", nil, f)
}

// Block is [Pool.Block].
func (v *View) Block(f func()) {
	if f == nil {
		panic(errNilFunc("View.Block"))
	}
	v.view().p.wait("View.Block", nil, f)
}

// # Idle workers

// sparesPerPlacement is how many idle workers a placement keeps beyond those that its places need. The spares are
// the next stand-ins. Each is a goroutine, or a thread if it is bound.
const sparesPerPlacement = 8

// push puts w on the placement's list of idle workers, and says whether it did. If there are enough idle workers,
// or the pool has ended, it did not, and w must end.
func (s *placement) push(w *Worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= s.places+sparesPerPlacement {
		return false
	}
	s.idle = append(s.idle, w)
	return true
}

// pop takes the worker that became idle last, whose stack is the most likely to be in the cache. It returns nil if
// there is none.
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

// hire starts a worker in a place.
func (p *Pool) hire(pl *place) { p.start(pl.placement, func(w *Worker) { w.granted.Store(pl) }) }

// hireFor starts a worker without a place for a job, in the manner of a guest of the node. After the end of the pool only
// a guest that has stayed longer can need it.
func (p *Pool) hireFor(node int, j job) {
	if j.task != nil {
		p.beside.Add(1)
	}
	n := &p.nodes[node]
	p.start(&p.placements[n.guestsAt], func(w *Worker) {
		w.first, w.home = &j, &n.guests[0].roster
		w.home.mu.Lock()
		w.home.link(w)
		w.home.mu.Unlock()
		p.sleep.Add(policy.OneGuest)
	})
}

// start starts a worker, which begins as the function says. After the end of the pool the worker is not bound, no
// caller waits for its end, and it ends when it would become idle.
func (p *Pool) start(s *placement, begin func(w *Worker)) {
	s.mu.Lock()
	late := s.closed
	if !late {
		p.ended.Add(1) // under the lock, before close: a caller that waits for the end waits for this worker, too
	}
	s.mu.Unlock()
	w := p.newWorker(s, false, !late && s.bind())
	w.late = late
	begin(w)
	go w.start(nil)
}

// close ends all idle workers. Workers that would become idle later end as well.
func (s *placement) close() {
	s.mu.Lock()
	idle := s.idle
	s.closed, s.idle = true, nil
	s.mu.Unlock()
	for _, w := range idle {
		w.parker.unpark() // without a place, so the worker ends
	}
}

// mostBound limits how many workers of the process are bound to CPUs at a time; each has a thread of its own, and
// the Go runtime ends a process that has 10,000 threads (debug.SetMaxThreads). A placement binds as many workers as
// it keeps when they are idle. Workers beyond that, which it needs because as many others wait, are not bound.
const mostBound = maxWorkers

var boundWorkers atomic.Int32

var errTooManyBound = fmt.Errorf("the process has bound %d threads for pools already, and the Go runtime ends "+
	"a process with 10,000 threads; use fewer workers, or PinNone", mostBound)

// bind says whether the next worker of the placement is to be bound, and if so counts it.
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

// unbind uncounts a bound worker, at its end.
func (s *placement) unbind() {
	s.mu.Lock()
	s.bound--
	s.mu.Unlock()
	boundWorkers.Add(-1)
}

// # All workers

// workerList holds all workers of a pool by their IDs, guests included.
type workerList struct {
	mu      sync.Mutex
	all     []*Worker // nil for an ID that is free
	free    []int
	retired account // of workers that have ended
}

// add gives w an ID.
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

// remove takes back the ID of a worker that has ended.
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

// account holds what is counted and measured for each worker, and not for each place.
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

// len returns a number above all IDs that are in use.
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
