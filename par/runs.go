package par

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
)

// # What order there is
//
// People sort logs, time series and files, which are in order already, nearly so, or in parts. So each sort of 256 elements or more
// looks first, as timsort and its descendants do:
//
//  1. If the elements begin as one run does, all of them are looked at, by all workers. One run is left as it is, or reversed.
//  2. Otherwise a sample of windows is looked at. If most comparisons in it are **turns**, ups among downs or downs among ups, the elements
//     are disordered, and so they are if windows with turns end with less than they begin with: that costs a comparison for 15 elements, and 160 at most.
//     Equal neighbours say that there may be few values.
//  3. What is ordered is drop-merged, or sorted by insertion (both below), if that works. If all windows are in order, that comes after step 4: runs are likely.
//  4. Otherwise a sort by comparisons divides the elements into **stretches**: runs, and what lies between long runs. All workers do so, each in
//     its parts, and runs are joined at the parts' borders. Then the stretches are merged. Numbers, strings and elements with keys are merged only
//     if there are a few runs and nothing else, which is found out before step 3; otherwise they are sorted by their bits.
//
// Runs ascend or descend. Equal elements of one that descends are reversed before it is, so that they keep their order, unless they cannot be told apart.
//
// From timsort: runs, an insertion that takes few comparisons, and the search for few elements in a long run. From powersort (Munro and Wild, 2018): merges that
// are near the best for any lengths of runs; of their two rules the one that a fork can follow from the top down, peeksort's, which cuts at
// the border nearest to the middle. From driftsort and glidesort: a look at the order decides between runs and what is made for random
// elements. From pdqsort and ipnsort: few values are a case of their own.

// stretch is a range of a slice, from the end of the stretch before.
type stretch struct {
	end   int
	order order
}

type order uint8

const (
	mixed order = iota
	ascends
	descends
)

const (
	// leastRun is the shortest run that is a stretch of its own. Shorter ones are sorted by insertion.
	leastRun = 32

	// windows and windowLen bound the sample: 128 comparisons for a million elements, 16 for 256. In a sample of random
	// elements 7 of 16 comparisons are turns, in one of a sorted slice of which 1% were swapped 1 of 32, and if a quarter have
	// changed places with their neighbours 1 of 5.
	windows, windowLen = 16, 8
	mostTurns          = 3  // elements are disordered if 1 of so many comparisons is a turn, or
	mostWild           = 8  // if more than 1 of so many windows has turns, and ends with less than it begins with: with turns at random every other does,
	leastCalm          = 4  // but some are in order if 1 of so many windows has no turn
	leastEqual         = 32 // they may have few values if 1 of so many finds equal elements
)

// fewOrRuns sorts what has few values, or a few long runs, or is nearly in order, by what is likely of these, and says whether it did. few and runs
// do so.
func (l looked) fewOrRuns(few, runs func() bool) bool {
	if l.few || !l.ordered {
		return few() || l.ordered && runs()
	}
	return runs() || few()
}

// cheapLook is how long it takes at most to look at an element if that is cheap: some keys and comparators cost more, and are shared in any case.
const cheapLook = 8 * time.Nanosecond

// looked is what a sort has found out about its elements.
type looked struct {
	oneRun, down bool // all are one run; it descends
	ordered      bool // most are in runs
	partly       bool // some are
	calm         bool // all windows of the sample are in order
	few          bool // they may have few values
}

// look finds out what order n elements of so many bytes have. n must be 2 or more. run returns where the run ends that begins at lo, or hi, and
// whether it descends; sample returns how many elements from at+1 to hi are less than the one before, how many are equal to it, and whether the last
// is less than the one at at.
func look(w *pool.Worker, n, size int, run func(lo, hi int) (end int, down bool), sample func(at, hi int) (less, equal int, falls bool)) (l looked) {
	first := n // how many elements the caller looks at alone
	if n > radixLeaf {
		first = radixLeaf / windows
	}
	begun := heist.Ticks()
	if end, down := run(0, first); end == first {
		var other atomic.Bool // a range is not in that run
		if first < n {
			short, cheap := shortRange, cheapLook
			if down { // the caller may write all of them soon
				short, cheap = shortReversal/max(size, 1), 4*cheapLook
			}
			if heist.Ticks()-begun > heist.TicksIn(time.Duration(first)*cheap) {
				short = 0
			}
			rangesFrom(short, w, n-first, func(lo, hi int) {
				if other.Load() {
					return
				}
				lo, hi = lo+first-1, hi+first
				end, falls := run(lo, hi)
				if end == hi && down && !falls { // a range of equal elements is in any run
					_, equal, _ := sample(lo, hi-1)
					falls = equal == hi-1-lo
				}
				if end < hi || falls != down {
					other.Store(true)
				}
			})
		}
		return looked{oneRun: !other.Load(), ordered: true, down: down}
	}
	turns, equals, calm, wild, count := 0, 0, 0, 0, min(windows, n/(windows*windowLen)+2)
	if n < count*2*windowLen {
		return l
	}
	for k := range count {
		less, equal, falls := sample(n/count*k, n/count*k+windowLen)
		n := min(less, windowLen-less)
		turns, equals = turns+n, equals+equal
		switch {
		case n == 0:
			calm++
		case falls:
			wild++
		}
	}
	l.ordered, l.partly = turns*mostTurns <= count*windowLen && wild*mostWild <= count, calm*leastCalm >= count
	l.calm = calm == count
	l.few = equals > 0 && equals*leastEqual >= count*windowLen
	return l
}

