package pool

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/pool/inspect"
)

// # What waits without a goroutine
//
// A **delay** is an accepted task that is in no queue yet. It waits for its time, for the futures of After, or for both, and
// occupies neither a goroutine nor a worker. Delay.left counts what it waits for, and begin itself, which counts as one until it has
// arranged the rest. Who subtracts the last one queues the task. The delay can also be ended by its context, by Future.Cancel and by
// Abort; delay.end has one winner, who has the task.
//
// A future keeps the delays that wait for it in a list, its **followers**. Completion and registration race, and both take the future's
// mu, which completion needs for the result and its waiters anyway; so a future without followers pays a load for them.
//
//  1. follow looks at the result and adds the follower, in one critical section.
//  2. complete writes the result and takes the list, in one critical section. Only who took the future's function completes it, so
//     there is one list, and it is taken once.
//
// If 1 comes first, the follower is in the list that 2 takes. If 2 comes first, 1 finds the result and subtracts at once. So
// each pair of future and delay subtracts once, and a future that is given twice is two pairs.
//
// Functions always run as tasks, and never inside complete: the stack does not grow with the length of a chain, the
// goroutine that completes a future is not held up by what others attach to it, and labels, names, timings and panics are those of any
// task. A worker that completes a future queues the followers where it would queue tasks of its own, the newest first: so the
// oldest is the next that the worker runs, with the result in its cache.
//
// A task can only wait for futures that exist before it is accepted, and its own future does not exist before that. So there are no cycles.
//
// When a pool is aborted, its delays go to Abort's caller, whatever they wait for. A future of it that has not begun gets ErrClosed
// from the first goroutine that looks. A channel of Done and a delay of another pool do not look, so futures that have one of these are
// **watched**: the pool lists them, and Abort completes them. Who adds to this list looks for an abort afterwards, and Abort looks at
// the list after it has said that it aborts; one of them finds the other.

// Awaitable is a [Future] of any type, for [After].
type Awaitable interface {
	// follow has d arrive once when the future is done, or at once if it is.
	follow(d *delay)
	// abandon completes the future with ErrClosed if it has not begun. Its pool was aborted.
	abandon()
	// pending returns the name of the future's function, and whether the future has no result yet.
	pending() (name string, ok bool)
	// isNone says that it is nil, or was not made by Async.
	isNone() bool
}

type after struct {
	futures []Awaitable
	first   bool  // of Any
	shown   *task // of Then: the function that the task's function is made of
}

func (a after) set(o *taskOptions) {
	o.after = append(o.after, a.futures...)
	o.follows = len(o.after) > 0
	if a.first || a.shown != nil {
		o.first, o.shown = a.first, a.shown
	}
}

// After has a task begin when the futures have their results, whatever these are. The task is accepted at once, so
// [Pool.Close] waits for it. Until all futures are done it occupies no worker, does not count for [WithQueueBound], and counts as delayed
// in [inspect.Load] and [Pool.Dump], which says what it waits for. With [Delay] the time must have passed as well. The futures may be
// of different types and pools. In the task, [Future.Wait] returns their results at once. [Pool.Abort] gives the task back; if
// it aborts the pool of one of the futures, that one is done with [ErrClosed].
//
// A worker that completes the last of the futures is likely to run the task next. Cost: that of [Delay] without a timer, and for each future
// an allocation and a lock. A task that is cancelled leaves 16 bytes and itself, without its function, at a future until others have been added or that is done.
func After(futures ...Awaitable) TaskOption { return after{futures: futures} }

