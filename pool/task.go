package pool

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/causes"
)

// task is a func(*Worker) in a form that queues of pointers can hold. A func value
// is a pointer to the function's code address and captured variables; task is what
// it points to. So queueing a function allocates nothing beyond the closure that
// the caller made.
type task struct{ code uintptr }

func taskOf(f func(*Worker)) *task { return *(**task)(unsafe.Pointer(&f)) }

// taskFor is taskOf for a function of any type. Its result serves only to find the function's name.
func taskFor[F any](f F) *task { return *(**task)(unsafe.Pointer(&f)) }

// codeOf returns the address of a function's code. It does not keep the function alive.
func codeOf[F any](f F) uintptr { return **(**uintptr)(unsafe.Pointer(&f)) }

// taskOf returns f as a task to be queued, stamped in a pool with timings.
func (p *Pool) taskOf(f func(*Worker)) *task {
	if p.timed {
		return p.stamped(taskOf(f))
	}
	return taskOf(f)
}

func (t *task) run(w *Worker) { (*(*func(*Worker))(unsafe.Pointer(&t)))(w) }

// Priority orders the tasks that are given to [Pool.Submit]. It is a [TaskOption]; [Pool.At] gives one to groups, futures and
// other calls.
type Priority int

const (
	// PriorityNormal is the priority of a task for which no other is given.
	PriorityNormal Priority = iota
	// PriorityHigh is for tasks that must not wait for others. While there are tasks of high
	// priority, one task in eight that a worker starts is of another priority.
	PriorityHigh
	// PriorityLow is for tasks that may wait until there is nothing else to do. While there are
	// other tasks, one task in 64 that a worker starts is of low priority.
	PriorityLow

	priorities = iota
)

func (p Priority) set(o *taskOptions) { o.priority = p }

func errPriority(method string, p Priority) error {
	return fmt.Errorf("pool: %s was given the priority %d; it must be PriorityHigh, PriorityNormal or PriorityLow", method, p)
}

// TaskOption is an option for a task that is given to [Pool.Submit]: [PriorityHigh] or [PriorityLow],
// [Delay], [After], [StartBy], [OnNode], [Named].
type TaskOption interface{ set(*taskOptions) }

type taskOptions struct {
	route
	deadline bool
	startBy  time.Time
	late     func(*Worker)
	ctx      context.Context // ends the delay; nil if nothing does
	name     string          // empty for the function's name
	of       *task           // the user's function
	shown    *task           // that of a future, if the future's function is made of another one; nil for the future's
	after    []Awaitable     // what the task waits for
	delayed  *delay          // to be used if the task is queued later; nil for a new one
}

// route says where and when a task is queued. Only a task with the zero route may go into a worker's own queue: whatever an
// option adds here keeps the task from there, until that is taught what to do about it.
type route struct {
	priority Priority
	delay    time.Duration
	follows  bool // it waits for the futures of After
	first    bool // or only for the first of them that has no error
	onNode   bool
	nodeID   int // of OnNode
	node     int // 1 + index into Pool.nodes; 0 for the submitter's
}

// later says whether the task is queued later.
func (r route) later() bool { return r.delay > 0 || r.follows }

type delayBy time.Duration

func (d delayBy) set(o *taskOptions) { o.delay = max(time.Duration(d), 0) }

// Delay delays a task: the task is queued when d has passed. Until then it occupies only a
// timer. If d is 0 or negative, as time.Until of a time that has passed, the task is queued at once.
func Delay(d time.Duration) TaskOption { return delayBy(d) }

type startBy struct {
	deadline time.Time
	late     func(*Worker)
}

func (s startBy) set(o *taskOptions) { o.deadline, o.startBy, o.late = true, s.deadline, s.late }

// StartBy gives a task's start a deadline: a worker that comes to the task later runs late
// instead. The [Future] of an [Async] then has [ErrLate].
func StartBy(deadline time.Time, late func(w *Worker)) TaskOption { return startBy{deadline, late} }

type onNode int

func (n onNode) set(o *taskOptions) { o.onNode, o.nodeID = true, int(n) }

// OnNode queues a task on the memory node with the system's number node, instead of the
// submitter's node: near the data that the task works on, say. The pool must have workers there,
// see [Pool.Nodes]. It is no guarantee: a worker of another node runs the task if it finds
// nothing nearer.
func OnNode(node int) TaskOption { return onNode(node) }

// room is what callers of Submit wait for when the queue is at its bound.
type room struct {
	waiting atomic.Int32 // callers that wait; they write
	// made holds a token for one waiter when there may be room. It is a hint.
	made chan struct{}
	// stale is how many of the tasks that wait are of futures that ran in place or were cancelled: those of Pool.stale that
	// count for the bound. Waiters and cancellers add, takers subtract, each after it has changed the future.
	stale atomic.Int64
}

// offer wakes a waiter if there is room. It is called after a task was taken out of the injector.
func (r *room) offer(p *Pool) {
	if r.waiting.Load() > 0 && p.hasRoom() {
		select {
		case r.made <- struct{}{}:
		default:
		}
	}
}

