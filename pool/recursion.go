package pool

import (
	"errors"
	"fmt"

	"github.com/seed53057037/heist/internal/pad"
)

// Recursion is a recursive function whose calls can run at the same time. Create it
// once, with [Recursive]; it may be used by any number of goroutines and pools.
type Recursion[A, R any] struct {
	f    func(*Fork[A, R], A) R
	body func(*Worker, argument[A]) R // Call, for the frames
}

var errNoRecursion = errors.New("pool: the Recursion is nil, or was not made by Recursive")

// Fork is what the function of a [Recursion] forks with. The function gets it with its
// argument. Like a [Worker], a Fork must be used only by the function that it was given
// to, only until that function returns, and never by another goroutine.
type Fork[A, R any] struct {
	frames[argument[A], R]
	r *Recursion[A, R] // the last one that had the stack; owner only
	f func(*Fork[A, R], A) R

	_ pad.Line
}

// argument is what a fork of a [Recursion] has to do.
type argument[A any] struct{ value A }

// Recursive makes a recursion of f, a function that calls itself by [Fork.Join] or
// [Fork.JoinAll]:
//
//	var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
//		if n < 2 {
//			return n
//		}
//		x, y := f.Join(n-1, n-2)
//		return x + y
//	})
//
// All forks have the same function, so a fork writes down only its argument. That makes
// it the cheapest kind of fork: see [Fork.Join]. Recursions can be nested in one another.
func Recursive[A, R any](f func(f *Fork[A, R], a A) R) *Recursion[A, R] {
	if f == nil {
		panic(errNilFunc("Recursive"))
	}
	r := &Recursion[A, R]{f: f}
	r.body = func(w *Worker, a argument[A]) R { return r.Call(w, a.value) }
	return r
}

// Call computes the recursion's value for a. The caller must have been given w. Cost:
// some 10 ns.
func (r *Recursion[A, R]) Call(w *Worker, a A) R {
	if r == nil || r.f == nil {
		panic(errNoRecursion)
	}
	if w == nil {
		w.mustBeMine("Recursion.Call")
	}
	f := stackOf[Fork[A, R]](w)
	switch f.r {
	case r:
	case nil:
		f.change(r) // for good: no other recursion goes on with the stack
	default:
		defer f.change(f.r)
		f.change(r)
	}
	return r.f(f, a)
}

// Run computes the recursion's value for a in the calling goroutine, as a guest if it is no worker of the
// pool. See [Pool.Run] for the place and the errors.
func (r *Recursion[A, R]) Run(at Place, a A) (result R, err error) {
	if r == nil || r.f == nil {
		return result, errNoRecursion
	}
	v, err := enter(at)
	if err != nil {
		return result, err
	}
	defer v.leave(&err)
	v.does(codeOf(r.f))
	result = r.Call(v.w, a)
	v.returned = true
	return result, nil
}

// change gives the stack to another recursion with the same types.
func (f *Fork[A, R]) change(r *Recursion[A, R]) {
	if f.r == r {
		return
	}
	f.publish() // so that each frame has the body of its own recursion
	f.r, f.f, f.body = r, r.f, r.body
}

// mustBeMade panics if no recursion has made the fork. The fast path of a join does not look.
func (f *Fork[A, R]) mustBeMade(method string) {
	if f == nil || f.owner == nil {
		panic(fmt.Errorf("pool: %s was called on a Fork that is nil, or that no Recursion has made; "+
			"the function of a Recursion is given its Fork as an argument", method))
	}
}

// Worker returns the worker that runs the function.
func (f *Fork[A, R]) Worker() *Worker { return f.owner }

// Call computes the recursion's value for a in the caller. It is for a function that has one part left, and that cannot
// name the variable that holds the recursion. To end the whole computation, see [Worker.Stop].
func (f *Fork[A, R]) Call(a A) R { return f.f(f, a) }

// Join computes the recursion's values for a and b, possibly at the same time. The
// caller computes the value for a at once; b is offered to the other workers, and the
// caller computes its value too if no worker took it. While another worker computes it,
// the caller waits, and lends its place. For panics, see the function [Join].
//
// Cost: no allocation, and some nanoseconds on top of the two calls of the function, if b is
// not stolen; arguments and results are copied.
func (f *Fork[A, R]) Join(a, b A) (x, y R) {
	f.owner.debug("Fork.Join")
	d, fast := f.bottom, f.fast
	if i := uint(d) - uint(f.slow.Load()); i < uint(len(fast)) {
		fast[i].what.value = b
		f.bottom = d + 1
		x = f.f(f, a)
		f.bottom = d
		if d >= int(f.slow.Load()) {
			return x, f.f(f, b)
		}
		return x, f.pop(d, argument[A]{b})
	}
	return f.joinInPublic(a, b)
}

// joinInPublic is all of Join on the slow path, so that Join itself keeps nothing alive for it.
//
//go:noinline
func (f *Fork[A, R]) joinInPublic(a, b A) (x, y R) {
	f.mustBeMade("Fork.Join")
	d := f.bottom
	defer f.tidy(d)
	f.push(argument[A]{b})
	x = f.f(f, a)
	return x, f.pop(d, argument[A]{b})
}

// JoinAll is [Fork.Join] for any number of arguments. It puts the values into results,
// in the order of the arguments. The two must have the same length.
//
// Cost: that of Join for each argument but one. Slices of arrays that are variables of the function stay on the stack.
func (f *Fork[A, R]) JoinAll(args []A, results []R) {
	if n := len(args) - 1; n >= 0 && len(results) == len(args) && f != nil {
		d, fast := f.bottom, f.fast
		if i := uint(d) - uint(f.slow.Load()); i < uint(len(fast)) && n <= len(fast)-int(i) {
			f.owner.debug("Fork.JoinAll")
			forks := fast[i:][:n]
			for k := range forks {
				forks[k].what.value = args[n-k]
			}
			f.bottom = d + n
			results[0] = f.f(f, args[0])
			for k := 1; k <= n; k++ {
				at := d + n - k
				f.bottom = at
				if at >= int(f.slow.Load()) || f.takeBack(at) {
					results[k] = f.f(f, args[k])
				} else {
					results[k] = f.joinStolen(at)
				}
			}
			return
		}
	}
	f.joinAllInPublic(args, results)
}

// joinAllInPublic is all of JoinAll on the slow path.
func (f *Fork[A, R]) joinAllInPublic(args []A, results []R) {
	if len(args) != len(results) {
		panic(errLengths("Fork.JoinAll", "arguments", len(args), "results", len(results)))
	}
	if len(args) == 0 {
		return
	}
	f.mustBeMade("Fork.JoinAll")
	defer f.tidy(f.bottom)
	for i := len(args) - 1; i > 0; i-- {
		f.offer(argument[A]{args[i]})
	}
	d := f.bottom
	results[0] = f.f(f, args[0])
	for i := 1; i < len(args); i++ {
		d--
		results[i] = f.pop(d, argument[A]{args[i]})
	}
}
