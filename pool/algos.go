package pool

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// Map returns f of each element of s, in the same order, computed in parallel. For
// places, granularities, panics and errors see [For].
func Map[T, R any](at Place, s []T, f func(T) R, g ...Granularity) ([]R, error) {
	out := make([]R, len(s))
	if err := MapTo(at, out, s, f, g...); err != nil {
		return nil, err
	}
	return out, nil
}

// MapTo is [Map] into a given slice, which must be as long as s, and may be s.
func MapTo[T, R any](at Place, out []R, s []T, f func(T) R, g ...Granularity) error {
	if f == nil {
		return errNilFunc("Map or MapTo")
	}
	if len(out) != len(s) {
		return errLengths("MapTo", "results", len(out), "elements", len(s))
	}
	done, pace, err := probe(at, len(s), g, func(lo, hi int) { mapRange(out, s, f, lo, hi) })
	if done == len(s) || err != nil {
		return err
	}
	return loopOn(at, span{lo: done, hi: len(s), pace: pace}, g, func(_ *Worker, lo, hi int) {
		mapRange(out, s, f, lo, hi)
	})
}

func mapRange[T, R any](out []R, s []T, f func(T) R, lo, hi int) {
	out = out[lo:hi]
	for i, e := range s[lo:hi] {
		out[i] = f(e)
	}
}

// Reduce folds the elements of s into one value: each of a number of blocks by add,
// from the left, beginning with zero, and then the blocks' values, in order, by merge.
// Merge must be associative and zero neutral; nothing needs to commute. How s is divided
// depends on its length alone, so the result has the same bits for any number of
// workers, rounded floats included. Zero is the same value for all blocks, so add must
// not change what it points to.
//
// Cost: some 10 ns for each of up to 2048 blocks.
func Reduce[T, R any](at Place, s []T, zero R, add func(R, T) R, merge func(R, R) R) (R, error) {
	if add == nil || merge == nil {
		return zero, errNilFunc("Reduce")
	}
	if len(s) == 0 {
		_, err := check(at)
		return zero, err
	}
	r := reduction[T, R]{s, zero, add, merge}
	size := blockSize(len(s))
	blocks := (len(s) + size - 1) / size
	values := make([]R, blocks)
	err := For(at, blocks, func(b int) { values[b] = r.block(b*size, min((b+1)*size, len(s))) })
	if err != nil {
		return zero, err
	}
	value, err := mergeAll(at, values, merge)
	if err != nil {
		return zero, err
	}
	return value, nil
}

type reduction[T, R any] struct {
	s     []T
	zero  R
	add   func(R, T) R
	merge func(R, R) R
}

func (r *reduction[T, R]) block(lo, hi int) R {
	value := r.zero
	for _, e := range r.s[lo:hi] {
		value = r.add(value, e)
	}
	return value
}

// mergeAll merges neighbours until one value is left.
func mergeAll[R any](at Place, values []R, merge func(R, R) R) (R, error) {
	for len(values) > 1 {
		pairs := len(values) / 2
		next := make([]R, pairs, pairs+1)
		err := For(at, pairs, func(i int) { next[i] = merge(values[2*i], values[2*i+1]) })
		if err != nil {
			return values[0], err
		}
		if len(values)%2 == 1 {
			next = append(next, values[len(values)-1])
		}
		values = next
	}
	return values[0], nil
}

// blockSize is how many elements a block has where results must not depend on how many
// workers there are: at most 2048 blocks, which are enough for hundreds of workers, and
// blocks of 8 where there are few elements, for each block costs something.
func blockSize(n int) int {
	return max(n/1024, min(n/128, 8), 1)
}

// Scan puts the running totals of s into out: out[i] is s[0] op s[1] op ... op s[i]. Op
// must be associative. Out must be as long as s, and may be s.
//
// With k idle workers s is divided into k+2 parts: the first is scanned while the
// others but the last are added up, and then all others are scanned. So each element
// is touched twice but in the first and last part, and two workers need two thirds of
// a serial scan's time. When nobody is idle, it is a serial scan, which a context cannot
// end early.
func Scan[T any](at Place, out, s []T, op func(T, T) T) (err error) {
	if op == nil {
		return errNilFunc("Scan")
	}
	if len(out) != len(s) {
		return errLengths("Scan", "results", len(out), "elements", len(s))
	}
	if len(s) == 0 {
		_, err := check(at)
		return err
	}
	v, err := enter(at)
	if err != nil {
		return err
	}
	defer v.leave(&err)
	defer inLoop()
	parts := 1
	if n := v.w.pool.idle(); n > 0 && len(s) >= shortScan {
		parts = min(n+2, len(s)/(shortScan/8))
	}
	cut := func(part int) int { return int(int64(len(s)) * int64(part) / int64(parts)) }
	totals := make([]T, max(parts-1, 1))
	whole(v.w, max(parts-1, 1), func(part int) {
		lo, hi := cut(part), cut(part+1)
		if part == 0 {
			totals[0] = scan(out[:hi], s[:hi], op)
			return
		}
		total := s[lo]
		for _, e := range s[lo+1 : hi] {
			total = op(total, e)
		}
		totals[part] = total
	})
	scan(totals, totals, op)
	whole(v.w, parts-1, func(part int) {
		lo, hi := cut(part+1), cut(part+2)
		before := totals[part]
		for i, e := range s[lo:hi] {
			before = op(before, e)
			out[lo+i] = before
		}
	})
	return nil
}

