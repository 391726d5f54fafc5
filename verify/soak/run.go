package soak

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/pool"
)

// run is one execution of a program: its counts, and the pool's answers.
type run struct {
	*program
	pools [2]*pool.Pool         // the pool under test, and another one beside it
	sums  [2]pool.Local[uint64] // values of the leaves, by worker: two that shared a sum would lose something, and the race detector would see them
	loose atomic.Uint64         // the same for leaves that have no worker

	counts  []atomic.Uint32 // by leaf: how often it ran
	answers []atomic.Int32  // by operation: the pool's answer
	values  []atomic.Uint64 // by operation: the result, if it came to its end
	handled [2]atomic.Int64 // panics that came to the pools' handlers

	ran       atomic.Int64
	closeNow  chan struct{}  // closed when CloseAfter leaves have run
	closing   [2]atomic.Bool // a call is about to close a pool
	over      [2]atomic.Bool // and has closed it
	recursive *pool.Recursion[*op, uint64]

	faults
	fault fault
}

// answer is the pool's answer to an operation, or how the operation ended.
type answer int32

const (
	unasked  answer = iota
	accepted        // or it returned without an error
	refused         // ErrClosed or ErrFull
	stopped         // the error of a context
	failed          // an error that a function returned
	unwound         // a panic went through it
)

// boom is the panic of an operation, by its number.
type boom struct{ op int }

var (
	errStopped = errors.New("soak: the call was cancelled")
	errFailed  = errors.New("soak: a function failed")
)

// fault is a mistake that the run makes on purpose, to test that the judge finds it. The
// zero value is none.
type fault struct {
	leaf    int  // 1 + the leaf whose count is wrong
	times   int  // how often that leaf runs
	value   int  // 1 + the operation that has a wrong value
	refused int  // 1 + the operation that is recorded as refused
	panic   bool // no panic counts as handled
}

// at is where an operation is done. W is nil if the operation was handed no worker.
type at struct {
	p *pool.Pool
	w *pool.Worker
}

func (a at) place() pool.Place {
	if a.w == nil {
		return a.p
	}
	return a.w
}

// with returns the place with a context.
func (a at) with(ctx context.Context) *pool.View {
	if a.w == nil {
		return a.p.With(ctx)
	}
	return a.w.With(ctx)
}

// execute runs a program and returns when the pools are closed.
func execute(p *program, f fault) (*run, error) {
	r := &run{
		program:  p,
		counts:   make([]atomic.Uint32, p.Leaves),
		answers:  make([]atomic.Int32, p.Ops),
		values:   make([]atomic.Uint64, p.Ops),
		closeNow: make(chan struct{}),
		fault:    f,
	}
	r.recursive = pool.Recursive(r.recurse)
	if err := r.open(); err != nil {
		return nil, err
	}
	for i, o := range p.Quitters {
		r.quit(i, o)
	}
	var roots sync.WaitGroup
	for _, o := range p.Roots {
		roots.Go(func() { r.do(at{p: r.pools[0]}, o) })
	}
	done := make(chan struct{})
	go func() {
		roots.Wait()
		close(done)
	}()
	r.control(done)
	r.close()
	<-done
	r.closing[1].Store(true)
	if err := r.pools[1].Close(); err != nil {
		r.fail("Close of the other pool: %w", err)
	}
	r.over[1].Store(true)
	return r, nil
}

func (r *run) open() (err error) {
	options := []pool.Option{
		pool.WithWorkers(r.Workers), pool.WithTuning(pool.Tuning{MaxWorkers: r.MaxWorkers}),
		pool.WithTuning(pool.Tuning{Spin: r.Spin}),
		pool.WithPanicHandler(func(e *pool.PanicError) { r.handle(0, e) }),
	}
	if r.Bound > 0 {
		options = append(options, pool.WithQueueBound(r.Bound))
	}
	if r.Pinned {
		options = append(options, pool.WithPinning(pool.PinCores))
	}
	if r.Hot {
		options = append(options, pool.WithTuning(pool.Tuning{HotWorker: true}))
	}
	if r.pools[0], err = pool.New(options...); err != nil {
		return err
	}
	r.pools[1], err = pool.New(pool.WithWorkers(2), pool.WithPanicHandler(func(e *pool.PanicError) { r.handle(1, e) }))
	if err != nil {
		return errors.Join(err, r.pools[0].Close())
	}
	return nil
}

// handle is the pools' handler of panics.
func (r *run) handle(which int, e *pool.PanicError) {
	if _, ok := e.Value.(boom); !ok {
		r.fail("the handler got %v", e)
	}
	if !r.fault.panic {
		r.handled[which].Add(1)
	}
}

// control does the program's steps, and returns when it is time to close the pool.
func (r *run) control(done <-chan struct{}) {
	for _, s := range r.Steps {
		time.Sleep(s.After)
		r.step(s)
	}
	select {
	case <-r.closeNow:
	case <-done:
	}
}

