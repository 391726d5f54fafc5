package pool

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/pad"
)

// Local is a T for each worker that asks for one: counters, buffers, sums that are merged in the
// end (oneTBB's enumerable_thread_specific). The zero value makes zero T's. It must not be copied
// once it is used.
type Local[T any] struct {
	// New makes a T, if it is not nil; several workers may call it at the same time.
	New func() T

	mu    sync.Mutex
	cells atomic.Pointer[[]*cell[T]] // by ID; nil where nobody asked; replaced under mu
}

// cell is on cache lines of its own: it is there to be written.
type cell[T any] struct {
	_     pad.Line
	value T
	_     pad.Line
}

// Of returns the worker's T, which stays the same for a function from its beginning to its end.
// The caller must have been given w. A function that the worker runs later gets the same T, so what
// is in it should be a sum or a buffer rather than a function's own. Cost: 2 ns, and an allocation
// the first time.
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
// caller must see to it that they may be read.
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
