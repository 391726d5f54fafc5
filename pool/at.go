package pool

import (
	"context"
	"errors"
	"runtime/trace"
)

// Place is where a blocking call computes: a [*Pool], whose guest the calling
// goroutine becomes for the time, or a [*Worker] that the caller was given. With
// [Pool.With], [Worker.With] or [WithCancel] the call can be cancelled. [Serial] is the caller alone.
//
// A call at the pool, made inside a task, a body or a fork of that pool, computes as the worker that runs it. But it is a call of its own: it
// does not end with the one around it, as a call at the worker does.
type Place interface {
	// With returns the place as one in which calls end early when ctx is cancelled, see [Pool.With].
	With(ctx context.Context) *View
	// Block calls f, which waits for something, see [Pool.Block].
	Block(f func())

	at() View
}

func (p *Pool) at() View { return View{p: p} }
func (w *Worker) at() View {
	if w == nil {
		return View{}
	}
	return View{p: w.pool, w: w}
}

// View is a pool or a worker as a place whose calls have a context, or do not wait for admission. Create it with [Pool.With], [Worker.With] or [WithCancel]; it is
// used any number of times.
type View struct {
	p      *Pool
	w      *Worker
	ctx    context.Context
	cancel context.CancelCauseFunc // of ctx, if WithCancel made it
	try    bool                    // calls do not wait for admission
}

func (b *View) at() View {
	if b == nil {
		return View{}
	}
	return *b
}

// With returns the pool as a place in which calls end early, with ctx's cause ([context.Cause]), when
// ctx is cancelled. What was already begun then is finished: the chunk of a loop, the
// functions of a join up to their next fork. A fork unwinds by a panic that the call
// recovers again; functions that recover panics should let those pass for which [IsUnwind]
// is true. When the call returns, nothing of it runs any more. No panic is lost by unwinding: where several
// meet in a call that ends early, and one is recovered inside, another may continue where the call ends.
func (p *Pool) With(ctx context.Context) *View {
	if ctx == nil {
		panic(errNilContext("Pool.With"))
	}
	return &View{p: p, ctx: ctx}
}

// With is [Pool.With] for a caller that was given w. A call that is nested in another
// one ends with that one, too.
func (w *Worker) With(ctx context.Context) *View {
	if ctx == nil {
		panic(errNilContext("Worker.With"))
	}
	b := w.at()
	b.ctx = ctx
	return &b
}

// With is [Pool.With] for a view. Ctx takes the place of the context that the view has; where both should end calls it is derived from that.
func (b *View) With(ctx context.Context) *View {
	if ctx == nil {
		panic(errNilContext("View.With"))
	}
	c := b.at()
	c.ctx = ctx
	return &c
}

// IsUnwind says whether v, which recover returned, is how a call ends early whose context was cancelled, see [Pool.With].
// Such a panic must go on: panic with v again.
func IsUnwind(v any) bool {
	_, ok := v.(*cancelScope)
	return ok
}

// WithCancel returns a place within at in which calls end early when cancel is called, with the error that it is given,
// and the context of that place, which ends when at's does, too. It is for algorithms whose functions may
// fail; see par's ForErr. Cancel must be called when the place is not used any more.
//
// Cost: that of [context.WithCancelCause].
func WithCancel(at Place) (inner *View, ctx context.Context, cancel context.CancelCauseFunc) {
	inner = new(View)
	if at != nil {
		*inner = at.at()
	}
	if w := inner.w; w != nil && inner.ctx == nil && w.isMine() { // if not, calls at the place say so
		inner.ctx = w.Context()
	}
	if inner.ctx == nil {
		inner.ctx = context.Background()
	}
	inner.ctx, cancel = context.WithCancelCause(inner.ctx)
	inner.cancel = cancel
	return inner, inner.ctx, cancel
}

// Context returns the context of the call that the caller belongs to: that of the place, or of the innermost of places in
// one another; context.Background() if none of them has one.
func (w *Worker) Context() context.Context {
	if c := w.cancelScope; c != nil {
		return c.ctx
	}
	return context.Background()
}

// Stop ends the innermost call around the caller that was made at a place of [WithCancel], as that place's cancel function does, and
// unwinds the caller. The call returns err; other workers that compute in it unwind at their next fork, or end their chunk of a loop.
// So a search ends as soon as a worker has found what is looked for. The call has no other result, so what was found is kept elsewhere, and err may be
// one of the caller's own that says so. It panics if err is nil, or there is no such call: a call at the
// pool itself, a task and what [Worker.Uncancelled] calls are none of the call around them.
func (w *Worker) Stop(err error) {
	w.mustBeMine("Worker.Stop")
	if err == nil {
		panic(errors.New("pool: Worker.Stop was given a nil error; it is what the call returns"))
	}
	for c := w.cancelScope; c != nil; c = c.outer {
		if c.stopWith != nil {
			c.stopWith(err)
			c.cancel()
			w.cancelScope.check()
		}
	}
	panic(errors.New("pool: Worker.Stop was called outside of a call at a place that WithCancel made; make the call there"))
}

