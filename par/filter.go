package par

import (
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

// Filter returns the elements of s for which keep is true, in the same order. If keep is one comparison and few elements are kept, take the
// range form, [FilterRange]: the calls make Filter take up to 4 times as long as a plain loop on one worker.
func Filter[T any](at pool.Place, s []T, keep func(T) bool) ([]T, error) {
	if keep == nil {
		return nil, errNilFunc("Filter")
	}
	if len(s) < 4*leastFiltered {
		return FilterRange(at, len(s), func(out []T, lo, hi int) []T {
			for _, e := range s[lo:hi] {
				if keep(e) {
					out = append(out, e)
				}
			}
			return out
		})
	}
	return filter(at, scratch[T](len(s)), func(kept []T, lo, hi int) int {
		n := 0
		for _, e := range s[lo:hi] {
			kept[n] = e // overwritten if it is not kept: no branch to mispredict
			if keep(e) {
				n++
			}
		}
		return n
	})
}

// Dedup returns the elements of s without those that equal the one before: of sorted data, each
// value once.
func Dedup[E comparable](at pool.Place, s []E) (out []E, err error) {
	if len(s) < 32*leastFiltered {
		err = alone(at, func() { out = slices.Clip(slices.Compact(append([]E{}, s...))) })
		return out, err
	}
	return filter(at, scratch[E](len(s)), func(kept []E, lo, hi int) int {
		copy(kept, s[lo:hi])
		n := len(slices.Compact(kept))
		if lo > 0 && kept[0] == s[lo-1] {
			n = copy(kept, kept[1:n])
		}
		return n
	})
}

// leastFiltered is the least length of a filter's block: each block costs a copy.
const leastFiltered = 512

// filter calls keep for each block of kept, scratch memory. keep puts the elements that are kept at the block's beginning, and returns how many they
// are. Then filter moves the blocks together: in place if most elements are kept, since a second slice is more to clear and to collect than to move.
func filter[T any](at pool.Place, kept []T, keep func(kept []T, lo, hi int) int) ([]T, error) {
	b := blocksOf(len(kept), leastFiltered)
	ends := make([]int, b.count()+1) // ends[i+1] is how many elements block i keeps, and then where they end
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		ends[i+1] = keep(kept[lo:hi:hi], lo, hi)
	}); err != nil {
		return nil, err
	}
	for i := range b.count() {
		ends[i+1] += ends[i]
	}
	all := ends[b.count()]
	if all > cap(kept)-cap(kept)/4 { // scratch memory may be longer than kept
		for i := range b.count() {
			if lo, _ := b.at(i); lo > ends[i] {
				copy(kept[ends[i]:ends[i+1]], kept[lo:])
			}
		}
		clear(kept[all:])
		return kept[:all:all], nil
	}
	out := make([]T, all)
	if err := For(at, b.count(), func(i int) {
		lo, _ := b.at(i)
		copy(out[ends[i]:ends[i+1]], kept[lo:])
	}); err != nil {
		return nil, err
	}
	recycle(kept)
	return out, nil
}

// Partition returns the elements of s for which is is true, and the others, both in the same order. Cost: memory for the elements twice; a call for a
// few elements takes some 0.4 microseconds.
func Partition[T any](at pool.Place, s []T, is func(T) bool) (yes, no []T, err error) {
	if is == nil {
		return nil, nil, errNilFunc("Partition")
	}
	if len(s) < 4*leastFiltered {
		return partitionFew(at, s, is)
	}
	// Each block gets the elements for which is is true from its beginning on, and the others from its end backwards.
	b := blocksOf(len(s), leastFiltered)
	parted := scratch[T](len(s))
	ends := make([]int, b.count()+1)
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		block := parted[lo:hi]
		n := 0
		for j, e := range s[lo:hi] {
			block[n], block[len(block)-1-(j-n)] = e, e // one copy stays: no branch to mispredict
			if is(e) {
				n++
			}
		}
		ends[i+1] = n
	}); err != nil {
		return nil, nil, err
	}
	for i := range b.count() {
		ends[i+1] += ends[i]
	}
	yes = make([]T, ends[b.count()])
	no = make([]T, len(s)-len(yes))
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		n := copy(yes[ends[i]:ends[i+1]], parted[lo:])
		others := no[lo-ends[i]:][:hi-lo-n]
		copy(others, parted[lo+n:])
		slices.Reverse(others)
	}); err != nil {
		return nil, nil, err
	}
	recycle(parted)
	return yes, no, nil
}

// partitionFew is Partition without blocks.
func partitionFew[T any](at pool.Place, s []T, is func(T) bool) (yes, no []T, err error) {
	parted, n := scratch[T](len(s)), 0 // as in Partition
	done, others, err := pool.Granularity{}.Probe(at, len(s), is, func(lo, hi int) (more bool) {
		for i, e := range s[lo:hi] {
			parted[n], parted[len(parted)-1-(lo+i-n)] = e, e
			if is(e) {
				n++
			}
		}
		return true
	})
	var which []bool
	if err == nil && done < len(s) {
		which, err = Map(at, s[done:], is, others)
	}
	if err != nil {
		return nil, nil, err
	}
	for i, is := range which {
		e := s[done+i]
		parted[n], parted[len(parted)-1-(done+i-n)] = e, e
		if is {
			n++
		}
	}
	yes, no = slices.Clone(parted[:n]), slices.Clone(parted[n:])
	slices.Reverse(no)
	recycle(parted)
	return yes, no, nil
}

