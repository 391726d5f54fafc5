package pool

import (
	"context"
	"runtime"
	"runtime/trace"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/internal/published"
)

// Worker is the goroutine that a function of the pool runs in: one of the pool's own, or one from
// outside that is a guest for the length of a [Pool.Run]. A function gets its worker as an
// argument and passes it on to what forks, because Go has no thread-local storage. Only the
// function that was given a worker may use it, only until it returns, and never in another goroutine. Methods of a nil
// Worker say so in their panic or error, except those that only load something, such as Context and Cancelled.
type Worker struct {
	_ pad.Line

	// place is the place that the worker has; nil while it waits, and for guests. Owner only.
	*place

	pool     *Pool
	id       int  // constant
	afterEnd bool // it was hired after the end of the pool, for a guest that stayed longer; constant

	// Owner only.

	itsGoroutine
	calls
	manners
	patience
	workerLabels
	meter

	stacks       []forkStack
	hot          forkStack // the fork stack that a Join used last, to find it quickly
	unwindPoints []int
	counts       childCounts // of the innermost branch
	found        job         // what its search has found
	first        *job        // the job that it begins with, without a place; nearly always nil
	inHook       bool        // it runs a hook of WithHooks
	binding      binding
	cells        *cellHead // that it holds, see local.go
	merging      float64   // see Merging

	display // owner writes, observers read

	_ pad.Line

	offered atomic.Pointer[[]stealable] // the children, then the fork stacks; owner replaces, thieves read
	labels  *labels                     // its goroutine's labels; owner writes, thieves read while they cannot change

	children children

	waitsFor atomic.Pointer[waitsFor]  // nil while it computes; owner writes, observers read
	noticed  atomic.Pointer[waitsFor]  // the wait that was noticed; nil for none; who notices it writes, under the lock of core.Notice
	seen     atomic.Pointer[waitsFor]  // the wait that nobody has noticed but a snapshot; nil for none; snapshots write
	record   published.Pointer[record] // of its goroutine; owner writes, the monitor reads

	core core.Worker // its state, home and parker

	_ pad.Line
}

// newWorker makes a worker, which is bound if the placement has room for one more. Its goroutine must run start.
func (p *Pool) newWorker(s *core.Placement) *Worker {
	bound, afterEnd := s.Begins(&p.core)
	w := &Worker{pool: p, afterEnd: afterEnd}
	w.core.Init(&p.core, s, (*shown)(w), bound)
	if p.timed {
		w.timings = new(timings)
	}
	w.isNew()
	return w
}

// newGuest makes a worker for guests of a roster.
func (p *Pool) newGuest(s *core.Placement, r *core.Roster) *Worker {
	w := &Worker{pool: p}
	w.core.InitGuest(&p.core, s, (*shown)(w), r)
	w.isNew()
	return w
}

func (w *Worker) isNew() {
	w.labels = &w.jobLabels
	w.offer([]stealable{&w.children})
	w.pool.workers.add(w)
}

// ID returns the worker's number. At any time at most one goroutine has a given number. Numbers are
// small, because that of a worker which has ended is used again. The first workers begin with the
// numbers from 0 on. For data per worker see [Local].
func (w *Worker) ID() int { return w.id }

// Node returns the system's number of the memory node on which the worker runs: one of
// [Pool.Nodes]. A guest counts as on the node on which it ran when its call began.
func (w *Worker) Node() int { return w.pool.nodes[w.core.Node()].id }

// Pool returns the pool to which the worker belongs.
func (w *Worker) Pool() *Pool { return w.pool }

// Go queues f to be run by the pool. It puts f into the LIFO slot of this worker's place, so that
// f comes next: what f needs is likely to be in the cache. The task that was in the slot goes to
// the end of the run queue. Idle workers take from both, from the slot only where tasks take longer than a wake-up, some 5 us,
// or where its worker does not come to it within a millisecond or two. A pool that closes takes what its tasks add, see [Pool.Close];
// to a guest Go then returns [ErrClosed]. It never blocks.
//
// Cost: no allocation beyond the closure f; two sequentially consistent stores, and a
// wake-up if a place sleeps and no worker searches.
func (w *Worker) Go(f func(*Worker)) error {
	if f == nil {
		return errNilFunc("Worker.Go")
	}
	if w == nil || w.pool == nil {
		return errNoPool
	}
	if w.debug("Worker.Go"); w.place == nil && !w.isMine() && !w.pool.core.Closing.Load() { // a closed pool refuses it in any case
		return errOthers("Worker.Go") // such a worker of a function that has returned is found without a cost for others
	}
	if ls := w.carries(); ls != nil || trace.IsEnabled() {
		f = withMeta(f, taskOf(f), ls, "")
	}
	return w.accept(f)
}

