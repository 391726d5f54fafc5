package par

import (
	"fmt"
	"runtime/debug"

	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/pool"
)

func errNilFunc(function string) error {
	return fmt.Errorf("par: %s was given a nil function", function)
}

func errLengths(function, some string, n int, others string, m int) error {
	return fmt.Errorf("par: %s was given %d %s and %d %s; there must be as many", function, n, some, m, others)
}

// must is for calls at a worker, which fail only for bad arguments.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// fewElements is how many elements an algorithm that always takes them one after the other gives to alone.
const fewElements = 256

// alone calls f, which is short, in the caller alone, which then is no guest: that would cost 250 ns. Nothing ends f early.
func alone(at pool.Place, f func()) error {
	if err := pool.Do(at); err != nil {
		return err
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		switch v := panics.Recovered(recover()); {
		case v == nil: // a Goexit goes on by itself
		case pool.IsUnwind(v):
			panic(v)
		default:
			panic(asPanicError(v))
		}
	}()
	f()
	returned = true
	return nil
}

// rest runs f for ranges that together are those items from done to n-1 that [pool.Probe] has left. A call of f has no cost of its own.
func rest(at pool.Place, done, n int, others pool.Granularity, f func(lo, hi int)) error {
	return pool.ForBody(at, n-done, restBody{done, f}, others)
}

type restBody struct {
	done int
	f    func(lo, hi int)
}

func (b restBody) Func() any { return nil } // Probe was given the user's

func (b restBody) Run(lo, hi int) { b.f(b.done+lo, b.done+hi) }

// restOfRanges is rest for a function of the user's that takes ranges, of which a call may have a cost of its own.
func restOfRanges(at pool.Place, done, n int, others pool.Granularity, f func(w *pool.Worker, lo, hi int)) error {
	return pool.ForRange(at, n-done, func(w *pool.Worker, lo, hi int) { f(w, done+lo, done+hi) }, others)
}

// asPanicError is called in a deferred call, while the stack of the panic is still there.
func asPanicError(recovered any) *pool.PanicError {
	if e, ok := recovered.(*pool.PanicError); ok {
		return e
	}
	return &pool.PanicError{Value: recovered, Stack: debug.Stack()}
}
