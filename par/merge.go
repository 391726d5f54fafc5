package par

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/pool"
)

// # The serial parts of a merge sort
//
// A leaf in which a sample finds equal elements is parted around these, as quicksorts do (quickFunc). Other leaves, and what is left of such, are sorted bottom up: first blocks of a few elements each, by insertion; then, level by level,
// neighbouring runs are merged in pairs, from one side to the other. The first side is
// chosen so that the last merge ends on the side that was asked for.

// insertionLen bounds the blocks that a leaf begins with. They are as long as each other, so that merges are even: with blocks of 12 and a rest
// there are a twentieth more comparisons. With blocks from 8 to 16 a sort takes the same time.
const insertionLen = 12

// leafFunc sorts s by merges between s and a buffer as long, and returns the side that the elements are in then. If the comparator panics, or calls
// runtime.Goexit, s has its elements.
func leafFunc[E any](s, buffer []E, to side, compare func(a, b E) int) (in side) {
	levels := bits.Len(uint((len(s) - 1) / insertionLen))
	width := (len(s)-1)>>levels + 1
	in = to ^ side(levels&1)
	sides := [2][]E{s, buffer}
	var torn extent // of s: it is being written, and the buffer has its elements
	defer func() { copy(s[torn.lo:torn.hi], buffer[torn.lo:torn.hi]) }()
	for lo := 0; lo < len(s); lo += width {
		hi := min(lo+width, len(s))
		insertionFunc(sides[in][lo:hi], s[lo:hi], compare)
	}
	for ; width < len(s); width *= 2 {
		for lo := 0; lo < len(s); lo += 2 * width {
			mid, end := min(lo+width, len(s)), min(lo+2*width, len(s))
			if in == inBuffer {
				torn = extent{lo, end}
			}
			mergeFunc(sides[in.other()][lo:end], sides[in], extent{lo, mid}, extent{mid, end}, compare)
			torn = extent{}
		}
		in = in.other()
	}
	return in
}

// fewOnStack is how many elements have their buffer on the stack, if they are of up to largeOnStack bytes.
const fewOnStack, largeOnStack = 128, 32

// sortFew sorts s, in the caller alone: by insertion if s is short, or as long as that pays if s begins with a run that is not; and else as leaf does.
func sortFew[E any](s []E, compare func(a, b E) int) {
	if len(s) <= insertedAlone {
		insertionFunc(s, s, compare)
		return
	}
	if end, down, equals := runOfFunc(s, compare); end > max(fewInOrder, min(len(s)/4, leastRun/2)) {
		if down {
			reverseRun(s[:end], equals, compare)
		}
		rest, down, equals := runOfFunc(s[end:], compare)
		if down && end+rest == len(s) && rest > insertionLen { // up and down, as an organ pipe
			reverseRun(s[end:], equals, compare)
		} else if insertNear(s, end, compare) {
			return
		}
	}
	if len(s) <= fewOnStack && unsafe.Sizeof(s[0]) <= largeOnStack {
		sortOnStack(s, compare)
	} else {
		buffer := scratch[E](len(s))
		leaf(s, buffer, inSlice, compare)
		recycle(buffer)
	}
}

// leaf sorts s, which is in no order, by way of the buffer: around a value that is there more than once, or by merges. It returns the side that the elements are in
// then. If the comparator panics, or calls runtime.Goexit, s has its elements.
func leaf[E any](s, buffer []E, to side, compare func(a, b E) int) (in side) {
	if len(s) > insertedAlone {
		if x, ok := repeated(s, compare); ok {
			quickFunc(s, buffer, x, 2*bits.Len(uint(len(s))), compare)
			return inSlice
		}
	}
	return leafFunc(s, buffer, to, compare)
}

// repeated returns an element that is there more than once, if a sample of three to eight has two that are equal.
func repeated[E any](s []E, compare func(a, b E) int) (x E, ok bool) {
	var sample [8]E // sorted so far
	some := min(3+len(s)/50, len(sample))
	for i := range sample[:some] {
		sample[i] = s[(2*i+1)*len(s)/(2*some)]
		for k := i; k > 0; k-- {
			c := compare(sample[k], sample[k-1])
			if c == 0 {
				return sample[k], true
			}
			if c > 0 {
				break
			}
			sample[k], sample[k-1] = sample[k-1], sample[k]
		}
	}
	return x, false
}

