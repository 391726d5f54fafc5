package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/panics"
)

// # Groups
//
// AtMost(n) makes a group a part of a pool: at most n of its functions compute at a time, by turns (turns.go). Functions
// that wait for one do so in the group, its **backlog**, and not in the pool's queues. By the law of turns the pool does not
// come to rest before the backlog is empty, and Close waits for it. The pool lists the groups that have a backlog: while
// coroutines wait, functions of these begin beside the bound (coroutine.go).
//
// # Who counts a function out
//
// A group counts its functions in one word, tasks. It has three parts: how many functions have been counted in and not out,
// how many of these have begun, and the bit abandoned. Go counts a function in before anybody else knows of it. After
// that the function is in one place: with its submitter, in the backlog, among a broadcast's mail, in a queue
// of the pool, or in a worker that runs it. Who takes it from its place without passing it on counts it out:
//
//  1. The worker that has run it, when it has ended.
//  2. Its submitter, if the pool does not accept it.
//  3. The worker that drops the backlog of a group that has failed.
//  4. Who takes mail back, or closes the place where it lies.
//  5. When the pool has been aborted, functions that have not begun lie in queues that nobody will look into, or belong to
//     Abort's caller. The first goroutine that looks at the word counts all of them out at once, wherever they are: it sets
//     abandoned.
//
// Cases 1 to 4 exclude one another, because a place gives up a function once. Case 5 takes no function from its
// place, so there the word decides. A function begins by a compare-and-swap that finds abandoned clear and counts it as begun.
// Either that comes before the bit is set, and the function is one of case 1; or the bit was set first, which counted
// the function out, and it never begins. Once the bit is set, only functions that have begun count, and nobody reads the
// first part any more. So 2 to 4 subtract from it in any case, and a new function adds to it; the bit in the word that
// they get back says whether that counted. If not, the function is not skipped or refused a second time.
//
// What Wait tells beside the word (errors, Skipped) is written under mu together with the change that ends the wait or before it, and
// Wait takes mu after it has seen the word.

// Group is a set of tasks that a goroutine waits for. It behaves as errgroup does:
// the first error counts, and cancels the group's context. Create a group with
// [NewGroup], call Go, any number of times and in any goroutine, then Wait.
// [Group.Reset] makes it ready for more.
type Group struct {
	pool      *Pool
	parent    context.Context // constant while tasks run, like cancel
	priority  Priority        // constant
	timeLimit time.Duration   // of each function; 0 for none; constant
	joined    *joinedContext  // parent, if the group has to end it; constant while tasks run
	cancel    context.CancelCauseFunc
	own       context.Context // derived from parent; cancel ends it; constant while tasks run
	limit     int             // how many tasks there may be; negative for any number; constant while tasks run

	tasks   atomic.Int64 // functions that count, plus begun for each that has begun, plus abandoned; see the head of the file
	failed  atomic.Bool  // there was an error or a panic; the goroutine that notes it writes, under mu
	skipped atomic.Int64 // functions that never began; the goroutine that counts one out writes
	ended   waiters      // callers of Wait, until there are no tasks
	room    waiters      // callers of Go, until there are fewer tasks than the limit

	mu       sync.Mutex
	err      error                     // the first
	joins    bool                      // a function's error does not end the group; constant while tasks run
	errs     []error                   // with joins, the functions' errors in the order in which they came
	panicked *PanicError               // the first
	turns    core.Turns[func(*Worker)] // of tasks, under mu; most is constant while tasks run
	moved    bool                      // a turn has ended since relief last looked; under mu

	calls groupCalls
}

const (
	begun     = 1 << 32 // what a function adds to tasks when it begins
	abandoned = 1 << 62 // a bit of tasks: the pool was aborted, and only functions that have begun count
)

