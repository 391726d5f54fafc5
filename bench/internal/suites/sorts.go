package suites

// The sorts of 2^18 elements in suite algos. The kinds of elements are
//
//	int64        sort-int64-INPUT        sorted as they are
//	pair         sort-pair-INPUT         two int64, 16 bytes, by the first; the second is its index in the input
//	pair         sort-pair-stable-INPUT  the same, stable
//	float64      sort-float64            random, from -1/2 to 1/2; rayon by total_cmp
//	string       sort-string             the decimals of random numbers of 64 bits
//
// and the inputs, by the index i of n, are
//
//	random       splitmix64 with seed 1
//	sorted       i
//	reversed     n - i
//	few          16 different values: the random numbers modulo 16
//	organ-pipe   min(i, n-i)
//	killer       makes quicksort with the median of three take quadratic time (Musser 1997):
//	             1 k+1 3 k+3 ... and then 2 4 6 8 ..., with k = n/2

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// inputs are the keys of the sorts.
var inputs = []struct {
	name string
	key  func(i, n int) int64
}{
	{"random", func(i, _ int) int64 { return int64(random(i)) }},
	{"sorted", func(i, _ int) int64 { return int64(i) }},
	{"reversed", func(i, n int) int64 { return int64(n - i) }},
	{"few", func(i, _ int) int64 { return int64(random(i) % 16) }},
	{"organ-pipe", func(i, n int) int64 { return int64(min(i, n-i)) }},
	{"killer", func(i, n int) int64 {
		switch k := n / 2; {
		case i >= k:
			return int64(2 * (i - k + 1))
		case i%2 == 1:
			return int64(k + i)
		}
		return int64(i + 1)
	}},
}

func sorts() (cases []runner.Case) {
	for _, in := range inputs {
		cases = append(cases, sortsOf("int64-"+in.name, "int64, "+in.name, in.key))
	}
	cases = append(cases,
		sortsOf("float64", "float64", func(i, _ int) float64 { return float64(random(i)>>11)/(1<<53) - 0.5 }),
		sortsOf("string", "strings", func(i, _ int) string { return strconv.FormatUint(random(i), 10) }))
	for _, stable := range []bool{false, true} {
		for _, in := range inputs {
			cases = append(cases, sortPairs(in.name, in.key, stable))
		}
	}
	return cases
}

// costly leaves an implementation out of a glance, as there are many of these cases.
func costly(impl runner.Impl) runner.Impl {
	impl.Costly = true
	return impl
}

func sortsSize(env runner.Env) int { return env.Size(1<<18, 10_000) }

func sortsInput[E any](env runner.Env, element func(i, n int) E) []E {
	s := make([]E, sortsSize(env))
	for i := range s {
		s[i] = element(i, len(s))
	}
	return s
}

// sortsOf is the case of elements that are sorted as they are.
func sortsOf[E cmp.Ordered](name, about string, element func(i, n int) E) runner.Case {
	return algo("sort-"+name, "sort 2^18 elements, "+about+"; time per element",
		func(env runner.Env) problem[[]E] {
			input := sortsInput(env, element)
			s := slices.Clone(input)
			return problem[[]E]{
				job:    job[[]E]{ops: len(s), ready: func() { copy(s, input) }, check: sameElements(slices.Sorted(slices.Values(input)))},
				on:     func(p *pool.Pool) ([]E, error) { return s, par.Sort(p, s) },
				serial: func() []E { slices.Sort(s); return s },
			}
		}, costly(rayonPerElem()))
}

// wide is a pair of 16 bytes.
type wide struct{ key, from int64 }

func byWideKey(a, b wide) int { return cmp.Compare(a.key, b.key) }

// sortPairs is the case of pairs by their keys.
func sortPairs(input string, key func(i, n int) int64, stable bool) runner.Case {
	name, about := "sort-pair-", "pairs by key, "
	if stable {
		name, about = "sort-pair-stable-", "pairs by key, stable, "
	}
	return algo(name+input, "sort 2^18 elements, "+about+input+"; time per element",
		func(env runner.Env) problem[[]wide] {
			input := sortsInput(env, func(i, n int) wide { return wide{key(i, n), int64(i)} })
			s := slices.Clone(input)
			j := job[[]wide]{ops: len(s), ready: func() { copy(s, input) }, check: func(got []wide) error {
				return checkKeyed(input, got, stable, func(e wide) (int64, int) { return e.key, int(e.from) })
			}}
			serial := slices.SortFunc[[]wide]
			if stable {
				serial = slices.SortStableFunc[[]wide]
			}
			return problem[[]wide]{
				job:    j,
				on:     func(p *pool.Pool) ([]wide, error) { return s, par.SortBy(p, s, func(e wide) int64 { return e.key }) },
				serial: func() []wide { serial(s, byWideKey); return s },
			}
		}, costly(inlining(rayonPerElem())))
}

// The grid of orders, lengths and forms. Its cells are not compared with other libraries but with Go's own serial sort in the same
// process, in turn: a sort that people call with whatever they have should lose to that one nowhere. A case is a form:
//
//	grid-sort      int64
//	grid-float64   float64
//	grid-strings   "https://example.com/" and 20 digits
//	grid-prefixes  "node/", 0 to 300 times
//	grid-by        pairs of 16 bytes by the first, SortBy against slices.SortFunc
//	grid-func      the same, SortFunc
//	grid-stable    the same, SortFunc against slices.SortStableFunc
//
// The metrics are the ratios of the best times, of the worst cell and the geometric mean of all cells. The serial sort is granted 100 ns, which
// any call of a pool costs. The detail names the worst cells.

