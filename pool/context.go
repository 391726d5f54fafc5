package pool

import (
	"context"

	"github.com/seed53057037/heist/internal/causes"
)

// joinedContext is derived from a context, and also ends with another one, that of the call around. Its creator calls end.
type joinedContext struct {
	context.Context
	cancel context.CancelCauseFunc
	around context.Context // nil if there is none
	leave  func() bool     // stops the wait for around's end; nil if there is none
}

func joinContexts(ctx, around context.Context) *joinedContext {
	c := &joinedContext{around: around}
	c.Context, c.cancel = context.WithCancelCause(ctx)
	if around != nil {
		c.leave = context.AfterFunc(around, c.follow)
		_ = c.Err() // it may have ended already
	}
	return c
}

func (c *joinedContext) follow() { c.cancel(causes.Of(c.around)) }

// Err looks at the context around, too, whose goroutine may not have run yet.
func (c *joinedContext) Err() error {
	if c.around != nil && c.around.Err() != nil {
		c.follow()
	}
	return c.Context.Err()
}

// end ends the context, so that nothing stays in those that it follows. Nil has none.
func (c *joinedContext) end() {
	if c == nil {
		return
	}
	if c.leave != nil {
		c.leave()
	}
	c.cancel(nil)
}
