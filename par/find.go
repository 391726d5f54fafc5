package par

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

// Find returns the index of the first element for which is is true, or -1. Elements
// after one that was found are left out, except in chunks that have begun.
//
// If is is one comparison, take the range form, [FindRange]: the calls make Find take 4 to 5 times as long as a plain loop on one worker.
func Find[T any](at pool.Place, s []T, is func(T) bool) (int, error) {
	if is == nil {
		return -1, errNilFunc("Find")
	}
	return findRange(at, len(s), is, findElement[T]{s, is, true})
}

// FindRange returns the least index that find returns for ranges of 0 to n-1, or -1. For a range,
// find returns the first index from lo to hi-1 that is looked for, or -1 (or any other negative number).
func FindRange(at pool.Place, n int, find func(lo, hi int) int) (int, error) {
	if find == nil {
		return -1, errNilFunc("FindRange")
	}
	return findRange(at, n, find, findIndex(find))
}

// finder finds in a range: it returns the least index that is looked for, or a negative number.
type finder interface{ in(lo, hi int) int }

// findElement finds the first element for which is is want.
type findElement[T any] struct {
	s    []T
	is   func(T) bool
	want bool
}

func (f findElement[T]) in(lo, hi int) int {
	for i, e := range f.s[lo:hi] {
		if f.is(e) == f.want {
			return lo + i
		}
	}
	return -1
}

// findIndex finds what the user's function of a range finds.
type findIndex func(lo, hi int) int

func (f findIndex) in(lo, hi int) int {
	i := f(lo, hi)
	if i >= 0 && (i < lo || i >= hi) {
		panic(fmt.Errorf("par: the function of FindRange returned %d for %d to %d; it must be one of them, or -1", i, lo, hi-1))
	}
	return i
}

// findRange finds the first of n with f, which calls the user's function of.
func findRange[F finder](at pool.Place, n int, of any, f F) (int, error) {
	i := -1
	done, others, err := pool.Granularity{}.Probe(at, n, of, func(lo, hi int) (more bool) {
		i = f.in(lo, hi)
		return i < 0
	})
	if err != nil || done == n {
		return max(i, -1), err
	}
	b := findBody[F]{new(atomic.Int64), f}
	b.first.Store(math.MaxInt64)
	err = rest(at, done, n, others.InOrder(), b.Run)
	if first := b.first.Load(); err == nil && first < math.MaxInt64 {
		return int(first), nil
	}
	return -1, err
}

type findBody[F finder] struct {
	first *atomic.Int64 // the least index found; the workers of the loop write
	f     F
}

func (b findBody[F]) Run(lo, hi int) {
	if b.first.Load() > int64(lo) {
		if i := b.f.in(lo, hi); i >= 0 {
			lower(b.first, int64(i))
		}
	}
}

// lower makes v at most n.
func lower(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if old <= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

// Any says whether is is true for an element of s. See [Find].
func Any[T any](at pool.Place, s []T, is func(T) bool) (bool, error) {
	if is == nil {
		return false, errNilFunc("Any")
	}
	i, err := Find(at, s, is)
	return i >= 0, err
}

// All says whether is is true for all elements of s. See [Find].
func All[T any](at pool.Place, s []T, is func(T) bool) (bool, error) {
	if is == nil {
		return false, errNilFunc("All")
	}
	i, err := findRange(at, len(s), is, findElement[T]{s, is, false})
	return i < 0 && err == nil, err
}
