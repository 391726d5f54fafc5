package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// ErrClosed is returned for whatever is given to a pool after [Pool.Close] was called.
var ErrClosed = errors.New("pool: the pool is closed")

func errNilFunc(method string) error {
	return fmt.Errorf("pool: %s was given a nil function", method)
}

func errLengths(function, some string, n int, others string, m int) error {
	return fmt.Errorf("pool: %s was given %d %s and %d %s; there must be as many", function, n, some, m, others)
}

var errNoPlace = errors.New("pool: a call was given nil as its place; it must be a *Pool, a *Worker, or what their With returns")

// Pool is a set of workers. By default each is a thread of its own, pinned to a CPU; with
// [PinNone] they are goroutines. Create a pool with [New] and end it with [Pool.Close]; one
// that is dropped without that keeps its sleeping threads for ever. All methods may be
// called by anybody.
type Pool struct {
	config // constant

	// slots are the first workers, the guests, the doorman, and whoever [Pool.Resize] or
	// [Worker.Block] adds: those up to reach have been made. See victims. Constant up to
	// reach; beyond it crew.mu.
	slots   []*Worker
	reach   atomic.Int32 // crew.mu
	first   int          // number of first workers; constant
	doorman *Worker      // nil if there is none; constant
	nGuests int          // number of guest slots; constant

	sites       []site           // constant
	siteOf      []int            // slot -> site; constant
	nodes       []node           // constant
	nodeOfCPU   []int            // CPU -> node, nil if there is one node; constant
	onCPU       []int            // CPU -> the first worker that is bound to just that, or -1; nil if none is; constant
	victimOrder *policy.Order    // constant
	isolation   *heist.Isolation // nil if there is none; New writes

	// How long a loop may be run alone, its chunks, giveWayPeriod and rebindPeriod, in heist.Ticks.
	// Constant.
	ticksAlone, ticksChunk, ticksGiveWay, ticksRebind int64
	ticksPerNanosecond                                float64

	refuses chan struct{} // closed at the beginning of Close
	closed  chan struct{} // closed at the end of Close

	// What everybody reads for each task, and nobody writes in a pool that just works.

	// orders is not 0 if a worker should look at more than its queues between two tasks.
	// crew.mu.
	orders  atomic.Uint32
	closing atomic.Bool  // Close writes, once
	exit    atomic.Bool  // Close writes, once everything was done
	urgent  atomic.Int64 // tasks of high priority in their queues; their submitters and takers write

	_ pad

	sleep policy.Sleep

	_ pad

	// What changes when somebody goes to sleep, waits or comes from outside.

	watched atomic.Bool  // a worker watches; it writes
	atDoor  atomic.Bool  // the doorman sleeps; who makes it false must wake it
	resting atomic.Int32 // workers that sleep in the middle of nothing, or are held; workers write
	delayed atomic.Int64 // tasks that wait for their time; submitters and timers write
	room    room
	guests  guests
	crew    crew

	ended sync.WaitGroup // workers that have not ended
}

