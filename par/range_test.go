package par

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// forLens runs a test with random numbers, many of which are equal, of all lengths around the borders
// of blocks, with few workers and many, and in all kinds of places.
func forLens(t *testing.T, test func(t *testing.T, at pool.Place, s []int)) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens() {
			s := make([]int, n)
			for i := range s {
				s[i] = rand.N(n/3 + 2)
			}
			for name, in := range inPlaces {
				if (n > 10_000 || testutil.Short() && n > 1000) && name != "outside" {
					continue
				}
				require.NoError(t, in(p, func(at pool.Place) error { test(t, at, s); return nil }))
			}
		}
	})
}

func isEven(n int) bool { return n%2 == 0 }

func TestRangeFormsAreTheSerialOnes(t *testing.T) {
	forLens(t, func(t *testing.T, at pool.Place, s []int) {
		n := len(s)
		mapped, err := MapRange(at, n, func(out []int, lo, hi int) {
			for i := range out {
				out[i] = 3 * s[lo+i]
			}
		})
		require.NoError(t, err)
		totals, even, sum := make([]int, n), []int{}, 0
		for i, e := range s {
			require.True(t, 3*e == mapped[i])
			sum += e
			totals[i] = sum
			if isEven(e) {
				even = append(even, e)
			}
		}
		got, err := ReduceRange(at, n, func(lo, hi int) (sum int) {
			for _, e := range s[lo:hi] {
				sum += e
			}
			return sum
		}, func(a, b int) int { return a + b })
		require.NoError(t, err)
		require.Equal(t, sum, got)
		got, err = Sum(at, s)
		require.NoError(t, err)
		require.Equal(t, sum, got)
		out := make([]int, n)
		require.NoError(t, Sums(at, out, s))
		requireEqual(t, totals, out)
		out = slices.Clone(s)
		require.NoError(t, Sums(at, out, out))
		requireEqual(t, totals, out)
		kept, err := FilterRange(at, n, func(out []int, lo, hi int) []int {
			for _, e := range s[lo:hi] {
				if isEven(e) {
					out = append(out, e)
				}
			}
			return out
		})
		require.NoError(t, err)
		requireEqual(t, even, kept)
		got, err = CountRange(at, n, func(lo, hi int) int { return hi - lo })
		require.NoError(t, err)
		require.Equal(t, n, got)
		got, err = Count(at, s, isEven)
		require.NoError(t, err)
		require.Equal(t, len(even), got)
		for _, where := range []int{0, n / 2, n - 1} {
			got, err = FindRange(at, n, func(lo, hi int) int {
				if lo <= where && where < hi {
					return where
				}
				return -1 - lo // as good as -1
			})
			require.NoError(t, err)
			if n == 0 {
				where = -1
			}
			require.Equal(t, where, got)
		}
	})
}