// accept is Go for a function that already has its metadata, if it needs any.
func (w *Worker) accept(f func(*Worker)) error {
	p := w.pool
	if p.core.Closing.Load() && !(w.isMine() && p.closesWith()) {
		return p.refuse(ErrClosed)
	}
	if w.hasPlace() {
		w.queue(f)
		return nil
	}
	// Close does not wait for guests, so the task goes to the injector: it alone refuses tasks from
	// the moment at which it is closed.
	return p.enqueue(f, PriorityNormal, w.core.Node())
}

// queue is Go for a task that the pool has accepted before. The worker is not a guest.
func (w *Worker) queue(f func(*Worker)) {
	p, t := w.pool, w.pool.taskOf(f)
	if !w.hasPlace() {
		p.queue(t, PriorityNormal, w.core.Node())
		return
	}
	w.usesPlace.Set(1) // a full ring has the injector allocate
	// The exchange and the push end with a full fence.
	if t = w.lifoSlot.Swap(t); t != nil && !w.ring.Push(t) {
		w.stash = append(w.stash, t) // the pool is about to end, and has accepted it
	}
	w.usesPlace.Set(0)
	if t == nil && w.keeps.Load() {
		p.core.MayWait() // the monitor sees to it if the worker does not come to the slot
		return
	}
	p.core.NotifyTask(w.core.Node())
}

// queue queues a task that the pool has accepted in an injector of a node. The caller keeps the pool from its end, unless it
// is a guest that has stayed longer.
func (p *Pool) queue(t *task, priority Priority, node int) {
	if !p.push(t, priority, node) { // the pool is about to end
		p.core.Enter()
		p.hireFor(node, job{task: t})
	}
}

// push queues a task in an injector of a node, unless that is closed.
func (p *Pool) push(t *task, priority Priority, node int) bool {
	if priority == PriorityHigh {
		p.urgent.Add(1) // before the push: the worker that takes the task subtracts
	}
	pushed := p.nodes[node].queues[priority].Push(t)
	if pushed {
		p.core.NotifyTask(node)
	} else if priority == PriorityHigh {
		p.urgent.Add(-1)
	}
	return pushed
}

// hasPlace says whether the worker has a place. If it has none, it takes up the place that it was
// given meanwhile, if any. If its place was lent because it waited, it has come back now.
func (w *Worker) hasPlace() bool { return w.place != nil && !w.core.Seen() || w.findPlace() }

//go:noinline
func (w *Worker) findPlace() bool {
	w.answerNotice()
	if w.place == nil {
		w.place = w.pool.placeOf(w.core.TakeUp())
		w.answerNotice() // TakeUp takes a lock, and a wait for it may be noticed
	}
	return w.place != nil
}

// job is something to run: a task, or what was claimed from another worker.
type job struct {
	task *task
	from stealable
	claimed
}

// run runs a job in the worker's place, not on top of another job.
func (w *Worker) run(j job) {
	w.woke, w.ran = false, true
	w.place.core.EndGap()
	if j.task != nil {
		w.ranTask = true
		w.tasks.Add(1)
		w.tick.begins()
	}
	w.do(j)
}

// do is run for a worker that need not have a place.
func (w *Worker) do(j job) {
	w.jobs.Set(w.jobs.Own() + 1)
	if w.pool.stamps {
		w.begins()
	}
	if j.task != nil {
		w.begin(j.task)
		j.task.run(w)
	} else {
		j.from.run(w, j.claimed)
	}
	if w.pool.stamps {
		w.ends()
	}
	if w.hasLabels() {
		w.resetLabels() // the job has set labels and not reset them
	}
	w.job.Set(nil)
}

// main is the loop of a worker, in a goroutine that may have taken the worker over from another one.
func (w *Worker) main() {
	if j := w.first; j != nil {
		w.first = nil
		w.do(*j)
	}
	for w.awaitPlace() {
		w.step()
	}
}

