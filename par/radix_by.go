package par

import (
	"cmp"
	"reflect"
	"slices"
	"unsafe"

	"github.com/seed53057037/heist/pool"
)

// # Sorting by a key
//
// Elements in order stay where they are, or are reversed; if there are a few outliers, or few runs, they are merged (runs.go). That takes no
// memory for keys, and a pass or two. If there are few different keys, the elements are
// dealt out (few.go). Otherwise the keys are computed once, into a slice of their own, and the keys are sorted together with the elements.
// Long elements, and those with strings as keys, stay where they are, and their indices are sorted
// instead. Then the elements are moved in the order of the indices to a buffer, and back.

// smallElement is the size up to which elements are moved along with their keys. Collecting
// a million elements of 16 bytes by their indices takes longer, 16 ns each, than the sort.
const smallElement = 16

// keysAtOnce is how many keys are computed, or looked up, between two checks whether the sort was stopped.
const keysAtOnce = 64

// SortBy sorts s in ascending order of its elements' keys, NaNs first. Elements with equal keys
// keep their order, at no extra cost; to sort by two keys, sort by the lesser one first. key is called by several workers at the same time, even for the
// same element: for elements in no order once for each, and a few hundred times more in all, or twice where a rare key turns up beside few others; for
// those in some order whenever they are compared, up to a dozen times for each in the mean.
//
// From 256 elements on, a key that takes over 200 nanoseconds is called for some hundred elements more at most once the place's context has ended. If key panics or calls runtime.Goexit, or the place's context ends the sort early, s has its elements in some
// order; a panic continues in the caller. Cost: two slices of keys, one as long as s, and two of indices if elements have more than
// 16 bytes or keys are strings; for a few runs one as long as s, for a few different keys that and a byte for each element; for
// outliers that turn out to be many, up to three of those besides; and nothing if s is in order. Sorts that follow share this memory, as those of [Sort] do. Up to 255 elements are sorted on the stack, and up to 8,192 by the caller alone.
func SortBy[S ~[]E, E any, K cmp.Ordered](at pool.Place, s S, key func(e E) K) error {
	if key == nil {
		return errNilFunc("SortBy")
	}
	if len(s) < serialSort {
		return alone(at, func() { sortBy(nil, s, key, never) })
	}
	return sortAt(at, func(w *pool.Worker, cancelled func() bool) bool { return sortBy(w, s, key, cancelled) })
}

// fewKeys is how many keys are sorted on the stack. Beside a sort of so few elements each allocation counts.
const fewKeys = 256

// insertedBy is the length up to which a slice is sorted by the insertion of elements and keys. Up to 32, strings took 1.4 times as long as merges of indices.
const insertedBy = 24

// insertedItems bounds the blocks of keys that are sorted by insertion, by a binary search that has no branch.
const insertedItems = 16

// sortByFew sorts at most fewKeys elements: those that are near their places by insertion, others by merging keys and indices.
func sortByFew[E any, K cmp.Ordered](s []E, key func(e E) K) {
	var keys [fewKeys]K
	for i, e := range s {
		keys[i] = key(e)
	}
	all := items[E, K]{keys[:len(s)], s}
	if end, down := runOf(all.keys, false); end == len(s) {
		if down {
			slices.Reverse(s)
		}
		return
	}
	if 4*descents(all.keys) > len(s) || !all.insertNear() {
		mergeByFew(s, &keys)
	}
}

func mergeByFew[E any, K cmp.Ordered](s []E, keys *[fewKeys]K) {
	var merged [fewKeys]K
	var order [2][fewKeys]uint8
	from, to := items[uint8, K]{keys[:len(s)], order[0][:len(s)]}, items[uint8, K]{merged[:len(s)], order[1][:len(s)]}
	for i := range from.values {
		from.values[i] = uint8(i)
	}
	if !sortFewValues(to, from) {
		for lo := 0; lo < len(s); lo += insertedItems {
			insertItems(to.at(lo, min(lo+insertedItems, len(s))), from.at(lo, min(lo+insertedItems, len(s))))
		}
		for width := insertedItems; width < len(s); width *= 2 {
			from, to = to, from
			for lo := 0; lo < len(s); lo += 2 * width {
				mid, end := min(lo+width, len(s)), min(lo+2*width, len(s))
				mergeItems(to, from, extent{lo, mid}, extent{mid, end}, lo)
			}
		}
	}
	for i := range s { // along each circle of elements that take each other's places
		if e, at := s[i], i; int(to.values[i]) != i {
			for from := int(to.values[at]); from != i; from = int(to.values[at]) {
				s[at], to.values[at] = s[from], uint8(at)
				at = from
			}
			s[at], to.values[at] = e, uint8(at)
		}
	}
}