func TestAlgorithmsOverElementsAreTheSerialOnes(t *testing.T) {
	forLens(t, func(t *testing.T, at pool.Place, s []int) {
		yes, no, err := Partition(at, s, isEven)
		require.NoError(t, err)
		odd := func(n int) bool { return !isEven(n) }
		requireEqual(t, slices.DeleteFunc(slices.Clone(s), odd), yes)
		requireEqual(t, slices.DeleteFunc(slices.Clone(s), isEven), no)

		flat, err := FlatMap(at, s, func(out []int, e int) []int { return append(out, slices.Repeat([]int{e}, e%3)...) })
		require.NoError(t, err)
		want, groups := []int{}, map[int][]int{}
		for i, e := range s {
			want = append(want, slices.Repeat([]int{e}, e%3)...)
			groups[e%100] = append(groups[e%100], i)
		}
		requireEqual(t, want, flat)

		places := make([]int, len(s))
		for i := range places {
			places[i] = i
		}
		got, err := GroupBy(at, places, func(i int) int { return s[i] % 100 })
		require.NoError(t, err)
		require.True(t, maps.EqualFunc(groups, got, slices.Equal))

		sorted := slices.Sorted(slices.Values(s))
		once, err := Dedup(at, sorted)
		require.NoError(t, err)
		requireEqual(t, slices.Compact(slices.Clone(sorted)), once)
		requireEqual(t, slices.Sorted(slices.Values(s)), sorted)

		any, err := Any(at, s, func(e int) bool { return e == 1 })
		require.NoError(t, err)
		require.Equal(t, slices.Contains(s, 1), any)
		all, err := All(at, s, func(e int) bool { return e != 1 })
		require.NoError(t, err)
		require.Equal(t, !slices.Contains(s, 1), all)

		byTens := func(a, b [2]int) int { return cmp.Compare(a[0]/10, b[0]/10) }
		pairs := make([][2]int, len(s))
		for i, e := range s {
			pairs[i] = [2]int{e, i}
		}
		least, err := MinFunc(at, pairs, byTens)
		most, err2 := MaxFunc(at, pairs, byTens)
		if len(s) == 0 {
			require.ErrorIs(t, err, ErrEmpty)
			require.ErrorIs(t, err2, ErrEmpty)
			return
		}
		require.NoError(t, errors.Join(err, err2))
		require.Equal(t, slices.MinFunc(pairs, byTens), least, "the first of the least")
		require.Equal(t, slices.MaxFunc(pairs, byTens), most, "the first of the greatest")
	})
}

// TestGroupsShareNoMemory: append to one changes no other, and one that is kept keeps no other's elements.
func TestGroupsShareNoMemory(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	type element struct {
		l   *object
		key int
	}
	const keys, each = 3000, 20 // they are in several parts
	key := func(e element) int { return e.key }
	var kept []element
	var dropped []weak.Pointer[object]
	func() {
		s := make([]element, each*keys)
		for i := range s {
			s[i].key = i % keys
			l, seen := garbage()
			if s[i].l = l; s[i].key > 0 {
				dropped = append(dropped, seen)
			}
		}
		groups, err := GroupBy(p, s, key)
		require.NoError(t, err)
		require.Len(t, groups, keys)
		isGroup := func(k int, g []element) bool {
			for i, e := range g {
				if e != s[k+i*keys] {
					return false
				}
			}
			return len(g) == each
		}
		for k, g := range groups {
			require.True(t, isGroup(k, g))
			groups[k] = append(g, element{})[:each]
		}
		for k, g := range groups {
			require.True(t, isGroup(k, g), "append to a group changed another")
		}
		kept = groups[0]
	}()
	requireAtRest(t, p)
	requireCollected(t, dropped...)
	require.Len(t, kept, each)
	for _, e := range kept {
		require.NotNil(t, e.l)
	}
}

// TestNaNsAreGroupsOfTheirOwn, as in a map: none equals another.
func TestNaNsAreGroupsOfTheirOwn(t *testing.T) {
	for _, n := range []int{3, 60_000} {
		s := make([]float64, n)
		for i := range s {
			if s[i] = float64(i % 100); i%1000 == 1 {
				s[i] = math.NaN()
			}
		}
		groups, err := GroupBy(pools.New(t), s, func(x float64) float64 { return x })
		require.NoError(t, err)
		nans := 0
		for x, group := range groups {
			if x != x {
				nans++
				require.Len(t, group, 1)
			}
		}
		require.Equal(t, (n+998)/1000, nans)
		require.Len(t, groups, nans+min(n-nans, 100))
	}
}

