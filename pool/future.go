package pool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/panics"
)

// waiters are goroutines that wait for something that happens once. The goroutine that makes it happen
// calls release, after it has become visible. A waiter gives a condition that says whether it has.
type waiters struct {
	mu   sync.Mutex
	over chan struct{} // closed to release them; nil if there are none
}

// release releases all waiters, unless must says, under the lock that waiters take, that
// they must wait on. It says whether it released any.
func (ws *waiters) release(must func() bool) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.over == nil || must != nil && must() {
		return false
	}
	close(ws.over)
	ws.over = nil
	return true
}

// wait returns when done is true, or with the cause when ctx ends first. It calls done under the lock,
// and again when the pool is aborted. The goroutine's places are lent meanwhile.
func (ws *waiters) wait(ctx context.Context, p *Pool, what string, of any, done func() bool) error {
	for again := p.abandons; ; {
		ws.mu.Lock()
		if done() {
			ws.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil {
			ws.mu.Unlock()
			return causes.Of(ctx)
		}
		if ws.over == nil {
			ws.over = make(chan struct{})
		}
		over := ws.over
		ws.mu.Unlock()
		p.wait(what, of, func() {
			select {
			case <-over:
			case <-ctx.Done():
			case <-again:
				again = nil
			}
		})
	}
}

var errNoFuture = errors.New("pool: the Future is nil, or was not made by Async")

// Future is the result of a function that runs in a pool. Create it with [Async].
type Future[T any] struct {
	pool *Pool

	// f belongs to the goroutine that sets begun, which takes it out: a future that is kept does not keep its function.
	f       function[T]
	begun   atomic.Bool // see take
	bounded bool        // its task was queued where it counts for the bound; constant
	undelay func()      // ends the delay of f; nil if it has none; constant
	labels  labels      // the submitter's; constant
	code    uintptr     // of f; constant
	queued  *task       // what was queued; nil unless a waiter may have it run before its turn; constant

	waiters
	followers // under waiters.mu, like the rest
	done      bool
	ctx       context.Context // the place's, if that can end; nil once the future is done, which must not keep it; who took the function may read it
	joined    *joinedContext  // ctx, if that is the future's own
	unwatch   func() bool     // stops the wait for the end of ctx; nil if nothing waits for it
	value     T
	err       error
	panicked  *PanicError
}

// function is what a future calls.
type function[T any] struct {
	call  func(w *Worker) (T, error)
	shown *task // the user's function, which call may be made of
}

// Async queues f to be run at the place, with the options of [Pool.Submit], and returns its future. If f is not accepted, the
// future already has the error. If f is too late for a [StartBy], the future has [ErrLate] when the function late has
// returned.
//
// At the bound of [WithQueueBound] Async waits for room, as Submit does, but at a place of [Pool.Try] the future has [ErrFull]
// then. Inside a task of the pool Async queues f on the task's worker, as [Worker.Go] does (with assembly), unless f has a
// priority, a delay or a node. At [Serial] Async calls f itself; with a delay, or [After] futures that are not done, it fails.
//
// If the place's context ends before f begins, f never begins, and the future has the context's cause, as after
// [Future.Cancel]. Once f has begun, it is in a call with that context, which [Pool.With] describes: its forks unwind. At a
// [*Worker] the context is [Worker.Context], which ends with the call around; a future at the pool is on its own. At a place
// whose context never ends f is in no call, and [Worker.Stop] panics there: for that, make the future at a place of
// With, with a context that can end.
//
// Cost: two allocations beyond the closure f, and some more for a context that can end.
func Async[T any](at Place, f func(w *Worker) (T, error), options ...TaskOption) *Future[T] {
	future, v, err := async(at, f, options)
	switch {
	case err != nil:
		future.take()
		future.end(err)
		v.joined.end()
	case future.bounded || future.undelay != nil: // what waits for room, or for Close, is to see the end of the context
		future.mu.Lock()
		future.watchPlace()
		future.mu.Unlock()
	}
	return future
}

func async[T any](at Place, f func(w *Worker) (T, error), options []TaskOption) (*Future[T], View, error) {
	const method = "Async"
	v, err := placeFor(method, at)
	p, ctx := v.p, v.ctx
	future := &Future[T]{pool: p}
	if err != nil {
		return future, v, err
	}
	if f == nil {
		return future, v, errNilFunc(method)
	}
	task := future.task
	if v.priority != PriorityNormal {
		options = append([]TaskOption{v.priority}, options...) // the caller's go before it
	}
	o, _, err := p.prepare(method, task, options)
	if err != nil {
		return future, v, err
	}
	if p.isSerial() && o.follows && o.delay == 0 && !slices.ContainsFunc(o.after, isPending) { // nothing has to run later
		o.follows = false
	}
	if o.of = taskFor(f); o.shown != nil {
		o.of = o.shown
	}
	future.code = o.of.code
	future.f = function[T]{f, o.of}
	if ctx.Done() != nil {
		future.ctx, future.joined = ctx, v.joined
	}
	if ctx.Done() != nil || v.limit > 0 {
		future.f.call = inCall(f, ctx, v.limit)
	}
	if o.deadline {
		future.f.call = startedBy(future.f.call, o.startBy, o.late)
	}
	task = carry(task, o.of, o.name)
	if !o.later() {
		future.queued = taskOf(task)
	}
	future.labels = submitterLabels()
	if o.later() {
		d := &delay{pool: p}
		o.delayed, future.undelay = d, func() { d.drop(&p.stale, -1) }
	}
	if ctx.Err() != nil {
		return future, v, causes.Of(ctx)
	}
	if p.isSerial() && !o.later() {
		return future, v, p.Run(task)
	}
	if o.route == (route{}) {
		if w := p.near(); w != nil && (!w.core.Guest || w.inPlace > 0) { // any other guest may have to wait for room
			future.bounded = p.bound > 0 && !w.hasPlace()
			return future, v, w.accept(task)
		}
	}
	if v.try && p.isFull(o) {
		return future, v, p.refuse(ErrFull)
	}
	future.bounded = p.bound > 0 && o.counts()
	if future.bounded && !v.try {
		if err := p.waitForRoom(ctx, 1); err != nil {
			return future, v, err
		}
	}
	return future, v, p.accept(task, o)
}

// inCall returns a function that calls f in a call with a context, and maybe a time limit.
func inCall[T any](f func(w *Worker) (T, error), ctx context.Context, limit time.Duration) func(w *Worker) (T, error) {
	return func(w *Worker) (value T, err error) {
		at := View{p: w.pool, w: w, ctx: ctx, limit: limit}
		if end := at.run(func(w *Worker) { value, err = f(w) }); end != nil {
			var none T
			return none, end
		}
		return value, err
	}
}

// startedBy returns a function that calls f, or late if that comes too late.
func startedBy[T any](f func(w *Worker) (T, error), at time.Time, late func(*Worker)) func(w *Worker) (T, error) {
	return func(w *Worker) (value T, err error) {
		if !time.Now().After(at) {
			return f(w)
		}
		w.pool.late.Add(1)
		w.isIn(taskOf(late))
		late(w)
		return value, ErrLate
	}
}

// take gives the function to its first caller: a worker that runs it, one that waits for it and runs it in place, or
// a goroutine that keeps it from ever beginning. Only that caller gives the future its result.
func (t *Future[T]) take() (f function[T], ok bool) {
	if t.begun.Load() || !t.begun.CompareAndSwap(false, true) {
		return f, false
	}
	f, t.f = t.f, function[T]{}
	return f, true
}

// task is what the pool queues. If the function was taken before, the task lay in its queue for nothing, and pool.stale
// counted it: the goroutine that takes the function without the task adds 1, and the worker that comes to the task
// subtracts 1. Tasks that Abort gives back stay in that count, which is not used any more.
func (t *Future[T]) task(w *Worker) {
	f, ok := t.take()
	switch elsewhere := w == nil || w.pool != t.pool; { // Abort has given the task back
	case ok && elsewhere:
		t.end(ErrClosed)
	case ok && t.ctx != nil && t.ctx.Err() != nil:
		t.pool.skipped.Add(1)
		t.end(causes.Of(t.ctx))
	case ok:
		t.run(w, f)
	case !elsewhere:
		t.pool.stale.Add(-1)
		if t.bounded {
			t.pool.room.stale.Add(-1)
		}
	}
}

// tookElsewhere is called by the goroutine that has taken the function without the task, which counts for the bound no longer.
func (t *Future[T]) tookElsewhere() {
	p := t.pool
	p.stale.Add(1)
	if t.bounded {
		p.room.stale.Add(1)
		p.room.offer(p)
	}
}

func (t *Future[T]) run(w *Worker, f function[T]) {
	var value T
	in := w.beginInner()
	w.begin(f.shown)
	w.inside.Set(&inside{of: t, f: f.shown, outer: w.inside.Own()})
	err, returned := ErrGoexit, false
	defer func() {
		var panicked *PanicError
		if !returned {
			if v := panics.Recovered(recover()); v != nil {
				panicked, err = newPanicError(v), nil
				w.pool.panicked.Add(1)
			}
		}
		w.inside.Set(w.inside.Own().outer)
		w.endInner(in)
		w.woke = t.complete(w, value, err, panicked)
	}()
	value, err = f.call(w)
	returned = true
}

// inside is a future or a group whose function a worker is in, or a task with a name. Constant.
type inside struct {
	of    any   // the future or group; nil for a task with a name
	f     *task // the function, used only to find its name
	name  string
	outer *inside
}

// isInside says whether the calling goroutine is in a function of the future or group of. Such a
// function must not wait for it.
func (p *Pool) isInside(of any) bool {
	for w := goroutines.find(goroutineID()); w != nil; w = w.outer {
		for in := w.inside.Own(); in != nil; in = in.outer {
			if in.of == of {
				return true
			}
		}
	}
	return false
}

// maxInPlace bounds how many futures a worker runs in place on top of one another, where each waits for
// the one above: without a bound the stack could grow with the number of futures. mostStale bounds how
// many tasks of futures that were run in place may still be queued, some 20 MB. Beyond either bound, a waiter lends its place, and another worker runs the
// queued task. That takes longer, and more memory: with a bound of 256 a tree of 262,143 futures took 6.4 times as long as with goroutines and channels, and
// 365 MB; with 65,536 it takes as long, and as many (112 MB).
const maxInPlace, mostStale = 128, 1 << 16

// maxStale is the bound in a pool with [WithQueueBound], where tasks in the injectors count: as many as a worker's queues hold before they go there.
// Of tasks that submitters have queued, as many do not count.
const maxStale = 256

// runInPlace runs the future's function if it has not begun and the caller computes in the pool.
func (t *Future[T]) runInPlace(ctx context.Context) {
	// A waiter whose context can end must not be in the middle of the function when it ends.
	if t.queued == nil || t.begun.Load() || ctx.Done() != nil {
		return
	}
	p := t.pool
	w := p.computes(goroutineID())
	if w == nil || w.inPlace >= maxInPlace || !p.mayOvertake() {
		return
	}
	if w.core.Guest { // before the function has begun, so that Close waits for it
		p.core.Enter()
		defer p.core.Leave()
	}
	f, ok := t.take()
	if !ok {
		return
	}
	t.tookElsewhere()
	w.inPlace++
	job := w.job.Own()
	before := goroutineLabels()
	setGoroutineLabels(w.labelsWith(t.labels))
	defer func() {
		w.inPlace--
		w.job.Set(job)
		setGoroutineLabels(before)
	}()
	t.run(w, f)
}

// mayOvertake says whether one more future may begin before its task's turn.
func (p *Pool) mayOvertake() bool {
	stale := p.stale.Load()
	return !p.aborted.Load() && stale < mostStale && (p.bound == 0 || stale < maxStale)
}

// comesFirst returns the task for a worker to begin with at once, and counts it in stale, as it is in its queue as well; nil if it is too late for
// that, or if too many were taken before their turn.
func (t *Future[T]) comesFirst(p *Pool) *task {
	if t.queued == nil || t.bounded || t.pool != p || t.begun.Load() || !p.mayOvertake() {
		return nil
	}
	p.stale.Add(1)
	return t.queued
}

// end gives the future an error as its result. Only the goroutine that took the function calls it.
func (t *Future[T]) end(err error) {
	var none T
	t.complete(nil, none, err, nil)
}

// Wait returns the function's result when the function has returned. If ctx ends first, Wait
// returns the cause, and the function goes on. If the function panicked, Wait panics with a
// [*PanicError]; if it called runtime.Goexit, the error is [ErrGoexit]. The function itself cannot
// wait for its future: it gets [ErrOwnWait].
//
// Any goroutine may call it, any number of times. A task that waits lends its place. If the
// function has not begun, has no [Delay], and ctx cannot end, a task or guest of the pool runs it in place, which
// takes no longer than a call; a runtime.Goexit in the function then ends its waiter as well. If ctx can end, the worker that takes the waiting
// task's place begins with the function, and gives the place back, which takes some microseconds. Either way its task stays in
// the queue until its turn comes, and does nothing.
func (t *Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if ctx == nil {
		return none, errNilContext("Future.Wait")
	}
	if t == nil {
		return none, errNoFuture
	}
	if t.pool == nil {
		return none, cmp.Or(t.err, errNoFuture)
	}
	if !t.Ready() {
		if t.pool.isInside(t) {
			return none, ErrOwnWait
		}
		t.runInPlace(ctx)
		t.watchPlaceFor(ctx)
	}
	if err := t.wait(ctx, t.pool, "Future.Wait", t, t.isOver); err != nil {
		return none, err
	}
	if t.panicked != nil {
		panic(t.panicked)
	}
	return t.value, t.err
}

// Cancel keeps the function from running if it has not begun, and says whether it did. Wait then returns
// context.Canceled, and the function of a [StartBy] does not run either. A [Delay] ends, so [Pool.Close] does not
// wait for it. The queued task stays in its queue until its turn comes, and does nothing.
//
// Any goroutine may call it, any number of times. Cost: two atomic operations.
func (t *Future[T]) Cancel() bool {
	if t == nil || t.pool == nil {
		return false
	}
	return t.drop(context.Canceled)
}

// drop keeps the function from running if it has not begun, and says whether it did. The future then has the error.
func (t *Future[T]) drop(err error) bool {
	if _, ok := t.take(); !ok {
		return false
	}
	t.tookElsewhere()
	t.pool.skipped.Add(1)
	t.end(err)
	if t.undelay != nil {
		t.undelay()
	}
	return true
}

// watchPlace has the function dropped when the place's context ends, unless it has begun. Those do so who would have to be told: another one sees the end
// when the task has its turn. Under mu.
func (t *Future[T]) watchPlace() {
	if ctx := t.ctx; ctx != nil && t.unwatch == nil && !t.begun.Load() {
		t.unwatch = context.AfterFunc(ctx, func() { t.drop(causes.Of(ctx)) })
	}
}

// watchPlaceFor is watchPlace for a waiter with a context, which sees the end by itself if that is the same.
func (t *Future[T]) watchPlaceFor(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx != nil && t.ctx.Done() != ctx.Done() {
		t.watchPlace()
	}
}

// isDone notes that the future has its result. Under mu.
func (t *Future[T]) isDone() {
	t.done = true
	if t.ctx == nil {
		return
	}
	if t.unwatch != nil {
		t.unwatch()
	}
	t.joined.end()
	t.ctx, t.joined, t.unwatch = nil, nil, nil
}

// Ready says whether the function has returned, so that Wait would not wait.
func (t *Future[T]) Ready() bool {
	if t == nil || t.pool == nil { // Wait returns an error at once
		return true
	}
	t.mu.Lock()
	over, ctx := t.isOver(), t.ctx
	t.mu.Unlock()
	return over || ctx != nil && ctx.Err() != nil && t.drop(causes.Of(ctx))
}

// isOver says whether the future has its result. After Abort, a future that has not begun gets ErrClosed as its
// result here. Under mu.
func (t *Future[T]) isOver() bool {
	if !t.done && t.pool.aborted.Load() {
		if _, ok := t.take(); ok {
			t.tookElsewhere()
			t.err = ErrClosed
			t.isDone()
		}
	}
	return t.done
}
