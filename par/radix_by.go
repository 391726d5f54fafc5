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
// The keys are computed once, into a slice of their own, and then sorted together with the elements.
// Long elements, and those with strings as keys, stay where they are, and their indices are sorted
// instead. Then the elements are moved in the order of the indices to a buffer, and back.

// smallElement is the size up to which elements are moved along with their keys. Collecting
// a million elements of 16 bytes by their indices takes longer, 16 ns each, than the sort.
const smallElement = 16

// keysBetweenLooks is how many keys are computed between two checks whether the sort was stopped.
const keysBetweenLooks = 64

// SortBy sorts s in ascending order of its elements' keys, NaNs first. Elements with equal keys
// keep their order, at no extra cost. key is called once for each element, for
// several at the same time.
//
// If key panics, s is as it was. If the place's context ends the sort early, s has its elements in some
// order. Cost: two buffers of keys, one buffer as long as s, and two buffers of indices if elements have more than
// 16 bytes or keys are strings.
func SortBy[S ~[]E, E any, K cmp.Ordered](at pool.Place, s S, key func(e E) K) error {
	if key == nil {
		return errNilFunc("SortBy")
	}
	return sortAt(at, func(w *pool.Worker, cancelled func() bool) bool { return sortBy(w, s, key, cancelled) })
}

func sortByShort[E any, K cmp.Ordered](s []E, key func(e E) K) {
	type keyed struct {
		key K
		e   E
	}
	all := make([]keyed, len(s))
	for i, e := range s {
		all[i] = keyed{key(e), e}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	for i := range all {
		s[i] = all[i].e
	}
}

// sortBy sorts s, and says whether it did.
func sortBy[E any, K cmp.Ordered](w *pool.Worker, s []E, key func(e E) K, cancelled func() bool) bool {
	if cancelled() {
		return false
	}
	t := reflect.TypeFor[K]()
	switch {
	case len(s) < serialSort:
		sortByShort(s, key)
		return true
	case t.Kind() == reflect.String:
		keys := make([]string, len(s))
		ranges(w, len(s), func(lo, hi int) {
			for i := lo; i < hi && !cancelled(); i++ {
				k := key(s[i])
				keys[i] = *(*string)(unsafe.Pointer(&k))
			}
		})
		return permute(w, s, orderStrings(w, keys, cancelled), cancelled)
	case t.Size() <= 4:
		return sortByNumbers(w, s, keysOf[E, K, uint32](w, s, key, codingOf(t.Kind(), t.Size()), cancelled), cancelled)
	default:
		return sortByNumbers(w, s, keysOf[E, K, uint64](w, s, key, codingOf(t.Kind(), t.Size()), cancelled), cancelled)
	}
}

// sortByNumbers sorts s by its elements' keys, and says whether it did.
func sortByNumbers[E any, U integer](w *pool.Worker, s []E, keys []U, cancelled func() bool) bool {
	switch {
	case cancelled():
		return false
	case slices.IsSorted(keys):
		return true
	case unsafe.Sizeof(s[0]) <= smallElement:
		newRadix(items[E, U]{keys, s}, cancelled).sort(w, 0, len(s))
		return !cancelled()
	}
	order := indices(w, len(s))
	newRadix(items[int, U]{keys, order}, cancelled).sort(w, 0, len(s))
	return permute(w, s, order, cancelled)
}

// keysOf returns the elements' keys, mapped to numbers of type U.
func keysOf[E any, K cmp.Ordered, U integer](w *pool.Worker, s []E, key func(e E) K, c coding, cancelled func() bool) []U {
	keys := make([]U, len(s))
	ranges(w, len(s), func(lo, hi int) {
		c := c // in registers
		for ; lo < hi && !cancelled(); lo += keysBetweenLooks {
			end := min(lo+keysBetweenLooks, hi)
			keys := keys[lo:end]
			for i, e := range s[lo:end] {
				k := key(e)
				x := bitsOf(k)
				var zero K
				if k == zero { // one key for both zeros
					x = 0
				}
				keys[i] = U(c.encode(x))
				if k != k { // and one for all NaNs
					keys[i] = 0
				}
			}
		}
	})
	return keys
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
	order := make([]int, n)
	ranges(w, n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			order[i] = i
		}
	})
	return order
}

// permute moves each element of s to the position that its index has in order, and says whether it did.
func permute[E any](w *pool.Worker, s []E, order []int, cancelled func() bool) bool {
	sorted := make([]E, len(s))
	ranges(w, len(s), func(lo, hi int) {
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
