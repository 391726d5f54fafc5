package par

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
)

// ForSeq calls f with each value of the sequence, some at the same time, and returns when
// all calls have returned. The sequence itself runs in the caller, which handles values
// too: it begins alone, and after 16 microseconds, if a value takes 30 ns or more, it deals batches to the other workers, up to four to each. A value waits
// until its batch is full, which has up to 4096 values, or one if the sequence is slow. Where a fast sequence becomes slow, up
// to 8 slow values wait for one another. So a sequence must not
// wait for f of a value that it has yielded, nor f for that of another value. A panic in f
// or in the sequence continues in the caller as a [*pool.PanicError].
//
// Cost: that of a guest and a scope, 0.5 to 1 microsecond, and 10 to 20 ns for each value.
func ForSeq[T any](at pool.Place, values iter.Seq[T], f func(T)) error {
	if f == nil {
		return errNilFunc("ForSeq")
	}
	return dealOut(at, values, forSeq[T](f))
}

// forSeq is what ForSeq does with values.
type forSeq[T any] func(T)

func (f forSeq[T]) first(few []T) {
	for _, v := range few {
		f(v)
	}
}

func (f forSeq[T]) batch(values []T) (handle func()) { return func() { f.first(values) } }

// MapSeq returns f of each value of the sequence, in order. See [ForSeq]. Cost: as there, and the results of the batches: some microsecond, and some 40 ns
// for each value.
func MapSeq[T, R any](at pool.Place, values iter.Seq[T], f func(T) R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("MapSeq")
	}
	m := &mapSeq[T, R]{f: f, results: []R{}}
	switch err := dealOut(at, values, m); {
	case err != nil:
		return nil, err
	case len(m.parts) == 0:
		return slices.Clip(m.results), nil
	}
	return slices.Concat(slices.Insert(m.parts, 0, m.results)...), nil
}

// mapSeq is what MapSeq does with values, and what comes of it.
type mapSeq[T, R any] struct {
	f       func(T) R
	results []R   // of the first values
	parts   [][]R // of the batches after them
}

func (m *mapSeq[T, R]) first(few []T) {
	out := m.results
	for _, v := range few {
		out = append(out, m.f(v))
	}
	m.results = out
}

func (m *mapSeq[T, R]) batch(values []T) (handle func()) {
	part := make([]R, len(values))
	m.parts = append(m.parts, part)
	return func() {
		for i, v := range values {
			part[i] = m.f(v)
		}
	}
}

// handler is what a form does with values. Its methods are called in the caller.
type handler[T any] interface {
	// first handles the first values, a few at a time.
	first(few []T)
	// batch is called for the others, in order. The function that it returns handles the batch, in the caller or on another worker.
	batch(values []T) (handle func())
}

// dealOut gives the first values to the handler in the caller, and deals the others out in batches.
func dealOut[T any](at pool.Place, values iter.Seq[T], h handler[T]) error {
	if values == nil {
		return errors.New("par: ForSeq or MapSeq was given a nil sequence")
	}
	target := heist.TicksIn(batchTime)
	d := &dealer[T]{at: at, handler: h, values: values, target: target, alone: true, size: mostBatch, look: 1, step: 1, patience: target}
	d.batch = d.few[:0]
	return pool.Do(at, d.run)
}

// dealer deals values out.
type dealer[T any] struct {
	at      pool.Place  // constant
	handler handler[T]  // constant
	values  iter.Seq[T] // constant
	target  int64       // constant: how long a batch should take, in heist.Ticks

	worker *pool.Worker
	call   pool.Call
	batch  []T
	few    [mostUnseen]T // where batch begins
	size   int           // at most how many values it gets
	look   int           // how many it has at the next turn
	step   int           // how many values the caller takes without a look at the clock
	turned int64         // when the last turn was over

	alone    bool  // the caller gives what it has to handler.first
	began    int64 // when it began to count
	count    int64 // how many values it has handled so since
	patience int64 // how long it does so before it judges them

	pending atomic.Int64 // batches that were given to other workers and have not ended
	failed  atomic.Bool  // one of these panicked
}

