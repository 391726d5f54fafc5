package par

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

// # Few values
//
// If a sample finds no more than mostValues values, a sort by comparisons deals its elements out:
// to one bucket for each value, and one for whatever lies between two values. An element is compared with 2 of 5 values, or 3 of 16, in
// the mean, because a comparator says at once that elements are equal. Quicksorts that put aside what equals the pivot (as
// pdqsort, ipnsort and driftsort do) take twice as many comparisons, and merges log2 n.
//
// The sample is taken before runs are looked for if there are equal neighbours, or no window in order (runs.go), and afterwards if most elements are in
// no run: values that repeat have short runs, and seldom equal neighbours.
//
// Numbers that have few values are counted, and written anew. A multiplier that sends the values of the sample to slots of their own
// makes that a look-up for each number. It takes a fifth of the time of sorting their bits. Up to 256 keys of elements are counted in the same
// way, but for values that are found on the way (sortFewValues).

// mostValues bounds the values that are looked for. It may be at most 127.
const mostValues = 16

// mostDistinct is how many elements of a sample may be all different.
const mostDistinct = 12

// sampled is how many elements are asked for values.
const sampled = 128

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

// values returns the values in a sample of s, in order, or nil if there are many. Where the first mostDistinct elements of the sample are all
// different, it is no longer: of 16 values, that happens once in 300 times.
func (e *comparables[E]) values(s []E) (values []E) {
	n := min(len(s)/4, sampled)
	random := uint32(2463534242) // Marsaglia's xorshift: nothing that is in step with elements that repeat
	for k := range n {
		random ^= random << 13
		random ^= random >> 17
		random ^= random << 5
		lo, hi := cut(len(s), k, n)
		x := s[lo+int(random>>1)%(hi-lo)]
		if b := int(bucketOf(values, x, e.compare)); b%2 == 0 {
			if len(values) == mostValues || k == mostDistinct-1 && len(values) == k {
				return nil
			}
			values = slices.Insert(values, b/2, x)
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

// countFew sorts numbers, whose bits are given, if they have few values, and says whether it did.
func countFew[E cmp.Ordered, U integer](w *pool.Worker, s []E, bits []U, cancelled func() bool) bool {
	var values []U
	for i := range sampled {
		if x := bits[len(bits)/sampled*i]; !slices.Contains(values, x) {
			values = append(values, x)
		}
	}
	if len(values) > mostValues {
		return false
	}
	const slots = 256
	factor := uint64(0x9e3779b97f4a7c15)
	slot := func(x U) uint64 { return uint64(x) * factor >> 56 }
	var taken [slots]bool
	for tries := 0; ; tries++ { // each finds slots for 16 values with a probability of 0.6
		clear(taken[:])
		if !slices.ContainsFunc(values, func(x U) bool { t := &taken[slot(x)]; was := *t; *t = true; return was }) {
			break
		}
		if factor *= 0xd1342543de82ef95; tries == 20 {
			return false
		}
	}
	table := slices.Repeat(values[:1], slots) // a slot that no value has does not have the first one either
	for _, x := range values {
		table[slot(x)] = x
	}
	counts := make([][slots]int, partsOf(w, len(s)))
	var other atomic.Bool // a number has another value
	each(w, len(counts), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(s), part, len(counts))
		table, n, factor := (*[slots]U)(table), &counts[part], factor // in registers
		for _, x := range bits[lo:hi] {
			at := uint64(x) * factor >> 56
			if table[at] != x {
				other.Store(true)
				return
			}
			n[at]++
		}
	})
	if other.Load() || cancelled() {
		return false
	}
	slices.Sort(viewAs[E](values))
	for _, x := range values {
		n := 0
		for part := range counts {
			n += counts[part][slot(x)]
		}
		equal := bits[:n]
		ranges(w, n, func(lo, hi int) {
			for i := range equal[lo:hi] {
				equal[lo:hi][i] = x
			}
		})
		bits = bits[n:]
	}
	return true
}
