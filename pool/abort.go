package pool

import (
	"context"
	"runtime"
	"unsafe"

	"github.com/seed53057037/heist"
)

// # Abort
//
//  1. The pool closes, as for Shutdown: it accepts nothing more from outside.
//  2. The pool is marked as aborted: it accepts no tasks from inside either. A goroutine that waits for a function that has not begun wakes up, keeps the function
//     from beginning, and gets ErrClosed.
//  3. Delays end, and their tasks go to the caller. Futures that another pool or a channel waits for get ErrClosed.
//  4. The pool is held, so workers begin nothing, and all tasks in its queues go to the caller. A task that a worker has
//     just taken has begun: the worker runs it.
//  5. The pool resumes. It finishes what has begun, and then ends.
//
// So each task either begins or goes to the caller. Until step 4 has emptied the queues, tasks begin as before, and a
// waiter of step 2 may have its answer by then. A hold before step 2 would not change that: while a task waits, a held
// pool goes on. A task that is queued only after step 4, because its submission or delay ended between the steps, begins.
// In step 2 a waiter may race with the start of the function that it waits for. Then one word says who was first: begun
// of the future, tasks of the group (group.go, "Who counts a function out"). A task whose function lost that race does
// nothing, in a worker or at the caller.

// Abort is [Pool.Shutdown], but takes functions that have not begun out of the pool. It returns them, delayed tasks
// included, for the caller to run elsewhere or to drop. Until Abort has emptied the queues, which takes some microseconds,
// and more with many tasks, functions still begin; each task either begins or is returned. Running tasks go on to their end,
// with their forks, the children of their scopes and their calls at the pool; tasks that they add are refused. A goroutine that waits for a future that has not begun, or for a group
// with functions that have not, gets [ErrClosed], maybe before the queues are empty; these functions are among those that
// Abort returns, and do nothing.
//
// Abort may follow a Shutdown that gave up. While another Close or Shutdown waits, Abort takes what has not begun all the
// same; it then returns [ErrClosed], and the other call nil, though not all that was accepted has run. After another Abort
// nothing is left to return; like Close it then returns ErrClosed.
//
// A returned function does what it would have done in the pool: one with [StartBy] looks at the time when it is
// called, and one whose context has ended does nothing.
func (p *Pool) Abort(ctx context.Context) (left []func(w *Worker), err error) {
	first, owns, err := p.beginClose(ctx, "Abort")
	if err != nil {
		return nil, err
	}
	if p.aborted.CompareAndSwap(false, true) {
		close(p.abandons)
		left = p.giveBack()
	}
	if first {
		go p.drain()
	}
	return left, p.awaitEnd(ctx, owns)
}

// giveBack takes all tasks that have not begun.
func (p *Pool) giveBack() (left []func(w *Worker)) {
	p.delays.Range(func(d, _ any) bool {
		if f := d.(*delay).end(); f != nil {
			left = append(left, f)
			p.dropped.Add(1)
			p.endDelay()
		}
		return true
	})
	p.watched.Range(func(f, _ any) bool {
		f.(Awaitable).abandon()
		return true
	})
	p.core.Hold()
	defer p.core.Resume()
	stolen, _ := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	for p.queued() > 0 {
		t := p.takeQueued(stolen)
		if t == nil { // other goroutines are at the queues
			runtime.Gosched()
		}
		for ; t != nil; t = stolen.Pop() {
			left = append(left, *(*func(*Worker))(unsafe.Pointer(&t)))
			p.dropped.Add(1)
		}
	}
	return left
}

// takeQueued takes a task from a queue, nil for none. It may put more into stolen, which is empty: like a thief it
// takes half of a run queue.
func (p *Pool) takeQueued(stolen *heist.Ring[task]) *task {
	for _, pl := range p.victims() {
		if t, _, _ := pl.stealTasks(stolen, true); t != nil {
			return t
		}
	}
	return p.takeSubmitted()
}

// takeSubmitted takes a task from an injector.
func (p *Pool) takeSubmitted() *task {
	for node := range p.nodes {
		for priority, q := range p.nodes[node].queues {
			if t, _ := q.Pop(); t != nil {
				if Priority(priority) == PriorityHigh {
					p.urgent.Add(-1)
				}
				p.room.offer(p)
				return t
			}
		}
	}
	return nil
}
