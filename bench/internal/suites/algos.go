package suites

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// algosSuite measures the algorithms over slices, most on 2^20 elements, and called by a
// goroutine that is no worker. The elements are the numbers of splitmix64 with seed 1.
//
//	sort-1m         int64; the library's sort, stable or not
//	sort-stable-1m  pairs of a key and an index of 32 bits each, by the key, stable: here by SortBy
//	sortfunc-1m     the same pairs by a function of the caller's, stable or not
//	scan            the running sums of int64, into another slice
//	filter          the even ones of int64, in order, in a new slice
//	reduce          the sum of int64
//	map             x*x + 1 of float64 from 0 to 1, into another slice
//	count           a table of how often each of 2^16 strings comes, 2^18 in all; static is a table for each of as many goroutines
//	sort-...        other elements and other inputs, 2^18 of them; see sorts.go
//	grid-...        orders and lengths against Go's serial sorts, see sorts.go; other algorithms against plain loops, see grid.go
//
// The row heist-range is the form of the algorithm whose function has the inner loop itself.
// A library has no row for an algorithm that it lacks: rayon has no scan, TBB no stable sort
// and no filter that keeps the order. The metric is ns per element. Checking the result, and
// putting the input in place for the sorts, are not timed.
func algosSuite() runner.Suite {
	return runner.Suite{
		Name:  "algos",
		About: "algorithms over slices of a million elements",
		Cases: slices.Concat([]runner.Case{
			sortCase(), sortStableCase(), sortFuncCase(), scanCase(), filterCase(), reduceCase(), mapCase(), countCase(),
		}, sorts(), grid(), contests()),
	}
}

// problem is the work of a case, and the ways to do it. Each implementation gets slices of
// its own.
type problem[T any] struct {
	job job[T]
	// on does it on a pool; inRanges does so with the inner loop in the caller's function.
	on, inRanges   func(*pool.Pool) (T, error)
	serial, static func() T
}

// algo is a case of the suite.
//
// Most algorithms take functions of the caller's, and there the languages differ. Rust and
// C++ compile these functions into the loops, and so does Go in the plain loop that is
// "serial". An algorithm in Go calls them, for 1 to 2 ns an element, or once for a range.
func algo[T any](name, about string, start func(env runner.Env) problem[T], others ...runner.Impl) runner.Case {
	start = once(start)
	return runner.Case{
		Name: name, About: about, Metrics: lower("ns/elem"), Workers: asked,
		Impls: append([]runner.Impl{
			solved("heist", func(env runner.Env, p *pool.Pool) (job[T], func() (T, error)) {
				problem := start(env)
				return problem.job, func() (T, error) { return problem.on(p) }
			}),
			called("serial", time.Nanosecond, func(env runner.Env) (job[T], func() T) {
				problem := start(env)
				return problem.job, problem.serial
			}),
		}, others...),
	}
}

// inRanges is the implementation heist-range of a case.
func inRanges[T any](start func(env runner.Env) problem[T]) runner.Impl {
	start = once(start)
	return solved("heist-range", func(env runner.Env, p *pool.Pool) (job[T], func() (T, error)) {
		problem := start(env)
		return problem.job, func() (T, error) { return problem.inRanges(p) }
	})
}

func solved[T any](name string, start func(runner.Env, *pool.Pool) (job[T], func() (T, error))) runner.Impl {
	return lapped(name, func(env runner.Env) (lap, func(), error) {
		p, stop, err := newPool(env)
		if err != nil {
			return nil, nil, err
		}
		j, solve := start(env, p)
		return j.lap(p, solve), stop, nil
	})
}

func rayonPerElem() runner.Impl { return peers.Rayon(lower("ns/elem")) }
func tbbPerElem() runner.Impl   { return peers.TBB(lower("ns/elem")) }

// inlining adds the note for algorithms that take a function.
func inlining(impl runner.Impl) runner.Impl {
	impl.Note = "has the caller's function compiled into its loops; Go's generic functions call it"
	return impl
}

func algoSize(env runner.Env) int { return env.Size(1<<20, 20_000) }

func integers(env runner.Env) []int64 {
	s := make([]int64, algoSize(env))
	for i := range s {
		s[i] = int64(random(i))
	}
	return s
}

// sameElements is a check of a slice.
func sameElements[T comparable](want []T) func([]T) error {
	return func(got []T) error {
		if err := runner.Check("the number of elements", len(got), len(want)); err != nil {
			return err
		}
		for i := range got {
			if got[i] != want[i] {
				return runner.Check("an element", got[i], want[i])
			}
		}
		return nil
	}
}

