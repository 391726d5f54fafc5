package par

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/pool"
)

// # Sorting strings
//
// Strings lie all over the memory. So the sort takes the next 7 bytes of each string as a number, its
// key, and sorts the keys by radix, each with the string's index. Strings with equal keys are sorted by
// the bytes that follow, and so on: this is the multikey sort of Bentley and Sedgewick, "Fast Algorithms
// for Sorting and Searching Strings" (1997), with the caching of Ng and Kakehi's "Cache Efficient Radix
// Sort for String Sorting" (2007). Bytes that all strings of a range have in common are skipped at once.
// Few strings are compared as a whole, and so are strings that are still equal after many keys. If a sample says that many strings have
// long beginnings in common that not all have, a merge sort compares them (sortStrings): the chains
// "a", "aa", "aaa" and so on, of up to 1,500 bytes, take a third of the time that keys take.

const (
	// chunkLen is how many bytes of a string make a key. The rest of the key says how many bytes
	// there were, so that a string that ends comes before one that goes on with zeros.
	chunkLen = 7

	// wholeStrings is the most strings that are compared as a whole at once.
	wholeStrings = 32

	// deepest is after how many keys any number of strings is compared as a whole. So a sort of strings
	// each of which is the beginning of the next one takes no longer than a sort by comparisons.
	deepest = 16
)

// chunkOf returns the first bytes of s as a key.
func chunkOf(s string) (key uint64) {
	if len(s) > chunkLen {
		return binary.BigEndian.Uint64(unsafe.Slice(unsafe.StringData(s), 8))&^0xff | (chunkLen + 1)
	}
	for i := range len(s) {
		key |= uint64(s[i]) << (56 - 8*i)
	}
	return key | uint64(len(s))
}

// goesOn says whether strings with that key have more bytes.
func goesOn(key uint64) bool { return key&0xff > chunkLen }

// stringOrder sorts the indices of strings.
type stringOrder struct {
	*radix[int, uint64]
	keys []string
}

// orderStrings returns the order of the strings.
func orderStrings(w *pool.Worker, keys []string, cancelled func() bool) []int {
	chunks := items[int, uint64]{scratch[uint64](len(keys)), indices(w, len(keys))}
	o := stringOrder{newRadix(chunks, cancelled), keys}
	o.grow() // sort may call several radix sorts at a time
	o.sort(w, 0, len(keys), 0, 0)
	o.recycle()
	recycle(chunks.keys)
	return chunks.values
}

// deep says whether many of the strings have long beginnings in common that not all have. Then their bytes tell few of them
// apart, and comparisons of whole strings are faster.
func deep(keys []string) bool {
	least, sum := math.MaxInt, 0
	const pairs = 16
	for i := range pairs {
		at := len(keys) / pairs * i
		n := commonLen(keys[at], keys[at+len(keys)/(2*pairs)])
		least, sum = min(least, n), sum+n
	}
	return sum/pairs-least > 3*chunkLen
}

// sortStrings sorts strings that are in no order, and says whether it did.
func sortStrings(w *pool.Worker, s []string, l looked, cancelled func() bool) bool {
	if !deep(s) {
		return permute(w, s, orderStrings(w, s, cancelled), cancelled)
	}
	if len(s) <= radixLeaf {
		slices.Sort(s)
		return true
	}
	return newComparables(s, strings.Compare, cancelled).sort(w, l)
}

// sortByStrings sorts s by its elements' keys, and says whether it did.
func sortByStrings[E any](w *pool.Worker, s []E, keysOf func(s []E, keys []string), l looked, runs, cancelled func() bool) bool {
	if l.fewOrRuns(func() bool { return dealFew(w, s, keysOf, stringKind{maphash.MakeSeed()}, cancelled) }, runs) {
		return true
	}
	keys := allKeys(w, s, keysOf, cancelled)
	defer recycle(keys)
	if cancelled() {
		return false
	}
	type item struct {
		key string
		at  int
	}
	if !l.ordered && !deep(keys) {
		return permute(w, s, orderStrings(w, keys, cancelled), cancelled)
	}
	all := scratch[item](len(s))
	defer recycle(all)
	for i, key := range keys {
		all[i] = item{key, i}
	}
	newComparables(all, func(a, b item) int { return strings.Compare(a.key, b.key) }, cancelled).sort(w, l)
	order := scratch[int](len(s))
	for i := range all {
		order[i] = all[i].at
	}
	return permute(w, s, order, cancelled)
}

// sort sorts a range of strings whose first skip bytes are the same.
func (o stringOrder) sort(w *pool.Worker, lo, hi, skip, depth int) {
	s := o.sides[inSlice].at(lo, hi)
	switch {
	case o.cancelled():
		return
	case hi-lo <= wholeStrings || depth > deepest:
		slices.SortFunc(s.values, func(a, b int) int {
			if c := cmp.Compare(o.keys[a][skip:], o.keys[b][skip:]); c != 0 {
				return c
			}
			return a - b
		})
		return
	}
	skip += o.common(w, s.values, skip)
	ranges(w, hi-lo, func(lo, hi int) {
		for i, at := range s.values[lo:hi] {
			s.keys[lo+i] = chunkOf(o.keys[at][skip:])
		}
	})
	o.radix.sort(w, lo, hi)

	// Strings with the same key are in one part.
	cuts := []int{0}
	for end := 0; end < len(s.keys); cuts = append(cuts, end) {
		for end = min(end+radixLeaf, len(s.keys)); end < len(s.keys) && s.keys[end] == s.keys[end-1]; end++ {
		}
	}
	ties := func(w *pool.Worker, part, to int) {
		for i, end := cuts[part], cuts[to]; i < end; {
			key, from := s.keys[i], i
			for i++; i < end && s.keys[i] == key; i++ {
			}
			if i-from > 1 && goesOn(key) {
				o.sort(w, lo+from, lo+i, skip+chunkLen, depth+1)
			}
		}
	}
	if len(cuts) == 2 {
		ties(w, 0, 1)
		return
	}
	must(pool.ForRange(w, len(cuts)-1, ties, pool.Grain(1)))
}

// common returns how many bytes the strings have in common after the first skip bytes.
func (o stringOrder) common(w *pool.Worker, order []int, skip int) int {
	first := o.keys[order[0]][skip:]
	var common atomic.Int64
	common.Store(int64(len(first)))
	ranges(w, len(order), func(lo, hi int) {
		for _, at := range order[lo:hi] {
			n := common.Load()
			if n == 0 {
				return
			}
			if m := int64(commonLen(first[:n], o.keys[at][skip:])); m < n {
				lower(&common, m)
			}
		}
	})
	return int(common.Load())
}

// commonLen returns how many bytes two strings have in common at their beginnings.
func commonLen(a, b string) int {
	n := min(len(a), len(b))
	x, y := unsafe.Slice(unsafe.StringData(a), n), unsafe.Slice(unsafe.StringData(b), n)
	i := 0
	for ; i+8 <= n; i += 8 {
		if differ := binary.LittleEndian.Uint64(x[i:]) ^ binary.LittleEndian.Uint64(y[i:]); differ != 0 {
			return i + bits.TrailingZeros64(differ)/8
		}
	}
	for i < n && x[i] == y[i] {
		i++
	}
	return i
}
