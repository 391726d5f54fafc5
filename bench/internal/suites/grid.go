package suites

// The grid of the algorithms that sort nothing, against the plain loops that one would write instead, in the same process and in turn.
//
//	grid-elements  a function of each element that takes a nanosecond; the plain loop has it in line
//	grid-ranges    the same by ranges, and what needs no function
//	grid-work      a function of each element that takes some 30 ns
//
// Each algorithm is called from outside and from a worker. The metrics are those of the grid of sorts.

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// ratios are the cells of a grid.
type ratios struct {
	names  []string
	values []float64
}

// add adds a cell: the best time of ours by that of serial, which is granted 100 ns for each call, what any call of a pool costs.
func (g *ratios) add(name string, calls int, ours, serial func() (time.Duration, error)) error {
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	for range 5 {
		for i, run := range []func() (time.Duration, error){ours, serial} {
			took, err := run()
			if err != nil {
				return err
			}
			least[i] = min(least[i], took)
		}
	}
	g.names = append(g.names, name)
	g.values = append(g.values, float64(least[0])/float64(least[1]+time.Duration(calls)*100))
	return nil
}

// sample has the worst cell and the geometric mean; the detail names the worst cells.
func (g *ratios) sample() runner.Sample {
	sum, order := 0.0, make([]int, len(g.values))
	for i, v := range g.values {
		sum += math.Log(v)
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(g.values[b], g.values[a]) })
	detail := "worst cells:"
	for _, i := range order[:min(5, len(order))] {
		detail += fmt.Sprintf(" %s %.2f;", g.names[i], g.values[i])
	}
	return runner.Sample{Values: []float64{g.values[order[0]], math.Exp(sum / float64(len(order)))}, Detail: detail}
}

// contest is an algorithm in two forms. Run calls one of them a number of times, and returns what the last call did.
type contest struct {
	name string
	run  func(at pool.Place, s []int64, calls int) (took time.Duration, result any, err error)
	loop func(s []int64, calls int) (took time.Duration, result any)
}

func against[T any](name string, ours func(at pool.Place, s []int64) (T, error), loop func(s []int64) T) contest {
	return contest{name,
		func(at pool.Place, s []int64, calls int) (time.Duration, any, error) {
			var result T
			var err error
			start := time.Now()
			for range calls {
				if result, err = ours(at, s); err != nil {
					return 0, nil, err
				}
			}
			return time.Since(start), result, nil
		},
		func(s []int64, calls int) (time.Duration, any) {
			var result T
			start := time.Now()
			for range calls {
				result = loop(s)
			}
			return time.Since(start), result
		},
	}
}

func contests() []runner.Case {
	return []runner.Case{
		contestCase("elements", "algorithms that take a cheap function of an element", cheap()),
		contestCase("ranges", "algorithms that have their loop in line", inLine()),
		contestCase("work", "algorithms whose function takes 30 ns for an element", working()),
	}
}

func contestCase(name, about string, all []contest) runner.Case {
	return ratiosCase(name, about+", of several lengths, against plain loops: ratios of times",
		func(env runner.Env, p *pool.Pool) (runner.Sample, error) { return contestSample(env, p, all) })
}

// ratiosCase is a case of which a sample is a grid.
func ratiosCase(name, about string, sample func(env runner.Env, p *pool.Pool) (runner.Sample, error)) runner.Case {
	return runner.Case{
		Name: "grid-" + name, About: about, Metrics: lower("worst/serial", "geomean/serial"), Workers: asked,
		Impls: []runner.Impl{onPool("heist", func(env runner.Env, p *pool.Pool) runner.Run {
			return func() (runner.Sample, error) { return sample(env, p) }
		})},
	}
}

func contestSample(env runner.Env, p *pool.Pool, all []contest) (runner.Sample, error) {
	var g ratios
	sizes := []int{1, 100, 1000, 10_000, 1_000_000}
	switch {
	case env.Tiny:
		sizes = sizes[:2]
	case env.Glance:
		sizes = sizes[:4]
	}
	for _, n := range sizes {
		s, calls := make([]int64, n), max(1, 20_000/n)
		for i := range s {
			s[i] = int64(random(i))&^1 | int64(i&1)
		}
		for _, c := range all {
			var got, want any
			loop := func() (took time.Duration, err error) {
				took, want = c.loop(s, calls)
				return took, nil
			}
			check := func() error {
				if !reflect.DeepEqual(got, want) {
					return runner.Wrong{What: fmt.Sprintf("%s of %d", c.name, n), Got: got, Want: want}
				}
				return nil
			}
			if err := g.add(fmt.Sprintf("%s, %d", c.name, n), calls, func() (took time.Duration, err error) {
				took, got, err = c.run(p, s, calls)
				return took, err
			}, loop); err != nil {
				return runner.Sample{}, err
			}
			if err := check(); err != nil {
				return runner.Sample{}, err
			}
			if err := g.add(fmt.Sprintf("%s, %d, worker", c.name, n), calls, func() (took time.Duration, err error) {
				if e := p.Run(func(w *pool.Worker) { took, got, err = c.run(w, s, calls) }); e != nil {
					return 0, e
				}
				return took, err
			}, loop); err != nil {
				return runner.Sample{}, err
			}
			if err := check(); err != nil {
				return runner.Sample{}, err
			}
		}
	}
	return g.sample(), nil
}

