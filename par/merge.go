package par

import (
	"math/bits"
	"slices"
)

// # The serial parts of a merge sort
//
// A leaf is sorted bottom up: first blocks of a few elements each; then, level by level,
// neighbouring runs are merged in pairs, from one side to the other. The first side is
// chosen so that the last merge ends on the side that was asked for.

// levels returns how often blocks must be merged in pairs until n elements are one run.
func levels(n, block int) int {
	return bits.Len(uint((n - 1) / block))
}

// startSide returns the side from which so many levels of merges end on the given side.
func startSide(to side, levels int) side { return to ^ side(levels&1) }

// partition returns for how many of 0..n-1 below is true. These must be the first ones. If
// they are not, it returns any number from 0 to n.
func partition(n int, below func(i int) bool) int {
	lo := 0
	for lo < n {
		mid := int(uint(lo+n) / 2)
		if below(mid) {
			lo = mid + 1
		} else {
			n = mid
		}
	}
	return lo
}

// comparables is a sort with a comparator.
type comparables[E any] struct {
	sorting *sorting
	compare func(a, b E) int
	sides   [2][]E
}

func (e *comparables[E]) release() { e.sides = [2][]E{} }

// insertionLen is the length of the blocks that a leaf begins with. With anything from 8
// to 24 a sort takes the same time; with 12, it makes as many comparisons as merging.
const insertionLen = 12

func (e *comparables[E]) leaf(lo, hi int, to side) (in side) {
	var open extent // the range that a merge into the slice is writing
	done := false
	defer func() {
		if !done {
			e.sorting.caught(recover())
			e.move(inBuffer, open, open.lo)
		}
	}()
	s := e.sides[inSlice][lo:hi]
	n := len(s)
	if run, descends := runFunc(s, e.compare); run == n {
		if descends {
			slices.Reverse(s)
		}
		done = true
		return inSlice
	}
	from := startSide(to, levels(n, insertionLen))
	dst := e.sides[from][lo:hi]
	for i := 0; i < n; i += insertionLen {
		end := min(i+insertionLen, n)
		insertionFunc(dst[i:end], s[i:end], e.compare)
	}
	for width := insertionLen; width < n; width *= 2 {
		for i := lo; i < hi; i += 2 * width {
			mid, end := min(i+width, hi), min(i+2*width, hi)
			if from == inBuffer {
				open = extent{i, end}
			}
			mergeFunc(e.sides[from.other()][i:end], e.sides[from][i:mid], e.sides[from][mid:end], e.compare)
		}
		open = extent{}
		from = from.other()
	}
	done = true
	return from
}

func (e *comparables[E]) inOrder(in side, mid int) bool {
	s := e.sides[in]
	return e.compare(s[mid], s[mid-1]) >= 0 // a panic may pass: nothing is being written
}

func (e *comparables[E]) before(in side, r extent, x int, orEqual bool) (n int) {
	done := false
	defer func() {
		if !done {
			e.sorting.caught(recover())
		}
	}()
	s := e.sides[in]
	n = partition(r.len(), func(i int) bool {
		if orEqual {
			return e.compare(s[x], s[r.lo+i]) >= 0
		}
		return e.compare(s[r.lo+i], s[x]) < 0
	})
	done = true
	return n
}

func (e *comparables[E]) merge(from side, a, b extent, dst int) {
	done := false
	defer func() {
		if !done {
			e.sorting.caught(recover())
			e.move(from, a, dst)
			e.move(from, b, dst+a.len())
		}
	}()
	src := e.sides[from]
	mergeFunc(e.sides[from.other()][dst:dst+a.len()+b.len()], src[a.lo:a.hi], src[b.lo:b.hi], e.compare)
	done = true
}

func (e *comparables[E]) move(from side, r extent, dst int) {
	copy(e.sides[from.other()][dst:], e.sides[from][r.lo:r.hi])
}

// runFunc returns the length of the run at the beginning of s, and whether that run
// descends, strictly. s must have two elements or more.
func runFunc[E any](s []E, compare func(a, b E) int) (n int, descends bool) {
	n = 2
	if compare(s[1], s[0]) < 0 {
		for n < len(s) && compare(s[n], s[n-1]) < 0 {
			n++
		}
		return n, true
	}
	for n < len(s) && compare(s[n], s[n-1]) >= 0 {
		n++
	}
	return n, false
}

// insertionFunc sorts src into dst, which may be the same slice. No element is moved before
// its place is found.
func insertionFunc[E any](dst, src []E, compare func(a, b E) int) {
	for i, x := range src {
		j := i
		for j > 0 && compare(x, dst[j-1]) < 0 {
			j--
		}
		for k := i; k > j; k-- {
			dst[k] = dst[k-1]
		}
		dst[j] = x
	}
}

// mergeFunc merges the runs a and b into dst, which must be as long as both together and
// must not overlap them.
func mergeFunc[E any](dst, a, b []E, compare func(a, b E) int) {
	switch {
	case len(a) == 0 || len(b) == 0 || compare(b[0], a[len(a)-1]) >= 0:
		copy(dst, a)
		copy(dst[len(a):], b)
		return
	case compare(b[len(b)-1], a[0]) < 0:
		copy(dst, b)
		copy(dst[len(b):], a)
		return
	}
	i, j := 0, 0 // how many of a and of b are merged
	for i < len(a) && j < len(b) {
		if compare(b[j], a[i]) < 0 {
			dst[i+j] = b[j]
			j++
		} else {
			dst[i+j] = a[i]
			i++
		}
	}
	copy(dst[i+j:], a[i:])
	copy(dst[len(a)+j:], b[j:])
}
