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
// A child that has not begun lies in the deque of the worker that added it. When the function that
// added children is over, the worker takes them back, the newest first, so it always has something to
// do that brings the scope nearer to its end. Thieves take the oldest. The deque holds the child's
// func value, a pointer, and nothing else refers to it: a child is pushed and popped without a lock or
// a record. The memory of a scope depends on how many children wait at a time.
//
// # Branches
//
// A worker that ends a scope takes back the children that it added to that scope, and no others,
// because nothing may run on top of a wait but what the wait needs (waiting.md). So each function that
// adds children has a **branch**: the body of a scope, at the worker that opened it, and every stolen
// child, at its thief. The open branches of a worker are nested like calls and form a chain, the
// innermost first. Only the innermost branch pushes. At its end it pops down to its **base**, the
// deque's bottom when the branch was opened.
//
//	outermost  inner      innermost
//	base       base       base       bottom
//	 |          |          |          |
//	 [A][B][C]  [D][E]     [F][G][H]
//
// A thief must know to which branch its item belongs, and the deque tells it only the index. The rule:
//
//	The item at index i belongs to the innermost open branch with base <= i.
//
// The thief may look up the branch after it has taken the item:
//   - The branch to which the item belongs is still open, because it waits for the item.
//   - Branches that were opened in it before the push are closed, since only the innermost pushes.
//   - Branches that were opened in it after the push have a base above i. While the item lay in the
//     deque, bottom was above i; since the steal, top is, and bottom never comes to rest below top.
//   - For the same reasons no other item has index i while the thief looks up this one.
//
// The chain's links never change, and the garbage collector keeps a closed branch while a thief
// still stands at it.
//
// # Counting
//
// A worker counts how many children it has put into the deque in its branch, and how many it has taken
// back. The difference was stolen. A thief subtracts 1 from pending for each stolen child that has
// ended. The owner adds the difference when it has found nothing more to take back; until then pending
// also contains the number open, so it does not come to 0. The worker that brings pending to 0 is the last.
//
// A stolen child has ended when its own branch has: the thief runs the children that this child has
// added, and waits for those that were stolen in turn. (It would save the wait to leave that to the
// last of these thieves, but the branch could be gone from the chain when that thief looks it up.)
// So the counts form a tree, and only a stolen child costs an atomic operation on a word that others write.
//
// # Strays
//
// A **stray** is a child that lies in no deque, but on a list of its scope, behind a lock. A child is a
// stray if the innermost branch belongs to another scope when it is added: in the deque, the inner scope
// would take it for its own, and it may wait for something that comes after the inner scope. Children
// that should run on a node are strays, too. Strays count as stolen. Thieves take strays before other
// children; the scope's worker takes those that are left when its deque has no more children of the branch.

// Scope is a set of functions, its children, that run before [Worker.Scope]
// returns. A child may add others, and it may outlive the function that added it, but
// not the scope. Children run on any worker, in any order.
type Scope struct {
	branch // of the body

	cancel *cancelScope // constant
	ending gravestEnding

	mu      sync.Mutex
	strays  []stray      // that have not begun; the oldest first
	waiting atomic.Int32 // len(strays); written under mu, thieves read
}

// branch is a function that may add children to a scope, with the children that it has added.
type branch struct {
	scope *Scope  // constant
	owner *Worker // constant
	outer *branch // the owner's branch around this one; constant
	base  int64   // the bottom of the owner's deque when the branch was opened; constant

	// pending is the number of stolen children that have not ended. Strays count from the moment they
	// are added, others when the owner has found nothing more to take back; until then pending contains open.
	pending atomic.Int64
	latch   latch // done when pending comes to 0
}

// children are the children of scopes that a worker has added and that have not begun, as thieves see them.
type children struct {
	deque  atomic.Pointer[heist.Deque[task]] // nil at first; owner replaces
	branch atomic.Pointer[branch]            // the innermost open branch; owner writes, thieves read
}

// childCounts counts the children that a worker has put into its deque in its innermost branch, and
// those that it has taken back. It is in the worker and not in the branch, so that no other worker reads
// or writes its cache line. added is atomic because its store is a fence. Owner only.
type childCounts struct {
	added atomic.Int64
	taken int64
}

// open is what pending contains in addition until its owner has found nothing more to take back.
const open = 1 << 62

