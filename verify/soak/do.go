package soak

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/seed53057037/heist/pool"
)

// do runs an operation and returns its value.
func (r *run) do(a at, o *op) (value uint64) {
	switch o.Kind {
	case leaf:
		value = r.leaf(a, o)
	case blowUp:
		r.count(a, o.First)
		panic(boom{o.ID})
	case sequence:
		values := make([]uint64, len(o.Children))
		for i, child := range o.Children {
			values[i] = r.do(a, child)
		}
		value = combine(values)
	case loop:
		value = r.loop(a, o)
	case compute:
		r.compute(a, o)
	case join:
		value = r.join(a.w, o)
	case both:
		x, y := joined(a.w,
			func(w *pool.Worker) uint64 { return r.do(at{a.p, w}, o.Children[0]) },
			func(w *pool.Worker) *uint64 { v := r.do(at{a.p, w}, o.Children[1]); return &v })
		value = combine([]uint64{x, *y})
	case do:
		value = r.each(o, func(fs []func(*pool.Worker)) { a.w.Do(fs...) })
	case recursion:
		value = r.recursive.Call(a.w, o)
	case scope:
		value = r.each(o, func(fs []func(*pool.Worker)) { addInTurn(a.w, fs) })
	case spread:
		value = r.spread(a, o)
	case catch:
		value = r.catch(a, o)
	case cancelled:
		value = r.cancelled(a, o)
	case guest:
		value = r.guest(a, o)
	case otherPool:
		value = r.guest(at{p: r.pools[1]}, o)
	case workerGo, poolGo, submit, trySubmit, submitOn:
		r.submit(a, o)
	case batch:
		r.batch(a, o)
	case group, plainGroup:
		value = r.group(a, o)
	case future:
		value = r.future(a, o)
	case member:
		value = r.do(a, o.Children[0])
	}
	if o.ID == r.fault.value-1 {
		value++
	}
	r.values[o.ID].Store(value)
	return value
}

// leaf counts, and then is quick, slow, or a nuisance.
func (r *run) leaf(a at, o *op) uint64 {
	v := r.count(a, o.First)
	switch o.pick(32, whichLeaf) {
	case 0:
		if err := a.p.Resize(1 + int(o.Way%uint32(r.MaxWorkers))); err != nil && a.p == r.pools[0] {
			r.answerTo(a, o, err)
		}
	case 1:
		if o.oneIn(16, whichGrain) {
			runtime.GC()
		}
	case 2:
		runtime.Gosched()
	case 3, 4:
		if a.w != nil {
			a.w.Yield()
		}
	case 5:
		if a.w != nil {
			a.w.Block(func() { time.Sleep(time.Duration(o.Way%100) * time.Microsecond) })
		}
	case 6:
		if a.w != nil {
			blockOnAnother(a.w)
		}
	case 7:
		if err := consistent(a.p); err != nil {
			r.fail("%w", err)
		}
	case 8, 9, 10:
		for until := time.Now().Add(time.Duration(o.Way%20) * time.Microsecond); time.Now().Before(until); {
		}
	}
	return v
}

// blockOnAnother waits for a goroutine.
func blockOnAnother(w *pool.Worker) {
	w.Block(func() {
		c := make(chan struct{})
		go close(c)
		<-c
	})
}

// join uses frames of one of three types, as the operation decides.
func (r *run) join(w *pool.Worker, o *op) uint64 {
	f, g := o.Children[0], o.Children[1]
	plain := func(w *pool.Worker, o *op) uint64 { return r.do(at{w.Pool(), w}, o) }
	switch o.pick(3, whichType) {
	case 0:
		x, y := pool.Join(w, plain, f, plain, g)
		return combine([]uint64{x, y})
	case 1:
		x, y := pool.Join(w, plain, f,
			func(w *pool.Worker, g [3]*op) *uint64 { v := plain(w, g[1]); return &v }, [3]*op{1: g})
		return combine([]uint64{x, *y})
	default:
		x, y := pool.Join(w,
			func(w *pool.Worker, f int) string { return fmt.Sprint(plain(w, o.Children[f])) }, 0,
			func(w *pool.Worker, g any) [2]uint64 { return [2]uint64{plain(w, g.(*op))} }, any(g))
		var parsed uint64
		if _, err := fmt.Sscan(x, &parsed); err != nil {
			r.fail("operation %d: a join returned %q", o.ID, x)
		}
		return combine([]uint64{parsed, y[0]})
	}
}

