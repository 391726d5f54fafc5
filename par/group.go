package par

import (
	"hash/maphash"

	"github.com/seed53057037/heist/pool"
)

// GroupBy returns the elements of s by their keys, each group in the order of s. key is called once for each element. Each
// group has an array of its own, exactly as long: a group that is kept keeps no other, and append to one changes no other.
//
// Elements are divided by their keys' hashes, and then each part is grouped by itself, in parallel;
// the caller only puts the list of the groups together.
func GroupBy[T any, K comparable](at pool.Place, s []T, key func(T) K) (map[K][]T, error) {
	if key == nil {
		return nil, errNilFunc("GroupBy")
	}
	return groupBy(at, s, func(i int) K { return key(s[i]) })
}

// groupBy is GroupBy with a key function that takes an element's index.
func groupBy[T any, K comparable](at pool.Place, s []T, key func(i int) K) (map[K][]T, error) {
	const parts = 256 // by the lowest byte of the hash
	seed := maphash.MakeSeed()
	keys := make([]K, len(s))
	part := make([]uint8, len(s))
	b := blocksOf(len(s), parts*8)
	// ends[i][p] is how many elements of part p are in block i, and then where they end.
	ends := make([][parts]int, b.count())
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		for j := lo; j < hi; j++ {
			keys[j] = key(j)
			part[j] = uint8(maphash.Comparable(seed, keys[j]))
			ends[i][part[j]]++
		}
	}); err != nil {
		return nil, err
	}
	var begins [parts + 1]int
	n := 0
	for p := range parts {
		begins[p] = n
		for i := range ends {
			n += ends[i][p]
			ends[i][p] = n
		}
	}
	begins[parts] = n
	order := make([]int, n) // indices of the elements: by part, and ascending within a part
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		for j := hi - 1; j >= lo; j-- {
			at := &ends[i][part[j]]
			*at--
			order[*at] = j
		}
	}); err != nil {
		return nil, err
	}
	groups := make([][]grouped[K, T], parts)
	if err := For(at, parts, func(p int) {
		groups[p] = group(order[begins[p]:begins[p+1]], s, keys)
	}); err != nil {
		return nil, err
	}
	n = 0
	for _, part := range groups {
		n += len(part)
	}
	all := make(map[K][]T, n)
	for _, part := range groups {
		for _, g := range part {
			all[g.key] = g.elements
		}
	}
	return all, nil
}

// grouped is the elements with a key. They have an array of their own, so that a group that is kept keeps no other.
type grouped[K, T any] struct {
	key      K
	n        int
	elements []T
}

// group groups the elements of s whose indices are in order.
func group[T any, K comparable](order []int, s []T, keys []K) []grouped[K, T] {
	which := make(map[K]int)
	of := make([]int, len(order))
	var groups []grouped[K, T] // in the order in which they come
	for i, j := range order {
		g, known := which[keys[j]]
		if !known { // a NaN never is
			g = len(groups)
			which[keys[j]] = g
			groups = append(groups, grouped[K, T]{key: keys[j]})
		}
		groups[g].n++
		of[i] = g
	}
	for i, j := range order {
		g := &groups[of[i]]
		if g.elements == nil {
			g.elements = make([]T, 0, g.n)
		}
		g.elements = append(g.elements, s[j])
	}
	return groups
}