// lookAtKeys is look for keys that are sorted by themselves. A run of theirs may descend with equal ones in it.
func lookAtKeys[K cmp.Ordered](w *pool.Worker, keys []K) looked {
	run := func(lo, hi int) (int, bool) {
		end, down := runOf(keys[lo:hi], true)
		return lo + end, down
	}
	return look(w, len(keys), int(unsafe.Sizeof(keys[0])), run, func(at, hi int) (less, equal int, falls bool) {
		for i, k := range keys[at+1 : hi+1] {
			if k < keys[at+i] {
				less++
			}
			if k == keys[at+i] {
				equal++
			}
		}
		return less, equal, keys[hi] < keys[at]
	})
}

// look is look by comparisons. A sort that is stopped finds no run.
func (e *comparables[E]) look(w *pool.Worker) looked {
	return look(w, len(e.sides[inSlice]), int(unsafe.Sizeof(*new(E))), func(lo, hi int) (int, bool) {
		if lo > 0 && e.stopped() {
			return lo, false
		}
		return e.sorting.run(lo, hi)
	}, e.sample)
}

// runOf returns where the run that keys begin with ends. If equals is set, equal keys may be in a run that descends: who reverses it must not
// tell them apart. A NaN ends a run.
func runOf[K cmp.Ordered](keys []K, equals bool) (end int, down bool) {
	if len(keys) == 0 {
		return 0, false
	}
	last, end := keys[0], len(keys)
	for i, k := range keys[1:] {
		if !(k >= last) {
			end = 1 + i
			break
		}
		last = k
	}
	if end == len(keys) || !(keys[end] < last) || end > 1 && !(equals && last == keys[0]) {
		return end, false
	}
	for i, k := range keys[end:] {
		if !(k < last) && !(equals && k == last) {
			return end + i, true
		}
		last = k
	}
	return len(keys), true
}

// findRuns divides n elements into stretches. It returns nil if the sort was stopped, or if only a few long runs are wanted and there are others. Where the
// elements are likely to be in long runs, those are looked for first, and otherwise what is nearly in order.
func (g *sorting) findRuns(w *pool.Worker, n int, onlyFew, long bool) []stretch {
	found := make([][]stretch, partsOf(w, n))
	each(w, len(found), func(_ *pool.Worker, part int) {
		if g.stopped() {
			return
		}
		lo, hi := cut(n, part, len(found))
		nearly := func() bool {
			begun, down := g.elements.run(lo, min(lo+leastRun, hi))
			return !(down && begun == lo+leastRun) && g.elements.nearly(lo, hi)
		}
		if long {
			found[part] = g.stretches(lo, hi, onlyFew)
			if len(found[part]) <= max(mostRuns, (hi-lo)/longRun) {
				return
			}
		}
		switch {
		case !onlyFew && nearly():
			found[part] = []stretch{{hi, ascends}}
		case !g.stopped(): // again after nearly, which may have changed the order
			found[part] = g.stretches(lo, hi, onlyFew)
		}
	})
	all := found[0]
	for part, found := range found {
		if len(found) == 0 {
			return nil
		}
		if part == 0 {
			continue
		}
		last, first := &all[len(all)-1], found[0]
		joins := last.order == first.order
		if joins && first.order != mixed {
			joins = g.elements.inOrder(inSlice, last.end) == (first.order == ascends)
		}
		if joins {
			last.end, found = first.end, found[1:]
		}
		all = append(all, found...)
	}
	return all
}

// longRun is the mean length of runs that are merged before a few outliers are looked for.
const longRun = 256

// mostRuns is how many runs are a few. Two levels of merges take as long as a sort by bits.
const mostRuns = 4

