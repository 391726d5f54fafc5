package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/census"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/pool/inspect"
)

// ErrClosed is returned for all work that is given to a pool after [Pool.Close] was called.
var ErrClosed = errors.New("pool: the pool is closed")

func errNilFunc(method string) error {
	return fmt.Errorf("pool: %s was given a nil function", method)
}

func errLengths(function, some string, n int, others string, m int) error {
	return fmt.Errorf("pool: %s was given %d %s and %d %s; there must be as many", function, n, some, m, others)
}

func errNilContext(method string) error {
	return fmt.Errorf("pool: %s was given a nil context; use context.Background() for one that does not end", method)
}

var errNoPlace = errors.New("pool: a call was given nil as its place; it must be a *Pool, a *Worker, or what their With returns")

var errNoPool = errors.New("pool: the pool or worker is nil, or a pool that was not made by New")

// Pool is a set of workers. On a machine with one memory node they are goroutines; on larger machines each is a
// thread that is bound to its node's CPUs, see [Pinning]. Create a pool with [New] and end it with [Pool.Close]; a
// pool that is dropped without Close keeps its idle workers for ever. Any goroutine may call the methods.
type Pool struct {
	config // constant

	// places holds the places of the first workers, then those that [Pool.Resize] adds. The places below reach have
	// been made, see victims. Constant below reach, under workerSet.mu from there on.
	places []*place
	reach  atomic.Int32 // written under workerSet.mu
	first  int          // initial number of workers; constant

	placements  []placement      // the list itself is constant
	placementOf []int            // place -> placement; constant
	nodes       []node           // constant
	nodeOfCPU   []int            // CPU -> node, nil if there is one node; constant
	onCPU       []int            // CPU -> the first place that is bound to this CPU alone, or -1; nil if no place is; constant
	victimOrder *policy.Order    // constant
	isolation   *heist.Isolation // nil for none; New writes
	unrestored  error            // why the isolation could not be ended; written before closed is closed, by the same goroutine

	// Periods, in heist.Ticks. Constant.
	ticksGiveWay, ticksSpareGiveWay, ticksMaxTurn, ticksLongTurn, ticksNetwork, ticksFollow, ticksTurn int64
	ticksSpin, ticksWatch, ticksAnswer, ticksRebind, ticksLook, ticksShortLook, ticksLongLook          int64
	ticksLoop                                                                                          policy.PaceTimes
	ticksPerNanosecond                                                                                 float64

	shared bool // it is the pool of Default or Serial; constant

	refuses  chan struct{} // closed at the beginning of Close
	abandons chan struct{} // closed at the beginning of Abort
	closed   chan struct{} // closed at the end of Close

	// Workers and submitters read these fields for each task. In a pool that just works no goroutine writes them.

	// control is not 0 if a worker must look at more than its queues between two tasks. Written under workerSet.mu.
	control atomic.Uint32
	closing atomic.Bool  // Close writes, once
	exit    atomic.Bool  // end writes, once everything is done
	aborted atomic.Bool  // Abort writes, once
	urgent  atomic.Int64 // queued tasks of high priority; submitters add, takers subtract

	_ pad.Line

	sleep policy.Sleep

	_ pad.Line

	// These fields change when a worker goes to sleep or waits, or a guest comes.

	watched    atomic.Bool             // a worker watches; that worker writes
	woken      atomic.Int32            // woken places whose workers do not run yet; wakers add, these workers subtract
	searchedAt atomic.Int64            // when a searcher last looked or was woken, in heist.Ticks; searchers and wakers write
	network    atomic.Pointer[network] // nil until it is needed; a worker writes, once
	networkDue atomic.Int64            // when the next look at it is due, in heist.Ticks; the worker that takes the turn writes
	followDue  atomic.Int64            // when the next look at GOMAXPROCS is due, in heist.Ticks; the goroutine that looks writes
	ps         atomic.Int32            // GOMAXPROCS at the last such look; the same goroutine writes
	active     atomic.Int32            // workers that are not idle; wakers add, a worker that becomes idle subtracts
	waits      atomic.Int32            // of these, the workers that wait; they write
	delayed    atomic.Int64            // tasks that wait for their time; submitters and timers write
	cancelled  atomic.Int64            // cancelled calls that are not over; the canceller adds, the end of the call subtracts
	skipped    atomic.Int64            // tasks that were cancelled before they began; the goroutine that skips one writes
	beside     atomic.Int64            // tasks that began in a worker without a place; the goroutine that hires it adds
	dropped    atomic.Int64            // accepted tasks that no worker will take; a cancelled delay, a dropped backlog and Abort add
	refused    atomic.Int64            // tasks and callers that were not accepted; the goroutine that refuses one writes
	late       atomic.Int64            // tasks that were not begun by their deadline; the worker that finds one writes
	panicked   atomic.Int64            // functions that panicked; the goroutine that recovers the panic writes
	stale      atomic.Int64            // queued tasks whose futures ran in place or were cancelled; waiters and cancellers add, takers subtract
	relief     relief                  // of a pool in a bubble
	backlogs   backlogs                // groups whose functions wait for turns
	delays     sync.Map                // *delay -> nil; the delays that have not ended
	room       room
	admission  admission
	slow       slowTasks
	workerSet  workerSet
	workers    workerList

	ended sync.WaitGroup // workers that have not ended, and network's goroutine
}

