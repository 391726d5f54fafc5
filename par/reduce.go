package par

import (
	"cmp"
	"errors"

	"github.com/seed53057037/heist/pool"
)

// Reduce folds the elements of s into one value. It divides s into blocks, folds each block by add, from the left,
// beginning with a value that zero makes, and then folds the blocks' values, in order, by merge. merge must be
// associative, and what zero returns neutral; nothing needs to commute. How s is divided depends on its length alone, so
// the result has the same bits for any number of workers, rounded floats included. Of no elements it is what zero returns.
//
// Each value of zero belongs to one block, and merge is given each value once. So R may be a map, a slice or a pointer,
// and add and merge may change what their first argument refers to, and return it. zero must make a new one each time;
// several workers may call it at the same time.
//
// Cost: a call of add for each element, and for each of up to 2048 blocks a call of zero and merge and some 10 ns. The
// range form is [ReduceRange].
func Reduce[T, R any](at pool.Place, s []T, zero func() R, add func(R, T) R, merge func(R, R) R) (r R, err error) {
	if zero == nil || add == nil || merge == nil {
		return r, errNilFunc("Reduce")
	}
	return ReduceRange(at, len(s), func(lo, hi int) R {
		value := zero()
		for _, e := range s[lo:hi] {
			value = add(value, e)
		}
		return value
	}, merge)
}

// ReduceRange folds the indices 0 to n-1 into one value, as [Reduce] does with elements: fold returns the value of those
// from lo to hi-1, a new one each time if R is a reference. If n is 0, the result is fold(0, 0).
func ReduceRange[R any](at pool.Place, n int, fold func(lo, hi int) R, merge func(R, R) R) (r R, err error) {
	if fold == nil || merge == nil {
		return r, errNilFunc("ReduceRange")
	}
	b := blocksOf(n, 1)
	count := b.count()
	if n == 0 {
		count = 1
	}
	values := make([]R, max(count, 0))
	if err := For(at, count, func(i int) { values[i] = fold(b.at(i)) }); err != nil {
		return r, err
	}
	step := 1
	merged := func(i int) { values[2*i*step] = merge(values[2*i*step], values[(2*i+1)*step]) }
	for ; step < len(values); step *= 2 { // merge neighbours, until one value is left
		if err := For(at, ((len(values)-1)/step+1)/2, merged); err != nil {
			return r, err
		}
	}
	return values[0], nil
}

// blocks divides a range where results must not depend on the number of workers.
type blocks struct{ n, size int }

// blocksOf divides n elements into at most 2048 blocks, which are enough for hundreds of workers. Few
// elements are divided into blocks of 8, because each block costs something. No block but the last has
// less than least elements.
func blocksOf(n, least int) blocks { return blocks{n, max(n/1024, min(n/128, 8), least)} }

func (b blocks) count() int {
	if b.n <= 0 {
		return b.n // the loop returns the error for a negative n
	}
	return (b.n-1)/b.size + 1
}

func (b blocks) at(i int) (lo, hi int) {
	lo = i * b.size
	return lo, lo + min(b.size, b.n-lo)
}

// Number is a type with a sum.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Sum returns the sum of s. Floats are added in an order that depends on the length of s alone.
func Sum[E Number](at pool.Place, s []E) (E, error) {
	return ReduceRange(at, len(s), func(lo, hi int) E { return sum(s[lo:hi]) }, plus)
}

func plus[E Number](a, b E) E { return a + b }

// sum adds into four sums at a time, because a processor can add several numbers in the time of one
// addition.
func sum[E Number](s []E) E {
	var a, b, c, d E
	for ; len(s) >= 4; s = s[4:] {
		a, b, c, d = a+s[0], b+s[1], c+s[2], d+s[3]
	}
	for _, e := range s {
		a += e
	}
	return a + b + (c + d)
}

// Count returns for how many elements of s is is true. The range form is [CountRange].
func Count[T any](at pool.Place, s []T, is func(T) bool) (int, error) {
	if is == nil {
		return 0, errNilFunc("Count")
	}
	return CountRange(at, len(s), func(lo, hi int) (n int) {
		for _, e := range s[lo:hi] {
			if is(e) {
				n++
			}
		}
		return n
	})
}

// CountRange adds up what count returns for ranges that together are 0 to n-1.
func CountRange(at pool.Place, n int, count func(lo, hi int) int) (int, error) {
	if count == nil {
		return 0, errNilFunc("CountRange")
	}
	return ReduceRange(at, n, count, plus)
}

// ErrEmpty is the error for the least or greatest element of an empty slice.
var ErrEmpty = errors.New("par: MinMax, MinFunc or MaxFunc was given an empty slice")

// errEmpty returns ErrEmpty, or the place's error if no call can begin there.
func errEmpty(at pool.Place) error {
	if err := pool.Do(at); err != nil {
		return err
	}
	return ErrEmpty
}

// MinMax returns the least and the greatest element of s. If an element is a NaN, both
// results are. It returns [ErrEmpty] if s is empty.
func MinMax[E cmp.Ordered](at pool.Place, s []E) (least, most E, err error) {
	if len(s) == 0 {
		return least, most, errEmpty(at)
	}
	type both struct{ least, most E }
	r, err := ReduceRange(at, len(s),
		func(lo, hi int) both {
			least, most := s[lo], s[lo]
			for _, e := range s[lo+1 : hi] {
				least, most = min(least, e), max(most, e)
			}
			return both{least, most}
		},
		func(a, b both) both { return both{min(a.least, b.least), max(a.most, b.most)} })
	return r.least, r.most, err
}

// MinFunc returns the first of the least elements of s, as slices.MinFunc does, and [ErrEmpty] if
// s is empty.
func MinFunc[E any](at pool.Place, s []E, compare func(a, b E) int) (least E, err error) {
	return first("MinFunc", at, s, compare, func(c int) bool { return c < 0 })
}

// MaxFunc returns the first of the greatest elements of s, as slices.MaxFunc does, and [ErrEmpty] if
// s is empty.
func MaxFunc[E any](at pool.Place, s []E, compare func(a, b E) int) (most E, err error) {
	return first("MaxFunc", at, s, compare, func(c int) bool { return c > 0 })
}

// first returns the best element of s: of equally good ones, the first.
func first[E any](name string, at pool.Place, s []E, compare func(a, b E) int, better func(int) bool) (e E, err error) {
	if compare == nil {
		return e, errNilFunc(name)
	}
	if len(s) == 0 {
		return e, errEmpty(at)
	}
	best := func(i, j int) int {
		if better(compare(s[j], s[i])) {
			return j
		}
		return i
	}
	i, err := ReduceRange(at, len(s), func(lo, hi int) int {
		i := lo
		for j := lo + 1; j < hi; j++ {
			i = best(i, j)
		}
		return i
	}, best)
	if err != nil {
		return e, err
	}
	return s[i], nil
}
