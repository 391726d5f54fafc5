package pool

import "fmt"

// # Misuse
//
// Only the function that was given a worker may use it: a loop's body that uses the worker of the function
// around it shares fork stacks with another goroutine, and work gets lost. Methods check the calling
// goroutine always where that costs nothing beside the rest (calls, scopes, published forks, waits), and
// elsewhere only in builds with the tag heistdebug. Functions that return an error return one for misuse; the
// others panic with an error.

func (w *Worker) isMine() bool { return goroutineIDIsSlow || w.goroutine == goroutineID() }

// mustBeMine panics unless the worker's own goroutine calls it.
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
		"take the worker that your own function is given, or the pool; a build with the tag heistdebug finds each such use", method)
}
