package par

import (
	"github.com/seed53057037/heist/pool"
)

// Scan puts the running totals of s into out: out[i] is s[0] op s[1] op ... op s[i]. op
// must be associative. out must be as long as s, and may be s. The range form is [ScanRange].
func Scan[T any](at pool.Place, out, s []T, op func(T, T) T) error {
	if op == nil {
		return errNilFunc("Scan")
	}
	if len(out) != len(s) {
		return errLengths("Scan", "results", len(out), "elements", len(s))
	}
	return scan[T]{
		first: func(lo, hi int) T {
			total := s[lo]
			out[lo] = total
			for i := lo + 1; i < hi; i++ {
				total = op(total, s[i])
				out[i] = total
			}
			return total
		},
		total: func(lo, hi int) T {
			total := s[lo]
			for _, e := range s[lo+1 : hi] {
				total = op(total, e)
			}
			return total
		},
		rest: func(before T, lo, hi int) {
			out := out[lo:hi]
			for i, e := range s[lo:hi] {
				before = op(before, e)
				out[i] = before
			}
		},
		op: op,
	}.run(at, len(s))
}

// ScanRange is [Scan] for the indices 0 to n-1. total returns the total of those from lo to hi-1. scanPart gets
// before, the total of all before lo, does what is to be done with the running totals from lo to hi-1, and
// returns the total of all before hi. op must be associative, and zero is the total of no indices.
func ScanRange[T any](at pool.Place, n int, zero T, total func(lo, hi int) T, op func(a, b T) T, scanPart func(before T, lo, hi int) T) error {
	if total == nil || op == nil || scanPart == nil {
		return errNilFunc("ScanRange")
	}
	return scan[T]{
		first: func(lo, hi int) T { return scanPart(zero, lo, hi) },
		total: total,
		rest:  func(before T, lo, hi int) { scanPart(before, lo, hi) },
		op:    op,
	}.run(at, n)
}

// Sums puts the running sums of s into out: out[i] is s[0] + s[1] + ... + s[i]. out must be as long as
// s, and may be s. Sums of floats are the same only for the same number of idle workers: see [Scan].
func Sums[E Number](at pool.Place, out, s []E) error {
	if len(out) != len(s) {
		return errLengths("Sums", "results", len(out), "elements", len(s))
	}
	return ScanRange(at, len(s), 0,
		func(lo, hi int) E { return sum(s[lo:hi]) },
		func(a, b E) E { return a + b },
		func(before E, lo, hi int) E {
			out := out[lo:hi]
			for i, e := range s[lo:hi] {
				before += e
				out[i] = before
			}
			return before
		})
}

// scan is what a scan does with parts of the range, none of which is empty.
type scan[T any] struct {
	first func(lo, hi int) T         // scans the first part and returns its total
	total func(lo, hi int) T         // the total of a part
	rest  func(before T, lo, hi int) // scans another part
	op    func(a, b T) T
}

// shortScan is a length below which a scan is not worth a wake-up.
const shortScan = 1 << 13

// run divides the range into k+2 parts if k workers are idle. The first part is scanned while the
// totals of all others but the last are computed, and then all parts but the first are scanned. So
// each element is touched twice, except in the first and last part, and two workers need two thirds
// of a serial scan's time. If no worker is idle, run is a serial scan, which a context cannot end
// early.
func (s scan[T]) run(at pool.Place, n int) error {
	if n <= 0 {
		return For(at, n, func(int) {})
	}
	return pool.Do(at, func(w *pool.Worker) {
		parts := 1
		if k := w.Idle(); k > 0 && n >= shortScan {
			parts = min(k+2, n/(shortScan/8))
		}
		totals := make([]T, max(parts-1, 1))
		each(w, len(totals), func(part int) {
			lo, hi := cut(n, part, parts)
			if part == 0 {
				totals[0] = s.first(lo, hi)
			} else {
				totals[part] = s.total(lo, hi)
			}
		})
		for part := 1; part < len(totals); part++ {
			totals[part] = s.op(totals[part-1], totals[part])
		}
		each(w, parts-1, func(part int) {
			lo, hi := cut(n, part+1, parts)
			s.rest(totals[part], lo, hi)
		})
	})
}

// cut returns the range of a part of n items.
func cut(n, part, parts int) (lo, hi int) {
	at := func(part int) int { return n/parts*part + min(part, n%parts) }
	return at(part), at(part + 1)
}

// each is a loop of few, long items.
func each(w *pool.Worker, n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	must(pool.ForRange(w, n, func(_ *pool.Worker, lo, _ int) { f(lo) }, pool.Grain(1)))
}

// ranges is ForRange, but runs a short range in the caller alone.
func ranges(w *pool.Worker, n int, f func(lo, hi int)) {
	if n <= radixLeaf {
		f(0, n)
		return
	}
	must(pool.ForRange(w, n, f))
}
