package par

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lazyContext is the context of a call, for the user's functions: it ends with the one around it, or earlier. A context of the standard library takes a
// fifth of a microsecond, so there is one only when the functions, or what they call, ask for more than whether it has ended, or when the call forks.
type lazyContext struct {
	outer context.Context // constant

	mu    sync.Mutex
	over  atomic.Bool                 // it has ended, and err is set; written under mu, once
	made  atomic.Pointer[madeContext] // nil until there is one; written under mu, once
	err   error                       // what Err returns
	cause error                       // why it has ended, unless with the one around it; under mu
}

// madeContext is a context of the standard library.
type madeContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

func (c *lazyContext) make() context.Context {
	if made := c.made.Load(); made != nil {
		return made
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.made.Load()
	if made == nil {
		made = new(madeContext)
		over, outer := c.over.Load(), c.outer
		if over && c.cause != nil { // the one around it may have ended later, with another error
			outer = context.WithoutCancel(outer)
		}
		if made.Context, made.cancel = context.WithCancelCause(outer); over {
			made.cancel(c.cause)
		}
		c.made.Store(made)
	}
	return made
}

// end ends the context, unless it has ended.
func (c *lazyContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(cause)
}

func (c *lazyContext) endLocked(cause error) {
	if c.over.Load() {
		return
	}
	if c.err = c.outer.Err(); c.err == nil {
		c.err, c.cause = context.Canceled, cause
	}
	c.over.Store(true)
	if made := c.made.Load(); made != nil {
		made.cancel(c.cause)
	}
}

func (c *lazyContext) Done() <-chan struct{} { return c.make().Done() }

func (c *lazyContext) Value(key any) any { return c.make().Value(key) }

func (c *lazyContext) Deadline() (deadline time.Time, ok bool) { return c.outer.Deadline() }

func (c *lazyContext) Err() error {
	if made := c.made.Load(); made != nil {
		return made.Err()
	}
	if !c.over.Load() {
		if c.outer.Err() == nil {
			return nil
		}
		c.end(context.Canceled) // with the one around it, so whatever comes later changes nothing
	}
	return c.err
}

// String is for fmt, which would read what others write.
func (c *lazyContext) String() string { return "the context of a call of package par" }