func (p *Pool) hasRoom() bool { return p.bound == 0 || p.waiting() < p.bound }

// waiting returns how many tasks of normal priority wait in the injectors, without those that do nothing: up to maxStale
// of these, for they need memory, too. A worker may have taken some of them into its own queues, which can let in as many
// tasks too many.
func (p *Pool) waiting() (n int) {
	for i := range p.nodes {
		n += p.nodes[i].queues[PriorityNormal].Len()
	}
	return max(0, n-min(int(p.room.stale.Load()), maxStale))
}

// Submit queues f to be run by the pool, once, as the options say. If the pool is at its
// bound ([WithQueueBound]), Submit waits for room; if ctx ends first, it returns the cause.
// Submit does not wait inside a task of the same pool, which would hold up the workers that
// make room, and not for a task with a priority, a delay or [After], which does not count.
//
// If ctx ends before f has begun, during a delay too, f is skipped: neither f nor the function of a [StartBy] runs,
// and f counts in [inspect.Stats].Skipped.
//
// Submit returns [ErrClosed] if the pool is closed, see [Pool.Close]. Any goroutine may call it. Cost: that of
// [Pool.Go], and a few allocations for a context that can end, a delay or a deadline.
func (p *Pool) Submit(ctx context.Context, f func(w *Worker), options ...TaskOption) error {
	const method = "Pool.Submit"
	if ctx == nil {
		return errNilContext(method)
	}
	o, f, err := p.prepare(method, f, options)
	if err != nil {
		return err
	}
	f = p.unless(ctx, f)
	if o.counts() {
		err = p.waitForRoom(ctx, 1)
	} else if ctx.Err() != nil {
		err = causes.Of(ctx)
	}
	if err != nil {
		return err
	}
	o.ctx = ctx
	return p.accept(carry(f, o.of, o.name), o)
}

// unless returns f in a form that does nothing once ctx has ended, or f itself if ctx cannot end.
func (p *Pool) unless(ctx context.Context, f func(w *Worker)) func(w *Worker) {
	if ctx.Done() == nil {
		return f
	}
	return func(w *Worker) {
		if ctx.Err() != nil {
			p.skipped.Add(1)
			return
		}
		w.as(f)
	}
}

// TrySubmit is [Pool.Submit], but returns [ErrFull] where Submit would wait.
func (p *Pool) TrySubmit(f func(w *Worker), options ...TaskOption) error {
	o, f, err := p.prepare("Pool.TrySubmit", f, options)
	if err != nil {
		return err
	}
	if p.isFull(o) {
		return p.refuse(ErrFull)
	}
	return p.accept(carry(f, o.of, o.name), o)
}

// SubmitAll is [Pool.Submit] for several functions, in order. It returns how many of them
// were queued: all, unless there is an error. With a bound it may queue them bit by bit.
// The end of ctx ends the wait for room; functions that were queued are not skipped.
//
// Cost: for many functions, one compare-and-swap and one look for a worker to wake.
func (p *Pool) SubmitAll(ctx context.Context, fs []func(w *Worker)) (queued int, err error) {
	for _, f := range fs {
		if f == nil {
			return 0, errNilFunc("Pool.SubmitAll")
		}
	}
	if err := p.usable(); err != nil {
		return 0, err
	}
	if ctx == nil {
		return 0, errNilContext("Pool.SubmitAll")
	}
	if p.isClosedToTasks() {
		return 0, p.refusal(len(fs))
	}
	var batch [heist.MaxPull]*task
	for queued < len(fs) {
		if err := p.waitForRoom(ctx, len(fs)-queued); err != nil {
			return queued, err
		}
		rest := fs[queued:]
		n := min(len(rest), len(batch))
		if p.bound > 0 {
			n = min(n, max(1, p.bound-p.waiting()))
		}
		for i, f := range rest[:n] {
			batch[i] = p.taskOf(carry(f, taskOf(f), ""))
		}
		node := p.here()
		done := p.nodes[node].queues[PriorityNormal].PushBatch(batch[:n])
		if done > 0 {
			p.core.NotifyTask(node)
		}
		if queued += done; done == n {
			continue
		}
		if !p.closesWith() {
			return queued, p.refusal(len(fs) - queued)
		}
		for _, t := range batch[done:n] {
			p.queue(t, PriorityNormal, node)
			queued++
		}
	}
	return queued, nil
}

// waitForRoom returns when a task may be queued. If the pool closes first, it refuses all n tasks for which the caller waits.
func (p *Pool) waitForRoom(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return causes.Of(ctx)
	}
	if p.hasRoom() || p.current() != nil {
		return nil
	}
	r := &p.room
	r.waiting.Add(1) // before the look: offer looks in the opposite order
	defer r.waiting.Add(-1)
	for !p.hasRoom() {
		closed := false
		p.wait("Pool.Submit at the bound of another pool", nil, func() { // the caller may be a task of another pool
			select {
			case <-r.made:
			case <-ctx.Done():
			case <-p.refuses:
				closed = true
			}
		})
		switch {
		case closed:
			return p.refusal(n)
		case ctx.Err() != nil:
			r.offer(p) // the token may have been for another waiter
			return causes.Of(ctx)
		}
	}
	r.offer(p) // there may be room for another waiter
	return nil
}

