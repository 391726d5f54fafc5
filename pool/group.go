package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/panics"
)

// ErrGoexit is the error of a function of a [Group] or a [Future] that did not return but
// ended by runtime.Goexit.
var ErrGoexit = errors.New("pool: the function called runtime.Goexit")

// # Groups
//
// AtMost(n) makes a group a part of a pool: at most n of its functions compute at a time. Each of these has a
// **turn**. A function without a turn waits in the group's **backlog**, not in the pool's queues.
//
//  1. A function that ends gives its turn to the first function of the backlog.
//  2. A function that waits does so too, for it may wait for that function.
//  3. A function whose wait is over goes on at once. Until others have ended, more than n may compute.
//
// The law of turns: while the backlog is not empty, all n turns are taken, and each function that has a turn
// is in one of the pool's queues, or runs. So the pool does not come to rest before the backlog is empty, and
// Close waits for it.

// Group is a set of tasks that a goroutine waits for. It behaves as errgroup does:
// the first error counts, and cancels the group's context. Create a group with
// [Pool.Group], call Go, any number of times and in any goroutine, then Wait.
// [Group.Reset] makes it ready for more.
type Group struct {
	pool   *Pool
	parent context.Context // constant while tasks run, like cancel
	cancel context.CancelCauseFunc
	limit  int // how many tasks there may be; negative for any number; constant while tasks run
	turns  int // how many tasks may compute; 0 for any number; constant while tasks run

	tasks   atomic.Int64 // tasks that have not ended, plus begun for each that has begun, plus abandoned
	failed  atomic.Bool  // there was an error or a panic; the goroutine that notes it writes
	skipped atomic.Int64 // tasks that never began; the goroutine that skips one writes
	ended   waiters      // callers of Wait, until there are no tasks
	room    waiters      // callers of Go, until there are fewer tasks than the limit

	mu       sync.Mutex
	err      error           // the first
	joins    bool            // a function's error does not end the group; constant while tasks run
	errs     []error         // with joins, the functions' errors in the order in which they came
	panicked *PanicError     // the first
	busy     int             // tasks that have a turn
	backlog  []func(*Worker) // tasks that wait for a turn, in order
}

const (
	begun     = 1 << 32 // what a task adds to tasks when it begins
	abandoned = 1 << 62 // a bit of tasks: the pool was aborted, and no more tasks begin
)

// Group returns a new group and a context that is derived from ctx. The group's first error
// or panic cancels that context, and so does Wait when it returns. After an error or a panic, and
// once ctx has ended, functions of the group that have not begun never begin: see [Group.Skipped].
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
// end of the context. (An errgroup begins them all the same.) It does not count functions
// that a closed pool refused.
func (g *Group) Skipped() int { return int(g.skipped.Load()) }

// Queued returns how many functions of the group have not begun. Cost: a load.
func (g *Group) Queued() int {
	n := g.tasks.Load()
	return int(n%begun - n%abandoned/begun)
}

// Running returns how many functions of the group have begun and not ended, including those that wait. Cost: a load.
func (g *Group) Running() int { return int(g.tasks.Load() % abandoned / begun) }

// SetLimit limits the group to n tasks at a time, queued ones included. A negative n is no
// limit. With 0 there can be no task, so Go waits for the end of the context. SetLimit panics
// while the group has tasks.
func (g *Group) SetLimit(n int) {
	g.mustBeEmpty("SetLimit")
	g.limit = n
}

// AtMost makes the group a part of the pool: at most n of its functions compute at a time. The others wait in the
// group, in order; Go does not wait for that. A function that waits for something that heist knows of, in
// [Worker.Block] for instance, does not count during the wait, see [WithCallers]. So AtMost bounds what computes.
// To bound what functions hold while they wait, such as files and connections, use [Group.SetLimit] or the
// window of par's Stream. AtMost panics if n is less than 1, and while the group has tasks.
//
// A function whose wait is over goes on at once, perhaps beside n others. The pool's workers may begin functions
// that have a turn in any order. So n = 1 runs functions that do not wait one after the other, in the order of Go,
// but it is no lock across a wait. A task that waits for a coroutine of iter.Pull counts, because heist does not
// know which task that is. Functions that wait in the group when the pool is aborted never begin, and
// [Pool.Abort] does not return them.
//
// Cost: two locks for each function.
func (g *Group) AtMost(n int) {
	g.mustBeEmpty("AtMost")
	if n < 1 {
		panic(fmt.Errorf("pool: Group.AtMost was given %d; it must be at least 1", n))
	}
	g.turns = n
}