func (r *run) step(s step) {
	p := r.pools[0]
	switch s.Kind {
	case stepResize:
		if err := p.Resize(s.Count); err != nil {
			r.fail("Resize(%d): %w", s.Count, err)
		}
	case stepPause:
		// Not for ever: a task may wait for a guest that waits for a task.
		ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Millisecond, errStopped)
		defer cancel()
		if err := p.Pause(ctx); err != nil && !errors.Is(err, errStopped) {
			r.fail("Pause: %w", err)
		}
		time.Sleep(s.Lasts)
		p.Resume()
	case stepStats:
		if err := consistent(p); err != nil {
			r.fail("%w", err)
		}
	}
}

// close closes the pool, which may be at work, from two goroutines. One gives up at once and
// waits again. A waiter that gets ErrClosed knows that the pool is closed, too.
func (r *run) close() {
	p := r.pools[0]
	r.closing[0].Store(true)
	var others sync.WaitGroup
	var answers [2]error
	others.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.Shutdown(ctx); errors.As(err, new(*pool.UnfinishedError)) {
			answers[0] = p.Close()
		} else {
			answers[0] = err
		}
	})
	others.Go(func() { answers[1] = p.Close() })
	others.Wait()
	r.over[0].Store(true)
	for _, err := range answers {
		if err != nil && !errors.Is(err, pool.ErrClosed) {
			r.fail("Close: %w", err)
		}
	}
	for name, err := range map[string]error{
		"Go":     p.Go(func(*pool.Worker) { r.fail("a closed pool ran a task") }),
		"Run":    p.Run(func(*pool.Worker) { r.fail("a closed pool took a guest") }),
		"Close":  p.Close(),
		"Resize": p.Resize(1),
	} {
		if !errors.Is(err, pool.ErrClosed) {
			r.fail("%s of a closed pool: %v", name, err)
		}
	}
}

// quit submits functions that end by runtime.Goexit, and waits for each from outside: a waiter
// that ran such a future in place would end with it.
func (r *run) quit(i int, o *op) {
	quitter := func(*pool.Worker) error {
		r.count(at{p: r.pools[0]}, o.First)
		runtime.Goexit()
		return nil
	}
	switch p := r.pools[0]; i % 3 {
	case 0:
		g, _ := pool.NewGroup(p)
		g.GoWorker(quitter)
		if err := g.Wait(); !errors.Is(err, pool.ErrGoexit) {
			r.fail("a group of a function that called Goexit: %v", err)
		}
	case 1:
		_, err := pool.Async(p, func(w *pool.Worker) (int, error) { return 0, quitter(w) }).Wait(context.Background())
		if !errors.Is(err, pool.ErrGoexit) {
			r.fail("a future of a function that called Goexit: %v", err)
		}
	case 2:
		ended := make(chan struct{})
		err := p.Go(func(w *pool.Worker) {
			defer close(ended)
			_ = quitter(w)
		})
		if err != nil {
			r.fail("Go: %w", err)
			return
		}
		<-ended
	}
}

// count is the first step of each leaf.
func (r *run) count(a at, leaf int) uint64 {
	v := r.valueOf(leaf)
	times := 1
	if leaf == r.fault.leaf-1 {
		times = r.fault.times
	}
	for range times {
		r.counts[leaf].Add(1)
		if a.w == nil {
			r.loose.Add(v)
		} else {
			*r.sums[r.which(a.p)].Of(a.w) += v
		}
	}
	if r.ran.Add(1) == int64(r.CloseAfter) {
		close(r.closeNow)
	}
	return v
}

func (r *run) which(p *pool.Pool) int {
	if p == r.pools[0] {
		return 0
	}
	return 1
}

// ask makes a call and records its answer for the judge.
func (r *run) ask(o *op, call func() answer) (a answer) {
	a = unwound
	defer func() { r.answers[o.ID].Store(int32(a)) }()
	a = call()
	if o.ID == r.fault.refused-1 {
		a = refused
	}
	return a
}

// answerTo translates an error into an answer, and complains if there is no reason for it.
func (r *run) answerTo(a at, o *op, err error) answer {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, pool.ErrClosed) && r.closing[r.which(a.p)].Load():
		return refused
	case errors.Is(err, pool.ErrFull) && o.Kind == trySubmit && r.Bound > 0:
		return refused
	case errors.Is(err, errStopped) && o.cancels() != never:
		return stopped
	case errors.Is(err, errFailed) && o.failing() >= 0:
		return failed
	}
	r.fail("operation %d, a %v: %w", o.ID, o.Kind, err)
	return refused
}

// task makes the function that runs a child as a task without a waiter.
func (r *run) task(o *op) func(w *pool.Worker) {
	return func(w *pool.Worker) {
		if r.over[r.which(w.Pool())].Load() {
			r.fail("operation %d began as a task when the pool was closed", o.ID)
		}
		if o.oneIn(32, whichLeaf) { // Close in a task is an error, and changes nothing
			if err := w.Pool().Close(); err == nil || errors.Is(err, pool.ErrClosed) {
				r.fail("Close inside a task: %v", err)
			}
		}
		r.do(at{w.Pool(), w}, o)
	}
}
