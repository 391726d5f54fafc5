package pool

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// # The serial parts of a sort
//
// A leaf is sorted bottom up: blocks of a few elements each, then level by level two
// neighbours merged into one, from one side to the other. The first side is
// chosen so that the last one is the one that was asked for.

// levels returns how often blocks must be merged in pairs until n elements are one run.
func levels(n, block int) int {
	return bits.Len(uint((n - 1) / block))
}

// startSide returns the side from which that many levels lead to the given one.
func startSide(to side, levels int) side { return to ^ side(levels&1) }

// integer is what [sortOrdered] reduces all numbers to.
type integer interface {
	~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64
}

// integers is a sort of integers.
type integers[E integer] struct {
	sides [2][]E
}

func (e *integers[E]) release() { e.sides = [2][]E{} }

func (e *integers[E]) leaf(lo, hi int, to side) side {
	s := e.sides[inSlice][lo:hi]
	n := len(s)
	if run, descends := integerRun(s); run == n {
		if descends {
			slices.Reverse(s)
		}
		return inSlice
	}
	from := startSide(to, levels(n, networkLen))
	dst := e.sides[from][lo:hi]
	i := 0
	for ; i+networkLen <= n; i += networkLen {
		sort8((*[networkLen]E)(dst[i:]), (*[networkLen]E)(s[i:]))
	}
	copy(dst[i:], s[i:])
	slices.Sort(dst[i:])
	for width := networkLen; width < n; width *= 2 {
		src, dst := e.sides[from][lo:hi], e.sides[from.other()][lo:hi]
		for lo := 0; lo < n; lo += 2 * width {
			mid, hi := min(lo+width, n), min(lo+2*width, n)
			mergeIntegers(dst[lo:hi], src[lo:mid], src[mid:hi])
		}
		from = from.other()
	}
	return from
}

func (e *integers[E]) inOrder(in side, mid int) bool {
	s := e.sides[in]
	return s[mid-1] <= s[mid]
}

func (e *integers[E]) before(in side, r extent, x int, orEqual bool) int {
	s := e.sides[in]
	key := s[x]
	return partition(r.len(), func(i int) bool {
		y := s[r.lo+i]
		return y < key || orEqual && y == key
	})
}

func (e *integers[E]) merge(from side, a, b extent, dst int) {
	src := e.sides[from]
	mergeIntegers(e.sides[from.other()][dst:dst+a.len()+b.len()], src[a.lo:a.hi], src[b.lo:b.hi])
}

func (e *integers[E]) move(from side, r extent, dst int) {
	copy(e.sides[from.other()][dst:], e.sides[from][r.lo:r.hi])
}

// partition returns how many of 0..n-1 are below, which must be the first ones. If they
// are not, it returns any number from 0 to n.
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

// integerRun returns the length of the run that s, of two elements or more, begins
// with, and whether it descends. Equal integers may be swapped, so they are part of both.
func integerRun[E integer](s []E) (n int, descends bool) {
	n = 1
	if s[1] < s[0] {
		for n < len(s) && s[n] <= s[n-1] {
			n++
		}
		return n, true
	}
	for n < len(s) && s[n] >= s[n-1] {
		n++
	}
	return n, false
}

// networkLen is how many integers sort8 sorts.
const networkLen = 8

// sort8 sorts the 8 integers at src into the 8 at dst, which may be the same, by
// the 19 exchanges in 6 layers that are the fewest possible. The compiler makes two
// conditional moves of an exchange.
func sort8[E integer](dst, src *[networkLen]E) {
	a, b, c, d, e, f, g, h := src[0], src[1], src[2], src[3], src[4], src[5], src[6], src[7]
	a, c = min(a, c), max(a, c)
	b, d = min(b, d), max(b, d)
	e, g = min(e, g), max(e, g)
	f, h = min(f, h), max(f, h)

	a, e = min(a, e), max(a, e)
	b, f = min(b, f), max(b, f)
	c, g = min(c, g), max(c, g)
	d, h = min(d, h), max(d, h)

	a, b = min(a, b), max(a, b)
	c, d = min(c, d), max(c, d)
	e, f = min(e, f), max(e, f)
	g, h = min(g, h), max(g, h)

	c, e = min(c, e), max(c, e)
	d, f = min(d, f), max(d, f)

	b, e = min(b, e), max(b, e)
	d, g = min(d, g), max(d, g)

	b, c = min(b, c), max(b, c)
	d, e = min(d, e), max(d, e)
	f, g = min(f, g), max(f, g)
	dst[0], dst[1], dst[2], dst[3], dst[4], dst[5], dst[6], dst[7] = a, b, c, d, e, f, g, h
}