// New starts a pool. Without options it has a worker for each P (GOMAXPROCS), but no more than there are CPUs that
// the process may use, and binds them as [PinAuto] says. When GOMAXPROCS changes (Go adapts it to the limits of a
// container), or the CPUs that the process may use do (its cpuset changes), the number of workers follows within
// 100 milliseconds while the pool has work; in an idle pool it follows at the first work, or call of [Pool.Workers], that
// comes 100 milliseconds after the last look. [Pool.Resize] chooses a number for good. Bound workers stay bound to
// the CPUs that there were at first, and there are never more of them than of these.
func New(options ...Option) (*Pool, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	p := makePool(c)
	freePs(c.freePs)
	ready := make(chan error, p.first)
	p.active.Store(int32(p.first))
	for _, pl := range p.places[:p.first] {
		bound := pl.placement.bind()
		if !bound && p.cpus != nil && !p.auto {
			err = errTooManyBound
		}
		w := p.newWorker(pl.placement, false, bound)
		w.granted.Store(pl)
		p.ended.Add(1)
		go w.start(ready)
	}
	for range p.first {
		if e := <-ready; e != nil {
			err = e
		}
	}
	if err != nil {
		err = fmt.Errorf("pool: a worker could not be started: %w", err)
	} else if p.isolate {
		if p.isolation, err = heist.Isolate(p.cpus...); err != nil {
			err = fmt.Errorf("pool: Tuning.Isolate: %w; a pool with fewer workers (WithWorkers) or CPUs (WithCPUs) leaves some", err)
		}
	}
	if err != nil {
		p.closing.Store(true)
		p.end()
		return nil, err
	}
	if p.slowAfter > 0 {
		go p.watchTasks()
	}
	census.Add(p, p.inBubble)
	return p, nil
}