func (d *dealer[T]) run(w *pool.Worker) {
	d.worker, d.call = w, w.Call() // values may run the body of take's loop in a call of its own
	w.Scope(d.take)
}

// take takes all values.
func (d *dealer[T]) take(s *pool.Scope) {
	ctx := d.at.Context()
	ends := ctx != context.Background()
	d.began = heist.Ticks()
	d.turned = d.began
	for value := range d.values {
		if ends && ctx.Err() != nil && d.call.Cancelled() {
			return
		}
		if d.batch = append(d.batch, value); len(d.batch) < d.look {
			continue
		}
		if d.failed.Load() || d.call.Cancelled() {
			return
		}
		d.turn(s)
	}
	switch { // what is left is the caller's, which has nothing else to do
	case len(d.batch) > 0 && d.call.Cancelled():
	case d.alone:
		d.handler.first(d.batch)
	case len(d.batch) > 0:
		d.handler.batch(d.batch)()
	}
}

// turn does what there is to do when the batch has look values.
func (d *dealer[T]) turn(s *pool.Scope) {
	slow := heist.Ticks()-d.turned > d.target
	if d.step = min(2*d.step, mostUnseen); slow {
		d.step = 1
	}
	switch {
	case d.alone:
		d.handler.first(d.batch)
		d.count += int64(len(d.batch))
		d.batch = d.batch[:0]
	case slow || len(d.batch) >= d.size:
		d.deal(s)
	}
	if d.turned = heist.Ticks(); d.alone {
		d.judge()
	}
	d.look = min(len(d.batch)+d.step, d.size)
}

// judge decides whether the caller goes on alone.
func (d *dealer[T]) judge() {
	switch took := d.turned - d.began; {
	case took <= d.patience:
	case d.count*d.target > took*mostAlone: // these are not worth dealing out, but others may follow
		d.began, d.count, d.patience = d.turned, 0, longLook*d.target
	default:
		d.alone = false
		d.size = int(min(max(d.count*d.target/took, 1), mostBatch))
		d.batch = make([]T, 0, d.size)
	}
}

// deal gives the batch to other workers, or handles it if they have enough.
func (d *dealer[T]) deal(s *pool.Scope) {
	n := len(d.batch)
	handle := d.handler.batch(d.batch)
	d.batch = make([]T, 0, min(d.size, 2*n))
	if d.pending.Load() < batchesEach*int64(d.worker.Pool().Workers()-1) {
		d.pending.Add(1)
		s.Go(d.worker, func(*pool.Worker) {
			returned := false
			defer func() {
				d.failed.CompareAndSwap(false, !returned)
				d.pending.Add(-1)
			}()
			handle()
			returned = true
		})
		return
	}
	start := heist.Ticks()
	handle()
	switch took := heist.Ticks() - start; {
	case took > 2*d.target:
		d.size = max(d.size/2, 1)
	case took < d.target/2 && n == d.size:
		d.size = min(2*d.size, mostBatch)
	}
}

// mostAlone is how many values the caller handles in batchTime, at least, if it deals none out: they take it less than 30 ns each, of which the sequence
// and the closures around it are 10 to 15, and to deal a value out takes about as long.
const mostAlone = 500

// longLook is how much longer than the first time the caller looks at such values, so that an interrupt of 20 us does not make them dear.
const longLook = 8

// batchTime is how long the caller handles values alone, at least, and how long a batch should take. With 4 us a second of values of 200 ns to
// 5 us takes two workers 1.05 to 1.3 times as long.
const batchTime = 16 * time.Microsecond

// batchesEach is how many batches the caller deals to each other worker before it handles one itself: the worker has more to do when it has
// done one. With one batch for each worker that is idle, 1,200 values of a millisecond took two workers 750 ms instead of 570.
const batchesEach = 4

// mostBatch is the longest batch of a sequence.
const mostBatch = 4096
