package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrGoexit is the error of a function of a [Group] or a [Future] that did not return but
// ended by runtime.Goexit.
var ErrGoexit = errors.New("pool: the function called runtime.Goexit")

// # Groups
//
// A group that has AtMost is a part of a pool: no more than so many of its functions compute at a time. Each of these has a turn. Who
// has none waits in the group's backlog, and not in the pool's queues. A function that ends gives its turn to the first of the
// backlog, and so does one that waits, for it may wait for that one; when its wait is over it goes on at once, and until others have
// ended there may be more than so many. The law of turns: as long as the backlog is not empty, as many functions have turns as may, and each
// of these is in one of the pool's queues, or runs. So the pool has not come to rest before the backlog is empty, and Close waits for it.

// Group is a set of tasks that a goroutine waits for. It has the manners of errgroup:
// the first error is the one that counts, and it cancels the group's context.
// Create it with [Pool.Group]. Call Go, any number of times and from
// anywhere, then Wait; then [Group.Reset] makes it ready for more.
type Group struct {
	pool   *Pool
	parent context.Context // constant while tasks run, like cancel
	cancel context.CancelCauseFunc
	limit  int // of tasks at once; negative for none; constant while tasks run
	turns  int // of tasks that compute at once; 0 for any number; constant while tasks run

	tasks   atomic.Int64 // that have not ended, begun times those that have begun, and abandoned
	failed  atomic.Bool  // there was an error or a panic; its goroutine writes
	skipped atomic.Int64 // tasks that never began; the worker that skips one writes
	ended   waiters      // those who wait until there are no tasks
	room    waiters      // those who wait until there are fewer than the limit

	mu       sync.Mutex
	err      error           // the first
	joins    bool            // errors of functions end nothing; constant while tasks run
	errs     []error         // these, in the order in which they came
	panicked *PanicError     // the first
	busy     int             // tasks that have a turn
	backlog  []func(*Worker) // tasks that wait for one, in their order
}

const (
	begun     = 1 << 32 // what a task that has begun counts besides
	abandoned = 1 << 62 // is set when the pool was aborted, and no other task begins
)

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

// Queued returns how many functions of the group have not begun. Cost: a load.
func (g *Group) Queued() int {
	n := g.tasks.Load()
	return int(n%begun - n%abandoned/begun)
}

// Running returns how many functions of the group have begun and not ended, those that wait included. Cost: a load.
func (g *Group) Running() int { return int(g.tasks.Load() % abandoned / begun) }

// SetLimit limits how many tasks of the group there are at once, queued ones included, to
// n; negative is no limit. With 0 there can be none, so Go waits for the end of the context. It panics while there are tasks.
func (g *Group) SetLimit(n int) {
	g.mustBeEmpty("SetLimit")
	g.limit = n
}

// AtMost makes the group a part of the pool: of its functions, n compute at a time. The others wait in the group, in their order, and nobody
// waits in Go for that. A function that waits for something that heist knows of, in [Worker.Block] for instance, does not count meanwhile, see
// [WithCallers]. So it bounds what computes; what is held while one waits, such as files and connections, [Group.SetLimit] bounds, or the
// window of par's Stream. It panics if n is less than 1, and while there are tasks.
//
// A function whose wait is over goes on at once, beside n others perhaps, and the pool's workers may begin with several that have a turn in any order. So n = 1
// gives functions that do not wait one after the other, in the order of Go, but it is no lock across a wait. Nobody knows whose task waits for a coroutine
// of iter.Pull, so that one counts. What waits in the group when the pool is aborted never begins, and is not among what [Pool.Abort] returns.
//
// Cost: two locks for each function.
func (g *Group) AtMost(n int) {
	g.mustBeEmpty("AtMost")
	if n < 1 {
		panic(fmt.Errorf("pool: Group.AtMost was given %d; it must be at least 1", n))
	}
	g.turns = n
}

