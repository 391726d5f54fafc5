package par

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/pool"
)

// # Few values
//
// If a sample finds no more than mostValues values, a sort by comparisons deals its elements out:
// to one bucket for each value, and one for whatever lies between two values. An element is compared with 2 of 5 values, 3 of 16, or 6 of 100, in
// the mean, because a comparator says at once that elements are equal. Quicksorts that put aside what equals the pivot (as
// pdqsort, ipnsort and driftsort do) take twice as many comparisons, and merges log2 n.
//
// From leastDealt elements on a sample with many values is good for those that it has more than once: they are dealt out, and so is what lies between
// them. In the leaves of a merge sort (merge.go) elements that are equal are put aside as quicksorts do, if a few of the leaf's are equal.
//
// The sample is taken before runs are looked for if there are equal neighbours, or a window that is not in order (runs.go), and afterwards if most elements
// are in no run, or there are many runs: values that repeat have short runs, and seldom equal neighbours.
//
// Numbers and strings that have few values are counted, and written anew. A multiplier that sends the values of the sample to slots of their own
// makes that a look-up for each. For numbers it takes a fifth of the time of sorting their bits. Of elements that
// are sorted by a key the indices of their keys are kept, a byte each, and not the keys: touching fresh memory takes longer than all else. Up to
// 256 keys are counted in the same way, but for values that are found on the way (sortFewValues).

// mostValues bounds the values that are looked for. It may be at most 127.
const mostValues = 100

// leastDistinct and mostDistinct are how many elements of a sample may be all different, in a short slice and in a long one.
const leastDistinct, mostDistinct = 12, 24

// sampled is how many elements are asked for values, at most. Half of them, 127, may repeat, and the indices of as many values and of what lies between them fit a byte.
const sampled = 2 * 127

// leastDealt is the least length of a slice of which the values are dealt out that a sample has more than once, however many others it has. In a shorter one merges by all workers,
// with leaves that put equal elements aside, take less time, though more comparisons.
const leastDealt = 1 << 15

// deal deals the elements out if they have few values, and returns the stretches that they are in then, or nil.
// A panic of the comparator may pass: nothing has been written.
func (e *comparables[E]) deal(w *pool.Worker) (runs []stretch) {
	s := e.sides[inSlice]
	values := e.values(s)
	if values == nil {
		return nil
	}
	bucket := scratch[uint8](len(s))
	next := scratch[perValue](partsOf(w, len(s)))
	clear(next)
	each(w, len(next), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(next))
		values, next := values, &next[part] // in registers
		bucket := bucket[lo:hi]
		for i, x := range s[lo:hi] {
			if i%mergeLen == 0 && e.stopped() {
				return
			}
			b := uint8(bucketOf(values, x, e.compare))
			bucket[i] = b
			next[b]++
		}
	})
	if e.stopped() {
		return nil
	}
	begin := 0
	for b := range 2*len(values) + 1 {
		end := begins(next, uint8(b), begin)
		if end > begin {
			runs = append(runs, stretch{end, order(b % 2)}) // mixed or ascends
		}
		begin = end
	}
	e.grow()
	moveToBuckets(w, s, e.sides[inBuffer], bucket, next)
	recycle(bucket)
	recycle(next)
	return runs
}

// perValue says for each value, by its index, how many elements have it, or where the next of them goes.
type perValue [indexed]int

// begins turns the counts of a bucket, by parts of the slice, into where each part's elements begin, the first part's at begin. It returns their end.
func begins(parts []perValue, bucket uint8, begin int) (end int) {
	for part := range parts {
		n := &parts[part][bucket]
		*n, begin = begin, begin+*n
	}
	return begin
}

// moveToBuckets moves each element of s to the next place of its bucket, by way of the buffer.
func moveToBuckets[E any](w *pool.Worker, s, buffer []E, bucket []uint8, parts []perValue) {
	each(w, len(parts), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(parts))
		buffer, next := buffer, &parts[part]
		bucket := bucket[lo:hi]
		for i, x := range s[lo:hi] {
			n := &next[bucket[i]]
			buffer[*n] = x
			*n++
		}
	})
	copyAt(w, s, buffer)
}

