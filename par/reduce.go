package par

import (
	"cmp"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/pool"
)

// Reduce folds the elements of s into one value. If add is one operation, take the range form, [ReduceRange], or [Sum]: the calls make Reduce
// take 6 times as long as a plain loop on one worker.
//
// A worker goes on with one value, which zero makes, from element to element, until another worker takes a part of what is left. merge then
// makes one of all values, in the order of the elements: one for each part that was taken, some for each worker. merge must be associative, and what zero returns neutral;
// nothing needs to commute.
//
// Sums of floats are rounded, so they depend on how s is divided. If R is or holds floats, and holds no map, pointer, slice, interface, channel or function (a string does not
// count), then s is divided into up to 2048 blocks in a way that depends on its length and on R alone, and the result has the same bits for any number of workers. Floats in a
// table may differ in their last bits.
//
// merge is given each value once. So add and merge may change what their first argument refers to, and return it. zero must make
// a new one each time; several workers may call it at the same time.
//
// Cost: a call of add for each element; with floats also a call of zero and merge and some 10 ns for each block.
func Reduce[T, R any](at pool.Place, s []T, zero func() R, add func(R, T) R, merge func(R, R) R) (r R, err error) {
	if zero == nil || add == nil || merge == nil {
		return r, errNilFunc("Reduce")
	}
	return reduce(at, len(s), zero, func(value R, lo, hi int) R {
		for _, e := range s[lo:hi] {
			value = add(value, e)
		}
		return value
	}, merge, add)
}

// reduce is Reduce of the elements that add adds for a range, and shows the loop as the function shown.
func reduce[R any](at pool.Place, n int, zero func() R, add func(value R, lo, hi int) R, merge func(R, R) R, shown any) (r R, err error) {
	if rounds(reflect.TypeFor[R]()) {
		return reduceBlocks(at, blocksFor[R](n), shown, func(lo, hi int) R { return add(zero(), lo, hi) }, merge)
	}
	r, values, err := inRuns(at, n, added[R]{zero, add}, shown)
	if err != nil || values == nil {
		return r, err
	}
	return mergeAll(at, values, 0, false, merge)
}

type added[R any] struct {
	zero func() R
	add  func(value R, lo, hi int) R
}

func (f added[R]) begin(lo, hi int) R { return f.add(f.zero(), lo, hi) }

func (f added[R]) extend(value R, lo, hi int) R { return f.add(value, lo, hi) }

// ReduceRange folds the indices 0 to n-1 into one value, as [Reduce] does with elements: fold returns the value of those
// from lo to hi-1, a new one each time if R is a reference. If n is 0, the result is fold(0, 0). As with [pool.ForRange], fold should set up what it needs, such as
// a buffer, at its beginning, and ranges are long enough for that to cost little. Ranges are taken from the end to the beginning, and merge is called once for
// each but the first: for two values of as many ranges, or, if merging takes a sixteenth of the time or more, for the value of a range and that of all behind it.
// Then ranges are few, such as 6 to 13 tables for two workers. For
// floats there are up to 2048 blocks, as with Reduce, so there a large buffer belongs into a [pool.Local].
func ReduceRange[R any](at pool.Place, n int, fold func(lo, hi int) R, merge func(R, R) R) (r R, err error) {
	if fold == nil || merge == nil {
		return r, errNilFunc("ReduceRange")
	}
	if rounds(reflect.TypeFor[R]()) {
		return reduceBlocks(at, blocksFor[R](n), fold, fold, merge)
	}
	return reduceRanges(at, n, fold, merge)
}

// reduceRanges is ReduceRange where it does not matter how the range is divided.
func reduceRanges[R any](at pool.Place, n int, fold func(lo, hi int) R, merge func(R, R) R) (r R, err error) {
	begun := false
	done, others, err := pool.Granularity{}.FromEnd().Probe(at, n, fold, func(lo, hi int) (more bool) {
		if v := fold(lo, hi); begun {
			r = merge(v, r)
		} else {
			r, begun = v, true
		}
		return true
	})
	if err == nil && n == 0 {
		err = alone(at, func() { r = fold(0, 0) })
	}
	if err != nil {
		return *new(R), err
	}
	if done == n {
		return r, nil
	}
	var all runsOf[R]
	left := n - done
	if err = pool.ForRange(at, left, func(w *pool.Worker, lo, hi int) { w.Merging(all.of(w).add(lo, hi, fold, merge)) }, others); err != nil {
		return *new(R), err
	}
	values := all.inOrder()
	if begun {
		values = append(values, r)
	}
	return mergeAll(at, values, 0, false, merge)
}

