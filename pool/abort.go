package pool

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
)

// # Abort
//
//  1. The pool closes, as for Shutdown: it accepts nothing more.
//  2. It is aborted from here on. Who waits for a function that has not begun is woken, keeps it from beginning, and gets ErrClosed.
//  3. Delays end, and their tasks go to the caller.
//  4. The pool is held, so that workers begin with nothing, and all tasks in its queues go to the caller. A worker that had just taken one runs
//     it: that one has begun.
//  5. The pool goes on, with what has begun, and ends when that has.
//
// So each task either begins or goes to the caller. One whose submission or delay ends between the steps is queued behind step 4, and begins. In step 2 a
// waiter may meet a function of a group or a future that begins. Then one word says who was first: begun of the future, tasks of the group.

// Abort is [Pool.Shutdown], but what has not begun never does: it is returned, delayed tasks included, for the caller to run elsewhere or to
// drop. What runs goes on to its end, with its forks and the children of its scopes. Who waits for a future that has not begun, or for a group
// of which functions have not, gets [ErrClosed]; these functions are among those that are returned, and do nothing. Abort may follow
// a Shutdown that gave up; after another Abort nothing is left to be returned, and like Close it returns [ErrClosed] then.
//
// A function that is returned does what it would have done: one with [StartBy] looks at the time when it is called, and one whose context has
// ended does nothing.
func (p *Pool) Abort(ctx context.Context) (left []func(w *Worker), err error) {
	first, err := p.beginClose(ctx, "Abort")
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
	return left, p.awaitEnd(ctx, first)
}

// giveBack takes all that has not begun.
func (p *Pool) giveBack() (left []func(w *Worker)) {
	p.delays.Range(func(d, _ any) bool {
		if d := d.(*delay); d.end() {
			left = append(left, d.f)
			p.dropped.Add(1)
			p.endDelay()
		}
		return true
	})
	p.workerSet.mu.Lock()
	p.setControl(controlHold, true)
	p.workerSet.mu.Unlock()
	defer p.Resume()
	loot, _ := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	for p.queued() > 0 {
		t := p.takeQueued(loot)
		if t == nil { // others are at the queues
			runtime.Gosched()
		}
		for ; t != nil; t = loot.Pop() {
			left = append(left, *(*func(*Worker))(unsafe.Pointer(&t)))
			p.dropped.Add(1)
		}
	}
	return left
}

// takeQueued takes a task from a queue. More may come into the ring, which is empty: a thief takes half.
func (p *Pool) takeQueued(loot *heist.Ring[task]) *task {
	for _, pl := range p.victims() {
		if t, _, _ := pl.stealTasks(loot, true); t != nil {
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

// delay is a task that waits for its time. The timer, the task's context and Abort may end that.
type delay struct {
	f func(*Worker) // constant

	mu    sync.Mutex // the first two of them need what is made after them
	over  bool
	timer *time.Timer
	stop  func() bool // keeps the context from ending it; nil if none does
}

// end says whether the caller is the one who ends it.
func (d *delay) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return false
	}
	d.over = true
	d.timer.Stop()
	if d.stop != nil {
		d.stop()
	}
	return true
}
