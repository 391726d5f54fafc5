package par

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/pool"
)

// # Sorting
//
// All sorts look first what order there is (runs.go), and whether there are few values (few.go). Then numbers and strings are sorted by
// their bits (radix.go and radix_strings.go), and so are keys (radix_by.go). Only a comparator needs a merge sort, and so do strings that
// have long beginnings in common. Short slices stay with the caller: sortOrdered, sortBy and comparables.sort decide.
//
// The merge sort works between the slice and one buffer of its length. The
// slice is divided, a fork for each part: at the border between two stretches that is nearest to the middle, and a stretch
// without order in halves, down to leaves that one worker sorts within
// its cache; on the way back up each level merges from the slice into the buffer or
// from the buffer into the slice, by turns. A merge is forked too: it is cut at
// the middle of its longer run and at the place in the other run that a binary search
// finds, as in TBB's and Cormen's parallel merge sort, and the pieces know where their
// elements go. Ties go to the left run at every cut and in every merge, so the sort is
// stable, and the result does not depend on the workers.
//
// Elements that are already in order are left alone or moved as a block: runs, and two runs of which one ends
// before the other begins. The serial parts in merge.go do the rest. Random elements take 1.02 of the n log n - 1.44 n comparisons
// that are needed, where slices.SortFunc takes 1.15.
//
// # What the slice holds when a sort ends early
//
// A sort ends early when its call is cancelled or a function of the caller's panics. The slice
// then holds its elements, each once, in some order. This is so all the time, except within the
// range that a leaf, a merge or a move into the slice has begun to write; and each of these always
// writes its range to the end:
//
//   - The elements that it writes come from the same range of the buffer, which stays as it is
//     meanwhile. So one that may not compare any more copies that range over.
//   - A panic of the comparator is caught where it happens: in the leaf, the merge or
//     the search. The sorting keeps it, the rest of the sort ends as if the call was
//     cancelled, and the panic continues when no fork is left.
//   - A merge into the buffer that is stopped leaves rubbish there. A step that would read
//     the buffer checks first whether the sort was stopped, and a stopped sort stays stopped.
//
// An inconsistent comparator can make a sort return a wrong order, but it cannot lose or
// repeat elements: each merge takes each element of its two runs once.
//
// A radix sort calls no function. The side that it reads stays as it is until all of the other side
// is written. So one side is always whole, and if that is not the slice, it is copied to the slice.
// Floats are mapped to integers in the slice meanwhile, and always mapped back. A sort by keys begins
// when it has all keys. A sort of strings, or of long elements, sorts indices, and begins to write the
// slice only when it will write all of it.

const (
	// serialSort is the length below which a sort is not worth the buffer. Like the next
	// two, it was reasoned from the costs of a fork and a cache miss, not swept.
	serialSort = 256

	// shortFew is the length below which few values are left to a leaf: counting them needs tables.
	shortFew = 2 * serialSort

	// shortNumbers is the length up to which numbers and strings that are in some order are left to slices.Sort, which then takes less than a buffer
	// does; of half the length, so are those that have few values, or are partly in order. Random ones take half as long here.
	shortNumbers = 1 << 10

	// insertedAlone is the length up to which a slice is sorted by insertion. A buffer and what else a merge sort needs take as long.
	insertedAlone = 16

	// leafLen bounds the leaves of a merge sort. One of 8-byte elements and its part of the buffer
	// fill 32 KiB, a first-level cache, and sorting it takes far longer than a fork.
	leafLen = 1 << 11

	// mergeLen bounds the pieces of a merge. Between two pieces, or two leaves, the sort
	// checks whether it was stopped.
	mergeLen = 1 << 13
)