// New starts a pool. Without options it has a worker for each P (GOMAXPROCS), but no
// more than there are CPUs that the process may use, and pins each to a CPU of its
// own, where the system can do that.
func New(options ...Option) (*Pool, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	p := &Pool{
		config:  *c,
		first:   c.workers,
		nGuests: guestSlots(c.workers),

		ticksAlone: heist.TicksIn(aloneTime),
		ticksChunk: heist.TicksIn(chunkTime),

		ticksGiveWay:       heist.TicksIn(giveWayPeriod),
		ticksRebind:        heist.TicksIn(rebindPeriod),
		ticksPerNanosecond: float64(heist.TicksIn(time.Second)) / 1e9,

		refuses: make(chan struct{}),
		closed:  make(chan struct{}),
	}
	p.room.made = make(chan struct{}, 1)
	p.crew.init(c.workers, c.maxWorkers+c.spares)
	if p.cpus != nil && p.pinning == PinAuto {
		p.crew.doormen++
	}
	p.slots = make([]*Worker, p.idOf(c.maxWorkers+c.spares))
	p.layOut()
	p.victimOrder = p.newOrder()
	p.sleep.Init(p.nodesOfSlots(), len(p.nodes))
	p.guests.free = make([]policy.Bitmap, len(p.nodes))
	for i := range p.guests.free {
		p.guests.free[i] = policy.NewBitmap(p.nGuests)
	}
	p.guests.freed = make(chan struct{}, p.nGuests)
	for rank := range p.first {
		p.slots[rank] = newWorker(p, rank, rank)
	}
	for i := range p.nGuests {
		w := newWorker(p, p.first+i, -1)
		w.guest = true
		p.slots[w.id] = w
		p.guests.free[w.site.node].Set(i)
	}
	if p.crew.doormen > 0 {
		p.hire(p.first + p.nGuests)
	}
	p.reach.Store(int32(p.idOf(p.first)))

	freePs(c.freePs)
	ready := make(chan error, p.first)
	for rank, w := range p.slots[:p.first] {
		p.ended.Add(1)
		go w.start(p.cpusOf(rank), ready)
	}
	for range p.first {
		if e := <-ready; e != nil {
			err = e
		}
	}
	if p.doorman != nil {
		p.ended.Add(1)
		go p.doorman.start(nil, nil)
	}
	if err != nil {
		err = fmt.Errorf("pool: a worker could not be started: %w", err)
	} else if p.isolate {
		p.isolation, err = heist.Isolate(p.cpus...)
	}
	if err != nil {
		p.closing.Store(true)
		p.end()
		return nil, err
	}
	return p, nil
}

// victims returns the slots that may have something to steal.
func (p *Pool) victims() []*Worker { return p.slots[:p.reach.Load()] }

// Workers returns the number of workers, which [Pool.Resize] changes.
func (p *Pool) Workers() int { return int(p.crew.size.Load()) }

// Slots returns a number above the highest [Worker.ID] that there is and will be.
func (p *Pool) Slots() int { return len(p.slots) }

// Pinned says whether each worker is bound to a CPU.
func (p *Pool) Pinned() bool { return p.cpus != nil }

// Go queues f to be run by the pool, once, and returns. It never blocks, and it
// returns [ErrClosed] if the pool is closed. Nobody waits for f, so a panic in it
// ends the process, as one in a goroutine does, unless there is [WithPanicHandler].
//
// Inside a task, [Worker.Go] is cheaper. [Pool.Submit] is for more than that: a bound,
// priorities, delays.
//
// Cost: no allocation beyond the closure f; about 35 ns with all that running an empty
// f takes, while the workers are busy, and the 5 microseconds of a wake-up if one of
// them sleeps.
func (p *Pool) Go(f func(w *Worker)) error {
	if f == nil {
		return errNilFunc("Pool.Go")
	}
	if p.closing.Load() {
		return ErrClosed
	}
	return p.enqueue(f, Normal, p.here())
}

// Close waits until everything that the pool has accepted is done, delayed tasks
// included, and then ends the workers. From its first moment on the pool accepts nothing
// more, not even from its own tasks; guests that are inside [Pool.Run] finish on their
// own. A pool that is paused resumes. Close returns nil, or [ErrClosed] if it was called
// before, in either case when the workers have ended. Called inside a task it returns an
// error at once: it would wait for itself.
func (p *Pool) Close() error { return p.Shutdown(context.Background()) }

