package pool

import (
	"context"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/policy"
)

// # Cancellation
//
// A call that was given a context can end before its work is done. Its loops stop
// between two chunks. Its forks stop by unwinding: the next fork panics with the call
// as the value, and the call's own deferred function recovers it and returns the
// context's error.
//
// Who forks looks for that only when it leaves its fast path. So that it does, the
// context's goroutine counts the cancelled call in the state of sleep, in a place that makes
// the whole word positive, as if somebody were hungry, until the call is over.
//
// A stolen frame carries its call along, so that the thief belongs to the call while
// it runs the frame.

// call is a blocking call that may be given up before its end, because its context
// was. Nil is a call that may not.
type call struct {
	outer   *call           // constant: what it is nested in; may be nil
	ctx     context.Context // constant
	state   atomic.Uint32
	unwound atomic.Bool // whoever unwinds writes
}

const (
	callRuns = iota
	callCancelled
	callOver
)

// cancel is for the context's goroutine.
func (c *call) cancel(p *Pool) {
	p.sleep.Add(policy.OneCancelled) // before finish can find it cancelled
	if !c.state.CompareAndSwap(callRuns, callCancelled) {
		p.sleep.Add(-policy.OneCancelled)
	}
}

// finish is for whoever made the call, at its end.
func (c *call) finish(p *Pool) {
	if !c.state.CompareAndSwap(callRuns, callOver) {
		p.sleep.Add(-policy.OneCancelled)
	}
}

// stopped says whether what belongs to the call need not go on.
func (c *call) stopped() bool {
	for ; c != nil; c = c.outer {
		if c.state.Load() == callCancelled {
			return true
		}
	}
	return false
}

// check unwinds the caller if its call was cancelled, up to the outermost that was.
func (c *call) check() {
	if !c.stopped() {
		return
	}
	var last *call
	for ; c != nil; c = c.outer {
		if c.state.Load() == callCancelled {
			last = c
		}
	}
	last.unwound.Store(true)
	panic(last)
}
