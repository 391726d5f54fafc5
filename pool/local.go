package pool

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/pad"
)

// # Values per worker
//
// A **cell** holds one T of a [Local]. At any time a cell is on the list of one worker, its **holder**, or on the
// Local's list of free cells. The holder alone reads and writes its list, so [Local.Of] needs no atomic operation.
// The cells pass from one holder to the next through the list of free ones, under its lock.
//
//  1. A worker takes a cell when a function asks for a T and the worker holds none. It marks the cell with the
//     number of its job, at this and at each later request.
//  2. A worker that begins to wait frees the cells that the job in which it waits has not asked for. That job keeps
//     the others: what Of has returned is its own until it ends.
//  3. A worker that becomes idle, and a guest that leaves, frees all its cells.
//
// A cell belongs to the **cells** that its Local had when it was made. They are made at the first use of the Local, and no
// two Locals ever have the same. So cells that workers still hold for an earlier Local at the same address, or for an
// earlier value of the same variable, are not taken for those of the new one.
//
// Between two jobs a worker keeps its cells, or short tasks would pass them to and fro. By rules 2 and 3 a cell that
// is not free belongs to a worker that computes, or to a function that asked for it and waits.

// Local is a T for each worker that computes: counters, buffers, sums that are merged at the end (oneTBB's
// enumerable_thread_specific). The zero value makes zero T's. One Local may serve workers of several pools. It must
// not be copied once it is used. To begin again, assign a new one, when no function uses it: l = pool.Local[int]{}. A worker keeps the T's
// that a function has asked for until the function has ended, and longer if it does not wait. So do not make one for each of thousands of loops in one function.
type Local[T any] struct {
	// New makes a T, if it is not nil; several workers may call it at the same time.
	New func() T

	cells atomic.Pointer[cells] // nil before the first use; the first worker that asks writes, once
}

// cells holds the cells of a Local.
type cells struct {
	mu   sync.Mutex
	free *cellHead                // under mu
	all  atomic.Pointer[cellHead] // the cell that was made last; under mu, any goroutine reads
}

// cellHead is the part of a cell that does not depend on the type.
type cellHead struct {
	of     *cells    // constant
	value  any       // the cell's *T; constant
	before *cellHead // the cell that was made before this one; constant
	next   *cellHead // on the list that the cell is on; its holder writes, or under of.mu if it is free
	job    uintptr   // the holder's job that asked last; holder only
}

// cell has cache lines of its own, because it is made to be written.
type cell[T any] struct {
	_ pad.Line
	cellHead
	content T
	_       pad.Line
}

// Of returns the worker's T. A function gets the same T from its beginning to its end, and no other function has it
// meanwhile, unless the worker runs it inside of the first: the functions of a [Join] that is not stolen, and the
// bodies of a loop, share the T of their caller. Functions that come later get the same T too, from any worker, so it
// should hold a sum or a buffer rather than one function's data. The caller must have been given w.
//
// A function that asks before it waits keeps its T during the wait, and the worker in its stead gets another one. So
// where thousands wait at a time, ask after the wait.
//
// Cost: 2 ns. A new worker's first call takes a lock, and makes a T only if others hold all that were made.
func (l *Local[T]) Of(w *Worker) *T {
	if w == nil {
		w.mustBeMine("Local.Of")
	}
	s := l.cells.Load()
	for c := w.cells; c != nil; c = c.next {
		if c.of == s {
			c.job = w.jobs.Own()
			return c.value.(*T)
		}
	}
	return l.take(w)
}

// take gives the worker a free cell, or a new one.
//
//go:noinline
func (l *Local[T]) take(w *Worker) *T {
	s := l.cells.Load()
	if s == nil {
		l.cells.CompareAndSwap(nil, new(cells))
		s = l.cells.Load()
	}
	s.mu.Lock()
	c := s.free
	if c != nil {
		s.free = c.next
	}
	s.mu.Unlock()
	if c == nil {
		c = l.add(s)
	}
	c.next, c.job = w.cells, w.jobs.Own()
	w.cells = c
	return c.value.(*T)
}

func (l *Local[T]) add(s *cells) *cellHead {
	c := new(cell[T])
	if l.New != nil {
		c.content = l.New()
	}
	c.of, c.value = s, &c.content
	s.mu.Lock()
	defer s.mu.Unlock()
	c.before = s.all.Load()
	s.all.Store(&c.cellHead)
	return &c.cellHead
}

// freeCells frees the cells that the worker's job has not asked for, or all cells.
func (w *Worker) freeCells(all bool) {
	next := w.cells
	w.cells = nil
	for c := next; c != nil; c = next {
		next = c.next
		if !all && c.job == w.jobs.Own() {
			c.next, w.cells = w.cells, c
			continue
		}
		c.of.mu.Lock()
		c.next, c.of.free = c.of.free, c
		c.of.mu.Unlock()
	}
}

// All returns every T that was made, in no special order. There are at most as many as functions were at a time that
// computed, or had asked for a T before they waited. All sees the T's of running and waiting functions too, so the
// caller must make sure that they can be read safely; when all functions that asked have ended, that is so.
func (l *Local[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		s := l.cells.Load()
		if s == nil {
			return
		}
		for c := s.all.Load(); c != nil; c = c.before {
			if !yield(c.value.(*T)) {
				return
			}
		}
	}
}
