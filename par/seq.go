package par

import (
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
// until its batch, of up to 4096, is full or the sequence ends, so a sequence must not
// wait for f of a value that it has yielded, nor f for that of another value. A panic in f
// or in the sequence continues in the caller as a [*pool.PanicError].
//
// Cost: that of a guest and a scope, some 0.6 microseconds, and some 10 ns for each value.
func ForSeq[T any](at pool.Place, values iter.Seq[T], f func(T)) error {
	if f == nil {
		return errNilFunc("ForSeq")
	}
	return batches(at, values, f, func(batch []T) (handle func()) {
		return func() {
			for _, v := range batch {
				f(v)
			}
		}
	})
}

// MapSeq returns f of each value of the sequence, in order. See [ForSeq].
func MapSeq[T, R any](at pool.Place, values iter.Seq[T], f func(T) R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("MapSeq")
	}
	first := []R{}
	var parts [][]R // after the first
	err := batches(at, values, func(v T) { first = append(first, f(v)) }, func(batch []T) (handle func()) {
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

// batches handles the first values by one, in the caller, and deals the others out in batches. It calls begin in the caller, in order; the
// function that begin returns handles the batch, in the caller or on another worker.
func batches[T any](at pool.Place, values iter.Seq[T], one func(T), begin func(batch []T) (handle func())) error {
	if values == nil {
		return errors.New("par: ForSeq or MapSeq was given a nil sequence")
	}
	target := heist.TicksIn(batchTime)
	d := &dealer[T]{one: one, begin: begin, size: 1, target: target, look: target}
	return pool.Do(at, func(w *pool.Worker) {
		cancelled, _ := w.Call() // values may run the body of the loop below in a call of its own
		w.Scope(func(s *pool.Scope) {
			d.begun = heist.Ticks()
			for value := range values {
				if d.failed.Load() || cancelled() {
					return
				}
				d.take(value, s, w)
			}
			if len(d.batch) > 0 {
				d.deal(s, w)
			}
		})
	})
}

// dealer deals values out.
type dealer[T any] struct {
	one    func(T)                         // constant
	begin  func(batch []T) (handle func()) // constant
	target int64                           // constant: how long a batch should take

	alone int // how many values the caller has handled by one, or -1 if it does so no more
	begun int64
	look  int64 // how long, in heist.Ticks, before it judges what it has handled since begun
	batch []T
	size  int // that of the next batch

	pending atomic.Int64 // batches that were given to other workers and have not ended
	failed  atomic.Bool  // one of these panicked
}

func (d *dealer[T]) take(value T, s *pool.Scope, w *pool.Worker) {
	if d.alone < 0 {
		if d.batch = append(d.batch, value); len(d.batch) >= d.size {
			d.deal(s, w)
		}
		return
	}
	d.one(value)
	d.alone++
	if d.alone&(d.alone-1) == 0 || d.alone%betweenLooks == 0 {
		switch now := heist.Ticks(); {
		case now-d.begun <= d.look:
		case int64(d.alone)*d.target > (now-d.begun)*mostAlone: // these are not worth dealing out, but others may follow
			d.begun, d.alone, d.look = now, 0, longLook*d.target
		default:
			d.size = int(min(max(int64(d.alone)*d.target/(now-d.begun), 1), mostBatch))
			d.alone = -1
		}
	}
}

func (d *dealer[T]) deal(s *pool.Scope, w *pool.Worker) {
	handle := d.begin(d.batch)
	d.batch = make([]T, 0, d.size)
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
	case took < d.target/2:
		d.size = min(2*d.size, mostBatch)
	}
}

// betweenLooks is how many values the caller handles alone, at most, between two looks at the clock.
const betweenLooks = 16

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
