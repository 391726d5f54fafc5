// Package errgroup has the interface of golang.org/x/sync/errgroup, and runs the functions of its groups on the workers of
// [pool.Default]. A program changes its import line and nothing else.
//
// No more functions compute at a time than the pool has workers, but for those that come back from a wait, and they start sooner than goroutines do. A function
// that waits for a slot of a group, or in Wait, lends its place to another one, so groups in groups make
// progress on any number of workers.
//
// Everything else is as in the original: all functions begin, after an error too; a panic ends the process; a
// function that ends by runtime.Goexit has returned no error. [pool.Group] is stricter: it skips functions that have not
// begun when there is an error, and Wait passes panics on. That is why this package is made of tasks and not of such groups.
//
// It cannot be used in a bubble of testing/synctest, to which the process's pool does not belong.
package errgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed53057037/heist/pool"
)

// Group is a set of functions that are parts of one task. The zero Group has no limit and cancels nothing. A Group must
// not be copied after its first use.
type Group struct {
	functions sync.WaitGroup // that have not ended
	slots     chan struct{}  // holds an entry for each of them; nil without a limit
	cancel    func(error)    // nil for a zero Group
	first     sync.Once      // the first error
	err       error          // written in first, and read when all functions have ended
}

// WithContext returns a new Group and a context that is derived from ctx. The first error of a function cancels that
// context, with itself as the cause, and so does Wait when it returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel}, ctx
}

// Go has f called by a worker. If the group is at its limit, Go first waits until one of its functions has ended.
// The first call must come before Wait.
func (g *Group) Go(f func() error) {
	mustBeGiven(f, "Go")
	if g.slots != nil {
		select {
		case g.slots <- struct{}{}:
		default:
			pool.Default().Block(func() { g.slots <- struct{}{} })
		}
	}
	g.start(f)
}

// TryGo is Go, but at the limit it does nothing and returns false.
func (g *Group) TryGo(f func() error) bool {
	mustBeGiven(f, "TryGo")
	if g.slots != nil {
		select {
		case g.slots <- struct{}{}:
		default:
			return false
		}
	}
	g.start(f)
	return true
}

// mustBeGiven panics for a nil function. The original does when a goroutine calls it, which ends the process.
func mustBeGiven(f func() error, method string) {
	if f == nil {
		panic(errors.New("errgroup: Group." + method + " was given a nil function"))
	}
}

// start has f called by a worker. There is a slot for f.
func (g *Group) start(f func() error) {
	g.functions.Add(1)
	err := pool.Default().Go(func(w *pool.Worker) {
		w.ShowAs(f)
		defer g.end()
		if err := f(); err != nil {
			g.fail(err)
		}
	})
	if err != nil { // that pool cannot be closed
		panic(err)
	}
}

func (g *Group) end() {
	if g.slots != nil {
		<-g.slots
	}
	g.functions.Done()
}

func (g *Group) fail(err error) {
	g.first.Do(func() {
		g.err = err
		if g.cancel != nil {
			g.cancel(err)
		}
	})
}

// Wait returns when all functions of the group have ended, and then their first error.
func (g *Group) Wait() error {
	pool.Default().Block(g.functions.Wait)
	if g.cancel != nil {
		g.cancel(g.err)
	}
	return g.err
}

// SetLimit lets at most n functions of the group be active at a time: begun or queued, and not ended. A negative n is no
// limit, and with 0 no function can be added. As in x/sync, it must not be called while functions of the group are active: if the group has a limit, it
// panics then.
func (g *Group) SetLimit(n int) {
	if n < 0 {
		g.slots = nil
		return
	}
	if active := len(g.slots); active > 0 {
		panic(fmt.Errorf("errgroup: modify limit while %d goroutines in the group are still active", active))
	}
	g.slots = make(chan struct{}, n)
}