// Sort sorts s in ascending order, NaNs first, as slices.Sort does; the order of zeros
// of different signs, and of NaNs, is not specified. If the place's context ends the
// sort early, s has its elements in some order.
//
// Numbers and strings that are in order or in reverse order are looked at once, and s needs no buffer. Nor does it if s was rotated, if there are a few outliers,
// if it has up to some 100 different elements, each of them often, or integers that differ by less than 1,024, or if it is short: up to 255 elements, and up to 1,024 that have some order.
// Tables of 10 to 40 KB are not counted here. Otherwise the cost is a buffer as long as s, and
// for strings another 32 bytes for each; outliers that turn out to be many may cost twice as much again. Sorts of the same types that follow share this memory, which the
// collector frees when it has run twice since. Up to 8,192 elements are sorted by the caller alone.
func Sort[S ~[]E, E cmp.Ordered](at pool.Place, s S) error {
	if len(s) <= radixLeaf { // in the caller alone: nothing here can panic
		err := pool.Do(at)
		if err == nil {
			sortOrdered(nil, s, never)
		}
		return err
	}
	return sortAt(at, func(w *pool.Worker, cancelled func() bool) bool { return sortOrdered(w, s, cancelled) })
}

// SortFunc sorts s in the order of compare, as slices.SortFunc does. Equal elements keep
// their order. compare must be a strict weak order: if it is not, the order of s is not
// specified. If the order is that of a key, [SortBy] takes a fraction of the time.
//
// If the place's context ends the sort early, or if compare panics, s has its elements in some order;
// a panic continues in the caller. If compare calls runtime.Goexit, some elements may be lost and others
// be there twice.
//
// From 256 elements on, a comparator that takes over 200 nanoseconds is called no more once the context has ended, but for calls that have begun; with others the sort ends some milliseconds
// later. A shorter sort goes on to its end.
//
// Elements that are in order are compared once, and so are more than 16 in reverse order, or twice if some of these are equal. Runs are merged, and if
// there are few values, an element is compared with some of them only. The cost is a buffer as long as s, and up to another one for outliers, unless s is in order: the buffer of up to 128
// elements of up to 32 bytes that are in no order is on the stack. If there are few values, it is a byte more for each element. Sorts that follow share this memory, as those of [Sort] do. Up to 255 elements are
// sorted by the caller alone.
func SortFunc[S ~[]E, E any](at pool.Place, s S, compare func(a, b E) int) error {
	if compare == nil {
		return errNilFunc("SortFunc")
	}
	if len(s) < serialSort {
		return alone(at, func() { sortStableFunc(nil, s, compare, never) })
	}
	return sortAt(at, func(w *pool.Worker, cancelled func() bool) bool { return sortStableFunc(w, s, compare, cancelled) })
}

// MergeFunc merges s[:mid] and s[mid:], each of which is in the order of compare, so that all of s is. Of
// equal elements those before mid come first. (C++ calls it inplace_merge.)
//
// If a part is not in that order, if compare is not an order, if the place's context ends the merge early, or if
// compare panics, s has its elements in some order; a panic continues in the caller. If compare calls
// runtime.Goexit, some elements may be lost and others be there twice. What [SortFunc] says of slow comparators holds here.
//
// Cost: a buffer as long as s, unless s is in order already or shorter than 17. A call for more elements, up to some hundred, takes 0.3 to 0.8 microseconds beside the merge.
func MergeFunc[S ~[]E, E any](at pool.Place, s S, mid int, compare func(a, b E) int) error {
	switch {
	case compare == nil:
		return errNilFunc("MergeFunc")
	case mid < 0 || mid > len(s):
		return fmt.Errorf("par: MergeFunc was given %d elements and mid %d, which must be 0 to %d", len(s), mid, len(s))
	}
	if len(s) <= insertedAlone {
		return alone(at, func() { insertionFunc(s, s, compare) })
	}
	merge := func(w *pool.Worker, cancelled func() bool) bool {
		if cancelled() {
			return false
		}
		e := newComparables(s, compare, cancelled)
		if mid == 0 || mid == len(s) || e.inOrder(inSlice, mid) {
			return true
		}
		return e.heedful().mergeRuns(w, len(s), []stretch{{mid, ascends}, {len(s), ascends}})
	}
	if len(s) < serialSort {
		return alone(at, func() { merge(nil, never) })
	}
	return sortAt(at, merge)
}