// Do runs the functions at the place, possibly at the same time, and returns when all are done. A panic in one of them continues here as
// a [*PanicError]. It is for callers that were given no worker; see [Worker.Do], and [Pool.Run] for places and errors. Without functions it says
// whether a call can begin at the place, for one that turns out to have nothing to do.
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
	v, err := enterPlace(at)
	if err != nil {
		return err
	}
	defer v.leavePlace(&err)
	defer inLoop()
	v.does(codeOf(fs[0]))
	v.w.Do(fs...)
	return nil
}

// Run calls f at the place, in the calling goroutine. See [Pool.Run].
func (b *View) Run(f func(w *Worker)) (err error) {
	if f == nil {
		return errNilFunc("View.Run")
	}
	v, err := enterPlace(b)
	if err != nil {
		return err
	}
	defer v.leavePlace(&err)
	v.does(codeOf(f))
	f(v.w)
	return nil
}

// visit is one blocking call at a place.
type visit struct {
	w      *Worker
	guest  bool          // w was made a guest for the visit
	call   *cancelScope  // if the place has a context
	inner  inner         // what w does besides, if it did not begin as a guest here and there is something to keep apart
	kept   bool          // inner is in use
	region *trace.Region // nil if no trace is on
}

// check says whether a call can begin at the place.
func check(at Place) (*Pool, error) {
	if at == nil {
		return nil, errNoPlace
	}
	b := at.at()
	p, w, ctx := b.p, b.w, b.ctx
	if w == nil || p == nil {
		if err := p.usable(); err != nil {
			return nil, err
		}
	}
	if ctx != nil && ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	if w != nil {
		if !w.isMine() {
			return p, errOthers("a call at a *Worker")
		}
		w.cancelScope.check()
	} else if p.closing.Load() {
		return p, p.refuse(ErrClosed)
	}
	return p, nil
}

func enterPlace(at Place) (v visit, err error) {
	if _, err := check(at); err != nil {
		return v, err
	}
	b := at.at()
	p, w, ctx := b.p, b.w, b.ctx
	if ctx != nil && ctx.Done() == nil {
		ctx = nil // it is never cancelled
	}
	var outer *cancelScope
	if v.w = w; w == nil {
		until := ctx
		if until == nil {
			until = context.Background()
		}
		if v.w, v.guest, err = p.admitGuest(until, b.try); err != nil {
			return v, err
		}
	} else {
		outer = w.cancelScope
	}
	if v.kept = ctx != nil || w == nil && !v.guest; v.kept {
		v.inner = v.w.beginInner()
	}
	if ctx != nil {
		v.call = newCancelScope(ctx, p, outer)
		v.call.stopWith = b.cancel
		v.w.cancelScope = v.call
	}
	v.region = region("heist: call")
	return v, nil
}

// leavePlace ends the visit. It must be deferred.
func (v *visit) leavePlace(err *error) {
	endRegion(v.region)
	if v.guest {
		defer v.w.pool.releaseGuest(v.w)
	}
	if c := v.call; c != nil && c.unwound.Load() {
		recovered := recover()
		v.end()
		*err = c.err()
		if recovered != nil && recovered != any(c) {
			panic(recovered)
		}
		if e := c.panicked.Load(); e != nil {
			panic(e)
		}
		return
	}
	v.end()
}

// does says in which function the visitor is.
func (v *visit) does(code uintptr) {
	if v.guest {
		v.w.code.set(code)
	}
}

// end goes back to what the worker did before. Until the last fork of the call is over it can
// still be cancelled, and thieves be told so.
func (v *visit) end() {
	if v.kept {
		v.w.endInner(v.inner)
	}
	if v.call != nil {
		v.call.finish()
	}
	if !v.guest {
		v.w.trim()
	}
}

// # For those who write algorithms

// Idle returns how many workers could help the caller now, one that was given w. Cost: a load.
func (w *Worker) Idle() int { return w.pool.idle() }

// Outside calls f, which is code of who called an algorithm, and no part of its work: what takes its results, say. With [WithCallers] a goroutine
// else may compute meanwhile, and what f itself calls at the pool needs no admission. Cost: nothing without it, and two locks with it.
func (w *Worker) Outside(f func()) {
	if !w.guest || w.pool.callers == 0 {
		f()
		return
	}
	w.mustBeMine("Worker.Outside")
	w.pool.leaves()
	defer w.pool.returns()
	f()
}

// Cancelled says whether the call that the caller belongs to need not go on, because its context has
// ended. [Worker.Checkpoint], forks and loops end it then. Cost: some loads.
func (w *Worker) Cancelled() bool { return w.cancelScope.ended() }

// Checkpoint ends the call that the caller belongs to if its context has ended: it unwinds, as a
// fork does. Now and then, it looks at the context itself. Cost: some loads, and a look at the clock.
func (w *Worker) Checkpoint() { w.cancelScope.look(w) }

// Uncancelled calls f, in which no fork ends early because the caller's call was cancelled: for
// something that must not be left half done. f may ask cancelled, on any worker, and hurry.
func (w *Worker) Uncancelled(f func(cancelled func() bool)) {
	in := w.beginInner()
	defer w.endInner(in)
	f(in.cancelScope.ended)
}