// gridOrders are the orders of the grid. The keys differ from one input to the next where they are random, so
// that no branch predictor learns them by heart.
var gridOrders = []struct {
	name string
	key  func(r *rand.Rand, i, n int) int64
}{
	{"random", func(r *rand.Rand, _, _ int) int64 { return int64(r.Uint64() >> 1) }},
	{"sorted", func(_ *rand.Rand, i, _ int) int64 { return int64(i) * 1_000_003 }},
	{"reversed", func(_ *rand.Rand, i, n int) int64 { return int64(n-i) * 1_000_003 }},
	{"equal", func(*rand.Rand, int, int) int64 { return 7 }},
	{"5-values", func(r *rand.Rand, _, _ int) int64 { return r.Int64N(5) * 1_000_000_007 }},
	{"power-law", func(r *rand.Rand, _, n int) int64 { return int64(math.Pow(float64(n), r.Float64())) * 1_000_003 }},
	{"organ-pipe", func(_ *rand.Rand, i, n int) int64 { return int64(min(i, n-i)) }},
	{"killer", func(_ *rand.Rand, i, n int) int64 { return inputs[len(inputs)-1].key(i, n) }},
	{"sawtooth", func(_ *rand.Rand, i, n int) int64 { return int64(i % (n/16 + 1)) }},
	{"7-in-turn", func(_ *rand.Rand, i, _ int) int64 { return int64(i%7) * 1_000_000_007 }},
	{"swapped", func(r *rand.Rand, i, n int) int64 { // 1% are elsewhere
		if r.IntN(100) == 0 {
			i = r.IntN(n)
		}
		return int64(i) * 1_000_003
	}},
	{"tail", func(r *rand.Rand, i, n int) int64 { // the last 1% are new
		if i > n-n/100-2 {
			i = r.IntN(n)
		}
		return int64(i) * 1_000_003
	}},
	{"files", func(r *rand.Rand, i, n int) int64 { return int64(i%(n/8+1))*1_000_003 + r.Int64N(1_000_003) }},
}

func grid() []runner.Case {
	byKey := func(e wide) int64 { return e.key }
	pairs := func(k int64, i int) wide { return wide{k, int64(i)} }
	return []runner.Case{
		gridOf("sort", func(k int64, _ int) int64 { return k }, par.Sort[[]int64], slices.Sort[[]int64]),
		gridOf("float64", func(k int64, _ int) float64 { return float64(k) / 3 }, par.Sort[[]float64], slices.Sort[[]float64]),
		gridOf("strings", func(k int64, _ int) string { return fmt.Sprintf("https://example.com/%020d", k) }, par.Sort[[]string], slices.Sort[[]string]),
		gridOf("prefixes", func(k int64, _ int) string { return strings.Repeat("node/", int(k%301)) }, par.Sort[[]string], slices.Sort[[]string], 10_000), // a million would take a minute
		gridOf("by", pairs, func(at pool.Place, s []wide) error { return par.SortBy(at, s, byKey) }, func(s []wide) { slices.SortFunc(s, byWideKey) }),
		gridOf("func", pairs, func(at pool.Place, s []wide) error { return par.SortFunc(at, s, byWideKey) }, func(s []wide) { slices.SortFunc(s, byWideKey) }),
		gridOf("stable", pairs, func(at pool.Place, s []wide) error { return par.SortFunc(at, s, byWideKey) }, func(s []wide) { slices.SortStableFunc(s, byWideKey) }),
	}
}

// keyOf returns what elements that may change places have in common.
func keyOf(e any) any {
	if e, ok := e.(wide); ok {
		return e.key
	}
	return e
}

// gridOf is a form. Its lengths end at most, if that is given.
func gridOf[E any](form string, element func(k int64, i int) E, sort func(pool.Place, []E) error, serial func([]E), most ...int) runner.Case {
	return ratiosCase(form, "sorts of many orders and several lengths against Go's serial sort: ratios of times",
		func(env runner.Env, p *pool.Pool) (runner.Sample, error) {
			return gridSample(env, p, element, sort, serial, append(most, math.MaxInt)[0])
		})
}

func gridSample[E any](env runner.Env, p *pool.Pool, element func(k int64, i int) E, sort func(pool.Place, []E) error, serial func([]E), most int) (runner.Sample, error) {
	var g ratios
	sizes := []int{10, 100, 1000, 10_000, 100_000, 1_000_000}
	switch {
	case env.Tiny:
		sizes = sizes[:2]
	case env.Glance:
		sizes = sizes[:5]
	}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > most })
	for _, n := range sizes {
		for _, order := range gridOrders {
			inputs, s, got := make([][]E, max(1, 20_000/n)), make([]E, n), make([]E, n)
			for k := range inputs {
				r := rand.New(rand.NewPCG(uint64(k), uint64(n)))
				inputs[k] = make([]E, n)
				for i := range inputs[k] {
					inputs[k][i] = element(order.key(r, i, n), i)
				}
			}
			timed := func(s []E, sort func([]E) error) (took time.Duration, err error) {
				for _, input := range inputs {
					copy(s, input)
					start := time.Now()
					err = errors.Join(err, sort(s))
					took += time.Since(start)
				}
				return took, err
			}
			if err := g.add(fmt.Sprintf("%s, %d", order.name, n), len(inputs),
				func() (time.Duration, error) { return timed(got, func(s []E) error { return sort(p, s) }) },
				func() (time.Duration, error) { return timed(s, func(s []E) error { serial(s); return nil }) },
			); err != nil {
				return runner.Sample{}, err
			}
			for i := range got {
				if keyOf(got[i]) != keyOf(s[i]) {
					return runner.Sample{}, runner.Wrong{What: fmt.Sprintf("element %d of %d, %s", i, n, order.name), Got: got[i], Want: s[i]}
				}
			}
		}
	}
	return g.sample(), nil
}
