package par

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// orders are ways in which n keys come: what sorts look for, and what may mislead them.
var orders = map[string]func(n int, r *rand.Rand) []int{
	"random":   func(n int, r *rand.Rand) []int { return r.Perm(n) },
	"sorted":   func(n int, _ *rand.Rand) []int { return seq(0, n) },
	"reversed": func(n int, r *rand.Rand) []int { s := seq(0, n); slices.Reverse(s); return s },
	"equal":    func(n int, _ *rand.Rand) []int { return make([]int, n) },
	"few": func(n int, r *rand.Rand) []int {
		values := 1 + r.IntN(150)
		return keysFrom(n, func(int) int { return r.IntN(values) * 1_000_003 })
	},
	"mostly one": func(n int, r *rand.Rand) []int {
		return keysFrom(n, func(int) int { return max(0, r.IntN(2*n+1)-n) })
	},
	"power law": powerLaw,
	"stairs": func(n int, r *rand.Rand) []int {
		step := 1 + r.IntN(50)
		return keysFrom(n, func(i int) int { return i / step })
	},
	"downstairs": func(n int, r *rand.Rand) []int {
		step := 1 + r.IntN(50)
		return keysFrom(n, func(i int) int { return -i / step })
	},
	"organ pipe": func(n int, _ *rand.Rand) []int { return keysFrom(n, func(i int) int { return min(i, n-i) }) },
	"valley":     func(n int, _ *rand.Rand) []int { return keysFrom(n, func(i int) int { return max(i, n-i) }) },
	"sawtooth": func(n int, r *rand.Rand) []int {
		tooth := 1 + r.IntN(n+1)
		return keysFrom(n, func(i int) int { return i % tooth })
	},
	"short teeth": func(n int, r *rand.Rand) []int {
		tooth := 1 + r.IntN(40)
		return keysFrom(n, func(i int) int { return i % tooth })
	},
	"down teeth": func(n int, r *rand.Rand) []int {
		tooth, step := 1+r.IntN(n+1), 1+r.IntN(3)
		return keysFrom(n, func(i int) int { return -i / step % tooth })
	},
	"rotated": func(n int, r *rand.Rand) []int {
		by := r.IntN(n + 1)
		return keysFrom(n, func(i int) int { return (i + by) % max(n, 1) / 2 })
	},
	"tail":        func(n int, r *rand.Rand) []int { return disturbed(n, r, func(s []int) { shuffleSome(s[n-n/20:], r) }) },
	"head":        func(n int, r *rand.Rand) []int { return disturbed(n, r, func(s []int) { shuffleSome(s[:n/20], r) }) },
	"half random": func(n int, r *rand.Rand) []int { return disturbed(n, r, func(s []int) { shuffleSome(s[:n/2], r) }) },
	"swapped": func(n int, r *rand.Rand) []int {
		return disturbed(n, r, func(s []int) {
			for range n / (10 + r.IntN(200)) {
				i, j := r.IntN(n), r.IntN(n)
				s[i], s[j] = s[j], s[i]
			}
		})
	},
	"jitter": func(n int, r *rand.Rand) []int { return keysFrom(n, func(i int) int { return i + r.IntN(8) }) },
	"files": func(n int, r *rand.Rand) []int {
		s := r.Perm(n)
		for file := range slices.Chunk(s, n/(1+r.IntN(20))+1) {
			if slices.Sort(file); r.IntN(3) == 0 {
				slices.Reverse(file)
			}
		}
		return s
	},
	"interleaved": func(n int, _ *rand.Rand) []int { return keysFrom(n, func(i int) int { return i%2*n + i }) },
}

// powerLaw returns keys of which the k-th is there as often as 1/k says.
func powerLaw(n int, r *rand.Rand) []int {
	return keysFrom(n, func(int) int { return int(math.Pow(float64(n), r.Float64())) })
}

func keysFrom(n int, key func(i int) int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = key(i)
	}
	return s
}

// disturbed returns n sorted keys, each some times, that were disturbed.
func disturbed(n int, r *rand.Rand, disturb func(s []int)) []int {
	times := 1 + r.IntN(3)
	s := keysFrom(n, func(i int) int { return i / times })
	disturb(s)
	return s
}

func shuffleSome(s []int, r *rand.Rand) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// someLen returns a length at which sorts go another way, or one near it.
func someLen(r *rand.Rand) int {
	borders := []int{0, insertionLen, insertedAlone, fewOnStack, serialSort, shortFew, shortNumbers, leafLen, mergeLen, radixLeaf, 2 * partLen, 3 * mergeLen, leastDealt}
	if testutil.UnderRace {
		borders = borders[:8]
	}
	return max(0, borders[r.IntN(len(borders))]+r.IntN(200)-100)
}

