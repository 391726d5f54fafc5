package pool

import (
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/census"
)

// # Coroutines
//
// A function that is given to iter.Pull runs in a goroutine of its own, a **coroutine**, while another
// goroutine, which may run a task, waits in next. The runtime does not tell which goroutine that is. So
// if the coroutine waits for something, the task that waits for the coroutine keeps its place and cannot
// lend it. If all places were kept like that, and what the coroutines wait for were queued, no worker would begin it.
//
// So while a coroutine waits, these begin each millisecond, one of each, as if they had come back from a wait:
//   - a queued item: a task, a child of a scope, or the mail of a broadcast if nothing else is queued; in a worker that
//     has no place;
//   - a caller that waits for admission. A guest that waits for a coroutine keeps its turn, as a task keeps its place, and
//     the coroutine may be that caller, or wait for it;
//   - a function of each group whose functions wait for turns ([Group.AtMost]), unless a turn of the group has ended in that
//     millisecond: a function that waits for a coroutine keeps its turn, too.
//
// They begin in each pool of the process, for the task may belong to any pool, and another pool's tasks may wait for it. (A
// pool in a bubble of testing/synctest must be used only inside it, and nothing tells which pools are in the same
// bubble. So there they begin only in the pool at which the coroutine waits.) Items begin during a call of
// Pause, too, until it returns.
//
// For the same reason heist does not know that a coroutine is inside a task: Close and Pause in a coroutine
// wait for the task, for ever. (A coroutine that uses the worker of the task and waits misuses the worker,
// see misuse.go.)

// reliefPeriod is the time between two items that are begun for a coroutine. It is long compared with a
// wake-up, so that workers come first if they can.
const reliefPeriod = time.Millisecond

// inCoroutine says whether the calling goroutine was made by iter.Pull. Cost: 3 ns where coroutineStart is known.
func inCoroutine() bool {
	if s := coroutineStart(); s.at != 0 {
		return wordOfMine(s.at) == s.pc
	}
	return beginsAsCoroutine()
}

// wordOfMine returns a word of the calling goroutine's record.
func wordOfMine(at uintptr) uintptr { return uintptr((*record)(goroutineRecord()).word(at)) }

// beginsAsCoroutine is inCoroutine by the stack. Cost: half a microsecond, and some 50 ns more for each frame of a deep stack.
func beginsAsCoroutine() bool {
	pcs := make([]uintptr, 32)
	n := runtime.Callers(2, pcs)
	for ; n == len(pcs); n = runtime.Callers(2, pcs) { // it always begins at the top, so parts of one length would take quadratic time
		pcs = make([]uintptr, 4*len(pcs))
	}
	for _, pc := range pcs[max(n-2, 0):n] { // the last one is goexit
		if f := runtime.FuncForPC(pc - 1); f != nil && f.Name() == startOfCoroutines {
			return true
		}
	}
	return false
}

const startOfCoroutines = "runtime.corostart"

// recorded says where the runtime's record of a goroutine has the address of the function with which the goroutine began, and what that is for a coroutine.
type recorded struct{ at, pc uintptr }

// coroutineStart looks for that, as status.go looks for the status: the first words of one coroutine's record that are the address of what coroutines begin
// with, where that of an ordinary goroutine has the address of another function. at is 0 if there is no such word. Goroutines of its own do that, lest it matter where it
// is called first.
var coroutineStart = sync.OnceValue(func() recorded {
	var s recorded
	if goroutineRecord() == nil {
		return s
	}
	found := make(chan recorded)
	go func() {
		next, stop := iter.Pull(func(yield func(recorded) bool) {
			for at := uintptr(wordSize); at < mostSearched; at += wordSize {
				pc := wordOfMine(at)
				if f := runtime.FuncForPC(pc); f != nil && f.Entry() == pc && f.Name() == startOfCoroutines && !yield(recorded{at, pc}) {
					return
				}
			}
		})
		defer stop()
		for s, ok := next(); ok; s, ok = next() {
			pc := wordOfMine(s.at)
			if f := runtime.FuncForPC(pc); pc != s.pc && f != nil && f.Entry() == pc {
				found <- s
				return
			}
		}
		found <- recorded{}
	}()
	return <-found
})

// relief begins queued items and functions of groups, and admits callers, while coroutines wait.
type relief struct {
	only *Pool // the pool, in a bubble; nil for all pools outside bubbles; constant

	mu    sync.Mutex
	waits int  // coroutines that wait at the moment
	more  bool // a wait has begun since the last look; some coroutines wait again and again, but never for long
	runs  bool // the goroutine of run exists
}

var reliefOfProcess relief

// relieve is called by a coroutine that begins to wait, which calls stop when its wait is over.
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

// run begins items and admits a caller every reliefPeriod while coroutines wait.
func (r *relief) run() {
	stolen, _ := heist.NewRing[task](heist.DefaultRingCapacity, nil)
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
			r.only.relieved(stolen)
			continue
		}
		for _, o := range census.Pools[*Pool]() {
			if !o.InBubble {
				o.Pool.relieved(stolen)
			}
		}
	}
}

// relieved begins what may begin in the pool beside the others.
func (p *Pool) relieved(stolen *heist.Ring[task]) {
	p.admitBeside()
	p.runBeside(stolen)
	for _, g := range p.backlogs.all() {
		p.runTurnBeside(g)
	}
}

// runTurnBeside has a worker without a place run the function of the group that has the next turn, if there is one.
func (p *Pool) runTurnBeside(g *Group) {
	if !p.core.EnterUnlessAtRest() {
		return
	}
	if f, ok := g.takeBeside(); ok {
		p.hireFor(0, job{task: p.taskOf(f)})
	} else {
		p.core.Leave()
	}
}

// runBeside has a worker without a place run a queued item, if there is one. stolen is an empty ring,
// and is empty again afterwards.
func (p *Pool) runBeside(stolen *heist.Ring[task]) {
	// A Pause that has not returned waits for the worker; after one that has, nothing begins. And Enter comes before the
	// look: either Close waits for the worker as well, or nothing is taken.
	if !p.core.EnterUnlessAtRest() {
		return
	}
	j, ok := p.takeAnywhere(stolen)
	if !ok {
		p.core.Leave()
		return
	}
	for t := stolen.Pop(); t != nil; t = stolen.Pop() {
		p.queue(t, PriorityNormal, 0)
	}
	p.hireFor(0, j)
}

// takeAnywhere takes an item from the first queue that is not empty. More tasks may come into stolen,
// since a thief takes half.
func (p *Pool) takeAnywhere(stolen *heist.Ring[task]) (j job, ok bool) {
	for _, pl := range p.victims() {
		if t, _, _ := pl.stealTasks(stolen, true); t != nil {
			return job{task: t}, true
		}
	}
	for r, node := range p.rosters() {
		if j, result := stealFork(r, false, node); result == heist.Success {
			return j, true
		}
	}
	t := p.takeSubmitted()
	for _, pl := range p.victims() {
		if t == nil && pl.core.Mail.Load() > 0 {
			t = pl.openMail() // the place's worker may be the one that stands still
		}
	}
	return job{task: t}, t != nil
}