// Shutdown is [Pool.Close], but waits only until ctx ends. Then it returns an
// [*UnfinishedError] that says what is left, and ctx's cause. The pool goes on with that
// without anybody who waits for it, and its workers end when it is done; to wait again,
// call Shutdown or Close again.
func (p *Pool) Shutdown(ctx context.Context) error {
	if p.current() != nil {
		return errors.New("pool: Close or Shutdown was called inside a task of the same pool, for which it would wait; call it from outside")
	}
	first := p.closing.CompareAndSwap(false, true)
	if first {
		close(p.refuses)
		p.Resume()
		go p.drain()
	}
	select {
	case <-p.closed:
	case <-ctx.Done():
		select {
		case <-p.closed:
		default:
			return p.unfinished(ctx)
		}
	}
	if !first && !p.crew.gaveUp.Swap(false) {
		return ErrClosed
	}
	return nil
}

// UnfinishedError is what [Pool.Shutdown] left behind when its context ended.
type UnfinishedError struct {
	Queued  int // tasks that have not started
	Delayed int // tasks whose time has not come
	Running int // workers that do not sleep: those that are in a task, or look for one

	cause error
}

// Error says what was left.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("pool: Shutdown gave up (%v): %d tasks have not started, %d wait for their time, and %d workers are at work",
		e.cause, e.Queued, e.Delayed, e.Running)
}

// Unwrap returns the cause of the context's end.
func (e *UnfinishedError) Unwrap() error { return e.cause }

func (p *Pool) unfinished(ctx context.Context) error {
	p.crew.gaveUp.Store(true)
	e := &UnfinishedError{Delayed: int(p.delayed.Load()), cause: context.Cause(ctx)}
	p.eachQueue(func(q *heist.Injector[task]) { e.Queued += q.Len() })
	for _, w := range p.victims() {
		e.Queued += w.queued()
	}
	p.crew.mu.Lock()
	e.Running = p.running()
	p.crew.mu.Unlock()
	return e
}

func (p *Pool) eachQueue(f func(q *heist.Injector[task])) {
	for i := range p.nodes {
		for _, q := range p.nodes[i].queues {
			f(q)
		}
	}
}

// drain waits until nothing is left to do, and ends the workers.
func (p *Pool) drain() {
	p.crew.await(func() bool { return p.delayed.Load() == 0 })
	p.eachQueue(func(q *heist.Injector[task]) { q.Close() })
	p.crew.await(p.isQuiet)
	p.end()
}

// isQuiet says whether nothing is left to do, under crew.mu. It is for drain: with the
// injectors closed, once true it stays true.
func (p *Pool) isQuiet() bool {
	left := 0
	p.eachQueue(func(q *heist.Injector[task]) { left += q.Len() })
	if left > 0 {
		return false
	}
	// Workers rest only after they have found all queues empty, and no task is left
	// that could queue another when all of them rest. How many there are does not
	// change under the lock. One who was woken may still count and take the last task
	// before it does not; so they are counted again.
	return p.allRest() && !p.anyTask() && p.allRest()
}

// allRest says whether all workers rest, or are held, under crew.mu.
func (p *Pool) allRest() bool { return p.running() == 0 }

// running returns how many workers do not rest, under crew.mu.
func (p *Pool) running() int {
	return p.crew.active - int(p.resting.Load())
}

// end tells the workers to exit and waits until they have.
func (p *Pool) end() {
	p.crew.mu.Lock()
	p.exit.Store(true) // under the lock: from here on nobody joins
	p.crew.mu.Unlock()
	for range p.slots {
		p.wakeOne(0, -1)
	}
	if p.atDoor.CompareAndSwap(true, false) {
		p.doorman.bell <- struct{}{}
	}
	p.ended.Wait()
	freePs(-p.freePs)
	if p.isolation != nil {
		// The kernel refuses only what has become impossible, such as CPUs that are gone.
		_ = p.isolation.Restore()
	}
	close(p.closed)
}

// current returns the worker in whose task the caller is, or nil.
func (p *Pool) current() *Worker { return p.workerOf(goroutineID()) }

// workerOf returns the worker that the goroutine is, or nil.
func (p *Pool) workerOf(goroutine uintptr) *Worker {
	for _, w := range p.victims() {
		if !w.guest && w.goroutine.Load() == goroutine {
			return w
		}
	}
	return nil
}