// values returns values in a sample of s, in order: all if they are few, or, from leastDealt elements on, those that repeat, if a sixteenth of the sample does. Otherwise it returns nil.
func (e *comparables[E]) values(s []E) (values []E) {
	n, repeat := len(s), make([]bool, 0, sampled)
	add := func(values []E, i int) []E {
		b := bucketOf(values, s[i], e.compare)
		if b%2 == 1 {
			repeat[b/2] = true
			return values
		}
		repeat = slices.Insert(repeat, b/2, false)
		return slices.Insert(values, b/2, s[i])
	}
	if n < leastDealt {
		return sampleValues(n, min(n/8, sampled), min(n/24, mostValues), mostDistinct, add)
	}
	values = sampleValues(n, sampled, sampled-sampled/16, 2*mostDistinct, add)
	some := values[:0]
	for i, x := range values {
		if repeat[i] {
			some = append(some, x)
		}
	}
	return some
}

// sampleValues has add put a sample of n elements, by their indices, to the values, unless they are there, and returns nil if these are more than most. Where
// the first elements of the sample, up to distinct, are all different, it is no longer: 12 of 16 values are once in 300 times, 24 of 100 values once in 20.
func sampleValues[E any](n, size, most, distinct int, add func(values []E, i int) []E) (values []E) {
	distinct = min(leastDistinct+n/256, distinct)
	values = make([]E, 0, distinct) // at once: most samples that are not few end with so many
	random := uint32(2463534242)    // Marsaglia's xorshift: nothing that is in step with elements that repeat
	for k := range size {
		random ^= random << 13
		random ^= random >> 17
		random ^= random << 5
		was := len(values)
		values = add(values, int(uint(random)%uint(n)))
		if len(values) > was && (was == most || was == k && k == distinct-1) {
			return nil
		}
	}
	return values
}