// add adds a range, and merges it with those behind it: as a tree of ranges does, because a merge may take as long as its values are, as that of
// strings, but into one value while merges are heavy, as those of tables are. It returns what part merging is of computing, for as many items; 0 if nothing
// was merged.
func (m *runsOfWorker[V]) add(lo, hi int, fold func(lo, hi int) V, merge func(a, b V) V) (merging float64) {
	start := heist.Ticks()
	r := run[V]{lo, hi, 1, fold(lo, hi)}
	folded := heist.Ticks()
	merged := 0
	for last := len(m.runs) - 1; last >= 0 && m.runs[last].lo == r.hi && (m.runs[last].ranges <= r.ranges || m.heavy); last-- {
		behind := m.runs[last]
		m.runs = m.runs[:last]
		r = run[V]{r.lo, behind.hi, r.ranges + behind.ranges, merge(r.value, behind.value)}
		merged += behind.hi - behind.lo
	}
	m.runs = append(m.runs, r)
	if merged > 0 {
		merging = float64(heist.Ticks()-folded) / float64(merged) * float64(hi-lo) / float64(max(folded-start, 1))
		m.heavy = policy.Heavy(merging)
	}
	return merging
}

// reduceBlocks reduces blocks by fold, which calls the user's function of.
func reduceBlocks[R any](at pool.Place, b blocks, of any, fold func(lo, hi int) R, merge func(R, R) R) (r R, err error) {
	if b.n < 0 {
		return r, For(at, b.n, func(int) {})
	}
	begin := heist.Ticks()
	count := max(b.count(), 1)
	var t tree[R]
	done, others, err := pool.Granularity{}.Probe(at, count, of, func(lo, hi int) (more bool) {
		for i := lo; i < hi; i++ {
			t.add(i, fold(b.at(i)), merge)
		}
		if hi == count {
			r = t.root(count, merge)
		}
		return true
	})
	if err != nil || done == count {
		return r, err
	}
	values := make([]R, count)
	t.spread(done, values)
	if err := rest(at, done, count, others, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			values[i] = fold(b.at(i))
		}
	}); err != nil {
		return r, err
	}
	return mergeAll(at, values, done, heist.Ticks()-begin < heist.TicksIn(mergedAlone), merge)
}

// mergeAll merges neighbours, as a tree does, until one value is left. The first done values have been spread. If alone is set, the caller merges all.
func mergeAll[R any](at pool.Place, values []R, done int, alone bool, merge func(R, R) R) (r R, err error) {
	step := 1
	pairs := func() int { return ((len(values)-1)/step + 1) / 2 }
	merged := func(i int) {
		if (2*i+2)*step > done {
			values[2*i*step] = merge(values[2*i*step], values[(2*i+1)*step])
		}
	}
	if alone {
		err = For(at, 1, func(int) {
			for ; step < len(values); step *= 2 {
				for i := range pairs() {
					merged(i)
				}
			}
		})
	}
	for ; err == nil && step < len(values); step *= 2 {
		err = For(at, pairs(), merged)
	}
	if err != nil {
		return r, err
	}
	return values[0], nil
}

// rounds says whether values of a type depend on how sums are divided: they are or hold floats, and are no tables, which refer to memory and had better
// be few.
func rounds(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array, reflect.Struct:
		known, ok := rounding.Load(t)
		if !ok {
			floats, refers := holds(t)
			known, _ = rounding.LoadOrStore(t, floats && !refers)
		}
		return known.(bool)
	}
	return false
}

// rounding is what rounds has said of arrays and structs, because to look at their fields takes long.
var rounding sync.Map

// holds says whether a value of a type holds floats, and whether it refers to memory that add and merge may change. A string does not count: what it
// refers to stays.
func holds(t reflect.Type) (floats, refers bool) {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true, false
	case reflect.Map, reflect.Pointer, reflect.Slice, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false, true
	case reflect.Array:
		return holds(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f, r := holds(t.Field(i).Type)
			floats, refers = floats || f, refers || r
		}
	}
	return floats, refers
}

// tree merges the values of blocks, which come in order, in pairs, and the pairs in pairs. partial[k] is the value of 2^k blocks, if bit k of the
// number of blocks is set.
type tree[R any] struct{ partial [12]R }