// shortScan is a length below which a scan is not worth a wake-up.
const shortScan = 1 << 13

func scan[T any](out, s []T, op func(T, T) T) T {
	total := s[0]
	out[0] = total
	for i := 1; i < len(s); i++ {
		total = op(total, s[i])
		out[i] = total
	}
	return total
}

// idle returns how many workers could help a caller that has its place.
func (p *Pool) idle() int {
	state := p.sleep.Load()
	return max(state.Sleepers()+state.Searching(), 0)
}

// whole runs a loop of few, long items from inside.
func whole(w *Worker, n int, f func(i int)) {
	l := &loop{grain: 1, body: func(_ *Worker, lo, _ int) { f(lo) }}
	if n > 0 {
		span{hi: n, loop: l}.run(w)
	}
}

// Filter returns the elements of s for which keep is true, in the same order.
func Filter[T any](at Place, s []T, keep func(T) bool) ([]T, error) {
	if keep == nil {
		return nil, errNilFunc("Filter")
	}
	// Each block moves what it keeps to its beginning in a copy; then the blocks move
	// together.
	size := max(blockSize(len(s)), 512)
	blocks := (len(s) + size - 1) / size
	kept := make([]T, len(s))
	ends := make([]int, blocks+1) // ends[b+1] is what block b keeps, and then where that ends
	err := For(at, blocks, func(b int) {
		block := kept[b*size : min((b+1)*size, len(s))]
		n := 0
		for _, e := range s[b*size:][:len(block)] {
			block[n] = e // and again, if it is not kept: no branch to mispredict
			if keep(e) {
				n++
			}
		}
		ends[b+1] = n
	})
	if err != nil {
		return nil, err
	}
	for b := range blocks {
		ends[b+1] += ends[b]
	}
	out := make([]T, ends[blocks])
	err = For(at, blocks, func(b int) { copy(out[ends[b]:ends[b+1]], kept[b*size:]) })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Find returns the index of the first element for which is is true, or -1. What lies
// behind an element that was found is left out, but for chunks that were begun.
func Find[T any](at Place, s []T, is func(T) bool) (int, error) {
	if is == nil {
		return -1, errNilFunc("Find")
	}
	var first atomic.Int64
	first.Store(math.MaxInt64)
	err := forRange(at, len(s), false, func(lo, hi int) {
		if first.Load() <= int64(lo) {
			return
		}
		for i, e := range s[lo:hi] {
			if is(e) {
				lowerTo(&first, int64(lo+i))
				return
			}
		}
	}, Granularity{inOrder: true})
	if err != nil || first.Load() == math.MaxInt64 {
		return -1, err
	}
	return int(first.Load()), nil
}

// lowerTo makes v at most n.
func lowerTo(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if old <= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

// ErrEmpty is the error of a [MinMax] of nothing.
var ErrEmpty = errors.New("pool: MinMax was given an empty slice")

// MinMax returns the least and the greatest element of s. If one of them is a NaN, both
// results are. It returns [ErrEmpty] if there are none.
func MinMax[E cmp.Ordered](at Place, s []E) (least, most E, err error) {
	if len(s) == 0 {
		return least, most, ErrEmpty
	}
	type both struct{ least, most E }
	r, err := Reduce(at, s, both{s[0], s[0]},
		func(b both, e E) both { return both{min(b.least, e), max(b.most, e)} },
		func(a, b both) both { return both{min(a.least, b.least), max(a.most, b.most)} })
	return r.least, r.most, err
}

// Each calls f with each value of the sequence, some at the same time, and returns when
// all calls have returned. The sequence itself runs in the caller, which handles values
// too: batches of them go to other workers only as long as some are idle. A value waits
// until its batch, of up to 4096, is full or the sequence ends, so a sequence must not
// wait for f of a value that it has given.
func Each[T any](at Place, values iter.Seq[T], f func(T)) error {
	if f == nil {
		return errNilFunc("Each")
	}
	return batches(at, values, func(batch []T) (handle func()) {
		return func() {
			for _, v := range batch {
				f(v)
			}
		}
	})
}

// Collect returns f of each value of the sequence, in order. See [Each].
func Collect[T, R any](at Place, values iter.Seq[T], f func(T) R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("Collect")
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

// batches deals values out in batches: begin is called in the caller, in order, and what
// it returns handles the batch, there or on another worker.
func batches[T any](at Place, values iter.Seq[T], begin func(batch []T) (handle func())) (err error) {
	if values == nil {
		return errors.New("pool: Each or Collect was given a nil sequence")
	}
	v, err := enter(at)
	if err != nil {
		return err
	}
	defer v.leave(&err)
	defer inLoop()
	w := v.w
	w.Scope(func(s *Scope) {
		size, target := 1, w.pool.ticksLoop.Chunk
		var batch []T
		deal := func() {
			handle := begin(batch)
			batch = make([]T, 0, size)
			if w.pool.sleep.Hungry() && s.pending.Load() <= int64(2*w.pool.size()) {
				s.Go(w, func(*Worker) { handle() })
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
			if s.ending.Load() != nil || w.call.stopped() {
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
	return nil
}

// mostBatch is the longest batch of a sequence.
const mostBatch = 4096