// awaitPlace is called between two jobs. A worker without a place sleeps until it is given one. awaitPlace
// says whether it has one; if not, the goroutine has to end.
func (w *Worker) awaitPlace() bool {
	w.answerNotice()
	switch w.core.State() {
	case core.Holding:
		return true
	case core.Beside:
		if w.place = w.pool.placeOf(w.core.EndBeside()); w.place != nil {
			return true
		}
		w.beIdle()
	case core.Waiting:
		fatal("a worker that waits is between two jobs")
	case core.Fresh:
		if !w.hasPlace() {
			w.core.BeginLookout()
		}
	}
	if w.core.State() == core.Idle {
		r := region("heist: park")
		w.place = w.pool.placeOf(w.core.AwaitPlace())
		endRegion(r)
	}
	if !w.hasPlace() { // the pool has ended, or there are enough idle workers
		return false
	}
	w.place.core.Answers()
	w.stay()
	w.gaveWayAt, w.ran, w.ranTask = heist.Ticks(), false, false // its P has just looked at everything else
	w.tick.began = w.gaveWayAt
	w.pool.follow(w.gaveWayAt)
	return true
}

// step is one turn of a worker that has a place: own tasks first, then those of others, then sleep.
func (w *Worker) step() {
	// A queued task has its turn before the worker that lent the place, or two tasks that wait again
	// and again would pass the place to each other for ever.
	if w.place.core.IsStandIn() && !w.pool.core.Held() && (w.runHanded() || w.runOne()) {
		return
	}
	w.dropHanded()
	if w.isControlled() && w.obeyControl() {
		return
	}
	if t := w.nextTask(); t != nil {
		w.place.core.StopSearching() // woken as a searcher, it has found something
		w.run(job{task: t})
		return
	}
	// A search would keep a goroutine that is ready on this P waiting until another thread takes it over: some 40 microseconds. What has gone on
	// meanwhile may have queued the next task, so the worker's own look comes before a search.
	switch {
	case w.woke && !w.core.Parker.Locked():
		w.woke, w.ran, w.ranTask = false, false, false
		runtime.Gosched()
		return
	case (w.ranTask || w.ran && !w.pool.sparesPs()) && w.stepAside():
		return
	}
	if j, ok := w.findWork(); ok {
		again := j.from != nil && !w.search.Drawn() && w.tier == 0
		w.run(j)
		if again {
			w.stealOn(j.from)
		}
		w.giveWay()
		return
	}
	w.trim()
	if !w.isControlled() && !w.pool.core.Exits() && w.place.core.Watch((*searcher)(w)) {
		return
	}
	w.beIdle()
}

// stealOnLook is how long stealOn takes from one victim before it looks at what else there is: some ten short forks.
const stealOnLook = time.Microsecond

// stealOn runs more of what the worker has just run a stolen item of. If there is no task and
// no order, the worker would come to these next through step, because the last victim of the nearest tier comes
// first; stealOn saves the way there. It returns when it is time to give way. In primitives/claim a fork takes
// 0.55 of the time that it takes through step: 190 to 270 ns instead of 330 to 470. With a look at all queues once in stealOnLook
// instead of before each claim it takes 0.82 to 0.85 of what remained, 78 ns instead of 92.
func (w *Worker) stealOn(from stealable) {
	p := w.pool
	now := heist.Ticks()
	until, look := now+p.ticks.giveWay, now
	for ; now < until && w.hasPlace() && !w.woke && !w.isControlled(); now = heist.Ticks() {
		if now >= look {
			if w.hasOther() {
				return
			}
			look = now + p.ticks.stealOn
		}
		w.looks.Add(1)
		c, r := from.claim(w.core.Node())
		if r != heist.Success {
			return
		}
		w.stole(w.from, w.tier, 1)
		w.run(job{from: from, claimed: c})
	}
}

// hasOther says whether step would find the worker something else than what it steals from one victim.
func (w *Worker) hasOther() bool {
	p := w.pool
	if w.queued()+len(w.stash) > 0 || p.core.Sleep.Load().Sleepers() < 0 {
		return true
	}
	for _, q := range p.nodes[w.core.Node()].queues {
		if q.Ready() {
			return true
		}
	}
	return false
}

// runOne runs one task or stolen job, if there is one.
func (w *Worker) runOne() bool {
	t := w.nextTask()
	if t != nil {
		w.run(job{task: t})
		return true
	}
	j, r := w.stealWork(true)
	if r == heist.Success {
		w.run(j)
	}
	return r == heist.Success
}

// beIdle makes the worker idle, between two jobs. The place that it has goes to the first worker that wants it back; if
// there is none, it sleeps.
func (w *Worker) beIdle() {
	w.leaveNothing()
	if pl := w.place; pl != nil {
		w.place = nil
		w.core.BeIdle(&pl.core)
	} else {
		w.core.BeIdle(nil)
	}
}

