package sim

import (
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
)

// worker is a goroutine of the pool's, or the source of the work from outside. When it searches, sleeps and waits is up to
// package core. Its methods are those of the pool's Worker with the same names, with their cost in time, and without guests,
// children, priorities and panics.
type worker struct {
	clock
	stack
	core  core.Worker
	cpu   *cpu
	place *place // nil while it waits or is idle
	found job    // by Look

	asleep bool // it does not run, and is not only about to sleep
	awake  bool // an Unpark that no Park has seen
}

// The pool's, see pool/find.go.
const (
	maxLIFO   = 3
	poll      = 20 // the pool's first period
	leastPull = 4
)

// job is work to run: a request, or a fork of a worker.
type job struct {
	request *request
	owner   *worker
	index   int
}

// main is a worker's life.
func (w *worker) main() {
	w.enter()
	for w.awaitPlace() {
		w.step()
	}
	w.leave()
}

func (w *worker) awaitPlace() bool {
	switch w.core.State() {
	case core.Holding:
		return true
	case core.Beside:
		if w.has(w.core.EndBeside()) {
			return true
		}
		w.beIdle()
	}
	if w.core.State() == core.Idle {
		w.has(w.core.AwaitPlace())
	} else {
		w.has(w.core.TakeUp())
	}
	if w.place == nil {
		return false
	}
	woken := w.engine.core.Woken.Load()
	if w.place.core.Answers(); w.engine.core.Woken.Load() != woken {
		w.wrote(w.engine.restWord())
	}
	return true
}

// has says whether the worker has got a place.
func (w *worker) has(pl *core.Place) bool {
	if pl == nil {
		return false
	}
	w.place = w.engine.places[pl.Index]
	w.wrote(w.at) // the roster
	return true
}

func (w *worker) step() {
	pl := &w.place.core
	if pl.IsStandIn() && w.runOne() {
		return
	}
	if pl.HasOrders() {
		pl.StopSearching()
		w.beIdle()
		return
	}
	if t := w.nextTask(); t != nil {
		pl.StopSearching()
		w.run(job{request: t})
		return
	}
	if pl.FindWork(&w.place.search, w) {
		w.run(w.found)
		return
	}
	if !pl.HasOrders() && pl.Watch(w) {
		return
	}
	w.beIdle()
}

func (w *worker) runOne() bool {
	if t := w.nextTask(); t != nil {
		w.run(job{request: t})
		return true
	}
	if w.stealWork(true) == heist.Success {
		w.run(w.found)
		return true
	}
	return false
}

// letGo returns the place that the worker has and is about to let go of, or nil.
func (w *worker) letGo() *core.Place {
	w.sync()
	pl := w.place
	w.place = nil
	w.wrote(w.engine.restWord())
	if pl == nil {
		return nil
	}
	w.wrote(w.at) // the roster
	return &pl.core
}

func (w *worker) beIdle() { w.core.BeIdle(w.letGo()) }

func (w *worker) run(j job) {
	w.place.core.EndGap()
	switch {
	case j.owner != nil:
		w.runFork(j.owner, j.index)
	case w.engine.tree != nil:
		w.family(0, 1)
		w.engine.finish(w.now)
	default:
		w.serve(j.request)
	}
}

// serve runs a request or a part of one.
func (w *worker) serve(r *request) {
	e := w.engine
	w.now += fetch(e.service.lines, e.across[e.nodeOf[w.at]][r.node]) + r.cost
	for i := range r.parts {
		w.queue(&e.service.requests[r.first+i])
	}
	w.sync()
	e.ranOnce(r.index)
	whole := r.index
	if r.whole >= 0 {
		whole = r.whole
	}
	if e.unfinished[whole]--; e.unfinished[whole] == 0 && int(whole) >= e.service.arriving/2 {
		e.latencies = append(e.latencies, w.now-e.service.requests[whole].arrival)
	}
	e.finish(w.now)
}

func (w *worker) queue(t *request) {
	node := w.engine.nodeOf[w.at]
	t.node = int32(node)
	w.write(w.at)
	if t, w.place.slot = w.place.slot, t; t != nil {
		w.place.ring.Push(t)
	}
	w.notifyTask(node)
}

func (w *worker) nextTask() *request {
	pl, node := w.place, w.engine.nodeOf[w.at]
	w.read(w.at)
	if pl.poll <= 0 && pl.batch.Len() == 0 {
		pl.poll = poll
		if t := w.pullBatch(node); t != nil {
			return t
		}
	}
	if t := w.nextLocalTask(); t != nil {
		return t
	}
	return w.pullBatch(node)
}

func (w *worker) nextLocalTask() *request {
	pl := w.place
	if pl.queued() > 0 {
		w.write(w.at)
	}
	if t := pl.batch.Pop(); t != nil {
		pl.lifo = 0
		return t
	}
	pl.poll--
	if t := pl.slot; t != nil {
		pl.slot = nil
		if pl.lifo++; pl.lifo <= maxLIFO || pl.ring.Len() == 0 || !pl.ring.Push(t) {
			return t
		}
	}
	pl.lifo = 0
	return pl.ring.Pop()
}

