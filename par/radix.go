package par

import (
	"cmp"
	"math/bits"
	"reflect"
	"sort"
	"unsafe"

	"github.com/seed53057037/heist/pool"
)

// # Sorting by radix
//
// Numbers are sorted by their bits, the most significant ones first, between the slice and one
// buffer of its length, as in McIlroy, Bostic and McIlroy, "Engineering Radix Sort" (1993), and
// with the parallel steps of Zagha and Blelloch, "Radix Sort for Vector Multiprocessors" (1991):
//
//  1. The least and the greatest key of a range say which bits tell its keys apart. The uppermost
//     of those are the **digit**. It has so many bits that the buckets of evenly spread keys fit a
//     first-level cache.
//  2. Each part of the range counts how many of its keys have which digit.
//  3. The sums of the counts say where on the other side each part's elements of each digit go.
//  4. Each part moves its elements there. That is stable, whatever the number of parts is.
//  5. Each bucket is a range that is sorted the same way, from the other side.
//
// If the digit has all bits that tell the keys apart, and the keys have no values, the counts alone
// say what to write.
//
// A range of at most radixLeaf elements is a **leaf**: one worker deals it out to about as many buckets
// as it has elements, and an insertion sort of the whole leaf does the rest. But if a bucket has
// become long, the buckets are sorted one by one, by the same method.
//
// No distribution of the keys is bad for this method. A digit is at least leastBits wide and begins where
// the keys of its range differ, so no element is moved more than 10 times, however many bytes a key
// has; and a bucket that holds nearly all elements is sorted in as many parts as the range was.
//
// It is chosen where a look (runs.go) finds no order, and few.go not few values: a sort of 2^18 numbers takes the time of 3 levels of merges.
//
// A sample that divided the buckets further, so that skewed keys gave buckets of equal length, took a
// quarter off the time of exponential keys, and added a tenth to that of evenly spread ones.

// integer is what a radix sort sorts by.
type integer interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int32 | ~int64
}

// items are keys, each with a value that moves along with it. If a value has no size, as in a sort of
// the keys alone, only keys are moved.
type items[V any, K cmp.Ordered] struct {
	keys   []K
	values []V
}

func (s items[V, K]) len() int { return len(s.keys) }

func (s items[V, K]) at(lo, hi int) items[V, K] { return items[V, K]{s.keys[lo:hi], s.values[lo:hi]} }

func copyItems[V any, K cmp.Ordered](dst, src items[V, K]) {
	copy(dst.keys, src.keys)
	copy(dst.values, src.values)
}

// These were chosen by how long a sort of a million random 8-byte numbers takes on one CPU, as in BenchmarkSort.
const (
	// radixLeaf bounds the leaves, which are sorted without a check whether the sort was stopped.
	radixLeaf = 1 << 13

	// bucketSize is the least size in bytes of the buckets of evenly spread keys, if there are no
	// more than 1<<levelBits of them: half a first-level cache. With buckets of half or twice the size
	// a sort takes 3% longer, with four times the size 11%.
	bucketSize = 1 << 14
	levelBits  = 10

	// leastBits is the width of a digit of few elements. Evenly spread keys need 4 bits then, in the same time, but 20,000 with Zipf's distribution
	// take 15.7 to 16.9 ns each with 3 at least, more than slices.Sort, and 9.2 to 10.3 with 7: with narrow digits nearly all have the same one, again and again.
	leastBits = 7

	// leafBits is the width of a leaf's digit. With 11 to 13 a sort takes the same time.
	leafBits = 12

	// insertionMost is the most items that are left to an insertion sort. With 16 to 40 a sort takes
	// the same time.
	insertionMost = 24

	// partLen is the least length of a part.
	partLen = 1 << 14
)

// radix is a stable sort of items, from either side into the slice.
//
// If the call is stopped, the slice still gets all items, each once: the items that are read stay as
// they are until all of them have been written to the other side, and a range that is sorted no further
// is copied to the slice if it is not there.
type radix[V any, K integer] struct {
	sides     [2]items[V, K]
	cancelled func() bool
}

func newRadix[V any, K integer](s items[V, K], cancelled func() bool) *radix[V, K] {
	return &radix[V, K]{[2]items[V, K]{s, {}}, cancelled}
}

// grow makes the buffer: before anything is divided, since keys that are counted need none.
func (r *radix[V, K]) grow() {
	if n := r.sides[inSlice].len(); r.sides[inBuffer].keys == nil {
		r.sides[inBuffer] = items[V, K]{scratch[K](n), scratch[V](n)}
	}
}

