package pool

import "sync/atomic"

// Scope is a number of functions, its children, that run before [Worker.Scope]
// returns. A child may add others, and it may outlive the function that added it, but
// not the scope. Children are tasks: they run on any worker, in any order.
type Scope struct {
	pool    *Pool
	owner   *Worker
	call    *call
	pending atomic.Int64 // children that have not ended, and the body
	latch   latch        // done when pending comes to 0
	ending  atomic.Pointer[scopeEnding]
}

// scopeEnding is the first ending of a child that did not return.
type scopeEnding struct{ ending }

// Scope calls body, which adds children by [Scope.Go], and returns when body and all
// children have. Meanwhile the caller runs tasks itself. A panic in a child continues
// here as a [*PanicError], and a panic in body as it is, when all children have ended;
// those that have not started when one panics never will.
func (w *Worker) Scope(body func(s *Scope)) {
	if body == nil {
		panic(errNilFunc("Worker.Scope"))
	}
	s := &Scope{pool: w.pool, owner: w, call: w.call}
	s.pending.Store(1)
	returned, alone := false, false
	defer func() {
		if !returned { // whatever it was continues by itself
			s.stop(goexit{})
			alone = s.leave()
		}
		if !alone {
			w.awaitAside(&s.latch)
		}
	}()
	body(s)
	returned = true
	if alone = s.leave(); !alone {
		w.await(&s.latch, true)
		alone = true
	}
	if e := s.ending.Load(); e != nil {
		resume(e.ending)
	}
	w.call.check()
}

// Go adds f to the scope. It may be called by the body and by children, with the worker
// that they were given; w is where f is queued. A pool that is closed still runs the
// children of the scopes that it runs.
//
// Cost: one allocation beyond the closure f.
func (s *Scope) Go(w *Worker, f func(w *Worker)) {
	if f == nil {
		panic(errNilFunc("Scope.Go"))
	}
	s.pending.Add(1)
	child := func(w *Worker) { s.run(w, f) }
	if w.Go(child) != nil {
		child(w) // the pool is closing and takes nothing more
	}
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

func (s *Scope) stop(e ending) { s.ending.CompareAndSwap(nil, &scopeEnding{e}) }

// leave ends a child, or the body, and says whether it was the last.
func (s *Scope) leave() bool { return s.pending.Add(-1) == 0 }
