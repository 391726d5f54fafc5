package pool

import (
	"runtime"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
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
	rank int   // among the workers; constant
	site *site // where it may run; constant
	// guest is constant: the slot is for goroutines from outside.
	guest bool
	// doorman is constant: see doorman.go.
	doorman bool
	// bell is what the worker sleeps on if it is not locked to a thread: a channel hands
	// it to whatever P is free. Else it is nil, and awake is a futex. Constant; whoever
	// cleared the worker's bit sends.
	bell chan struct{}

	// The run queues; the pointers are constant. Thieves take from both.

	ring  *heist.Ring[task]
	batch *heist.Ring[task] // what was pulled from the injector and not begun

	// Owner only.

	tick      tick
	hunt      policy.Search
	binding   binding
	gaveWayAt int64 // when giveWay was last considered, in heist.Ticks
	victim    int   // the slot of the last one that had something to steal; -1 at first
	// hint is where the waker saw something: the slot that the next look visits first, or -1.
	// Whoever has cleared the worker's bit may write it too, before it wakes the worker.
	hint      int
	searching bool      // counted in the pool's sleep
	hot       forkStack // the one that a Join used last, to find it quickly
	marks     []int
	call      *call // what the running function belongs to
	helping   int   // jobs that it runs on top of one another, in the middle of waits
	pulled    [heist.MaxPull]*task

	// Owner writes, anybody reads.

	tasks     heist.Counter
	looks     heist.Counter
	parks     heist.Counter
	gaveWay   heist.Counter
	displaced heist.Counter
	thefts    thefts

	_ pad

	// slot is the LIFO slot: the task that this worker queued last. The owner exchanges
	// it, thieves empty it by CAS. It has lines of its own: what follows changes seldom.
	slot atomic.Pointer[task]

	_ pad

	stacks atomic.Pointer[[]forkStack] // owner replaces, thieves read

	host      atomic.Pointer[Worker] // of a guest inside a task, that task's; owner writes
	goroutine atomic.Uintptr         // as which it runs, see goroutineID; 0 for a free slot; owner writes

	// For the doorman (doorman.go).

	idle      atomic.Bool            // the worker sleeps in the middle of nothing, or is about to and does not look again; owner writes
	standIn   atomic.Pointer[Worker] // who has the worker's place, if not the worker; ring and retreat write
	standsFor atomic.Pointer[Worker] // of the doorman: whose place it has, or nil; ring and retreat write

	_ pad

	// Futexes, on a line that only sleepers and wakers touch: whoever wakes the worker
	// sets one to 1, the owner sets it to 0.

	awake atomic.Uint32 // of park; set only by who cleared the worker's bit
	alone atomic.Uint32 // of sleepAlone

	_ pad
}

func newWorker(p *Pool, id, rank int) *Worker {
	w := &Worker{pool: p, id: id, rank: rank, site: &p.sites[p.siteOf[id]], victim: -1, hint: -1}
	if p.cpus == nil {
		w.bell = make(chan struct{}, 1)
	}
	w.hunt.Init(p.victimOrder, id, &p.search, heist.RandomSeed())
	w.hunt.Backoff.Spin, w.hunt.Backoff.Yields = p.spin, p.yields
	w.thefts.init(p)
	w.tick.begin(p)
	// The capacities are constants that NewRing takes.
	w.ring, _ = heist.NewRing(heist.DefaultRingCapacity, w.injector())
	w.batch, _ = heist.NewRing[task](heist.MaxPull, nil)
	return w
}

// ID returns the worker's number, below [Pool.Slots]. At any time a number belongs to
// one goroutine at most, so an array of Slots elements can hold data per worker. Those
// that the pool was made with have the numbers from 0 on, guests and workers that join
// later those behind. A goroutine that waits in a join or for a group may run something
// else meanwhile, with the same number.
func (w *Worker) ID() int { return w.id }

// Node returns the system's number of the memory node on which the worker runs: one of
// [Pool.Nodes]. Guests count as on the node on which they came, spares as on one of them.
func (w *Worker) Node() int { return w.pool.nodes[w.site.node].id }

// Pool returns the pool to which the worker belongs.
func (w *Worker) Pool() *Pool { return w.pool }