// Then runs f with the result of t, in t's pool, when t is done, and returns the future of f. If t has an error, f does not run and the
// new future has the error; if t panicked, its [Future.Wait] panics as that of t does. The options are those of [Async].
//
// Then does not wait, whoever calls it. With [Delay] the new future also has an error of t only when the time has passed. With
// [StartBy] it has [ErrLate] if its task begins too late, even if t has an error or panicked. At [Serial] f runs in the caller. Cost: that of Async with [After].
func Then[T, U any](t *Future[T], f func(w *Worker, v T) (U, error), options ...TaskOption) *Future[U] {
	var none U
	switch {
	case f == nil:
		return settled(none, errNilFunc("Then"))
	case t == nil || t.pool == nil:
		_, err := t.Wait(context.Background())
		return settled(none, err)
	}
	return Async(t.pool, func(w *Worker) (U, error) {
		v, err := t.Wait(context.Background())
		if err != nil {
			return none, err
		}
		return f(w, v)
	}, append(slices.Clip(options), after{futures: []Awaitable{t}, shown: taskFor(f)})...)
}

// All returns a future that is done when all the futures are. It has their results, in order, or the error of the first of them, in order,
// that has one; if that one panicked, its [Future.Wait] panics as well. All of none is done, with no results. For futures of different types,
// see [After].
//
// Cost: that of [Async] with After. Its task runs in the pool of the first future that is not of [Serial]; if all are, in the caller.
func All[T any](futures ...*Future[T]) *Future[[]T] {
	return gather(futures, false, func() ([]T, error) {
		values := make([]T, len(futures))
		for i, t := range futures {
			v, err := t.Wait(context.Background())
			if err != nil {
				return nil, err
			}
			values[i] = v
		}
		return values, nil
	})
}

// Any returns a future that is done when one of the futures has a result without an error: it has that result. If all fail, it has their
// errors, joined; if one of these panicked, its [Future.Wait] panics as well. Any of none is an error. The other futures go on; end them by [Future.Cancel]
// or a context. [First] is for functions, which it ends.
//
// Its task runs where that of [All] does, so not always in the pool of the future that succeeds. If that pool refuses the task, because it is
// closed, the new future has [ErrClosed], whatever the futures have. Cost: that of [All].
func Any[T any](futures ...*Future[T]) *Future[T] {
	var none T
	if len(futures) == 0 {
		return settled(none, errors.New("pool: Any was given no futures, so there is no result"))
	}
	return gather(futures, true, func() (T, error) {
		var errs []error
		var panicked *PanicError
		for _, t := range futures {
			t.mu.Lock()
			over, v, err, e := t.pool == nil || t.isOver(), t.value, t.err, t.panicked
			t.mu.Unlock()
			switch {
			case !over:
			case t.pool == nil:
				_, err = t.Wait(context.Background())
				errs = append(errs, err)
			case e != nil:
				panicked = e
			case err != nil:
				errs = append(errs, err)
			default:
				return v, nil
			}
		}
		if panicked != nil {
			panic(panicked)
		}
		return none, errors.Join(errs...)
	})
}

// gather returns the future of f, which runs after the futures, or after the first of them that has no error.
func gather[T, U any](futures []*Future[T], first bool, f func() (U, error)) *Future[U] {
	var none U
	var p *Pool
	all := after{futures: make([]Awaitable, 0, len(futures)), first: first}
	for _, t := range futures {
		if t == nil || !t.isNone() { // f finds what was not made by Async
			all.futures = append(all.futures, t)
		}
		if t != nil && t.pool != nil && (p == nil || p.isSerial()) {
			p = t.pool
		}
	}
	switch {
	case p != nil:
	case slices.Contains(futures, nil):
		return settled(none, errNoFuture)
	default: // there are none, or no pool has accepted one
		return settled(f())
	}
	return Async(p, func(*Worker) (U, error) { return f() }, all)
}

// settled returns a future that has a result.
func settled[T any](value T, err error) *Future[T] {
	t := &Future[T]{pool: serial(), value: value, err: err, done: true}
	t.begun.Store(true)
	return t
}

