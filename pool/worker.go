package pool

import (
	"runtime"
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// pad keeps fields with different writers from being moved between cores together. Its
// length is that of falseSharing in the root package, for the same reasons.
type pad [128]byte

// Worker is the place in which a task runs: a thread of the pool with its queues,
// or a goroutine from outside that is a guest for the length of a [Pool.Run]. A
// task gets its worker as an argument and hands it on to whatever forks, because
// Go has no thread-local storage. It must be used only by the function that it was
// given to, only until that returns, and never by another goroutine.
type Worker struct {
	pool *Pool
	id   int
	// guest is constant: the slot is for goroutines from outside.
	guest bool

	// Owner only.

	ring      *heist.Ring[task] // thieves take from it
	rand      heist.FastRand
	backoff   heist.Backoff
	ticks     uint32
	searching bool      // counted in sleep.state
	hot       forkStack // the one that a Join used last, to find it quickly
	marks     []int
	call      *call // what the running function belongs to
	helping   int   // jobs that it runs on top of one another, in the middle of waits
	pulled    [heist.MaxPull]*task

	// Owner writes, anybody reads.

	tasks    heist.Counter
	attempts heist.Counter
	steals   heist.Counter
	items    heist.Counter
	lost     heist.Counter
	parks    heist.Counter

	_ pad

	stacks atomic.Pointer[[]forkStack] // owner replaces, thieves read

	host      atomic.Pointer[Worker] // of a guest inside a task, that task's; owner writes
	goroutine atomic.Uintptr         // as which it runs, see goroutineID; 0 for a free slot; owner writes

	_ pad

	// Futexes, on a line that only sleepers and wakers touch: whoever wakes the worker
	// sets one to 1, the owner sets it to 0.

	awake atomic.Uint32 // of park; set only by who cleared the worker's bit
	alone atomic.Uint32 // of sleepAlone

	_ pad
}

// ID returns the worker's number: from 0 to [Pool.Workers]-1 for the pool's own
// workers, from there to [Pool.Slots]-1 for guests. At any time a number belongs to
// one goroutine at most, so an array of Slots elements can hold data per worker. A
// goroutine that waits in a join or for a group may run something else meanwhile, with
// the same number.
func (w *Worker) ID() int { return w.id }

// Pool returns the pool to which the worker belongs.
func (w *Worker) Pool() *Pool { return w.pool }

// Go queues f to be run by the pool: on this worker's own run queue, from which idle
// workers take. It returns [ErrClosed] once the pool is closed. It never blocks.
//
// Cost: no allocation beyond the closure f.
func (w *Worker) Go(f func(*Worker)) error {
	if f == nil {
		return errNilFunc("Worker.Go")
	}
	if w.pool.closing.Load() || !w.ring.Push(taskOf(f)) {
		return ErrClosed
	}
	w.pool.notifyTask()
	return nil
}

// injectorPeriod is after how many tasks of its own a worker looks into the injector
// first, lest tasks there starve: 61 as in Go's scheduler and Tokio. (Open-coroutine
// has 60. A prime does not fall into step with programs that fork by powers of two.)
const injectorPeriod = 61

// job is something to run: a task, or the fork at an index of a fork stack.
type job struct {
	task  *task
	forks forkStack
	index int
}

// run runs a job in the middle of nothing.
func (w *Worker) run(j job) {
	if j.task == nil {
		j.forks.run(w, j.index)
	} else {
		w.tasks.Add(1)
		j.task.run(w)
	}
	w.unwindAll()
}

// runNested runs a job inside another one, which waits for something. What a task
// does wrong there must not reach the one that waits.
func (w *Worker) runNested(j job) {
	w.helping++
	defer func() { w.helping-- }()
	if j.task == nil {
		j.forks.run(w, j.index)
		return
	}
	m, call := w.mark(), w.call
	w.call = nil
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				crash(newPanicError(v))
			}
		}
		w.unwind(m)
		w.call = call
	}()
	w.tasks.Add(1)
	j.task.run(w)
	returned = true
}

// main is a worker's life: own tasks first, then others', then sleep.
func (w *Worker) main() {
	for {
		if t := w.ownTask(); t != nil {
			w.stopSearching() // woken as a searcher, it has found something
			w.run(job{task: t})
			continue
		}
		if j, ok := w.search(nil, true); ok {
			w.run(j)
			continue
		}
		if w.pool.exit.Load() {
			w.stopSearching()
			return
		}
		w.rest()
	}
}

// ownTask takes a task without a look at other workers.
func (w *Worker) ownTask() *task {
	w.ticks++
	if w.ticks%injectorPeriod == 0 {
		if t, _ := w.pull(); t != nil {
			return t
		}
	}
	if t := w.ring.Pop(); t != nil {
		return t
	}
	t, _ := w.pull()
	return t
}

// pull takes a share of what lies in the injector, from 4 tasks to 64, returns the
// first and puts the others into the ring.
func (w *Worker) pull() (*task, heist.StealResult) {
	in := w.pool.injector
	n := max(4, in.Len()/w.pool.Workers()+1)
	n = min(n, len(w.pulled), w.ring.Cap()-w.ring.Len())
	got, r := in.PullBatch(w.pulled[:max(n, 1)])
	if r != heist.Success {
		return nil, r
	}
	first := w.pulled[0]
	for _, t := range w.pulled[1:got] {
		w.ring.Push(t)
	}
	clear(w.pulled[:got])
	if got > 1 {
		w.pool.notifyTask()
	}
	return first, r
}