// Reset makes a group that has come to its end as it was when it was new, but for SetLimit, AtMost and JoinErrors, which stay, and returns
// its next context, as [Pool.Group] does. It panics while there are tasks. Go and Wait must not be called meanwhile.
func (g *Group) Reset(ctx context.Context) context.Context {
	g.mustBeEmpty("Reset")
	if ctx == nil {
		panic(errNilContext("Group.Reset"))
	}
	g.cancel(nil)
	derived, cancel := context.WithCancelCause(ctx)
	g.parent, g.cancel = ctx, cancel
	g.failed.Store(false)
	g.skipped.Store(0)
	g.err, g.errs, g.panicked = nil, nil, nil
	return derived
}

// JoinErrors has the group go on after an error: all functions run, and [Group.Wait] returns all of their errors, joined by
// [errors.Join] in the order in which they came. A panic, or the end of the context, ends it as ever. It panics while there are tasks.
func (g *Group) JoinErrors() {
	g.mustBeEmpty("JoinErrors")
	g.joins = true
}

// Go queues f to be run by the pool. If the group is at its limit it waits, unless the context ends, and a caller
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
	if g.waitForRoom() {
		g.submit(taskFor(f), func(w *Worker) { g.run(w, taskFor(f), func(*Worker) error { return f() }) })
	}
}

// GoWorker is Go for a function that forks: it is given the worker that runs it.
func (g *Group) GoWorker(f func(w *Worker) error) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.GoWorker"))
		return
	}
	if g.waitForRoom() {
		g.submit(taskFor(f), func(w *Worker) { g.run(w, taskFor(f), f) })
	}
}

// TryGo is Go, but does nothing and returns false where that would wait.
func (g *Group) TryGo(f func() error) bool {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.TryGo"))
		return true
	}
	if !g.tryReserve() {
		return false
	}
	g.submit(taskFor(f), func(w *Worker) { g.run(w, taskFor(f), func(*Worker) error { return f() }) })
	return true
}

func (g *Group) mustBeMade() {
	if g == nil || g.pool == nil {
		panic(errors.New("pool: the Group is nil, or was not made by Pool.Group"))
	}
}

func (g *Group) mustBeEmpty(method string) {
	g.mustBeMade()
	if n := g.tasks.Load() % begun; n > 0 {
		panic(fmt.Errorf("pool: Group.%s was called while the group has %d tasks; call it before Go, or after Wait", method, n))
	}
}