// sortAt calls sort. A join in a cancelled call unwinds, but a merge into the
// slice must run to its end. So joins in sort do not unwind, and sort checks by itself for cancellation.
func sortAt(at pool.Place, sort func(w *pool.Worker, cancelled func() bool) bool) error {
	return pool.Do(at, func(w *pool.Worker) {
		w.Uncancelled(func(cancelled func() bool) { sort(w, cancelled) })
	})
}

func never() bool { return false }

// sortOrdered sorts s in ascending order, NaNs first. It returns false if the call was
// stopped. The order of zeros of either sign, and of NaNs, is unspecified, but does not
// depend on the workers.
func sortOrdered[E cmp.Ordered](w *pool.Worker, s []E, cancelled func() bool) bool {
	if cancelled() {
		return false
	}
	if len(s) < serialSort {
		slices.Sort(s)
		return true
	}
	l := lookAtKeys(w, s)
	switch {
	case l.oneRun:
		if l.down {
			reverse(w, s)
		}
		return true
	case len(s) <= shortNumbers/2 && (l.few || l.partly || l.ordered), len(s) <= shortNumbers && l.ordered && !l.few:
		slices.Sort(s)
		return true
	}
	few := func() bool { return countNumbers(w, s, cancelled) }
	runs := func() bool {
		if len(s) <= shortNumbers {
			return false
		}
		e := newComparables(s, cmp.Compare[E], cancelled)
		e.same = true
		return e.sortRuns(w)
	}
	switch {
	case l.fewOrRuns(few, runs):
		return true
	case l.ordered && len(s) <= shortNumbers:
		slices.Sort(s)
		return true
	}
	t := reflect.TypeFor[E]()
	kind, signed := t.Kind(), reflect.Int <= t.Kind() && t.Kind() <= reflect.Int64
	switch size := t.Size(); {
	case kind == reflect.String:
		return sortStrings(w, viewAs[string](s), l, cancelled)
	case kind == reflect.Float32:
		return sortFloats(w, viewAs[uint32](s), codingOf(kind, size), cancelled)
	case kind == reflect.Float64:
		return sortFloats(w, viewAs[uint64](s), codingOf(kind, size), cancelled)
	case size == 1 && signed:
		return sortIntegers(w, viewAs[int8](s), cancelled)
	case size == 1:
		return sortIntegers(w, viewAs[uint8](s), cancelled)
	case size == 2 && signed:
		return sortIntegers(w, viewAs[int16](s), cancelled)
	case size == 2:
		return sortIntegers(w, viewAs[uint16](s), cancelled)
	case size == 4 && signed:
		return sortIntegers(w, viewAs[int32](s), cancelled)
	case size == 4:
		return sortIntegers(w, viewAs[uint32](s), cancelled)
	case signed:
		return sortIntegers(w, viewAs[int64](s), cancelled)
	default:
		return sortIntegers(w, viewAs[uint64](s), cancelled)
	}
}

// countNumbers is countFew for numbers, and strings.
func countNumbers[E cmp.Ordered](w *pool.Worker, s []E, cancelled func() bool) bool {
	t := reflect.TypeFor[E]()
	switch size := t.Size(); {
	case t.Kind() == reflect.String:
		return countFew(w, viewAs[string](s), stringKind{maphash.MakeSeed()}, cancelled)
	case size == 2:
		return countFew(w, viewAs[uint16](s), numberKind[E, uint16]{}, cancelled)
	case size == 4:
		return countFew(w, viewAs[uint32](s), numberKind[E, uint32]{}, cancelled)
	case size == 8:
		return countFew(w, viewAs[uint64](s), numberKind[E, uint64]{}, cancelled)
	}
	return false // a sort by bits counts all that a byte has
}

