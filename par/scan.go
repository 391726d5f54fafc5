package par

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
)

// Scan puts the running totals of s into out: out[i] is s[0] op s[1] op ... op s[i]. op must be associative, and must not
// change what its arguments refer to. out must be as long as s, and may be s, but must not overlap it
// otherwise, which is not checked.
//
// If op is one operation, take the range form, [ScanRange], or [Sums]: the calls make Scan take 1.4 times as long as a plain loop on one worker.
//
// Where s is divided depends on how many workers are idle. So if op rounds, as an addition of floats does, the last bits of
// the totals may differ from call to call. [Sums] adds floats in an order that depends on their number alone.
func Scan[T any](at pool.Place, out, s []T, op func(T, T) T) error {
	if op == nil {
		return errNilFunc("Scan")
	}
	if len(out) != len(s) {
		return errLengths("Scan", "results", len(out), "elements", len(s))
	}
	first := func(lo, hi int) T {
		total := s[lo]
		out[lo] = total
		for i := lo + 1; i < hi; i++ {
			total = op(total, s[i])
			out[i] = total
		}
		return total
	}
	if 0 < len(s) && len(s) <= fewElements {
		return alone(at, func() { first(0, len(s)) })
	}
	return scan[T]{
		first: first,
		total: func(lo, hi int) T {
			total := s[lo]
			for _, e := range s[lo+1 : hi] {
				total = op(total, e)
			}
			return total
		},
		rest: func(before T, lo, hi int) T {
			out := out[lo:hi]
			for i, e := range s[lo:hi] {
				before = op(before, e)
				out[i] = before
			}
			return before
		},
		op:    op,
		short: shortScan,
	}.run(at, len(s))
}

// ScanRange is [Scan] for the indices 0 to n-1. total returns the total of those from lo to hi-1; total(0, 0) must be
// neutral. scanPart gets before, the total of all before lo, does what is to be done with the running totals from lo to hi-1,
// and returns the total of all before hi. op must be associative; results that are rounded differ as those of Scan do.
func ScanRange[T any](at pool.Place, n int, total func(lo, hi int) T, op func(a, b T) T, scanPart func(before T, lo, hi int) T) error {
	if total == nil || op == nil || scanPart == nil {
		return errNilFunc("ScanRange")
	}
	return scanRange(total, op, scanPart, shortScan).run(at, n)
}

func scanRange[T any](total func(lo, hi int) T, op func(a, b T) T, scanPart func(before T, lo, hi int) T, short int) scan[T] {
	return scan[T]{
		first: func(_, hi int) T { return scanPart(total(0, 0), 0, hi) },
		total: total,
		rest:  scanPart,
		op:    op,
		short: short,
	}
}

// Sums puts the running sums of s into out: out[i] is s[0] + s[1] + ... + s[i]. out must be as long as s, and may be s,
// but must not overlap it otherwise. Floats are added in an order that depends on the length of s alone.
func Sums[E Number](at pool.Place, out, s []E) error {
	if len(out) != len(s) {
		return errLengths("Sums", "results", len(out), "elements", len(s))
	}
	if len(s) <= shortSums { // in the caller alone: nothing here can panic
		err := pool.Do(at)
		if err == nil {
			runningSums(out, s, 0)
		}
		return err
	}
	// A scan over blocks. Its total of a range is the list of the blocks' sums, because lists are joined without rounding. To join them costs
	// time, so parts are whole.
	b := blocksOf(len(s), shortScan/8)
	blocks := scanRange(
		func(lo, hi int) []E {
			totals := make([]E, hi-lo)
			for i := range totals {
				lo, hi := b.at(lo + i)
				totals[i] = sum(s[lo:hi])
			}
			return totals
		},
		func(a, b []E) []E { return slices.Concat(a, b) },
		func(before []E, lo, hi int) []E {
			totals := slices.Grow(slices.Clip(before), hi-lo)
			var running E
			for _, total := range before {
				running += total
			}
			for i := lo; i < hi; i++ {
				lo, hi := b.at(i)
				total := sums(out[lo:hi], s[lo:hi], running)
				totals = append(totals, total)
				running += total
			}
			return totals
		}, 8)
	blocks.whole = true
	return pool.Do(at, func(w *pool.Worker) {
		if w.Idle() > 1 {
			must(blocks.run(w, b.count()))
			return
		}
		// One other worker would save a third at most, and has to fetch what the caller may have in its cache: on two far cores a million took 1.0
		// to 1.5 of a plain loop's time, on near ones 1.1.
		var running E
		for i := range b.count() {
			lo, hi := b.at(i)
			if E(1)/2 == 0 { // nothing is rounded
				running = runningSums(out[lo:hi], s[lo:hi], running)
			} else {
				running += sums(out[lo:hi], s[lo:hi], running)
			}
			w.Checkpoint()
		}
	})
}

// runningSums puts before plus the running sums of s into out, and returns the last one.
func runningSums[E Number](out, s []E, before E) E {
	out = out[:len(s)]
	for i, e := range s {
		before += e
		out[i] = before
	}
	return before
}

// sums puts before plus the running sums of s into out, and returns the sum of s as sum does. The running sums are one
// chain of additions, beside which a processor makes the others for nothing.
func sums[E Number](out, s []E, before E) E {
	var a, b, c, d E
	for out = out[:len(s)]; len(s) >= 4; s, out = s[4:], out[4:] {
		e, f, g, h := s[0], s[1], s[2], s[3] // out may be s
		a, b, c, d = a+e, b+f, c+g, d+h
		e += before
		f += e
		g += f
		before = g + h
		out[0], out[1], out[2], out[3] = e, f, g, before
	}
	for i, e := range s {
		a += e
		before += e
		out[i] = before
	}
	return a + b + (c + d)
}

