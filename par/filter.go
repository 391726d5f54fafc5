package par

import (
	"slices"

	"github.com/seed53057037/heist/pool"
)

// Filter returns the elements of s for which keep is true, in the same order. The range form is
// [FilterRange].
func Filter[T any](at pool.Place, s []T, keep func(T) bool) ([]T, error) {
	if keep == nil {
		return nil, errNilFunc("Filter")
	}
	return filter(at, s, func(kept []T, lo, hi int) int {
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
func Dedup[E comparable](at pool.Place, s []E) ([]E, error) {
	return filter(at, s, func(kept []E, lo, hi int) int {
		n := 0
		for i, e := range s[lo:hi] {
			kept[n] = e
			if lo+i == 0 || e != s[lo+i-1] {
				n++
			}
		}
		return n
	})
}

// leastFiltered is the least length of a filter's block: each block costs a copy.
const leastFiltered = 512

// filter calls keep for each block. keep puts the elements that are kept at the beginning of kept, which
// is as long as the block, and returns how many they are. Then filter moves the blocks together.
func filter[T any](at pool.Place, s []T, keep func(kept []T, lo, hi int) int) ([]T, error) {
	b := blocksOf(len(s), leastFiltered)
	kept := make([]T, len(s))
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
	out := make([]T, ends[b.count()])
	if err := For(at, b.count(), func(i int) {
		lo, _ := b.at(i)
		copy(out[ends[i]:ends[i+1]], kept[lo:])
	}); err != nil {
		return nil, err
	}
	return out, nil
}

// Partition returns the elements of s for which is is true, and the others, both in the same order.
func Partition[T any](at pool.Place, s []T, is func(T) bool) (yes, no []T, err error) {
	if is == nil {
		return nil, nil, errNilFunc("Partition")
	}
	// Each block gets the elements for which is is true from its beginning on, and the others from its end backwards.
	b := blocksOf(len(s), leastFiltered)
	parted := make([]T, len(s))
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
	return yes, no, nil
}

// FlatMap returns what f appends to out for each element of s, in the same order. f returns the
// longer slice, as append does, and must not change what was in it: if f returns another slice, what
// was in out is lost. The range form is [FilterRange].
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
// several. f is called for ranges, and returns the longer slice, as append does.
func FilterRange[R any](at pool.Place, n int, f func(out []R, lo, hi int) []R) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("FilterRange")
	}
	b := blocksOf(n, 1)
	parts := make([][]R, max(b.count(), 0))
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		parts[i] = f(nil, lo, hi)
	}); err != nil {
		return nil, err
	}
	return concat(at, parts)
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
