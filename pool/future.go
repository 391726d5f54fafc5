package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// waiters are those who wait for something that happens once. Who makes it happen calls
// release, after it has become visible; who waits says by a condition whether it has.
type waiters struct {
	mu      sync.Mutex
	latches []waiting     // workers, which help others meanwhile
	over    chan struct{} // closed for everybody else; nil if nobody waits
}

type waiting struct {
	latch *latch
	w     *Worker
}

// release lets all waiters go, unless it finds, under the lock that waiters take, that
// they must wait on.
func (ws *waiters) release(must func() bool) {
	ws.mu.Lock()
	if must != nil && must() {
		ws.mu.Unlock()
		return
	}
	latches, over := ws.latches, ws.over
	ws.latches, ws.over = nil, nil
	ws.mu.Unlock()
	for _, l := range latches {
		l.latch.complete(l.w)
	}
	if over != nil {
		close(over)
	}
}

// wait returns when done does, which is asked under the lock, or with the cause when ctx
// ends before. A worker runs other tasks meanwhile.
func (ws *waiters) wait(p *Pool, ctx context.Context, done func() bool) error {
	goroutine := goroutineID()
	p.expose(goroutine)
	w := p.workerOf(goroutine)
	for {
		ws.mu.Lock()
		if done() {
			ws.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil {
			ws.mu.Unlock()
			return context.Cause(ctx)
		}
		if w == nil {
			if ws.over == nil {
				ws.over = make(chan struct{})
			}
			over := ws.over
			ws.mu.Unlock()
			select {
			case <-over:
			case <-ctx.Done():
			}
			continue
		}
		l := new(latch)
		ws.latches = append(ws.latches, waiting{l, w})
		ws.mu.Unlock()
		w.awaitContext(ctx, l)
		if ctx.Err() != nil {
			ws.forget(l)
		}
	}
}

// forget takes a latch off the list that nobody waits for any more.
func (ws *waiters) forget(l *latch) {
	ws.mu.Lock()
	ws.latches = slices.DeleteFunc(ws.latches, func(other waiting) bool { return other.latch == l })
	ws.mu.Unlock()
}

// awaitContext is await with tasks, which ends with ctx too.
func (w *Worker) awaitContext(ctx context.Context, l *latch) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { l.complete(w) })()
	}
	w.await(l, true)
}

// Future is the result of a function that runs in a pool. Create it with [Async].
type Future[T any] struct {
	pool *Pool

	waiters
	done     bool // under waiters.mu, like the rest
	value    T
	err      error
	panicked *PanicError
}

// Async queues f to be run by the pool, with the options of [Pool.Submit], and returns its
// future. If the pool does not take it, the future has the error already; if f is too late
// for a [StartBy], it has [ErrLate] when the function for that case has returned. It never
// blocks.
//
// Cost: two allocations beyond the closure f.
func Async[T any](p *Pool, f func(w *Worker) (T, error), options ...TaskOption) *Future[T] {
	future := &Future[T]{pool: p}
	if f == nil {
		future.end(errNilFunc("Async"))
	} else if o, task, err := p.prepare("Async", future.task(f), options); err != nil {
		future.end(err)
	} else {
		if o.deadline { // late or not, it is over then
			task = inTime(future.task(f), o.startBy, future.task(func(w *Worker) (none T, err error) {
				o.late(w)
				return none, ErrLate
			}))
		}
		if err := p.accept(task, o); err != nil {
			future.end(err)
		}
	}
	return future
}

// ErrLate is the error of a [Future] whose function was not begun in time, see [StartBy].
var ErrLate = errors.New("pool: the function was not begun by its deadline (StartBy)")

// task runs f and keeps what comes of it.
func (t *Future[T]) task(f func(w *Worker) (T, error)) func(*Worker) {
	return func(w *Worker) {
		var value T
		m := w.mark()
		err := ErrGoexit
		defer func() {
			var panicked *PanicError
			if v := recover(); v != nil {
				panicked, err = newPanicError(v), nil
			}
			w.unwind(m)
			t.mu.Lock()
			t.value, t.err, t.panicked = value, err, panicked
			t.done = true
			t.mu.Unlock()
			t.release(nil)
		}()
		value, err = f(w)
	}
}

func (t *Future[T]) end(err error) {
	t.mu.Lock()
	t.err, t.done = err, true
	t.mu.Unlock()
}

// Wait returns what the function has returned, when it has, or the cause when ctx ends
// before that; the function is not stopped by that. If it panicked, Wait panics with a
// [*PanicError]; if it called runtime.Goexit, the error is [ErrGoexit].
//
// Anybody may call it, any number of times. Inside a task it runs other tasks meanwhile,
// as [Group.Wait] does.
func (t *Future[T]) Wait(ctx context.Context) (T, error) {
	if err := t.wait(t.pool, ctx, func() bool { return t.done }); err != nil {
		var none T
		return none, err
	}
	if t.panicked != nil {
		panic(t.panicked)
	}
	return t.value, t.err
}

// Done says whether the function has returned, so that Wait would not wait.
func (t *Future[T]) Done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}
