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
	"slices"
	"strconv"

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
