package pool

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed53057037/heist/internal/causes"
)

// ResultGroup is a [Group] whose functions have results. Create it with [GroupOf].
type ResultGroup[T any] struct {
	*Group // for its limit, JoinErrors and Skipped

	mu      sync.Mutex
	results []T // in the order of Go, which appends one for each function; the function sets it
}

// GroupOf is [NewGroup] for functions whose result is a T.
func GroupOf[T any](at Place) (*ResultGroup[T], context.Context) {
	g, ctx := groupAt("GroupOf", at)
	return &ResultGroup[T]{Group: g}, ctx
}

func (g *ResultGroup[T]) mustBeMade() {
	if g == nil || g.Group == nil {
		panic(errors.New("pool: the ResultGroup is nil, or was not made by GroupOf"))
	}
}

// Go is [Group.Go] for a function with a result.
//
// Cost: three allocations beyond the closure f, and an element of a slice.
func (g *ResultGroup[T]) Go(f func() (T, error)) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("ResultGroup.Go"))
		return
	}
	g.queue(g.enter("ResultGroup.Go"), taskFor(f), func(*Worker) (T, error) { return f() }, false)
}

// TryGo is [ResultGroup.Go], but where Go would wait it does nothing and returns false.
func (g *ResultGroup[T]) TryGo(f func() (T, error)) bool {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("ResultGroup.TryGo"))
		return true
	}
	entered, full := g.tryEnter()
	if !full {
		g.queue(entered, taskFor(f), func(*Worker) (T, error) { return f() }, false)
	}
	return !full
}

// GoWorker is [ResultGroup.Go] for a function that forks: f is given the worker that runs it.
func (g *ResultGroup[T]) GoWorker(f func(w *Worker) (T, error)) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("ResultGroup.GoWorker"))
		return
	}
	g.queue(g.enter("ResultGroup.GoWorker"), taskFor(f), f, true)
}

// queue is Group.submit for a function with a result, which becomes the next of the results. A function that has not entered
// the group has a result too, which stays zero.
func (g *ResultGroup[T]) queue(entered bool, of *task, f func(w *Worker) (T, error), forks bool) {
	g.mu.Lock()
	i := len(g.results)
	var none T
	g.results = append(g.results, none)
	g.mu.Unlock()
	if !entered {
		return
	}
	g.submit(of, func(w *Worker) {
		var v T
		call := func(w *Worker) (err error) {
			v, err = f(w)
			return err
		}
		keep := func(err error) error {
			if err == nil {
				g.mu.Lock()
				g.results[i] = v
				g.mu.Unlock()
			}
			return err
		}
		if !forks {
			g.run(w, &inside{of: g.Group, f: of}, func(w *Worker) error { return keep(call(w)) })
			return
		}
		c := g.newCall(of)
		g.run(w, &c.inside, func(w *Worker) error {
			_, err := g.runCall(w, c, call)
			return keep(err)
		})
	})
}

// Reset is [Group.Reset]. The group forgets its earlier results.
func (g *ResultGroup[T]) Reset(ctx context.Context) context.Context {
	if ctx == nil {
		panic(errNilContext("ResultGroup.Reset"))
	}
	g.mustBeMade()
	ctx = g.Group.Reset(ctx)
	g.results = nil
	return ctx
}

// Wait is [Group.Wait], and also returns the results, in the order in which the functions were added. The result of a
// function that failed or never began is zero; if Wait returns no error, there is no such function.
func (g *ResultGroup[T]) Wait() ([]T, error) {
	g.mustBeMade()
	err := g.Group.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clip(g.results), err
}

// First runs the functions at the place as those of a [Group], some at the same time, and returns the first result that
// comes without an error. As soon as it has this result, it cancels the context that the functions are given, in a call of
// which they run, so their forks unwind. Functions that have not begun then
// never begin, and First returns when those that have begun have ended. (So a panic in one of them reaches the caller, as
// a [*PanicError].) If all fail, First returns their errors, joined.
//
// If the place's context ends first, and a function was told so, First returns the cause, by the rule of [Pool.With]. What a
// function returns after it was told to stop is no result.
//
// A function that waits, for the network say, is noticed, and another one begins; [Worker.Block] saves the time until then. Java
// calls this invokeAny. Any goroutine may call it. Cost: that of a group.
func First[T any](at Place, fs ...func(ctx context.Context, w *Worker) (T, error)) (T, error) {
	var first T
	if len(fs) == 0 {
		return first, errors.New("pool: First was given no functions, so there is no result")
	}
	for _, f := range fs {
		if f == nil {
			return first, errNilFunc("First")
		}
	}
	v, err := placeFor("First", at)
	if err != nil {
		return first, err
	}
	defer v.joined.end()
	over, cancel := context.WithCancel(v.ctx)
	defer cancel()
	g, derived := NewGroup(&View{p: v.p, ctx: over, priority: v.priority, limit: v.limit})
	g.JoinErrors()
	var once sync.Once // decides between a result and the end of the place's context
	var ended error
	found := false
	for _, f := range fs {
		if !g.enter("First") {
			continue
		}
		g.submit(taskFor(f), func(w *Worker) {
			c := g.newCall(taskFor(f))
			g.run(w, &c.inside, func(w *Worker) error {
				var result T
				told, err := g.runCall(w, c, func(w *Worker) (err error) {
					ctx := derived
					if v.limit > 0 {
						ctx = w.Context()
					}
					result, err = f(ctx, w)
					return err
				})
				switch {
				case err == nil:
					once.Do(func() { first, found = result, true })
					cancel()
				case told:
					if err := causes.Of(v.ctx); err != nil {
						once.Do(func() { ended = err })
					}
				}
				return err
			})
		})
	}
	switch err = g.Wait(); {
	case found:
		return first, nil
	case ended != nil:
		return first, ended
	}
	return first, err
}