// add adds the value of block i.
func (t *tree[R]) add(i int, value R, merge func(R, R) R) {
	k := 0
	for ; i>>k&1 == 1; k++ {
		value = merge(t.partial[k], value)
	}
	t.partial[k] = value
}

// root returns the value of all n blocks.
func (t *tree[R]) root(n int, merge func(R, R) R) (value R) {
	for k, some := 0, false; n>>k > 0; k++ {
		switch {
		case n>>k&1 == 0:
		case some:
			value = merge(t.partial[k], value)
		default:
			value, some = t.partial[k], true
		}
	}
	return value
}

// spread puts the partial values of n blocks where their first blocks are.
func (t *tree[R]) spread(n int, values []R) {
	for k := range t.partial {
		if n>>k&1 == 1 {
			values[n>>k<<k-1<<k] = t.partial[k]
		}
	}
}

// mergedAlone is how long folding may take for the values to be merged by the caller alone: less than a wake-up.
const mergedAlone = 8 * time.Microsecond

// blocks divides a range where results must not depend on the number of workers.
type blocks struct{ n, size int }

// blocksOf divides n elements into at most 2048 blocks, which are enough for hundreds of workers. A block costs some 6 ns, so
// 100 elements are 17 blocks, 1,000 are 32, and blocks have 64 before there are more than 128 of them: that costs 100 ns and a tenth of a
// nanosecond for each element. No block but the last has less than least elements.
func blocksOf(n, least int) blocks {
	return blocks{n, max(n/1024, min(n/16, 8), min(n/32, 64), least)}
}

// blocksFor is blocksOf for values of a type. To make, copy and merge a value takes some 2 nanoseconds for each of its words, so a block
// has 16 elements for each, but there are not less than 128 blocks because of that.
func blocksFor[R any](n int) blocks {
	return blocksOf(n, max(min(n/128, 2*int(reflect.TypeFor[R]().Size())), 1))
}

func (b blocks) count() int {
	if b.n <= 0 {
		return b.n // the loop returns the error for a negative n
	}
	return (b.n-1)/b.size + 1
}

func (b blocks) at(i int) (lo, hi int) {
	lo = i * b.size
	return lo, lo + min(b.size, b.n-lo)
}

// Number is a type with a sum.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Sum returns the sum of s. Floats are added in an order that depends on the length of s alone.
func Sum[E Number](at pool.Place, s []E) (total E, err error) {
	if len(s) <= leastCheap {
		if err = pool.Do(at); err == nil {
			total = sum(s)
		}
		return total, err
	}
	return reduceBlocks(at, blocksOf(len(s), leastCheap), nil, func(lo, hi int) E { return sum(s[lo:hi]) }, plus)
}

// leastCheap is how many elements are worth a wake-up if each takes a nanosecond.
const leastCheap = 1 << 12

func plus[E Number](a, b E) E { return a + b }

// sum adds into four sums at a time, because a processor can add several numbers in the time of one
// addition.
func sum[E Number](s []E) E {
	var a, b, c, d E
	for ; len(s) >= 4; s = s[4:] {
		a, b, c, d = a+s[0], b+s[1], c+s[2], d+s[3]
	}
	for _, e := range s {
		a += e
	}
	return a + b + (c + d)
}

// Count returns for how many elements of s is is true. If is is one comparison, take the range form, [CountRange]: the calls make Count take
// 3 times as long as a plain loop on one worker.
func Count[T any](at pool.Place, s []T, is func(T) bool) (int, error) {
	if is == nil {
		return 0, errNilFunc("Count")
	}
	return countRange(at, len(s), is, func(lo, hi int) (n int) {
		for _, e := range s[lo:hi] {
			if is(e) {
				n++
			}
		}
		return n
	})
}

// CountRange adds up what count returns for ranges that together are 0 to n-1.
func CountRange(at pool.Place, n int, count func(lo, hi int) int) (int, error) {
	if count == nil {
		return 0, errNilFunc("CountRange")
	}
	return countRange(at, n, count, count)
}

func countRange(at pool.Place, n int, of any, count func(lo, hi int) int) (int, error) {
	total := 0
	done, others, err := pool.Granularity{}.Probe(at, n, of, func(lo, hi int) (more bool) { total += count(lo, hi); return true })
	if err != nil || done == n {
		return total, err
	}
	var more atomic.Int64 // workers add: how the range is divided does not change the sum
	err = restOfRanges(at, done, n, others, func(_ *pool.Worker, lo, hi int) { more.Add(int64(count(lo, hi))) })
	return total + int(more.Load()), err
}