// quickFunc sorts s by way of the buffer. It parts s around x, and what is less and what is greater around an element of its own. What is equal to
// one of them is done, so elements that are often there are compared seldom, whereas merges compare them as often as others. It ends with merges where nothing
// equal was found, and after some levels. If the comparator panics, or calls runtime.Goexit, s has its elements.
func quickFunc[E any](s, buffer []E, x E, levels int, compare func(a, b E) int) {
	less, end := partFunc(s, buffer, x, compare)
	for _, part := range [2][]E{s[:less], s[end:]} {
		switch {
		case len(part) <= insertedAlone:
			insertionFunc(part, part, compare)
		case levels == 0 || end-less < 2:
			leafFunc(part, buffer[:len(part)], inSlice, compare)
		default:
			quickFunc(part, buffer, median(part, compare), levels-1, compare)
		}
	}
}

// median returns the median of three elements of s.
func median[E any](s []E, compare func(a, b E) int) E {
	a, b, c := s[len(s)/4], s[len(s)/2], s[len(s)-1-len(s)/4]
	if compare(b, a) < 0 {
		a, b = b, a
	}
	switch {
	case compare(c, b) >= 0:
		return b
	case compare(c, a) >= 0:
		return c
	}
	return a
}

// partFunc moves what is less than x to the beginning of s, and what is greater to its end. It returns where those end that are less, and those that are equal.
// Each element is written to the three places where it might belong, and the next one overwrites two of these, because a branch could not be predicted.
func partFunc[E any](s, buffer []E, x E, compare func(a, b E) int) (less, end int) {
	equal, greater, last := 0, 0, len(s)-1
	defer func() { // also if the comparator ends this early: s has the others still
		end = less + copy(s[less:], buffer[:equal])
		for k := range greater {
			s[end+k] = buffer[last-k]
		}
	}()
	for _, e := range s {
		c := compare(e, x)
		isLess := int(uint(c) >> (bits.UintSize - 1))
		isGreater := int(uint(-c)>>(bits.UintSize-1)) &^ isLess
		s[less], buffer[equal], buffer[last-greater] = e, e, e
		less, equal, greater = less+isLess, equal+1-isLess-isGreater, greater+isGreater
	}
	return less, less + equal
}

// fewInOrder is how long the run is at most that disordered elements begin with: 1 of 360 times a random one is longer.
const fewInOrder = 5

// sortOnStack has a function of its own for its frame.
//
//go:noinline
func sortOnStack[E any](s []E, compare func(a, b E) int) {
	var buffer [fewOnStack]E
	leaf(s, buffer[:len(s)], inSlice, compare)
}

// runOfFunc returns where the run ends that s begins with, whether it descends, and whether equal elements are in one that does.
func runOfFunc[E any](s []E, compare func(a, b E) int) (end int, down, equals bool) {
	end = min(len(s), 1)
	first := 0
	for ; first == 0 && end < len(s); end++ {
		first = compare(s[end], s[end-1])
	}
	if first >= 0 {
		for end < len(s) && compare(s[end], s[end-1]) >= 0 {
			end++
		}
		return end, false, false
	}
	for equals = end > 2; end < len(s); end++ {
		c := compare(s[end], s[end-1])
		if c > 0 {
			break
		}
		equals = equals || c == 0
	}
	return end, true, equals
}

// reverseRun reverses s, a run that descends. Equal elements in it are reversed before, and so keep their order.
func reverseRun[E any](s []E, equals bool, compare func(a, b E) int) {
	if equals {
		reverseEquals(s, compare)
	}
	slices.Reverse(s)
}

// reverseEquals reverses all elements of s that are equal to their neighbours.
func reverseEquals[E any](s []E, compare func(a, b E) int) {
	for lo, hi := 0, 1; lo < len(s); lo, hi = hi, hi+1 {
		for hi < len(s) && compare(s[hi], s[lo]) == 0 {
			hi++
		}
		slices.Reverse(s[lo:hi])
	}
}