// tryReserve counts a task, if the limit allows one more.
func (g *Group) tryReserve() bool {
	if g.limit < 0 {
		g.tasks.Add(1)
		return true
	}
	for {
		n := g.tasks.Load()
		if n%begun >= int64(g.limit) {
			return false
		}
		if g.tasks.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// waitForRoom counts a task, when the limit allows it, and says whether it has: after Abort it may never.
func (g *Group) waitForRoom() bool {
	if g.tryReserve() {
		return true
	}
	entered := false
	err := g.room.wait(g.parent, g.pool, "Group.Go at its limit", nil, func() bool {
		entered = g.tryReserve()
		return entered || g.pool.aborted.Load()
	})
	if !entered {
		g.fail(cmp.Or(err, ErrClosed))
		g.pool.dropped.Add(1)
		g.skip(1)
	}
	return entered
}

// skip counts functions that never begin.
func (g *Group) skip(n int64) {
	g.skipped.Add(n)
	g.pool.skipped.Add(n)
}

// over says whether no task is left that has begun or will.
func (g *Group) over() bool {
	g.abandon()
	return g.tasks.Load()%abandoned == 0
}

// abandon keeps tasks that have not begun from that for ever, if the pool was aborted. Those that have count on.
func (g *Group) abandon() {
	for g.pool.aborted.Load() {
		n := g.tasks.Load()
		left := n%begun - n%abandoned/begun
		if left == 0 {
			return
		}
		if g.tasks.CompareAndSwap(n, (n-left)|abandoned) {
			g.fail(ErrClosed)
			g.skip(left)
			return
		}
	}
}

// submit queues a task that was counted, in the group if it has no turn. Of is the user's function.
func (g *Group) submit(of *task, f func(*Worker)) {
	f = carry(f, of, "")
	if g.turns > 0 && !g.takeTurn(f) {
		return
	}
	var err error
	if w := g.pool.near(); w != nil {
		err = w.accept(f)
	} else {
		err = g.pool.accept(f, taskOptions{})
	}
	if err != nil {
		g.fail(err)
		g.done(1 + g.nextTurn(nil))
	}
}

// takeTurn says whether f has a turn. If not, it is in the backlog.
func (g *Group) takeTurn(f func(*Worker)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy < g.turns {
		g.busy++
		return true
	}
	g.backlog = append(g.backlog, f)
	return false
}

// nextTurn ends a turn, and queues the task that has the next one, on the worker w that had it. In a group that has failed, none begins any
// more: then it returns how many it has dropped.
func (g *Group) nextTurn(w *Worker) (dropped int64) {
	if g.turns == 0 {
		return 0
	}
	g.abandon()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	switch n := len(g.backlog); {
	case n == 0 || g.busy >= g.turns:
	case g.tasks.Load() >= abandoned: // and they do not count any more
		g.backlog = nil
	case g.failed.Load():
		g.backlog = nil
		g.pool.dropped.Add(int64(n))
		g.skip(int64(n))
		return int64(n)
	default:
		f := g.backlog[0]
		g.backlog[0] = nil
		g.backlog = g.backlog[1:]
		g.busy++
		w.queue(f)
	}
	return 0
}

// waits is for a worker that begins to wait: the functions that it is in do not compute meanwhile.
func (in *inside) waits(w *Worker) {
	for ; in != nil; in = in.outer {
		if g, ok := in.of.(*Group); ok {
			if dropped := g.nextTurn(w); dropped > 0 {
				g.done(dropped)
			}
		}
	}
}

// goesOn is for a worker whose wait is over.
func (in *inside) goesOn() {
	for ; in != nil; in = in.outer {
		if g, ok := in.of.(*Group); ok && g.turns > 0 {
			g.mu.Lock()
			g.busy++
			g.mu.Unlock()
		}
	}
}

func (g *Group) run(w *Worker, of *task, f func(*Worker) error) {
	if w == nil || w.pool != g.pool { // Abort has given it back
		g.abandon()
	}
	if g.tasks.Add(begun) > abandoned {
		g.done(begun)
		return
	}
	defer func() {
		w.woke = g.done(1 + begun + g.nextTurn(w))
	}()
	if g.parent.Err() != nil {
		g.fail(context.Cause(g.parent))
	}
	if g.failed.Load() {
		g.skip(1)
		return
	}
	in := w.beginInner()
	w.job.set(of)
	w.inside.set(&inside{of: g, f: of, outer: w.inside.own()})
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				g.panic(newPanicError(v))
			} else {
				g.note(ErrGoexit)
			}
		}
		w.inside.set(w.inside.own().outer)
		w.endInner(in)
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
	g.pool.panicked.Add(1)
	g.mu.Lock()
	if g.panicked == nil {
		g.panicked = e
		g.failed.Store(true)
		g.cancel(e)
	}
	g.mu.Unlock()
}

// done counts tasks that have ended. The last one lets the waiters go, unless more tasks came
// meanwhile: the waiters may be theirs. It says whether it let any go.
func (g *Group) done(counted int64) (woke bool) {
	n := g.tasks.Add(-counted)
	if g.limit >= 0 {
		woke = g.room.release(nil) // they look again; the limit is meant to be small
	}
	if (n == 0 || g.pool.aborted.Load()) && g.ended.release(func() bool { return !g.over() }) {
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
// [ErrOwnWait]. Where a fork, a loop's body or another group's function waits for it, that may run elsewhere, and then the two wait for each other
// for ever.
func (g *Group) Wait() error {
	g.mustBeMade()
	if g.pool.isInside(g) {
		return ErrOwnWait
	}
	_ = g.ended.wait(context.Background(), g.pool, "Group.Wait", g, g.over)
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
