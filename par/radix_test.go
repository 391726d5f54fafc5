package par

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// skewed are spreads of n numbers that make buckets of very different lengths.
func skewed(n int) map[string][]int64 {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	shapes := map[string]func(i int) int64{
		"narrow":          func(int) int64 { return r.Int64N(2000) - 1000 },
		"signs":           func(int) int64 { return r.Int64N(2) - 1 },
		"extremes":        func(int) int64 { return []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}[r.IntN(5)] },
		"exponential":     func(int) int64 { return int64(math.Exp(r.Float64() * 43)) },
		"powers":          func(int) int64 { return 1 << r.IntN(64) },
		"low bits":        func(i int) int64 { return int64(r.IntN(2) * (i & 0xff)) },
		"outlier":         func(i int) int64 { return r.Int64N(1<<20) + int64(i/(n-1))<<60 },
		"outlier at once": func(i int) int64 { return 1<<62 - int64(i/(n-1)) },
		"clusters":        func(int) int64 { return r.Int64N(3)<<60 + r.Int64N(3)<<30 + r.Int64N(3) },
		"squares":         func(i int) int64 { return int64(i) * int64(i) % int64(n) },
		"one bucket":      func(int) int64 { return int64(r.Uint32()) },
	}
	made := shaped(n, shapes)
	made["one bucket"][0] = math.MinInt64
	return made
}

// radixLens are lengths around the boundaries in the radix sorts.
func radixLens() []int {
	if testutil.Short() {
		return []int{serialSort, radixLeaf, radixLeaf + 1, 2 * partLen}
	}
	return []int{serialSort, 300, radixLeaf - 1, radixLeaf, radixLeaf + 1,
		2*partLen - 1, 2 * partLen, 2*partLen + 1, 9*partLen + 1, 1 << 18}
}

func TestSortIsRightForEverySpread(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for _, n := range radixLens() {
		for shape, s := range skewed(n) {
			want := slices.Clone(s)
			slices.Sort(want)
			requireEqual(t, want, sortedOrdered(t, p, s), shape)

			floats := make([]float64, n)
			for i, e := range s {
				floats[i] = math.Float64frombits(uint64(e))
			}
			wanted := slices.Clone(floats)
			slices.Sort(wanted)
			for i, got := range sortedOrdered(t, p, floats) {
				require.True(t, got == wanted[i] || got != got && wanted[i] != wanted[i], "%s: element %d", shape, i)
			}
		}
	}
}

func TestSortIsRightForMillions(t *testing.T) {
	if testutil.Short() {
		t.Skip()
	}
	p := pools.New(t)
	s := make([]int64, 10_000_000)
	for i := range s {
		s[i] = int64(rand.Uint64() >> rand.IntN(64))
	}
	want := slices.Clone(s)
	slices.Sort(want)
	requireEqual(t, want, sortedOrdered(t, p, s))
}

// TestCodingKeepsBitsAndOrder: all kinds of floats have one code each, in their order.
func TestCodingKeepsBitsAndOrder(t *testing.T) {
	sorted := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 1, math.MaxFloat64, math.Inf(1)}
	c := codingOf(reflect.Float64, 8)
	last := uint64(0)
	for _, bits := range []uint64{1<<64 - 1, 0xfff0_0000_0000_0001, 0x7ff8_0000_0000_0001, 0x7ff0_0000_0000_0001, 1<<63 - 1} {
		code := c.encode(bits)
		require.Equal(t, bits, c.decode(code))
		require.Less(t, code, c.encode(math.Float64bits(sorted[0])), "a NaN")
	}
	for _, f := range sorted {
		code := c.encode(math.Float64bits(f))
		require.Greater(t, code, last, "%v", f)
		require.Equal(t, math.Float64bits(f), c.decode(code))
		last = code
	}
	require.Less(t, c.encode(1<<63), c.encode(0), "zeros")
}

func TestSortByThatEndsEarlyLeavesTheElements(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		keys := inputs(5 * radixLeaf)["random"]
		sorted := slices.Sorted(slices.Values(keys))
		for range testutil.Stress(20) {
			s := slices.Clone(keys)
			var calls atomic.Int64
			k := rand.Int64N(int64(len(s)))
			func() {
				defer func() {
					err, _ := recover().(error)
					require.ErrorIs(t, err, boom)
				}()
				_ = SortBy(p, s, func(e int64) int64 {
					if calls.Add(1) == k+1 {
						panic(boom)
					}
					return e
				})
			}()
			requireEqual(t, keys, s, "a panic")

			calls.Store(0)
			ctx, cancel := context.WithCancel(t.Context())
			err := SortBy(p.With(ctx), s, func(e int64) int64 {
				if calls.Add(1) == k+1 {
					cancel()
				}
				return e
			})
			cancel()
			if err == nil { // it was too late
				require.True(t, slices.IsSorted(s))
			} else {
				require.ErrorIs(t, err, context.Canceled)
				slices.Sort(s)
				requireEqual(t, sorted, s, "a cancelled context")
			}
		}
	})
}

// TestSortByWithInconsistentKeys: an element has one key, whatever the function says later.
func TestSortByWithInconsistentKeys(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for _, n := range radixLens() {
		keys := inputs(n)["random"]
		s := records(keys)
		require.NoError(t, SortBy(p, s, func(record) int { return rand.Int() }))
		requirePermutation(t, keys, s)
	}
}