// mostSkewed is how many times longer than another a run may be and still be merged with it element by element.
const mostSkewed = 8

// mergeFew merges two runs of which one is much longer, with the fewest comparisons: it halves the shorter one, and
// searches the longer one for the place of the element in the middle.
func (g *sorting) mergeFew(from side, a, b extent, dst int) {
	e := g.elements
	a1, a2, b1, b2 := a, a, b, b
	switch {
	case a.len() == 0 || b.len() == 0:
		e.move(from, a, dst)
		e.move(from, b, dst+a.len())
		return
	case a.len() < b.len():
		x := a.lo + a.len()/2
		cut := b.lo + e.before(from, b, x, false)
		a1.hi, a2.lo, b1.hi, b2.lo = x, x+1, cut, cut
		e.move(from, extent{x, x + 1}, dst+a1.len()+b1.len())
	default:
		x := b.lo + b.len()/2
		cut := a.lo + e.before(from, a, x, true)
		a1.hi, a2.lo, b1.hi, b2.lo = cut, cut, x, x+1
		e.move(from, extent{x, x + 1}, dst+a1.len()+b1.len())
	}
	g.mergeFew(from, a1, b1, dst)
	g.mergeFew(from, a2, b2, dst+a1.len()+b1.len()+1)
}

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
	sorting
	compare func(a, b E) int
	sides   [2][]E
	same    bool        // equal elements are the same in every way that can be seen; constant
	equals  atomic.Bool // others are in a run that descends; who finds them writes
}

func newComparables[E any](s []E, compare func(a, b E) int, cancelled func() bool) *comparables[E] {
	e := &comparables[E]{compare: compare, sides: [2][]E{s, nil}}
	e.elements, e.cancelled = e, cancelled
	return e
}

func (e *comparables[E]) release() {
	recycle(e.sides[inBuffer])
	e.sides = [2][]E{}
}

func (e *comparables[E]) grow() {
	if e.sides[inBuffer] == nil {
		e.sides[inBuffer] = scratch[E](len(e.sides[inSlice]))
	}
}

func (e *comparables[E]) sample(at, hi int) (less, equal int, falls bool) {
	s := e.sides[inSlice]
	for i := at; i < hi; i++ {
		switch c := e.compare(s[i+1], s[i]); {
		case c < 0:
			less++
		case c == 0:
			equal++
		}
	}
	e.hasEquals(equal > 0) // they may be in a run that descends
	return less, equal, e.compare(s[hi], s[at]) < 0
}

func (e *comparables[E]) run(lo, hi int) (end int, down bool) {
	end, down, equals := runOfFunc(e.sides[inSlice][lo:hi], e.compare)
	e.hasEquals(equals)
	return lo + end, down
}

func (e *comparables[E]) nearly(lo, hi int) bool {
	s := e.sides[inSlice][lo:hi]
	if len(s) < serialSort {
		return insertNear(s, 1, e.compare)
	}
	return dropMerge(s, e.compare, e.stopped) || !e.stopped() && insertNear(s, 1, e.compare)
}

func (e *comparables[E]) hasEquals(equals bool) {
	if equals && !e.same && !e.equals.Load() {
		e.equals.Store(true)
	}
}

func (e *comparables[E]) reverse(w *pool.Worker, lo, hi int) {
	done := false
	defer func() {
		if !done {
			e.caught(recover())
		}
	}()
	s := e.sides[inSlice][lo:hi]
	if e.equals.Load() {
		ends := make([]int, 1+partsOf(w, len(s))) // of the parts, behind the first, which is empty
		for part := range ends[1:] {
			_, end := cut(len(s), part, len(ends)-1)
			for end < len(s) && e.compare(s[end], s[end-1]) == 0 {
				end++
			}
			ends[part+1] = end
		}
		each(w, len(ends)-1, func(_ *pool.Worker, part int) { reverseEquals(s[ends[part]:ends[part+1]], e.compare) })
	}
	reverse(w, s)
	done = true
}