// viewAs returns s as a slice of another element type, which must have the same size and
// alignment, and pointers in the same places.
func viewAs[T, E any](s []E) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// sortStableFunc sorts s in the order of the comparator, and leaves equal elements in
// the order they had. It returns false if the call was stopped. A panic of the
// comparator continues in the caller, often as a [*pool.PanicError]. Unless the sort
// ends by runtime.Goexit, s has its elements, each once.
func sortStableFunc[E any](w *pool.Worker, s []E, compare func(a, b E) int, cancelled func() bool) bool {
	if cancelled() {
		return false
	}
	if len(s) < serialSort {
		sortFew(s, compare)
		return true
	}
	e := newComparables(s, compare, cancelled).heedful()
	return e.sort(w, e.look(w)) && !e.cut.Load()
}

// slowCall is how long a comparator, or a function of keys, takes before which a sort asks each time whether it was cancelled, for some nanoseconds. A leaf, of
// up to 22,000 comparisons, and a piece of a merge ask at their ends: with a faster one they take 5 milliseconds at most.
const slowCall = 200 * time.Nanosecond

// slow says whether call takes so long. The first time the elements and the code may come from memory.
func slow(call func()) bool {
	for range 3 {
		begun := heist.Ticks()
		call()
		if heist.Ticks()-begun < heist.TicksIn(slowCall) {
			return false
		}
	}
	return true
}

// heedful makes a slow comparator one that is called until the sort is stopped, and for which all elements are equal then: the sort comes soon to where
// it stops, and the order no longer counts.
func (e *comparables[E]) heedful() *comparables[E] {
	s, compare := e.sides[inSlice], e.compare
	if len(s) < serialSort || !slow(func() { compare(s[0], s[1]) }) {
		return e
	}
	e.compare = func(a, b E) int {
		if e.stopped() {
			return 0
		}
		return compare(a, b)
	}
	return e
}

// sort sorts the elements, and says whether it did. It is the driver of all sorts by comparisons.
func (e *comparables[E]) sort(w *pool.Worker, l looked) bool {
	s := e.sides[inSlice]
	if l.oneRun {
		if l.down {
			e.reverse(w, 0, len(s))
		}
		return e.end()
	}
	if l.ordered && e.rotate(w) {
		return true
	}
	var runs []stretch
	early := l.few || !l.calm
	if early && (len(s) >= shortFew || l.ordered || l.partly) {
		runs = e.deal(w)
	}
	if runs == nil && (l.ordered || l.partly) {
		runs = e.findRuns(w, len(s), false, l.calm)
	}
	if !early && (2*disordered(runs, len(s)) >= len(s) || len(runs) > mostValues) {
		if dealt := e.deal(w); dealt != nil {
			runs = dealt
		}
	}
	if runs == nil {
		runs = []stretch{{len(s), mixed}}
	}
	return e.mergeRuns(w, len(s), runs)
}

// sortRuns sorts elements that are in a few long runs, or nearly in order, and says whether it did.
func (e *comparables[E]) sortRuns(w *pool.Worker) bool {
	n := len(e.sides[inSlice])
	if e.rotate(w) {
		return true
	}
	if runs := e.findRuns(w, n, true, false); 0 < len(runs) && len(runs) <= mostRuns && !e.outliersPart(runs) {
		return e.mergeRuns(w, n, runs)
	}
	return n <= dropAlone && e.nearly(0, n)
}

// rotate sorts elements that are two runs of which the second belongs before the first, such as a ring buffer's, and says whether it did.
func (e *comparables[E]) rotate(w *pool.Worker) bool {
	s := e.sides[inSlice]
	if e.compare(s[len(s)-1], s[0]) >= 0 {
		return false
	}
	mid, down := e.sorting.run(0, len(s))
	if down || mid == len(s) {
		return false
	}
	if end, down := e.sorting.run(mid, len(s)); end < len(s) || down {
		return false
	}
	reverse(w, s[:mid])
	reverse(w, s[mid:])
	reverse(w, s)
	return true
}