// lostInARow bounds how often a searcher tries again at once after a lost race. In
// a row as long as this it is not a race that was lost, but a producer that was
// descheduled in the middle of a push.
const lostInARow = 16

// search looks for work of others until it finds some, until l is done, or until
// its backoff says that it is time to sleep. A worker that finds half of the others
// searching already goes to sleep at once. The worker stays a searcher if nothing
// was found: park gives that up.
//
// Without tasks, it turns to them only when it would otherwise go to sleep. That is
// for joins: a stolen fork may be done any moment, and a task may take long.
func (w *Worker) search(l *latch, tasks bool) (job, bool) {
	if !w.guest && !w.searching {
		if !w.pool.sleep.startSearching(w.pool.Workers()) {
			return job{}, false
		}
		w.searching = true
	}
	w.backoff.Reset()
	lost := 0
	for {
		j, r := w.look(l, tasks)
		switch {
		case r == heist.Success:
			w.stopSearching()
			return j, true
		case l != nil && l.done():
			return job{}, false
		case r == heist.Retry && lost < lostInARow:
			lost++
			w.lost.Add(1)
			w.backoff.Lost()
			continue
		}
		if w.backoff.Wait() {
			continue
		}
		if tasks || w.guest {
			return job{}, false
		}
		tasks = true
	}
}

// maxHelping bounds how many jobs a worker runs on top of one another, each in the
// middle of a wait of the one below, and still takes another fork. What a join helps with may be larger than
// what it waits for, so without the bound a stack could grow as long as there is
// anything to find. With it, it is at most maxHelping+1 times as deep as that of a
// serial run, tasks apart: those are taken before a sleep, for they may have nobody else.
const maxHelping = 32

// look goes round all queues once: the victims', from a random one on, and then the
// injector. Of a victim it takes a fork before tasks: forks are what somebody waits
// for. Who waits for a stolen fork begins with its thief, whose forks are likely to be
// parts of it (Wagner and Calder's leapfrogging, 1993).
func (w *Worker) look(l *latch, tasks bool) (job, heist.StealResult) {
	p := w.pool
	result := heist.Empty
	w.attempts.Add(1)
	if tasks {
		if t := w.ring.Pop(); t != nil { // left by a task that waits for its group
			return job{task: t}, heist.Success
		}
	}
	// With more guests than sleepers, forks are left alone: sleep.md, "Forks".
	forks := (w.guest || spare(p.sleep.state.Load()) >= 0) && w.helping < maxHelping
	tasks = tasks && !w.guest
	n := len(p.slots)
	start := int(w.rand.N(uint32(n)))
	if l != nil {
		if thief := int(l.thief.Load()); thief > 0 {
			start = thief - 1
		}
	}
	for i := range n {
		v := p.slots[(start+i)%n]
		if forks {
			for _, s := range v.forkStacks() {
				index, r := s.claim()
				if r == heist.Success {
					w.stole(1)
					return job{forks: s, index: index}, r
				}
				result = max(result, r)
			}
		}
		if tasks && v != w {
			t, moved, r := v.ring.StealInto(w.ring)
			if r == heist.Success {
				w.stole(moved)
				return job{task: t}, r
			}
			result = max(result, r)
		}
	}
	if tasks {
		t, r := w.pull()
		if r == heist.Success {
			return job{task: t}, r
		}
		result = max(result, r)
	}
	return job{}, result
}

func (w *Worker) stole(items int) {
	w.steals.Add(1)
	w.items.Add(items)
}

// rest parks a worker that is in the middle of nothing.
func (w *Worker) rest() {
	p := w.pool
	w.forget()
	p.resting.Add(1)
	if p.closing.Load() {
		p.signalQuiet()
	}
	w.park(nil)
	p.resting.Add(-1)
}

// start makes the calling goroutine the worker: it locks it to its thread and pins
// that to cpu, if cpu is not negative. It tells ready whether that worked. Without
// ready, a worker that cannot be pinned goes on where it is.
func (w *Worker) start(cpu int, ready chan<- error) {
	runtime.LockOSThread()
	var pinned *heist.Pinned
	var err error
	if cpu >= 0 {
		pinned, err = heist.Pin(cpu)
	}
	if ready != nil {
		ready <- err
	}
	if err == nil || ready == nil {
		w.live(cpu)
	}
	if pinned != nil {
		_ = pinned.Unpin() // if it fails, the goroutine ends locked and the thread with it
	}
	runtime.UnlockOSThread()
	w.pool.ended.Done()
}

// live runs main. A task may call runtime.Goexit, as testing's FailNow does: that
// ends the goroutine, and its thread because it is locked, but not the worker,
// which goes on in another.
func (w *Worker) live(cpu int) {
	w.goroutine.Store(goroutineID())
	returned := false
	defer func() {
		w.goroutine.Store(0)
		if returned {
			return
		}
		if v := recover(); v != nil {
			panic(v) // a detached task's panic ends the process, with its stack
		}
		w.unwindAll()
		go w.start(cpu, nil)
	}()
	w.main()
	returned = true
}