// mergeIntegers merges the runs a and b into dst, which must be as long as both and
// apart from them.
func mergeIntegers[E integer](dst, a, b []E) {
	switch {
	case len(a) == 0 || len(b) == 0 || a[len(a)-1] <= b[0]:
		copy(dst, a)
		copy(dst[len(a):], b)
		return
	case b[len(b)-1] <= a[0]:
		copy(dst, b)
		copy(dst[len(b):], a)
		return
	}
	if min(len(a), len(b)) >= fourChains {
		cutA := len(a) / 2
		cutB := partition(len(b), func(i int) bool { return b[i] < a[cutA] })
		cut := cutA + cutB
		n := min(cutA, cutB, len(a)-cutA, len(b)-cutB)
		a0, b0, a1, b1 := mergeTwo(dst[:cut], a[:cutA], b[:cutB], dst[cut:], a[cutA:], b[cutB:], n)
		mergeRest(dst[n:cut-n], a0, b0)
		dst, a, b = dst[cut+n:len(dst)-n], a1, b1
	}
	mergeRest(dst, a, b)
}

// fourChains is from which length of both runs on they are merged as two pairs
// at once. With 64 to 256 an int64 of a random slice of 2^18 takes 24 ns, with 32 or
// 1024 26 ns, and without it 32 ns.
const fourChains = 128

// A merge of integers writes the least elements to the front of dst and the greatest to
// its back at the same time, as quadsort and driftsort do. No branch depends on the
// elements, and front and back are two chains of loads and compares that do not
// wait for each other; mergeTwo has four.
//
// There are no bounds checks. When k elements were written at the front, i of them
// were a's and k-i were b's. Both are at most k, and k is less than n, which is at most
// the length of either run. So neither has come to the end of its run. It is
// the same at the back, where j is the last element of a that is left, last-k+1 the last
// place in dst, and what is left of b is the rest.

// mergeRest merges what is left of two runs.
func mergeRest[E integer](dst, a, b []E) {
	for n := min(len(a), len(b)); n >= 4; n = min(len(a), len(b)) {
		a, b = mergeEnds(dst, a, b, n)
		dst = dst[n : len(dst)-n]
	}
	for len(a) > 0 && len(b) > 0 {
		if b[0] < a[0] {
			dst[0], b = b[0], b[1:]
		} else {
			dst[0], a = a[0], a[1:]
		}
		dst = dst[1:]
	}
	copy(dst, a)
	copy(dst[len(a):], b)
}

// mergeEnds merges the n least and the n greatest elements of a and b to the ends of
// dst and returns what is left of a and b.
func mergeEnds[E integer](dst, a, b []E, n int) (restA, restB []E) {
	if n > min(len(a), len(b)) || len(a)+len(b) != len(dst) {
		panic("heist: a merge out of bounds")
	}
	d, p, q := pointer(dst), pointer(a), pointer(b)
	i, j, last := 0, len(a)-1, len(dst)-2
	for k := range n {
		*at[E](d, k), i = least[E](p, q, k, i)
		*at[E](d, last-k+1), j = greatest[E](p, q, last-k, j)
	}
	return a[i : j+1], b[n-i : last-n-j+1]
}

// mergeTwo is mergeEnds for two merges, n steps of each.
func mergeTwo[E integer](dst0, a0, b0, dst1, a1, b1 []E, n int) (restA0, restB0, restA1, restB1 []E) {
	if n > min(len(a0), len(b0), len(a1), len(b1)) || len(a0)+len(b0) != len(dst0) || len(a1)+len(b1) != len(dst1) {
		panic("heist: a merge out of bounds")
	}
	d0, p0, q0 := pointer(dst0), pointer(a0), pointer(b0)
	d1, p1, q1 := pointer(dst1), pointer(a1), pointer(b1)
	i0, j0, last0 := 0, len(a0)-1, len(dst0)-2
	i1, j1, last1 := 0, len(a1)-1, len(dst1)-2
	for k := range n {
		*at[E](d0, k), i0 = least[E](p0, q0, k, i0)
		*at[E](d0, last0-k+1), j0 = greatest[E](p0, q0, last0-k, j0)
		*at[E](d1, k), i1 = least[E](p1, q1, k, i1)
		*at[E](d1, last1-k+1), j1 = greatest[E](p1, q1, last1-k, j1)
	}
	return a0[i0 : j0+1], b0[n-i0 : last0-n-j0+1], a1[i1 : j1+1], b1[n-i1 : last1-n-j1+1]
}

