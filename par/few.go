package par

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

// # Few values
//
// If a sample finds no more than mostValues values, a sort by comparisons deals its elements out:
// to one bucket for each value, and one for whatever lies between two values. An element is compared with 2 of 5 values, 3 of 16, or 6 of 100, in
// the mean, because a comparator says at once that elements are equal. Quicksorts that put aside what equals the pivot (as
// pdqsort, ipnsort and driftsort do) take twice as many comparisons, and merges log2 n.
//
// The sample is taken before runs are looked for if there are equal neighbours, or a window that is not in order (runs.go), and afterwards if most elements
// are in no run, or there are many runs: values that repeat have short runs, and seldom equal neighbours.
//
// Numbers and strings that have few values are counted, and written anew. A multiplier that sends the values of the sample to slots of their own
// makes that a look-up for each. For numbers it takes a fifth of the time of sorting their bits. Up to 256 keys of elements are counted in the same
// way, but for values that are found on the way (sortFewValues).

// mostValues bounds the values that are looked for. It may be at most 127.
const mostValues = 100

// leastDistinct and mostDistinct are how many elements of a sample may be all different, in a short slice and in a long one.
const leastDistinct, mostDistinct = 12, 24

// sampled is how many elements are asked for values.
const sampled = 256

// deal deals the elements out if they have few values, and returns the stretches that they are in then, or nil.
// A panic of the comparator may pass: nothing has been written.
func (e *comparables[E]) deal(w *pool.Worker) (runs []stretch) {
	s := e.sides[inSlice]
	values := e.values(s)
	if values == nil {
		return nil
	}
	bucket := make([]uint8, len(s))
	next := make([][2*mostValues + 1]int, partsOf(w, len(s))) // where the next element of a part and bucket goes
	each(w, len(next), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(next))
		values, next := values, &next[part] // in registers
		bucket := bucket[lo:hi]
		for i, x := range s[lo:hi] {
			if i%mergeLen == 0 && e.stopped() {
				return
			}
			b := bucketOf(values, x, e.compare)
			bucket[i] = b
			next[b]++
		}
	})
	if e.stopped() {
		return nil
	}
	end := 0
	for b := range next[0] {
		begin := end
		for part := range next {
			n := &next[part][b]
			*n, end = end, end+*n
		}
		if end > begin {
			runs = append(runs, stretch{end, order(b % 2)}) // mixed or ascends
		}
	}
	e.grow()
	dealt := e.sides[inBuffer]
	each(w, len(next), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(next))
		dealt, next := dealt, &next[part]
		bucket := bucket[lo:hi]
		for i, x := range s[lo:hi] {
			n := &next[bucket[i]]
			dealt[*n] = x
			*n++
		}
	})
	copyAt(w, s, dealt)
	return runs
}

// values returns the values in a sample of s, in order, or nil if there are many.
func (e *comparables[E]) values(s []E) []E {
	return sampleValues(s, func(values []E, x E) []E {
		if b := int(bucketOf(values, x, e.compare)); b%2 == 0 {
			return slices.Insert(values, b/2, x)
		}
		return values
	})
}

// sampleValues adds the elements of a sample of s to the values, unless they are there, and returns nil if there are many. Where the
// first elements of the sample are all different, it is no longer: 12 of 16 values are once in 300 times, 24 of 100 values once in 20.
func sampleValues[E any](s []E, add func(values []E, x E) []E) (values []E) {
	n := min(len(s)/8, sampled)
	most, distinct := min(n/2, mostValues), min(leastDistinct+len(s)/256, mostDistinct)
	random := uint32(2463534242) // Marsaglia's xorshift: nothing that is in step with elements that repeat
	for k := range n {
		random ^= random << 13
		random ^= random >> 17
		random ^= random << 5
		was := len(values)
		values = add(values, s[uint(random)%uint(len(s))])
		if len(values) > was && (was == most || was == k && k == distinct-1) {
			return nil
		}
	}
	return values
}