// forRandomCases calls test with keys of each order, of so many lengths.
func forRandomCases(short, full int, test func(r *rand.Rand, keys []int, what string)) {
	cases := short
	if !testutil.Short() {
		cases = testutil.Stress(full)
	}
	for range cases {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		n := someLen(r)
		for _, name := range slices.Sorted(maps.Keys(orders)) { // so that the seed repeats the case
			test(r, orders[name](n, r), fmt.Sprintf("%s, %d elements, seed %d", name, n, seed))
		}
	}
}

// TestSortsAgreeWithTheStandardLibraryOnRandomCases of order, length, type and form.
func TestSortsAgreeWithTheStandardLibraryOnRandomCases(t *testing.T) {
	pools := []pool.Place{pool.Serial(), pools.New(t, pool.WithWorkers(1)), pools.New(t, pool.WithWorkers(2)), pools.New(t, pool.WithWorkers(8))}
	forRandomCases(8, 600, func(r *rand.Rand, keys []int, what string) {
		p := pools[r.IntN(len(pools))]
		switch r.IntN(7) {
		case 0:
			sortsAs(t, p, keys, func(k int) int64 { return int64(k) - 100 }, what)
		case 1:
			sortsAs(t, p, keys, func(k int) uint16 { return uint16(k) }, what)
		case 2:
			sortsAs(t, p, keys, func(k int) float64 {
				switch k % 50 {
				case 1:
					return math.Copysign(0, -1)
				case 2:
					return 0
				case 3:
					if len(keys)%2 == 0 {
						return math.NaN()
					}
				}
				return float64(k)/3 - 100
			}, what)
		case 3:
			sortsAs(t, p, keys, func(k int) float32 { return float32(k) }, what)
		case 4:
			sortsAs(t, p, keys, func(k int) string { return fmt.Sprintf("https://example.com/%08d/index", k) }, what)
		case 5:
			sortsAs(t, p, keys, func(k int) string { return strings.Repeat("node/", max(k%300, 0)) }, what)
		default:
			sortsAs(t, p, keys, func(k int) string { return fmt.Sprint(k) }, what)
		}
	})
}

// sortsAs sorts keys as values of another type, in all forms.
func sortsAs[K cmp.Ordered](t *testing.T, p pool.Place, keys []int, of func(k int) K, what string) {
	t.Helper()
	type element struct {
		key K
		at  int
	}
	values, elements := make([]K, len(keys)), make([]element, len(keys))
	for i, k := range keys {
		values[i] = of(k)
		elements[i] = element{values[i], i}
	}
	byKey := func(a, b element) int { return cmp.Compare(a.key, b.key) }
	sorted, stable := slices.Sorted(slices.Values(values)), slices.Clone(elements)
	slices.SortStableFunc(stable, byKey)
	same := func(a, b element) bool { return a.at == b.at }

	require.NoError(t, Sort(p, values))
	require.Zero(t, slices.Compare(sorted, values), "Sort: %s", what)
	byFunc, by := slices.Clone(elements), slices.Clone(elements)
	require.NoError(t, SortFunc(p, byFunc, byKey))
	require.True(t, slices.EqualFunc(stable, byFunc, same), "SortFunc: %s", what)
	require.NoError(t, SortBy(p, by, func(e element) K { return e.key }))
	require.True(t, slices.EqualFunc(stable, by, same), "SortBy: %s", what)

	short := make([]int16, len(elements)) // indices are moved along with keys where elements are long, and elements where they are short
	for i := range short {
		short[i] = int16(i)
	}
	if len(short) < math.MaxInt16 {
		require.NoError(t, SortBy(p, short, func(i int16) K { return elements[i].key }))
		require.True(t, slices.EqualFunc(stable, short, func(e element, i int16) bool { return e.at == int(i) }), "SortBy of short elements: %s", what)
	}
}