// sortItems sorts s, unless the call is cancelled.
func sortItems[V any, K integer](w *pool.Worker, s items[V, K], cancelled func() bool) {
	r := newRadix(s, cancelled)
	r.sort(w, 0, s.len())
	r.recycle()
}

func (r *radix[V, K]) recycle() {
	recycle(r.sides[inBuffer].keys)
	recycle(r.sides[inBuffer].values)
}

// sort sorts a range of the slice.
func (r *radix[V, K]) sort(w *pool.Worker, lo, hi int) {
	var d digit[K]
	if hi-lo <= radixLeaf {
		d = digitOf(r.sides[inSlice].keys[lo:hi])
	}
	r.bucket(w, lo, hi, inSlice, d.least, d.most)
}

// bucket sorts a range whose keys are within the bounds. Only leaves need the bounds.
func (r *radix[V, K]) bucket(w *pool.Worker, lo, hi int, in side, least, most K) {
	switch {
	case r.cancelled():
		r.finish(w, lo, hi, in)
		return
	case hi-lo <= radixLeaf:
		r.grow()
		r.leaf(lo, hi, in, digit[K]{least: least, most: most})
		return
	}
	d := r.digit(w, r.sides[in].keys[lo:hi])
	if d.least == d.most {
		r.finish(w, lo, hi, in)
		return
	}
	src := r.sides[in].at(lo, hi)
	next := r.count(w, src.keys, d)
	if next != nil && d.shift == 0 && unsafe.Sizeof(src.values[0]) == 0 {
		d.fill(w, r.sides[inSlice].keys[lo:hi], next[0][:d.buckets()])
		return
	}
	r.grow()
	if next == nil || !r.deal(w, r.sides[in.other()].at(lo, hi), src, d, next) {
		r.finish(w, lo, hi, in)
		return
	}
	defer recycle(next)
	in = in.other()
	if d.shift == 0 {
		r.finish(w, lo, hi, in)
		return
	}
	ends := next[len(next)-1][:d.buckets()] // where buckets end: the last part has been dealt out
	buckets := func(w *pool.Worker, b, to int) {
		begin := 0
		if b > 0 {
			begin = ends[b-1]
		}
		for ; b < to; b++ {
			if end := ends[b]; end > begin {
				least, most := d.bounds(b)
				r.bucket(w, lo+begin, lo+end, in, least, most)
				begin = end
			}
		}
	}
	if hi-lo <= shortRange {
		buckets(w, 0, len(ends))
		return
	}
	must(pool.ForRange(w, len(ends), buckets, pool.Grain(1)))
}

// finish copies a range that lies on the given side to the slice, unless it is there already.
func (r *radix[V, K]) finish(w *pool.Worker, lo, hi int, in side) {
	if in == inBuffer {
		dst, src := r.sides[inSlice].at(lo, hi), r.sides[inBuffer].at(lo, hi)
		ranges(w, hi-lo, func(lo, hi int) { copyItems(dst.at(lo, hi), src.at(lo, hi)) })
	}
}

// copyAt is a parallel copy for slices of equal length.
func copyAt[E any](w *pool.Worker, dst, src []E) {
	rangesFrom(shortMoves[E](), w, len(src), func(lo, hi int) { copy(dst[lo:hi], src[lo:hi]) })
}

// digit is the part of the keys in a range that chooses their buckets.
type digit[K integer] struct {
	least, most K
	shift       uint // below 64
}

// digitOf returns the bounds of the keys.
func digitOf[K integer](keys []K) digit[K] {
	least, most := keys[0], keys[0]
	for _, k := range keys {
		least, most = min(least, k), max(most, k)
	}
	return digit[K]{least: least, most: most}
}

// wide returns the digit with so many bits, or with all bits in which the keys differ if those are fewer.
func (d digit[K]) wide(width int) digit[K] {
	d.shift = uint(max(bits.Len64(uint64(d.most)-uint64(d.least))-width, 0))
	return d
}

// of returns the bucket of a key. The mask tells the compiler that no shift is too long.
func (d digit[K]) of(key K) uint { return uint((uint64(key) - uint64(d.least)) >> (d.shift & 63)) }

func (d digit[K]) buckets() int { return int(d.of(d.most)) + 1 }

// bounds returns bounds of the keys in a bucket, modulo the size of K.
func (d digit[K]) bounds(bucket int) (least, most K) {
	least = d.least + K(uint64(bucket)<<d.shift)
	return least, least + K(uint64(1)<<d.shift-1)
}