// TestGroupsAreTheSerialOnes, however many there are, also where the first elements have others than the rest.
func TestGroupsAreTheSerialOnes(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range []int{leastGrouped/4 + 1, 5 * leastGrouped, 20 * leastGrouped} {
			for _, keys := range []int{1, 10, 1000, n / 8, n} {
				s := make([]int, n)
				for i := range s {
					if s[i] = rand.N(keys); i < n/16 {
						s[i] = i % 3
					}
				}
				want := map[int][]int{}
				for i, k := range s {
					want[k] = append(want[k], i)
				}
				places := make([]int, n)
				for i := range places {
					places[i] = i
				}
				var calls atomic.Int64
				long := time.Duration(0)
				if keys == 10 && n < 10*leastGrouped { // so that they are found before parts are grouped
					long = time.Microsecond
				}
				got, err := GroupBy(p, places, func(i int) int { calls.Add(1); heist.Spin(long); return s[i] })
				require.NoError(t, err)
				require.EqualValues(t, n, calls.Load())
				require.True(t, maps.EqualFunc(want, got, slices.Equal), "%d elements, %d keys", n, keys)
			}
		}
	})
}

func TestShuffleIsTheSameForTheSameSeedAndAPermutation(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1 << 14, 1<<14 + 1, 1 << 17} {
		s := make([]int, n)
		for i := range s {
			s[i] = i
		}
		var first []int
		forSizes(t, func(t *testing.T, p *pool.Pool) {
			shuffled := slices.Clone(s)
			require.NoError(t, Shuffle(p, shuffled, 7))
			if first == nil {
				first = shuffled
			}
			requireEqual(t, first, shuffled)
		})
		other := slices.Clone(s)
		require.NoError(t, Shuffle(pools.New(t), other, 8))
		require.Equal(t, n < 3, slices.Equal(first, other) || n < 3)
		slices.Sort(first)
		requireEqual(t, s, first)
	}
}

// TestShuffleGivesEachElementEachPlaceAlike counts how many elements move from each eighth of the slice to
// each eighth.
func TestShuffleGivesEachElementEachPlaceAlike(t *testing.T) {
	p := pools.New(t)
	const n, parts = 1 << 16, 8
	var from [parts][parts]int
	for seed := range uint64(8) {
		s := make([]int, n)
		for i := range s {
			s[i] = i
		}
		require.NoError(t, Shuffle(p, s, seed))
		for i, e := range s {
			from[i*parts/n][e*parts/n]++
		}
	}
	mean := 8.0 * n / parts / parts
	for _, row := range from {
		for _, count := range row {
			require.InDelta(t, mean, float64(count), 6*math.Sqrt(mean))
		}
	}
}

func TestBadInputToAlgorithmsIsAnError(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	s := []int{1}
	for want, do := range map[string]func() error{
		"par: MapRange was given a nil function":    func() error { _, err := MapRange[int](p, 1, nil); return err },
		"par: ReduceRange was given a nil function": func() error { _, err := ReduceRange[int](p, 1, nil, nil); return err },
		"par: ScanRange was given a nil function":   func() error { return ScanRange[int](p, 1, nil, nil, nil) },
		"par: CountRange was given a nil function":  func() error { _, err := CountRange(p, 1, nil); return err },
		"par: FindRange was given a nil function":   func() error { _, err := FindRange(p, 1, nil); return err },
		"par: FilterRange was given a nil function": func() error { _, err := FilterRange[int](p, 1, nil); return err },
		"par: Count was given a nil function":       func() error { _, err := Count(p, s, nil); return err },
		"par: Any was given a nil function":         func() error { _, err := Any(p, s, nil); return err },
		"par: All was given a nil function":         func() error { _, err := All(p, s, nil); return err },
		"par: Partition was given a nil function":   func() error { _, _, err := Partition(p, s, nil); return err },
		"par: FlatMap was given a nil function":     func() error { _, err := FlatMap[int, int](p, s, nil); return err },
		"par: GroupBy was given a nil function":     func() error { _, err := GroupBy[int, int](p, s, nil); return err },
		"par: MinFunc was given a nil function":     func() error { _, err := MinFunc(p, s, nil); return err },
		"par: MaxFunc was given a nil function":     func() error { _, err := MaxFunc(p, s, nil); return err },
		"par: Sums was given 0 results and 1 elements; there must be as many": func() error {
			return Sums(p, nil, s)
		},
	} {
		require.EqualError(t, do(), want)
	}
	negative := "pool: a loop was given -1 items; it must be 0 or more"
	for _, do := range []func() error{
		func() error { _, err := MapRange(p, -1, func([]int, int, int) {}); return err },
		func() error {
			_, err := ReduceRange(p, -1, func(_, _ int) int { return 0 }, func(_, _ int) int { return 0 })
			return err
		},
		func() error {
			return ScanRange(p, -1, func(_, _ int) int { return 0 }, func(_, _ int) int { return 0 }, func(_, _, _ int) int { return 0 })
		},
		func() error { _, err := FilterRange(p, -1, func(out []int, _, _ int) []int { return out }); return err },
		func() error { _, err := FindRange(p, -1, func(_, _ int) int { return -1 }); return err },
	} {
		require.EqualError(t, do(), negative)
	}
	for _, n := range []int{1, 10_000} {
		e, ok := testutil.Caught(func() { _, _ = FindRange(p, n, func(_, hi int) int { return hi }) }).(*pool.PanicError)
		require.True(t, ok)
		require.ErrorContains(t, e, "par: the function of FindRange returned")
	}
	shut, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, shut.Close())
	for _, n := range []int{0, 1, 1 << 17} {
		require.ErrorIs(t, Shuffle(shut, make([]int, n), 1), pool.ErrClosed)
	}
}

