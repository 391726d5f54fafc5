package pool

import (
	"time"

	"github.com/seed53057037/heist"
)

// # Finding work
//
// A worker takes its next task from the first of these that has one:
//
//	batch buffer    tasks that it pulled from the injector
//	LIFO slot       the task that it queued last; at most 3 in a row
//	ring            other tasks that it queued or stole, oldest first
//	injector        tasks from outside; a batch at a time
//	other workers   half of a victim's ring, or a fork (search)
//	injector        once more; then it parks
//
// The order is blitz-io's, with these changes:
//   - Every so many tasks the injector comes first, or a worker that always has tasks of its own
//     would never get there: in blitz-io that look comes after the worker's own queues were found
//     empty. Only the worker's own tasks count for that, not the batch, or tasks from outside could
//     hold up its own for ever.
//   - The batch buffer is a ring that thieves steal from, because a task in it must not wait for a
//     long one.
//   - Priorities override this order. Tasks of high priority come first, except in one turn in eight;
//     those of low priority come last, except in one turn in 64. So none ever starves.
//
// How often the injector comes first follows from how long tasks take: a task should be pulled
// from there within a millisecond.
//
// # Ticks
//
// The worker takes tasks in ticks. At the end of one it does what has to be done now and then: it measures, clears
// what it no longer needs, gives way (fairness.go) and checks that the pool and its CPU are as they were. A tick has
// as many tasks as take giveWayPeriod, but at most budget, so with short tasks its end costs each of them little. If
// the tasks were shorter than thought, the tick only measures and goes on.
//
// A **stretch** is what is measured: tasks that the worker runs one after the other, without a search. It begins with
// its first task, and ends with the tick or when the worker begins to search. So it may be a single task, where tasks
// come one by one; then there is time to read the clock. The average is that of the stretch's tasks and of 9 earlier
// ones. A task alone has the weight of a tenth, as in blitz-io, and a stretch of many has more, so the average follows
// a change within some tens of tasks in any case.
//
// # The slot
//
// A task in the LIFO slot is the next that the holder runs. Where tasks take less time than a wake-up, no other worker would be
// sooner, and a chain of tasks, each of which queues the next, would wake one for each link and go from CPU to
// CPU. So where the average is below soon, the holder **keeps** its slot: it wakes nobody for it, thieves leave it alone, and a place that
// falls asleep does not count it. (Tokio took the slot's wake-up out again for what it cost a packet forwarder, tokio#8065.)
//
// Why the task begins: it is either in the slot of a place whose holder takes it between two tasks; or the holder lets go of the place, and
// then it first shares the slot (host.LetsGo), so that a stand-in, the place's own last look before sleep, or a worker that is woken for it
// finds it; or the holder stays in a task. For that the monitor looks: from the push on, until the slot is empty. If the place has begun no task from one
// look to the next, the monitor shares the slot, and then wakes a worker if it sees the task. The holder makes a task
// visible before it reads keeps, and the monitor writes keeps before it looks: one of the two wakes the worker. So a
// task that comes behind a long one, after short ones, waits for 1 to 2 milliseconds for its worker.
//
// What asks whether anything is left (rest, Close, Abort, the monitor), or takes tasks without being a thief, counts kept slots.

const (
	maxLIFO = 3 // as in blitz-io and Tokio

	budget = 128 // the most tasks that a tick has, as in blitz-io and Tokio

	otherTurns, lowTurns = 8, 64 // one turn in 8 is not for high priority; one in 64 is for low

	// The look at the injector, with blitz-io's constants.

	pollTarget          = time.Millisecond
	leastPoll, mostPoll = 8, 255
	earlier             = 9                     // tasks that the average stands for when the next are added
	firstAverage        = 50 * time.Microsecond // which makes the first period 20
	leastPull           = 4
	otherNodes          = 8 // one look in 8 is at another node's injector

	soon = 5 * time.Microsecond // a wake-up takes 4 to 10
)

// tick is a worker's account of the tasks that it runs. Owner only.
type tick struct {
	turn   uint32 // tasks taken
	lifo   int    // tasks from the LIFO slot in a row
	budget int    // tasks left in this tick
	poll   int    // tasks of its own left before the injector comes first
	polls  int    // looks at an injector that came first
	pops   int    // looks for tasks of high or low priority

	period  int           // tasks of its own between two looks at the injector, at least 1
	fixed   bool          // the period does not adapt
	average time.Duration // of a task, as EWMA

	since int64 // when the stretch that is being measured began, in heist.Ticks; 0 if none is
	tasks int   // tasks that have begun in that stretch
	began int64 // when the tick began, in heist.Ticks
}