// leaveNothing is called between two jobs by a worker that becomes idle, and by a guest that leaves: what its jobs have used is free.
func (w *Worker) leaveNothing() {
	w.trim()
	w.freeCells(true)
}

// findWork is searchWork with its time measured and traced.
func (w *Worker) findWork() (job, bool) {
	if w.timings == nil && !trace.IsEnabled() {
		return w.searchWork()
	}
	start, r := heist.Ticks(), region("heist: search")
	if w.timings != nil {
		w.timings.left = 0
	}
	j, ok := w.searchWork()
	endRegion(r)
	if w.timings != nil {
		w.timings.searching.Add(int(max(heist.Ticks()-start-w.timings.left, 0)))
	}
	return j, ok
}

// searchWork looks for work of others until it finds some, or until it is time to sleep: core.Place.FindWork.
func (w *Worker) searchWork() (job, bool) {
	w.tick.pause(w.pool.ticks.perNanosecond)
	w.stay()
	ok := w.place.core.FindWork(&w.search, (*searcher)(w))
	j := w.found
	w.found = job{}
	return j, ok
}

// stealWork visits the guests of its node, the other places, and the guests of other nodes once, and then looks at the
// injectors again. It goes through the places from tier to tier, and begins the tier of the last victim with that
// victim; or it draws places at random. At each place it takes a fork before tasks, because a worker waits for each fork.
func (w *Worker) stealWork(slots bool) (job, heist.StealResult) {
	p := w.pool
	result := heist.Empty
	w.looks.Add(1)
	// With more guests than sleepers, forks are left alone: sleep.md, "Forks".
	state := p.core.Sleep.Load()
	forks := state.Sleepers() >= 0
	firstVictim := w.place.core.FirstVictim
	w.place.core.FirstVictim = -1
	nearby := p.nodes[w.core.Node()].nearby
	if state.HasGuests() {
		j, r := w.stealFromGuests(nearby[:1], forks)
		if r == heist.Success {
			return j, r
		}
		result = r
	}
	places := p.victims()
	w.search.Look(firstVictim, w.victim, len(places))
	if w.search.Drawn() {
		// Workers that lent this place may have forks here. They are the place's own, so this is no steal.
		if j, r := stealFork(&w.place.core.Roster, forks, w.core.Node()); r == heist.Success {
			return j, r
		}
	}
	for k := w.search.Victim(); k >= 0; k = w.search.Victim() {
		if k >= len(places) {
			continue // the place has not been made
		}
		pl := places[k]
		lost := false
		if pl.core.First() != nil {
			j, r := stealFork(&pl.core.Roster, forks, w.core.Node())
			if r == heist.Success {
				w.stole(k, w.search.Tier(k), 1)
				w.victim = k
				return j, r
			}
			lost = r == heist.Retry
			if forks && w.place.core.Searching {
				pl.core.Alarm()
			}
		}
		if pl != w.place {
			t, moved, r := pl.stealTasks(w.place.ring, slots && !pl.keeps.Load())
			if r == heist.Success {
				w.stole(k, w.search.Tier(k), moved)
				w.victim = k
				if moved > 1 && !w.place.core.Searching { // the other tasks were in no queue for a moment
					p.core.NotifyTask(w.core.Node())
				}
				return job{task: t}, r
			}
			lost = lost || r == heist.Retry
		}
		w.stealStats.failed(w.search.Tier(k), lost)
		if lost {
			result = heist.Retry
		}
	}
	if !w.search.Near() {
		if state.HasGuests() {
			j, r := w.stealFromGuests(nearby[1:], forks)
			if r == heist.Success {
				return j, r
			}
			result = max(result, r)
		}
		t, r := w.nextRemoteTaskAnywhere()
		if r == heist.Success {
			return job{task: t}, r
		}
		result = max(result, r)
	}
	return job{}, result
}

// stealTasks steals half of the tasks of one of the place's queues. It returns one for the thief to run, and
// puts the others into the thief's ring. It takes from the LIFO slot only if slots is set.
func (pl *place) stealTasks(into *heist.Ring[task], slots bool) (t *task, moved int, r heist.StealResult) {
	if t, moved, r = pl.ring.StealInto(into); r != heist.Empty {
		return t, moved, r
	}
	if t, moved, r = pl.batch.StealInto(into); r != heist.Empty {
		return t, moved, r
	}
	if t = pl.lifoSlot.Load(); !slots || t == nil {
		return nil, 0, heist.Empty
	}
	if !pl.lifoSlot.CompareAndSwap(t, nil) {
		return nil, 0, heist.Retry
	}
	return t, 1, heist.Success
}

