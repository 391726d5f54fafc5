package pool

import (
	"context"
	"errors"
	"runtime/trace"
	"time"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/panics"
)

// Place is where a call computes, and what it is a part of. It is a [*Pool], whose guest the calling goroutine becomes for
// the time of a blocking call, or a [*Worker] that the caller was given. [Pool.With] and [Worker.With] return places whose
// calls can be cancelled. The place of [Serial] is the caller alone. Groups ([NewGroup]) and futures ([Async]) are made at a
// place, too, and end with its context.
//
// A call at a pool, made inside a task, a body or a fork of that pool, computes as the worker that runs it. But it
// is a call of its own: unlike a call at the worker, it does not end early with the call around it.
type Place interface {
	// With returns a place in which calls end early when ctx is cancelled, see [Pool.With].
	With(ctx context.Context) *View
	// Context returns the context with which calls at the place end, see [Pool.With] and [Worker.Context]. It is
	// context.Background() if there is none.
	Context() context.Context
	// Block calls f, which waits for something, see [Pool.Block].
	Block(f func())

	view() View
}

func (p *Pool) view() View { return View{p: p} }
func (w *Worker) view() View {
	if w == nil {
		return View{}
	}
	return View{p: w.pool, w: w}
}

// View is a place at a pool or a worker whose calls have a context, a time limit or a priority, or do not wait for admission. Create it with
// [Pool.With], [Worker.With], [Pool.Within], [Pool.At] or [Pool.Try], and use it any number of times.
type View struct {
	p        *Pool
	w        *Worker
	ctx      context.Context
	try      bool // calls do not wait for admission, nor for room
	priority Priority
	limit    time.Duration // of each call; 0 for none

	joined *joinedContext // ctx, if placeFor made it
}

func (v *View) view() View {
	if v == nil {
		return View{}
	}
	return *v
}

// With returns a place at the pool in which calls end early when ctx is cancelled. What was already begun is finished:
// the chunk of a loop, the functions of a join up to their next fork. A fork unwinds by a panic that the call recovers;
// functions that recover panics should let those pass for which [IsUnwind] is true. When the call returns, nothing of it
// runs any more. Unwinding loses no panic: if several meet in a call that ends early, and one of them is recovered inside
// the call, another may continue where the call ends.
//
// A call that ends early returns ctx's cause ([context.Cause]), as an error that is also ctx.Err() for [errors.Is]. It ends early if any of its functions was told to stop:
// a fork unwound, a loop left out items, or [Worker.Cancelled] said true. Otherwise its work is whole, and it returns
// nil though ctx may have ended meanwhile. This holds for all blocking calls, those of package par too. A call that begins after ctx has ended returns
// the cause, whatever there is to do.
func (p *Pool) With(ctx context.Context) *View {
	if ctx == nil {
		panic(errNilContext("Pool.With"))
	}
	return &View{p: p, ctx: ctx}
}

// With is [Pool.With] for a caller that was given w. What is nested in a call also ends with that one: calls at the place,
// and groups and futures made at it.
func (w *Worker) With(ctx context.Context) *View {
	if ctx == nil {
		panic(errNilContext("Worker.With"))
	}
	v := w.view()
	v.ctx = ctx
	return &v
}

// With is [Pool.With] for a view. Ctx replaces the context of the view; if both should end calls, derive ctx from
// [View.Context].
func (v *View) With(ctx context.Context) *View {
	if ctx == nil {
		panic(errNilContext("View.With"))
	}
	c := v.view()
	c.ctx = ctx
	return &c
}

// At is [View.At] for the pool.
func (p *Pool) At(priority Priority) *View { return (&View{p: p}).At(priority) }

// At returns the place as one with a priority. Functions of groups and futures that are made there have that priority, as tasks of [Pool.Submit]
// do. A blocking call from outside, such as a loop, a sort or a stream, begins at [PriorityLow] when a worker would begin a task of
// low priority that was queued at the time of the call: it waits for such a task, which counts as one. Once it has begun it computes as any other
// call. At [PriorityHigh] it begins at once, as at [PriorityNormal], and so does a call inside of a task, a body or a fork of the pool, and one of
// package par with so little work that it never comes to the pool.
func (v *View) At(priority Priority) *View {
	if priority < 0 || priority >= priorities {
		panic(errPriority("View.At", priority))
	}
	c := v.view()
	c.priority = priority
	return &c
}

