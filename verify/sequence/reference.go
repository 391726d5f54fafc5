// Package sequence makes random sequences of calls to a pool, and to a reference that does
// everything at once in the caller, and compares their answers. It also runs all fuzz
// targets of heist, each for a while.
package sequence

import (
	"github.com/seed53057037/heist/pool"
)

// reference is the simplest possible pool. It keeps no goroutines; a few numbers determine
// what a pool must answer when it has no other caller.
type reference struct {
	workers, maxWorkers int
	bound               int // 0 for none
	paused, closed      bool

	waiting int          // tasks that count for the bound, while the pool is paused
	queue   []int        // tasks that wait for Resume
	ran     map[int]int  // task -> how often it ran
	panics  int          // of tasks without a waiter
	tasks   int          // that workers came to
	skipped int          // those of them that never began
	blowsUp map[int]bool // tasks that panic
	ended   map[int]bool // tasks whose context has ended
	open    map[int]bool // tasks that may or may not begin in a serial executor, see resolve
}

func newReference(workers, maxWorkers, bound int) *reference {
	return &reference{workers: workers, maxWorkers: maxWorkers, bound: bound, ran: make(map[int]int),
		blowsUp: make(map[int]bool), ended: make(map[int]bool), open: make(map[int]bool)}
}

// full says whether there is no room for one more task that counts.
func (r *reference) full() bool { return r.bound > 0 && r.waiting >= r.bound }

// take takes a task, unless the pool is closed. Counts says whether the task counts for the bound.
func (r *reference) take(task int, counts bool) error {
	if r.closed {
		return pool.ErrClosed
	}
	if !r.paused {
		r.run(task)
		return nil
	}
	if counts {
		r.waiting++
	}
	r.queue = append(r.queue, task)
	return nil
}

// takeIfRoom is take, but fails where there is no room.
func (r *reference) takeIfRoom(task int) error {
	if !r.closed && r.full() {
		return pool.ErrFull
	}
	return r.take(task, true)
}

func (r *reference) run(task int) {
	r.tasks++
	switch {
	case r.open[task]:
	case r.ended[task]:
		r.skipped++
	default:
		r.begin(task)
	}
}

func (r *reference) begin(task int) {
	r.ran[task]++
	if r.blowsUp[task] {
		r.panics++
	}
}

// resolve says what became of an open task, once that is known.
func (r *reference) resolve(task int, ran bool) {
	if ran {
		r.begin(task)
	} else {
		r.skipped++
	}
}

func (r *reference) resume() {
	r.paused, r.waiting = false, 0
	for _, task := range r.queue {
		r.run(task)
	}
	r.queue = nil
}

func (r *reference) resize(n int) (valid bool, err error) {
	switch {
	case n < 1 || n > r.maxWorkers:
		return false, nil
	case r.closed:
		return true, pool.ErrClosed
	}
	r.workers = n
	return true, nil
}

func (r *reference) close() error {
	if r.closed {
		return pool.ErrClosed
	}
	r.resume()
	r.closed = true
	return nil
}
