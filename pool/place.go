package pool

import "context"

// Place is where a blocking call computes: a [*Pool], whose guest the calling
// goroutine becomes for the time, or a [*Worker] that the caller was given. With
// [Pool.With] or [Worker.With] the call can be cancelled.
type Place interface {
	place() (p *Pool, w *Worker, ctx context.Context)
}

func (p *Pool) place() (*Pool, *Worker, context.Context)   { return p, nil, nil }
func (w *Worker) place() (*Pool, *Worker, context.Context) { return w.pool, w, nil }

// Bound is a place with a context. Create it with [Pool.With] or [Worker.With]; it is
// used any number of times.
type Bound struct {
	p   *Pool
	w   *Worker
	ctx context.Context
}

func (b *Bound) place() (*Pool, *Worker, context.Context) { return b.p, b.w, b.ctx }

// With returns the pool as a place in which calls end early, with ctx's error, when
// ctx is cancelled. What was already begun then is finished: the chunk of a loop, the
// functions of a join up to their next fork. A fork unwinds by a panic that the call
// recovers again; functions that recover panics should let those pass that they do
// not know.
func (p *Pool) With(ctx context.Context) *Bound { return &Bound{p: p, ctx: ctx} }

// With is [Pool.With] for a caller that was given w. A call that is nested in another
// one ends with that one, too.
func (w *Worker) With(ctx context.Context) *Bound { return &Bound{p: w.pool, w: w, ctx: ctx} }

// Run calls f at the place, in the calling goroutine. See [Pool.Run].
func (b *Bound) Run(f func(w *Worker)) (err error) {
	if f == nil {
		return errNilFunc("Bound.Run")
	}
	v, err := enter(b)
	if err != nil {
		return err
	}
	defer v.leave(&err)
	f(v.w)
	return nil
}

// visit is one blocking call at a place.
type visit struct {
	w     *Worker
	guest bool   // w is a slot that was taken for the visit
	host  *inner // of a visit by who needed a slot and had a place
	call  *call
	inner inner       // of a visit with a call
	stop  func() bool // of the context
}

// check says whether a call can begin at the place.
func check(at Place) (*Pool, error) {
	if at == nil {
		return nil, errNoPlace
	}
	p, w, ctx := at.place()
	if ctx != nil && ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	if w != nil {
		w.call.check()
	} else if p.closing.Load() {
		return p, ErrClosed
	}
	return p, nil
}

func enter(at Place) (v visit, err error) {
	if _, err := check(at); err != nil {
		return v, err
	}
	p, w, ctx := at.place()
	if ctx != nil && ctx.Done() == nil {
		ctx = nil // it is never cancelled
	}
	v.w = w
	if w == nil {
		wait := ctx
		if wait == nil {
			wait = context.Background()
		}
		w, has, err := p.enter(wait)
		if err != nil {
			return v, err
		}
		v.w, v.guest = w, !has
		if has {
			in := w.begin()
			v.host = &in
		}
	}
	if ctx != nil {
		v.begin(ctx)
	}
	return v, nil
}

// leave ends the visit. It must be deferred.
func (v *visit) leave(err *error) {
	if v.guest {
		defer v.w.pool.leave(v.w)
	}
	if v.host != nil {
		defer v.w.end(*v.host)
	}
	switch c := v.call; {
	case c == nil:
	case c.unwound.Load():
		recovered := recover()
		v.end()
		*err = context.Cause(c.ctx)
		if recovered != nil && recovered != any(c) {
			panic(recovered)
		}
	default:
		v.end()
	}
}

// begin makes what the worker does from here on part of a call.
func (v *visit) begin(ctx context.Context) {
	w := v.w
	v.inner = w.begin()
	c := &call{outer: v.inner.call, ctx: ctx}
	v.call = c
	v.stop = context.AfterFunc(ctx, func() { c.cancel(w.pool) })
	w.call = c
}

// end goes back to the outer call. Until the last fork of this one is over the call can
// still be cancelled, and thieves be told so.
func (v *visit) end() {
	v.w.end(v.inner)
	v.stop()
	v.call.finish(v.w.pool)
}