// Reset makes a group that has ended as good as new and returns its next context, as [Pool.Group] does. The settings
// of SetLimit, AtMost and JoinErrors stay. Reset panics while the group has tasks. Go and Wait must not be called
// at the same time.
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

// JoinErrors makes the group go on after an error: all functions run, and [Group.Wait] returns all of their errors, joined
// by [errors.Join] in the order in which they came. A panic or the end of the context still ends the group. JoinErrors
// panics while the group has tasks.
func (g *Group) JoinErrors() {
	g.mustBeEmpty("JoinErrors")
	g.joins = true
}

// Go queues f to be run by the pool. If the group is at its limit, Go waits for room or for the end of the
// context, and a caller inside a task lends its place meanwhile. Without a limit Go never blocks. If the
// pool is closed, f does not run and Wait returns [ErrClosed], unless the group had an error before.
//
// Inside a task of the pool, Go queues f on the task's worker, as [Worker.Go] does (with assembly; without it, in the
// pool's injector).
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

// GoWorker is [Group.Go] for a function that forks: f is given the worker that runs it.
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

// TryGo is [Group.Go], but where Go would wait it does nothing and returns false.
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

// tryReserve counts a task if the limit allows one more, and says whether it did.
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

// waitForRoom counts a task when the limit allows it. It returns false if the context ends first, or the pool
// is aborted.
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

// over says whether no task runs and none will begin.
func (g *Group) over() bool {
	g.abandon()
	return g.tasks.Load()%abandoned == 0
}

// abandon keeps tasks that have not begun from ever beginning, if the pool was aborted. Tasks that have begun still count.
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

// submit queues a task that was counted; without a turn it goes into the backlog. of is the user's function.
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

// takeTurn gives f a turn and returns true, or else puts f into the backlog.
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

// nextTurn ends a turn of worker w, and queues there the task that has the next turn. In a group that has failed
// no more tasks begin: nextTurn then drops the backlog and returns how many tasks it held.
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
	case g.tasks.Load() >= abandoned: // the tasks of the backlog do not count any more
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

// waits ends the turns of the functions that the worker is in, since it begins to wait.
func (in *inside) waits(w *Worker) {
	for ; in != nil; in = in.outer {
		if g, ok := in.of.(*Group); ok {
			if dropped := g.nextTurn(w); dropped > 0 {
				g.done(dropped)
			}
		}
	}
}

// goesOn counts these functions as having turns again, since the wait is over.
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
	if w == nil || w.pool != g.pool { // Abort has given the task back
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
			if v := panics.Recovered(recover()); v != nil {
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

// note records the error of a function.
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

// done takes tasks that have ended out of the count. The last one releases the waiters, unless more
// tasks came meanwhile: the waiters may wait for those. done says whether it released any.
func (g *Group) done(counted int64) (woke bool) {
	n := g.tasks.Add(-counted)
	if g.limit >= 0 {
		woke = g.room.release(nil) // all waiters look again; the limit is meant to be small
	}
	if (n == 0 || g.pool.aborted.Load()) && g.ended.release(func() bool { return !g.over() }) {
		woke = true
	}
	return woke
}

// Wait returns when all tasks of the group have ended. It returns the first error that a task
// returned, or the cause of the context's end if that kept tasks from beginning. If a task
// panicked, Wait panics with the first [*PanicError].
//
// Any goroutine may call it. A task that waits lends its place, so that groups in groups make progress
// even on a single worker. A function of the group itself cannot wait for the group: it gets
// [ErrOwnWait]. But a fork, a loop's body or another group's function inside it may run in another
// goroutine; if that waits for the group, the two wait for each other for ever.
func (g *Group) Wait() error {
	g.mustBeMade()
	if g.pool.isInside(g) {
		return ErrOwnWait
	}
	_ = g.ended.wait(context.Background(), g.pool, "Group.Wait", g, g.over)
	g.mu.Lock()
	err, panicked := g.err, g.panicked
	if len(g.errs) > 0 { // so g.err is no function's error
		err = errors.Join(append(g.errs[:len(g.errs):len(g.errs)], err)...)
	}
	g.mu.Unlock()
	g.cancel(err)
	if panicked != nil {
		panic(panicked)
	}
	return err
}
