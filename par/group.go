package par

import (
	"hash/maphash"

	"github.com/seed53057037/heist/pool"
)

// GroupBy returns the elements of s by their keys, each group in the order of s. key is called once for
// each element.
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
	grouped := make([]T, n)
	groups := make([]map[K][]T, parts)
	if err := For(at, parts, func(p int) {
		lo, hi := begins[p], begins[p+1]
		groups[p] = group(grouped[lo:hi:hi], order[lo:hi], s, keys)
	}); err != nil {
		return nil, err
	}
	all := make(map[K][]T)
	for _, part := range groups {
		for k, g := range part {
			all[k] = g
		}
	}
	return all, nil
}

// group groups the elements of s whose indices are in order. The groups lie in room, which is as long as order.
func group[T any, K comparable](room []T, order []int, s []T, keys []K) map[K][]T {
	type count struct{ n, begin int }
	counts := make(map[K]*count)
	var first []*count // in the order in which they come
	var ks []K
	which := make([]*count, len(order))
	for i, j := range order {
		c := counts[keys[j]]
		if c == nil {
			c = new(count)
			counts[keys[j]] = c
			first = append(first, c)
			ks = append(ks, keys[j])
		}
		c.n++
		which[i] = c
	}
	groups := make(map[K][]T, len(first))
	n := 0
	for i, c := range first {
		groups[ks[i]] = room[n : n+c.n : n+c.n]
		c.begin = n
		n += c.n
	}
	for i, j := range order {
		room[which[i].begin] = s[j]
		which[i].begin++
	}
	return groups
}