// scan is what a scan does with parts of the range, none of which is empty.
type scan[T any] struct {
	first func(lo, hi int) T           // scans the beginning of the range and returns its total
	total func(lo, hi int) T           // the total of a part
	rest  func(before T, lo, hi int) T // scans what comes after that total, and returns the total of both
	op    func(a, b T) T
	short int  // a length below which a scan is not worth a wake-up
	whole bool // parts are not divided
}

// shortScan is how many elements are not worth a wake-up, and shortSums how many of which each takes a third of a nanosecond.
const shortScan, shortSums = 1 << 13, 1 << 16

// worthScan is how long a scan takes alone that is worth a wake-up of up to 40 microseconds: two workers save a third of it.
const worthScan = 120 * time.Microsecond

// run divides the range into k+2 parts if k workers are idle. The first part is scanned while the
// totals of all others but the last are computed, and then all parts but the first are scanned. So
// each element is touched twice, except in the first and last part, and two workers need two thirds
// of a serial scan's time. If no worker is idle, or the first block says that a scan takes less than worthScan, run is a
// serial scan. Parts that depend on n alone, as those of [Sums], would call op twice for each element there.
func (s scan[T]) run(at pool.Place, n int) error {
	if n <= 0 {
		return For(at, n, func(int) {})
	}
	return pool.Do(at, func(w *pool.Worker) {
		begun, done := heist.Ticks(), 0
		var before T
		if !s.whole {
			done = min(firstBlock, n)
			before = s.first(0, done)
		}
		parts := 1
		if k := w.Idle(); k > 0 && n >= s.short && (s.whole || float64(heist.Ticks()-begun)*float64(n)/firstBlock >= float64(heist.TicksIn(worthScan))) {
			parts = min(k+2, n/(s.short/8))
		}
		totals := make([]T, max(parts-1, 1))
		var stop atomic.Bool
		each(w, len(totals), func(w *pool.Worker, part int) {
			first, next := s.first, s.rest
			switch {
			case part > 0:
				first, next = s.total, func(before T, lo, hi int) T { return s.op(before, s.total(lo, hi)) }
			case done > 0:
				first = func(lo, hi int) T { return s.rest(before, lo, hi) }
			}
			lo, hi := cut(n-done, part, parts)
			lo, hi = lo+done, hi+done
			s.inBlocks(w, lo, hi, &stop, func(from, to int) {
				if from == lo {
					totals[part] = first(from, to)
				} else {
					totals[part] = next(totals[part], from, to)
				}
			})
		})
		for part := 1; part < len(totals); part++ {
			totals[part] = s.op(totals[part-1], totals[part])
		}
		each(w, parts-1, func(w *pool.Worker, part int) {
			before := totals[part]
			lo, hi := cut(n-done, part+1, parts)
			lo, hi = lo+done, hi+done
			s.inBlocks(w, lo, hi, &stop, func(lo, hi int) { before = s.rest(before, lo, hi) })
		})
	})
}

// A scan looks after each block whether it has to end early. The first block has firstBlock elements, and others take about blockTime.
const (
	firstBlock = 64
	blockTime  = 20 * time.Microsecond
)

// inBlocks calls f for the blocks of a part, until the call is cancelled, or f has panicked for another part.
func (s scan[T]) inBlocks(w *pool.Worker, lo, hi int, stop *atomic.Bool, f func(lo, hi int)) {
	returned := false
	defer func() {
		if !returned {
			stop.Store(true)
		}
	}()
	target := heist.TicksIn(blockTime)
	for n := firstBlock; lo < hi && !stop.Load(); w.Checkpoint() {
		if s.whole {
			n = hi - lo
		}
		to, begun := lo+min(n, hi-lo), heist.Ticks()
		f(lo, to)
		if lo = to; lo == hi {
			break
		}
		switch took := heist.Ticks() - begun; {
		case took < target/2:
			n += min(n, hi-lo)
		case took > target && n > 1:
			n /= 2
		}
	}
	returned = true
}

// cut returns the range of a part of n items.
func cut(n, part, parts int) (lo, hi int) {
	at := func(part int) int { return n/parts*part + min(part, n%parts) }
	return at(part), at(part + 1)
}

// each is a loop of few, long items. One of none is no call at the worker, so it does not fail where all is done and the context has ended.
func each(w *pool.Worker, n int, f func(w *pool.Worker, i int)) {
	switch n {
	case 0:
		return
	case 1:
		f(w, 0)
		return
	}
	must(pool.ForRange(w, n, func(w *pool.Worker, lo, _ int) { f(w, lo) }, pool.Grain(1)))
}

// ranges is ForRange, but runs a short range in the caller alone. f takes about a nanosecond for an element: it looks at keys, or moves what is
// small.
func ranges(w *pool.Worker, n int, f func(lo, hi int)) { rangesFrom(shortRange, w, n, f) }

// shortRange takes some 20 us. A second worker saves half of that, and takes as long to wake up and to be waited for: sorts of 10^4 elements that
// are in order took 1.2 to 2.2 of the serial ones where ranges from radixLeaf on were divided, and 1.0 to 1.8 so (bench algos/grid-sort, grid-by).
const shortRange = 4 * radixLeaf

// shortMoves is shortRange for an f that moves elements of type E.
func shortMoves[E any]() int {
	if unsafe.Sizeof(*new(E)) > smallElement {
		return radixLeaf
	}
	return shortRange
}

// rangesFrom is ranges for an f that may take longer, with the length up to which a range is short.
func rangesFrom(short int, w *pool.Worker, n int, f func(lo, hi int)) {
	if n <= short {
		f(0, n)
		return
	}
	must(pool.ForRange(w, n, f))
}
