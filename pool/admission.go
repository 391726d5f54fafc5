package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/core"
)

// # Admission
//
// [WithCallers] bounds how many guests compute at a time, by turns (turns.go). Heist does not see that a guest waits for
// a coroutine of iter.Pull; while such a coroutine waits, a caller is let in each millisecond beside the bound
// (coroutine.go).
//
// A short loop needs admission too, so it does not run in its caller alone before it comes to the pool (probe).

// admission lets guests in. Its fields are under mu, and unused without WithCallers.
type admission struct {
	mu                        sync.Mutex
	core.Turns[chan struct{}] // of guests; the channels of callers that wait are closed when they are let in
}

// WithCallers bounds to n how many goroutines from outside compute in the pool at a time, see [Pool.Run]. It applies
// to all calls that take the pool as their place, short loops included, but not to those with so little work that they
// never come to the pool, such as a sort of some elements. Other callers wait, in their order, until a guest leaves or
// waits for something that heist knows of; or until the place's context ends, whose cause they return. (A time of [View.Within] begins only
// after that. While a coroutine of iter.Pull waits, another caller is let in each millisecond: a guest may wait for the coroutine, unseen.) Calls at
// [Pool.Try] and [View.Try] return [ErrFull] instead. Calls inside the pool's tasks, bodies and forks need no
// admission. By default there is no bound.
func WithCallers(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("pool: WithCallers(%d): the bound must be at least 1; leave it out for none", n)
		}
		c.callers = n
		c.ask("WithCallers", n)
		return nil
	}
}

// admit returns nil when the caller may compute as a guest, or an error that says why it may not.
func (p *Pool) admit(ctx context.Context, try bool) error {
	a := &p.admission
	a.mu.Lock()
	if a.Take() {
		a.mu.Unlock()
		return nil
	}
	if try {
		a.mu.Unlock()
		return p.turnAway(ErrFull)
	}
	turn, refuses := make(chan struct{}), p.refuses
	if p.inside() { // a task that waits for something computes as a guest meanwhile
		refuses = nil
	}
	a.Waiting = append(a.Waiting, turn)
	a.mu.Unlock()
	p.core.MayWait()                                                              // the guests may wait for this one
	p.wait("a pool that has as many callers as WithCallers allows", nil, func() { // the caller may be a task of another pool
		select {
		case <-turn:
		case <-ctx.Done():
		case <-refuses:
		}
	})
	switch {
	case p.isClosed():
		p.notAdmitted(turn)
		return p.turnAway(ErrClosed)
	case ctx.Err() != nil:
		p.notAdmitted(turn)
		return causes.Of(ctx)
	}
	return nil
}

// admitBeside admits the first caller that waits, beside those that compute.
func (p *Pool) admitBeside() {
	if p.callers == 0 {
		return
	}
	a := &p.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if turn, ok := a.Next(); ok {
		close(turn)
	}
}

func (p *Pool) hasCallersWaiting() bool {
	if p.callers == 0 {
		return false
	}
	p.admission.mu.Lock()
	defer p.admission.mu.Unlock()
	return len(p.admission.Waiting) > 0
}

// notAdmitted is called by a caller that gives up, and may have been let in just now.
func (p *Pool) notAdmitted(turn chan struct{}) {
	a := &p.admission
	a.mu.Lock()
	i := slices.Index(a.Waiting, turn)
	if i >= 0 {
		a.Waiting = slices.Delete(a.Waiting, i, i+1)
	}
	a.mu.Unlock()
	if i < 0 {
		p.exitAdmission()
	}
}

// exitAdmission is called for a guest that computes no longer.
func (p *Pool) exitAdmission() {
	if p.callers == 0 {
		return
	}
	a := &p.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if turn, ok := a.End(); ok {
		close(turn)
	}
}

// reenterAdmission is called for a guest that computes again.
func (p *Pool) reenterAdmission() {
	if p.callers == 0 {
		return
	}
	p.admission.mu.Lock()
	p.admission.Taken++
	p.admission.mu.Unlock()
}

// Try is [View.Try] for the pool.
func (p *Pool) Try() *View { return &View{p: p, try: true} }

// Try returns the place as one whose calls return [ErrFull] where they would wait for other callers, see
// [WithCallers].
func (v *View) Try() *View {
	if v == nil {
		return nil
	}
	c := *v
	c.try = true
	return &c
}