// keptGrows is how often a deque may have grown if an idle worker is to keep it: up to 1024 slots.
const keptGrows = 4

// stray is a child that lies in no deque, with 1 + the node on which it should run, or 0 for any node.
type stray struct {
	f    *task
	node int
}

// Scope calls body, which adds children with [Scope.Go], and returns when body and all
// children have returned. Meanwhile the caller runs children itself. When all children have
// ended, a panic in a child continues here as a [*PanicError], and a panic in body as it is.
// Children that have not started when one panics never start.
func (w *Worker) Scope(body func(s *Scope)) {
	if body == nil {
		panic(errNilFunc("Worker.Scope"))
	}
	w.mustBeMine("Worker.Scope")
	s := &Scope{cancel: w.cancelScope}
	returned := false
	defer func() {
		if returned {
			return
		}
		if e := s.ending.Load(); e != nil {
			if e, ok := (*e).(*PanicError); ok {
				outdo(e)
			}
		}
	}()
	s.runIn(w, s, body, nil)
	returned = true
	if e := s.ending.Load(); e != nil {
		resume(*e)
	}
	w.cancelScope.obey()
}

// runIn opens the branch, runs a scope's body or a child in it, then runs the children, and returns when all have ended.
func (b *branch) runIn(w *Worker, s *Scope, body func(*Scope), child *task) {
	w.answerNotice()
	b.scope, b.owner, b.outer = s, w, w.children.branch.Load()
	if d := w.children.deque.Load(); d != nil {
		b.base = d.Bottom()
	}
	b.pending.Store(open)
	w.children.branch.Store(b)
	added, taken := w.counts.added.Load(), w.counts.taken
	w.counts.added.Store(0)
	w.counts.taken = 0
	over := false
	defer func() {
		if !over {
			b.abandon(w)
		}
		w.children.branch.Store(b.outer)
		w.counts.added.Store(added)
		w.counts.taken = taken
	}()
	if body != nil {
		body(s)
	} else {
		s.run(w, child)
	}
	b.finish(w)
	over = true
}

// abandon is finish for a branch whose function did not return: no more children begin.
func (b *branch) abandon(w *Worker) {
	s := b.scope
	s.ending.note(s.cancel) // as if it unwound: its own panic or Goexit continues by itself
	b.finish(w)
	s.cancel.keep(*s.ending.Load())
}

// finish runs children until all have begun, and waits until all have ended.
func (b *branch) finish(w *Worker) {
	w.publish()
	s := b.scope
	if d := w.children.deque.Load(); d != nil {
		for f := d.PopFrom(b.base); f != nil; f = d.PopFrom(b.base) {
			w.counts.taken++
			if w.calm != 0 && d.Len() > 0 {
				w.wakeForChildren()
			}
			s.run(w, f)
			w.betweenPieces()
		}
	}
	if b == &s.branch {
		for f := s.newest(); f != nil; f = s.newest() {
			b.runStolen(w, f)
			w.betweenPieces()
		}
	}
	if b.pending.Add(w.counts.added.Load()-w.counts.taken-open) != 0 {
		w.await(&b.latch)
	}
}

// Go adds f to the scope. The body and the children may call it, with the worker that they
// were given. A closed pool still runs the children of scopes that have not ended.
//
// Cost: no allocation beyond the closure f; a locked instruction, and another one when the child is taken
// back. Adding a child to an outer scope from an inner one takes a lock.
func (s *Scope) Go(w *Worker, f func(w *Worker)) {
	if f == nil {
		panic(errNilFunc("Scope.Go"))
	}
	if s == nil || s.owner == nil {
		panic(errors.New("pool: Scope.Go was called on a Scope that Worker.Scope did not make"))
	}
	s.cancel.watch()
	if w != nil && w.isMine() {
		if b := w.children.branch.Load(); b != nil && b.scope == s {
			w.addChild(f)
			return
		}
	}
	s.stray(stray{f: taskOf(f)})
}

// goOn is Go for a child that should run on a node.
func (s *Scope) goOn(node int, f func(w *Worker)) {
	s.cancel.watch()
	s.stray(stray{taskOf(f), 1 + node})
}

// addChild adds a child to the innermost branch.
func (w *Worker) addChild(f func(*Worker)) {
	d := w.children.deque.Load()
	if d == nil {
		d = new(heist.Deque[task])
		w.children.deque.Store(d)
	}
	d.Push(taskOf(f))
	w.counts.added.Store(w.counts.added.Load() + 1) // a full fence: sleep.md, "Nothing is missed"
	w.wakeForChildren()
}