// awaitTurn returns when a call of low priority may begin: when a worker comes to a task that was queued now.
func (p *Pool) awaitTurn(ctx context.Context) error {
	if p.isSerial() || p.computes(goroutineID()) != nil {
		return nil
	}
	if p.isClosed() {
		return p.turnAway(ErrClosed)
	}
	turn := make(chan struct{})
	if err := p.Submit(ctx, func(*Worker) { close(turn) }, PriorityLow); err != nil {
		return err
	}
	p.wait("the turn of a call of low priority", nil, func() { // the caller may be a task of another pool
		select {
		case <-turn:
		case <-ctx.Done():
		case <-p.abandons: // then the call is refused
		}
	})
	return causes.Of(ctx)
}

// IsUnwind says whether v, which recover returned, is the panic that unwinds a call whose context was cancelled,
// see [Pool.With]. Such a panic must go on: panic with v again.
func IsUnwind(v any) bool {
	_, ok := v.(*cancelScope)
	return ok
}

// Context returns context.Background(): calls at the pool itself have no context.
func (p *Pool) Context() context.Context { return context.Background() }

// Context returns the context that With was given. Without one it is that of the view's worker or pool.
func (v *View) Context() context.Context {
	view := v.view()
	switch {
	case view.ctx != nil:
		return view.ctx
	case view.w != nil && view.w.isMine(): // if it is another goroutine's, calls at the place return an error
		return view.w.Context()
	}
	return context.Background()
}

// Context returns the context of the call that the caller belongs to: that of the innermost call around it at a place with
// a context. It also ends with the calls around that one, with [Worker.Stop], and when the call has returned. If there is no
// such call it is context.Background(). Cost: a load, and at the first time in a call that of [context.WithCancelCause], and
// of [context.AfterFunc] in a nested one.
func (w *Worker) Context() context.Context {
	if w == nil || w.cancelScope == nil {
		return context.Background()
	}
	return w.cancelScope.context()
}

// Stop ends the innermost call around the caller that was made at a place with a context ([Pool.With]), and unwinds the
// caller. The call returns err; other workers that compute in it unwind at their next fork, or end their chunk of a
// loop, and [Worker.Context] ends with err as its cause. So a search ends as soon as one worker has found what it looks for.
// The call has no other result: keep what was found elsewhere; err may be one of your own that says that something was
// found.
//
// Functions of [Group.GoWorker] and [First] are each in such a call. Stop panics if err is nil, or if there is no such call. A
// call at the pool itself, a task, and what [Worker.Uncancelled] calls do not belong to the call around them.
func (w *Worker) Stop(err error) {
	w.mustBeMine("Worker.Stop")
	if err == nil {
		panic(errors.New("pool: Worker.Stop was given a nil error; it is what the call returns"))
	}
	c := w.cancelScope
	if c == nil {
		panic(errors.New("pool: Worker.Stop was called outside of a call at a place with a context; make the call at With(ctx)"))
	}
	c.stopWith(err)
	c.check()
}

// Do runs the functions at the place, possibly at the same time, and returns when all are done. A panic in one of
// them continues here as a [*PanicError]. It is for callers that were given no worker; see [Worker.Do], and
// [Pool.Run] for places and errors. Without functions Do only says whether a call can begin at the place, for an
// algorithm that turns out to have nothing to do.
//
// Cost: that of a guest, 40 ns, beside that of Worker.Do.
func Do(at Place, fs ...func(w *Worker)) (err error) {
	for _, f := range fs {
		if f == nil {
			return errNilFunc("Do")
		}
	}
	if len(fs) == 0 {
		_, err := check(at)
		return err
	}
	v, err := enter(at)
	if err != nil {
		return err
	}
	v.loop = true
	defer v.leave(&err)
	v.does(codeOf(fs[0]))
	v.w.Do(fs...)
	v.returned = true
	return nil
}

// Run calls f at the place, in the calling goroutine. See [Pool.Run].
func (v *View) Run(f func(w *Worker)) (err error) {
	if f == nil {
		return errNilFunc("View.Run")
	}
	return v.view().run(f)
}

func (v View) run(f func(w *Worker)) (err error) {
	call, err := v.enter()
	if err != nil {
		return err
	}
	defer call.leave(&err)
	call.does(codeOf(f))
	f(call.w)
	call.returned = true
	return nil
}