// sortFewValues sorts the indices of src into dst if the keys have few values, and says whether it did. It does not move the keys.
func sortFewValues[K cmp.Ordered](dst, src items[uint8, K]) bool {
	if reflect.TypeFor[K]().Kind() == reflect.String {
		return false
	}
	const most, slots = 16, 64
	var values [most]K
	var numbers [slots]uint8 // of the value in a slot, from 1
	var counts [most + 1]uint8
	var number [fewKeys]uint8 // of each key's value
	known := uint8(0)
	var zero K
	for i, k := range src.keys {
		if k == zero {
			k = zero // of either sign
		}
		at := bitsOf(k) * 0x9e3779b97f4a7c15 >> 58
		for n := numbers[at]; n == 0 || values[n-1] != k; n = numbers[at] {
			switch {
			case n > 0:
				at = (at + 1) % slots
				continue
			case known == most || k != k:
				return false
			}
			values[known] = k
			known++
			numbers[at] = known
		}
		number[i] = numbers[at]
		counts[numbers[at]]++
	}
	var sorted [most]uint8
	for i := range known {
		j := i
		for ; j > 0 && values[i] < values[sorted[j-1]-1]; j-- {
			sorted[j] = sorted[j-1]
		}
		sorted[j] = i + 1
	}
	end := uint8(0)
	for _, n := range sorted[:known] {
		counts[n], end = end, end+counts[n]
	}
	for i := range src.keys {
		next := &counts[number[i]]
		dst.values[*next] = uint8(i)
		*next++
	}
	return true
}

// descents returns how many keys are less than the one before.
func descents[K cmp.Ordered](keys []K) (n int) {
	for i, k := range keys[1:] {
		if k < keys[i] {
			n++
		}
	}
	return n
}

// insertItems sorts src into dst, which may be the same items.
func insertItems[V any, K cmp.Ordered](dst, src items[V, K]) {
	for i, k := range src.keys {
		v, j := src.values[i], i
		for ; j > 0 && cmp.Less(k, dst.keys[j-1]); j-- {
			dst.keys[j], dst.values[j] = dst.keys[j-1], dst.values[j-1]
		}
		dst.keys[j], dst.values[j] = k, v
	}
}

// mergeItems merges two runs of src into dst, from index at on.
func mergeItems[V any, K cmp.Ordered](dst, src items[V, K], a, b extent, at int) {
	if a.len() > 0 && b.len() > 0 && cmp.Less(src.keys[b.lo], src.keys[a.hi-1]) {
		keys, out := src.keys[:b.hi], dst.keys
		i, j := a.lo, b.lo
		for ; i < a.hi && j < len(keys); at++ {
			less := 0 // no branch to mispredict
			if cmp.Less(keys[j], keys[i]) {
				less = 1
			}
			next := i + (j-i)&-less
			out[at] = keys[next]
			if unsafe.Sizeof(src.values[0]) > 0 {
				dst.values[at] = src.values[next]
			}
			i, j = i+1-less, j+less
		}
		a.lo, b.lo = i, j
	}
	copyItems(dst.at(at, at+a.len()), src.at(a.lo, a.hi))
	at += a.len()
	copyItems(dst.at(at, at+b.len()), src.at(b.lo, b.hi))
}

// sortBy sorts s, and says whether it did.
func sortBy[E any, K cmp.Ordered](w *pool.Worker, s []E, key func(e E) K, cancelled func() bool) bool {
	if cancelled() {
		return false
	}
	switch {
	case len(s) <= insertedBy:
		var keys [insertedBy]K
		for i, e := range s {
			keys[i] = key(e)
		}
		all := items[E, K]{keys[:len(s)], s}
		if end, down := runOf(all.keys, false); end == len(s) {
			if down {
				slices.Reverse(s)
			}
			return true
		}
		insertItems(all, all)
		return true
	case len(s) <= fewKeys:
		sortByFew(s, key)
		return true
	}
	e := newKeyed(s, key, cancelled)
	l := e.look(w)
	switch {
	case l.oneRun:
		if l.down {
			e.reverse(w, 0, len(s))
		}
		return e.end()
	}
	runs := func() bool { return e.sortRuns(w) }
	t := reflect.TypeFor[K]()
	switch {
	case t.Kind() == reflect.String:
		return sortByStrings(w, s, func(s []E, keys []string) {
			for i, e := range s {
				k := key(e)
				keys[i] = *(*string)(unsafe.Pointer(&k))
			}
		}, l, runs, cancelled)
	case t.Size() <= 4:
		return sortByCodes(w, s, codes[E, K, uint32](key), l, runs, cancelled)
	default:
		return sortByCodes(w, s, codes[E, K, uint64](key), l, runs, cancelled)
	}
}