// makePool makes a pool without starting its workers.
func makePool(c *config) *Pool {
	p := &Pool{
		config: *c,
		first:  c.workers,

		ticksGiveWay:      heist.TicksIn(giveWayPeriod),
		ticksSpareGiveWay: heist.TicksIn(spareGiveWayPeriod),
		ticksNetwork:      heist.TicksIn(networkPeriod),
		ticksFollow:       heist.TicksIn(followPeriod),
		ticksTurn:         heist.TicksIn(turnTime),
		ticksSpin:         heist.TicksIn(max(cmp.Or(c.spin, heist.DefaultSpin), 0) * 3 / 2), // with the yields
		ticksWatch:        heist.TicksIn(watchTime),
		ticksAnswer:       heist.TicksIn(answerTime),
		ticksRebind:       heist.TicksIn(rebindPeriod),
		ticksShortLook:    heist.TicksIn(shortLook),
		ticksMaxTurn:      heist.TicksIn(maxTurn),
		ticksLongTurn:     heist.TicksIn(longTurn),
		ticksLongLook:     heist.TicksIn(longLook),
		ticksLook:         heist.TicksIn(lookPeriod),

		ticksPerNanosecond: float64(heist.TicksIn(time.Second)) / 1e9,
		ticksLoop:          policy.PaceTimes{Alone: heist.TicksIn(aloneTime), Chunk: heist.TicksIn(chunkTime)},

		refuses:  make(chan struct{}),
		abandons: make(chan struct{}),
		closed:   make(chan struct{}),
	}
	p.relief.only = p
	p.admission.most = p.callers
	p.slow.stop, p.slow.over = make(chan struct{}), make(chan struct{})
	p.room.made = make(chan struct{}, 1)
	p.workerSet.changed.L = &p.workerSet.mu
	p.workerSet.size.Store(int32(p.first))
	p.ps.Store(int32(runtime.GOMAXPROCS(0)))
	p.places = make([]*place, p.maxWorkers)
	p.layOut()
	p.victimOrder = p.newOrder()
	if !p.looksGiven && len(p.victimOrder.Tiers) == 1 {
		p.search.Uniform = 0
	}
	p.sleep.Init(p.nodesOfPlaces(), len(p.nodes))
	for i := range p.first {
		p.places[i] = newPlace(p, i)
		p.places[i].open = true
	}
	p.reach.Store(int32(p.first))
	return p
}

// inBubble says whether the caller is in a bubble of testing/synctest, where time stands still while any goroutine
// runs.
func inBubble() bool {
	start := time.Now()
	heist.Spin(time.Microsecond)
	return time.Since(start) == 0
}

// usable returns an error if the pool is nil or was not made by New.
func (p *Pool) usable() error {
	if p == nil || len(p.nodes) == 0 {
		return errNoPool
	}
	return nil
}

// mustBeMade panics if the pool is not usable.
func (p *Pool) mustBeMade() {
	if err := p.usable(); err != nil {
		panic(err)
	}
}

// victims returns the places that have been made: those that may have something to steal.
func (p *Pool) victims() []*place { return p.places[:p.reach.Load()] }

// rosters returns all rosters, with their nodes.
func (p *Pool) rosters() iter.Seq2[*roster, int] {
	return func(yield func(*roster, int) bool) {
		for _, pl := range p.victims() {
			if !yield(&pl.roster, pl.placement.node) {
				return
			}
		}
		for node := range p.nodes {
			for i := range p.nodes[node].guests {
				if !yield(&p.nodes[node].guests[i].roster, node) {
					return
				}
			}
		}
	}
}

// Workers returns the number of workers, which follows [Pool.Resize] at once and GOMAXPROCS a little later, see [New].
// That many workers compute at a time; guests are not counted.
func (p *Pool) Workers() int {
	p.mustBeMade()
	p.follow(heist.Ticks())
	return p.size()
}

func (p *Pool) size() int { return int(p.workerSet.size.Load()) }

// Slots returns a number above every [Worker.ID] so far. It is also above all later IDs as long as no more workers
// wait at a time than the pool has, and no more than 64 guests call. Beyond that IDs are higher; [Local] holds data per
// worker in any case.
func (p *Pool) Slots() int {
	p.mustBeMade()
	return max(2*len(p.places)+64+keptGuests*guestRosters*len(p.nodes), p.workers.len())
}

// Go queues f, which the pool runs once, and returns. It never blocks, and it returns [ErrClosed] if the pool is
// closed. No caller waits for f, so a panic in it ends the process, as a panic in a goroutine does, unless the pool
// has a handler ([WithPanicHandler]).
//
// Inside a task, [Worker.Go] is cheaper. For a bound, priorities or delays use [Pool.Submit].
//
// Cost: no allocation beyond the closure f. While the workers are busy it takes about 35 ns, including the run of
// an empty f; if a worker sleeps, the 5 microseconds of a wake-up come on top.
func (p *Pool) Go(f func(w *Worker)) error {
	if err := p.usable(); err != nil {
		return err
	}
	if f == nil {
		return errNilFunc("Pool.Go")
	}
	if p.closing.Load() {
		return p.refuse(ErrClosed)
	}
	return p.enqueue(carry(f, taskOf(f), ""), PriorityNormal, p.here())
}