// each runs the children as functions that store their values.
func (r *run) each(o *op, together func(fs []func(*pool.Worker))) uint64 {
	values := make([]uint64, len(o.Children))
	fs := make([]func(*pool.Worker), len(o.Children))
	for i, child := range o.Children {
		fs[i] = func(w *pool.Worker) { values[i] = r.do(at{w.Pool(), w}, child) }
	}
	together(fs)
	return combine(values)
}

// addInTurn runs the functions in a scope, where each second one is added by the one
// before it.
func addInTurn(w *pool.Worker, fs []func(*pool.Worker)) {
	w.Scope(func(s *pool.Scope) {
		for i := 0; i < len(fs); i += 2 {
			s.Go(w, func(w *pool.Worker) {
				if i+1 < len(fs) {
					s.Go(w, fs[i+1])
				}
				fs[i](w)
			})
		}
	})
}

// recurse is the function of the recursion. It stays in the recursion as long as operations
// are recursions.
func (r *run) recurse(f *pool.Fork[*op, uint64], o *op) uint64 {
	if o.Kind != recursion {
		return r.do(at{f.Worker().Pool(), f.Worker()}, o)
	}
	values := make([]uint64, len(o.Children))
	if len(values) == 2 {
		values[0], values[1] = f.Join(o.Children[0], o.Children[1])
	} else {
		f.JoinAll(o.Children, values)
	}
	value := combine(values)
	r.values[o.ID].Store(value)
	return value
}

func (r *run) spread(a at, o *op) uint64 {
	values := make([]uint64, len(o.Children))
	place := a.place()
	if o.oneIn(3, whichPlace) {
		place = a.p
	}
	said := r.ask(o, func() answer {
		return r.answerTo(a, o, pool.ForRange(place, len(values), func(w *pool.Worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				values[i] = r.do(at{w.Pool(), w}, o.Children[i])
			}
		}, pool.Grain(1)))
	})
	if said == refused {
		return valueRefused
	}
	return combine(values)
}

// catch recovers the panic of its child, which must be a boom of this child and nothing
// else. A cancelled call unwinds by a panic that is let through.
func (r *run) catch(a at, o *op) (value uint64) {
	r.ask(o, func() (said answer) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			b, known := boomOf(v)
			if !known {
				said = unwound
				panic(v)
			}
			if b.op < o.ID || b.op >= o.End {
				r.fail("operation %d caught the panic of operation %d", o.ID, b.op)
			}
			value, said = valueCaught, failed
		}()
		value = r.do(a, o.Children[0])
		return accepted
	})
	return value
}

func boomOf(recovered any) (boom, bool) {
	if e, ok := recovered.(*pool.PanicError); ok {
		recovered = e.Value
	}
	b, ok := recovered.(boom)
	return b, ok
}

func (r *run) cancelled(a at, o *op) (value uint64) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	child := func(w *pool.Worker) { value = r.do(at{w.Pool(), w}, o.Children[0]) }
	body := child
	switch o.cancels() {
	case before:
		cancel(errStopped)
	case within:
		body = func(w *pool.Worker) { w.Do(func(*pool.Worker) { cancel(errStopped) }, child) }
	case byTimer:
		timer := time.AfterFunc(time.Duration(o.Way%300)*time.Microsecond, func() { cancel(errStopped) })
		defer timer.Stop()
	}
	at := a.with(ctx)
	if o.oneIn(4, whichPlace) {
		at = a.p.With(ctx)
	}
	return r.valueAfter(&value, r.ask(o, func() answer { return r.answerTo(a, o, at.Run(body)) }))
}

// valueAfter is the value of an operation after its call got an answer. Value is the child's.
func (r *run) valueAfter(value *uint64, said answer) uint64 {
	switch said {
	case refused:
		return valueRefused
	case stopped:
		return valueStopped
	case failed:
		return valueFailed
	}
	return *value
}

func (r *run) guest(a at, o *op) (value uint64) {
	return r.valueAfter(&value, r.ask(o, func() answer {
		return r.answerTo(a, o, a.p.Run(func(w *pool.Worker) { value = r.do(at{a.p, w}, o.Children[0]) }))
	}))
}

