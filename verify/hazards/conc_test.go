package hazards

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sourcegraph/conc/iter"
	"github.com/sourcegraph/conc/stream"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// These are the cases in the tests of sourcegraph/conc's iter and stream, in words of our own. Each
// is run with conc and with heist, by the smallest adapter, and must give the same result. What
// differs, and why:
//
//   - conc's stream goes on after an error, which is its caller's matter. A heist stream ends at the first error. The adapter's
//     functions return none.
//   - conc may run more functions at a time than there are CPUs, if told so (iter's "more than the default"). A heist loop computes
//     on its workers, so a body that waits for another body does so in Worker.Block, which has no place in conc's signature: the case is
//     left out, and TestTasksThatWaitForEachOther is heist's.

// many is what a library for loops and streams is to the cases.
type many struct {
	forEach    func(s []int, f func(*int))
	forEachIdx func(s []int, f func(int, *int))
	mapTo      func(s []int, f func(*int) int) []int
	mapErr     func(s []int, f func(*int) (int, error)) ([]int, error)
	ordered    func(fs []func() (callback func()), limit int)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var ofConc = many{
	forEach:    iter.ForEach[int],
	forEachIdx: iter.ForEachIdx[int],
	mapTo:      iter.Map[int, int],
	mapErr:     iter.MapErr[int, int],
	ordered: func(fs []func() func(), limit int) {
		s := stream.New().WithMaxGoroutines(limit)
		for _, f := range fs {
			s.Go(func() stream.Callback { return f() })
		}
		s.Wait()
	},
}

func ofHeist(p *pool.Pool) many {
	return many{
		forEach:    func(s []int, f func(*int)) { must(par.ForEach(p, s, f)) },
		forEachIdx: func(s []int, f func(int, *int)) { must(par.For(p, len(s), func(i int) { f(i, &s[i]) })) },
		mapTo: func(s []int, f func(*int) int) []int {
			results := make([]int, len(s))
			must(par.For(p, len(s), func(i int) { results[i] = f(&s[i]) }))
			return results
		},
		mapErr: func(s []int, f func(*int) (int, error)) ([]int, error) {
			pointers := make([]*int, len(s))
			for i := range s {
				pointers[i] = &s[i]
			}
			return par.MapErr(par.JoinErrors(p), pointers, func(_ context.Context, e *int) (int, error) { return f(e) })
		},
		ordered: func(fs []func() func(), limit int) {
			for callback, err := range par.Stream(p, slices.Values(fs), limit, func(_ context.Context, f func() func()) (func(), error) {
				return f(), nil
			}) {
				must(err)
				callback()
			}
		},
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

var concCases = map[string]func(m many) (outcome []any){
	"nothing": func(m many) (got []any) {
		m.forEach(nil, func(*int) { panic("never") })
		m.forEachIdx([]int{}, func(int, *int) { panic("never") })
		got = append(got, len(m.mapTo(nil, func(*int) int { panic("never") })))
		results, err := m.mapErr(nil, func(*int) (int, error) { panic("never") })
		m.ordered(nil, 5)
		return append(got, len(results), err)
	},
	"a panic reaches the caller": func(m many) []any {
		s := []int{1}
		return []any{
			panics(func() { m.forEach(s, func(*int) { panic("bad") }) }),
			panics(func() { m.forEachIdx(s, func(int, *int) { panic("bad") }) }),
			panics(func() { m.mapTo(s, func(*int) int { panic("bad") }) }),
			panics(func() { _, _ = m.mapErr(s, func(*int) (int, error) { panic("bad") }) }),
			panics(func() { m.ordered([]func() func(){func() func() { panic("bad") }}, 5) }),
			panics(func() { m.ordered([]func() func(){func() func() { return func() { panic("bad") } }}, 5) }),
		}
	},
	"elements may be changed": func(m many) []any {
		a, b, c, d := []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}
		m.forEach(a, func(e *int) { *e++ })
		m.forEachIdx(b, func(i int, e *int) { *e += i })
		m.mapTo(c, func(e *int) int { *e++; return 0 })
		_, err := m.mapErr(d, func(e *int) (int, error) { *e++; return 0, nil })
		return []any{a, b, c, d, err}
	},
	"many elements": func(m many) []any {
		s := make([]int, 10_000)
		m.forEachIdx(s, func(i int, e *int) { *e = i })
		squares := m.mapTo(s, func(e *int) int { return *e * *e })
		sums, err := m.mapErr(s, func(e *int) (int, error) { return *e + 1, nil })
		return []any{s, squares, sums, err}
	},
	"all errors are kept, and all results": func(m many) []any {
		results, err := m.mapErr([]int{1, 2, 3, 4, 5}, func(e *int) (int, error) {
			switch *e {
			case 3:
				return 0, errFirst
			case 4:
				return 0, errSecond
			}
			return *e + 1, nil
		})
		return []any{results, errors.Is(err, errFirst), errors.Is(err, errSecond)}
	},
	"callbacks come in order, one at a time, and no more functions at a time than the limit": func(m many) []any {
		var inside, callbacks atomic.Int64
		var tooMany atomic.Bool
		var order []int
		var fs []func() func()
		for i := range 200 {
			fs = append(fs, func() func() {
				if inside.Add(1) > 5 {
					tooMany.Store(true)
				}
				defer inside.Add(-1)
				return func() {
					if callbacks.Add(1) > 1 {
						tooMany.Store(true)
					}
					order = append(order, i*2)
					callbacks.Add(-1)
				}
			})
		}
		m.ordered(fs, 5)
		return []any{order, tooMany.Load()}
	},
	"a panic in a callback does not hold up the others": func(m many) []any {
		fs := []func() func(){func() func() { return func() { panic("bad") } }}
		for range 100 {
			fs = append(fs, func() func() { return func() {} })
		}
		return []any{panics(func() { m.ordered(fs, 5) })}
	},
}

func TestLoopsAndStreamsKeepWhatConcPromises(t *testing.T) {
	claim.That(t, "conc: loops and streams do what conc's iter and stream do",
		"the cases of conc's tests, each with conc and with heist")
	p, err := pool.New(pool.WithWorkers(2))
	require.NoError(t, err)
	defer p.Close()
	for name, run := range concCases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, run(ofConc), run(ofHeist(p)))
		})
	}
	claim.Amount(t, "%s cases", claim.Count(len(concCases)))
}