// stretches returns the stretches from lo to hi-1, or none where findRuns returns nil.
func (g *sorting) stretches(lo, hi int, onlyFew bool) (all []stretch) {
	looked := lo
	for lo < hi {
		end, down := g.run(lo, hi)
		if end-looked > mergeLen {
			if g.stopped() {
				return nil
			}
			looked = end
		}
		s := stretch{end, mixed}
		switch {
		case onlyFew && (end-lo < leastRun || len(all) > mostRuns):
			return nil
		case end-lo < leastRun:
		case down:
			s.order = descends
		default:
			s.order = ascends
		}
		if k := len(all); k > 0 && s.order == mixed && all[k-1].order == mixed {
			all[k-1].end = end
		} else {
			all = append(all, s)
		}
		lo = end
	}
	return all
}

// disordered returns how many of n elements are not in the runs among the stretches.
func disordered(all []stretch, n int) int {
	begin := 0
	for _, s := range all {
		if s.order != mixed {
			n -= s.end - begin
		}
		begin = s.end
	}
	return n
}

// run is elements.run, or the beginning of that run if the sort was stopped.
func (g *sorting) run(lo, hi int) (end int, down bool) {
	piece := min(lo+mergeLen, hi)
	end, down = g.elements.run(lo, piece)
	for end == piece && end < hi && !g.stopped() {
		piece = min(end-1+mergeLen, hi)
		next, falls := g.elements.run(end-1, piece)
		if falls != down {
			break
		}
		end = next
	}
	return end, down
}

// shortReversal is how many bytes are looked at and reversed by the caller alone. To move a cache line takes it a nanosecond or two, and to
// take it from another CPU, or back from one that has looked at it, up to 200: on far cores two workers took 1.2 to 2.3 of the serial sorts' time for what the caller
// had written just before, up to 8 MB of it, and gained from 16 MB on.
const shortReversal = 1 << 23

// reverse reverses s, a long one on all workers.
func reverse[E any](w *pool.Worker, s []E) {
	if w == nil || len(s)*int(unsafe.Sizeof(s[0])) <= shortReversal {
		slices.Reverse(s)
		return
	}
	must(pool.ForRange(w, len(s)/2, func(lo, hi int) {
		a, b := s[lo:hi], s[len(s)-hi:len(s)-lo]
		for i := range a {
			a[i], b[len(b)-1-i] = b[len(b)-1-i], a[i]
		}
	}))
}

// # Neighbours that have changed places
//
// insertNear sorts s, of which the first elements ascend, by insertion as long as that pays, and says whether it did to the end; otherwise more of the
// first ascend than before. The place of an element is looked for from the end, in steps that double. It does not pay where more than half of the elements are far
// from their place, or would move 128 bytes in the mean. A panic of the comparator may pass: no element is moved before its place is found.
func insertNear[E any](s []E, first int, compare func(a, b E) int) bool {
	var n near
	for i := first; i < len(s); i++ {
		x := s[i]
		if compare(x, s[i-1]) >= 0 {
			continue
		}
		if i == 1 || compare(x, s[i-2]) >= 0 {
			s[i-1], s[i] = x, s[i-1]
			continue
		}
		lo := n.place(i, unsafe.Sizeof(x), func(k int) bool { return compare(x, s[k]) < 0 })
		if lo < 0 {
			return false
		}
		copy(s[lo+1:i+1], s[lo:i])
		s[lo] = x
	}
	return true
}

// insertNear is insertNear of keys and their values.
func (t items[V, K]) insertNear() bool {
	var n near
	for i := 1; i < len(t.keys); i++ {
		k := t.keys[i]
		if !cmp.Less(k, t.keys[i-1]) {
			continue
		}
		v := t.values[i]
		if i == 1 || !cmp.Less(k, t.keys[i-2]) {
			t.keys[i-1], t.keys[i] = k, t.keys[i-1]
			t.values[i-1], t.values[i] = v, t.values[i-1]
			continue
		}
		lo := n.place(i, unsafe.Sizeof(k)+unsafe.Sizeof(v), func(j int) bool { return cmp.Less(k, t.keys[j]) })
		if lo < 0 {
			return false
		}
		copy(t.keys[lo+1:i+1], t.keys[lo:i])
		copy(t.values[lo+1:i+1], t.values[lo:i])
		t.keys[lo], t.values[lo] = k, v
	}
	return true
}

// near counts what an insertion costs.
type near struct{ moved, far int }

