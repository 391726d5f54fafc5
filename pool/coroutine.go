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
// coroutine waits, one queued task (or child of a scope) a millisecond begins in a goroutine beside the
// workers, in each pool of the process: for the task may be any pool's, and another pool's tasks may wait for it. (In a
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

// relief begins queued tasks while coroutines wait.
var relief struct {
	mu    sync.Mutex
	waits int  // of coroutines, at the moment
	more  bool // one has begun since the last look; some wait again and again, but never for long
	runs  bool // the goroutine
}

// relieve is for a coroutine that waits until it calls stop.
func relieve() (stop func()) {
	r := &relief
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits++
	r.more = true
	if !r.runs {
		r.runs = true
		go relieveAll()
	}
	return func() {
		r.mu.Lock()
		r.waits--
		r.mu.Unlock()
	}
}

// relieveAll begins a task of each pool now and then as long as coroutines wait.
func relieveAll() {
	r := &relief
	for {
		time.Sleep(reliefPeriod)
		r.mu.Lock()
		r.runs = r.more || r.waits > 0
		r.more = false
		runs := r.runs
		r.mu.Unlock()
		if !runs {
			return
		}
		pools.Range(func(p, _ any) bool { p.(*Pool).runBeside(); return true })
	}
}

// runBeside runs a queued task, or a child of a scope, if there is one, in a goroutine of its own.
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
	if j, ok := p.takeAnywhere(); ok {
		go p.beside(j)
	} else {
		p.rest()
	}
}

// rest counts a worker as idle, or who has run a task beside them.
func (p *Pool) rest() {
	p.active.Add(-1)
	p.crew.signal()
}

// takeAnywhere takes a task from the first queue that has one, or a child of a scope.
func (p *Pool) takeAnywhere() (j job, ok bool) {
	loot, _ := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	for _, pl := range p.victims() {
		if t := pl.slot.Load(); t != nil && pl.slot.CompareAndSwap(t, nil) {
			return job{task: t}, true
		}
		for _, r := range [...]*heist.Ring[task]{pl.ring, pl.batch} {
			if first, n, _ := r.StealInto(loot); first != nil {
				for range n - 1 { // a thief takes half
					if t := loot.Pop(); pl.injector().Push(t) {
						p.notifyTask(pl.site.node)
					} else { // Close has begun, and the task was accepted before
						p.active.Add(1)
						go p.beside(job{task: t})
					}
				}
				return job{task: first}, true
			}
		}
		if j, r := pl.robFork(false, pl.site.node); r == heist.Success {
			return j, true
		}
	}
	for node := range p.nodes {
		for priority, q := range p.nodes[node].queues {
			if t, _ := q.Pop(); t != nil {
				if Priority(priority) == High {
					p.urgent.Add(-1)
				}
				p.room.offer(p)
				return job{task: t}, true
			}
		}
	}
	return job{}, false
}

// beside runs what runBeside has taken, as a guest.
func (p *Pool) beside(j job) {
	w := p.admit(goroutineID(), nil)
	defer func() {
		if v := recover(); v != nil {
			p.detached(v)
		}
		w.job = nil
		p.leave(w)
		p.rest()
	}()
	if j.scope != nil {
		j.scope.run(w, j.child)
		return
	}
	w.home.mu.Lock()
	w.home.tasks.Add(1) // guests share a place, which counts no tasks but these
	w.home.mu.Unlock()
	w.job = j.task
	j.task.run(w)
}