// TestRadixSortThatIsCancelledKeepsAPermutation cancels at any time, in sorts whose buckets are
// sorted in several levels.
func TestRadixSortThatIsCancelledKeepsAPermutation(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		ints := skewed(4 * partLen)["exponential"]
		want := slices.Clone(ints)
		slices.Sort(want)
		for range testutil.Stress(40) {
			s := slices.Clone(ints)
			c := new(atomic.Bool)
			delay := rand.IntN(1_000_000)
			started := make(chan struct{})
			wait := testutil.Together(1, func(int) {
				<-started
				for range delay {
					if c.Load() {
						break
					}
				}
				c.Store(true)
			})
			require.NoError(t, p.Run(func(w *pool.Worker) {
				close(started)
				sortOrdered(w, s, c.Load)
			}))
			wait()
			slices.Sort(s)
			requireEqual(t, want, s)
		}
	})
}

func TestSortDoesNotDependOnTheWorkersWithKeys(t *testing.T) {
	keys := skewed(3*partLen + 1)["clusters"]
	var first []record
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		s := records(keys)
		require.NoError(t, SortBy(p, s, func(r record) float32 { return math.Float32frombits(r.key) }))
		if first == nil {
			first = s
		}
		requireEqual(t, first, s)
	})
}

func TestSortWhileTheCollectorRuns(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	p := pools.New(t, pool.WithWorkers(4))
	for range testutil.Stress(5) {
		type element struct{ text *string }
		s := make([]element, 2*partLen)
		texts := make([]string, len(s))
		for i := range s {
			texts[i] = strings.Repeat("x", rand.IntN(20)) + string(rune('a'+rand.IntN(26)))
			text := strings.Clone(texts[i])
			s[i] = element{&text}
		}
		require.NoError(t, SortBy(p, s, func(e element) string { return *e.text }))
		slices.Sort(texts)
		for i := range s {
			require.Equal(t, texts[i], *s[i].text)
		}
		require.NoError(t, SortBy(p, s, func(e element) int { return -len(*e.text) }))
		slices.SortStableFunc(texts, func(a, b string) int { return len(b) - len(a) })
		for i := range s {
			require.Equal(t, texts[i], *s[i].text)
		}
	}
}

// stringShapes are strings that have much in common.
func stringShapes(n int) map[string][]string {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	long := strings.Repeat("long ", 50)
	shapes := map[string]func(i int) string{
		"one":       func(int) string { return "one" },
		"empty":     func(i int) string { return long[:i%2] },
		"zeros":     func(int) string { return strings.Repeat("\x00", r.IntN(20)) },
		"chain":     func(i int) string { return long[:i%len(long)] },
		"tails":     func(int) string { return long + string(rune('a'+r.IntN(26))) },
		"two long":  func(i int) string { return long[:100] + string(rune('a'+i%2)) + long + string(rune('a'+r.IntN(26))) },
		"bytes":     func(int) string { return string(binary.LittleEndian.AppendUint64(nil, r.Uint64()))[:r.IntN(9)] },
		"0xff":      func(int) string { return strings.Repeat("\xff", r.IntN(10)) },
		"outlier":   func(i int) string { return long[i/(n-1):] },
		"bits":      func(int) string { return strings.Map(func(c rune) rune { return c ^ rune(r.IntN(2)) }, long[:20]) },
		"backwards": func(i int) string { return long[:len(long)-i%len(long)] },
	}
	return shaped(n, shapes)
}

func TestSortIsRightForStringsWithMuchInCommon(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for _, n := range radixLens() {
		for shape, s := range stringShapes(n) {
			want := slices.Clone(s)
			slices.Sort(want)
			requireEqual(t, want, sortedOrdered(t, p, s), shape)

			keys := make([]record, n)
			for i := range keys {
				keys[i].index = uint32(i)
			}
			stable := slices.Clone(keys)
			slices.SortStableFunc(stable, func(a, b record) int { return cmp.Compare(s[a.index], s[b.index]) })
			require.NoError(t, SortBy(p, keys, func(r record) string { return s[r.index] }))
			requireEqual(t, stable, keys, shape)
		}
	}
}

func TestCommonLen(t *testing.T) {
	for n := range 40 {
		for m := range n + 1 {
			a := strings.Repeat("x", n)
			b := a[:m] + "y" + a
			require.Equal(t, m, commonLen(a, b))
			require.Equal(t, m, commonLen(b, a))
			require.Equal(t, m, commonLen(a, a[:m]))
		}
	}
}

func fuzzSort[E cmp.Ordered](f *testing.F, of func(b []byte) E) {
	f.Add([]byte("a few bytes, of which the slices are made"), uint16(300))
	f.Add([]byte("\xff\xf0\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff\xff\xff\xff\xff\x80"), uint16(9000))
	p := pools.New(f, pool.WithWorkers(2))
	f.Fuzz(func(t *testing.T, data []byte, n uint16) {
		if len(data) < 9 {
			return
		}
		s := make([]E, n)
		for i := range s {
			at := i * 5 % (len(data) - 8)
			s[i] = of(data[at : at+8+i%2])
		}
		want, index := slices.Clone(s), make([]int, n)
		for i := range index {
			index[i] = i
		}
		stable := slices.Clone(index)
		slices.Sort(want)
		slices.SortStableFunc(stable, func(a, b int) int { return cmp.Compare(s[a], s[b]) })
		require.NoError(t, SortBy(p, index, func(i int) E { return s[i] }))
		requireEqual(t, stable, index)
		for i, e := range sortedOrdered(t, p, s) {
			require.Zero(t, cmp.Compare(want[i], e), "element %d", i)
		}
	})
}

func FuzzSortInts(f *testing.F) {
	fuzzSort(f, func(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) })
}

func FuzzSortFloats(f *testing.F) {
	fuzzSort(f, func(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) })
}

func FuzzSortStrings(f *testing.F) {
	fuzzSort(f, func(b []byte) string { return string(b) })
}