// near returns the worker or guest as which the caller computes. It returns nil if there is none, and where finding
// out costs more than a push to the injector.
func (p *Pool) near() *Worker {
	if goroutineIDAllocates {
		return nil
	}
	return p.computes(goroutineID())
}

// Close waits until everything that the pool has accepted is done, delayed tasks included, and then ends the
// workers. From the start of the call the pool accepts nothing more, not even from its own tasks. Guests that are
// inside [Pool.Run] finish on their own; if they need one, a worker is there for their forks even after Close. A
// paused pool resumes.
//
// Close returns when the workers have ended: nil; [ErrClosed] if it was called before; or an error if other threads
// could not be given back the CPUs of [Tuning].Isolate. Inside a task, or in a function that a call at the
// pool runs, it returns an error at once, since it might wait for itself. A loop that its caller still runs alone, as
// [ForRange] says, and so a short call of package par, is no call at the pool yet and does not hold up Close. So there
// Close ends the pool; a loop that needs the pool after that returns ErrClosed.
func (p *Pool) Close() error { return p.Shutdown(context.Background()) }

// Shutdown is [Pool.Close], but waits only until ctx ends. Then it returns an [*UnfinishedError] with what is left
// and ctx's cause. The pool goes on with the rest, and its workers end when that is done. To wait again, call
// Shutdown or Close again; [Pool.Abort] gives back what has not begun. Shutdown does not wait for guests: a server
// ends its requests first.
func (p *Pool) Shutdown(ctx context.Context) error {
	first, err := p.beginClose(ctx, "Shutdown")
	if err != nil {
		return err
	}
	if first {
		p.Resume()
		go p.drain()
	}
	return p.awaitEnd(ctx, first)
}

// beginClose makes the pool refuse all new work, and says whether this call was the first to do so. If it was, the
// caller must drain the pool, after resuming it.
func (p *Pool) beginClose(ctx context.Context, method string) (first bool, err error) {
	if err := p.usable(); err != nil {
		return false, err
	}
	if ctx == nil {
		return false, errNilContext("Pool." + method)
	}
	if p.shared {
		return false, errShared
	}
	if p.serves() {
		return false, fmt.Errorf("pool: Close or %s was called inside a task of the same pool or a call at it, for which it may wait; call it from outside", method)
	}
	if first = p.closing.CompareAndSwap(false, true); first {
		close(p.refuses)
	}
	return first, nil
}

// awaitEnd waits until the pool has ended. If ctx ends first, the error says what is left.
func (p *Pool) awaitEnd(ctx context.Context, first bool) error {
	p.wait("Pool.Close or Shutdown of another pool", nil, func() {
		select {
		case <-p.closed:
		case <-ctx.Done():
		}
	})
	select {
	case <-p.closed:
	default:
		return p.unfinished(ctx)
	}
	if !first && !p.workerSet.gaveUp.Swap(false) {
		return ErrClosed
	}
	return p.unrestored
}

// WaitIdle returns when there was a moment at which the pool had nothing left to do: no task, future or function of
// a group was queued, delayed or running. What guests compute themselves does not count. If ctx ends first, it
// returns the cause. The pool goes on as before; WaitIdle waits for tasks that are submitted meanwhile, too. A task, or a
// function that a call at the pool runs, cannot wait for its own pool: WaitIdle is refused where [Pool.Close] is.
//
// Any other goroutine may call it, any number at a time. Cost: a look at all queues whenever the last worker
// becomes idle.
func (p *Pool) WaitIdle(ctx context.Context) (err error) {
	if err := p.usable(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext("Pool.WaitIdle")
	}
	if p.serves() {
		return errors.New("pool: WaitIdle was called inside a task of the same pool or a call at it, for which it may wait; call it from outside")
	}
	p.wait("Pool.WaitIdle of another pool", nil, func() {
		err = p.workerSet.awaitContext(ctx, func() bool { return p.delayed.Load() == 0 && p.isQuiet() })
	})
	return err
}

