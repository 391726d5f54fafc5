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
// The keys are computed once, and sorted with copies of their elements, which stay where they are
// meanwhile. Long elements, and those with strings as keys, are sorted as indices, and then moved
// in that order to a buffer. The last step is the move back. So whatever ends the sort before that,
// the elements are as they were, and that step is not left out once it has begun.

// smallElement is the size up to which elements are moved along with their keys. To
// collect a million elements of 16 bytes by their indices takes longer, 16 ns each, than the sort.
const smallElement = 16

// SortBy sorts s in ascending order of its elements' keys, NaNs first. Elements with equal keys
// keep their order: that costs nothing. Key is called once for each element, for
// several at the same time.
//
// If the place's context ends it early, or if key panics, s is as it was. Cost: two buffers for
// keys with elements of up to 16 bytes, or else with indices, and one as long as s.
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
		return sortByNumbers[E, K, uint32](w, s, key, codingOf(t.Kind(), t.Size()), cancelled)
	default:
		return sortByNumbers[E, K, uint64](w, s, key, codingOf(t.Kind(), t.Size()), cancelled)
	}
}

// sortByNumbers is sortBy for keys that are numbers and are mapped to those of type U.
func sortByNumbers[E any, K cmp.Ordered, U integer](w *pool.Worker, s []E, key func(e E) K, c coding, cancelled func() bool) bool {
	if unsafe.Sizeof(s[0]) > smallElement {
		order := orderNumbers[E, K, int, U](w, s, key, c, cancelled, func(items []item[int, U], lo int) {
			for i := range items {
				items[i].value = lo + i
			}
		})
		return permute(w, s, order, cancelled)
	}
	items := orderNumbers[E, K, E, U](w, s, key, c, cancelled, func(items []item[E, U], lo int) {
		for i, e := range s[lo : lo+len(items)] {
			items[i].value = e
		}
	})
	if cancelled() {
		return false
	}
	ranges(w, len(s), func(lo, hi int) {
		for i := range items[lo:hi] {
			s[lo+i] = items[lo+i].value
		}
	})
	return true
}

// orderNumbers returns what fill sets for each element, in the order of the keys.
func orderNumbers[E any, K cmp.Ordered, V any, U integer](w *pool.Worker, s []E, key func(e E) K, c coding, cancelled func() bool,
	fill func(items []item[V, U], lo int)) []item[V, U] {
	items := make([]item[V, U], len(s))
	ranges(w, len(s), func(lo, hi int) {
		fill(items[lo:hi], lo)
		for i := lo; i < hi && !cancelled(); i++ {
			k := key(s[i])
			var zero K
			switch {
			case k != k: // one key for all NaNs
				items[i].key = 0
			case k == zero: // and one for both zeros
				items[i].key = U(c.encode(bitsOf(zero)))
			default:
				items[i].key = U(c.encode(bitsOf(k)))
			}
		}
	})
	if !inOrder(items) {
		newRadix(items, cancelled).sort(w, 0, len(items))
	}
	return items
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

func inOrder[V any, K integer](s []item[V, K]) bool {
	for i := 1; i < len(s); i++ {
		if s[i].key < s[i-1].key {
			return false
		}
	}
	return true
}

// permute moves the elements of s to where their indices are in order, and says whether it did.
func permute[E any, K integer](w *pool.Worker, s []E, order []item[int, K], cancelled func() bool) bool {
	sorted := make([]E, len(s))
	ranges(w, len(s), func(lo, hi int) {
		for i, at := range order[lo:hi] {
			sorted[lo+i] = s[at.value]
		}
	})
	if cancelled() {
		return false
	}
	copyAt(w, s, sorted)
	return true
}
