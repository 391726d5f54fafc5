package pool

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
)

// # Cancellation
//
// A call that was given a context can end before its work is done. Its loops stop
// between two chunks. Its forks stop by unwinding: the next fork panics with the call
// as the value, and the call's own deferred function recovers it and returns the
// context's error.
//
// A fork looks for that only when it leaves its fast path. So the worker that finds that the context has
// ended first marks the call as cancelled and then raises an alarm at every fork stack of the
// pool (fork.go). It costs who belongs to another call one fork, however long the cancelled call goes on.
//
// The context's end is found by a goroutine of the context, which may have to wait for a P while
// the pool computes on all of them, and therefore by the call's own workers too: between two
// chunks of a loop, at published forks, and before stolen ones, they look every 50 microseconds.
//
// A stolen frame carries its call along, so that the thief belongs to the call while
// it runs the frame.

// cancelScope is a blocking cancelScope that may be given up before its end, because its context
// was. Nil is a cancelScope that may not.
type cancelScope struct {
	pool     *Pool                   // constant
	outer    *cancelScope            // constant: what it is nested in; may be nil
	ctx      context.Context         // constant
	stopWith context.CancelCauseFunc // of ctx, if the place is one of WithCancel; constant
	stop     func() bool             // of the context's goroutine; constant
	state    atomic.Uint32
	unwound  atomic.Bool                // a worker that unwinds writes
	panicked atomic.Pointer[PanicError] // see keep
}

const (
	callRuns = iota
	callCancelled
	callOver
)

// lookPeriod is how often a worker looks at the context of its call. A look takes some 20 ns.
const lookPeriod = 50 * time.Microsecond

func newCancelScope(ctx context.Context, p *Pool, outer *cancelScope) *cancelScope {
	c := &cancelScope{pool: p, outer: outer, ctx: ctx}
	c.stop = context.AfterFunc(ctx, c.cancel)
	return c
}

// cancel is for the goroutine that finds that the context has ended.
func (c *cancelScope) cancel() {
	if c.state.CompareAndSwap(callRuns, callCancelled) {
		c.pool.workers.each((*Worker).alarm)
		c.pool.cancelled.Add(1)
	}
}

// finish is for the goroutine that made the call, at its end.
func (c *cancelScope) finish() {
	c.stop()
	if !c.state.CompareAndSwap(callRuns, callOver) {
		c.pool.cancelled.Add(-1)
	}
}

// err is what a cancelled call returns. Its workers may have seen that the deadline has passed
// before the context's own timer has had a P, which it has as soon as the caller waits.
func (c *cancelScope) err() error {
	if c.ctx.Err() == nil {
		c.pool.wait("the end of its context", nil, func() {
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Second): // the context is not the standard library's
			}
		})
	}
	return cmp.Or(context.Cause(c.ctx), context.DeadlineExceeded)
}

// stopped says whether what belongs to the call need not go on.
func (c *cancelScope) stopped() bool {
	for ; c != nil; c = c.outer {
		if c.state.Load() == callCancelled {
			return true
		}
	}
	return false
}

// ended is stopped for who runs no loop or fork that would look at the contexts.
func (c *cancelScope) ended() bool {
	for ; c != nil; c = c.outer {
		if c.ctx.Err() != nil {
			c.cancel()
		}
		if c.state.Load() == callCancelled {
			return true
		}
	}
	return false
}

// look is check, and now and then a look at the contexts first.
func (c *cancelScope) look(w *Worker) {
	if c == nil {
		return
	}
	c.poll(w, heist.Ticks())
	c.check()
}

// poll looks at the contexts if w has not for a while.
func (c *cancelScope) poll(w *Worker, now int64) {
	if c == nil || now-w.lookedAt < w.pool.ticksLook {
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

// check unwinds the caller if its call was cancelled, up to the outermost that was.
func (c *cancelScope) check() {
	if last := c.outermost(); last != nil {
		last.unwound.Store(true)
		panic(last)
	}
}

// outermost returns the outermost call that was cancelled, nil if none was.
func (c *cancelScope) outermost() (last *cancelScope) {
	for ; c != nil; c = c.outer {
		if c.state.Load() == callCancelled {
			last = c
		}
	}
	return last
}

// keep is for an ending that nobody waits for any more, because who would have waited unwinds. A panic is not lost by that: it
// continues where the unwinding ends.
func (c *cancelScope) keep(e ending) {
	if e, ok := e.(*PanicError); ok {
		if last := c.outermost(); last != nil {
			last.panicked.CompareAndSwap(nil, e)
		}
	}
}