// digit returns the digit by which a long range is dealt out.
func (r *radix[V, K]) digit(w *pool.Worker, keys []K) digit[K] {
	parts := make([]digit[K], partsOf(w, len(keys)))
	each(w, len(parts), func(_ *pool.Worker, part int) {
		lo, hi := cut(len(keys), part, len(parts))
		parts[part] = digitOf(keys[lo:hi])
	})
	d := parts[0]
	for _, p := range parts {
		d.least, d.most = min(d.least, p.least), max(d.most, p.most)
	}
	if all := d.wide(levelBits); all.shift == 0 && unsafe.Sizeof(*new(V)) == 0 {
		return all // the keys need only be counted
	}
	size := int(unsafe.Sizeof(*new(V)) + unsafe.Sizeof(*new(K)))
	return d.wide(min(max(bits.Len(uint(len(keys)*size/bucketSize)), leastBits), levelBits))
}

// counts is, for each bucket, how many elements of a part go into it, and later where the part's
// next one goes.
type counts [1 << levelBits]int

// inParts calls f for each part of n elements, piece by piece. It returns false if the sort was stopped.
func (r *radix[V, K]) inParts(w *pool.Worker, n, parts int, f func(part, lo, hi int)) bool {
	each(w, parts, func(_ *pool.Worker, part int) {
		lo, hi := cut(n, part, parts)
		for ; lo < hi && !r.cancelled(); lo += radixLeaf {
			f(part, lo, min(lo+radixLeaf, hi))
		}
	})
	return !r.cancelled()
}

// count returns for each part where its elements go, or nil if the sort was stopped.
func (r *radix[V, K]) count(w *pool.Worker, keys []K, d digit[K]) (next []counts) {
	next = scratch[counts](partsOf(w, len(keys)))
	clear(next)
	if !r.inParts(w, len(keys), len(next), func(part, lo, hi int) {
		d, n := d, &next[part] // in registers, where captured variables are not
		for _, k := range keys[lo:hi] {
			n[d.of(k)%(1<<levelBits)]++
		}
	}) {
		return nil
	}
	end := 0
	for b := range d.buckets() {
		for part := range next {
			n := &next[part][b]
			*n, end = end, end+*n
		}
	}
	return next
}

// deal moves src to dst, bucket by bucket. It returns false if the sort was stopped.
func (r *radix[V, K]) deal(w *pool.Worker, dst, src items[V, K], d digit[K], next []counts) bool {
	return r.inParts(w, src.len(), len(next), func(part, lo, hi int) {
		d, dst, next := d, dst, &next[part]
		src := src.at(lo, hi)
		values := src.values[:len(src.keys)]
		for i, k := range src.keys {
			n := &next[d.of(k)%(1<<levelBits)]
			dst.keys[*n] = k
			if unsafe.Sizeof(values[0]) > 0 {
				dst.values[*n] = values[i]
			}
			*n++
		}
	})
}

// fill writes the keys of buckets that each hold equal keys, each bucket from where it begins.
func (d digit[K]) fill(w *pool.Worker, dst []K, begins []int) {
	ranges(w, len(dst), func(lo, hi int) {
		b := sort.Search(len(begins), func(b int) bool { return begins[b] > lo }) // the bucket after that of lo
		for ; lo < hi; b++ {
			end := hi
			if b < len(begins) {
				end = min(begins[b], hi)
			}
			key := d.least + K(b-1)
			for i := range dst[lo:end] {
				dst[lo:end][i] = key
			}
			lo = end
		}
	})
}

// partsOf returns in how many parts a range of n elements is counted and dealt out: some for each
// worker, because a worker may be late.
func partsOf(w *pool.Worker, n int) int {
	if w == nil || n < 2*partLen {
		return 1
	}
	return min(4*(w.Idle()+1), n/partLen)
}