// FlatMap returns what f appends to out for each element of s, in the same order. f returns the
// longer slice, as append does, and must not change what was in it: if f returns another slice, what
// was in out is lost.
//
// If f does no more than append, take the range form, [FilterRange]: the calls make FlatMap take 2 times as long as a plain loop on one worker.
func FlatMap[T, R any](at pool.Place, s []T, f func(out []R, e T) []R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("FlatMap")
	}
	return FilterRange(at, len(s), func(out []R, lo, hi int) []R {
		for _, e := range s[lo:hi] {
			out = f(out, e)
		}
		return out
	})
}

// FilterRange returns what f appends to out for the indices 0 to n-1, in order: for each none, one or
// several. f is called for ranges, and returns the longer slice, as append does. out may have what f appended for the ranges
// before, so what a worker does in turn is one slice; if f returns another one, that is lost.
func FilterRange[R any](at pool.Place, n int, f func(out []R, lo, hi int) []R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("FilterRange")
	}
	first, parts, err := inRuns(at, n, appended[R](f), f)
	switch {
	case err != nil:
		return nil, err
	case parts == nil:
		return slices.Clip(first), nil
	}
	return concat(at, parts)
}

type appended[R any] func(out []R, lo, hi int) []R

func (f appended[R]) begin(lo, hi int) []R {
	if lo == hi {
		return []R{}
	}
	return f([]R{}, lo, hi)
}

func (f appended[R]) extend(out []R, lo, hi int) []R { return f(out, lo, hi) }

// inRuns computes a value for each **run**: ranges that lie side by side and that a worker does one after the other. begin returns the value of
// a range, and extend that of a run and the range behind it; begin(0, 0) is the value of nothing. inRuns returns the
// values in the order of the runs, or the first one if it is the only one. shown is the user's function.
func inRuns[V any, F interface {
	begin(lo, hi int) V
	extend(v V, lo, hi int) V
}](at pool.Place, n int, f F, shown any) (first V, values []V, err error) {
	begun := false
	done, others, err := pool.Granularity{}.Probe(at, n, shown, func(lo, hi int) (more bool) {
		if begun {
			first = f.extend(first, lo, hi)
		} else {
			first, begun = f.begin(lo, hi), true
		}
		return true
	})
	switch {
	case err != nil:
		return first, nil, err
	case n == 0:
		return first, nil, alone(at, func() { first = f.begin(0, 0) })
	case done == n:
		return first, nil, nil
	}
	before, goesOn := first, begun // so that the others need no memory of their own where a loop is short
	var all runsOf[V]
	if err := restOfRanges(at, done, n, others, func(w *pool.Worker, lo, hi int) {
		mine := all.of(w)
		last := len(mine.runs) - 1
		switch {
		case last >= 0 && mine.runs[last].hi == lo:
			v := f.extend(mine.runs[last].value, lo, hi)
			mine.runs[last].hi, mine.runs[last].value = hi, v
		case goesOn && lo == done:
			v := f.extend(before, lo, hi)
			mine.runs = append(mine.runs, run[V]{0, hi, 1, v})
		default:
			v := f.begin(lo, hi)
			mine.runs = append(mine.runs, run[V]{lo, hi, 1, v})
		}
	}); err != nil {
		return first, nil, err
	}
	return first, all.inOrder(), nil
}

// run is the value of a run so far.
type run[V any] struct {
	lo, hi int
	ranges int // of which it was merged
	value  V
}

// runsOf are the runs of each worker that takes part. They end with the loop, whereas a worker would keep those of a [pool.Local].
type runsOf[V any] struct {
	last atomic.Pointer[runsOfWorker[V]] // each worker that takes part puts its own in, once, and then only reads
}

// runsOfWorker are the runs of a worker, which does one range at a time. The worker writes them, and others read when the loop has ended. It also
// allocates them, so they seldom lie on a line with those of another one.
type runsOfWorker[V any] struct {
	w      *pool.Worker     // constant
	before *runsOfWorker[V] // constant: those of the worker that came before
	runs   []run[V]
	heavy  bool // the last merges were
}

// inOrder returns the values of all runs, in order. No worker may take part any more.
func (all *runsOf[V]) inOrder() []V {
	var runs []run[V]
	for m := all.last.Load(); m != nil; m = m.before {
		runs = append(runs, m.runs...)
	}
	slices.SortFunc(runs, func(a, b run[V]) int { return a.lo - b.lo })
	values := make([]V, len(runs))
	for i := range values {
		values[i] = runs[i].value
	}
	return values
}

func (all *runsOf[V]) of(w *pool.Worker) *runsOfWorker[V] {
	for m := all.last.Load(); m != nil; m = m.before {
		if m.w == w {
			return m
		}
	}
	m := &runsOfWorker[V]{w: w, before: all.last.Load()}
	for !all.last.CompareAndSwap(m.before, m) {
		m.before = all.last.Load()
	}
	return m
}

// concat returns the elements of all parts.
func concat[R any](at pool.Place, parts [][]R) ([]R, error) {
	ends := make([]int, len(parts)+1)
	for i, part := range parts {
		ends[i+1] = ends[i] + len(part)
	}
	out := make([]R, ends[len(parts)])
	if err := For(at, len(parts), func(i int) { copy(out[ends[i]:], parts[i]) }); err != nil {
		return nil, err
	}
	return out, nil
}
