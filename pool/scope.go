package pool

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// # Scopes
//
// A child that has not begun lies in the deque of the worker that added it. That worker takes the
// newest of them when the function that added them is over, so it always has something to do that
// brings the scope nearer to its end; thieves take the oldest. The deque holds the child's func
// value, a pointer, and nothing else refers to it: a child is pushed and popped without a lock or a
// record. What a scope takes in memory follows from how many children wait at a time.
//
// # Branches
//
// A worker takes back what it has added in the scope that it is about to end, and only that, for
// nothing may run on top of a wait but what the wait needs (waiting.md). So each function that adds
// children has a branch: the body of a scope, at the worker that opened it, and every stolen child,
// at its thief. The open branches of a worker are nested like calls, in a chain with the innermost
// first. Only the innermost pushes, and at its end it pops until it comes to its base, where the
// deque's bottom was when it was opened.
//
//	outermost  inner      innermost
//	base       base       base       bottom
//	 |          |          |          |
//	 [A][B][C]  [D][E]     [F][G][H]
//
// A thief must know to which branch its item belongs, and all that the deque tells is the index:
//
//	The item at index i belongs to the innermost open branch with base <= i.
//
// The thief may look that up when it has the item:
//   - The branch to which the item belongs is still open, because it waits for the item.
//   - Branches that were opened in it before the push are closed, since only the innermost pushes.
//   - Branches that were opened in it after the push begin above i. As long as the item lay there,
//     bottom was above i, and since it was stolen top is, below which bottom never comes to rest.
//   - For the same reasons no other item has index i as long as anybody asks for this one.
//
// The chain's links never change, and the garbage collector keeps a branch that was closed for a
// thief that still stands at it.
//
// # Counting
//
// A worker counts how many children it has put into the deque in its branch, and taken back. The
// difference was stolen. Thieves subtract 1 from pending for each stolen child that has ended. The
// owner adds the difference when it has found nothing more to take back, and the worker that brings pending
// to 0 is the last. Until then pending holds the number open besides, and does not come to 0.
//
// A stolen child has ended when its own branch has: the thief runs what the child has added, and
// waits for what was stolen from it in turn. (If it left that to the last of its thieves, it would
// save the wait, but the branch could be gone from the chain when that one looks it up.) So the counts form a
// tree, and only a child that is stolen costs an atomic operation on what others write.
//
// # Strays
//
// A child that is added where the innermost branch belongs to another scope must not lie in the
// deque: the inner scope would take it for its own, and it may wait for what comes after the inner
// scope. It is a stray, on a list of its own scope behind a lock, as are children that should run on a
// node. To the scope it counts as stolen. Thieves take strays first, and the scope's worker takes
// those that are left when its deque has no more.

// Scope is a number of functions, its children, that run before [Worker.Scope]
// returns. A child may add others, and it may outlive the function that added it, but
// not the scope. Children run on any worker, in any order.
type Scope struct {
	branch // of the body

	call   *cancelScope // constant
	ending atomic.Pointer[ending]

	mu      sync.Mutex
	strays  []stray      // that have not begun; the oldest first
	waiting atomic.Int32 // len(strays); under mu, anybody reads
}

// branch is one function that may add children to a scope, with those that it has added.
type branch struct {
	scope *Scope  // constant
	owner *Worker // constant
	outer *branch // the owner's branch around this one; constant
	base  int64   // the bottom of the owner's deque when the branch was opened; constant

	// pending is open, and from the end on the number of stolen children, less those that have
	// ended. Strays count as stolen from the beginning.
	pending atomic.Int64
	latch   latch // done when pending comes to 0
}

// childCounts says how many children a worker has put into its deque in its innermost branch, and how
// many it has taken back. The worker has it, and not the branch, so that it lies where nobody else
// reads or writes. Added is atomic for the fence that its store is. Owner only.
type childCounts struct {
	added atomic.Int64
	taken int64
}

// open is what pending holds more until its owner has found nothing more to take back.
const open = 1 << 62

// keptGrows is how often a deque may have grown for an idle worker to keep it: up to 1024 slots.
const keptGrows = 4

// givesWayAfter is how many children there are between two looks at the clock. Go takes the P from those that
// together run for more than 10 ms.
const givesWayAfter = 16