// UnfinishedError says what was left when the context of [Pool.Shutdown] ended.
type UnfinishedError struct {
	Queued  int // tasks that have not started, without functions that wait in a group because of [Group.AtMost]
	Delayed int // tasks whose time has not come
	Running int // workers that are in a task, or look for one
	// Waiting has an entry for each task, guest and fork that waits. It says which function waits for what, such as
	// "main.handle waits in Future.Wait".
	Waiting []string
	// Snapshot is the state of the pool: all workers and guests that compute or wait, and the circles of those that
	// wait for one another.
	Snapshot inspect.Snapshot

	cause error
}

// Error says what was left.
func (e *UnfinishedError) Error() string {
	hangs := ""
	if circles := e.Snapshot.Circles; len(circles) > 0 {
		hangs = "; these wait for one another: " + strings.Join(circles, "; and these: ")
	}
	return fmt.Sprintf("pool: the wait for its end was given up (%v): %d tasks have not started, %d wait for their time, and %d workers are at work%s%s",
		e.cause, e.Queued, e.Delayed, e.Running, e.waiting(), hangs)
}

func (e *UnfinishedError) waiting() string {
	const most = 10
	switch n := len(e.Waiting); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf("; %s; and %d more", strings.Join(e.Waiting[:most], "; "), n-most)
	}
	return "; " + strings.Join(e.Waiting, "; ")
}

// Unwrap returns the cause of the context's end.
func (e *UnfinishedError) Unwrap() error { return e.cause }

func (p *Pool) unfinished(ctx context.Context) error {
	p.workerSet.gaveUp.Store(true)
	s := p.Snapshot()
	e := &UnfinishedError{
		Queued: s.Load.Queued.Total(), Delayed: s.Load.Delayed, Running: int(p.active.Load()),
		Snapshot: s, cause: context.Cause(ctx),
	}
	for _, w := range s.Workers {
		if w.State == inspect.Waits {
			e.Waiting = append(e.Waiting, w.String())
		}
	}
	return e
}

func (p *Pool) eachQueue(f func(q *heist.Injector[task])) {
	for i := range p.nodes {
		for _, q := range p.nodes[i].queues {
			f(q)
		}
	}
}

// drain waits until nothing is left to do, and then ends the workers.
func (p *Pool) drain() {
	p.workerSet.await(func() bool { return p.delayed.Load() == 0 })
	p.eachQueue(func(q *heist.Injector[task]) { q.Close() })
	p.workerSet.await(p.isQuiet)
	p.end()
}

// isQuiet says whether nothing is left to do, or nothing was a moment ago. Once it is true it stays true if the
// injectors are closed, as in drain.
func (p *Pool) isQuiet() bool {
	if p.inInjectors().Total() > 0 {
		return false
	}
	// A worker becomes idle only after it has found all queues empty, and when all workers are idle no task is left
	// that could queue another. But a worker that is woken after the first count may take the last task before
	// anyTask looks for it; the second count sees this worker.
	return p.allRest() && !p.anyTask() && p.allRest()
}

// allRest says whether all workers are idle.
func (p *Pool) allRest() bool { return p.active.Load() == 0 }

// end tells the workers to exit and waits until they have.
func (p *Pool) end() {
	p.workerSet.mu.Lock()
	p.exit.Store(true) // under the lock: from here on no place is opened
	p.workerSet.mu.Unlock()
	for i := range p.placements {
		p.placements[i].close()
	}
	if n := p.network.Load(); n != nil {
		n.stop()
	}
	p.ended.Wait()
	if p.slowAfter > 0 {
		close(p.slow.stop)
		<-p.slow.over
	}
	if p.isolation != nil {
		if err := p.isolation.Restore(); err != nil {
			p.unrestored = fmt.Errorf("pool: the pool has ended, but other threads may still be kept off its CPUs: %w", err)
		}
	}
	freePs(-p.freePs) // after the end of the isolation: Go's default depends on the CPUs of a thread
	census.Remove(p)
	close(p.closed)
}
