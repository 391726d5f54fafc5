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
// too: batches of them go to other workers only while some are idle. A value waits
// until its batch, of up to 4096, is full or the sequence ends, so a sequence must not
// wait for f of a value that it has yielded, nor f for that of another value. A panic in f
// or in the sequence continues in the caller as a [*pool.PanicError].
func ForSeq[T any](at pool.Place, values iter.Seq[T], f func(T)) error {
	if f == nil {
		return errNilFunc("ForSeq")
	}
	return batches(at, values, func(batch []T) (handle func()) {
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
	var parts [][]R
	err := batches(at, values, func(batch []T) (handle func()) {
		part := make([]R, len(batch))
		parts = append(parts, part)
		return func() {
			for i, v := range batch {
				part[i] = f(v)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

// batches deals values out in batches. It calls begin in the caller, in order; the function that
// begin returns handles the batch, in the caller or on another worker.
func batches[T any](at pool.Place, values iter.Seq[T], begin func(batch []T) (handle func())) error {
	if values == nil {
		return errors.New("par: ForSeq or MapSeq was given a nil sequence")
	}
	return pool.Do(at, func(w *pool.Worker) {
		call := w.Call()         // values may run the body of the loop below in a call of its own
		var pending atomic.Int64 // batches that were given to other workers and have not ended
		var failed atomic.Bool   // one of these panicked
		size, target := 1, heist.TicksIn(batchTime)
		var batch []T
		w.Scope(func(s *pool.Scope) {
			deal := func() {
				handle := begin(batch)
				batch = make([]T, 0, size)
				if w.Idle() > 0 && pending.Load() < int64(2*w.Pool().Workers()) {
					pending.Add(1)
					s.Go(w, func(*pool.Worker) {
						returned := false
						defer func() {
							failed.CompareAndSwap(false, !returned)
							pending.Add(-1)
						}()
						handle()
						returned = true
					})
					return
				}
				start := heist.Ticks()
				handle()
				switch took := heist.Ticks() - start; {
				case took > 2*target:
					size = max(size/2, 1)
				case took < target/2:
					size = min(2*size, mostBatch)
				}
			}
			for value := range values {
				if failed.Load() || call.Cancelled() {
					return
				}
				if batch = append(batch, value); len(batch) >= size {
					deal()
				}
			}
			if len(batch) > 0 {
				deal()
			}
		})
	})
}

// batchTime is how long a batch should take: as long as a chunk of a loop.
const batchTime = 4 * time.Microsecond

// mostBatch is the longest batch of a sequence.
const mostBatch = 4096
