package par

import (
	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
)

// GroupBy returns the elements of s by their keys, each group in the order of s. key is called once for each element. Each
// group has an array of its own: a group that is kept keeps no other, and append to one changes no other. Keys are as in a map: each NaN has a group of its
// own, and a key with a dynamic type that cannot be compared panics, in the caller or as a [*pool.PanicError].
//
// The caller groups the first elements, as one does with a map and append, and goes on so if they are few, or if nearly
// each has a key of its own: no other worker could make the map. Otherwise each worker groups a part, and the caller puts the lists of groups together.
// Cost: the keys of an eighth of the elements, or of all if key takes long; if workers group parts, also an index for each element, and a map for each part. A call for a few elements
// takes some 0.5 microseconds more than such a loop.
func GroupBy[T any, K comparable](at pool.Place, s []T, key func(T) K) (map[K][]T, error) {
	if key == nil {
		return nil, errNilFunc("GroupBy")
	}
	return groupBy(at, s, key, func(keys []K, lo int) {
		for i, e := range s[lo : lo+len(keys)] {
			keys[i] = key(e)
		}
	})
}

// groupBy is GroupBy by what keysFrom sets keys to: those of the elements from lo on, by the user's function key.
func groupBy[T any, K comparable](at pool.Place, s []T, key any, keysFrom func(keys []K, lo int)) (map[K][]T, error) {
	if len(s) <= 4*leastGrouped { // groupParts would return 0
		return groupFew(at, s, keysOf[K]{scratch[K](len(s)), 0, keysFrom, key})
	}
	workers := 0
	if err := pool.Do(at, func(w *pool.Worker) { workers = w.Pool().Workers() }); err != nil {
		return nil, err
	}
	sample := scratch[K](len(s) / 8)
	b := keysOf[K]{from: keysFrom, key: key}
	all := make(map[K][]T)
	group := func(lo, hi int) (groups int) {
		for i, k := range b.keys[lo-b.first : hi-b.first] {
			all[k] = append(all[k], s[lo+i])
		}
		return len(all)
	}
	// The caller groups until two looks have said into how many parts the rest is divided, and all if into none.
	looks := []int{leastGrouped / 4, len(sample)}
	keysTook, took, n := int64(0), int64(0), 0
	for n == 0 && b.first+len(b.keys) < len(s) {
		begin := heist.Ticks()
		done := b.first + len(b.keys)
		end := min(done+len(sample), len(s))
		if len(looks) > 0 {
			end = looks[0]
		}
		b.first, b.keys = done, sample[:end-done]
		if err := pool.ForBody(at, len(b.keys), b); err != nil {
			return nil, err
		}
		keysTook += heist.Ticks() - begin
		if len(looks) > 0 {
			from := end - (end-done)/4
			before := group(done, from)
			n = groupParts(len(s), end, group(from, end), before, from, workers)
			looks = looks[1:]
		} else {
			group(done, end)
		}
		took += heist.Ticks() - begin
	}
	done := b.first + len(b.keys)
	if n == 0 {
		recycle(sample)
		return all, nil
	}
	var known []K
	if keysTook > took/2 {
		known = scratch[K](len(s) - done)
		if err := pool.ForBody(at, len(known), keysOf[K]{known, done, keysFrom, key}); err != nil {
			return nil, err
		}
		b.from = func(keys []K, lo int) { copy(keys, known[lo-done:]) }
	}
	parts := make([]grouped[K, T], 1+n) // the first one is what the caller has grouped
	for k, elements := range all {
		parts[0].keys, parts[0].sizes = append(parts[0].keys, k), append(parts[0].sizes, len(elements))
		parts[0].elements = append(parts[0].elements, elements)
	}
	of := scratch[uint32](len(s)) // the group of an element in its part
	if err := pool.ForBody(at, n, groupedParts{func(p int) {
		lo, hi := cut(len(s)-done, p, n)
		parts[1+p].group(b.from, done+lo, of[done+lo:done+hi])
	}, key}, pool.Grain(1)); err != nil {
		return nil, err
	}
	var groups grouped[K, T]
	globals := make([][]int, len(parts)) // the group in all of a group in a part
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
	groups.elements = make([][]T, len(groups.keys))
	if err := For(at, len(groups.keys), func(g int) { groups.elements[g] = make([]T, 0, groups.sizes[g]) }); err != nil {
		return nil, err
	}
	for p := range parts { // each part gets a range of its own
		part := &parts[p]
		ranges := make([][]T, len(part.keys))
		for i, g := range globals[p] {
			all := &groups.elements[g]
			end := len(*all) + part.sizes[i]
			ranges[i] = (*all)[len(*all):len(*all):end]
			*all = (*all)[:end]
			if p == 0 {
				copy(ranges[i][:part.sizes[i]], part.elements[i])
			}
		}
		part.elements = ranges
	}
	if err := For(at, n, func(p int) {
		lo, hi := cut(len(s)-done, p, n)
		elements, of := parts[1+p].elements, of[done+lo:done+hi]
		for i, e := range s[done+lo : done+hi] {
			to := &elements[of[i]]
			*to = append(*to, e)
		}
	}, pool.Grain(1)); err != nil {
		return nil, err
	}
	recycle(sample)
	recycle(known)
	recycle(of)
	clear(all) // NaNs would stay
	for g, k := range groups.keys {
		all[k] = groups.elements[g]
	}
	return all, nil
}