// outliersPart says whether all runs ascend, and would be one but for a few elements at their borders.
func (e *comparables[E]) outliersPart(runs []stretch) bool {
	s := e.sides[inSlice]
	for k, r := range runs {
		end := r.end
		if r.order != ascends || k < len(runs)-1 &&
			e.compare(s[min(end+mostInRow, len(s)-1)], s[end-1]) < 0 && e.compare(s[end], s[max(end-1-mostInRow, 0)]) < 0 {
			return false
		}
	}
	return true
}

// sorting is the part of a sort that need not know the elements.
type sorting struct {
	elements  elements    // constant, until the end
	cancelled func() bool // constant

	// failed is the first panic of the comparator, or its runtime.Goexit. The worker on which it
	// happens writes.
	failed atomic.Pointer[ending]
	cut    atomic.Bool // a step was left out; the worker that left it out writes
}

// elements is the part of a sort that knows the elements. Ranges are of indices,
// the same in the slice and in the buffer.
type elements interface {
	// run returns where the run ends that begins at lo, and whether it descends. It is at most hi.
	run(lo, hi int) (end int, down bool)
	// nearly sorts a range of the slice that nearly ascends, and says whether it did.
	nearly(lo, hi int) bool
	// reverse sorts a run in the slice that descends. If the comparator panics, that is caught, and the slice has its elements.
	reverse(w *pool.Worker, lo, hi int)
	// grow makes the buffer.
	grow()
	// leaf sorts a range of the slice, in the caller alone, into the given side, and returns the side that it is in: one that is a run already stays
	// in the slice. If the comparator panics, that is caught, and the slice has its elements.
	leaf(r extent, to side) (in side)
	// inOrder says whether two runs that meet at mid are one already.
	inOrder(in side, mid int) bool
	// before returns how many elements of the run r belong before element x: those
	// that are less or, if orEqual, not greater.
	before(in side, r extent, x int, orEqual bool) int
	// merge merges two runs of one side into the other, from index dst on.
	merge(from side, a, b extent, dst int)
	// move copies a range of one side to the other.
	move(from side, r extent, dst int)
	// release forgets the slices.
	release()
}

// side is where elements lie.
type side uint8

const (
	inSlice side = iota
	inBuffer
)

func (s side) other() side { return s ^ 1 }

// extent is a range of indices.
type extent struct{ lo, hi int }

func (s extent) len() int { return s.hi - s.lo }

// stopped says whether the sort has to end early. Then the caller leaves out what it would do.
func (g *sorting) stopped() bool {
	stopped := g.failed.Load() != nil || g.cancelled()
	if stopped {
		g.cut.Store(true)
	}
	return stopped
}

// caught is called in a deferred call where the comparator is called, with what recover returned.
func (g *sorting) caught(recovered any) {
	e := ending{}
	if v := panics.Recovered(recovered); v != nil {
		e.panicked = asPanicError(v)
	}
	g.failed.CompareAndSwap(nil, &e)
}

// ending is how a function ended that did not return.
type ending struct{ panicked *pool.PanicError } // nil after runtime.Goexit

func (e ending) resume() {
	if e.panicked == nil {
		runtime.Goexit()
	}
	panic(e.panicked)
}

// mergeRuns sorts n elements that are divided into stretches.
func (g *sorting) mergeRuns(w *pool.Worker, n int, runs []stretch) bool {
	if len(runs) > 1 || runs[0].order == mixed {
		g.elements.grow()
	}
	if n <= shortRange && len(runs) <= mostRuns && disordered(runs, n) == 0 { // another worker would take as long to fetch what the caller has looked at
		w = nil
	}
	all := extent{0, n}
	if sortFork(w, part{sorting: g, a: all, runs: runs, to: inSlice}) == inBuffer && !g.stopped() {
		mergeFork(w, part{sorting: g, a: all, b: extent{n, n}, to: inSlice})
	}
	return g.end()
}

// end says whether the sort was not stopped. A panic of the comparator continues in the caller.
func (g *sorting) end() bool {
	e := g.elements
	// The frames of the forks may keep g alive for a while, but not the elements.
	e.release()
	if failed := g.failed.Load(); failed != nil {
		failed.resume()
	}
	return !g.cut.Load()
}

