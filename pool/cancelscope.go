package pool

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/causes"
)

// # Cancellation
//
// A call that was given a context can end before its work is done. Its loops stop
// between two chunks. Its forks stop by unwinding: the next fork panics with the call
// as the value, and the call's own deferred function recovers it and returns the
// context's error.
//
// A fork checks for cancellation only when it leaves its fast path. So the goroutine that finds that
// the context has ended first marks the call as cancelled and then raises an alarm at every fork stack
// of the pool (fork.go). That costs a worker that belongs to another call one slow fork, however long
// the cancelled call goes on.
//
// A goroutine of the context finds its end, but may have to wait for a P while the pool computes on all
// of them. So the call's own workers look, too, every 50 microseconds: between two chunks of a loop, at
// published forks, and before stolen ones.
//
// A stolen frame carries its call along, so that the thief belongs to the call while
// it runs the frame.
//
// # What a call returns
//
// A call that ends early has no result, and must not look as if it had one. **Told** is a call in which a function was told
// to stop: a fork, loop or Checkpoint unwound it, a loop left out items, or Cancelled said true. The rule, for all blocking
// calls: a told call never returns nil. It returns the cause of its context; or, if the context that has ended is that of
// a call around it, it unwinds to that one (visit.leave). A call whose context has ended, but that was not told, is whole,
// and returns nil.
//
// The goroutine that tells notes it first, in all calls from its own to the cancelled one, for it may be the only one that
// knows. All of these calls wait for it, so they see the note when they end.

// calls is what a worker knows of the calls that it is in. Owner only.
type calls struct {
	cancelScope *cancelScope // of the running function
	around      *cancelScope // of the code that made the innermost call, or that waits for the innermost future; see Call
	inPlace     int          // futures that the worker runs in place, on top of one another
	lookedAt    int64        // when it last looked at the call's context, in heist.Ticks
}

// cancelScope is a blocking call that can end early, because its context has ended. Nil is a call
// that cannot.
type cancelScope struct {
	pool      *Pool           // constant
	outer     *cancelScope    // the call in which it is nested; may be nil; constant
	ctx       context.Context // constant
	watched   atomic.Bool     // the first worker that watches writes
	stop      func() bool     // ends the watch, or nil; the same worker writes, before its part of the call ends
	state     atomic.Uint32
	told      atomic.Bool                   // a function of the call was told to stop; the worker that tells it writes
	stoppedBy atomic.Pointer[error]         // what Stop was given first; its caller writes
	inner     atomic.Pointer[joinedContext] // made when a function of the call asks for it
	kept      gravestEnding                 // see keep
	expire    context.CancelFunc            // ends ctx, if that is the call's own, because it has a time limit; nil otherwise; constant
}

const (
	callRuns = iota
	callCancelled
	callOver
)

// lookPeriod is how often a worker looks at the context of its call. A look takes some 20 ns.
const lookPeriod = 50 * time.Microsecond

func newCancelScope(ctx context.Context, p *Pool, outer *cancelScope, limit time.Duration) *cancelScope {
	c := &cancelScope{pool: p, outer: outer, ctx: ctx}
	if limit > 0 {
		c.within(limit)
	}
	return c
}

// watch has the ends of the call's context, and of those around it, mark the calls. A worker of the call may call it any number of times.
func (c *cancelScope) watch() {
	for ; c != nil; c = c.outer {
		switch {
		case c.watched.Load() || !c.watched.CompareAndSwap(false, true):
		case c.ctx.Err() != nil:
			c.cancel()
		case c.ctx.Done() != nil:
			c.stop = context.AfterFunc(c.ctx, c.cancel)
		}
	}
}

// context returns the context for functions of the call, which also ends with Stop, with the calls around, and with the call
// itself. Any of them may call it.
func (c *cancelScope) context() context.Context {
	if made := c.inner.Load(); made != nil {
		return made
	}
	var around context.Context
	if c.outer != nil {
		around = c.outer.context()
	}
	inner := joinContexts(c.ctx, around)
	if !c.inner.CompareAndSwap(nil, inner) {
		inner.end()
		return c.inner.Load()
	}
	if e := c.stoppedBy.Load(); e != nil { // stopWith looks in the opposite order
		inner.cancel(*e)
	}
	return inner
}

// stopWith ends the call with err.
func (c *cancelScope) stopWith(err error) {
	c.stoppedBy.CompareAndSwap(nil, &err)
	c.cancel() // first, so that who sees the end of the context unwinds to this call
	if inner := c.inner.Load(); inner != nil {
		inner.cancel(err)
	}
}