// TestSortsOfAnyOrderThatEndEarlyKeepAPermutation: by a panic of the comparator, its inconsistency, or a context.
func TestSortsOfAnyOrderThatEndEarlyKeepAPermutation(t *testing.T) {
	boom := errors.New("boom")
	pools := []*pool.Pool{pools.New(t, pool.WithWorkers(1)), pools.New(t, pool.WithWorkers(4))}
	forRandomCases(6, 200, func(r *rand.Rand, keys []int, what string) {
		p := pools[r.IntN(len(pools))]
		all := make([]int64, len(keys))
		for i, k := range keys {
			all[i] = int64(uint32(k))
		}
		s := records(all)
		var calls atomic.Int64
		stop := 1 + r.Int64N(int64(len(keys))*int64(1+r.IntN(15))+1)
		ctx, cancel := context.WithCancelCause(t.Context())
		how := r.IntN(3)
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = v.(error)
				}
			}()
			return SortFunc(p.With(ctx), s, func(a, b record) int {
				if calls.Add(1) >= stop {
					switch how {
					case 0:
						panic(boom)
					case 1:
						cancel(boom)
					default:
						return int(calls.Load()*7919%3) - 1
					}
				}
				return byKey(a, b)
			})
		}()
		cancel(nil)
		if err != nil {
			require.ErrorIs(t, err, boom, what)
		}
		requirePermutation(t, all, s)
		if how == 0 && calls.Load() >= stop {
			require.Error(t, err)
		}
		if calls.Load() < stop {
			require.True(t, slices.IsSortedFunc(s, byKey), what)
		}
	})
}

// TestASlowFunctionIsNotCalledAfterItsContext: between the places where a sort asks whether it was cancelled lie thousands of comparisons.
func TestASlowFunctionIsNotCalledAfterItsContext(t *testing.T) {
	const n = 1 << 13
	p := pools.New(t, pool.WithWorkers(2))
	r := rand.New(rand.NewPCG(6, 6))
	slowly := func() {
		for start := time.Now(); time.Since(start) < 2*slowCall; {
		}
	}
	sorts := map[string]struct {
		most int64 // calls after the end: those that workers have begun, or of a sample and a few blocks
		sort func(at pool.Place, s []int, count func()) error
	}{
		"SortFunc": {100, func(at pool.Place, s []int, count func()) error {
			return SortFunc(at, s, func(a, b int) int { count(); return cmp.Compare(a, b) })
		}},
		"MergeFunc": {100, func(at pool.Place, s []int, count func()) error {
			slices.Sort(s[:n/3])
			slices.Sort(s[n/3:])
			return MergeFunc(at, s, n/3, func(a, b int) int { count(); return cmp.Compare(a, b) })
		}},
		"SortBy": {700, func(at pool.Place, s []int, count func()) error {
			return SortBy(at, s, func(e int) int { count(); return e })
		}},
	}
	for order, key := range map[string]func(i int) int{
		"random":     func(int) int { return r.Int() },
		"few values": func(int) int { return r.IntN(60) },
		"sorted":     func(i int) int { return i },
		"reversed":   func(i int) int { return -i },
		"two halves": func(i int) int { return i % (n / 2) },
		"swapped":    func(i int) int { return i ^ 64*(i%100/99) },
	} {
		for name, c := range sorts {
			if name == "MergeFunc" && order != "random" { // parts of these take few comparisons
				continue
			}
			t.Run(name+" "+order, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := keysFrom(n, key)
				want := slices.Sorted(slices.Values(s))
				var calls atomic.Int64
				err := c.sort(p.With(ctx), s, func() {
					if calls.Add(1) == 1000 {
						cancel()
					}
					slowly()
				})
				require.ErrorIs(t, err, context.Canceled)
				require.LessOrEqual(t, calls.Load(), 1000+c.most)
				slices.Sort(s)
				require.True(t, slices.Equal(want, s), "elements were lost")
			})
		}
	}
}