// ErrEmpty is the error for the least or greatest element of an empty slice.
var ErrEmpty = errors.New("par: MinMax, MinFunc or MaxFunc was given an empty slice")

// errEmpty returns ErrEmpty, or the place's error if no call can begin there.
func errEmpty(at pool.Place) error {
	if err := pool.Do(at); err != nil {
		return err
	}
	return ErrEmpty
}

// MinMax returns the least and the greatest element of s. If an element is a NaN, both
// results are. It returns [ErrEmpty] if s is empty.
func MinMax[E cmp.Ordered](at pool.Place, s []E) (least, most E, err error) {
	if len(s) == 0 {
		return least, most, errEmpty(at)
	}
	if len(s) <= leastCheap {
		if err = pool.Do(at); err == nil {
			least, most = minMax(s)
		}
		return least, most, err
	}
	type both struct{ least, most E }
	r, err := reduceBlocks(at, blocksOf(len(s), leastCheap), nil,
		func(lo, hi int) (r both) {
			r.least, r.most = minMax(s[lo:hi])
			return r
		},
		func(a, b both) both { return both{min(a.least, b.least), max(a.most, b.most)} })
	return r.least, r.most, err
}

// minMax looks at two elements at a time, for the same reason as sum.
func minMax[E cmp.Ordered](s []E) (least, most E) {
	least, most = s[0], s[0]
	a, b := least, most
	for ; len(s) >= 2; s = s[2:] {
		least, most = min(least, s[0]), max(most, s[0])
		a, b = min(a, s[1]), max(b, s[1])
	}
	if len(s) > 0 {
		least, most = min(least, s[0]), max(most, s[0])
	}
	return min(least, a), max(most, b)
}

// MinFunc returns the first of the least elements of s, as slices.MinFunc does, and [ErrEmpty] if
// s is empty. If compare is cmp.Compare, take [MinMax]: the calls make MinFunc take 4 times as long as a plain loop on one worker, and 8 times as long as [slices.Min].
func MinFunc[E any](at pool.Place, s []E, compare func(a, b E) int) (least E, err error) {
	return first("MinFunc", at, s, compare, false)
}

// MaxFunc returns the first of the greatest elements of s, as slices.MaxFunc does, and [ErrEmpty] if
// s is empty.
func MaxFunc[E any](at pool.Place, s []E, compare func(a, b E) int) (most E, err error) {
	return first("MaxFunc", at, s, compare, true)
}

// first returns the first of the least or greatest elements of s.
func first[E any](name string, at pool.Place, s []E, compare func(a, b E) int, greatest bool) (e E, err error) {
	if compare == nil {
		return e, errNilFunc(name)
	}
	if len(s) == 0 {
		return e, errEmpty(at)
	}
	found, b := 0, bests[E]{s, compare, greatest}
	done, others, err := pool.Granularity{}.Probe(at, len(s), compare, func(lo, hi int) (more bool) {
		found = b.among(found, lo, hi)
		return true
	})
	if err != nil || done == len(s) {
		return s[found], err
	}
	var best atomic.Int64 // the index of the best element so far; workers write
	best.Store(int64(found))
	err = rest(at, done, len(s), others, func(lo, hi int) {
		i := int64(b.among(lo, lo, hi))
		for old := best.Load(); i != old && b.better(int(i), int(old)) && !best.CompareAndSwap(old, i); old = best.Load() {
		}
	})
	return s[best.Load()], err
}

// bests says which elements are best.
type bests[E any] struct {
	s        []E
	compare  func(a, b E) int
	greatest bool
}

// among returns the best of the element at best, which is before lo or at lo, and those from lo to hi-1.
func (b bests[E]) among(best, lo, hi int) int {
	if best == lo {
		lo++
	}
	for i := lo; i < hi; i++ {
		if c := b.compare(b.s[i], b.s[best]); c != 0 && (c > 0) == b.greatest {
			best = i
		}
	}
	return best
}

// better says whether the element at i is better than that at j, or equals it and comes before it.
func (b bests[E]) better(i, j int) bool {
	c := b.compare(b.s[i], b.s[j])
	return c != 0 && (c > 0) == b.greatest || c == 0 && i < j
}