// NewGroup returns a new group at a place, and a context that is derived from the place's. (errgroup calls it
// WithContext.) The group's first error or panic cancels that context, and so does Wait when it returns. After an error or a
// panic, and once the place's context has ended, functions of the group that have not begun never begin: see
// [Group.Skipped]. Those of [Group.GoWorker] run in a call with the group's context, at whatever place, see [Pool.With]:
// their forks unwind, and [Worker.Stop] ends the function's call, whose error is the function's. At a [*Worker] the context is [Worker.Context]. At [Serial] Go calls the functions itself.
//
// NewGroup panics if the place is nil, or a worker of another function.
func NewGroup(at Place) (*Group, context.Context) {
	return groupAt("NewGroup", at)
}

func groupAt(method string, at Place) (*Group, context.Context) {
	v, err := placeFor(method, at)
	if err != nil {
		panic(err)
	}
	g := &Group{pool: v.p, priority: v.priority, timeLimit: v.limit, joined: v.joined, limit: -1}
	return g, g.begins(v.ctx)
}

// begins makes the group ready, with a context that it returns.
func (g *Group) begins(ctx context.Context) context.Context {
	g.parent = ctx
	g.own, g.cancel = context.WithCancelCause(ctx)
	return g.own
}

// ends ends the group's context, and leaves nothing in the place's.
func (g *Group) ends(err error) {
	g.cancel(err)
	g.calls.unwatch()
	g.joined.end()
}

// Skipped returns how many functions of the group never began, because of an error, the
// end of the context, or [Pool.Abort]. (An errgroup begins them all the same.) It does not count functions
// that a closed pool refused. Cost: a load.
func (g *Group) Skipped() int {
	g.mustBeMade()
	g.count()
	return int(g.skipped.Load())
}

// Queued returns how many functions of the group have not begun. Cost: a load.
func (g *Group) Queued() int {
	g.mustBeMade()
	return g.count().queued()
}

// Running returns how many functions of the group have begun and not ended, including those that wait. Cost: a load.
func (g *Group) Running() int {
	g.mustBeMade()
	return g.count().running()
}

// SetLimit limits the group to n tasks at a time, queued ones included. A negative n is no
// limit. With 0 there can be no task: TryGo returns false, and Go, which could only wait for ever, makes the group
// fail. SetLimit panics while the group has tasks.
func (g *Group) SetLimit(n int) {
	g.mustBeEmpty("SetLimit")
	g.limit = n
}

// AtMost makes the group a part of the pool: at most n of its functions compute at a time. The others wait in the
// group, in order; Go does not wait for that. A function that waits does not count during the wait, see [WithCallers]: at once in
// [Worker.Block] and other calls of heist, and elsewhere from the time when the wait is noticed. So AtMost bounds what computes.
// To bound what functions hold while they wait, such as files and connections, use [Group.SetLimit] or the
// window of par's Stream. AtMost panics if n is less than 1, and while the group has tasks.
//
// A function whose wait is over goes on at once, perhaps beside n others. The pool's workers may begin functions
// that have a turn in any order. So n = 1 runs functions that do not wait one after the other, in the order of Go,
// but it is no lock across a wait. A task that waits for a coroutine of iter.Pull counts, because heist does not
// know which task that is. So while such a coroutine waits for something that heist knows of, another function begins
// beside the n after each millisecond in which none ended. Functions that wait in the group when the pool is aborted never begin, and
// [Pool.Abort] does not return them.
//
// Cost: two locks for each function, and one more when the first of them begins to wait in the group, or the last one ends that.
func (g *Group) AtMost(n int) {
	g.mustBeEmpty("AtMost")
	if n < 1 {
		panic(fmt.Errorf("pool: Group.AtMost was given %d; it must be at least 1", n))
	}
	g.turns.Most = n
}

// Reset makes a group that has ended as good as new, with ctx as the place's context, and returns its next context, as [NewGroup] does. The settings
// of SetLimit, AtMost and JoinErrors stay. Reset panics while the group has tasks. Go and Wait must not be called
// at the same time.
func (g *Group) Reset(ctx context.Context) context.Context {
	g.mustBeEmpty("Reset")
	if ctx == nil {
		panic(errNilContext("Group.Reset"))
	}
	g.ends(nil)
	g.joined = nil
	g.failed.Store(false)
	g.skipped.Store(0)
	g.err, g.errs, g.panicked = nil, nil, nil
	return g.begins(ctx)
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
// pool is closed, see [Pool.Close], f does not run and Wait returns [ErrClosed], unless the group had an error before.
//
// Inside a task of the pool, Go queues f on the task's worker, as [Worker.Go] does (with assembly; without it, in the
// pool's injector).
//
// Cost: two allocations beyond the closure f.
func (g *Group) Go(f func() error) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.Go"))
		return
	}
	if g.enter("Group.Go") {
		g.add(f)
	}
}

