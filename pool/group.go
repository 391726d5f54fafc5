package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrGoexit is the error of a function of a [Group] or a [Future] that did not return but
// ended by runtime.Goexit.
var ErrGoexit = errors.New("pool: the function called runtime.Goexit")

// Group is a set of tasks that somebody waits for. It has the manners of errgroup:
// the first error is the one that counts, and it cancels the group's context.
// Create it with [Pool.Group]. It is used once: Go, any number of times and from
// anywhere, then Wait.
type Group struct {
	pool   *Pool
	parent context.Context // constant
	cancel context.CancelCauseFunc
	limit  int // of tasks at once; negative for none; constant while tasks run

	pending atomic.Int64 // tasks that have not ended
	failed  atomic.Bool  // there was an error or a panic; whoever had it writes
	skipped atomic.Int64 // tasks that never began; whoever skips one writes
	ended   waiters      // those who wait until pending is 0
	room    waiters      // those who wait until it is below the limit

	mu       sync.Mutex
	err      error       // the first
	joins    bool        // errors of functions end nothing; constant while tasks run
	errs     []error     // these, in the order in which they came
	panicked *PanicError // the first
}

// Group returns a new group and a context that is derived from ctx and cancelled by
// the first error or panic of the group, and when Wait returns. After an error or a panic, and
// once ctx has ended, functions of the group that have not begun never do: see [Group.Skipped].
func (p *Pool) Group(ctx context.Context) (*Group, context.Context) {
	if err := p.usable(); err != nil {
		panic(err)
	}
	if ctx == nil {
		panic(errNilContext("Pool.Group"))
	}
	derived, cancel := context.WithCancelCause(ctx)
	return &Group{pool: p, parent: ctx, cancel: cancel, limit: -1}, derived
}

// Skipped returns how many functions of the group never began, because of an error or the
// end of the context. (An errgroup begins them all the same.) What a closed pool refused is
// not among them.
func (g *Group) Skipped() int { return int(g.skipped.Load()) }

// SetLimit limits how many tasks of the group there are at once, queued ones included, to
// n; negative is no limit. It panics while there are tasks.
func (g *Group) SetLimit(n int) {
	g.mustBeMade()
	if k := g.pending.Load(); k > 0 {
		panic(fmt.Errorf("pool: Group.SetLimit was called while the group has %d tasks; call it before Go", k))
	}
	g.limit = n
}

// JoinErrors has the group go on after an error: all functions run, and [Group.Wait] returns all of their errors, joined by
// [errors.Join] in the order in which they came. A panic, or the end of the context, ends it as ever. It panics while there are tasks.
func (g *Group) JoinErrors() {
	g.mustBeMade()
	if k := g.pending.Load(); k > 0 {
		panic(fmt.Errorf("pool: Group.JoinErrors was called while the group has %d tasks; call it before Go", k))
	}
	g.joins = true
}

// Go queues f to be run by the pool. If the group is at its limit it waits, and a caller
// inside a task lends its place meanwhile; without a limit it never blocks. If the
// pool is closed, f does not run and Wait returns [ErrClosed], unless there was an error
// before.
//
// Called inside a task of the pool it queues f on the task's worker, as [Worker.Go] does (with assembly; else with the pool).
//
// Cost: one allocation beyond the closure f.
func (g *Group) Go(f func() error) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.Go"))
		return
	}
	g.waitForRoom()
	g.submit(func(w *Worker) { g.run(w, codeOf(f), func(*Worker) error { return f() }) })
}

// GoWorker is Go for a function that forks: it is given the worker that runs it.
func (g *Group) GoWorker(f func(w *Worker) error) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.GoWorker"))
		return
	}
	g.waitForRoom()
	g.submit(func(w *Worker) { g.run(w, codeOf(f), f) })
}

// TryGo is Go, but does nothing and returns false where that would wait.
func (g *Group) TryGo(f func() error) bool {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.TryGo"))
		return true
	}
	if !g.enter() {
		return false
	}
	g.submit(func(w *Worker) { g.run(w, codeOf(f), func(*Worker) error { return f() }) })
	return true
}

func (g *Group) mustBeMade() {
	if g == nil || g.pool == nil {
		panic(errors.New("pool: the Group is nil, or was not made by Pool.Group"))
	}
}

// enter counts a task, if the limit allows one more.
func (g *Group) enter() bool {
	if g.limit < 0 {
		g.pending.Add(1)
		return true
	}
	for {
		n := g.pending.Load()
		if n >= int64(g.limit) {
			return false
		}
		if g.pending.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *Group) waitForRoom() {
	if !g.enter() {
		_ = g.room.wait(context.Background(), "room in a Group", g.enter)
	}
}

// submit queues a task that was counted.
func (g *Group) submit(f func(*Worker)) {
	var err error
	if w := g.pool.near(); w != nil {
		err = w.Go(f)
	} else {
		err = g.pool.Go(f)
	}
	if err != nil {
		g.fail(err)
		g.done()
	}
}

func (g *Group) run(w *Worker, code uintptr, f func(*Worker) error) {
	defer func() { w.woke = g.done() }()
	if g.parent.Err() != nil {
		g.fail(context.Cause(g.parent))
	}
	if g.failed.Load() {
		g.skipped.Add(1)
		w.pool.skipped.Add(1)
		return
	}
	in := w.begin()
	w.inside = &inside{g, code, w.inside}
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				g.panic(newPanicError(v))
			} else {
				g.note(ErrGoexit)
			}
		}
		w.inside = w.inside.outer
		w.end(in)
	}()
	err := f(w)
	returned = true
	if err != nil {
		g.note(err)
	}
}

// note is for the error of a function.
func (g *Group) note(err error) {
	if !g.joins {
		g.fail(err)
		return
	}
	g.mu.Lock()
	g.errs = append(g.errs, err)
	g.mu.Unlock()
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
		g.failed.Store(true)
		g.cancel(err)
	}
	g.mu.Unlock()
}

func (g *Group) panic(e *PanicError) {
	g.mu.Lock()
	if g.panicked == nil {
		g.panicked = e
		g.failed.Store(true)
		g.cancel(e)
	}
	g.mu.Unlock()
}

// done ends one task. The last one lets the waiters go, unless more tasks came
// meanwhile: the waiters may be theirs. It says whether it let any go.
func (g *Group) done() (woke bool) {
	n := g.pending.Add(-1)
	if g.limit >= 0 {
		woke = g.room.release(nil) // they look again; the limit is meant to be small
	}
	if n == 0 && g.ended.release(func() bool { return g.pending.Load() > 0 }) {
		woke = true
	}
	return woke
}

// Wait returns when all tasks of the group have ended, with the first error that one
// of them returned, or the cause of the context's end if that kept some from beginning. If one of
// them panicked, Wait panics with the first [*PanicError].
//
// Anybody may call it. A task that waits lends its place, so that groups in groups make progress
// even on a single worker. A function of the group itself cannot wait for it: it gets
// [ErrOwnWait].
func (g *Group) Wait() error {
	g.mustBeMade()
	if g.pool.isInside(g) {
		return ErrOwnWait
	}
	_ = g.ended.wait(context.Background(), "Group.Wait", func() bool { return g.pending.Load() == 0 })
	g.mu.Lock()
	err, panicked := g.err, g.panicked
	if len(g.errs) > 0 { // g.err is not a function's then
		err = errors.Join(append(g.errs[:len(g.errs):len(g.errs)], err)...)
	}
	g.mu.Unlock()
	g.cancel(err)
	if panicked != nil {
		panic(panicked)
	}
	return err
}
