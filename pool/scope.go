package pool

import (
	"sync"
	"sync/atomic"
)

// # Scopes
//
// The children of a scope that have not begun lie in a queue of the scope. For each of
// them a ticket, which is a task, goes into the run queue of whoever added it: a worker
// that comes to a ticket takes a child of the scope, if there is one left. The one who
// waits for the scope takes children without a ticket, so it always has something to do
// that brings it nearer to its end, and its stack holds no more scopes than the program
// nests. Only when all children have begun does it help with other things.

// Scope is a number of functions, its children, that run before [Worker.Scope]
// returns. A child may add others, and it may outlive the function that added it, but
// not the scope. Children run on any worker, in any order.
type Scope struct {
	owner  *Worker // constant
	call   *call   // constant
	ticket func(*Worker)

	sent []*sent // to other nodes; the owner's alone

	mu       sync.Mutex
	children []func(*Worker) // that have not begun

	pending atomic.Int64 // children that have not ended, and the body
	latch   latch        // done when pending comes to 0
	ending  atomic.Pointer[ending]
}

// Scope calls body, which adds children by [Scope.Go], and returns when body and all
// children have. Meanwhile the caller runs children itself. A panic in a child continues
// here as a [*PanicError], and a panic in body as it is, when all children have ended;
// those that have not started when one panics never will.
func (w *Worker) Scope(body func(s *Scope)) {
	if body == nil {
		panic(errNilFunc("Worker.Scope"))
	}
	s := &Scope{owner: w, call: w.call}
	s.ticket = s.runOne
	s.pending.Store(1)
	returned, last := false, false
	defer func() {
		if last {
			return
		}
		s.stop(goexit{}) // whatever it was continues by itself
		s.drain(w)       // runs no child any more
		if returned || !s.leave() {
			w.awaitAside(&s.latch)
		}
	}()
	body(s)
	returned = true
	if last = s.leave(); !last {
		s.drain(w)
		w.await(&s.latch, false)
		last = true
	}
	if e := s.ending.Load(); e != nil {
		resume(*e)
	}
	w.call.check()
}

// Go adds f to the scope. It may be called by the body and by children, with the worker
// that they were given; w is where f is queued. A pool that is closed still runs the
// children of the scopes that it runs.
//
// Cost: no allocation beyond the closure f.
func (s *Scope) Go(w *Worker, f func(w *Worker)) {
	if f == nil {
		panic(errNilFunc("Scope.Go"))
	}
	s.pending.Add(1)
	s.mu.Lock()
	s.children = append(s.children, f)
	s.mu.Unlock()
	if w.Go(s.ticket) != nil {
		s.runOne(w) // the pool takes nothing more
	}
}

// sent is a child that has a ticket of its own, in the injector of a node.
type sent struct {
	f     func(w *Worker)
	begun atomic.Bool // whoever runs it writes
}

// goOn is Go for a child that should run on a node. It is for the owner in the body.
func (s *Scope) goOn(w *Worker, node int, f func(w *Worker)) {
	s.pending.Add(1)
	child := &sent{f: f}
	s.sent = append(s.sent, child)
	if w.pool.nodes[node].queues[Normal].Push(taskOf(func(w *Worker) { s.runSent(w, child) })) {
		w.pool.notifyTask(node)
	} // else the pool takes nothing more, and drain runs it
}

func (s *Scope) runSent(w *Worker, child *sent) {
	if child.begun.CompareAndSwap(false, true) {
		s.run(w, child.f)
	}
}

// drain runs children until all have begun.
func (s *Scope) drain(w *Worker) {
	w.expose()
	for f := s.take(); f != nil; f = s.take() {
		s.run(w, f)
	}
	for _, child := range s.sent {
		s.runSent(w, child)
	}
}

func (s *Scope) runOne(w *Worker) {
	if f := s.take(); f != nil {
		s.run(w, f)
	}
}

// take returns the child that was added last, or nil.
func (s *Scope) take() func(*Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.children) - 1
	if n < 0 {
		return nil
	}
	f := s.children[n]
	s.children[n] = nil
	s.children = s.children[:n]
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