// GoContext is [Group.Go] with a context for the wait for room: if ctx ends before f is queued, f does not run, and GoContext returns
// the cause. Otherwise it returns nil unless an argument is nil, and what goes wrong is an error of the group, as with Go. ctx ends neither f nor the
// group.
func (g *Group) GoContext(ctx context.Context, f func() error) error {
	g.mustBeMade()
	switch {
	case ctx == nil:
		return errNilContext("Group.GoContext")
	case f == nil:
		return errNilFunc("Group.GoContext")
	case ctx.Err() != nil:
		return causes.Of(ctx)
	}
	entered, full := g.tryEnter()
	var err error
	if full {
		until, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(g.parent, func() { end(nil) })()
		entered, err = g.awaitRoom(until, "Group.GoContext")
	}
	if entered {
		g.add(f)
	}
	return err
}

// GoWorker is [Group.Go] for a function that forks: f is given the worker that runs it, in a call with the group's context.
// After Wait that context has ended, and f does not run before [Group.Reset].
func (g *Group) GoWorker(f func(w *Worker) error) {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.GoWorker"))
		return
	}
	if g.enter("Group.GoWorker") {
		g.submit(taskFor(f), func(w *Worker) {
			c := g.newCall(taskFor(f))
			g.run(w, &c.inside, func(w *Worker) error {
				_, err := g.runCall(w, c, f)
				return err
			})
		})
	}
}

// groupCall is a function of a group that may fork, while it runs: a call with the group's context.
type groupCall struct {
	inside
	scope      cancelScope
	prev, next *groupCall // under groupCalls.mu
}

func (g *Group) newCall(of *task) *groupCall { return &groupCall{inside: inside{of: g, f: of}} }

// runCall runs f, which may fork, in a call with the group's context. If f was told to stop, the error is that call's.
func (g *Group) runCall(w *Worker, c *groupCall, f func(w *Worker) error) (told bool, err error) {
	if err := causes.Of(g.own); err != nil {
		g.skip(1)
		return true, err
	}
	var end error
	g.within(w, c, &end, func() { err = f(w) })
	return end != nil, cmp.Or(end, err)
}

func (g *Group) within(w *Worker, c *groupCall, end *error, f func()) {
	v := visit{w: w, kept: true, inner: w.beginInner(), scope: &c.scope, region: region("heist: call")}
	c.scope.pool, c.scope.ctx = g.pool, g.own
	if g.timeLimit > 0 {
		c.scope.within(g.timeLimit)
	} else {
		c.scope.watched.Store(true) // the group tells it
	}
	w.cancelScope = v.scope
	g.calls.add(g, c)
	defer g.calls.remove(c)
	defer v.leave(end)
	f()
	v.returned = true
}

// groupCalls lists the calls of a group, so that its end costs a function nothing that does not see it: the group watches its
// place's context once for all of them, and nothing watches the group's own.
type groupCalls struct {
	mu    sync.Mutex
	first *groupCall  // under mu
	stop  func() bool // stops the wait for the end of the place's context; nil if nothing waits; under mu
}

func (l *groupCalls) add(g *Group, c *groupCall) {
	l.mu.Lock()
	if l.stop == nil && g.parent.Done() != nil {
		l.stop = context.AfterFunc(g.parent, l.cancel)
	}
	if c.next = l.first; c.next != nil {
		c.next.prev = c
	}
	l.first = c
	l.mu.Unlock()
	if g.failed.Load() || g.parent.Err() != nil { // the goroutine that calls cancel looks in the opposite order
		c.scope.cancel()
	}
}