// least returns element k of a merge of the runs at a and b, when i of those before it
// were a's, and the new i.
func least[E integer](a, b unsafe.Pointer, k, i int) (E, int) {
	x, y := *at[E](a, i), *at[E](b, k-i)
	taken := 0
	if x <= y {
		taken = 1
	}
	return min(x, y), i + taken
}

// greatest returns element k+1 of a merge of the runs at a and b, when a's last that is
// left is j, and the new j.
func greatest[E integer](a, b unsafe.Pointer, k, j int) (E, int) {
	x, y := *at[E](a, j), *at[E](b, k-j)
	taken := 0
	if x > y {
		taken = 1
	}
	return max(x, y), j - taken
}

// pointer returns where the elements of s begin.
func pointer[E any](s []E) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// at returns the address of element i of an array.
func at[E any](p unsafe.Pointer, i int) *E {
	var e E
	return (*E)(unsafe.Add(p, i*int(unsafe.Sizeof(e))))
}

// comparables is a sort with a comparator.
type comparables[E any] struct {
	sorting *sorting
	compare func(a, b E) int
	merger  merger[E] // by that comparator
	sides   [2][]E
}

// merger merges the runs a and b into dst, which must be as long as both and apart from
// them.
type merger[E any] func(dst, a, b []E, compare func(a, b E) int)

func (e *comparables[E]) release() { e.sides = [2][]E{} }

// insertionLen is the length of the blocks that a leaf begins with. With anything from 8
// to 24 a sort takes the same time; with 12, it makes as many comparisons as merging.
const insertionLen = 12

func (e *comparables[E]) leaf(lo, hi int, to side) (in side) {
	var open extent // what a merge into the slice is writing
	done := false
	defer func() {
		if !done {
			e.sorting.caught(endingOf(recover()))
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
			e.merger(e.sides[from.other()][i:end], e.sides[from][i:mid], e.sides[from][mid:end], e.compare)
		}
		open = extent{}
		from = from.other()
	}
	done = true
	return from
}

func (e *comparables[E]) inOrder(in side, mid int) (yes bool) {
	done := false
	defer func() {
		if !done {
			e.sorting.caught(endingOf(recover()))
		}
	}()
	s := e.sides[in]
	yes = e.compare(s[mid], s[mid-1]) >= 0
	done = true
	return yes
}

func (e *comparables[E]) before(in side, r extent, x int, orEqual bool) (n int) {
	done := false
	defer func() {
		if !done {
			e.sorting.caught(endingOf(recover()))
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
			e.sorting.caught(endingOf(recover()))
			e.move(from, a, dst)
			e.move(from, b, dst+a.len())
		}
	}()
	src := e.sides[from]
	e.merger(e.sides[from.other()][dst:dst+a.len()+b.len()], src[a.lo:a.hi], src[b.lo:b.hi], e.compare)
	done = true
}

func (e *comparables[E]) move(from side, r extent, dst int) {
	copy(e.sides[from.other()][dst:], e.sides[from][r.lo:r.hi])
}

// runFunc returns the length of the run that s, of two elements or more, begins with,
// and whether it descends, strictly.
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

// insertionFunc sorts src into dst, which may be the same. An element is not taken out
// before its place is found.
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

// mergeFunc merges the runs a and b into dst, which must be as long as both and apart
// from them.
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

// mergeStrings is mergeFunc for strings.Compare. It compares the first 8 bytes as
// integers and reads them once for each string, for strings lie all over the memory.
func mergeStrings(dst, a, b []string, compare func(a, b string) int) {
	switch {
	case len(a) == 0 || len(b) == 0 || a[len(a)-1] <= b[0]:
		copy(dst, a)
		copy(dst[len(a):], b)
		return
	case b[len(b)-1] < a[0]:
		copy(dst, b)
		copy(dst[len(b):], a)
		return
	}
	i, j := 0, 0
	x, y := prefix(a[0]), prefix(b[0])
	for {
		if y < x || y == x && b[j] < a[i] {
			dst[i+j] = b[j]
			if j++; j == len(b) {
				break
			}
			y = prefix(b[j])
		} else {
			dst[i+j] = a[i]
			if i++; i == len(a) {
				break
			}
			x = prefix(a[i])
		}
	}
	copy(dst[i+j:], a[i:])
	copy(dst[len(a)+j:], b[j:])
}

// prefix returns the first 8 bytes of s, or all of them and zeros, as an integer.
func prefix(s string) (p uint64) {
	if len(s) >= 8 {
		return binary.BigEndian.Uint64(unsafe.Slice(unsafe.StringData(s), 8))
	}
	for i := range len(s) {
		p |= uint64(s[i]) << (56 - 8*i)
	}
	return p
}