// bucketOf returns the bucket of x: 2i+1 for the value at index i, 2i for what lies before it.
func bucketOf[E any](values []E, x E, compare func(a, b E) int) int {
	lo, hi := 0, len(values)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		switch c := compare(x, values[mid]); {
		case c == 0:
			return 2*mid + 1
		case c < 0:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return 2 * lo
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
	f.slots = [1 << slotBits]uint8{}
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

// kind says how elements are counted.
type kind[T any] interface {
	number(x T) uint64 // a number for an element
	// find sets the index of each element's value, or returns false if one has another.
	find(f *slotted[T], s []T, index []uint8) bool
	order(values []T)
}

// counted are n elements with few values.
type counted[T comparable] struct {
	slotted[T]
	kind[T]
	n    int
	some func(lo, hi int, space []T) []T // those from lo to hi, keysAtOnce at most, in the space or elsewhere

	values []T // in order, when they are counted
	parts  []perValue
}

// newCounted returns nil if a sample has many values.
func newCounted[T comparable](n int, some func(lo, hi int, space []T) []T, k kind[T]) *counted[T] {
	space := make([]T, 1)
	size := min(n/8, sampled)
	values := sampleValues(n, size, min(size/2, mostValues), mostDistinct, func(values []T, i int) []T {
		if x := some(i, i+1, space)[0]; !slices.Contains(values, x) {
			return append(values, x)
		}
		return values
	})
	if values == nil {
		return nil
	}
	c := &scratch[counted[T]](1)[0]
	c.kind, c.n, c.some, c.values = k, n, some, values
	c.factor = 0x9e3779b97f4a7c15
	for tries := 0; !c.place(c.values, k.number); tries++ {
		if c.factor *= 0xd1342543de82ef95; tries == 20 {
			return nil
		}
	}
	return c
}

// count counts the elements, and sets the indices of their values if it is given those. It returns false if there is another value, or the call
// was cancelled.
func (c *counted[T]) count(w *pool.Worker, indices []uint8, cancelled func() bool) bool {
	c.parts = scratch[perValue](partsOf(w, c.n))
	clear(c.parts)
	var failed atomic.Bool // the workers write and read it, once for each keysAtOnce elements
	each(w, len(c.parts), func(_ *pool.Worker, part int) {
		space, index := make([]T, keysAtOnce), make([]uint8, keysAtOnce)
		n := &c.parts[part]
		var more [3]perValue // an index that repeats need not wait for its last increment
		lo, hi := cut(c.n, part, len(c.parts))
		for end := lo; lo < hi && !failed.Load(); lo = end {
			end = min(lo+keysAtOnce, hi)
			if indices != nil {
				index = indices[lo:end]
			}
			if !c.find(&c.slotted, c.some(lo, end, space), index) || cancelled() {
				failed.Store(true)
			}
			i := index[:end-lo]
			for ; len(i) >= 4; i = i[4:] {
				n[i[0]]++
				more[0][i[1]]++
				more[1][i[2]]++
				more[2][i[3]]++
			}
			for _, i := range i {
				n[i]++
			}
		}
		for i := range len(c.values) + 1 {
			n[i] += more[0][i] + more[1][i] + more[2][i]
		}
	})
	if failed.Load() {
		return false
	}
	c.order(c.values)
	return true
}

func (c *counted[T]) recycle() {
	recycle(c.parts)
	recycle(unsafe.Slice(c, 1))
}

// countFew sorts s if it has few values, and says whether it did. Equal elements must be the same in every way that can be seen.
func countFew[T comparable](w *pool.Worker, s []T, k kind[T], cancelled func() bool) bool {
	c := newCounted(len(s), func(lo, hi int, _ []T) []T { return s[lo:hi] }, k)
	if c == nil {
		return false
	}
	defer c.recycle()
	if !c.count(w, nil, cancelled) {
		return false
	}
	for _, x := range c.values {
		n, value := 0, c.index(k.number(x))
		for part := range c.parts {
			n += c.parts[part][value]
		}
		if equal := s[:n]; n <= shortRange { // without a closure
			fill(equal, x)
		} else {
			ranges(w, n, func(lo, hi int) { fill(equal[lo:hi], x) })
		}
		s = s[n:]
	}
	return true
}

func fill[T any](s []T, x T) {
	for i := range s {
		s[i] = x
	}
}

// dealFew sorts s by the elements' keys if they have few values, and says whether it did. Equal keys leave the order as it is.
func dealFew[E any, T comparable](w *pool.Worker, s []E, keys func(s []E, keys []T), k kind[T], cancelled func() bool) bool {
	c := newCounted(len(s), func(lo, hi int, space []T) []T {
		keys(s[lo:hi], space[:hi-lo])
		return space[:hi-lo]
	}, k)
	if c == nil {
		return false
	}
	defer c.recycle()
	indices := scratch[uint8](len(s))
	defer recycle(indices)
	if !c.count(w, indices, cancelled) {
		return false
	}
	begin := 0
	for _, x := range c.values {
		begin = begins(c.parts, c.index(k.number(x)), begin)
	}
	buffer := scratch[E](len(s))
	moveToBuckets(w, s, buffer, indices, c.parts)
	recycle(buffer)
	return true
}

// numberKind is for numbers of the type E, of which U has the bits.
type numberKind[E cmp.Ordered, U integer] struct{}

func (numberKind[E, U]) number(x U) uint64 { return uint64(x) }

func (numberKind[E, U]) find(f *slotted[U], s []U, index []uint8) bool {
	slots, values, factor := &f.slots, &f.values, f.factor // in registers
	index = index[:len(s)]
	for at, x := range s {
		i := slots[uint64(x)*factor>>(64-slotBits)]
		if values[i] != x {
			return false
		}
		index[at] = i
	}
	return true
}

func (numberKind[E, U]) order(values []U) { slices.Sort(viewAs[E](values)) }

type stringKind struct{ seed maphash.Seed }

func (k stringKind) number(x string) uint64 { return maphash.String(k.seed, x) }

func (k stringKind) find(f *slotted[string], s []string, index []uint8) bool {
	for at, x := range s {
		i := f.index(maphash.String(k.seed, x))
		if f.values[i] != x {
			return false
		}
		index[at] = i
	}
	return true
}

func (stringKind) order(values []string) { slices.Sort(values) }