// groupParts returns into how many parts to divide what is left of n elements, or 0 if one worker had better group them all. A sample of them has some
// groups, and had fewer at an earlier length. To make and to put together the groups of all parts takes
// about as long as grouping four times as many elements, and more than that some microseconds.
func groupParts(n, sample, groups, before, earlier, workers int) int {
	growth := float64(groups-before) / float64(sample-earlier) // of the last elements, which have groups of their own more seldom later
	for parts := min(2*workers, mostGrouped, (n-sample)/leastGrouped); parts > 1; parts /= 2 {
		if each := float64(groups) + growth*float64(max((n-sample)/parts-sample, 0)); each*float64(parts) <= float64(n-4*leastGrouped)/4 {
			return parts
		}
	}
	return 0
}

// keysOf is the loop that finds the keys of elements, from the first one on.
type keysOf[K comparable] struct {
	keys  []K
	first int
	from  func(keys []K, lo int)
	key   any
}

func (b keysOf[K]) Run(lo, hi int) { b.from(b.keys[lo:hi], b.first+lo) }

func (b keysOf[K]) Func() any { return b.key }

// groupFew is groupBy as one writes it by hand, but for keys that take long. That grouping takes long says nothing of them, so they are probed again.
func groupFew[T any, K comparable](at pool.Place, s []T, b keysOf[K]) (map[K][]T, error) {
	all := make(map[K][]T)
	group := func(lo, hi int) {
		for i, k := range b.keys[lo:hi] {
			all[k] = append(all[k], s[lo+i])
		}
	}
	done, _, err := pool.Granularity{}.Probe(at, len(s), b.key, func(lo, hi int) (more bool) {
		b.Run(lo, hi)
		group(lo, hi)
		return true
	})
	if err == nil && done < len(s) {
		rest := keysOf[K]{b.keys[done:], done, b.from, b.key}
		if err = pool.ForBody(at, len(rest.keys), rest); err == nil {
			group(done, len(s))
		}
	}
	if err != nil {
		return nil, err
	}
	recycle(b.keys)
	return all, nil
}

const (
	leastGrouped = 1 << 12 // the least part, which takes longer than a wake-up; a quarter of it may say how many groups there are
	mostGrouped  = 64      // the most parts
	keysGrouped  = 512     // of a part, which are in the cache then
)

// groupedParts is the loop that groups parts.
type groupedParts struct {
	part func(p int)
	key  any
}

func (b groupedParts) Run(lo, hi int) {
	for p := lo; p < hi; p++ {
		b.part(p)
	}
}

func (b groupedParts) Func() any { return b.key }

// grouped is groups, in the order in which they come.
type grouped[K comparable, T any] struct {
	keys     []K
	sizes    []int
	elements [][]T
}

// group groups the elements from first on, whose keys are those that keysFrom finds, and notes the group of each in of.
func (p *grouped[K, T]) group(keysFrom func(keys []K, lo int), first int, of []uint32) {
	which := make(map[K]uint32)
	buffer := make([]K, keysGrouped)
	for ; len(of) > 0; first, of = first+len(buffer), of[len(buffer):] {
		buffer = buffer[:min(len(buffer), len(of))]
		keysFrom(buffer, first)
		for i, k := range buffer {
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
}