// bucketOf returns the bucket of x: 2i+1 for the value at index i, 2i for what lies before it.
func bucketOf[E any](values []E, x E, compare func(a, b E) int) uint8 {
	lo, hi := 0, len(values)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		switch c := compare(x, values[mid]); {
		case c == 0:
			return uint8(2*mid + 1)
		case c < 0:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return uint8(2 * lo)
}

// slotBits is the logarithm of how many slots there are for values that are counted: 4 KiB, an eighth of a first-level cache.
const slotBits = 12

// indexed is how many indices a slot can hold: an array of so many needs no check of bounds.
const indexed = 1 << 8

// slotted are values with slots of their own, each at the highest bits of its number times factor.
type slotted[T any] struct {
	factor uint64
	slots  [1 << slotBits]uint8 // the index of the value; 0 for none
	values [indexed]T           // from 1 on
}

// index returns the index of the value that an element with that number has, if it has any.
func (f *slotted[T]) index(number uint64) uint8 { return f.slots[number*f.factor>>(64-slotBits)] }

// place gives the values their slots, and says whether there are enough: for 100 values that is so 3 times in 10.
func (f *slotted[T]) place(values []T, number func(x T) uint64) bool {
	clear(f.slots[:])
	f.values[0] = values[0] // which no element that finds it is
	copy(f.values[1:], values)
	for i, x := range values {
		at := &f.slots[number(x)*f.factor>>(64-slotBits)]
		if *at != 0 {
			return false
		}
		*at = uint8(1 + i)
	}
	return true
}

// perValue says for each value, by its index, how many elements have it, or where the next of them goes.
type perValue [indexed]int

// counted are few values, in order, by parts of the slice.
type counted[T any] struct {
	slotted[T]
	values []T
	parts  []perValue
}

// kind says how elements are counted.
type kind[T any] struct {
	number func(x T) uint64 // a number for an element
	// count adds how many elements have each value, or returns false if one has another.
	count func(f *slotted[T], s []T, n *perValue) bool
	order func(values []T)
}

// countValues counts the elements of s, or returns nil if they do not have few values.
func countValues[T comparable](w *pool.Worker, s []T, k kind[T], cancelled func() bool) *counted[T] {
	values := sampleValues(s, func(values []T, x T) []T {
		if slices.Contains(values, x) {
			return values
		}
		return append(values, x)
	})
	if values == nil {
		return nil
	}
	c := &counted[T]{values: values}
	c.factor = 0x9e3779b97f4a7c15
	for tries := 0; !c.place(values, k.number); tries++ {
		if c.factor *= 0xd1342543de82ef95; tries == 20 {
			return nil
		}
	}
	c.parts = make([]perValue, partsOf(w, len(s)))
	var other atomic.Bool // an element has another value
	each(w, len(c.parts), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(c.parts))
		if !k.count(&c.slotted, s[lo:hi], &c.parts[part]) {
			other.Store(true)
		}
	})
	if other.Load() || cancelled() {
		return nil
	}
	k.order(c.values)
	return c
}

// countFew sorts s if it has few values, and says whether it did. Equal elements must be the same in every way that can be seen.
func countFew[T comparable](w *pool.Worker, s []T, k kind[T], cancelled func() bool) bool {
	c := countValues(w, s, k, cancelled)
	if c == nil {
		return false
	}
	for _, x := range c.values {
		n, value := 0, c.index(k.number(x))
		for part := range c.parts {
			n += c.parts[part][value]
		}
		equal := s[:n]
		ranges(w, n, func(lo, hi int) {
			for i := range equal[lo:hi] {
				equal[lo:hi][i] = x
			}
		})
		s = s[n:]
	}
	return true
}

// dealFew sorts s by the elements' keys if they have few values, and says whether it did. Equal keys leave the order as it is.
func dealFew[E any, K comparable](w *pool.Worker, s []E, keys []K, k kind[K], cancelled func() bool) bool {
	c := countValues(w, keys, k, cancelled)
	if c == nil {
		return false
	}
	end := 0
	for _, x := range c.values { // counts become the places of the next elements
		value := c.index(k.number(x))
		for part := range c.parts {
			n := &c.parts[part][value]
			*n, end = end, end+*n
		}
	}
	dealt := make([]E, len(s))
	each(w, len(c.parts), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(c.parts))
		keys, next := keys[lo:hi], &c.parts[part]
		for i, x := range s[lo:hi] {
			n := &next[c.index(k.number(keys[i]))]
			dealt[*n] = x
			*n++
		}
	})
	copyAt(w, s, dealt)
	return true
}

// numberKind is for numbers of the type E, of which U has the bits.
func numberKind[E cmp.Ordered, U integer]() kind[U] {
	return kind[U]{
		number: func(x U) uint64 { return uint64(x) },
		count: func(f *slotted[U], s []U, n *perValue) bool {
			slots, values, factor := &f.slots, &f.values, f.factor // in registers
			for _, x := range s {
				i := slots[uint64(x)*factor>>(64-slotBits)]
				if values[i] != x {
					return false
				}
				n[i]++
			}
			return true
		},
		order: func(values []U) { slices.Sort(viewAs[E](values)) },
	}
}

func stringKind() kind[string] {
	seed := maphash.MakeSeed()
	return kind[string]{
		number: func(x string) uint64 { return maphash.String(seed, x) },
		count: func(f *slotted[string], s []string, n *perValue) bool {
			for _, x := range s {
				i := f.index(maphash.String(seed, x))
				if f.values[i] != x {
					return false
				}
				n[i]++
			}
			return true
		},
		order: slices.Sort[[]string],
	}
}
