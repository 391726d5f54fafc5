package pool

import (
	"runtime"
	"sync"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/census"
)

// # Coroutines
//
// The function that iter.Pull is given runs in a goroutine of its own while another one, which may
// be a task, waits in next. Nothing says which one that is, so if the function waits for something,
// the place of the task that waits for it stands still, and cannot be lent. If all places stand
// still like that, and what is waited for is queued, nobody would ever begin it.
//
// So while a coroutine waits, one thing that is queued, a task or a child of a scope, begins each
// millisecond, as if a worker had come back from a wait with it: in a worker that has no place. This
// is so in each pool of the process, for the task may be any pool's, and another pool's tasks may
// wait for it. (A pool in a bubble of testing/synctest is only for what is in the bubble, and nothing tells which pools are in the same one. So there it is the
// pool that the coroutine waits at.) A Pause that is called meanwhile lets them begin too, until it has returned.
//
// For the same reason nobody knows that a coroutine is inside a task: Close and Pause in it wait for
// the task, for ever. (In a function of iter.Pull that uses the worker of the task, a wait is a
// misuse of the worker, see misuse.go.)

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

// isCoroutine is inCoroutine for a guest, which asks once.
func (w *Worker) isCoroutine() bool {
	if !w.asked {
		w.asked, w.coroutine = true, inCoroutine()
	}
	return w.coroutine
}

// relief begins queued tasks while coroutines wait.
type relief struct {
	only *Pool // in a bubble; nil for all others; constant

	mu    sync.Mutex
	waits int  // of coroutines, at the moment
	more  bool // one has begun since the last look; some wait again and again, but never for long
	runs  bool // the goroutine
}

var reliefOfProcess relief

// relieve is for a coroutine that waits until it calls stop.
func (p *Pool) relieve() (stop func()) {
	r := &reliefOfProcess
	if p != nil && p.inBubble {
		r = &p.relief
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits++
	r.more = true
	if !r.runs {
		r.runs = true
		go r.run()
	}
	return func() {
		r.mu.Lock()
		r.waits--
		r.mu.Unlock()
	}
}

// run begins something now and then as long as coroutines wait.
func (r *relief) run() {
	loot, _ := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	for {
		if r.only == nil {
			time.Sleep(reliefPeriod)
		} else {
			select { // a bubble ends when its goroutines have
			case <-time.After(reliefPeriod):
			case <-r.only.closed:
				return
			}
		}
		r.mu.Lock()
		r.runs = r.more || r.waits > 0
		r.more = false
		runs := r.runs
		r.mu.Unlock()
		if !runs {
			return
		}
		if r.only != nil {
			r.only.runBeside(loot)
			continue
		}
		for _, o := range census.Pools[*Pool]() {
			if !o.InBubble {
				o.Pool.runBeside(loot)
			}
		}
	}
}

// runBeside has a worker without a place run something that is queued, if anything is. Loot is an
// empty ring, and is left like that.
func (p *Pool) runBeside(loot *heist.Ring[task]) {
	c := &p.workerSet
	c.mu.Lock() // a Pause that has not returned waits for the worker, and one that has is left alone
	atRest := c.atRest
	if !atRest {
		p.active.Add(1) // before the look: Close waits for the worker as well, or nothing is taken
	}
	c.mu.Unlock()
	if atRest {
		return
	}
	j, ok := p.takeAnywhere(loot)
	if !ok {
		p.rest()
		return
	}
	for t := loot.Pop(); t != nil; t = loot.Pop() {
		if pl := p.places[0]; pl.injector().Push(t) {
			p.notifyTask(pl.placement.node)
		} else { // Close has begun, and the task was accepted before
			p.active.Add(1)
			p.hireFor(&job{task: t})
		}
	}
	p.hireFor(&j)
}

// takeAnywhere takes something from the first queue that has something. More tasks may come into the
// ring: a thief takes half.
func (p *Pool) takeAnywhere(loot *heist.Ring[task]) (j job, ok bool) {
	for _, pl := range p.victims() {
		if t, _, _ := pl.stealTasks(loot, true); t != nil {
			return job{task: t}, true
		}
		if j, r := pl.stealFork(false, pl.placement.node); r == heist.Success {
			return j, true
		}
	}
	t := p.takeSubmitted()
	return job{task: t}, t != nil
}

// hireFor starts a worker that has no place. Its home is one of the guests, which nobody ever has.
func (p *Pool) hireFor(j *job) {
	home := p.nodes[0].guests[0]
	if j.task != nil {
		home.tasks.Add(1) // relieveAll alone counts there
	}
	p.hire(home, j)
}
