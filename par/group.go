package par

import (
	"github.com/seed53057037/heist/pool"
)

// GroupBy returns the elements of s by their keys, each group in the order of s. key is called once for each element. Each
// group has an array of its own: a group that is kept keeps no other, and append to one changes no other.
//
// When all keys are known, the caller groups elements that are few, or of which many have keys of their own, as one does with a map
// and append: no other worker could make the map. Otherwise each worker groups a part, and the caller puts the lists of groups together.
// Cost: the keys, an index for each element, and a map for each part.
func GroupBy[T any, K comparable](at pool.Place, s []T, key func(T) K) (map[K][]T, error) {
	if key == nil {
		return nil, errNilFunc("GroupBy")
	}
	return groupBy(at, s, func(i int) K { return key(s[i]) })
}

// groupBy is GroupBy with a key function that takes an element's index.
func groupBy[T any, K comparable](at pool.Place, s []T, key func(i int) K) (map[K][]T, error) {
	if len(s) <= leastGrouped/4 {
		return groupFew(at, s, key)
	}
	keys := make([]K, len(s))
	if err := For(at, len(s), func(i int) { keys[i] = key(i) }); err != nil {
		return nil, err
	}
	var first grouped[K, T]
	first.group(keys[:leastGrouped/4], make([]uint32, leastGrouped/4))
	if len(first.keys) > leastGrouped/16 {
		all := make(map[K][]T, len(first.keys))
		for i, k := range keys {
			all[k] = append(all[k], s[i])
		}
		return all, nil
	}
	parts := make([]grouped[K, T], max(1, min(len(s)/leastGrouped, mostGrouped)))
	of := make([]uint32, len(s)) // the group of an element in its part
	if err := For(at, len(parts), func(p int) {
		lo, hi := cut(len(s), p, len(parts))
		parts[p].group(keys[lo:hi], of[lo:hi])
	}); err != nil {
		return nil, err
	}
	groups := parts[0]
	globals := make([][]int, len(parts)) // the group in all of a group in a part
	if len(parts) > 1 {
		groups = grouped[K, T]{}
		which := make(map[K]int, len(parts[0].keys))
		for p, part := range parts {
			globals[p] = make([]int, len(part.keys))
			for i, k := range part.keys {
				g, known := which[k]
				if !known { // a NaN never is
					g = len(groups.keys)
					which[k] = g
					groups.keys, groups.sizes = append(groups.keys, k), append(groups.sizes, 0)
				}
				globals[p][i] = g
				groups.sizes[g] += part.sizes[i]
			}
		}
	}
	groups.elements = make([][]T, len(groups.keys))
	if err := For(at, len(groups.keys), func(g int) { groups.elements[g] = make([]T, 0, groups.sizes[g]) }); err != nil {
		return nil, err
	}
	for p := range parts { // each part appends to a range of its own
		if part := &parts[p]; len(parts) == 1 {
			part.elements = groups.elements
		} else {
			part.elements = make([][]T, len(part.keys))
			for i, g := range globals[p] {
				all := &groups.elements[g]
				end := len(*all) + part.sizes[i]
				part.elements[i] = (*all)[len(*all):len(*all):end]
				*all = (*all)[:end]
			}
		}
	}
	if err := For(at, len(parts), func(p int) {
		lo, hi := cut(len(s), p, len(parts))
		elements, of := parts[p].elements, of[lo:hi]
		for i, e := range s[lo:hi] {
			to := &elements[of[i]]
			*to = append(*to, e)
		}
	}); err != nil {
		return nil, err
	}
	all := make(map[K][]T, len(groups.keys))
	for g, k := range groups.keys {
		all[k] = groups.elements[g]
	}
	return all, nil
}

// groupFew is groupBy as one writes it by hand, but for keys that take long.
func groupFew[T any, K comparable](at pool.Place, s []T, key func(i int) K) (map[K][]T, error) {
	all := make(map[K][]T)
	done, others, err := pool.Probe(at, len(s), nil, func(lo, hi int) (more bool) {
		for i, e := range s[lo:hi] {
			k := key(lo + i)
			all[k] = append(all[k], e)
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case done == len(s):
		return all, nil
	}
	keys := make([]K, len(s)-done)
	if err := For(at, len(keys), func(i int) { keys[i] = key(done + i) }, others); err != nil {
		return nil, err
	}
	for i, k := range keys {
		all[k] = append(all[k], s[done+i])
	}
	return all, nil
}

const (
	leastGrouped = 1 << 12 // the least part, which takes longer than a wake-up; a quarter of it says how many groups there are
	mostGrouped  = 64      // the most parts
)

// grouped is groups, in the order in which they come.
type grouped[K comparable, T any] struct {
	keys     []K
	sizes    []int
	elements [][]T
}

// group groups keys, and notes the group of each.
func (p *grouped[K, T]) group(keys []K, of []uint32) {
	which := make(map[K]uint32)
	for i, k := range keys {
		g, known := which[k]
		if !known { // a NaN never is
			g = uint32(len(p.keys))
			which[k] = g
			p.keys, p.sizes = append(p.keys, k), append(p.sizes, 0)
		}
		p.sizes[g]++
		of[i] = g
	}
}
