package pool

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/pad"
)

// Local is a T for each worker that asks for one: counters, buffers, sums that are merged at the
// end (oneTBB's enumerable_thread_specific). The zero value makes zero T's. It must not be copied
// once it is used.
type Local[T any] struct {
	// New makes a T, if it is not nil; several workers may call it at the same time.
	New func() T

	mu    sync.Mutex
	cells atomic.Pointer[[]*cell[T]] // by worker ID; nil for a worker that has not asked; replaced under mu
}

// cell has cache lines of its own, because it is made to be written.
type cell[T any] struct {
	_     pad.Line
	value T
	_     pad.Line
}

// Of returns the worker's T. A function gets the same T from its beginning to its end. The caller
// must have been given w. Functions that the worker runs later get the same T too, so it should
// hold a sum or a buffer rather than one function's data. Cost: 2 ns, and an allocation the first
// time.
func (l *Local[T]) Of(w *Worker) *T {
	if cells := l.cells.Load(); cells != nil && w.id < len(*cells) && (*cells)[w.id] != nil {
		return &(*cells)[w.id].value
	}
	return l.add(w.id)
}

//go:noinline
func (l *Local[T]) add(id int) *T {
	c := new(cell[T])
	if l.New != nil {
		c.value = l.New()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var old []*cell[T]
	if p := l.cells.Load(); p != nil {
		old = *p
	}
	cells := make([]*cell[T], max(len(old), id+1))
	copy(cells, old)
	cells[id] = c
	l.cells.Store(&cells)
	return &c.value
}

// All returns the T's that were made, in no special order. While functions still use them, the
// caller must make sure that they can be read safely.
func (l *Local[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		p := l.cells.Load()
		if p == nil {
			return
		}
		for _, c := range *p {
			if c != nil && !yield(&c.value) {
				return
			}
		}
	}
}