func (k *tick) begin(p *Pool) {
	k.average = firstAverage
	k.period, k.fixed = p.pollPeriod, p.pollPeriod > 0
	if !k.fixed {
		k.period = pollPeriod(k.average)
	}
	k.poll, k.budget = k.period, 1
}

// pollPeriod returns after how many of a worker's own tasks the injector comes first, if a task takes
// that long on average.
func pollPeriod(average time.Duration) int {
	return int(min(max(pollTarget/max(average, 1), leastPoll), mostPoll))
}

// begins counts a task that begins, and begins a stretch with it if need be.
func (k *tick) begins() {
	if k.since == 0 {
		k.since = heist.Ticks()
	}
	k.tasks++
}

// measure ends the stretch and begins the next.
func (k *tick) measure(now int64, perNanosecond float64) {
	if k.since != 0 && k.tasks > 0 {
		took := float64(max(now-k.since, 0)) / perNanosecond
		k.average = max(1, time.Duration((earlier*float64(k.average)+took)/float64(earlier+k.tasks)))
		if !k.fixed {
			k.period = pollPeriod(k.average)
			k.poll = min(k.poll, k.period)
		}
	}
	k.since, k.tasks = now, 0
}

// pause ends the stretch before a search: the time until the next task does not count.
func (k *tick) pause(perNanosecond float64) {
	if k.tasks > 0 {
		k.measure(heist.Ticks(), perNanosecond)
	}
	k.since = 0
}

// endTick is called between two tasks when the tick has run its tasks.
//
//go:noinline
func (w *Worker) endTick() {
	p, k := w.pool, &w.tick
	now := heist.Ticks()
	k.measure(now, p.ticks.perNanosecond)
	w.keepSlot(k.average < soon && !p.inBubble) // in a bubble the monitor's time may stand still
	took := max(now-k.began, 0)
	if took >= p.ticks.giveWay {
		w.trim() // no fork is in use between two tasks
		k.began = w.giveWayIfDue(now)
		k.since = k.began
		p.core.NotifyAgain()
		w.lookIfDue(now)
		w.stay()
		took = 0
	}
	k.budget = int(min(max(p.duration(uint64(p.ticks.giveWay-took))/k.average, 1), budget))
}

// keepSlot has the place keep its LIFO slot, or not.
func (w *Worker) keepSlot(keeps bool) {
	if keeps == w.keeps.Load() {
		return
	}
	w.keeps.Store(keeps)
	switch {
	case w.lifoSlot.Load() == nil:
	case keeps:
		w.pool.core.MayWait()
	default:
		w.pool.core.NotifyTask(w.core.Node())
	}
}

// shareSlot has others take from the LIFO slot, too, and says whether there is something in it for which no worker was woken.
func (pl *place) shareSlot() bool {
	if !pl.keeps.Load() {
		return false
	}
	pl.keeps.Store(false)
	return pl.lifoSlot.Load() != nil
}

// shareOwnSlot is shareSlot for a worker that is about to ask whether anything is queued.
func (w *Worker) shareOwnSlot() {
	if w.hasPlace() {
		w.place.shareSlot()
	}
}

// nextTask takes a task without a look at other workers.
func (w *Worker) nextTask() *task {
	t := w.chooseTask()
	if t != nil {
		w.tick.turn++
	}
	return t
}

func (w *Worker) chooseTask() *task {
	k := &w.tick
	if w.pool.urgent.Load() > 0 && k.turn%otherTurns != otherTurns-1 {
		if t := w.popUrgent(); t != nil {
			return t
		}
	}
	if k.turn%lowTurns == lowTurns-1 { // such a turn is never one of urgent tasks
		if t := w.popLow(); t != nil {
			return t
		}
	}
	if k.budget--; k.budget <= 0 { // looks that find nothing count too: they cost time as well
		w.endTick()
	}
	if k.poll <= 0 && w.batch.Len() == 0 {
		k.poll = k.period
		if t, _ := w.pullBatch(w.pollNode()); t != nil {
			return t
		}
	}
	if t := w.nextLocalTask(); t != nil {
		return t
	}
	t, _ := w.nextRemoteTask()
	return t
}