// TestSumsOfManyDependOnNothingElse: neither on the workers that are idle, nor on where out lies.
func TestSumsOfManyDependOnNothingElse(t *testing.T) {
	for _, n := range []int{shortSums, shortSums + 1, 3*shortSums + 5} {
		ints, floats := make([]int, n), make([]float64, n)
		want := make([]int, n)
		total := 0
		for i := range n {
			ints[i], floats[i] = i*i-n, 1/float64(i+1)
			total += ints[i]
			want[i] = total
		}
		var first []float64
		for _, workers := range []int{1, 2, 4, 8} {
			p := pools.New(t, pool.WithWorkers(workers))
			for range 3 {
				out, sums := make([]int, n), slices.Clone(floats)
				require.NoError(t, Sums(p, out, ints))
				requireEqual(t, want, out, "ints")
				require.NoError(t, Sums(p, sums, sums))
				if first == nil {
					first = sums
				}
				requireEqual(t, first, sums, "floats")
			}
		}
		require.InEpsilon(t, math.Log(float64(n))+0.5772, first[n-1], 1e-4)
	}
}

// TestAlgorithmsEndEarly, with the error of the context or the panic of the function.
func TestAlgorithmsEndEarly(t *testing.T) {
	const n = 1 << 16
	s := make([]int, n)
	for name, run := range map[string]func(at pool.Place, tick func()) error{
		"MapRange": func(at pool.Place, tick func()) error {
			_, err := MapRange(at, n, func(out []int, lo, hi int) {
				for range out {
					tick()
				}
			})
			return err
		},
		"FilterRange": func(at pool.Place, tick func()) error {
			_, err := FilterRange(at, n, func(out []int, lo, hi int) []int {
				for range hi - lo {
					tick()
				}
				return out
			})
			return err
		},
		"Partition": func(at pool.Place, tick func()) error {
			_, _, err := Partition(at, s, func(int) bool { tick(); return true })
			return err
		},
		"GroupBy": func(at pool.Place, tick func()) error {
			_, err := GroupBy(at, s, func(int) int { tick(); return 1 })
			return err
		},
		"SortBy": func(at pool.Place, tick func()) error {
			return SortBy(at, slices.Clone(s), func(int) int { tick(); return 1 })
		},
		"SortFunc in order": func(at pool.Place, tick func()) error { return sortTicking(at, count(n), tick) },
		"SortFunc reversed": func(at pool.Place, tick func()) error { return sortTicking(at, reversed(count(n)), tick) },
		"SortFunc equal":    func(at pool.Place, tick func()) error { return sortTicking(at, slices.Clone(s), tick) },
		"SortFunc two files": func(at pool.Place, tick func()) error {
			return sortTicking(at, append(count(n/2), count(n/2)...), tick)
		},
		"SortFunc outliers": func(at pool.Place, tick func()) error {
			s := count(n)
			for i := range 20 {
				s[n/21*(i+1)] = i
			}
			return sortTicking(at, s, tick)
		},
		"Scan": func(at pool.Place, tick func()) error {
			return Scan(at, make([]int, n), s, func(a, b int) int { tick(); return a + b })
		},
		"ScanRange": func(at pool.Place, tick func()) error {
			total := func(lo, hi int) int {
				for range hi - lo {
					tick()
				}
				return 0
			}
			return ScanRange(at, n, total, func(a, b int) int { return a + b }, func(_ int, lo, hi int) int { return total(lo, hi) })
		},
		"MinFunc": func(at pool.Place, tick func()) error {
			_, err := MinFunc(at, s, func(_, _ int) int { tick(); return 0 })
			return err
		},
	} {
		for _, workers := range []int{1, 4} {
			p := pools.New(t, pool.WithWorkers(workers))
			for range testutil.Stress(10) {
				ctx, cancel := context.WithCancelCause(context.Background())
				ticks := canceller{after: n / 16, cancel: cancel}
				require.ErrorIs(t, run(p.With(ctx), func() { ticks.tick(); work(100) }), errStolen, name)
				require.Less(t, ticks.Load(), int64(n), name)

				var calls atomic.Int64
				e, ok := testutil.Caught(func() {
					_ = run(p, func() {
						if calls.Add(1) == n/16 {
							panic(io.EOF)
						}
					})
				}).(*pool.PanicError)
				require.True(t, ok, name)
				require.ErrorIs(t, e, io.EOF, name)
			}
		}
	}
}