func (e *comparables[E]) leaf(r extent, to side) (in side) {
	done := false
	defer func() {
		if !done {
			e.caught(recover())
		}
	}()
	s := e.sides[inSlice][r.lo:r.hi]
	if end, down, equals := runOfFunc(s, e.compare); end < len(s) {
		in = leaf(s, e.sides[inBuffer][r.lo:r.hi], to, e.compare)
	} else if down {
		reverseRun(s, equals, e.compare)
	}
	done = true
	return in
}

func (e *comparables[E]) inOrder(in side, mid int) bool {
	s := e.sides[in]
	return e.compare(s[mid], s[mid-1]) >= 0 // a panic may pass: nothing is being written
}

func (e *comparables[E]) before(in side, r extent, x int, orEqual bool) (n int) {
	done := false
	defer func() {
		if !done {
			e.caught(recover())
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
			e.caught(recover())
			e.move(from, a, dst)
			e.move(from, b, dst+a.len())
		}
	}()
	mergeFunc(e.sides[from.other()][dst:dst+a.len()+b.len()], e.sides[from], a, b, e.compare)
	done = true
}

func (e *comparables[E]) move(from side, r extent, dst int) {
	copy(e.sides[from.other()][dst:], e.sides[from][r.lo:r.hi])
}

// insertionFunc sorts src into dst, which may be the same slice. No element is moved before
// its place is found. An element after one that was the greatest is compared with that first. Otherwise the first comparison halves what is left,
// and the place is looked for from the end on: so few comparisons cannot be predicted, and few are made.
func insertionFunc[E any](dst, src []E, compare func(a, b E) int) {
	dst = dst[:len(src)]
	inRun := true
	for i, x := range src {
		lo, at := 0, i
		if inRun && i > 0 {
			if compare(x, dst[i-1]) >= 0 {
				lo = i
			} else {
				at--
			}
			inRun = lo == i
		}
		if at-lo > 4 {
			if mid := at / 2; compare(x, dst[mid]) < 0 {
				at = mid
			} else {
				lo = mid + 1
			}
		}
		for at > lo && compare(x, dst[at-1]) < 0 {
			at--
		}
		for k := i; k > at; k-- {
			dst[k] = dst[k-1]
		}
		dst[at] = x
	}
}

// mergeFunc merges the runs a and b of src into dst, which must be as long as both together and must not overlap them.
//
// Which element is taken is no branch. If the comparator has none either, as one that subtracts, a merge takes half of the time; one
// that is cmp.Compare mispredicts every other time all the same. Merging from both ends at once, as branchless merges in
// other languages do, was as fast: the calls already overlap.
func mergeFunc[E any](dst, src []E, a, b extent, compare func(a, b E) int) {
	if a.len() > 0 && b.len() > 0 && compare(src[b.lo], src[a.hi-1]) < 0 {
		if at := a.hi - 1 - a.len()/4; compare(src[b.lo], src[at]) >= 0 { // most of a comes first
			at += partition(a.hi-at, func(i int) bool { return compare(src[b.lo], src[at+i]) >= 0 })
			dst = dst[copy(dst, src[a.lo:at]):]
			a.lo = at
			at = b.lo + partition(b.len(), func(i int) bool { return compare(src[b.lo+i], src[a.hi-1]) < 0 })
			copy(dst[a.len()+at-b.lo:], src[at:b.hi])
			b.hi = at
		}
		i, j := a.lo, b.lo
		from, to, size := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst)), int(unsafe.Sizeof(src[0]))
		for k := 0; i < a.hi && j < b.hi; k++ { // without bounds checks, which take a tenth of the time
			less := compare(*(*E)(unsafe.Add(from, j*size)), *(*E)(unsafe.Add(from, i*size))) >> (bits.UintSize - 1) // all bits or none
			*(*E)(unsafe.Add(to, k*size)) = *(*E)(unsafe.Add(from, (i+(j-i)&less)*size))
			i, j = i+1+less, j-less
		}
		dst = dst[i-a.lo+j-b.lo:]
		a.lo, b.lo = i, j
	}
	copy(dst, src[a.lo:a.hi])
	copy(dst[a.len():], src[b.lo:b.hi])
}