// TestSortFuncComparesLittle: near the least for random elements, about once for each element that is in order.
func TestSortFuncComparesLittle(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	const n = 1 << 16
	r := rand.New(rand.NewPCG(5, 5))
	least := n*math.Log2(n) - 1.44*n
	for _, c := range []struct {
		name string
		keys []int
		most float64
	}{
		{"random", r.Perm(n), 1.05 * least},
		{"sorted", seq(0, n), 1.01 * n},
		{"reversed", orders["reversed"](n, r), 1.01 * n},
		{"reversed, each twice", keysFrom(n, func(i int) int { return -i / 2 }), 2.1 * n},
		{"5 values", keysFrom(n, func(int) int { return r.IntN(5) }), 2.5 * n},
		{"60 values", keysFrom(n, func(int) int { return r.IntN(60) }), 5.5 * n},
		{"256 values", keysFrom(n, func(int) int { return r.IntN(256) }), 10 * n},
		{"half of one", keysFrom(n, func(int) int { return r.IntN(2) * r.IntN(n) }), 8.6 * n},
		{"power law", powerLaw(n, r), 13.2 * n},
		{"7 values in turn", keysFrom(n, func(i int) int { return i % 7 }), 2.8 * n},
		{"16 values in turn", keysFrom(n, func(i int) int { return i % 16 }), 6 * n},
		{"1% swapped", disturbed(n, r, func(s []int) {
			for range n / 200 {
				i, j := r.IntN(n), r.IntN(n)
				s[i], s[j] = s[j], s[i]
			}
		}), 5 * n},
		{"a tail", disturbed(n, r, func(s []int) { shuffleSome(s[n-n/100:], r) }), 3 * n},
		{"two files", keysFrom(n, func(i int) int { return i % (n / 2) }), 3.1 * n},
	} {
		calls := 0
		require.NoError(t, SortFunc(p, c.keys, func(a, b int) int { calls++; return a - b }))
		require.LessOrEqual(t, float64(calls), c.most, c.name)
	}
	for n := insertedAlone + 1; n < 2*serialSort; n++ {
		for _, name := range []string{"sorted", "reversed"} {
			calls := 0
			require.NoError(t, SortFunc(p, orders[name](n, r), func(a, b int) int { calls++; return a - b }))
			most := n - 1
			if n >= serialSort {
				most += 3 // how long the comparator takes
			}
			require.LessOrEqual(t, calls, most, "%s %d", name, n)
		}
	}
	for values, most := range map[int]float64{2: 1.7, 3: 2.3, 5: 3.8, 10: 4.9} { // merges take 4.8 to 6.9
		for _, n := range []int{100, serialSort - 1, shortFew - 1} {
			calls, times := 0, 200
			for range times {
				require.NoError(t, SortFunc(p, keysFrom(n, func(int) int { return r.IntN(values) }), func(a, b int) int { calls++; return a - b }))
			}
			require.LessOrEqual(t, float64(calls)/float64(n*times), most, "%d values, %d", values, n)
		}
	}
}

// TestEqualElementsEndNoRunWhereComparisonsAreSlow: a slow run is looked at in ranges of a few elements, of which some are all equal.
func TestEqualElementsEndNoRunWhereComparisonsAreSlow(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	const n = 1 << 15
	s, calls := make([]record, n), 0
	for i := range s {
		s[i] = record{uint32(n-i) / 2, uint32(i)}
	}
	want := slices.Clone(s)
	slices.SortStableFunc(want, byKey)
	require.NoError(t, SortFunc(p, s, func(a, b record) int {
		calls++
		heist.Spin(200)
		return byKey(a, b)
	}))
	require.Equal(t, want, s)
	require.LessOrEqual(t, calls, n*21/10)
}

// TestDropMergeIsStableOrChangesNothing for any few outliers among equal and unequal elements.
func TestDropMergeIsStableOrChangesNothing(t *testing.T) {
	merged := 0
	for range testutil.Stress(20_000) {
		n, step := 1+rand.IntN(300), 1+rand.IntN(4)
		keys := keysFrom(n, func(i int) int { return i / step })
		for range rand.IntN(n/16 + 4) {
			for i, k := rand.IntN(n), rand.IntN(n)/step; i < n && rand.IntN(3) > 0; i++ { // some are neighbours
				keys[i] = k
			}
		}
		all := make([]int64, n)
		for i, k := range keys {
			all[i] = int64(k)
		}
		s, want := records(all), records(all)
		if dropMerge(s, byKey, never) {
			merged++
			slices.SortStableFunc(want, byKey)
		}
		requireEqual(t, want, s, keys)
	}
	require.NotZero(t, merged)
}

func TestFewStringsThatLookAlikeAreSorted(t *testing.T) {
	p := pools.New(t)
	for _, values := range [][]string{
		{"beginning-C-the-end", "beginning-A-the-end", "beginning-B-the-end"}, // of equal length, and their first and last 8 bytes are equal
		{"12345678", "1234567", "12345670", "1234", "123", "12", "1", ""},
		{"\x00", "\x00\x00", "\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00", ""},
	} {
		s := make([]string, 10*shortNumbers)
		for i := range s {
			s[i] = values[i%len(values)]
		}
		keys, want := slices.Clone(s), slices.Sorted(slices.Values(s))
		by := seq(0, len(s))
		require.NoError(t, Sort(p, s))
		require.Equal(t, want, s)
		require.NoError(t, SortBy(p, by, func(i int) string { return keys[i] }))
		require.True(t, slices.IsSortedFunc(by, func(i, j int) int { return cmp.Or(cmp.Compare(keys[i], keys[j]), i-j) }))
	}
}