func sortTicking(at pool.Place, s []int, tick func()) error {
	return SortFunc(at, s, func(a, b int) int { tick(); return cmp.Compare(a, b) })
}

func reversed(s []int) []int {
	slices.Reverse(s)
	return s
}

// TestWhatIsWholeIsNoError, though the context ended meanwhile.
func TestWhatIsWholeIsNoError(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	for _, n := range []int{10, 300, 5000} {
		for name, run := range map[string]func(at pool.Place, tick func()) error{
			"SortFunc in order": func(at pool.Place, tick func()) error {
				return SortFunc(at, count(n), func(a, b int) int {
					for k := 1; k < n && max(a, b) == n-1; k++ { // the last comparison
						tick()
					}
					return a - b
				})
			},
			"Scan": func(at pool.Place, tick func()) error {
				return Scan(at, make([]int, n), count(n), func(a, b int) int { tick(); return a + b })
			},
		} {
			for _, place := range []pool.Place{p, pool.Serial()} {
				ctx, cancel := context.WithCancelCause(context.Background())
				ticks := canceller{after: int64(n - 1), cancel: cancel}
				require.NoError(t, run(place.With(ctx), func() {
					if ticks.tick(); ctx.Err() != nil {
						time.Sleep(time.Millisecond) // until the worker is told
					}
				}), "%s of %d", name, n)
			}
		}
	}
}

// TestAlgorithmsWhileEverythingIsCollected looks for pointers that the collector does not see.
func TestAlgorithmsWhileEverythingIsCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	p := pools.New(t, pool.WithWorkers(4))
	for range testutil.Stress(20) {
		words := make([]string, 20_000)
		for i := range words {
			words[i] = strconv.Itoa(rand.N(5000))
		}
		groups, err := GroupBy(p, words, func(s string) string { return s })
		require.NoError(t, err)
		require.NoError(t, Shuffle(p, words, 1))
		require.NoError(t, SortBy(p, words, func(s string) string { return fmt.Sprint(len(s), s) }))
		once, err := Dedup(p, words)
		require.NoError(t, err)
		require.Len(t, once, len(groups))
		all, err := FlatMap(p, once, func(out []string, s string) []string { return append(out, groups[s]...) })
		require.NoError(t, err)
		requireEqual(t, words, all)
	}
}
