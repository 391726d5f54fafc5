package pool

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// # Scopes
//
// The children of a scope that have not begun lie in a queue of the scope. Thieves find the open
// scopes of a worker where they find its forks, and take the oldest child; the one who waits for
// the scope takes the newest, so it always has something to do that brings it nearer to its end,
// and its stack holds no more scopes than the program nests. Only when all children have begun
// does it wait. Nothing else refers to a child, so nothing is left of a scope when it is over.

// Scope is a number of functions, its children, that run before [Worker.Scope]
// returns. A child may add others, and it may outlive the function that added it, but
// not the scope. Children run on any worker, in any order.
type Scope struct {
	owner *Worker // constant
	outer *Scope  // the owner's scope around this one; constant
	call  *call   // constant

	mu       sync.Mutex
	children []scopeChild // that have not begun; the oldest first
	queued   atomic.Int32 // len(children); under mu, anybody reads

	pending atomic.Int64 // children that have not ended, and the body
	latch   latch        // done when pending comes to 0
	ending  atomic.Pointer[ending]
}

// scopeChild is a function, and 1 + the node on which it should run, or 0.
type scopeChild struct {
	f    func(*Worker)
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
	s := &Scope{owner: w, call: w.call, outer: w.scopes.Load()}
	s.pending.Store(1)
	w.scopes.Store(s)
	over := false
	defer func() {
		if !over {
			s.stop(goexit{}) // whatever it was continues by itself
			s.finish(w)      // runs no child any more
		}
		w.scopes.Store(s.outer)
	}()
	body(s)
	s.finish(w)
	over = true
	if e := s.ending.Load(); e != nil {
		resume(*e)
	}
	w.call.check()
}

// finish runs children until all have begun, and waits until all have ended.
func (s *Scope) finish(w *Worker) {
	w.expose()
	for f := s.newest(); f != nil; f = s.newest() {
		s.run(w, f)
	}
	if !s.leave() { // once: only a child that this ran can have ended it before, by runtime.Goexit
		w.await(&s.latch)
	}
}

// Go adds f to the scope. It may be called by the body and by children, with the worker
// that they were given. A pool that is closed still runs the children of the scopes that it runs.
//
// Cost: no allocation beyond the closure f; a lock.
func (s *Scope) Go(w *Worker, f func(w *Worker)) {
	if f == nil {
		panic(errNilFunc("Scope.Go"))
	}
	s.add(w, scopeChild{f: f})
}

// goOn is Go for a child that should run on a node.
func (s *Scope) goOn(w *Worker, node int, f func(w *Worker)) { s.add(w, scopeChild{f, 1 + node}) }

func (s *Scope) add(w *Worker, c scopeChild) {
	if s == nil || s.owner == nil {
		panic(errors.New("pool: Scope.Go was called on a Scope that Worker.Scope did not make"))
	}
	if s.pending.Add(1) == 1 { // as long as the scope lasts, its body or a child counts
		panic(errors.New("pool: Scope.Go was called after the scope had ended; a child may not outlive its scope"))
	}
	s.mu.Lock()
	s.children = append(s.children, c)
	s.queued.Add(1) // a full fence: sleep.md, "Nothing is missed"
	s.mu.Unlock()
	p, node := s.owner.pool, s.owner.site.node
	if c.node > 0 {
		node = c.node - 1
	}
	if p.sleep.Load().Searching() == 0 { // as for a task: a guest's scope may wait for a child
		p.wakeOne(node, s.owner.home.index)
	}
}

func (s *Scope) visible() bool { return s.queued.Load() > 0 }

// claim takes a child for a thief on a node: of the oldest ones that which should run there, or
// else the oldest.
func (s *Scope) claim(node int) func(*Worker) {
	if !s.visible() {
		return nil
	}
	return s.take(func() int {
		oldest := s.children[:min(len(s.children), 64)]
		return max(0, slices.IndexFunc(oldest, func(c scopeChild) bool { return c.node == 0 || c.node == 1+node }))
	})
}

// newest takes the child that was added last, or returns nil.
func (s *Scope) newest() func(*Worker) { return s.take(func() int { return len(s.children) - 1 }) }

func (s *Scope) take(which func() int) func(*Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.children) == 0 {
		return nil
	}
	s.queued.Add(-1)
	i := which()
	f := s.children[i].f
	if i == 0 { // the array stays as it is, so that taking the oldest is cheap
		s.children[0] = scopeChild{}
		s.children = s.children[1:]
	} else {
		s.children = slices.Delete(s.children, i, i+1)
	}
	return f
}

func (s *Scope) run(w *Worker, f func(w *Worker)) {
	m, call := w.mark(), w.call
	w.call = s.call
	returned := false
	defer func() {
		if !returned {
			s.stop(endingOf(recover()))
		}
		w.unwind(m)
		w.call = call
		if s.leave() {
			s.latch.complete(s.owner)
		}
	}()
	if s.ending.Load() == nil && !s.call.stopped() {
		f(w)
	}
	returned = true
}

func (s *Scope) stop(e ending) { s.ending.CompareAndSwap(nil, &e) }

// leave ends a child, or the body, and says whether it was the last.
func (s *Scope) leave() bool { return s.pending.Add(-1) == 0 }
