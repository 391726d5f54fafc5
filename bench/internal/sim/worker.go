package sim

import (
	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// worker is a goroutine of the pool's, or the source of the work from outside. Its methods
// are the pool's of the same name, without guests, priorities and panics, and with
// their cost in time.
type worker struct {
	clock
	stack
	*place

	searching bool
	displaced bool // a waiter took its place back while it went to sleep
	helping   int  // how many jobs it runs on top of waits
	alone     bool // asleep outside the protocol
}

// The pool's, see pool/find.go.
const (
	maxLIFO   = 3
	poll      = 20 // the pool's first period
	leastPull = 4
)

// job is work to run: a request, or a fork of a worker.
type job struct {
	request int32 // -1 for none
	owner   *worker
	index   int
}

// main is a worker's life.
func (w *worker) main() {
	for {
		if w.crowded() {
			w.makeRoom()
			continue
		}
		if t := w.nextOwn(); t >= 0 {
			w.stopSearching()
			w.run(job{request: t})
			continue
		}
		if j, ok := w.searchWork(-1, true); ok {
			w.run(j)
			continue
		}
		w.park(-1)
	}
}

func (w *worker) run(j job) {
	switch {
	case j.request < 0:
		w.runFork(j.owner, j.index)
	case w.engine.tree != nil:
		w.family(0, 1)
		w.engine.finish(w.now)
	default:
		w.serve(j.request)
	}
}

// serve runs a request or a part of one.
func (w *worker) serve(i int32) {
	e := w.engine
	r := &e.service.requests[i]
	w.now += fetch(e.service.lines, e.across[e.nodeOf[w.at]][r.node]) + r.cost
	for part := range r.parts {
		w.queue(r.first + part)
	}
	w.sync()
	e.ranOnce(i)
	whole := i
	if r.whole >= 0 {
		whole = r.whole
	}
	if e.unfinished[whole]--; e.unfinished[whole] == 0 && int(whole) >= e.service.arriving/2 {
		e.latencies = append(e.latencies, w.now-e.service.requests[whole].arrival)
	}
	e.finish(w.now)
}

// queue stands for the pool's Worker.Go.
func (w *worker) queue(t int32) {
	w.engine.service.requests[t].node = int32(w.engine.nodeOf[w.at])
	w.write(w.at)
	if t, w.slot = w.slot, t; t >= 0 {
		w.ring.push(t)
	}
	w.notifyTask(w.engine.nodeOf[w.at])
}

// nextOwn stands for the pool's Worker.next.
func (w *worker) nextOwn() int32 {
	w.read(w.at)
	if w.poll <= 0 && w.batch.len() == 0 {
		w.poll = poll
		if t, ok := w.pull(w.engine.nodeOf[w.at]); ok {
			return t
		}
	}
	if t := w.take(); t >= 0 {
		return t
	}
	t, _ := w.pull(w.engine.nodeOf[w.at])
	return t
}

// take takes the next of the worker's own tasks, or returns -1.
func (w *worker) take() int32 {
	if w.batch.len() > 0 {
		w.write(w.at)
		if w.batch.len() > 0 {
			w.lifo = 0
			return w.batch.take(1)[0]
		}
	}
	w.poll--
	if w.slot >= 0 {
		w.write(w.at)
		if t := w.slot; t >= 0 {
			w.slot = -1
			if w.lifo++; w.lifo <= maxLIFO || w.ring.len() == 0 {
				return t
			}
			w.ring.push(t)
		}
	}
	w.lifo = 0
	if w.ring.len() > 0 {
		w.write(w.at)
		if w.ring.len() > 0 {
			return w.ring.take(1)[0]
		}
	}
	return -1
}

// pull takes a share of the tasks in a node's injector. Without success it returns -1.
func (w *worker) pull(node int) (int32, bool) {
	e := w.engine
	q := &e.injectors[node]
	w.read(e.injectorWord(node))
	if q.len() == 0 {
		return -1, false
	}
	w.write(e.injectorWord(node))
	n := max(leastPull, q.len()*e.nodes/len(e.places)+1)
	n = min(n, heist.MaxPull, heist.MaxPull-w.batch.len()+1, q.len())
	if n == 0 {
		return -1, false // another thief was faster
	}
	if node != e.nodeOf[w.at] {
		e.stats.stole(n, true)
	}
	got := q.take(n)
	first := got[0]
	if n > 1 {
		w.batch.push(got[1:]...)
		w.write(w.at)
		w.notifyTask(e.nodeOf[w.at])
	}
	return first, true
}

// nextRemoteTaskAnywhere is pull for all nodes, the nearest first.
func (w *worker) nextRemoteTaskAnywhere() (int32, bool) {
	for _, node := range w.engine.nearby[w.engine.nodeOf[w.at]] {
		if t, ok := w.pull(node); ok {
			return t, true
		}
	}
	return -1, false
}

// searchWork searches until it finds work, until the fork at depth wait is done if wait is
// not -1, or until it is time to sleep.
func (w *worker) searchWork(wait int, tasks bool) (job, bool) {
	for w.search.Begin(); ; {
		j, r := w.look(wait, tasks || w.search.Last(), w.search.Last())
		if r == heist.Success {
			w.stopSearching()
			return j, true
		}
		if w.crowded() || wait >= 0 && w.frames[wait].state == done {
			return job{}, false
		}
		if !w.searching {
			if !w.startSearching() {
				return job{}, false
			}
			continue
		}
		switch action, spin := w.search.Next(r); action {
		case policy.Spin:
			w.now += spin.Nanoseconds()
		case policy.Yield:
			w.now += yield
		case policy.Park:
			return job{}, false
		}
		w.sync()
	}
}

func (w *worker) startSearching() bool {
	w.mind()
	e := w.engine
	before := e.sleep.Load()
	w.searching = e.sleep.StartSearching(len(e.places))
	if e.sleep.Load() != before {
		w.write(e.stateWord())
	}
	return w.searching
}

// look looks at all queues once.
func (w *worker) look(wait int, tasks, slots bool) (job, heist.StealResult) {
	e := w.engine
	e.stats.Looks++
	if tasks {
		if t := w.nextOwn(); t >= 0 {
			return job{request: t}, heist.Success
		}
	}
	forks := w.mind().Sleepers() >= 0 && w.helping < maxHelping
	firstVictim, last := w.firstVictim, -1
	w.firstVictim = -1
	if w.lastVictim {
		last = w.victim
	}
	if wait >= 0 {
		if thief := int(w.frames[wait].thief); thief > 0 {
			firstVictim = thief - 1
		}
	}
	result := heist.Empty
	w.search.Look(firstVictim, last, len(e.places))
	if w.search.Drawn() && w.visit(w.at) {
		if j, _, r := w.rob(w.place, forks, false, false); r == heist.Success {
			return j, r // a fork at its own place is no steal
		}
	}
	for k := w.search.Victim(); k >= 0; k = w.search.Victim() {
		if !w.visit(k) {
			e.stats.Failed++
			continue
		}
		j, items, r := w.rob(e.places[k], forks, tasks, slots)
		if r == heist.Success {
			w.victim = k
			e.stats.stole(items, e.nodeOf[k] != e.nodeOf[w.at])
			if items > 1 && !w.searching {
				w.notifyTask(e.nodeOf[w.at])
			}
			return j, r
		}
		e.stats.Failed++
		result = max(result, r)
	}
	if tasks && !w.search.Near() {
		if t, ok := w.nextRemoteTaskAnywhere(); ok {
			return job{request: t}, heist.Success
		}
	}
	return job{}, result
}

// rob takes a fork at a place, or half of the tasks there.
func (w *worker) rob(v *place, forks, tasks, slots bool) (j job, items int, r heist.StealResult) {
	if forks {
		for _, owner := range v.running {
			index, r := w.claim(owner)
			if r == heist.Success {
				return job{request: -1, owner: owner, index: index}, 1, r
			}
			if r == heist.Retry {
				return job{}, 0, r
			}
		}
	}
	if !tasks || v == w.place {
		return job{}, 0, heist.Empty
	}
	for _, q := range []*queue{&v.ring, &v.batch} {
		if q.len() == 0 {
			continue
		}
		w.write(v.cpu)
		n := q.len() - q.len()/2
		if n == 0 {
			return job{}, 0, heist.Retry
		}
		taken := q.take(n)
		first := taken[0]
		if n > 1 {
			w.ring.push(taken[1:]...)
			w.write(w.at)
		}
		return job{request: first}, n, heist.Success
	}
	if !slots || v.slot < 0 {
		return job{}, 0, heist.Empty
	}
	w.write(v.cpu)
	t := v.slot
	if t < 0 {
		return job{}, 0, heist.Retry
	}
	v.slot = -1
	return job{request: t}, 1, heist.Success
}

func (w *worker) stopSearching() {
	if !w.searching {
		return
	}
	w.searching = false
	w.write(w.engine.stateWord())
	if w.engine.sleep.StopSearching() {
		w.notifySeen()
	}
}

func (w *worker) notifySeen() {
	if node, slot, ok := w.anyWork(w.mind().Sleepers() > 0); ok {
		w.wakeOne(node, slot)
	}
}

// park puts the place to sleep until a waker wakes it. It returns at once if the worker sees
// work after it has announced the sleep, or if the fork at depth wait is done.
func (w *worker) park(wait int) {
	e, p := w.engine, w.place
	bitmap := e.bitmapWord(e.nodeOf[w.at])
	p.awake = false
	w.write(bitmap)
	w.write(e.stateWord())
	if w.crowded() {
		return
	}
	searching := w.searching
	state := e.sleep.Announce(w.at, searching)
	w.searching = false
	if (wait >= 0 && w.frames[wait].state == done || !e.skipRecheck && w.worthWaking(state)) && w.retract(bitmap, searching) {
		return
	}
	e.stats.Parks++
	w.now += park
	w.sync()
	switch {
	case w.displaced:
		w.rest()
	case !p.awake:
		p.parked, p.since = true, w.now
		p.divide(w.now)
		w.sleepUntilWoken()
		if !w.displaced {
			w.rise()
		}
	}
	if w.displaced {
		w.displaced = false // it has a place again
		return
	}
	w.searching = true // counted by wakeUp
}

// retract takes the announcement back, unless a waker has chosen the place. If the worker
// was displaced, the bit is not its own, but may be its successor's.
func (w *worker) retract(bitmap int, searching bool) bool {
	w.write(bitmap)
	w.write(w.engine.stateWord())
	s := &w.engine.sleep
	if w.displaced || !s.Choose(w.at) {
		return false
	}
	change := -policy.OneSleeper
	if searching {
		change += policy.OneSearching
	}
	s.Add(change)
	w.searching = searching
	return true
}

func (w *worker) worthWaking(state policy.State) bool {
	_, _, ok := w.anyWork(state.Sleepers() > 0)
	return ok
}

// arrive brings the requests, or the tree, from outside.
func (w *worker) arrive() {
	e := w.engine
	bring := func(t, node int32, at int64) {
		w.now, w.synced = at, -1 // many clients: the wake-up by one does not hold up the next
		w.at = e.firstOf[node]
		clear(w.seen[e.layout.workers:]) // and a new client has seen no word
		if at > 0 {
			w.sync()
		}
		w.write(e.injectorWord(int(node)))
		e.injectors[node].push(t)
		w.notifyTask(int(node))
	}
	if e.tree != nil {
		bring(0, 0, 0)
	} else {
		for i := range e.service.arriving {
			r := &e.service.requests[i]
			bring(int32(i), r.node, r.arrival)
		}
	}
	w.sleepUntilWoken()
}