// place returns the place of the element at i, which belongs before the one at i-2, among those before it, or -1 if insertion does not pay. It
// belongs before those at index k for which before is true.
func (n *near) place(i int, size uintptr, before func(k int) bool) int {
	lo, hi := 0, i-2
	for step := 1; step <= hi; step *= 2 {
		if !before(hi - step) {
			lo = hi - step + 1
			break
		}
		hi -= step
	}
	lo += partition(hi-lo, func(k int) bool { return !before(lo + k) })
	if i-lo > mostNear {
		n.far++
	}
	n.moved += i - lo
	if n.moved*int(size) > 128*(i+8) || n.far > 8+i/2 {
		return -1
	}
	return lo
}

// mostNear is how far from its place an element is near it: a few elements too great before the others move all of these.
const mostNear = 4

// # A few outliers
//
// dropMerge sorts a range that ascends but for a few outliers, and says whether it did: it drops the outliers, sorts them, and merges them back
// (Hagerup and Emilsson, 2015). An outlier remembers where it was, which decides between it and the elements that equal it, so this is
// stable; and if there are too many, they go back. 1,000 numbers of which 1% were swapped take half of the time that slices.Sort takes. A panic of
// the comparator may pass: the range has its elements. That is so, too, if stopped says that the sort has to end; dropMerge asks it now and then.
func dropMerge[E any](s []E, compare func(a, b E) int, stopped func() bool) bool {
	type outlier struct {
		e     E
		at, i int // how many of those kept were before it, and how many outliers
	}
	var out []outlier     // in the order of s
	kept, row := 1, 0     // row is how many were dropped one after the other
	put := func(at int) { // puts the last outlier before that element
		o, end := out[len(out)-1], kept+len(out)
		copy(s[end-(kept-at):end], s[at:kept])
		kept, out = at, out[:len(out)-1]
		s[kept+len(out)] = o.e
	}
	defer func() { // those that are left go back to where they were
		for len(out) > 0 {
			put(min(out[len(out)-1].at, kept))
		}
	}()
	drop := func(from int) bool { // drops those kept from there on, unless they lie before many outliers, or between them
		k := len(out)
		for k > 0 && out[k-1].at > from {
			if k--; len(out)-k > 4*mostInRow {
				return false
			}
		}
		late := slices.Clone(out[k:])
		out = out[:k]
		for j, e := range s[from:kept] {
			for ; len(late) > 0 && late[0].at <= from+j; late = late[1:] {
				out = append(out, outlier{e: late[0].e, at: from})
			}
			out = append(out, outlier{e: e, at: from})
		}
		for _, o := range late {
			out = append(out, outlier{e: o.e, at: from})
		}
		kept = from
		return true
	}
	for i := 1; i < len(s); i++ {
		if i%mergeLen == 0 && stopped() {
			return false
		}
		x := s[i]
		switch {
		case compare(x, s[kept-1]) >= 0:
			if kept < i {
				s[kept] = x
			}
			kept++
			row = 0
		case len(out) > mostDropped(i):
			return false
		case kept > 1 && compare(x, s[kept-2]) >= 0 && drop(kept-1): // not x is the outlier but the one before
			s[kept] = x
			kept++
			row = 0
		default:
			out = append(out, outlier{e: x, at: kept})
			if row++; row < mostInRow {
				continue
			}
			// If a few of those kept are greater than all of this row, they are the outliers. The row is still in its place.
			k, y := kept, out[len(out)-row].e
			for k > 0 && kept-k < row/2 && compare(s[k-1], y) > 0 {
				k--
			}
			if k < kept && (k == 0 || compare(s[k-1], y) <= 0) {
				all := out
				if out = out[:len(out)-row]; drop(k) {
					if i -= row; kept == 0 {
						s[0], kept = y, 1
						i++
					}
				} else {
					out = all
				}
			}
			row = 0
		}
	}
	for i := range out {
		out[i].i = i
	}
	slices.SortFunc(out, func(a, b outlier) int { return cmp.Or(compare(a.e, b.e), a.i-b.i) })
	for len(out) > 0 {
		o := out[len(out)-1]
		before := func(i int) bool {
			c := compare(s[i], o.e)
			return c < 0 || c == 0 && i < o.at
		}
		lo, hi := kept, kept
		for step := 1; lo > 0 && !before(lo-1); step *= 2 {
			hi = lo - 1
			lo = max(hi-step, 0)
		}
		put(lo + partition(hi-lo, func(i int) bool { return before(lo + i) }))
	}
	return true
}

// mostInRow is how many elements are dropped in a row before those kept are doubted, as in the authors' version.
const mostInRow = 8

// mostDropped is how many of n elements may be outliers.
func mostDropped(n int) int { return mostInRow + n/7 }

// dropAlone is how many keys are drop-merged by the caller alone. That takes 4 ns for each, as sorting their bits does on 4 workers.
const dropAlone = 1 << 20