// parts are two results.
type parts struct{ a, b any }

// searches are Find and the like with what is looked for at several places.
func searches(find func(at pool.Place, s []int64, x int64) (int, error), loop func(s []int64, x int64) int) (all []contest) {
	for _, where := range []struct {
		name string
		at   func(n int) int
	}{
		{"begin", func(int) int { return 0 }},
		{"middle", func(n int) int { return n / 2 }},
		{"end", func(n int) int { return n - 1 }},
	} {
		all = append(all, against("find-"+where.name,
			func(at pool.Place, s []int64) (int, error) { return find(at, s, s[where.at(len(s))]) },
			func(s []int64) int { return loop(s, s[where.at(len(s))]) }))
	}
	return all
}

// kept is the plain loop that one writes if one does not know how many elements are kept.
func kept(s []int64, keep func(int64) bool) []int64 {
	out := []int64{}
	for _, x := range s {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}

func cheap() []contest {
	type out = []int64
	return append(searches(
		func(at pool.Place, s []int64, x int64) (int, error) {
			return par.Find(at, s, func(e int64) bool { return e == x })
		},
		func(s []int64, x int64) int { return slices.IndexFunc(s, func(e int64) bool { return e == x }) }),
		against("any", func(at pool.Place, s []int64) (bool, error) {
			return par.Any(at, s, func(x int64) bool { return x == 3 })
		},
			func(s []int64) bool { return slices.ContainsFunc(s, func(x int64) bool { return x == 3 }) }),
		against("count", func(at pool.Place, s []int64) (int, error) {
			return par.Count(at, s, func(x int64) bool { return x&1 == 0 })
		},
			func(s []int64) (n int) {
				for _, x := range s {
					if x&1 == 0 {
						n++
					}
				}
				return n
			}),
		against("reduce", func(at pool.Place, s []int64) (int64, error) {
			return par.Reduce(at, s, func() int64 { return 0 }, func(a, b int64) int64 { return a + b }, func(a, b int64) int64 { return a + b })
		}, sum),
		against("min", func(at pool.Place, s []int64) (int64, error) { return par.MinFunc(at, s, cmp.Compare[int64]) },
			func(s []int64) int64 { return slices.MinFunc(s, cmp.Compare[int64]) }),
		against("map", func(at pool.Place, s []int64) (out, error) {
			return par.Map(at, s, func(x int64) int64 { return x*x + 1 })
		},
			func(s []int64) out {
				out := make(out, len(s))
				for i, x := range s {
					out[i] = x*x + 1
				}
				return out
			}),
		against("scan", func(at pool.Place, s []int64) (out, error) {
			out := make(out, len(s))
			return out, par.Scan(at, out, s, func(a, b int64) int64 { return a + b })
		}, sums),
		// The lowest bits of the elements are 0 and 1 in turn, the next ones are random.
		against("filter-none", func(at pool.Place, s []int64) (out, error) {
			return par.Filter(at, s, func(x int64) bool { return x == 3 })
		},
			func(s []int64) out { return kept(s, func(x int64) bool { return x == 3 }) }),
		against("filter-all", func(at pool.Place, s []int64) (out, error) {
			return par.Filter(at, s, func(x int64) bool { return x != 3 })
		},
			func(s []int64) out { return kept(s, func(x int64) bool { return x != 3 }) }),
		against("filter-alternating", func(at pool.Place, s []int64) (out, error) {
			return par.Filter(at, s, func(x int64) bool { return x&1 == 0 })
		},
			func(s []int64) out { return kept(s, func(x int64) bool { return x&1 == 0 }) }),
		against("filter-random", func(at pool.Place, s []int64) (out, error) {
			return par.Filter(at, s, func(x int64) bool { return x&2 == 0 })
		},
			func(s []int64) out { return kept(s, func(x int64) bool { return x&2 == 0 }) }),
		against("flatmap", func(at pool.Place, s []int64) (out, error) {
			return par.FlatMap(at, s, func(out []int64, x int64) []int64 { return append(out, x, -x) })
		}, func(s []int64) (all out) {
			for _, x := range s {
				all = append(all, x, -x)
			}
			return all
		}),
		against("partition", func(at pool.Place, s []int64) (parts, error) {
			yes, no, err := par.Partition(at, s, func(x int64) bool { return x&2 == 0 })
			return parts{yes, no}, err
		}, func(s []int64) parts {
			yes, no := make(out, 0), make(out, 0)
			for _, x := range s {
				if x&2 == 0 {
					yes = append(yes, x)
				} else {
					no = append(no, x)
				}
			}
			return parts{yes, no}
		}),
		against("group", func(at pool.Place, s []int64) (map[int64][]int64, error) {
			return par.GroupBy(at, s, func(x int64) int64 { return x & 15 })
		}, func(s []int64) map[int64][]int64 {
			groups := map[int64][]int64{}
			for _, x := range s {
				groups[x&15] = append(groups[x&15], x)
			}
			return groups
		}),
		against("seq", func(at pool.Place, s []int64) (out, error) {
			return par.MapSeq(at, slices.Values(s), func(x int64) int64 { return x*x + 1 })
		}, func(s []int64) (out []int64) {
			for x := range slices.Values(s) {
				out = append(out, x*x+1)
			}
			return out
		}),
	)
}

func sums(s []int64) []int64 {
	out, total := make([]int64, len(s)), int64(0)
	for i, x := range s {
		total += x
		out[i] = total
	}
	return out
}

func inLine() []contest {
	type out = []int64
	return append(searches(
		func(at pool.Place, s []int64, x int64) (int, error) {
			return par.FindRange(at, len(s), func(lo, hi int) int {
				if i := slices.Index(s[lo:hi], x); i >= 0 {
					return lo + i
				}
				return -1
			})
		}, slices.Index[[]int64]),
		against("sum", par.Sum[int64], sum),
		against("sums", func(at pool.Place, s []int64) (out, error) {
			out := make(out, len(s))
			return out, par.Sums(at, out, s)
		}, sums),
		against("minmax", func(at pool.Place, s []int64) (parts, error) {
			least, most, err := par.MinMax(at, s)
			return parts{least, most}, err
		}, func(s []int64) parts { return parts{slices.Min(s), slices.Max(s)} }),
		against("dedup", func(at pool.Place, s []int64) (out, error) { return par.Dedup(at, s) },
			func(s []int64) out { return slices.Compact(slices.Clone(s)) }),
		against("reduce", func(at pool.Place, s []int64) (int64, error) {
			return par.ReduceRange(at, len(s), func(lo, hi int) int64 { return sum(s[lo:hi]) }, func(a, b int64) int64 { return a + b })
		}, sum),
		against("map", func(at pool.Place, s []int64) (out, error) {
			return par.MapRange(at, len(s), func(out []int64, lo, hi int) {
				for i, x := range s[lo:hi] {
					out[i] = x*x + 1
				}
			})
		}, func(s []int64) out {
			out := make(out, len(s))
			for i, x := range s {
				out[i] = x*x + 1
			}
			return out
		}),
		against("filter", func(at pool.Place, s []int64) (out, error) {
			return par.FilterRange(at, len(s), func(out []int64, lo, hi int) []int64 {
				for _, x := range s[lo:hi] {
					if x&2 == 0 {
						out = append(out, x)
					}
				}
				return out
			})
		}, func(s []int64) out { return kept(s, func(x int64) bool { return x&2 == 0 }) }),
	)
}

// busy is a function of 30 ns.
//
//go:noinline
func busy(x int64) int64 {
	for range 8 {
		x = int64(random(int(x)))
	}
	return x
}

func working() []contest {
	type out = []int64
	stream := func(form func(pool.Place, iter.Seq[int64], int, func(context.Context, int64) (int64, error)) iter.Seq2[int64, error]) func(pool.Place, []int64) (out, error) {
		return func(at pool.Place, s []int64) (all out, err error) {
			all = make(out, 0, len(s))
			for x, err := range form(at, slices.Values(s), 1000, func(_ context.Context, x int64) (int64, error) { return busy(x), nil }) {
				if err != nil {
					return nil, err
				}
				all = append(all, x)
			}
			return all, nil
		}
	}
	loop := func(s []int64) out {
		out := make(out, len(s))
		for i, x := range s {
			out[i] = busy(x)
		}
		return out
	}
	odd := func(x int64) bool { return busy(x)&1 == 1 }
	return []contest{
		against("map", func(at pool.Place, s []int64) (out, error) { return par.Map(at, s, busy) }, loop),
		against("seq", func(at pool.Place, s []int64) (out, error) { return par.MapSeq(at, slices.Values(s), busy) }, loop),
		against("stream", stream(par.Stream[int64, int64]), loop),
		against("reduce", func(at pool.Place, s []int64) (int64, error) {
			return par.Reduce(at, s, func() int64 { return 0 }, func(a, x int64) int64 { return a + busy(x) }, func(a, b int64) int64 { return a + b })
		}, func(s []int64) (total int64) {
			for _, x := range s {
				total += busy(x)
			}
			return total
		}),
		against("filter", func(at pool.Place, s []int64) (out, error) { return par.Filter(at, s, odd) },
			func(s []int64) out { return kept(s, odd) }),
		against("any", func(at pool.Place, s []int64) (bool, error) {
			return par.Any(at, s, func(x int64) bool { return busy(x) == 3 })
		},
			func(s []int64) bool { return slices.ContainsFunc(s, func(x int64) bool { return busy(x) == 3 }) }),
		against("flatmap", func(at pool.Place, s []int64) (out, error) {
			return par.FlatMap(at, s, func(out []int64, x int64) []int64 { return append(out, busy(x)) })
		}, func(s []int64) (out out) {
			for _, x := range s {
				out = append(out, busy(x))
			}
			return out
		}),
	}
}