// stray is a child that lies in no deque, and 1 + the node on which it should run, or 0.
type stray struct {
	f    *task
	node int
}

// Scope calls body, which adds children by [Scope.Go], and returns when body and all
// children have. Meanwhile the caller runs children itself. A panic in a child continues
// here as a [*PanicError], and a panic in body as it is, when all children have ended;
// those that have not started when one panics never will.
func (w *Worker) Scope(body func(s *Scope)) {
	if body == nil {
		panic(errNilFunc("Worker.Scope"))
	}
	w.mustBeMine("Worker.Scope")
	s := &Scope{call: w.cancelScope}
	s.hold(w, s, func() { body(s) })
	if e := s.ending.Load(); e != nil {
		resume(*e)
	}
	w.cancelScope.check()
}

// hold opens the branch, runs a function in it, and then the children, and returns when all have ended.
func (b *branch) hold(w *Worker, s *Scope, f func()) {
	b.scope, b.owner, b.outer = s, w, w.branch.Load()
	if d := w.children.Load(); d != nil {
		b.base = d.Bottom()
	}
	b.pending.Store(open)
	w.branch.Store(b)
	added, taken := w.counts.added.Load(), w.counts.taken
	w.counts.added.Store(0)
	w.counts.taken = 0
	over := false
	defer func() {
		if !over {
			b.abandon(w)
		}
		w.branch.Store(b.outer)
		w.counts.added.Store(added)
		w.counts.taken = taken
	}()
	f()
	b.finish(w)
	over = true
}

// abandon is finish where the branch's function did not return: no child runs any more.
func (b *branch) abandon(w *Worker) {
	s := b.scope
	s.stop(goexit{}) // whatever it was continues by itself
	b.finish(w)
	s.call.keep(*s.ending.Load())
}

// finish runs children until all have begun, and waits until all have ended.
func (b *branch) finish(w *Worker) {
	w.expose()
	s := b.scope
	if d := w.children.Load(); d != nil {
		for f := d.PopFrom(b.base); f != nil; f = d.PopFrom(b.base) {
			w.counts.taken++
			s.run(w, f)
			if w.counts.taken%givesWayAfter == 0 {
				w.giveWayIfDue(heist.Ticks())
			}
		}
	}
	if b == &s.branch {
		for f := s.newest(); f != nil; f = s.newest() {
			b.runStolen(w, f)
		}
	}
	if b.pending.Add(w.counts.added.Load()-w.counts.taken-open) != 0 {
		w.await(&b.latch)
	}
}

// Go adds f to the scope. It may be called by the body and by children, with the worker
// that they were given. A pool that is closed still runs the children of the scopes that it runs.
//
// Cost: no allocation beyond the closure f; a locked instruction, and another one when the child is taken
// back. In an inner scope, to add a child to an outer one takes a lock.
func (s *Scope) Go(w *Worker, f func(w *Worker)) {
	if f == nil {
		panic(errNilFunc("Scope.Go"))
	}
	if s == nil || s.owner == nil {
		panic(errors.New("pool: Scope.Go was called on a Scope that Worker.Scope did not make"))
	}
	if w != nil && w.isMine() {
		if b := w.branch.Load(); b != nil && b.scope == s {
			w.addChild(f)
			return
		}
	}
	s.stray(stray{f: taskOf(f)})
}

// goOn is Go for a child that should run on a node.
func (s *Scope) goOn(node int, f func(w *Worker)) { s.stray(stray{taskOf(f), 1 + node}) }

// addChild adds a child to the innermost branch.
func (w *Worker) addChild(f func(*Worker)) {
	d := w.children.Load()
	if d == nil {
		d = new(heist.Deque[task])
		w.children.Store(d)
	}
	d.Push(taskOf(f))
	w.counts.added.Store(w.counts.added.Load() + 1) // a full fence: sleep.md, "Nothing is missed"
	// As for a task, and not as for a fork, guests do not count: one may wait for a child of its scope.
	if w.pool.sleep.Load().Searching() == 0 {
		w.wakeHelper()
	}
}