// part is what a fork has to do: sort the range a, or merge the runs a and b, one of
// which may be empty. It is one type for both, so that all forks of all sorts lie
// in one fork stack.
type part struct {
	*sorting
	a, b extent
	runs []stretch // of a sort
	dst  int       // of a merge: where the result begins
	to   side      // of a sort: where the result should be; of a merge: where it goes, from the other side
}

// sortFork sorts a range and returns the side that it is in then.
func sortFork(w *pool.Worker, t part) side {
	if t.stopped() {
		return inSlice
	}
	mid := int(uint(t.a.lo+t.a.hi) / 2)
	left, right := t.runs, t.runs
	switch only := t.runs[0]; {
	case len(t.runs) > 1: // the border that is nearest to the middle
		k := partition(len(t.runs)-1, func(i int) bool { return t.runs[i].end <= mid })
		if k == len(t.runs)-1 || k > 0 && mid-t.runs[k-1].end < t.runs[k].end-mid {
			k--
		}
		left, right, mid = t.runs[:k+1], t.runs[k+1:], t.runs[k].end
	case only.order == descends:
		t.elements.reverse(w, t.a.lo, t.a.hi)
		return inSlice
	case only.order == ascends:
		return inSlice
	case t.a.len() <= leafLen:
		return t.elements.leaf(t.a, t.to)
	}
	a, b := extent{t.a.lo, mid}, extent{mid, t.a.hi}
	from := t.to.other()
	l, r := part{sorting: t.sorting, a: a, runs: left, to: from}, part{sorting: t.sorting, a: b, runs: right, to: from}
	var inA, inB side
	if t.a.len() <= leafLen || w == nil {
		inA, inB = sortFork(w, l), sortFork(w, r)
	} else {
		inA, inB = pool.Join(w, sortFork, l, sortFork, r)
	}
	if t.stopped() {
		return inSlice
	}
	switch {
	case inA == inB:
		if t.elements.inOrder(inA, mid) {
			return inA
		}
		from = inA
	case inA != from:
		mergeFork(w, part{sorting: t.sorting, a: a, b: extent{mid, mid}, dst: a.lo, to: from})
	default:
		mergeFork(w, part{sorting: t.sorting, a: b, b: extent{b.hi, b.hi}, dst: mid, to: from})
	}
	if t.stopped() {
		return inSlice
	}
	return mergeFork(w, part{sorting: t.sorting, a: a, b: b, dst: a.lo, to: from.other()})
}

// mergeFork merges two runs and returns the side that they are in then. When it returns, a
// merge into the slice is complete, but not sorted if the sort was stopped.
func mergeFork(w *pool.Worker, t part) side {
	a, b, from := t.a, t.b, t.to.other()
	switch {
	case t.stopped():
		if t.to == inSlice {
			t.elements.move(from, a, t.dst)
			t.elements.move(from, b, t.dst+a.len())
		}
		return t.to
	case a.len()+b.len() <= mergeLen || w == nil:
		if max(a.len(), b.len()) > mostSkewed*min(a.len(), b.len()) {
			t.mergeFew(from, a, b, t.dst)
		} else {
			t.elements.merge(from, a, b, t.dst)
		}
		return t.to
	}
	var cutA, cutB int
	if a.len() >= b.len() {
		cutA = a.lo + a.len()/2
		cutB = b.lo + t.elements.before(from, b, cutA, false)
	} else {
		cutB = b.lo + b.len()/2
		cutA = a.lo + t.elements.before(from, a, cutB, true)
	}
	cut := t.dst + cutA - a.lo + cutB - b.lo
	pool.Join(w,
		mergeFork, part{sorting: t.sorting, a: extent{a.lo, cutA}, b: extent{b.lo, cutB}, dst: t.dst, to: t.to},
		mergeFork, part{sorting: t.sorting, a: extent{cutA, a.hi}, b: extent{cutB, b.hi}, dst: cut, to: t.to})
	return t.to
}
