package suites

// mergesort: sort 2^22 int64, the numbers of splitmix64 with seed 1 read as signed,
// by a merge sort with one buffer of the same length. It is not the best possible
// sort, but it is the same in every language.
//
// A range of over 2048 elements is cut in the middle, rounded down, and its halves
// are forked. Each half is sorted into the one of the two arrays that the merge does
// not write to. A range of up to 2048 elements does the same without forks. Below 24
// elements a range is sorted by insertion, and then copied if it belongs into the
// other array.
//
// A merge of over 8192 elements forks. It cuts the longer input in its middle,
// rounded down, and the other input before its first element that is not less than
// the longer input's first element after the cut. The merge of the lower parts and
// the merge of the upper parts are forked. Other merges are one loop, without a
// branch on the elements.
//
// The metric is ns per element. Each lap sorts the same input; putting it in place
// and checking the result are not timed.

import (
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

const (
	sortGrain      = 2048
	mergeGrain     = 8192
	insertionBelow = 24
)

func mergesortCase() runner.Case {
	return runner.Case{
		Name:    "mergesort",
		About:   "merge sort of 4 million int64, halves and merges fork; time per element",
		Metrics: lower("ns/elem"),
		Workers: oneAndAsked,
		Impls: append([]runner.Impl{
			mergesortOn("heist-recursive", mergesortRecursive.Call),
			mergesortOn("heist-join", mergesortJoin),
			mergesortOff("serial", mergesort),
			mergesortOff("goroutine", mergesortGo),
		}, foreign("ns/elem")...),
	}
}

func mergesortOn(name string, sort func(*pool.Worker, sorting) none) runner.Impl {
	start := once(newMergesort)
	return forked(name, time.Nanosecond, func(env runner.Env) (job[[]int64], func(*pool.Worker) []int64) {
		in, j := start(env).in, start(env).job
		return j, func(w *pool.Worker) []int64 { sort(w, in); return in.from }
	})
}

func mergesortOff(name string, sort func(sorting)) runner.Impl {
	start := once(newMergesort)
	return called(name, time.Nanosecond, func(env runner.Env) (job[[]int64], func() []int64) {
		in, j := start(env).in, start(env).job
		return j, func() []int64 { sort(in); return in.from }
	})
}

// mergesortTask is a range to sort, and the job of sorting it.
type mergesortTask struct {
	in  sorting
	job job[[]int64]
}

func newMergesort(env runner.Env) mergesortTask {
	n := env.Size(1<<22, 20_000)
	input := make([]int64, n)
	var want multiset
	for i := range input {
		input[i] = int64(random(i))
		want.add(input[i])
	}
	in := sorting{from: make([]int64, n), other: make([]int64, n)}
	return mergesortTask{in, job[[]int64]{
		ops:   n,
		ready: func() { copy(in.from, input) },
		check: func(got []int64) error { return want.checkSorted(got) },
	}}
}

// multiset is a fingerprint of some numbers that does not depend on their order.
type multiset struct {
	n        int
	sum, xor int64
	mixed    int64
}

func (m *multiset) add(x int64) {
	m.n++
	m.sum += x
	m.xor ^= x
	m.mixed += (x ^ x>>29) * 0x2545f4914f6cdd1d
}

// checkSorted says whether got holds the numbers of m, in order.
func (m multiset) checkSorted(got []int64) error {
	var all multiset
	for i, x := range got {
		if i > 0 && got[i-1] > x {
			return runner.Wrong{What: "the first element that is out of order", Got: i, Want: "none"}
		}
		all.add(x)
	}
	return runner.Check("the fingerprint of the elements", all, m)
}

// sorting is a range to sort: its elements are in from, and the result goes to the
// other array if away is true.
type sorting struct {
	from, other []int64
	away        bool
}

func (s sorting) halve() (lower, upper sorting) {
	m := len(s.from) / 2
	return sorting{s.from[:m], s.other[:m], !s.away}, sorting{s.from[m:], s.other[m:], !s.away}
}

// merging returns the merge that follows when the halves are sorted.
func (s sorting) merging() merging {
	m := len(s.from) / 2
	if s.away {
		return merging{s.from[:m], s.from[m:], s.other}
	}
	return merging{s.other[:m], s.other[m:], s.from}
}

// merging is two sorted ranges, and the range that their elements go to.
type merging struct{ x, y, dst []int64 }

// halve splits a merge into one of the lesser elements and one of the others.
func (m merging) halve() (lower, upper merging) {
	x, y := m.x, m.y
	if len(x) < len(y) {
		x, y = y, x
	}
	i := len(x) / 2
	j := lowerBound(y, x[i])
	return merging{x[:i], y[:j], m.dst[:i+j]}, merging{x[i:], y[j:], m.dst[i+j:]}
}

// lowerBound returns the index of the first element that is not less than v.
func lowerBound(a []int64, v int64) int {
	lo, hi := 0, len(a)
	for lo < hi {
		m := (lo + hi) / 2
		if a[m] < v {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

func merge(m merging) {
	x, y, dst := m.x, m.y, m.dst
	i, j := 0, 0
	// The last condition always holds. It saves a bounds check, and the loop a variable.
	for i < len(x) && j < len(y) && uint(i+j) < uint(len(dst)) {
		a, b := x[i], y[j]
		first := 0
		if a <= b {
			first = 1
		}
		dst[i+j] = min(a, b)
		j += 1 - first
		i += first
	}
	rest := dst[i+j:]
	copy(rest[copy(rest, x[i:]):], y[j:])
}

func insertionSort(a []int64) {
	for i := 1; i < len(a); i++ {
		v := a[i]
		j := i
		for ; j > 0 && a[j-1] > v; j-- {
			a[j] = a[j-1]
		}
		a[j] = v
	}
}

func mergesort(s sorting) {
	if len(s.from) < insertionBelow {
		insertionSort(s.from)
		if s.away {
			copy(s.other, s.from)
		}
		return
	}
	lower, upper := s.halve()
	mergesort(lower)
	mergesort(upper)
	merge(s.merging())
}

// none is the result of a fork that works in place.
type none = struct{}

var mergesortRecursive = pool.Recursive(func(f *pool.Fork[sorting, none], s sorting) none {
	if len(s.from) <= sortGrain {
		mergesort(s)
		return none{}
	}
	f.Join(s.halve())
	return mergeRecursive.Call(f.Worker(), s.merging())
})

var mergeRecursive = pool.Recursive(func(f *pool.Fork[merging, none], m merging) none {
	if len(m.dst) <= mergeGrain {
		merge(m)
		return none{}
	}
	f.Join(m.halve())
	return none{}
})

func mergesortJoin(w *pool.Worker, s sorting) none {
	if len(s.from) <= sortGrain {
		mergesort(s)
		return none{}
	}
	lower, upper := s.halve()
	pool.Join(w, mergesortJoin, lower, mergesortJoin, upper)
	return mergeJoin(w, s.merging())
}

func mergeJoin(w *pool.Worker, m merging) none {
	if len(m.dst) <= mergeGrain {
		merge(m)
		return none{}
	}
	lower, upper := m.halve()
	pool.Join(w, mergeJoin, lower, mergeJoin, upper)
	return none{}
}

func mergesortGo(s sorting) {
	if len(s.from) <= sortGrain {
		mergesort(s)
		return
	}
	lower, upper := s.halve()
	both(func() { mergesortGo(lower) }, func() { mergesortGo(upper) })
	mergeGo(s.merging())
}

func mergeGo(m merging) {
	if len(m.dst) <= mergeGrain {
		merge(m)
		return
	}
	lower, upper := m.halve()
	both(func() { mergeGo(lower) }, func() { mergeGo(upper) })
}