// visit is one blocking call at a place.
type visit struct {
	w        *Worker
	guest    bool          // w was made a guest for the visit
	loop     bool          // a panic arrives as a [*PanicError], whether the caller or a thief ran what panicked
	returned bool          // the visit's function has returned
	kept     bool          // inner keeps the visit apart from what w did before
	scope    *cancelScope  // nil if the place has no context
	inner    inner         // if the visit is not kept apart, only around
	region   *trace.Region // nil if no trace is on
}

// placeFor returns the place of a call that adds tasks, with the context of the call. The caller ends v.joined when it needs
// that context no more.
func placeFor(method string, at Place) (v View, err error) {
	if at == nil {
		return v, errNoPlace
	}
	switch v = at.view(); {
	case v.w != nil && v.p != nil:
		if !v.w.isMine() {
			return v, errOthers(method + " at a *Worker")
		}
	default:
		if err := v.p.usable(); err != nil {
			return v, err
		}
	}
	if ctx := v.ctx; ctx != nil && v.w != nil && v.w.cancelScope != nil {
		v.joined = joinContexts(ctx, v.w.cancelScope.context())
		v.ctx = v.joined
		return v, nil
	}
	v.ctx = v.Context()
	return v, nil
}

// check says whether a call can begin at the place.
func check(at Place) (*Pool, error) {
	if at == nil {
		return nil, errNoPlace
	}
	return at.view().check()
}

func (v View) check() (*Pool, error) {
	p, w, ctx := v.p, v.w, v.ctx
	if w == nil || p == nil {
		if err := p.usable(); err != nil {
			return nil, err
		}
	}
	over := ctx != nil && ctx.Err() != nil
	if w != nil {
		if !w.isMine() {
			return p, errOthers("a call at a *Worker")
		}
		if ctx != nil {
			w.cancelScope.ended() // if a call around ends as well, that one is told first
		}
		w.cancelScope.look(w)
	}
	switch {
	case over:
		return p, causes.Of(ctx)
	case w == nil && p.isClosed():
		return p, p.turnAway(ErrClosed)
	}
	return p, nil
}

// enter begins a visit.
func enter(at Place) (v visit, err error) {
	if at == nil {
		return v, errNoPlace
	}
	return at.view().enter()
}

func (view View) enter() (v visit, err error) {
	if _, err := view.check(); err != nil {
		return v, err
	}
	p, w, ctx := view.p, view.w, view.ctx
	var outer *cancelScope
	if v.w = w; w == nil {
		until := ctx
		if until == nil {
			until = context.Background()
		}
		if view.priority == PriorityLow {
			if err := p.awaitTurn(until); err != nil {
				return v, err
			}
		}
		if v.w, v.guest, err = p.admitGuest(until, view.try); err != nil {
			return v, err
		}
	} else {
		outer = w.cancelScope
	}
	if v.kept = ctx != nil || w == nil && !v.guest; v.kept {
		v.inner = v.w.beginInner()
	} else { // a part of the same call
		v.inner.around, v.w.around = v.w.around, v.w.cancelScope
	}
	if ctx != nil {
		v.scope = newCancelScope(ctx, p, outer, view.limit)
		v.w.cancelScope = v.scope
		if v.w.forks() {
			v.scope.watch()
		}
	}
	v.region = region("heist: call")
	return v, nil
}

// leave ends the visit, and sees to the rule of cancelscope.go, "What a call returns". It must be deferred.
func (v *visit) leave(err *error) {
	endRegion(v.region)
	if v.guest {
		defer v.w.pool.releaseGuest(v.w)
	}
	if v.scope != nil && v.scope.expire != nil {
		defer v.scope.expire() // the error of the call is that of its context
	}
	last := v.w.cancelScope.toldBy()
	own := last != nil && last == v.scope
	var recovered any // a panic that leave has stopped
	if !v.returned && (v.loop || own) {
		recovered = panics.Recovered(recover())
		if v.loop && recovered != nil && !IsUnwind(recovered) {
			recovered = panicHere(recovered)
		}
	}
	if e, ok := v.end().(*PanicError); ok && !v.returned && recovered == nil && panics.Recovered(nil) == nil { // it called runtime.Goexit
		recovered = e
	}
	if last != nil && !own && v.scope != nil {
		if e := v.scope.kept.Load(); e != nil { // a call around ended while this one unwound
			last.kept.note(*e)
		}
	}
	switch {
	case recovered != nil && !(own && last.encloses(recovered)):
		panic(recovered)
	case last == nil, !v.returned && !own: // what keeps the function from returning goes on by itself
		return
	case !own:
		panic(last)
	}
	*err = last.err()
	if e := last.kept.Load(); e != nil {
		resume(*e)
	}
}