// wakeForChildren wakes a helper for visible children, unless a worker searches or w is patient. Guests do not count here, as for a task and
// unlike for a fork: a guest may wait for a child of its scope.
func (w *Worker) wakeForChildren() {
	switch state := w.pool.core.Sleep.Load(); {
	case state.Searching() > 0:
	case w.bePatient(state, true):
		w.pool.guarded()
	default:
		w.calm = 0
		w.wakeHelper()
	}
}

func (s *Scope) stray(c stray) {
	if s.pending.Add(1) == 1 { // while the scope lasts, pending counts its body or a child
		panic(errors.New("pool: Scope.Go was called after the scope had ended; a child may not outlive its scope"))
	}
	s.mu.Lock()
	s.strays = append(s.strays, c)
	s.waiting.Add(1) // a full fence: sleep.md, "Nothing is missed"
	s.mu.Unlock()
	node := s.owner.core.Node()
	if c.node > 0 {
		node = c.node - 1
	}
	if p := s.owner.pool; p.core.Sleep.Load().Searching() == 0 {
		p.core.WakeOne(node, s.owner.core.HomeIndex())
	}
}

// visible says whether a child lies in the deque, or among the strays of the worker's scopes.
func (c *children) visible() bool {
	if d := c.deque.Load(); d != nil && d.Len() > 0 {
		return true
	}
	for b := c.branch.Load(); b != nil; b = b.outer {
		if b.scope.waiting.Load() > 0 {
			return true
		}
	}
	return false
}

// alarm does nothing: thieves see all children.
func (*children) alarm() {}

// claim takes the oldest child, a stray if there is one.
func (c *children) claim(node int) (claimed, heist.StealResult) {
	for b := c.branch.Load(); b != nil; b = b.outer {
		if f := b.scope.claim(node); f != nil {
			return claimed{branch: &b.scope.branch, child: f}, heist.Success
		}
	}
	d := c.deque.Load()
	if d == nil {
		return claimed{}, heist.Empty
	}
	f, index, r := d.StealAt()
	if r != heist.Success {
		return claimed{}, r
	}
	return claimed{branch: c.branchAt(index), child: f}, r
}

func (*children) run(thief *Worker, c claimed) { c.branch.runStolen(thief, c.child) }

// branchAt returns to which branch the item belongs that was stolen from an index.
func (c *children) branchAt(index int64) *branch {
	b := c.branch.Load()
	for b.base > index {
		b = b.outer
	}
	return b
}

// trim drops a deque that has grown, unless a scope is open.
func (c *children) trim() {
	if d := c.deque.Load(); d != nil && c.branch.Load() == nil && d.Stats().Grows > keptGrows {
		c.deque.Store(nil)
	}
}

// claim takes a stray for a thief on a node: the first of the oldest 64 that may run there, or else
// the oldest.
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
	if i == 0 { // without a copy, so that taking the oldest is cheap
		s.strays[0] = stray{}
		s.strays = s.strays[1:]
	} else {
		s.strays = slices.Delete(s.strays, i, i+1)
	}
	return f
}

// runStolen runs a stolen child of branch b, or a stray, in a branch of its own.
func (b *branch) runStolen(w *Worker, f *task) {
	s := b.scope
	var out help
	w.helps(&out, b.owner, &b.latch, w.cancelScope)
	defer func() {
		w.helped(&out)
		b.leave(w)
	}()
	new(branch).runIn(w, s, nil, f)
}

// leave ends a child that runStolen has run.
func (b *branch) leave(w *Worker) {
	if b.pending.Add(-1) == 0 {
		b.latch.complete(w, b.owner)
	}
}

func (s *Scope) run(w *Worker, f *task) {
	m, call := w.pushUnwindPoint(), w.cancelScope
	w.cancelScope = s.cancel
	returned := false
	defer func() {
		if !returned {
			s.ending.note(endingOf(recover()))
		}
		if left := w.unwind(m); !returned {
			s.ending.note(left)
		}
		w.cancelScope = call
	}()
	if s.ending.Load() == nil && s.cancel.tell() == nil {
		f.run(w)
	}
	returned = true
}
