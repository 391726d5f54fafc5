package pool

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// # Sorting by a key
//
// The keys are computed once, and sorted with the indices of their elements, which stay where
// they are meanwhile. Then the elements are moved, in the order of the indices, to a buffer, and
// back. So whatever ends the sort early, the elements are as they were; only the move back
// must not be left out, and is not.

// SortBy sorts s in ascending order of its elements' keys, NaNs first. Elements with equal keys
// keep their order: that costs nothing. Key is called once for each element, for
// several at the same time.
//
// If the place's context ends it early, or if key panics, s is as it was. Cost: a buffer as
// long as s, and two of 16 bytes for each element, or 8 if keys are numbers of up to 32 bits.
func SortBy[S ~[]E, E any, K cmp.Ordered](at Place, s S, key func(e E) K) error {
	if key == nil {
		return errNilFunc("SortBy")
	}
	if len(s) < serialSort {
		if _, err := check(at); err != nil {
			return err
		}
		sortByShort(s, key)
		return nil
	}
	return sortAt(at, func(w *Worker) bool { return sortBy(w, s, key, w.call) })
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
func sortBy[E any, K cmp.Ordered](w *Worker, s []E, key func(e E) K, c *call) bool {
	if c.stopped() {
		return false
	}
	t := reflect.TypeFor[K]()
	switch {
	case len(s) < serialSort:
		sortByShort(s, key)
		return true
	case t.Kind() == reflect.String:
		keys := make([]string, len(s))
		_ = ForRange(w, len(s), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				k := key(s[i])
				keys[i] = *(*string)(unsafe.Pointer(&k))
			}
		})
		return permute(w, s, orderStrings(w, keys, c), c)
	case t.Size() <= 4 && len(s) <= math.MaxUint32:
		return permute(w, s, orderNumbers[E, K, uint32, uint32](w, s, key, codingOf(t.Kind(), t.Size()), c), c)
	default:
		return permute(w, s, orderNumbers[E, K, int, uint64](w, s, key, codingOf(t.Kind(), t.Size()), c), c)
	}
}

// orderNumbers returns the order of the elements by their keys.
func orderNumbers[E any, K cmp.Ordered, V int | uint32, U unsigned](w *Worker, s []E, key func(e E) K, c coding, call *call) []item[V, U] {
	items := make([]item[V, U], len(s))
	_ = ForRange(w, len(s), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k := key(s[i])
			var zero K
			switch {
			case k != k:
				items[i] = item[V, U]{V(i), 0} // one key for all NaNs
			case k == zero:
				k = zero // and one for both zeros
				fallthrough
			default:
				items[i] = item[V, U]{V(i), U(c.encode(bitsOf(k)))}
			}
		}
	})
	if !inOrder(items) {
		newRadix(items, call).sort(w, 0, len(items))
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

func inOrder[V any, K unsigned](s []item[V, K]) bool {
	for i := 1; i < len(s); i++ {
		if s[i].key < s[i-1].key {
			return false
		}
	}
	return true
}

// permute moves the elements of s to where their indices are in order, and says whether it did.
func permute[E any, V int | uint32, K unsigned](w *Worker, s []E, order []item[V, K], c *call) bool {
	sorted := make([]E, len(s))
	_ = ForRange(w, len(s), func(lo, hi int) {
		for i, at := range order[lo:hi] {
			sorted[lo+i] = s[at.value]
		}
	})
	if c.stopped() {
		return false
	}
	defer suspend(w)()
	copyAt(w, s, sorted)
	return true
}