// does notes which function the visitor runs.
func (v *visit) does(code uintptr) {
	if v.guest {
		v.w.code.Set(code)
	}
}

// end returns the worker to what it did before, and what unwind returns. The call is over only after its last fork: until then it can still
// be cancelled, and thieves be told so.
func (v *visit) end() (left ending) {
	if v.kept {
		left = v.w.endInner(v.inner)
	} else {
		v.w.around = v.inner.around
	}
	if v.scope != nil {
		v.scope.finish()
	}
	if !v.guest {
		v.w.trim()
	}
	return left
}

// # For those who write algorithms

// Idle returns how many workers could help the caller now. The caller must have been given w. Cost: a load.
func (w *Worker) Idle() int { return w.pool.idle() }

// Cancelled says whether the call that the caller belongs to need not go on, because its context has ended. If
// Cancelled has said so, the call returns the context's cause, whatever its functions do. Cost: some loads.
func (w *Worker) Cancelled() bool { return w.cancelScope.ended() }

// Call returns the innermost call that w is in. It is for an algorithm that runs code of its caller in the midst of its
// own: it ranges over a sequence, or hands results over before it returns. Such code may make calls of its own, and these may call
// the algorithm back, as a sequence does when it yields from inside a call. Then [Worker.Cancelled] would speak of a call
// of that code. The function that was given to [Do] or Run calls Call, before it runs code of its caller. Cost: a look at who calls.
func (w *Worker) Call() Call {
	w.mustBeMine("Worker.Call")
	return Call{w, w.cancelScope, w.around}
}

// Call is a call that computes, for the algorithm that was called. [Worker.Call] makes it. Only the goroutine that made the call may use it, until the
// call returns.
type Call struct {
	w             *Worker
	scope, around *cancelScope
}

// Cancelled is [Worker.Cancelled] for the call. The algorithm asks it between two pieces of its work: it also gives way to other
// goroutines of the process, now and then. Cost: some loads.
func (c Call) Cancelled() bool {
	if c.w == nil {
		panic(errZeroCall)
	}
	c.w.betweenPieces()
	return c.scope.ended()
}

// Outside calls f, which is code of the algorithm's caller and no part of the algorithm's work, such as a function that
// takes its results. What f does with the worker belongs to the call around, as if the algorithm's call had not begun.
// With [WithCallers] another goroutine may compute meanwhile, and what f itself calls at the pool needs no admission.
//
// Cost: some 20 ns, and two locks with WithCallers.
func (c Call) Outside(f func()) {
	w := c.w
	if w == nil {
		panic(errZeroCall)
	}
	w.mustBeMine("Call.Outside")
	if f == nil {
		panic(errNilFunc("Call.Outside"))
	}
	if w.cancelScope != c.around {
		in := w.beginInner()
		w.cancelScope = c.around
		defer w.endInner(in)
	}
	if w.core.Guest && w.pool.callers > 0 {
		w.pool.exitAdmission()
		defer w.pool.reenterAdmission()
	}
	f()
}

var errZeroCall = errors.New("pool: a Call was used that Worker.Call did not return")

// Checkpoint unwinds the caller, as a fork does, if the pool has noticed that the context of the call that it belongs to has
// ended. It looks at the context itself only if the worker has not done so for 50 microseconds, so a Checkpoint right after
// the end, even one in the goroutine that cancelled, may return. [Worker.Cancelled] sees the end at once, and after that so
// does Checkpoint. Cost: some loads, and a look at the clock.
func (w *Worker) Checkpoint() { w.cancelScope.look(w) }

// Uncancelled calls f so that no fork in it ends early because the caller's call was cancelled. It is for work that
// must not be left half done. F may ask cancelled, on any worker, whether it should hurry.
func (w *Worker) Uncancelled(f func(cancelled func() bool)) {
	if f == nil {
		panic(errNilFunc("Worker.Uncancelled"))
	}
	w.mustBeMine("Worker.Uncancelled")
	in := w.beginInner()
	defer w.endInner(in)
	f(in.cancelScope.ended)
}