func sortCase() runner.Case {
	return algo("sort-1m", "sort a million int64; time per element",
		func(env runner.Env) problem[[]int64] {
			input := integers(env)
			want, s := slices.Sorted(slices.Values(input)), slices.Clone(input)
			return problem[[]int64]{
				job:    job[[]int64]{ops: len(s), ready: func() { copy(s, input) }, check: sameElements(want)},
				on:     func(p *pool.Pool) ([]int64, error) { return s, par.Sort(p, s) },
				serial: func() []int64 { slices.Sort(s); return s },
			}
		}, rayonPerElem(), tbbPerElem())
}

// pair is an element with a key, and its index in the input.
type pair struct{ key, payload uint32 }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// pairsJob returns the job of sorting pairs, and the slice with the pairs.
func pairsJob(env runner.Env, stable bool) ([]pair, job[[]pair]) {
	input := make([]pair, algoSize(env))
	for i := range input {
		input[i] = pair{uint32(random(i)), uint32(i)}
	}
	s := slices.Clone(input)
	return s, job[[]pair]{
		ops:   len(s),
		ready: func() { copy(s, input) },
		check: func(got []pair) error { return checkPairs(input, got, stable) },
	}
}

func checkPairs(input, got []pair, stable bool) error {
	return checkKeyed(input, got, stable, func(e pair) (uint32, int) { return e.key, int(e.payload) })
}

// checkKeyed checks elements that were sorted by their keys. From is an element's index in the input.
func checkKeyed[E comparable, K cmp.Ordered](input, got []E, stable bool, read func(E) (key K, from int)) error {
	seen := make([]bool, len(input))
	for i, e := range got {
		key, from := read(e)
		if i > 0 {
			before, first := read(got[i-1])
			if key < before || key == before && stable && from < first {
				return runner.Wrong{What: "the first element that is out of order", Got: i, Want: "none"}
			}
		}
		if seen[from] || input[from] != e {
			return runner.Wrong{What: "the first element that is not the input's", Got: i, Want: "none"}
		}
		seen[from] = true
	}
	return runner.Check("the number of elements", len(got), len(input))
}

func sortStableCase() runner.Case {
	return algo("sort-stable-1m", "sort a million pairs by their keys, stable; time per element",
		func(env runner.Env) problem[[]pair] {
			s, j := pairsJob(env, true)
			return problem[[]pair]{
				job:    j,
				on:     func(p *pool.Pool) ([]pair, error) { return s, par.SortBy(p, s, func(e pair) uint32 { return e.key }) },
				serial: func() []pair { slices.SortStableFunc(s, byKey); return s },
			}
		}, inlining(rayonPerElem()))
}

func sortFuncCase() runner.Case {
	return algo("sortfunc-1m", "sort a million pairs by their keys; time per element",
		func(env runner.Env) problem[[]pair] {
			s, j := pairsJob(env, false)
			return problem[[]pair]{
				job:    j,
				on:     func(p *pool.Pool) ([]pair, error) { return s, par.SortFunc(p, s, byKey) },
				serial: func() []pair { slices.SortFunc(s, byKey); return s },
			}
		}, inlining(rayonPerElem()), inlining(tbbPerElem()))
}

func scanCase() runner.Case {
	add := func(a, b int64) int64 { return a + b }
	start := func(env runner.Env) problem[[]int64] {
		s := integers(env)
		out, want := make([]int64, len(s)), make([]int64, len(s))
		scan := func(out, s []int64, sum int64) int64 {
			for i, x := range s {
				sum += x
				out[i] = sum
			}
			return sum
		}
		scan(want, s, 0)
		return problem[[]int64]{
			job: job[[]int64]{ops: len(s), ready: func() { clear(out) }, check: sameElements(want)},
			on:  func(p *pool.Pool) ([]int64, error) { return out, par.Scan(p, out, s, add) },
			inRanges: func(p *pool.Pool) ([]int64, error) {
				return out, par.ScanRange(p, len(s),
					func(lo, hi int) int64 { return sum(s[lo:hi]) }, add,
					func(before int64, lo, hi int) int64 { return scan(out[lo:hi], s[lo:hi], before) })
			},
			serial: func() []int64 { scan(out, s, 0); return out },
		}
	}
	return algo("scan", "the running sums of a million int64; time per element", start, inRanges(start), inlining(tbbPerElem()))
}

func sum(s []int64) (sum int64) {
	for _, x := range s {
		sum += x
	}
	return sum
}

