package pool

import "fmt"

// # Misuse
//
// A worker is its function's, and nobody else's: the body of a loop that uses the worker of the
// function around it shares fork stacks with another goroutine, and things get lost. Where a look
// at the calling goroutine costs nothing beside the rest (calls, scopes, forks that are published,
// waits), it is taken always, and elsewhere in builds with the tag heistdebug. Calls that return an
// error return one for that; the others panic.

func (w *Worker) isMine() bool { return goroutineIDIsSlow || w.goroutine == goroutineID() }

// mustBeMine panics if another goroutine than the worker's calls.
func (w *Worker) mustBeMine(method string) {
	if w == nil || w.pool == nil {
		panic(fmt.Errorf("pool: %s was called with a worker that is nil, or that no pool has made; "+
			"a function of the pool is given its worker as an argument", method))
	}
	if w.isMine() {
		return
	}
	panic(errOthers(method))
}

func errOthers(method string) error {
	return fmt.Errorf("pool: %s was called with a worker of another function: a worker must be used "+
		"only by the function that it was given to, in the same goroutine, and until that returns; "+
		"take the worker that your own function is given, or the pool", method)
}