// Done returns a channel that is closed when the future has its result, for use in a select. Then [Future.Wait] returns
// at once. A task that selects waits for something that its pool was not told of, see [Worker.Block].
//
// Any goroutine may call it, any number of times. Cost: the first call that finds the future not done makes the channel, and its pool
// notes the future; a future that nobody asks for a channel has none.
func (t *Future[T]) Done() <-chan struct{} {
	if t == nil || t.pool == nil { // Wait returns an error at once
		return closedChannel
	}
	t.mu.Lock()
	if t.isOver() {
		t.mu.Unlock()
		return closedChannel
	}
	if t.over == nil {
		t.over = make(chan struct{})
	}
	over := t.over
	t.watch()
	t.watchPlace()
	t.mu.Unlock()
	t.lookForAbort()
	return over
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// followers are what waits for a future without a goroutine. Under the future's mu.
type followers struct {
	last    *follower // the newest of a list; nil for none
	room    int32     // how many are added until those whose delays have ended are dropped
	watched bool      // the pool lists the future for Abort
}

type follower struct {
	delay *delay
	next  *follower // the one that came before
}

// leastRoom is the least number of followers between two looks for those that have ended.
const leastRoom = 16

// dropEnded drops the followers whose delays have ended, by another future of an Any for instance: they would stay until this one is done. It comes
// when the list may have doubled, so it costs each follower little. Under mu.
func (f *followers) dropEnded() {
	live := int32(0)
	for at := &f.last; *at != nil; {
		if (*at).delay.over.Load() {
			*at = (*at).next
		} else {
			at = &(*at).next
			live++
		}
	}
	f.room = max(live, leastRoom)
}

// watch has Abort complete the future. Under mu, so that it comes before complete, which ends it.
func (t *Future[T]) watch() {
	if !t.watched {
		t.watched = true
		t.pool.watched.Store(t, nil)
	}
}

// lookForAbort is called after watch.
func (t *Future[T]) lookForAbort() {
	if t.pool.aborted.Load() {
		t.abandon()
	}
}

func (t *Future[T]) follow(d *delay) {
	if t.pool == nil {
		d.arrive(nil, false)
		return
	}
	t.mu.Lock()
	if t.isOver() {
		succeeded := t.succeeded()
		t.mu.Unlock()
		d.arrive(nil, succeeded)
		return
	}
	t.watchPlace()
	t.last = &follower{delay: d, next: t.last}
	if t.room--; t.room < 0 {
		t.dropEnded()
	}
	foreign := d.pool != t.pool
	if foreign {
		t.watch()
	}
	t.mu.Unlock()
	if foreign {
		t.lookForAbort()
	}
}

// succeeded says whether the future has a result without an error. Under mu.
func (t *Future[T]) succeeded() bool { return t.err == nil && t.panicked == nil }

// complete gives the future its result, and lets those go on that wait for it; w is the worker that does so, nil for another goroutine.
// It says whether that released a goroutine.
func (t *Future[T]) complete(w *Worker, value T, err error, panicked *PanicError) (released bool) {
	t.mu.Lock()
	t.value, t.err, t.panicked = value, err, panicked
	t.isDone()
	last, watched := t.last, t.watched
	t.last = nil
	t.mu.Unlock()
	released = t.release(nil)
	if watched {
		t.pool.watched.Delete(t)
	}
	last.arrive(w, err == nil && panicked == nil)
	return released
}

func (f *follower) arrive(w *Worker, succeeded bool) {
	for ; f != nil; f = f.next {
		f.delay.arrive(w, succeeded)
	}
}

func (t *Future[T]) abandon() {
	t.mu.Lock()
	if !t.isOver() { // it has begun, and will be completed
		t.mu.Unlock()
		return
	}
	last := t.last
	t.last = nil
	t.mu.Unlock()
	t.release(nil)
	t.pool.watched.Delete(t)
	last.arrive(nil, false)
}

func (t *Future[T]) pending() (name string, ok bool) { return nameOf(t.code), !t.Ready() }

func (t *Future[T]) isNone() bool { return t == nil || t.pool == nil && t.err == nil }

func isPending(t Awaitable) bool {
	_, ok := t.pending()
	return ok
}

// delay is an accepted task that is in no queue yet, see the head of the file.
type delay struct {
	pool  *Pool // constant, like all up to left
	route route
	code  uintptr // of the user's function
	name  string  // empty for the function's name

	left atomic.Int32 // what it still waits for; who has brought that about subtracts
	over atomic.Bool  // end writes it

	mu    sync.Mutex       // begin holds it until timer and stop are set: their callbacks may come before that
	f     func(*Worker)    // nil when the delay is over
	after []Awaitable      // nil when the delay is over
	timer *time.Timer      // nil for none
	stop  func() (ok bool) // keeps the context from ending the delay; nil if no context does
}

// begin begins the delay of f, which the pool has counted as delayed.
func (d *delay) begin(f func(*Worker), o taskOptions) {
	d.route, d.code, d.name = o.route, o.of.code, o.name
	d.mu.Lock()
	d.f, d.after = f, o.after
	d.left.Store(int32(1 + len(o.after)))
	d.pool.delays.Store(d, nil)
	if o.delay > 0 {
		d.left.Add(1)
		d.timer = time.AfterFunc(o.delay, func() { d.arrive(nil, false) })
	}
	if o.ctx != nil && o.ctx.Done() != nil {
		d.stop = context.AfterFunc(o.ctx, func() { d.drop(&d.pool.skipped, 1) })
	}
	d.mu.Unlock()
	for _, t := range o.after {
		t.follow(d)
	}
	d.arrive(nil, false)
}

// arrive is called when something has happened that the delay waits for: a future is done, with success or not, or the time has passed. The
// last caller queues the task, at worker w if it is not nil.
func (d *delay) arrive(w *Worker, succeeded bool) {
	if d.left.Add(-1) > 0 && !(succeeded && d.route.first) {
		return
	}
	f := d.end()
	if f == nil {
		return
	}
	p := d.pool
	if w != nil && w.pool == p && !w.core.Guest && d.route.priority == PriorityNormal && d.route.node == 0 {
		w.queue(f)
	} else {
		p.queue(p.taskOf(f), d.route.priority, p.nodeFor(d.route))
	}
	p.endDelay()
}

// end ends the delay. Its first caller has the function, all others get nil.
func (d *delay) end() (f func(*Worker)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f = d.f; f == nil {
		return nil
	}
	d.f, d.after = nil, nil
	d.over.Store(true)
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.stop != nil {
		d.stop()
	}
	d.pool.delays.Delete(d)
	return f
}

// drop ends the delay so that its task never runs, and adds to a count if this call has ended it.
func (d *delay) drop(count *atomic.Int64, n int64) {
	if d.end() != nil {
		count.Add(n)
		d.pool.dropped.Add(1)
		d.pool.endDelay()
	}
}

// dependents returns what waits for futures: tasks of the same name that wait for functions of the same names together.
func (p *Pool) dependents() (all []inspect.Dependent) {
	p.delays.Range(func(key, _ any) bool {
		d := key.(*delay)
		d.mu.Lock()
		after := d.after
		d.mu.Unlock()
		var names []string
		for _, t := range after {
			if name, ok := t.pending(); ok {
				names = append(names, cmp.Or(name, "a function"))
			}
		}
		if len(names) == 0 {
			return true
		}
		slices.Sort(names)
		this := inspect.Dependent{Does: cmp.Or(d.name, nameOf(d.code), "a function"), WaitsFor: slices.Compact(names), Tasks: 1}
		i := slices.IndexFunc(all, func(o inspect.Dependent) bool { return o.Does == this.Does && slices.Equal(o.WaitsFor, this.WaitsFor) })
		if i >= 0 {
			all[i].Tasks++
		} else {
			all = append(all, this)
		}
		return true
	})
	slices.SortFunc(all, func(a, b inspect.Dependent) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Does, b.Does), slices.Compare(a.WaitsFor, b.WaitsFor))
	})
	return all
}