// stealFromGuests takes a child or, if forks is set, a fork of a guest of one of the nodes.
func (w *Worker) stealFromGuests(nodes []int, forks bool) (j job, result heist.StealResult) {
	p := w.pool
	for _, node := range nodes {
		n := &p.nodes[node]
		tier := w.search.TierOf(n.guestsAt)
		for i := range n.guests {
			g := &n.guests[(w.index+i)%len(n.guests)] // not all thieves begin at the same
			if g.First() == nil {
				continue
			}
			j, r := stealFork(&g.Roster, forks, w.core.Node())
			if r == heist.Success {
				w.stole(len(p.places), tier, 1)
				return j, r
			}
			result = max(result, r)
			if forks && w.place.core.Searching {
				g.Alarm()
			}
			w.stealStats.failed(tier, r == heist.Retry)
		}
	}
	return job{}, result
}

func (w *Worker) stole(victim, tier, items int) {
	if trace.IsEnabled() {
		trace.Logf(context.Background(), "heist: steal", "%d from %d", items, victim)
	}
	w.from, w.tier = victim, tier
	if victim != w.index { // else a worker that lent this place has left the fork here
		w.stealStats.succeeded(tier, victim, items)
	}
}

// start makes the calling goroutine the worker. If the worker is to be bound, start locks it to its thread,
// and sends to ready whether the thread could be bound. Without ready a worker that cannot be bound goes on where it is.
//
// A worker that is not bound is not locked either, so that giving way to other goroutines is cheaper.
func (w *Worker) start(ready chan<- error) {
	p := w.pool
	bound := w.core.Parker.Locked()
	var pinned *heist.Pinned
	var err error
	if bound {
		runtime.LockOSThread()
		pinned, err = p.machine.pin(w.core.Placement().CPUs...)
	}
	if ready != nil {
		ready <- err
	}
	if err == nil || ready == nil {
		w.binding = binding{pinned: pinned, cpus: w.core.Placement().CPUs}
		w.live()
	}
	p.workers.remove(w)
	if pinned != nil {
		_ = pinned.Unpin() // if it fails, the goroutine ends locked and the thread with it
	}
	if bound {
		runtime.UnlockOSThread()
	}
	w.core.Placement().Ends(&p.core, bound, w.afterEnd)
}

// live runs main. A task may call runtime.Goexit, as testing's FailNow does. That ends the
// goroutine, and its thread if it is locked, but not the worker, which goes on in another goroutine.
func (w *Worker) live() {
	w.locateLabels()
	w.resetLabels() // a goroutine inherits the labels of the goroutine that started it
	over := false
	w.goroutine = goroutineID()
	w.cancelScope, w.around, w.inPlace, w.away, w.outer = nil, nil, 0, 0, nil
	w.doesNothing()
	if w.pool.slowAfter > 0 {
		w.number.Store(goroutineNumber())
	}
	goroutines.set(w.goroutine, w)
	hook(w.pool.begins, w)
	defer func() {
		hook(w.pool.ends, w)
		goroutines.set(goroutineID(), nil)
		if over {
			return
		}
		// The thread dies with the goroutine, unless it is the process's first. The runtime keeps
		// that one, parked, and the system shows its mask as that of the process.
		if pinned := w.binding.pinned; pinned != nil {
			_ = pinned.Unpin()
		}
		go w.start(nil) // Close waits for the end of this goroutine
	}()
	for !over {
		over = w.liveOn()
	}
}

// doesNothing says that the worker runs nothing, after a job that may have ended by a panic or a Goexit.
func (w *Worker) doesNothing() {
	if w.since.Load() != 0 {
		w.ends()
	}
	w.job.Set(nil)
	w.inside.Set(nil)
	w.forWhom.Set(nil)
	w.latch.Set(nil)
}

func hook(f func(*Worker), w *Worker) {
	if f != nil {
		w.inHook = true
		f(w)
		w.inHook = false
	}
}

// liveOn runs main and says whether it returned. It has not if a task panicked and the panic was handled.
func (w *Worker) liveOn() (over bool) {
	defer func() {
		if over {
			return
		}
		if v := panics.Recovered(recover()); v != nil {
			w.pool.detached(v)
			w.cancelScope, w.around = nil, nil
			w.doesNothing()
		}
	}()
	w.main()
	return true
}