// options are the options of a task.
func (o *op) options() (options []pool.TaskOption) {
	switch o.pick(4, whichPriority) {
	case 0:
		options = append(options, pool.PriorityHigh)
	case 1:
		options = append(options, pool.PriorityLow)
	}
	if o.oneIn(3, whichDelay) {
		options = append(options, pool.Delay(time.Duration(o.Way%500)*time.Microsecond))
	}
	return options
}

// startBy is a deadline that the task may miss; f runs in either case.
func (o *op) startBy(f func(*pool.Worker)) pool.TaskOption {
	return pool.StartBy(time.Now().Add(time.Duration(int(o.Way%200)-50)*time.Microsecond), f)
}

// submit gives the child to the pool as a task.
func (r *run) submit(a at, o *op) {
	f, ctx, options := r.task(o.Children[0]), context.Background(), o.options()
	if o.oneIn(3, whichDeadline) {
		options = append(options, o.startBy(f))
	}
	r.ask(o, func() answer {
		var err error
		switch o.Kind {
		case workerGo:
			err = a.w.Go(f)
		case poolGo:
			err = a.p.Go(f)
		case submit:
			err = a.p.Submit(ctx, f, options...)
		case trySubmit:
			err = a.p.TrySubmit(f, options...)
		case submitOn:
			err = a.p.Submit(ctx, f, append(options, pool.OnNode(a.p.Nodes()[0]))...)
		}
		return r.answerTo(a, o, err)
	})
}

// batch submits all members at once. The pool takes the first ones of them.
func (r *run) batch(a at, o *op) {
	fs := make([]func(*pool.Worker), len(o.Children))
	for i, m := range o.Children {
		fs[i] = r.task(m)
	}
	queued, err := a.p.SubmitAll(context.Background(), fs)
	r.answerTo(a, o, err)
	if err == nil && queued != len(fs) {
		r.fail("operation %d: SubmitAll queued %d of %d without an error", o.ID, queued, len(fs))
	}
	for i, m := range o.Children {
		said := refused
		if i < queued {
			said = accepted
		}
		r.answers[m.ID].Store(int32(said))
	}
}

// group runs its members in a group. One of them may return an error.
func (r *run) group(a at, o *op) uint64 {
	values := make([]uint64, len(o.Children))
	g, ctx := pool.NewGroup(a.p)
	if o.oneIn(2, whichLimit) {
		g.SetLimit(1 + int(o.Way%3))
	}
	said := r.ask(o, func() answer {
		for i, m := range o.Children {
			r.addTo(a, g, o, m, func(a at) error {
				values[i] = r.do(a, m)
				if i == o.failing() {
					return fmt.Errorf("member %d: %w", i, errFailed)
				}
				return nil
			})
		}
		return r.answerTo(a, o, g.Wait())
	})
	if ctx.Err() == nil {
		r.fail("operation %d: the context of a group did not end", o.ID)
	}
	value := combine(values)
	return r.valueAfter(&value, said)
}

func (r *run) addTo(a at, g *pool.Group, o, m *op, f func(a at) error) {
	plain := func() error { return f(at{p: a.p}) }
	said := accepted
	switch {
	case o.Kind == group:
		g.GoWorker(func(w *pool.Worker) error { return f(at{w.Pool(), w}) })
	case m.oneIn(3, whichLimit):
		if !g.TryGo(plain) {
			said = refused
		}
	default:
		g.Go(plain)
	}
	r.answers[m.ID].Store(int32(said))
}

// future waits with an impatient context first.
func (r *run) future(a at, o *op) (value uint64) {
	f := pool.Async(a.p, func(w *pool.Worker) (uint64, error) {
		v := r.do(at{w.Pool(), w}, o.Children[0])
		if o.failing() >= 0 {
			return 0, errFailed
		}
		return v, nil
	}, o.options()...)
	return r.valueAfter(&value, r.ask(o, func() answer {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.Way%50)*time.Microsecond)
		defer cancel()
		v, err := f.Wait(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			v, err = f.Wait(context.Background())
		}
		if !f.Ready() {
			r.fail("operation %d: a future that was waited for is not done", o.ID)
		}
		value = v
		return r.answerTo(a, o, err)
	}))
}

// joined is pool.Join for closures.
func joined[X, Y any](w *pool.Worker, f func(*pool.Worker) X, g func(*pool.Worker) Y) (X, Y) {
	return pool.Join(w, apply[X], f, apply[Y], g)
}

func apply[R any](w *pool.Worker, f func(*pool.Worker) R) R { return f(w) }
