package pool

import (
	"runtime"
	"time"

	"github.com/seed53057037/heist"
)

// # Coroutines
//
// The function that iter.Pull is given runs in a goroutine of its own while another one, which may
// be a task, waits in next. Nothing says which one that is, so if the function waits for a pool,
// the place of the task that waits for it stands still, and cannot be lent. If all places stand
// still like that, and what is waited for is queued, nobody would ever begin it. So while a
// coroutine waits, one queued task a millisecond begins in a goroutine beside the workers. (In a
// function of iter.Pull that has been given a worker, a wait is a misuse of the worker, see
// misuse.go.)

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

// relieve begins queued tasks of the pool now and then until stop is called.
func (p *Pool) relieve() (stop func()) {
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(reliefPeriod):
				p.runBeside()
			}
		}
	}()
	return func() { close(over) }
}

// runBeside runs a queued task, if there is one, in a goroutine of its own, as a guest.
func (p *Pool) runBeside() {
	p.active.Add(1) // first: Close and Pause wait for the task, or nothing is taken
	if !p.held() {
		if t := p.takeAnywhere(); t != nil {
			go p.beside(t)
			return
		}
	}
	p.rest()
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