func (w *worker) pullBatch(node int) *request {
	e, pl := w.engine, w.place
	injector := e.injectors[node]
	w.read(e.injectorWord(node))
	if !injector.Ready() {
		return nil
	}
	w.write(e.injectorWord(node))
	n := max(leastPull, injector.Len()*e.nodes/e.core.Size()+1)
	n = min(n, len(pl.pulled), pl.batch.Cap()-pl.batch.Len()+1)
	got, r := injector.PullBatch(pl.pulled[:n])
	if r != heist.Success {
		return nil
	}
	if node != e.nodeOf[w.at] {
		e.stats.stole(got, true)
	}
	if got > 1 {
		pl.batch.PushBatch(pl.pulled[1:got])
		w.write(w.at)
		w.notifyTask(e.nodeOf[w.at])
	}
	return pl.pulled[0]
}

func (w *worker) nextRemoteTaskAnywhere() *request {
	for _, node := range w.engine.nearby[w.engine.nodeOf[w.at]] {
		if t := w.pullBatch(node); t != nil {
			return t
		}
	}
	return nil
}

// Look and the methods after it are what FindWork and Watch ask of a worker.
func (w *worker) Look() heist.StealResult {
	w.read(w.engine.restWord())
	return w.stealWork(w.place.search.Last())
}

func (w *worker) Spin(d time.Duration) {
	w.now += d.Nanoseconds()
	w.sync()
}

func (w *worker) Yield() { w.Spin(yield) }

func (w *worker) StepAside() {}

func (w *worker) MaySpin() bool { return true }

func (w *worker) GiveWay(int64) {}

func (w *worker) stealWork(slots bool) heist.StealResult {
	e, pl := w.engine, w.place
	e.stats.Looks++
	forks := w.mind().Sleepers() >= 0
	firstVictim := pl.core.FirstVictim
	pl.core.FirstVictim = -1
	pl.search.Look(firstVictim, pl.victim, len(e.places))
	if pl.search.Drawn() && w.visit(w.at) && w.stealFork(pl, forks) == heist.Success {
		return heist.Success
	}
	result := heist.Empty
	for k := pl.search.Victim(); k >= 0; k = pl.search.Victim() {
		if !w.visit(k) {
			e.stats.Failed++
			continue
		}
		v, moved := e.places[k], 1
		r := w.stealFork(v, forks)
		if r != heist.Success {
			result = max(result, r)
			if forks && pl.core.Searching {
				v.core.Alarm()
			}
			if v != pl {
				moved, r = w.stealTasks(v, slots)
			}
		}
		if r == heist.Success {
			if e.lastVictim {
				pl.victim = k
			}
			e.stats.stole(moved, e.nodeOf[k] != e.nodeOf[w.at])
			if moved > 1 && !pl.core.Searching {
				w.notifyTask(e.nodeOf[w.at])
			}
			return r
		}
		e.stats.Failed++
		result = max(result, r)
	}
	if !pl.search.Near() {
		if t := w.nextRemoteTaskAnywhere(); t != nil {
			w.found = job{request: t}
			return heist.Success
		}
	}
	return result
}

// stealFork takes the oldest fork at a place.
func (w *worker) stealFork(v *place, forks bool) (result heist.StealResult) {
	if !forks {
		return heist.Empty
	}
	for at := v.core.First(); at != nil; at = at.Next() {
		owner := at.Shown().(*worker)
		index, r := w.claim(owner)
		if r == heist.Success {
			w.found = job{owner: owner, index: index}
			return r
		}
		result = max(result, r)
	}
	return result
}

// stealTasks takes half of the tasks at a place.
func (w *worker) stealTasks(v *place, slots bool) (moved int, r heist.StealResult) {
	if v.ring.Len()+v.batch.Len() == 0 && (!slots || v.slot == nil) {
		return 0, heist.Empty
	}
	w.write(v.cpu)
	t, moved, r := v.ring.StealInto(w.place.ring)
	if r == heist.Empty {
		t, moved, r = v.batch.StealInto(w.place.ring)
	}
	if r == heist.Empty && slots && v.slot != nil {
		t, moved, r = v.slot, 1, heist.Success
		v.slot = nil
	}
	if r == heist.Empty {
		return 0, heist.Retry // another thief was faster
	}
	if moved > 1 {
		w.write(w.at)
	}
	w.found = job{request: t}
	return moved, r
}

// clients is how many callers from outside there are at a time.
const clients = 16

// arrive brings the tree, or every so many of the requests, from outside.
func (w *worker) arrive() {
	e := w.engine
	bring := func(t *request, node int32, at int64) {
		w.now, w.synced = at, -1 // many clients: the wake-up by one does not hold up the next
		w.at = e.firstOf[node]
		clear(w.seen[e.injectorWord(0):]) // and a new client has seen no word
		if at > 0 {
			w.sync()
		}
		w.write(e.injectorWord(int(node)))
		e.injectors[node].Push(t)
		w.notifyTask(int(node))
	}
	if e.tree != nil {
		bring(new(request), 0, 0)
	} else {
		for i := w.id; i < e.service.arriving; i += e.clients {
			r := &e.service.requests[i]
			bring(r, r.node, r.arrival)
		}
	}
	w.sleepUntil(never)
}