// isFull says whether the task would have to wait for room.
func (p *Pool) isFull(o taskOptions) bool {
	return o.counts() && !p.hasRoom() && !p.core.Closing.Load() && p.current() == nil
}

// counts says whether the task counts for the bound.
func (o *taskOptions) counts() bool { return o.priority == PriorityNormal && !o.later() }

// prepare reads the options, and returns the function that is to be run because of them.
func (p *Pool) prepare(method string, f func(*Worker), options []TaskOption) (o taskOptions, _ func(*Worker), err error) {
	if err := p.usable(); err != nil {
		return o, nil, err
	}
	if f == nil {
		return o, nil, errNilFunc(method)
	}
	if len(options) > 0 {
		if o, err = readOptions(method, options); err != nil {
			return o, nil, err
		}
	}
	o.of = taskOf(f)
	if o.onNode {
		i := slices.IndexFunc(p.nodes, func(n node) bool { return n.id == o.nodeID })
		if i < 0 {
			return o, nil, fmt.Errorf("pool: %s: the pool has no worker on node %d, but on nodes %v", method, o.nodeID, p.Nodes())
		}
		o.node = i + 1
	}
	switch {
	case o.priority < 0 || o.priority >= priorities:
		return o, nil, errPriority(method, o.priority)
	case slices.ContainsFunc(o.after, func(a Awaitable) bool { return a == nil || a.isNone() }):
		return o, nil, fmt.Errorf("pool: %s was given a Future to be run after that is nil, or was not made by Async", method)
	case o.deadline && o.late == nil:
		return o, nil, errNilFunc("StartBy")
	case o.deadline:
		late := o.late // so that o is not allocated
		return o, inTime(f, o.startBy, func(w *Worker) {
			p.late.Add(1)
			w.as(late)
		}), nil
	}
	return o, f, nil
}

// readOptions is apart from prepare because what it returns is allocated.
func readOptions(method string, options []TaskOption) (o taskOptions, err error) {
	for _, option := range options {
		if option == nil {
			return o, fmt.Errorf("pool: %s was given a nil TaskOption", method)
		}
		option.set(&o)
	}
	return o, nil
}

func inTime(f func(*Worker), startBy time.Time, late func(*Worker)) func(*Worker) {
	return func(w *Worker) {
		if time.Now().After(startBy) {
			w.as(late)
		} else {
			w.as(f)
		}
	}
}

// accept queues a prepared function, at once or later.
func (p *Pool) accept(f func(*Worker), o taskOptions) error {
	if !o.later() {
		return p.enqueue(f, o.priority, p.nodeFor(o.route))
	}
	return p.acceptLater(f, o)
}

func (p *Pool) acceptLater(f func(*Worker), o taskOptions) error {
	p.beginDelay() // before the look: drain looks in the opposite order
	if p.isClosedToTasks() || p.isSerial() {
		p.endDelay()
		return p.refusal(1)
	}
	d := o.delayed
	if d == nil {
		d = &delay{pool: p}
	}
	d.begin(f, o)
	if p.aborted.Load() && d.end() != nil { // Abort looks in the opposite order
		p.endDelay()
		return p.refuse(ErrClosed)
	}
	return nil
}

// refusal counts n tasks that a closed pool, or that of Serial, has not accepted, and returns the reason.
func (p *Pool) refusal(n int) error {
	p.refused.Add(int64(n))
	if p.isSerial() {
		return errSerial
	}
	return ErrClosed
}

// refuse counts a task that was not accepted, and returns err, the reason.
func (p *Pool) refuse(err error) error {
	p.refused.Add(1)
	return err
}

// turnAway counts a caller that was not admitted, and returns err, the reason.
func (p *Pool) turnAway(err error) error {
	p.turnedAway.Add(1)
	return err
}

// beginDelay keeps the pool from its end until endDelay.
func (p *Pool) beginDelay() {
	p.delayed.Add(1)
	p.begunDelays.Add(1) // in this order: see isDone
}

func (p *Pool) endDelay() {
	p.delayed.Add(-1)
	p.core.Signal()
}

// nodeFor returns the node in whose injector a task belongs.
func (p *Pool) nodeFor(r route) int {
	if r.node > 0 {
		return r.node - 1
	}
	return p.here()
}

// enqueue queues f in an injector of a node, unless the pool is closed to the caller.
func (p *Pool) enqueue(f func(*Worker), priority Priority, node int) error {
	if p.isClosedToTasks() {
		return p.refuse(ErrClosed)
	}
	t := p.taskOf(f)
	switch {
	case p.push(t, priority, node):
	case p.closesWith():
		p.queue(t, priority, node)
	default:
		return p.refusal(1)
	}
	return nil
}