func (l *groupCalls) remove(c *groupCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// cancel marks all calls as cancelled.
func (l *groupCalls) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := l.first; c != nil; c = c.next {
		c.scope.cancel()
	}
}

func (l *groupCalls) unwatch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// TryGo is [Group.Go], but where Go would wait it does nothing and returns false.
func (g *Group) TryGo(f func() error) bool {
	g.mustBeMade()
	if f == nil {
		g.fail(errNilFunc("Group.TryGo"))
		return true
	}
	entered, full := g.tryEnter()
	if entered {
		g.add(f)
	}
	return !full
}

func (g *Group) mustBeMade() {
	if g == nil || g.pool == nil {
		panic(errors.New("pool: the Group is nil, or was not made by NewGroup"))
	}
}

func (g *Group) mustBeEmpty(method string) {
	g.mustBeMade()
	if c := g.count(); !c.over() {
		panic(fmt.Errorf("pool: Group.%s was called while the group has %d tasks; call it before Go, or after Wait",
			method, c.queued()+c.running()))
	}
}

// groupCount is a value of Group.tasks.
type groupCount int64

func (c groupCount) isAbandoned() bool { return c >= abandoned }

func (c groupCount) running() int { return int(c % abandoned / begun) }

func (c groupCount) queued() int {
	if c.isAbandoned() {
		return 0
	}
	return int(c%begun - c/begun)
}

// over says whether no function runs and none will begin.
func (c groupCount) over() bool { return c.running() == 0 && c.queued() == 0 }

// count returns the count. If the pool was aborted, functions that have not begun no longer count in it.
func (g *Group) count() groupCount {
	if g.pool.aborted.Load() {
		g.abandon()
	}
	return groupCount(g.tasks.Load())
}

// abandon counts all functions out that have not begun, and keeps them from ever beginning. The pool was aborted.
//
//go:noinline
func (g *Group) abandon() {
	if groupCount(g.tasks.Load()).isAbandoned() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := groupCount(g.tasks.Or(abandoned))
	if left := old.queued(); left > 0 {
		g.failLocked(ErrClosed)
		g.calls.cancel()
		g.skip(left)
	}
	g.clearBacklog()
}

// tryEnter counts a function in, and says whether it did. If not, the group is full, or was abandoned and has failed.
func (g *Group) tryEnter() (entered, full bool) {
	c := g.count()
	for ; g.limit >= 0 && !c.isAbandoned(); c = groupCount(g.tasks.Load()) {
		if int64(c)%begun >= int64(g.limit) {
			return false, true
		}
		if g.tasks.CompareAndSwap(int64(c), int64(c)+1) {
			return true, false
		}
	}
	if !c.isAbandoned() {
		if c = groupCount(g.tasks.Add(1)); !c.isAbandoned() {
			return true, false
		}
		g.tasks.Add(-1) // lest the part overflow
	}
	g.fail(g.pool.refuse(ErrClosed))
	return false, false
}

// enter counts a function in when the limit allows it, and says whether it did. If not, the group has failed.
func (g *Group) enter(method string) bool {
	entered, full := g.tryEnter()
	if full {
		entered, _ = g.awaitRoom(g.parent, method)
	}
	return entered
}

// awaitRoom counts a function in when there is room, and says whether it did. ctx ends with the group's parent or before it. If it
// ends before, awaitRoom returns the cause, and the group goes on; otherwise the group has failed.
func (g *Group) awaitRoom(ctx context.Context, method string) (entered bool, err error) {
	if g.limit == 0 {
		g.fail(fmt.Errorf("pool: %s was called on a group with the limit 0, in which there can be no function, so it would wait "+
			"for ever; give SetLimit at least 1, or a negative number for no limit", method))
		return false, nil
	}
	err = g.room.wait(ctx, g.pool, method+" at its limit", nil, func() bool {
		in, full := g.tryEnter()
		entered = in
		return !full
	})
	if err != nil && g.parent.Err() != nil {
		g.fail(causes.Of(g.parent))
		g.pool.dropped.Add(1)
		g.skip(1)
		err = nil
	}
	return entered, err
}

