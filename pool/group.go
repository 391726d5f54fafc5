package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrGoexit is the error of a group's function that did not return but ended by
// runtime.Goexit.
var ErrGoexit = errors.New("pool: a group's function called runtime.Goexit")

// Group is a set of tasks that somebody waits for. It has the manners of errgroup:
// the first error is the one that counts, and it cancels the group's context.
// Create it with [Pool.Group]. It is used once: Go, any number of times and from
// anywhere, then Wait.
type Group struct {
	pool   *Pool
	cancel context.CancelCauseFunc

	pending atomic.Int64 // tasks that have not ended

	mu       sync.Mutex
	err      error         // the first
	panicked *PanicError   // the first
	latches  []groupLatch  // workers that wait
	empty    chan struct{} // closed when pending comes to 0; nil if nobody waits
}

type groupLatch struct {
	latch *latch
	w     *Worker
}

// Group returns a new group and a context that is derived from ctx and cancelled by
// the first error or panic of the group, and when Wait returns.
func (p *Pool) Group(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{pool: p, cancel: cancel}, ctx
}

// Go queues f to be run by the pool. It never blocks. If the pool is closed, f does
// not run and Wait returns [ErrClosed], unless there was an error before.
//
// Cost: one allocation beyond the closure f.
func (g *Group) Go(f func() error) {
	if f == nil {
		g.fail(errNilFunc("Group.Go"))
		return
	}
	g.submit(func(w *Worker) { g.run(w, func(*Worker) error { return f() }) })
}

// GoWorker is Go for a function that forks: it is given the worker that runs it.
func (g *Group) GoWorker(f func(w *Worker) error) {
	if f == nil {
		g.fail(errNilFunc("Group.GoWorker"))
		return
	}
	g.submit(func(w *Worker) { g.run(w, f) })
}

func (g *Group) submit(f func(*Worker)) {
	g.pending.Add(1)
	if err := g.pool.Go(f); err != nil {
		g.fail(err)
		g.done()
	}
}

func (g *Group) run(w *Worker, f func(*Worker) error) {
	m := w.mark()
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				g.panic(newPanicError(v))
			} else {
				g.fail(ErrGoexit)
			}
		}
		w.unwind(m)
		g.done()
	}()
	err := f(w)
	returned = true
	if err != nil {
		g.fail(err)
	}
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
		g.cancel(err)
	}
	g.mu.Unlock()
}

func (g *Group) panic(e *PanicError) {
	g.mu.Lock()
	if g.panicked == nil {
		g.panicked = e
		g.cancel(e)
	}
	g.mu.Unlock()
}

// done ends one task. The last one lets the waiters go.
func (g *Group) done() {
	if g.pending.Add(-1) > 0 {
		return
	}
	g.mu.Lock()
	if g.pending.Load() > 0 { // tasks that came meanwhile; the waiters may be theirs
		g.mu.Unlock()
		return
	}
	latches, empty := g.latches, g.empty
	g.latches, g.empty = nil, nil
	g.mu.Unlock()
	for _, l := range latches {
		l.latch.complete(l.w)
	}
	if empty != nil {
		close(empty)
	}
}

// Wait returns when all tasks of the group have ended, with the first error that one
// of them returned. If one of them panicked, Wait panics with the first [*PanicError].
//
// Anybody may call it. Called inside a task it runs other tasks meanwhile, so that
// groups in groups make progress even on a single worker. A task must wait only for
// groups that it opened itself: what a worker runs while it waits stands on the waiter's
// stack, and would wait for ever for a group that the waiter belongs to.
func (g *Group) Wait() error {
	goroutine := goroutineID()
	g.pool.expose(goroutine)
	if w := g.pool.workerOf(goroutine); w != nil {
		g.waitOn(w)
	} else {
		g.waitOutside()
	}
	g.mu.Lock()
	err, panicked := g.err, g.panicked
	g.mu.Unlock()
	g.cancel(err)
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// waitOn and waitOutside enter the waiter under the lock that the last task takes
// after it has counted down: either the count is seen to be 0 here, or the waiter
// is seen there.

func (g *Group) waitOn(w *Worker) {
	l := new(latch)
	g.mu.Lock()
	waits := g.pending.Load() > 0
	if waits {
		g.latches = append(g.latches, groupLatch{l, w})
	}
	g.mu.Unlock()
	if waits {
		w.await(l, true)
	}
}

func (g *Group) waitOutside() {
	g.mu.Lock()
	waits := g.pending.Load() > 0
	if waits && g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	if waits {
		<-empty
	}
}