func (s *Scope) stray(c stray) {
	if s.pending.Add(1) == 1 { // as long as the scope lasts, its body or a child counts
		panic(errors.New("pool: Scope.Go was called after the scope had ended; a child may not outlive its scope"))
	}
	s.mu.Lock()
	s.strays = append(s.strays, c)
	s.waiting.Add(1) // a full fence: sleep.md, "Nothing is missed"
	s.mu.Unlock()
	node := s.owner.placement.node
	if c.node > 0 {
		node = c.node - 1
	}
	if p := s.owner.pool; p.sleep.Load().Searching() == 0 {
		p.wakeOne(node, s.owner.home.index)
	}
}

// anyChild says whether a child lies in the worker's deque, or among the strays of its scopes.
func (w *Worker) anyChild() bool {
	if d := w.children.Load(); d != nil && d.Len() > 0 {
		return true
	}
	for b := w.branch.Load(); b != nil; b = b.outer {
		if b.scope.waiting.Load() > 0 {
			return true
		}
	}
	return false
}

// robChild takes a child from the worker for a thief on a node.
func (w *Worker) robChild(node int) (job, heist.StealResult) {
	for b := w.branch.Load(); b != nil; b = b.outer {
		if f := b.scope.claim(node); f != nil {
			return job{branch: &b.scope.branch, child: f}, heist.Success
		}
	}
	d := w.children.Load()
	if d == nil {
		return job{}, heist.Empty
	}
	f, index, r := d.StealAt()
	if r != heist.Success {
		return job{}, r
	}
	return job{branch: w.branchAt(index), child: f}, r
}

// branchAt returns to which branch the item belongs that was stolen from an index.
func (w *Worker) branchAt(index int64) *branch {
	b := w.branch.Load()
	for b.base > index {
		b = b.outer
	}
	return b
}

// claim takes a stray for a thief on a node: of the oldest ones that which should run there, or
// else the oldest.
func (s *Scope) claim(node int) *task {
	if s.waiting.Load() == 0 {
		return nil
	}
	return s.take(func() int {
		oldest := s.strays[:min(len(s.strays), 64)]
		return max(0, slices.IndexFunc(oldest, func(c stray) bool { return c.node == 0 || c.node == 1+node }))
	})
}

// newest takes the stray that was added last, or returns nil.
func (s *Scope) newest() *task {
	if s.waiting.Load() == 0 {
		return nil
	}
	return s.take(func() int { return len(s.strays) - 1 })
}

func (s *Scope) take(which func() int) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strays) == 0 {
		return nil
	}
	s.waiting.Add(-1)
	i := which()
	f := s.strays[i].f
	if i == 0 { // the array stays as it is, so that taking the oldest is cheap
		s.strays[0] = stray{}
		s.strays = s.strays[1:]
	} else {
		s.strays = slices.Delete(s.strays, i, i+1)
	}
	return f
}

// runStolen runs a stolen child of the branch, or a stray, in a branch of its own.
func (b *branch) runStolen(w *Worker, f *task) {
	s := b.scope
	out := w.helps(b.owner, &b.latch, w.cancelScope)
	defer func() {
		w.helped(out)
		b.leave(w)
	}()
	new(branch).hold(w, s, func() { s.run(w, f) })
}

// leave ends a child that runStolen has run.
func (b *branch) leave(w *Worker) {
	if b.pending.Add(-1) == 0 {
		b.latch.complete(w, b.owner)
	}
}

func (s *Scope) run(w *Worker, f *task) {
	m, call := w.pushUnwindPoint(), w.cancelScope
	w.cancelScope = s.call
	returned := false
	defer func() {
		if !returned {
			s.stop(endingOf(recover()))
		}
		w.unwind(m)
		w.cancelScope = call
	}()
	if s.ending.Load() == nil && !s.call.stopped() {
		f.run(w)
	}
	returned = true
}

// stop keeps the first ending, but a panic rather than one that says nothing: of a call that unwinds, or of a goroutine that ends.
func (s *Scope) stop(e ending) {
	_, panicked := e.(*PanicError)
	for old := s.ending.Load(); ; old = s.ending.Load() {
		if old != nil {
			if _, before := (*old).(*PanicError); before || !panicked {
				return
			}
		}
		if s.ending.CompareAndSwap(old, &e) {
			return
		}
	}
}
