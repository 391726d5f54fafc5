package pool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist"
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

// Pool is a set of workers, each a locked and, by default, pinned OS thread. Create it
// with [New] and end it with [Pool.Close]; a pool that is dropped without that
// keeps its sleeping threads for ever. All methods may be called by anybody.
type Pool struct {
	// slots are the workers, then the guests. Constant.
	slots    []*Worker
	nWorkers int         // constant
	pinned   bool        // constant
	onCPU    map[int]int // CPU -> the first worker that is pinned to it. Constant.

	// How long a loop may be run alone, and its chunks, in heist.Ticks. Constant.
	ticksAlone, ticksChunk int64

	injector *heist.Injector[task]
	guests   guests

	sleep sleep

	resting atomic.Int32  // workers that sleep in the middle of nothing; workers write
	closing atomic.Bool   // Close writes, once
	exit    atomic.Bool   // Close writes, once everything was done
	quiet   chan struct{} // a hint to Close that it may be so now
	closed  chan struct{} // closed at the end of Close

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
		nWorkers: c.workers,
		pinned:   c.cpus != nil,
		onCPU:    make(map[int]int),
		injector: heist.NewInjector[task](),

		ticksAlone: heist.TicksIn(aloneTime),
		ticksChunk: heist.TicksIn(chunkTime),

		quiet:  make(chan struct{}, 1),
		closed: make(chan struct{}),
	}
	p.sleep.parked = newBitmap(c.workers)
	for id, cpu := range c.cpus[:min(c.workers, len(c.cpus))] {
		p.onCPU[cpu] = id
	}

	slots := guestSlots(c.workers)
	p.guests.free = newBitmap(slots)
	p.guests.freed = make(chan struct{}, slots)
	for id := range c.workers + slots {
		w := &Worker{pool: p, id: id, guest: id >= c.workers, rand: heist.NewFastRand(heist.RandomSeed())}
		if w.guest {
			p.guests.free.set(id - c.workers)
		}
		if w.ring, err = heist.NewRing(heist.DefaultRingCapacity, p.injector); err != nil {
			return nil, err
		}
		p.slots = append(p.slots, w)
	}

	ready := make(chan error, c.workers)
	for id, w := range p.workers() {
		cpu := -1
		if p.pinned {
			cpu = c.cpus[id%len(c.cpus)]
		}
		p.ended.Add(1)
		go w.start(cpu, ready)
	}
	for range c.workers {
		if e := <-ready; e != nil {
			err = e
		}
	}
	if err != nil {
		p.closing.Store(true)
		p.end()
		return nil, fmt.Errorf("pool: a worker could not be started: %w", err)
	}
	return p, nil
}

// workers returns the pool's own workers.
func (p *Pool) workers() []*Worker { return p.slots[:p.nWorkers] }

// Workers returns the number of workers.
func (p *Pool) Workers() int { return p.nWorkers }

// Slots returns the number above the highest [Worker.ID]: that of the workers and the
// guest slots.
func (p *Pool) Slots() int { return len(p.slots) }

// Pinned says whether each worker is bound to a CPU.
func (p *Pool) Pinned() bool { return p.pinned }

// Go queues f to be run by the pool, once, and returns. It never blocks, and it
// returns [ErrClosed] if the pool is closed. Nobody waits for f, so a panic in it
// ends the process, as one in a goroutine does.
//
// Inside a task, [Worker.Go] is cheaper.
//
// Cost: no allocation beyond the closure f; about 35 ns with all that running an empty
// f takes, while the workers are busy, and the 5 microseconds of a wake-up if one of
// them sleeps.
func (p *Pool) Go(f func(w *Worker)) error {
	if f == nil {
		return errNilFunc("Pool.Go")
	}
	if !p.injector.Push(taskOf(f)) {
		return ErrClosed
	}
	p.notifyTask()
	return nil
}

// Close waits until everything that the pool has accepted is done and then ends the
// workers. From its first moment on the pool accepts nothing more, not even from its
// own tasks; guests that are inside [Pool.Run] finish on their own. Close returns
// nil, or [ErrClosed] if it was called before, in either case when the workers have
// ended. Called inside a task it returns an error at once: it would wait for itself.
func (p *Pool) Close() error {
	if p.current() != nil {
		return errors.New("pool: Close was called inside a task of the same pool, for which it would wait; call it from outside")
	}
	if !p.closing.CompareAndSwap(false, true) {
		<-p.closed
		return ErrClosed
	}
	p.injector.Close()
	for !p.isQuiet() {
		<-p.quiet
	}
	p.end()
	return nil
}

// isQuiet says whether nothing is left to do. It is for Close: with the injector
// closed, once true it stays true.
func (p *Pool) isQuiet() bool {
	// Workers rest only after they have found all queues empty, and no task is left
	// that could queue another when all of them rest.
	return p.injector.Len() == 0 && int(p.resting.Load()) == p.nWorkers && !p.anyTask()
}

func (p *Pool) signalQuiet() {
	select {
	case p.quiet <- struct{}{}:
	default:
	}
}

// end tells the workers to exit and waits until they have.
func (p *Pool) end() {
	p.exit.Store(true)
	for range p.nWorkers {
		p.wakeOne()
	}
	p.ended.Wait()
	close(p.closed)
}

// current returns the worker in whose task the caller is, or nil.
func (p *Pool) current() *Worker { return p.workerOf(goroutineID()) }

// workerOf returns the worker that the goroutine is, or nil.
func (p *Pool) workerOf(goroutine uintptr) *Worker {
	for _, w := range p.workers() {
		if w.goroutine.Load() == goroutine {
			return w
		}
	}
	return nil
}
