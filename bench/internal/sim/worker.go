package sim

import (
	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// worker is one of the pool's, or what comes from outside. Its methods are the pool's of the
// same name, without guests, priorities, doormen and panics, and with their cost in time.
type worker struct {
	clock
	stack

	ring, batch queue
	slot        int32 // the LIFO slot: a request, or -1

	hunt       policy.Search
	lastVictim bool // a tier begins with the last victim
	victim     int
	hint       int // where the waker saw something, or -1
	searching  bool
	helping    int
	lifo, poll int

	awake  bool // somebody has cleared the bit
	parked bool // and is not only about to
	alone  bool // asleep outside the protocol
	since  int64
}

// The pool's, see pool/find.go.
const (
	maxLIFO   = 3
	poll      = 20 // the period that the pool begins with
	leastPull = 4
)

// job is something to run: a request, or a fork of somebody.
type job struct {
	request int32 // -1 for none
	owner   *worker
	index   int
}

// main is a worker's life.
func (w *worker) main() {
	for {
		if t := w.nextOwn(); t >= 0 {
			w.stopSearching()
			w.run(job{request: t})
			continue
		}
		if j, ok := w.search(-1, true); ok {
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
	w.now += fetch(e.service.lines, e.across[e.nodeOf[w.id]][r.node]) + r.cost
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

// queue is the pool's Worker.Go.
func (w *worker) queue(t int32) {
	w.engine.service.requests[t].node = int32(w.engine.nodeOf[w.id])
	w.write(w.id)
	if t, w.slot = w.slot, t; t >= 0 {
		w.ring.push(t)
	}
	w.notifyTask(w.engine.nodeOf[w.id])
}

func (w *worker) queued() int {
	n := w.ring.len() + w.batch.len()
	if w.slot >= 0 {
		n++
	}
	return n
}

// nextOwn is the pool's Worker.next.
func (w *worker) nextOwn() int32 {
	w.read(w.id)
	if w.poll <= 1 && w.batch.len() == 0 {
		w.poll = poll
		if t, ok := w.pull(w.engine.nodeOf[w.id]); ok {
			return t
		}
	}
	if t := w.take(); t >= 0 {
		return t
	}
	t, _ := w.pull(w.engine.nodeOf[w.id])
	return t
}

// take takes the next of the worker's own tasks, or returns -1.
func (w *worker) take() int32 {
	if w.batch.len() > 0 {
		w.write(w.id)
		if w.batch.len() > 0 {
			w.lifo = 0
			return w.batch.take(1)[0]
		}
	}
	w.poll--
	if w.slot >= 0 {
		w.write(w.id)
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
		w.write(w.id)
		if w.ring.len() > 0 {
			return w.ring.take(1)[0]
		}
	}
	return -1
}

// pull takes a share of what lies in a node's injector. Without success it returns -1.
func (w *worker) pull(node int) (int32, bool) {
	e := w.engine
	q := &e.injectors[node]
	w.read(e.injectorWord(node))
	if q.len() == 0 {
		return -1, false
	}
	w.write(e.injectorWord(node))
	n := max(leastPull, q.len()*e.nodes/len(e.workers)+1)
	n = min(n, heist.MaxPull, heist.MaxPull-w.batch.len()+1, q.len())
	if n == 0 {
		return -1, false // somebody was faster
	}
	if node != e.nodeOf[w.id] {
		e.stats.stole(n, true)
	}
	got := q.take(n)
	first := got[0]
	if n > 1 {
		w.batch.push(got[1:]...)
		w.write(w.id)
		w.notifyTask(e.nodeOf[w.id])
	}
	return first, true
}

// pullAnywhere is pull for all nodes, the nearest first.
func (w *worker) pullAnywhere() (int32, bool) {
	for _, node := range w.engine.nearby[w.engine.nodeOf[w.id]] {
		if t, ok := w.pull(node); ok {
			return t, true
		}
	}
	return -1, false
}

// search looks for work of others until it finds some, until the fork at depth wait is done
// if it is not -1, or until it is time to sleep.
func (w *worker) search(wait int, tasks bool) (job, bool) {
	for w.hunt.Begin(); ; {
		j, r := w.look(wait, tasks || w.hunt.Last(), w.hunt.Last())
		if r == heist.Success {
			w.stopSearching()
			return j, true
		}
		if wait >= 0 && w.frames[wait].state == done {
			return job{}, false
		}
		if !w.searching {
			if !w.startSearching() {
				return job{}, false
			}
			continue
		}
		switch action, spin := w.hunt.Next(r); action {
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
	w.searching = e.sleep.StartSearching(len(e.workers))
	if e.sleep.Load() != before {
		w.write(e.stateWord())
	}
	return w.searching
}

// look goes round the queues once.
func (w *worker) look(wait int, tasks, slots bool) (job, heist.StealResult) {
	e := w.engine
	e.stats.Looks++
	if tasks {
		if t := w.nextOwn(); t >= 0 {
			return job{request: t}, heist.Success
		}
	}
	forks := w.mind().Sleepers() >= 0 && w.helping < policy.MaxHelping
	hint, last := w.hint, -1
	w.hint = -1
	if w.lastVictim {
		last = w.victim
	}
	if wait >= 0 {
		if thief := int(w.frames[wait].thief); thief > 0 {
			hint = thief - 1
		}
	}
	result := heist.Empty
	w.hunt.Look(hint, last)
	for k := w.hunt.Victim(); k >= 0; k = w.hunt.Victim() {
		if !w.visit(k) {
			e.stats.Failed++
			continue
		}
		j, items, r := w.rob(e.workers[k], forks, tasks, slots)
		if r == heist.Success {
			w.victim = k
			e.stats.stole(items, e.nodeOf[k] != e.nodeOf[w.id])
			if items > 1 && !w.searching {
				w.notifyTask(e.nodeOf[w.id])
			}
			return j, r
		}
		e.stats.Failed++
		result = max(result, r)
	}
	if tasks && !w.hunt.Near() {
		if t, ok := w.pullAnywhere(); ok {
			return job{request: t}, heist.Success
		}
	}
	return job{}, result
}

// rob takes a fork of a victim, or half of its tasks.
func (w *worker) rob(v *worker, forks, tasks, slots bool) (j job, items int, r heist.StealResult) {
	if forks {
		index, r := w.claim(v)
		if r == heist.Success {
			return job{request: -1, owner: v, index: index}, 1, r
		}
		if r == heist.Retry {
			return job{}, 0, r
		}
	}
	if !tasks || v == w {
		return job{}, 0, heist.Empty
	}
	for _, q := range []*queue{&v.ring, &v.batch} {
		if q.len() == 0 {
			continue
		}
		w.write(v.id)
		n := q.len() - q.len()/2
		if n == 0 {
			return job{}, 0, heist.Retry
		}
		taken := q.take(n)
		first := taken[0]
		if n > 1 {
			w.ring.push(taken[1:]...)
			w.write(w.id)
		}
		return job{request: first}, n, heist.Success
	}
	if !slots || v.slot < 0 {
		return job{}, 0, heist.Empty
	}
	w.write(v.id)
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

// park puts the worker to sleep until somebody wakes it, unless there is work to see once it
// has announced that, or the fork at depth wait is done.
func (w *worker) park(wait int) {
	e := w.engine
	bitmap := e.bitmapWord(e.nodeOf[w.id])
	w.awake = false
	w.write(bitmap)
	w.write(e.stateWord())
	state := e.sleep.Announce(w.id, w.searching)
	if (wait >= 0 && w.frames[wait].state == done || !e.skipRecheck && w.worthWaking(state)) && w.retract(bitmap) {
		return
	}
	e.stats.Parks++
	w.now += park
	w.sync()
	if !w.awake {
		w.parked, w.since = true, w.now
		w.sleepUntilWoken()
		w.parked = false
		e.stats.Parked += w.now - w.since
	}
	w.searching = true // counted by wakeUp
}

func (w *worker) retract(bitmap int) bool {
	w.write(bitmap)
	w.write(w.engine.stateWord())
	return w.engine.sleep.Retract(w.id, w.searching)
}

func (w *worker) worthWaking(state policy.State) bool {
	_, _, ok := w.anyWork(state.Sleepers() > 0)
	return ok
}

// rouse is what the system does to the worker when somebody wakes it at time t.
func (w *worker) rouse(t int64) {
	w.awake = true
	switch {
	case !w.parked: // it has not gone to sleep yet
	case t-w.since > deepAfter:
		w.wake(t + deep)
	default:
		w.wake(t + woken)
	}
}

// arrive brings the requests, or the tree, from outside.
func (w *worker) arrive() {
	e := w.engine
	bring := func(t, node int32, at int64) {
		w.now, w.synced = at, -1 // many clients: one's wake-up does not hold up the next
		w.at = e.firstOf[node]
		clear(w.seen[e.layout.workers:]) // and it has seen nothing
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