func filterCase() runner.Case {
	start := func(env runner.Env) problem[[]int64] {
		s := integers(env)
		filter := func(kept, s []int64) []int64 {
			for _, x := range s {
				if x%2 == 0 {
					kept = append(kept, x)
				}
			}
			return kept
		}
		serial := func() []int64 { return filter(make([]int64, 0, len(s)), s) } // a third faster than growing it
		return problem[[]int64]{
			job: job[[]int64]{ops: len(s), check: sameElements(serial())},
			on: func(p *pool.Pool) ([]int64, error) {
				return par.Filter(p, s, func(x int64) bool { return x%2 == 0 })
			},
			inRanges: func(p *pool.Pool) ([]int64, error) {
				return par.FilterRange(p, len(s), func(out []int64, lo, hi int) []int64 { return filter(out, s[lo:hi]) })
			},
			serial: serial,
		}
	}
	return algo("filter", "the even ones of a million int64, in a new slice; time per element", start, inRanges(start), inlining(rayonPerElem()))
}

func reduceCase() runner.Case {
	add := func(a, b int64) int64 { return a + b }
	start := func(env runner.Env) problem[int64] {
		s := integers(env)
		want := sum(s)
		return problem[int64]{
			job: job[int64]{ops: len(s), check: func(got int64) error { return runner.Check("the sum", got, want) }},
			on:  func(p *pool.Pool) (int64, error) { return par.Reduce(p, s, func() int64 { return 0 }, add, add) },
			inRanges: func(p *pool.Pool) (int64, error) {
				return par.ReduceRange(p, len(s), func(lo, hi int) int64 { return sum(s[lo:hi]) }, add)
			},
			serial: func() int64 { return sum(s) },
		}
	}
	return algo("reduce", "the sum of a million int64; time per element", start, inRanges(start), inlining(rayonPerElem()), inlining(tbbPerElem()))
}

// countCase counts random keys: each worker's table has most of them, so merging the tables takes about as long as making them.
func countCase() runner.Case {
	type table = map[string]int
	count := func(t table, words []string) table {
		for _, word := range words {
			t[word]++
		}
		return t
	}
	merge := func(a, b table) table {
		for word, n := range b {
			a[word] += n
		}
		return a
	}
	split := func(words []string, workers int) table {
		tables := make([]table, workers)
		var all sync.WaitGroup
		for k := range tables {
			all.Go(func() { tables[k] = count(table{}, words[k*len(words)/workers:(k+1)*len(words)/workers]) })
		}
		all.Wait()
		for _, t := range tables[1:] {
			merge(tables[0], t)
		}
		return tables[0]
	}
	start := func(env runner.Env) problem[table] {
		words := make([]string, algoSize(env)/4)
		for i := range words {
			words[i] = strconv.FormatUint(random(i)%(1<<16), 4)
		}
		want := count(table{}, words)
		return problem[table]{
			job: job[table]{ops: len(words), check: func(got table) error { return runner.Check("the tables are equal", maps.Equal(got, want), true) }},
			on: func(p *pool.Pool) (table, error) {
				return par.Reduce(p, words, func() table { return table{} }, func(t table, word string) table { t[word]++; return t }, merge)
			},
			inRanges: func(p *pool.Pool) (table, error) {
				return par.ReduceRange(p, len(words), func(lo, hi int) table { return count(table{}, words[lo:hi]) }, merge)
			},
			serial: func() table { return count(table{}, words) },
			static: func() table { return split(words, env.Workers) },
		}
	}
	start = once(start)
	return algo("count", "a table of 2^16 strings among 2^18; time per element", start, inRanges(start),
		called("static", time.Nanosecond, func(env runner.Env) (job[table], func() table) {
			problem := start(env)
			return problem.job, problem.static
		}))
}

func mapCase() runner.Case {
	start := func(env runner.Env) problem[[]float64] {
		s := make([]float64, algoSize(env))
		for i := range s {
			s[i] = float64(random(i)>>11) / (1 << 53)
		}
		out := make([]float64, len(s))
		check := func(got []float64) error {
			for i, x := range s {
				// A fused multiplication and addition rounds once instead of twice.
				if want := x*x + 1; math.Abs(got[i]-want) > 1e-15 {
					return runner.Check("an element", got[i], want)
				}
			}
			return nil
		}
		squares := func(out, s []float64) {
			for i, x := range s {
				out[i] = x*x + 1
			}
		}
		return problem[[]float64]{
			job: job[[]float64]{ops: len(s), ready: func() { clear(out) }, check: check},
			on: func(p *pool.Pool) ([]float64, error) {
				return out, par.MapTo(p, out, s, func(x float64) float64 { return x*x + 1 })
			},
			inRanges: func(p *pool.Pool) ([]float64, error) {
				return out, pool.ForRange(p, len(s), func(lo, hi int) { squares(out[lo:hi], s[lo:hi]) })
			},
			serial: func() []float64 { squares(out, s); return out },
		}
	}
	return algo("map", "x*x + 1 of a million float64; time per element", start, inRanges(start), inlining(rayonPerElem()), inlining(tbbPerElem()))
}
