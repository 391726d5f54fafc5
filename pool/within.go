package pool

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// timeLimit ends the calls and functions of a place that Within has made. All have the same time, so they end in the order in
// which they begin, and one timer is enough for all.
type timeLimit struct {
	d time.Duration

	mu          sync.Mutex
	first, last *limited    // in the order of their deadlines; under mu
	timer       *time.Timer // for the first one, or for one that came before it and has ended; nil at first; under mu
}

// limited is a call with a time limit, or a function of a group. Under its limit's mu, but for what is constant.
type limited struct {
	limit      *timeLimit   // constant
	scope      *cancelScope // constant
	deadline   time.Time    // constant
	prev, next *limited
	over       bool // it is in the list no longer
}

// Within is [View.Within] for the pool.
func (p *Pool) Within(d time.Duration) *View { return (&View{p: p}).Within(d) }

// Within returns the place as one with a time limit: each blocking call at it, and each function of [Group.GoWorker], [GroupOf], [First] and [Async]
// that is made at it, ends when it has run for d, as if the context of [Pool.With] had ended then. What it returns is [context.DeadlineExceeded],
// for the function of a group as well: that ends the group as any error does. The time that a function waits for its turn does not count; a
// stream, a sort or a loop is one call. The limit replaces one that the place has. [Worker.Context] ends with it, too, with [context.DeadlineExceeded] as
// its cause. A function that is handed no worker, and does not fork, ends when it returns.
//
// Within panics if d is not positive. Cost: an allocation, and some 100 ns for each call or function: all of them share a timer. A context of
// [context.WithTimeout] for each has a timer each.
func (v *View) Within(d time.Duration) *View {
	if d <= 0 {
		panic(fmt.Errorf("pool: View.Within was given %v; it must be more than 0", d))
	}
	c := v.view()
	if c.ctx == nil {
		c.ctx = c.Context()
	}
	c.limit = &timeLimit{d: d}
	return &c
}

// begin begins the time of a call, which ends it by leave. Nil is no limit.
func (l *timeLimit) begin(c *cancelScope) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := &limited{limit: l, scope: c, deadline: time.Now().Add(l.d), prev: l.last}
	c.limited = at
	if l.last = at; at.prev != nil {
		at.prev.next = at
		return
	}
	l.first = at
	switch {
	case l.timer == nil:
		l.timer = time.AfterFunc(l.d, l.end)
	default:
		l.timer.Reset(l.d)
	}
}

// leave is called when the call is over.
func (at *limited) leave() {
	if at == nil {
		return
	}
	at.limit.mu.Lock()
	defer at.limit.mu.Unlock()
	at.limit.remove(at)
}

// remove is under mu. The timer stays as it is: if there is another call, it will be set again then.
func (l *timeLimit) remove(at *limited) {
	if at.over {
		return
	}
	at.over = true
	if at.prev != nil {
		at.prev.next = at.next
	} else {
		l.first = at.next
	}
	if at.next != nil {
		at.next.prev = at.prev
	} else {
		l.last = at.prev
	}
}

// end ends the calls whose time is over. The timer calls it.
func (l *timeLimit) end() {
	l.mu.Lock()
	var ended *limited // linked by next
	for now := time.Now(); l.first != nil && !l.first.deadline.After(now); {
		at := l.first
		l.remove(at)
		at.next, ended = ended, at
	}
	if l.first != nil {
		l.timer.Reset(time.Until(l.first.deadline))
	}
	l.mu.Unlock()
	for ; ended != nil; ended = ended.next {
		ended.scope.stopWith(context.DeadlineExceeded)
	}
}
