package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/policy"
)

// # The crew
//
// How many workers there are can change: Resize asks for another number, and a task
// that must wait for something lends its place to a spare worker (Block). Those who join
// start as any worker does; those who are too many leave between two tasks: they hand
// their queues to the injector and end, with their thread.
//
// Which are too many is a matter of rank, the order in which workers are made: it is
// those whose rank is not below the size that was asked for, and as many of them as are
// not needed in somebody's place. A spare that sleeps when its place is taken back may
// stay asleep; the next Block finds it there. Since it must not be woken for a fork
// it counts against the sleepers in the state, as a guest does.

// crew is who works for a pool. Its fields are under mu unless it says otherwise.
type crew struct {
	mu      sync.Mutex
	changed sync.Cond    // somebody rests, or what await waits for may have changed
	waiting atomic.Int32 // callers of await; they write

	size    atomic.Int32 // how many there should be; anybody reads
	lent    atomic.Int32 // places that blocked tasks have lent; anybody reads
	active  int          // how many there are, those who end not included
	doormen int          // 1 if there is one; constant
	works   []bool       // by rank: who they are
	paused  bool

	gaveUp atomic.Bool // a Shutdown came back before the end, and nobody else yet
}

func (c *crew) init(size, capacity int) {
	c.changed.L = &c.mu
	c.works = make([]bool, capacity)
	for i := range size {
		c.works[i] = true
	}
	c.size.Store(int32(size))
	c.active = size
}

// await returns when the condition holds, which it asks under mu whenever something
// has changed.
func (c *crew) await(condition func() bool) { _ = c.awaitContext(context.Background(), condition) }