// leaf sorts a range into the slice, in the caller alone.
func (r *radix[V, K]) leaf(lo, hi int, in side, d digit[K]) {
	src, dst := r.sides[in].at(lo, hi), r.sides[in.other()].at(lo, hi)
	if hi-lo <= insertionMost || d.least == d.most {
		if d.least != d.most {
			insertion(src)
		}
		if in == inBuffer {
			copyItems(dst, src)
		}
		return
	}
	d = d.wide(min(bits.Len(uint(hi-lo)), leafBits))
	var counts [1 << leafBits]uint32
	for _, k := range src.keys {
		counts[d.of(k)%(1<<leafBits)]++
	}
	var most, end uint32
	ends := counts[:d.buckets()]
	for b, count := range ends {
		ends[b], end = end, end+count
		most = max(most, count)
	}
	values := src.values[:len(src.keys)]
	for i, k := range src.keys {
		next := &counts[d.of(k)%(1<<leafBits)]
		dst.keys[*next] = k
		if unsafe.Sizeof(values[0]) > 0 {
			dst.values[*next] = values[i]
		}
		*next++
	}
	if most > insertionMost && d.shift > 0 {
		begin := 0
		for _, end := range ends {
			if end := int(end); end > begin {
				r.leaf(lo+begin, lo+end, in.other(), digitOf(dst.keys[begin:end]))
				begin = end
			}
		}
		return
	}
	if d.shift > 0 {
		insertion(dst)
	}
	if in == inSlice {
		copyItems(src, dst)
	}
}

func insertion[V any, K integer](s items[V, K]) {
	keys := s.keys
	if unsafe.Sizeof(s.values[0]) == 0 {
		// This pass mispredicts no branch and settles most of what a deal leaves: it saves a tenth of the sort.
		top := keys[0]
		for i := 1; i < len(keys); i++ {
			k := keys[i]
			keys[i-1], top = min(top, k), max(top, k)
		}
		keys[len(keys)-1] = top
		for i := 1; i < len(keys); i++ {
			k, j := keys[i], i
			for ; j > 0 && keys[j-1] > k; j-- {
				keys[j] = keys[j-1]
			}
			keys[j] = k
		}
		return
	}
	values := s.values[:len(keys)]
	for i := 1; i < len(keys); i++ {
		k := keys[i]
		if keys[i-1] <= k {
			continue
		}
		v, j := values[i], i
		for ; j > 0 && keys[j-1] > k; j-- {
			keys[j], values[j] = keys[j-1], values[j-1]
		}
		keys[j], values[j] = k, v
	}
}

// coding maps the bits of numbers of one kind to unsigned numbers in the same order, one to one. Of a
// negative float all bits are inverted. Then add moves the NaNs with a positive sign from the upper end
// to the lower one, where the NaNs with a negative sign are.
type coding struct {
	top                       uint   // the index of the sign bit
	negative, flip, add, mask uint64 // negative are the bits that the sign inverts
}

// codingOf returns the coding of a kind of numbers of so many bytes.
func codingOf(kind reflect.Kind, size uintptr) coding {
	c := coding{top: uint(size*8 - 1), mask: ^uint64(0) >> (64 - size*8)}
	switch kind {
	case reflect.Float32:
		c.negative, c.flip, c.add = c.mask, 1<<31, 1<<23-1
	case reflect.Float64:
		c.negative, c.flip, c.add = c.mask, 1<<63, 1<<52-1
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		c.flip = 1 << c.top
	}
	return c
}

func (c *coding) encode(x uint64) uint64 {
	return ((x ^ (-(x>>(c.top&63))&c.negative | c.flip)) + c.add) & c.mask
}

func (c *coding) decode(x uint64) uint64 {
	x = (x - c.add) & c.mask
	return x ^ ((x>>(c.top&63)-1)&c.negative | c.flip)
}

// sortIntegers sorts s, and says whether it did.
func sortIntegers[K integer](w *pool.Worker, s []K, cancelled func() bool) bool {
	sortItems(w, items[struct{}, K]{s, make([]struct{}, len(s))}, cancelled)
	return !cancelled()
}

// sortFloats sorts s, the bits of floats with the coding c, and says whether it did.
func sortFloats[K integer](w *pool.Worker, s []K, c coding, cancelled func() bool) bool {
	encoded := make([]bool, (len(s)-1)/radixLeaf+1)
	recode := func(f func(s []K), which func(piece int) bool) {
		each(w, len(encoded), func(_ *pool.Worker, piece int) {
			if encoded[piece] = which(piece); encoded[piece] {
				f(s[piece*radixLeaf : min((piece+1)*radixLeaf, len(s))])
			}
		})
	}
	recode(func(s []K) {
		for i, x := range s {
			s[i] = K(c.encode(uint64(x)))
		}
	}, func(int) bool { return !cancelled() })
	if !cancelled() {
		sortIntegers(w, s, cancelled)
	}
	recode(func(s []K) {
		for i, x := range s {
			s[i] = K(c.decode(uint64(x)))
		}
	}, func(piece int) bool { return encoded[piece] })
	return !cancelled()
}