// skip counts functions that never begin.
func (g *Group) skip(n int) {
	g.skipped.Add(int64(n))
	g.pool.skipped.Add(int64(n))
}

// add queues f, which was counted in.
func (g *Group) add(f func() error) {
	g.submit(taskFor(f), func(w *Worker) { g.run(w, &inside{of: g, f: taskFor(f)}, func(*Worker) error { return f() }) })
}

// submit queues a function that was counted in; without a turn it goes into the backlog. of is the user's function.
func (g *Group) submit(of *task, f func(*Worker)) {
	f = carry(f, of, "")
	if g.turns.Most > 0 {
		g.pool.core.Enter() // the pool does not end while its caller, from outside perhaps, has a turn that others wait for
		defer g.pool.core.Leave()
		if !g.takeTurn(f) {
			return
		}
	}
	if g.pool.isSerial() {
		_ = g.pool.Run(f) // it is never refused
		return
	}
	var err error
	if w := g.pool.near(); w != nil && g.priority == PriorityNormal {
		err = w.accept(f)
	} else {
		err = g.pool.accept(f, taskOptions{route: route{priority: g.priority}})
	}
	if err == nil {
		return
	}
	g.fail(err)
	g.endTurn(nil)
	c := groupCount(g.tasks.Add(-1))
	if c.isAbandoned() {
		g.pool.refused.Add(-1) // it was counted out, as skipped, before the pool refused it
	}
	g.wake(c)
}

// takeTurn gives f a turn and returns true, or else puts f into the backlog. It gives the turn in any case if the pool is closed
// to the caller, and refuses f, and at the place of Serial, where the caller runs f now.
func (g *Group) takeTurn(f func(*Worker)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns.Take() {
		return true
	}
	if g.pool.isSerial() || g.pool.isClosedToTasks() {
		g.turns.Taken++
		return true
	}
	if g.turns.Waiting = append(g.turns.Waiting, f); len(g.turns.Waiting) == 1 {
		g.pool.backlogs.add(g)
		g.pool.core.MayWait() // the functions that have turns may wait for this one
	}
	return false
}

// endTurn ends a turn of worker w, and queues there the function that has the next turn; if w is nil, in an injector. In a group that has failed
// no more functions begin, so endTurn drops the backlog.
func (g *Group) endTurn(w *Worker) {
	if g.turns.Most == 0 {
		return
	}
	if g.pool.aborted.Load() { // what waits in the group never begins, and Abort does not return it
		g.abandon()
	}
	g.mu.Lock()
	g.moved = true
	dropped := g.failed.Load() && len(g.turns.Waiting) > 0
	if dropped {
		g.drop(g.clearBacklog())
	}
	f, ok := g.turns.End()
	if ok {
		g.unlist()
	}
	g.mu.Unlock()
	switch {
	case ok && w != nil && g.priority == PriorityNormal:
		w.queue(f)
	case ok:
		g.pool.queue(g.pool.taskOf(f), g.priority, 0)
	}
	if dropped {
		g.wake(g.count())
	}
}

// clearBacklog returns how many functions the backlog had. Under mu.
func (g *Group) clearBacklog() int {
	n := len(g.turns.Waiting)
	if n > 0 {
		g.turns.Waiting = nil
		g.unlist()
		g.pool.dropped.Add(int64(n))
	}
	return n
}

// unlist is called when functions have left the backlog. If it is empty, the pool no longer lists the group. Under mu.
func (g *Group) unlist() {
	if len(g.turns.Waiting) == 0 {
		g.pool.backlogs.remove(g)
	}
}

// takeBeside gives the first function of the backlog a turn, whatever the bound, unless a turn has ended since the last
// such call: functions that end make room for others.
func (g *Group) takeBeside() (f func(*Worker), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	moved := g.moved
	if g.moved = false; moved || g.pool.aborted.Load() {
		return nil, false
	}
	if f, ok = g.turns.Next(); ok {
		g.unlist()
	}
	return f, ok
}

// backlogs lists the groups of a pool that have a backlog.
type backlogs struct {
	mu     sync.Mutex
	groups map[*Group]struct{} // under mu
}

