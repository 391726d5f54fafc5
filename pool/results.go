package pool

import (
	"context"
	"errors"
	"sync"
)

// ResultGroup is a [Group] whose functions have results. Create it with [GroupOf].
type ResultGroup[T any] struct {
	*Group // for its limit, JoinErrors and Skipped

	mu      sync.Mutex
	results []T // in the order of Go; who adds a function appends, and that function sets its own
}

// GroupOf returns a new group of functions that have a T as their result, with the manners of [Pool.Group].
func GroupOf[T any](p *Pool, ctx context.Context) (*ResultGroup[T], context.Context) {
	g, derived := p.Group(ctx)
	return &ResultGroup[T]{Group: g}, derived
}

// Go is [Group.Go] for a function with a result.
//
// Cost: three allocations beyond the closure f, and a place in a slice.
func (g *ResultGroup[T]) Go(f func() (T, error)) {
	if f == nil {
		g.Group.Go(nil)
		return
	}
	g.mustBeMade()
	if g.waitForRoom() {
		g.queue(taskFor(f), func(*Worker) (T, error) { return f() })
	}
}

// TryGo is Go, but does nothing and returns false where that would wait.
func (g *ResultGroup[T]) TryGo(f func() (T, error)) bool {
	if f == nil {
		return g.Group.TryGo(nil)
	}
	g.mustBeMade()
	if !g.tryReserve() {
		return false
	}
	g.queue(taskFor(f), func(*Worker) (T, error) { return f() })
	return true
}

// GoWorker is Go for a function that forks: it is given the worker that runs it.
func (g *ResultGroup[T]) GoWorker(f func(w *Worker) (T, error)) {
	if f == nil {
		g.Group.GoWorker(nil)
		return
	}
	g.mustBeMade()
	if g.waitForRoom() {
		g.queue(taskFor(f), f)
	}
}

// queue is Group.submit for a function, which has the next result.
func (g *ResultGroup[T]) queue(of *task, f func(w *Worker) (T, error)) {
	g.mu.Lock()
	i := len(g.results)
	var none T
	g.results = append(g.results, none)
	g.mu.Unlock()
	g.submit(of, func(w *Worker) {
		g.run(w, of, func(w *Worker) error {
			v, err := f(w)
			if err == nil {
				g.mu.Lock()
				g.results[i] = v
				g.mu.Unlock()
			}
			return err
		})
	})
}

// Reset is [Group.Reset]. The results of before are no longer the group's.
func (g *ResultGroup[T]) Reset(ctx context.Context) context.Context {
	ctx = g.Group.Reset(ctx)
	g.results = nil
	return ctx
}

// Wait is [Group.Wait], and returns the results in the order in which the functions were added. Those of functions that failed, or
// never began, are zero; without an error there are none of these.
func (g *ResultGroup[T]) Wait() ([]T, error) {
	err := g.Group.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.results, err
}

// First runs the functions in the pool, some at the same time, and returns the first result that comes without an error. Then it cancels
// the context that the others are given; those that have not begun never do, and it returns when those that have begun have ended. (So a
// panic of one of these is no one else's; it continues in the caller as a [*PanicError].) If all fail, it returns their errors, joined.
//
// A function that waits for the network, say, does so in [Worker.Block], or it keeps others from beginning. It is what Java
// calls invokeAny. Anybody may call it. Cost: that of a group.
func First[T any](p *Pool, ctx context.Context, fs ...func(ctx context.Context, w *Worker) (T, error)) (T, error) {
	var first T
	if len(fs) == 0 {
		return first, errors.New("pool: First was given no functions, so there is no result")
	}
	for _, f := range fs {
		if f == nil {
			return first, errNilFunc("First")
		}
	}
	if err := p.usable(); err != nil {
		return first, err
	}
	if ctx == nil {
		return first, errNilContext("First")
	}
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	g, derived := p.Group(over)
	g.JoinErrors()
	var once sync.Once
	found := false
	for _, f := range fs {
		g.GoWorker(func(w *Worker) error {
			v, err := f(derived, w)
			if err == nil {
				once.Do(func() { first, found = v, true })
				cancel()
			}
			return err
		})
	}
	err := g.Wait()
	if found {
		return first, nil
	}
	return first, err
}