// allKeys returns the keys of s, unless the call is cancelled.
func allKeys[E, K any](w *pool.Worker, s []E, keys func(s []E, keys []K), cancelled func() bool) []K {
	all := scratch[K](len(s))
	rangesFrom(radixLeaf, w, len(s), func(lo, hi int) {
		for ; lo < hi && !cancelled(); lo += keysAtOnce {
			end := min(lo+keysAtOnce, hi)
			keys(s[lo:end], all[lo:end])
		}
	})
	return all
}

// sortByCodes sorts s by the elements' codes, and says whether it did.
func sortByCodes[E any, U integer](w *pool.Worker, s []E, codes func(s []E, codes []U), l looked, runs, cancelled func() bool) bool {
	if l.fewOrRuns(func() bool { return dealFew(w, s, codes, numberKind[U, U]{}, cancelled) }, runs) {
		return true
	}
	all := allKeys(w, s, codes, cancelled)
	defer recycle(all)
	switch {
	case cancelled():
		return false
	case unsafe.Sizeof(s[0]) <= smallElement:
		sortItems(w, items[E, U]{all, s}, cancelled)
		return !cancelled()
	}
	order := indices(w, len(s))
	sortItems(w, items[int, U]{all, order}, cancelled)
	return permute(w, s, order, cancelled)
}

// keyed are comparables that are compared by their keys.
type keyed[E any, K cmp.Ordered] struct {
	*comparables[E]
	key func(e E) K
}

func newKeyed[E any, K cmp.Ordered](s []E, key func(e E) K, cancelled func() bool) keyed[E, K] {
	c := newComparables(s, nil, cancelled)
	heedful := heedfulKey(c, key)
	c.compare = func(a, b E) int { return cmp.Compare(heedful(a), heedful(b)) }
	e := keyed[E, K]{c, heedful}
	c.elements = e
	return e
}

// heedfulKey is heedful for a function of keys.
func heedfulKey[E any, K cmp.Ordered](c *comparables[E], key func(e E) K) func(e E) K {
	x := c.sides[inSlice][0]
	if !slow(func() { key(x) }) {
		return key
	}
	return func(e E) (k K) {
		if !c.stopped() {
			k = key(e)
		}
		return k
	}
}

// run takes one call of key for each element, where comparisons would take two.
func (e keyed[E, K]) run(lo, hi int) (end int, down bool) {
	s, key := e.sides[inSlice][:hi], e.key
	last, first := key(s[lo]), 0
	for end = lo + 1; first == 0 && end < len(s); end++ {
		k := key(s[end])
		first, last = cmp.Compare(k, last), k
	}
	down = first < 0
	equals := down && end > lo+2
	for ; end < len(s); end++ {
		k := key(s[end])
		less := cmp.Less(k, last)
		if !down && less || down && !less && cmp.Less(last, k) {
			break
		}
		equals = equals || down && !less
		last = k
	}
	e.hasEquals(equals)
	return end, down
}

// codes returns a function that maps elements to numbers in the order of their keys.
func codes[E any, K cmp.Ordered, U integer](key func(e E) K) func(s []E, codes []U) {
	t := reflect.TypeFor[K]()
	coding := codingOf(t.Kind(), t.Size())
	return func(s []E, codes []U) {
		c, codes := coding, codes[:len(s)] // in registers
		for i, e := range s {
			switch k := key(e); {
			case k != k: // one code for all NaNs
				codes[i] = 0
			case k == *new(K): // and one for both zeros
				codes[i] = U(c.encode(0))
			default:
				codes[i] = U(c.encode(bitsOf(k)))
			}
		}
	}
}

// bitsOf returns the bits of a number.
func bitsOf[K any](k K) uint64 {
	switch p := unsafe.Pointer(&k); unsafe.Sizeof(k) {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	default:
		return *(*uint64)(p)
	}
}

// indices returns the numbers from 0 to n-1.
func indices(w *pool.Worker, n int) []int {
	order := scratch[int](n)
	ranges(w, n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			order[i] = i
		}
	})
	return order
}

// permute moves each element of s to the position that its index has in order, and says whether it did. It recycles order.
func permute[E any](w *pool.Worker, s []E, order []int, cancelled func() bool) bool {
	sorted := scratch[E](len(s))
	defer func() {
		recycle(sorted)
		recycle(order)
	}()
	rangesFrom(shortMoves[E](), w, len(s), func(lo, hi int) {
		for i, at := range order[lo:hi] {
			sorted[lo+i] = s[at]
		}
	})
	if cancelled() {
		return false
	}
	copyAt(w, s, sorted)
	return true
}