// Go queues f to be run by the pool: in this worker's LIFO slot, so that it comes next, for
// what f needs is likely to be in the cache; what was there before goes to the end of the
// run queue. Idle workers take from both. Go returns [ErrClosed] once the pool is closed.
// It never blocks.
//
// Cost: no allocation beyond the closure f; two sequentially consistent stores, and a
// wake-up if somebody sleeps and nobody searches.
func (w *Worker) Go(f func(*Worker)) error {
	if f == nil {
		return errNilFunc("Worker.Go")
	}
	p := w.pool
	if p.closing.Load() {
		return ErrClosed
	}
	t := taskOf(f)
	if w.guest {
		// Close does not wait for guests, and only the injector refuses tasks from the
		// moment on at which it is closed.
		if !w.injector().Push(t) {
			return ErrClosed
		}
	} else if t = w.slot.Swap(t); t != nil && !w.ring.Push(t) { // both end with a full fence
		w.runAside(t) // it was accepted before the pool began to close
	}
	p.notifyTask(w.site.node)
	return nil
}

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
	defer w.end(w.begin()) // after the handler, which may end by runtime.Goexit
	defer func() {
		if v := recover(); v != nil {
			w.pool.detached(v)
		}
	}()
	w.tasks.Add(1)
	j.task.run(w)
}

// runAside runs a task for which no queue is left in the middle of something that it must
// not end.
func (w *Worker) runAside(t *task) { w.aside(func() { w.runNested(job{task: t}) }) }

// main is a worker's life: own tasks first, then others', then sleep.
func (w *Worker) main() {
	p := w.pool
	for {
		if w.ordered() && w.obey() {
			return
		}
		if w.doorman && !w.standsIn() {
			w.retreat()
			if p.exit.Load() && w.standsFor.Load() == nil {
				w.goroutine.Store(0)
				return
			}
			continue
		}
		if t := w.next(); t != nil {
			w.stopSearching() // woken as a searcher, it has found something
			w.run(job{task: t})
			continue
		}
		if j, ok := w.search(nil, true); ok {
			w.run(j)
			continue
		}
		if w.doorman {
			w.retreat()
			continue
		}
		if p.exit.Load() {
			w.stopSearching()
			w.goroutine.Store(0)
			return
		}
		w.rest()
	}
}

// search looks for work of others until it finds some, until l is done, or until
// its backoff says that it is time to sleep. A worker that finds half of the others
// searching already goes to sleep at once. The worker stays a searcher if nothing
// was found: park gives that up.
//
// Without tasks, it turns to them only when it would otherwise go to sleep. That is
// for joins: a stolen fork may be done any moment, and a task may take long. LIFO slots
// are left alone until then in any case: their workers are likely to come to them soon,
// with what they need in the cache, unless they are in the middle of something long. (In
// Tokio a task in the slot of such a worker had to wait for it: tokio#4941.)
func (w *Worker) search(l *latch, tasks bool) (job, bool) {
	w.tick.pause()
	for w.hunt.Begin(); ; {
		j, r := w.look(l, tasks || w.hunt.Last(), w.hunt.Last())
		if r == heist.Success {
			w.stopSearching()
			return j, true
		}
		if l != nil && l.done() {
			return job{}, false
		}
		// Only after the first look does the worker count as a searcher, for it often finds
		// something, and to count is to change a word that all share, twice. In the
		// simulation of 512 CPUs that was a tenth of the time.
		if !w.guest && !w.searching {
			if !w.pool.sleep.StartSearching(w.pool.Workers()) {
				return job{}, false
			}
			w.searching = true
			continue
		}
		switch action, spin := w.hunt.Next(r); action {
		case policy.Spin:
			if w.ordered() || w.pool.closing.Load() { // somebody waits for this worker to rest
				w.hunt.Backoff.End()
			} else {
				heist.Spin(spin)
			}
		case policy.Yield:
			heist.Yield()
		case policy.Park:
			return job{}, false
		}
	}
}