// cancel marks the call as cancelled. The goroutine that finds that the context has ended calls it.
func (c *cancelScope) cancel() {
	if c.state.CompareAndSwap(callRuns, callCancelled) {
		c.pool.workers.each((*Worker).alarm)
		c.pool.cancelled.Add(1)
	}
}

// finish ends the call, in the goroutine that made it.
func (c *cancelScope) finish() {
	if c.stop != nil {
		c.stop()
	}
	if inner := c.inner.Load(); inner != nil {
		inner.end()
	}
	if !c.state.CompareAndSwap(callRuns, callOver) {
		c.pool.cancelled.Add(-1)
	}
}

// err returns the error of a cancelled call: what Stop was given, or its context's. Its workers may have seen that the
// deadline has passed before the context's own timer got a P; it gets one as soon as the caller waits.
func (c *cancelScope) err() error {
	if e := c.stoppedBy.Load(); e != nil {
		return *e
	}
	if c.ctx.Err() == nil {
		c.pool.wait("the end of its context", nil, func() {
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Second): // the context is not the standard library's
			}
		})
	}
	return cmp.Or(causes.Of(c.ctx), context.DeadlineExceeded)
}

// stopped says whether the call, or one around it, was cancelled. Unlike tell it leaves no note.
func (c *cancelScope) stopped() bool { return c.outermost() != nil }

// ended looks at the contexts and then tells. If a context ended because it is derived from that of a call around it, both
// calls are marked then.
func (c *cancelScope) ended() bool { return c.tellEnded() != nil }

// tellEnded is ended, and returns the outermost call that was cancelled, or nil.
func (c *cancelScope) tellEnded() *cancelScope {
	for o := c; o != nil; o = o.outer {
		if o.ctx.Err() != nil {
			o.cancel()
		}
	}
	return c.tell()
}

// tell returns the outermost call that was cancelled, or nil. If there is one, the caller must stop.
func (c *cancelScope) tell() *cancelScope {
	last := c.outermost()
	if last == nil {
		return nil
	}
	for ; c != last.outer; c = c.outer {
		c.told.Store(true)
	}
	return last
}

// toldBy returns the outermost call that was cancelled if the call was told to stop, or nil.
func (c *cancelScope) toldBy() *cancelScope {
	if c == nil || !c.told.Load() {
		return nil
	}
	return c.tellEnded() // a call around may have been cancelled since, or its mark may be yet to come; the unwinding goes on to that one
}

// look polls now and then, and checks.
func (c *cancelScope) look(w *Worker) {
	if c == nil {
		return
	}
	c.poll(w, heist.Ticks())
	c.check()
}

// poll looks at the contexts if w has not done so for lookPeriod.
func (c *cancelScope) poll(w *Worker, now int64) {
	if c == nil || now-w.lookedAt < w.pool.ticks.look {
		return
	}
	w.lookedAt = now
	for ; c != nil; c = c.outer {
		deadline, ok := c.ctx.Deadline()
		if c.ctx.Err() != nil || ok && !time.Now().Before(deadline) {
			c.cancel()
		}
	}
}

// check unwinds the caller up to the outermost call that was cancelled, if there is one.
func (c *cancelScope) check() {
	if last := c.tell(); last != nil {
		panic(last)
	}
}

// obey unwinds the caller, as check does, if its call was told to stop. A call that was not is whole.
func (c *cancelScope) obey() {
	if last := c.toldBy(); last != nil {
		panic(last)
	}
}

// encloses says whether v, which recover returned, unwinds this call or one inside it. An unwinding that begins before this
// call is cancelled leads to a call inside it, and that one is over when the unwinding arrives here.
func (c *cancelScope) encloses(v any) bool {
	inner, _ := v.(*cancelScope)
	for ; inner != nil; inner = inner.outer {
		if inner == c {
			return true
		}
	}
	return false
}

// outermost returns the outermost call that was cancelled, or nil.
func (c *cancelScope) outermost() (last *cancelScope) {
	for ; c != nil; c = c.outer {
		if c.state.Load() == callCancelled {
			last = c
		}
	}
	return last
}

// keep takes an ending that has no waiter any more, because the waiter unwinds. A panic or a runtime.Goexit is not lost: it
// continues where the unwinding ends.
func (c *cancelScope) keep(e ending) {
	if last := c.outermost(); last != nil && gravity(e) > 0 {
		last.kept.note(e)
	}
}
