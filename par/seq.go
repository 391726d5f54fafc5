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
// Cost: that of a guest and a scope, 1.5 to 2 microseconds, and 10 to 20 ns for each value.
func ForSeq[T any](at pool.Place, values iter.Seq[T], f func(T)) error {
	if f == nil {
		return errNilFunc("ForSeq")
	}
	handle := func(batch []T) {
		for _, v := range batch {
			f(v)
		}
	}
	return batches(at, values, handle, func(batch []T) func() { return func() { handle(batch) } })
}

// MapSeq returns f of each value of the sequence, in order. See [ForSeq]. Cost: as there, and the results of the batches: some 2 microseconds, and some 40 ns
// for each value.
func MapSeq[T, R any](at pool.Place, values iter.Seq[T], f func(T) R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("MapSeq")
	}
	first := []R{}
	var parts [][]R // after the first
	err := batches(at, values, func(batch []T) {
		out := first
		for _, v := range batch {
			out = append(out, f(v))
		}
		first = out
	}, func(batch []T) (handle func()) {
		part := make([]R, len(batch))
		parts = append(parts, part)
		return func() {
			for i, v := range batch {
				part[i] = f(v)
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case len(parts) == 0:
		return slices.Clip(first), nil
	}
	return slices.Concat(slices.Insert(parts, 0, first)...), nil
}

// batches gives the first values to first, in the caller, a few at a time, and deals the others out in batches. It calls begin in the caller, in
// order; the function that begin returns handles the batch, in the caller or on another worker.
func batches[T any](at pool.Place, values iter.Seq[T], first func(few []T), begin func(batch []T) (handle func())) error {
	if values == nil {
		return errors.New("par: ForSeq or MapSeq was given a nil sequence")
	}
	target := heist.TicksIn(batchTime)
	d := &dealer[T]{first: first, begin: begin, batch: make([]T, 0, mostUnseen), alone: true, size: mostBatch, look: 1, step: 1, target: target, patience: target}
	return pool.Do(at, func(w *pool.Worker) {
		ctx := at.Context()
		ends := ctx != context.Background()
		cancelled, _ := w.Call() // values may run the body of the loop below in a call of its own
		w.Scope(func(s *pool.Scope) {
			d.began = heist.Ticks()
			d.turned = d.began
			for value := range values {
				if ends && ctx.Err() != nil && cancelled() {
					return
				}
				if d.batch = append(d.batch, value); len(d.batch) < d.look {
					continue
				}
				if d.failed.Load() || cancelled() {
					return
				}
				d.turn(s, w)
			}
			switch { // what is left is the caller's, which has nothing else to do
			case len(d.batch) > 0 && cancelled():
			case d.alone:
				d.first(d.batch)
			case len(d.batch) > 0:
				d.begin(d.batch)()
			}
		})
	})
}

// dealer deals values out.
type dealer[T any] struct {
	first  func(few []T)                   // constant
	begin  func(batch []T) (handle func()) // constant
	target int64                           // constant: how long a batch should take, in heist.Ticks

	batch  []T
	size   int   // at most how many values it gets
	look   int   // how many it has at the next turn
	step   int   // how many values the caller takes without a look at the clock
	turned int64 // when the last turn was over

	alone    bool  // the caller gives what it has to first
	began    int64 // when it began to count
	count    int64 // how many values it has given to first since
	patience int64 // how long it does so before it judges them

	pending atomic.Int64 // batches that were given to other workers and have not ended
	failed  atomic.Bool  // one of these panicked
}

// turn does what there is to do when the batch has look values.
func (d *dealer[T]) turn(s *pool.Scope, w *pool.Worker) {
	slow := heist.Ticks()-d.turned > d.target
	if d.step = min(2*d.step, mostUnseen); slow {
		d.step = 1
	}
	switch {
	case d.alone:
		d.first(d.batch)
		d.count += int64(len(d.batch))
		d.batch = d.batch[:0]
	case slow || len(d.batch) >= d.size:
		d.deal(s, w)
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
func (d *dealer[T]) deal(s *pool.Scope, w *pool.Worker) {
	n := len(d.batch)
	handle := d.begin(d.batch)
	d.batch = make([]T, 0, min(d.size, 2*n))
	if d.pending.Load() < batchesEach*int64(w.Pool().Workers()-1) {
		d.pending.Add(1)
		s.Go(w, func(*pool.Worker) {
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