// look goes round the queues once: its own first, then the victims', and then the
// injectors again. It goes from tier to tier, and begins each with the victim that had
// something the last time, if it is there. Of a victim it takes a fork before tasks: forks
// are what somebody waits for. Who waits for a stolen fork begins with its thief, whose forks
// are likely to be parts of it (Wagner and Calder's leapfrogging, 1993).
func (w *Worker) look(l *latch, tasks, slots bool) (job, heist.StealResult) {
	p := w.pool
	result := heist.Empty
	w.looks.Add(1)
	tasks = tasks && !w.guest
	if tasks {
		if t := w.next(); t != nil { // left by a task that waits for its group
			return job{task: t}, heist.Success
		}
	}
	// With more guests than sleepers, forks are left alone: sleep.md, "Forks".
	forks := (w.guest || p.sleep.Load().Sleepers() >= 0) && w.helping < policy.MaxHelping
	victims := p.victims()
	hint := w.hint
	w.hint = -1
	if l != nil {
		if thief := int(l.thief.Load()); thief > 0 {
			hint = thief - 1
		}
	}
	w.hunt.Look(hint, w.victim)
	for k := w.hunt.Victim(); k >= 0; k = w.hunt.Victim() {
		if k >= len(victims) {
			continue // it has not been made
		}
		v := victims[k]
		lost := false
		if forks {
			for _, s := range v.forkStacks() {
				index, r := s.claim()
				if r == heist.Success {
					w.stole(k, 1)
					return job{forks: s, index: index}, r
				}
				lost = lost || r == heist.Retry
			}
		}
		if tasks && v != w {
			t, moved, r := v.rob(w, slots)
			if r == heist.Success {
				w.stole(k, moved)
				if moved > 1 && !w.searching { // nobody saw the others while they were in its hands
					p.notifyTask(w.site.node)
				}
				return job{task: t}, r
			}
			lost = lost || r == heist.Retry
		}
		w.thefts.failed(w.hunt.Tier(k), lost)
		if lost {
			result = heist.Retry
		}
	}
	if tasks && !w.hunt.Near() {
		t, r := w.pullAnywhere()
		if r == heist.Success {
			return job{task: t}, r
		}
		result = max(result, r)
	}
	return job{}, result
}

// rob takes half of the victim's tasks for a thief, who is to run the one that it returns.
func (v *Worker) rob(thief *Worker, slots bool) (t *task, moved int, r heist.StealResult) {
	if t, moved, r = v.ring.StealInto(thief.ring); r != heist.Empty {
		return t, moved, r
	}
	if t, moved, r = v.batch.StealInto(thief.ring); r != heist.Empty {
		return t, moved, r
	}
	if t = v.slot.Load(); !slots || t == nil {
		return nil, 0, heist.Empty
	}
	if !v.slot.CompareAndSwap(t, nil) {
		return nil, 0, heist.Retry
	}
	return t, 1, heist.Success
}

func (w *Worker) stole(victim, items int) {
	w.victim = victim
	w.thefts.succeeded(w.hunt.Tier(victim), victim, items)
}

// rest parks a worker that is in the middle of nothing.
func (w *Worker) rest() {
	p := w.pool
	w.forget()
	p.resting.Add(1)
	p.crew.signal()
	if p.latency && w.watch() {
		p.resting.Add(-1)
		return
	}
	w.park(nil)
	p.resting.Add(-1)
}

// start makes the calling goroutine the worker. If there are CPUs to bind it to, it locks
// it to its thread and pins that, and tells ready whether that worked. Without ready, a
// worker that cannot be pinned goes on where it is.
//
// A worker that is not bound is not locked either: it is cheaper for it to give way to
// other goroutines.
func (w *Worker) start(cpus []int, ready chan<- error) {
	var pinned *heist.Pinned
	var err error
	if len(cpus) > 0 {
		runtime.LockOSThread()
		pinned, err = w.pool.machine.pin(cpus...)
	}
	if ready != nil {
		ready <- err
	}
	if err == nil || ready == nil {
		w.binding = binding{pinned: pinned, goroutine: goroutineID(), cpus: cpus}
		w.live(cpus)
	}
	if pinned != nil {
		_ = pinned.Unpin() // if it fails, the goroutine ends locked and the thread with it
	}
	if len(cpus) > 0 {
		runtime.UnlockOSThread()
	}
	w.pool.ended.Done()
}

// live runs main. A task may call runtime.Goexit, as testing's FailNow does: that
// ends the goroutine, and its thread if it is locked, but not the worker, which goes on in
// another.
func (w *Worker) live(cpus []int) {
	w.goroutine.Store(goroutineID())
	over := false
	defer func() {
		if over {
			return // and the worker may be another goroutine by now
		}
		w.goroutine.Store(0)
		w.unwindAll()
		// The thread dies with the goroutine, unless it is the process's first: the runtime
		// keeps that one, parked, and its mask is what the system shows of the process.
		if pinned := w.binding.pinned; pinned != nil {
			_ = pinned.Unpin()
		}
		go w.start(cpus, nil)
	}()
	for !over {
		over = w.liveOn()
	}
}

// liveOn runs main and says whether it returned: not if a task panicked, and the panic was
// handled.
func (w *Worker) liveOn() (over bool) {
	defer func() {
		if v := recover(); v != nil {
			w.pool.detached(v)
			w.unwindAll()
		}
	}()
	w.main()
	return true
}