// nextLocalTask takes the next of the worker's own tasks.
func (w *Worker) nextLocalTask() *task {
	k := &w.tick
	if t := w.batch.Pop(); t != nil {
		k.lifo = 0
		return t
	}
	k.poll--
	if w.lifoSlot.Load() != nil {
		if t := w.lifoSlot.Swap(nil); t != nil {
			if k.lifo++; k.lifo <= maxLIFO || w.ring.Len() == 0 || !w.ring.Push(t) {
				return t
			}
		}
	}
	k.lifo = 0
	if t := w.ring.Pop(); t != nil || len(w.stash) == 0 {
		return t
	}
	t := w.stash[0]
	w.stash[0] = nil
	w.stash = w.stash[1:]
	return t
}

// pullBatch takes a share of what lies in a node's injector, from 4 tasks to 64, returns the
// first and puts the others into the batch buffer.
func (w *Worker) pullBatch(node int) (*task, heist.StealResult) {
	p := w.pool
	injector := p.nodes[node].queues[PriorityNormal]
	if !injector.Ready() { // the length is on a line that producers write
		return nil, heist.Empty
	}
	n := max(leastPull, injector.Len()*len(p.nodes)/p.core.Size()+1)
	n = min(n, len(w.pulled), w.batch.Cap()-w.batch.Len()+1)
	got, r := injector.PullBatch(w.pulled[:n])
	if r != heist.Success {
		return nil, r
	}
	first := w.pulled[0]
	if got > 1 {
		w.batch.PushBatch(w.pulled[1:got])
		p.core.NotifyTask(w.core.Node())
	}
	clear(w.pulled[:got])
	p.room.offer(p)
	return first, r
}

// pollNode returns the node whose injector comes first this time: mostly the worker's own, and every
// otherNodes-th time another one. Otherwise a task there could wait for ever, if all workers of that
// node always had tasks of their own, or had left.
func (w *Worker) pollNode() int {
	nearby := w.pool.nodes[w.core.Node()].nearby
	if len(nearby) == 1 {
		return w.core.Node()
	}
	k := &w.tick
	if k.polls++; k.polls%otherNodes != 0 {
		return w.core.Node()
	}
	return nearby[k.polls/otherNodes%len(nearby)]
}

// popUrgent takes a task of high priority.
func (w *Worker) popUrgent() *task {
	if w.pool.urgent.Load() <= 0 {
		return nil
	}
	t := w.popPriority(PriorityHigh)
	if t != nil {
		w.pool.urgent.Add(-1)
	}
	return t
}

func (w *Worker) popLow() *task { return w.popPriority(PriorityLow) }

// popPriority takes a task of a priority, from the nearest node that has one; but every
// otherNodes-th time it begins with another node, for the reason that pollNode gives.
func (w *Worker) popPriority(priority Priority) *task {
	nearby := w.pool.nodes[w.core.Node()].nearby
	first := 0
	if len(nearby) > 1 {
		k := &w.tick
		if k.pops++; k.pops%otherNodes == 0 {
			first = k.pops / otherNodes % len(nearby)
		}
	}
	for i := range nearby {
		node := nearby[(first+i)%len(nearby)]
		if t, _ := w.pool.nodes[node].queues[priority].Pop(); t != nil {
			return t
		}
	}
	return nil
}

// nextRemoteTask takes a task from an injector of the worker's node, whatever its priority. Urgent
// ones do not come first: chooseTask has looked for them before, or has given this turn to others.
func (w *Worker) nextRemoteTask() (*task, heist.StealResult) {
	return w.nextRemoteTaskOf(w.core.Node())
}

func (w *Worker) nextRemoteTaskOf(node int) (*task, heist.StealResult) {
	if t, r := w.pullBatch(node); r != heist.Empty {
		return t, r
	}
	if t := w.popUrgent(); t != nil {
		return t, heist.Success
	}
	return w.pool.nodes[node].queues[PriorityLow].Pop()
}

// nextRemoteTaskAnywhere is nextRemoteTask for all nodes, the nearest first.
func (w *Worker) nextRemoteTaskAnywhere() (t *task, r heist.StealResult) {
	for _, node := range w.pool.nodes[w.core.Node()].nearby {
		t, this := w.nextRemoteTaskOf(node)
		if t != nil {
			return t, heist.Success
		}
		r = max(r, this)
	}
	return nil, r
}
