package pool

// Join runs f(w, a) and g(w, b), possibly at the same time, and returns both results.
// The caller runs f at once; g is offered to the other workers, and the caller runs
// g too if no worker took it. While another worker runs g, the caller waits, and
// lends its place.
//
// A panic in g continues in the caller; if another worker ran g, it arrives as a
// [*PanicError] with the value and that worker's stack. If f and g both panic, f's
// panic is the one that arrives. A runtime.Goexit in a stolen g continues in the
// caller too.
//
// A panic in f leaves g behind. g is taken back, or waited for if it was stolen, when
// the panic reaches the enclosing [Pool.Run], task, group function or stolen fork. If
// user code recovers the panic before that, this happens at the next enclosing join
// with the same types of g's argument and result. (A deferred call in Join would do it
// at once, as it does in [Worker.Do], and cost 2 ns.)
//
// Join may be called by the function that was given w. Cost: no allocation and some nanoseconds on top
// of the calls of f and g, if g is not stolen; arguments and results are copied, so
// large ones are better passed by pointer. To join closures, pass them as the arguments
// of a function that calls its argument. An outermost join, and one whose g is stolen, names a nil function in
// its panic; to look for one in each join, or for a nil w, would cost 3%, so elsewhere it is a nil dereference in Join.
func Join[A, B, X, Y any](w *Worker, f func(*Worker, A) X, a A, g func(*Worker, B) Y, b B) (x X, y Y) {
	w.debug("Join")
	if s, ok := w.hot.(*frames[application[B, Y], Y]); ok {
		d, fast := s.bottom, s.fast
		if i := uint(d) - uint(s.slow.Load()); i < uint(len(fast)) {
			what := &fast[i].what
			what.f, what.arg = g, b // one by one: together they may be too much for registers
			s.bottom = d + 1
			x = f(w, a)
			s.bottom = d
			if d >= int(s.slow.Load()) {
				return x, g(w, b)
			}
			return x, s.pop(d, application[B, Y]{g, b})
		}
	}
	return joinInPublic(w, f, a, g, b)
}

// joinInPublic is all of Join on the slow path, so that Join itself keeps nothing alive for it.
//
//go:noinline
func joinInPublic[A, B, X, Y any](w *Worker, f func(*Worker, A) X, a A, g func(*Worker, B) Y, b B) (x X, y Y) {
	if f == nil || g == nil {
		panic(errNilFunc("Join"))
	}
	if w.pool == nil {
		w.mustBeMine("Join")
	}
	s := applications[B, Y](w)
	w.hot = s
	d := s.bottom
	defer s.tidy(d)
	s.push(application[B, Y]{g, b})
	x = f(w, a)
	return x, s.pop(d, application[B, Y]{g, b})
}

// application is a function and its argument: what the fork of a [Join] has to do.
type application[B, Y any] struct {
	f   func(*Worker, B) Y
	arg B
}

func applications[B, Y any](w *Worker) *frames[application[B, Y], Y] {
	s := stackOf[frames[application[B, Y], Y]](w)
	if s.body == nil {
		s.body = func(w *Worker, g application[B, Y]) Y {
			if g.f == nil { // the fast path has not looked
				panic(errNilFunc("Join"))
			}
			return g.f(w, g.arg)
		}
	}
	return s
}

// action is what a fork of [Worker.Do] has to do.
type action func(*Worker)

//go:noinline
func actions(w *Worker) *frames[action, struct{}] {
	s := stackOf[frames[action, struct{}]](w)
	if s.body == nil {
		s.body = func(w *Worker, f action) (none struct{}) {
			f(w)
			return none
		}
	}
	return s
}

// Do runs the functions, possibly at the same time, and returns when all are done.
// It is [Join] for any number of functions that return nothing; the first one runs
// at once in the caller. A panic in one of them continues in the caller when none of
// them runs any more; functions that have not started never will.
//
// Cost: that of the closures. A closure that captures a variable and is passed to
// Do is allocated, and so is a variable that it assigns to.
func (w *Worker) Do(fs ...func(*Worker)) {
	if len(fs) == 0 {
		return
	}
	for _, f := range fs {
		if f == nil {
			panic(errNilFunc("Worker.Do"))
		}
	}
	w.mustBeMine("Worker.Do")
	s, ok := w.hot.(*frames[action, struct{}])
	if !ok {
		s = actions(w)
		w.hot = s
	}
	base := s.bottom
	defer s.end(base) // nothing is left, unless a function panicked
	for i := len(fs) - 1; i > 1; i-- {
		s.offer(fs[i])
	}
	if len(fs) > 1 {
		s.pushTo(fs[1], true) // a closure costs so much that its function is likely to be long
	}
	fs[0](w)
	for i := 1; i < len(fs); i++ {
		s.pop(base+len(fs)-1-i, fs[i])
	}
}
