package pool

import (
	"context"
	"fmt"
	"time"
)

// Within is [View.Within] for the pool.
func (p *Pool) Within(d time.Duration) *View { return (&View{p: p}).Within(d) }

// Within returns the place as one with a time limit: each blocking call at it, and each function of [Group.GoWorker], [GroupOf], [First] and [Async]
// that is made at it, has a context of its own that ends after d: [Worker.Context], also the one that First hands its functions. So it ends as
// one at a place of [Pool.With] would, and what it returns is [context.DeadlineExceeded]. For the function of a group that is an error as any
// other. The time that a function waits for its turn does not count; a stream, a sort or a loop is one call. The limit replaces one that
// the place has. A function that is handed no worker has no limit.
//
// Within panics if d is not positive. Cost: none, and that of [context.WithTimeout] for each call or function.
func (v *View) Within(d time.Duration) *View {
	if d <= 0 {
		panic(fmt.Errorf("pool: View.Within was given %v; it must be more than 0", d))
	}
	c := v.view()
	if c.ctx == nil {
		c.ctx = c.Context()
	}
	c.limit = d
	return &c
}

// within gives the call, which begins now, a time limit, and a context of its own for that.
func (c *cancelScope) within(d time.Duration) {
	c.ctx, c.expire = context.WithTimeout(c.ctx, d)
}