// add is called with the group's mu held, as remove is.
func (b *backlogs) add(g *Group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.groups == nil {
		b.groups = make(map[*Group]struct{})
	}
	b.groups[g] = struct{}{}
}

func (b *backlogs) remove(g *Group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.groups, g); len(b.groups) == 0 {
		b.groups = nil // a map does not shrink
	}
}

func (b *backlogs) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups != nil
}

func (b *backlogs) all() []*Group {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.groups))
}

// drop counts out n functions that never begin, and notes that they were skipped. Under mu, so that Wait sees both.
func (g *Group) drop(n int) {
	if !groupCount(g.tasks.Add(int64(-n))).isAbandoned() {
		g.skip(n)
	}
}

// waits ends the turns of the functions that the worker is in, since it begins to wait.
func (in *inside) waits(w *Worker) {
	for ; in != nil; in = in.outer {
		if g, ok := in.of.(*Group); ok {
			g.endTurn(w)
		}
	}
}

// goesOn counts these functions as having turns again, since the wait is over.
func (in *inside) goesOn() {
	for ; in != nil; in = in.outer {
		if g, ok := in.of.(*Group); ok && g.turns.Most > 0 {
			g.mu.Lock()
			g.turns.Taken++
			g.mu.Unlock()
		}
	}
}

// begin counts a function as begun, unless it was counted out, and says whether it did.
func (g *Group) begin() bool {
	for c := g.count(); !c.isAbandoned(); c = groupCount(g.tasks.Load()) {
		if g.tasks.CompareAndSwap(int64(c), int64(c)+begun) {
			return true
		}
	}
	return false
}

// run runs f, or does nothing if f was counted out: then w may be nil or of another pool, because Abort has given f back.
func (g *Group) run(w *Worker, of *inside, f func(*Worker) error) {
	if !g.begin() {
		return
	}
	defer func() {
		g.endTurn(w)
		w.woke = g.done(1 + begun)
	}()
	if g.parent.Err() != nil {
		g.fail(causes.Of(g.parent))
	}
	if g.failed.Load() {
		g.skip(1)
		return
	}
	in := w.beginInner()
	w.begin(of.f)
	w.hasPlace() // what is given away and taken back in a noticed wait are the turns of what the worker is inside
	of.outer = w.inside.Own()
	w.inside.Set(of)
	returned := false
	defer func() {
		if !returned {
			if v := panics.Recovered(recover()); v != nil {
				g.panic(newPanicError(v))
			} else {
				g.note(ErrGoexit)
			}
		}
		w.hasPlace()
		w.inside.Set(w.inside.Own().outer)
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
	g.failLocked(err)
	g.mu.Unlock()
	g.calls.cancel()
}

func (g *Group) failLocked(err error) {
	if g.err == nil {
		g.err = err
		g.failed.Store(true)
		g.cancel(err)
	}
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
	g.calls.cancel()
}

// done counts functions out: 1 + begun for one that has ended, 1 for one that has not begun. It says whether that
// released anybody.
func (g *Group) done(counted int64) (woke bool) { return g.wake(groupCount(g.tasks.Add(-counted))) }

// wake releases those who wait for what has come true with the count c. If it is over, it releases the callers of Wait, unless
// more functions came meanwhile: the waiters may wait for those.
func (g *Group) wake(c groupCount) (woke bool) {
	if g.limit >= 0 {
		woke = g.room.release(nil) // all waiters look again; the limit is meant to be small
	}
	if c.over() && g.ended.release(func() bool { return !g.isOver() }) {
		woke = true
	}
	return woke
}

func (g *Group) isOver() bool { return g.count().over() }

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
	_ = g.ended.wait(context.Background(), g.pool, "Group.Wait", g, g.isOver)
	g.mu.Lock()
	err, panicked := g.err, g.panicked
	if len(g.errs) > 0 { // so g.err is no function's error
		err = errors.Join(append(g.errs[:len(g.errs):len(g.errs)], err)...)
	}
	g.mu.Unlock()
	g.ends(err)
	if panicked != nil {
		panic(panicked)
	}
	return err
}
