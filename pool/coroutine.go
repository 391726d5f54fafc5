package pool

import (
	"runtime"
	"sync"
	"time"

	"github.com/seed53057037/heist"
)

// # Coroutines
//
// The function that iter.Pull is given runs in a goroutine of its own while another one, which may
// be a task, waits in next. Nothing says which one that is, so if the function waits for a pool,
// the place of the task that waits for it stands still, and cannot be lent. If all places stand
// still like that, and what is waited for is queued, nobody would ever begin it. So while a
// coroutine waits, one queued task a millisecond begins in a goroutine beside the workers: of each
// pool of the process, for the task may be any pool's, and another pool's tasks may wait for it. (In a
// function of iter.Pull that uses the worker of the task, a wait is a misuse of the worker, see
// misuse.go.)
//
// For the same reason nobody knows that a coroutine is inside a task: Close and Pause in it wait for
// the task, for ever.

// reliefPeriod is between two tasks that are begun for a coroutine. It is long beside a wake-up, so
// that workers come first if they can.
const reliefPeriod = time.Millisecond

// inCoroutine says whether the calling goroutine was made by iter.Pull. Cost: half a microsecond,
// and more on a deep stack.
func inCoroutine() bool {
	var pcs [32]uintptr
	n, skip := len(pcs), 2
	for ; n == len(pcs); skip += n - 2 { // the next part begins with the last two of this one
		n = runtime.Callers(skip, pcs[:])
	}
	for _, pc := range pcs[max(n-2, 0):n] { // the last one is goexit
		if f := runtime.FuncForPC(pc - 1); f != nil && f.Name() == "runtime.corostart" {
			return true
		}
	}
	return false
}

// pools are those that have not ended.
var pools sync.Map // *Pool -> nil

// relieve begins queued tasks now and then until stop is called.
func relieve() (stop func()) {
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(reliefPeriod):
				pools.Range(func(p, _ any) bool { p.(*Pool).runBeside(); return true })
			}
		}
	}()
	return func() { close(over) }
}

// runBeside runs a queued task, if there is one, in a goroutine of its own, as a guest.
func (p *Pool) runBeside() {
	c := &p.crew
	c.mu.Lock() // a Pause that has not returned waits for the task, and one that has is left alone
	atRest := c.atRest
	if !atRest {
		p.active.Add(1) // before the look: Close waits for the task as well, or nothing is taken
	}
	c.mu.Unlock()
	if atRest {
		return
	}
	if t := p.takeAnywhere(); t != nil {
		go p.beside(t)
	} else {
		p.rest()
	}
}

// rest counts a worker as idle, or who has run a task beside them.
func (p *Pool) rest() {
	p.active.Add(-1)
	p.crew.signal()
}

// takeAnywhere takes the next task from the first queue that has one.
func (p *Pool) takeAnywhere() *task {
	loot, _ := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	for _, pl := range p.victims() {
		if t := pl.slot.Load(); t != nil && pl.slot.CompareAndSwap(t, nil) {
			return t
		}
		for _, r := range [...]*heist.Ring[task]{pl.ring, pl.batch} {
			if first, n, _ := r.StealInto(loot); first != nil {
				for range n - 1 { // a thief takes half
					if t := loot.Pop(); pl.injector().Push(t) {
						p.notifyTask(pl.site.node)
					} else { // Close has begun, and the task was accepted before
						p.active.Add(1)
						go p.beside(t)
					}
				}
				return first
			}
		}
	}
	for node := range p.nodes {
		for priority, q := range p.nodes[node].queues {
			if t, _ := q.Pop(); t != nil {
				if Priority(priority) == High {
					p.urgent.Add(-1)
				}
				p.room.offer(p)
				return t
			}
		}
	}
	return nil
}

// beside runs a task that runBeside has taken.
func (p *Pool) beside(t *task) {
	w := p.admit(goroutineID(), nil)
	defer func() {
		if v := recover(); v != nil {
			p.detached(v)
		}
		w.job = nil
		p.leave(w)
		p.rest()
	}()
	w.home.mu.Lock()
	w.home.tasks.Add(1) // guests share a place, which counts no tasks but these
	w.home.mu.Unlock()
	w.job = t
	t.run(w)
}