func (c *crew) awaitContext(ctx context.Context, condition func() bool) error {
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

// signal is for whoever may have made a condition true.
func (c *crew) signal() {
	if c.waiting.Load() > 0 {
		c.mu.Lock()
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// surplus is how many workers are too many.
func (c *crew) surplus() int { return max(0, c.active-c.wanted()) }

func (c *crew) wanted() int { return int(c.size.Load()+c.lent.Load()) + c.doormen }

// Orders to workers.
const (
	orderHold  = 1 << iota // the pool is paused
	orderLeave             // there are too many
)

// fit brings the crew to the size that it should have, after a change that left before
// as the surplus from before it.
func (p *Pool) fit(before int) {
	c := &p.crew
	for rank := 0; c.active < c.wanted() && !p.exit.Load(); rank++ {
		if c.works[rank] {
			continue
		}
		c.works[rank] = true
		c.active++
		id := p.idOf(rank)
		if p.slots[id] == nil {
			p.slots[id] = newWorker(p, id, rank)
			p.reach.Store(max(p.reach.Load(), int32(id)+1))
		}
		p.ended.Add(1)
		go p.slots[id].start(p.cpusOf(rank), nil)
	}
	p.sleep.Add(policy.State(before - c.surplus()))
	p.order(orderLeave, c.surplus() > 0)
}

func (p *Pool) order(what uint32, on bool) {
	if on {
		p.orders.Or(what)
	} else {
		p.orders.And(^what)
	}
}

// idOf returns the ID of the worker with a rank: guests and the doorman, if there is one,
// lie between the first workers and the others.
func (p *Pool) idOf(rank int) int {
	if rank < p.first {
		return rank
	}
	return rank + p.nGuests + p.crew.doormen
}

// cpusOf returns the CPUs to which the worker with a rank is bound, nil for none: a
// spare may run on any that the pool has.
func (p *Pool) cpusOf(rank int) []int {
	if rank < p.maxWorkers && p.cpus != nil {
		return p.bindings[rank%len(p.bindings)]
	}
	return p.cpus
}

// obey is for a worker between two tasks that has seen an order. It says whether the
// worker has to end.
func (w *Worker) obey() (leave bool) {
	p := w.pool
	c := &p.crew
	w.stopSearching() // wakes another one for what this one was woken for
	w.forget()
	if p.orders.Load()&orderHold != 0 {
		p.resting.Add(1)
		c.signal()
		c.mu.Lock()
		for c.paused {
			c.changed.Wait()
		}
		p.resting.Add(-1) // under the lock, or the next Pause would think that it is held
		c.mu.Unlock()
	}
	if !w.isTooMany() || p.closing.Load() {
		return false
	}
	w.handOver() // before it is off the list, or drain would not see the tasks
	if leave = w.resign(); leave {
		// What this worker has seen before it parked, and stayed awake for, is left to
		// others. One sleeper more may take forks now, and if this worker was the hot
		// one, another one has to be.
		if p.latency {
			p.wakeOne(w.site.node, -1)
		} else {
			p.notifySeen()
		}
	}
	return leave
}

// ordered says whether there is an order for the worker.
func (w *Worker) ordered() bool {
	return w.pool.orders.Load() != 0 && (w.pool.orders.Load()&orderHold != 0 || w.isTooMany())
}

func (w *Worker) isTooMany() bool {
	return w.pool.orders.Load()&orderLeave != 0 && w.rank >= w.pool.Workers()
}

// resign takes the worker off the list, if there are still too many. From then on its
// place may be another one's.
func (w *Worker) resign() bool {
	p := w.pool
	c := &p.crew
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.surplus()
	if before == 0 || p.exit.Load() {
		return false
	}
	w.goroutine.Store(0)
	c.works[w.rank] = false
	c.active--
	p.fit(before)
	c.changed.Broadcast()
	return true
}

// handOver moves the worker's tasks to the injector.
func (w *Worker) handOver() {
	for t := w.take(); t != nil; t = w.take() {
		if w.injector().Push(t) {
			w.pool.notifyTask(w.site.node)
		} else { // the pool is closing, and this was accepted before
			w.runAside(t)
		}
	}
}

// Resize changes the number of workers to n, from 1 to [WithMaxWorkers]. New workers start
// at once; those who are too many finish the task that they are in and leave the others
// to the rest. Anybody may call it, any number at the same time; the last one counts.
func (p *Pool) Resize(n int) error {
	if n < 1 || n > p.maxWorkers {
		return fmt.Errorf("pool: Resize(%d): this pool can have from 1 to %d workers; WithMaxWorkers sets the limit", n, p.maxWorkers)
	}
	if p.closing.Load() {
		return ErrClosed
	}
	c := &p.crew
	c.mu.Lock()
	before := c.surplus()
	c.size.Store(int32(n))
	p.fit(before)
	surplus := c.surplus() > 0
	c.mu.Unlock()
	for rank := n; surplus && rank < len(c.works); rank++ {
		if id := p.idOf(rank); id < int(p.reach.Load()) && p.sleep.Choose(id) {
			p.slots[id].wakeUp() // to leave
		}
	}
	p.notifySeen() // one who sleeps and was too many may take forks now
	return nil
}

// Pause keeps the workers from starting tasks, and returns when none is in the middle of
// one, or with the cause when ctx ends before that. Tasks are accepted and queue up. What
// a running task waits for goes on, and so do guests, without help. [Pool.Resume] ends
// it, and so does Close; the end of ctx ends only the wait. A task must not pause its own
// pool, for which it would wait.
func (p *Pool) Pause(ctx context.Context) error {
	if p.current() != nil {
		return errors.New("pool: Pause was called inside a task of the same pool, for which it would wait; call it from outside")
	}
	c := &p.crew
	c.mu.Lock()
	if p.closing.Load() {
		c.mu.Unlock()
		return ErrClosed
	}
	c.paused = true
	p.order(orderHold, true)
	c.mu.Unlock()
	resumed := false
	err := c.awaitContext(ctx, func() bool {
		resumed = !c.paused
		return resumed || p.allRest()
	})
	if err == nil && resumed {
		return errors.New("pool: Resume was called before all workers had paused")
	}
	return err
}

// Resume ends a Pause. It does nothing if the pool is not paused.
func (p *Pool) Resume() {
	c := &p.crew
	c.mu.Lock()
	c.paused = false
	p.order(orderHold, false)
	c.changed.Broadcast()
	c.mu.Unlock()
}

// Block calls f, which waits for something: the network, a lock, a channel, another
// process. Meanwhile a spare worker takes the caller's place, so that the pool computes
// on as many CPUs as before, and the caller's queued tasks and forks can be stolen. If as
// many places are lent as [WithSpares] allows, the worker just waits. F must not use the
// worker. A guest frees its place while it waits.
//
// Cost: a lock, and the start of a goroutine if no spare is asleep.
func (w *Worker) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Worker.Block"))
	}
	p := w.pool
	goroutine := w.goroutine.Load()
	p.expose(goroutine)
	places := p.guestPlaces(goroutine)
	p.sleep.Add(places * policy.OneSleeper)
	defer p.sleep.Add(-places * policy.OneSleeper)
	if p.workerOf(goroutine) != nil && p.lend() {
		defer p.unlend()
	}
	p.notifySeen() // there may be work for somebody who sleeps
	f()
}

// lend lets a spare worker work, unless all of them do.
func (p *Pool) lend() bool {
	c := &p.crew
	c.mu.Lock()
	defer c.mu.Unlock()
	if int(c.lent.Load()) >= p.spares {
		return false
	}
	before := c.surplus()
	c.lent.Add(1)
	p.fit(before)
	return true
}

func (p *Pool) unlend() {
	c := &p.crew
	c.mu.Lock()
	before := c.surplus()
	c.lent.Add(-1)
	p.fit(before)
	c.mu.Unlock()
}
