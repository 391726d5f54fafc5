package par

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// record is what the sorts with a comparator are tested with: sorted by key, it
// remembers where it was.
type record struct{ key, index uint32 }

func byKey(a, b record) int { return cmp.Compare(a.key, b.key) }

// inputs are the shapes of n numbers that sorts treat differently.
func inputs(n int) map[string][]int64 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	shapes := map[string]func(i int) int64{
		"random":     func(int) int64 { return int64(r.Uint64()) },
		"sorted":     func(i int) int64 { return int64(i) },
		"reversed":   func(i int) int64 { return int64(n - i) },
		"few":        func(int) int64 { return r.Int64N(16) },
		"constant":   func(int) int64 { return 7 },
		"sawtooth":   func(i int) int64 { return int64(i % 1000) },
		"teeth":      func(i int) int64 { return int64(-i % 10) },
		"organ pipe": func(i int) int64 { return int64(min(i, n-i)) },
		"valley":     func(i int) int64 { return int64(max(i, n-i)) },
		"stairs":     func(i int) int64 { return int64(i / 100) },
		"downstairs": func(i int) int64 { return int64(-i / 100) },
		"halves":     func(i int) int64 { return int64((i + n/2) % n) },
		"nearly": func(i int) int64 {
			if r.IntN(100) == 0 {
				return r.Int64N(int64(n))
			}
			return int64(i)
		},
	}
	return shaped(n, shapes)
}

// shaped returns n elements of each shape.
func shaped[E any](n int, shapes map[string]func(i int) E) map[string][]E {
	made := make(map[string][]E)
	for name, f := range shapes {
		made[name] = make([]E, n)
		for i := range n {
			made[name][i] = f(i)
		}
	}
	return made
}

// sortLens are lengths at and around every boundary in the sorts, and some beyond.
func sortLens() []int {
	lens := []int{serialSort - 1, serialSort, serialSort + 1, leafLen - 1, leafLen, leafLen + 1,
		2 * leafLen, 2*leafLen + 1, mergeLen - 1, mergeLen, mergeLen + 1, 3*mergeLen + 17}
	if !testutil.Short() {
		lens = append(lens, 100_000, 1<<17, 1<<17+1)
	}
	return lens
}

func records(keys []int64) []record {
	s := make([]record, len(keys))
	for i, k := range keys {
		s[i] = record{uint32(k), uint32(i)}
	}
	return s
}

// sortedOrdered returns a copy of s, sorted in the pool.
func sortedOrdered[E cmp.Ordered](t testing.TB, p *pool.Pool, s []E) []E {
	t.Helper()
	s = slices.Clone(s)
	sorted := false
	require.NoError(t, p.Run(func(w *pool.Worker) { sorted = sortOrdered(w, s, never) }))
	require.True(t, sorted)
	return s
}

// sortedStable is sortedOrdered with a comparator.
func sortedStable[E any](t testing.TB, p *pool.Pool, s []E, compare func(a, b E) int) []E {
	t.Helper()
	s = slices.Clone(s)
	sorted := false
	require.NoError(t, p.Run(func(w *pool.Worker) { sorted = sortStableFunc(w, s, compare, never) }))
	require.True(t, sorted)
	return s
}

// requireEqual is require.Equal for slices that are too long to print.
func requireEqual[E comparable](t testing.TB, want, got []E, what ...any) {
	t.Helper()
	require.Len(t, got, len(want), what...)
	for i := range want {
		if want[i] != got[i] {
			require.Equal(t, want[i], got[i], append([]any{"element %d of %d", i, len(want)}, what...)...)
		}
	}
}

// requirePermutation checks that each record is there once.
func requirePermutation(t testing.TB, keys []int64, s []record) {
	t.Helper()
	require.Len(t, s, len(keys))
	seen := make([]bool, len(keys))
	for _, r := range s {
		if seen[r.index] || r.key != uint32(keys[r.index]) {
			require.Fail(t, "not a permutation", "record %d", r.index)
		}
		seen[r.index] = true
	}
}

func TestSortIsRightForEveryLength(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	lens := sortLens()
	for n := range 301 {
		lens = append(lens, n)
	}
	for _, n := range lens {
		s := make([]int64, n)
		for i := range s {
			s[i] = rand.Int64N(int64(n) + 1)
		}
		want := slices.Clone(s)
		slices.Sort(want)
		requireEqual(t, want, sortedOrdered(t, p, s))

		stable := records(s)
		slices.SortStableFunc(stable, byKey)
		requireEqual(t, stable, sortedStable(t, p, records(s), byKey))
	}
}

func TestSortIsRightForEveryShape(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for _, n := range sortLens() {
		for shape, s := range inputs(n) {
			want := slices.Clone(s)
			slices.Sort(want)
			requireEqual(t, want, sortedOrdered(t, p, s), shape)

			stable := records(s)
			slices.SortStableFunc(stable, byKey)
			requireEqual(t, stable, sortedStable(t, p, records(s), byKey), shape)
		}
	}
}

// TestSortDoesNotDependOnTheWorkers: not even where the order is unspecified.
func TestSortDoesNotDependOnTheWorkers(t *testing.T) {
	n := 3*mergeLen + 17
	s := make([]float64, n)
	for i := range s {
		switch rand.IntN(3) {
		case 0:
			s[i] = math.Float64frombits(0x7ff8_0000_0000_0000 | rand.Uint64N(1000))
		case 1:
			s[i] = math.Copysign(0, rand.Float64()-0.5)
		default:
			s[i] = rand.NormFloat64()
		}
	}
	var first []uint64
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		var bits []uint64
		for _, f := range sortedOrdered(t, p, s) {
			bits = append(bits, math.Float64bits(f))
		}
		if first == nil {
			first = bits
		}
		requireEqual(t, first, bits)
	})
}

// TestSortSurvivesTheft has everything stolen that can be, on any number of CPUs: the comparator
// yields now and then.
func TestSortSurvivesTheft(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for range testutil.Stress(5) {
			keys := inputs(5 * mergeLen)["few"]
			var calls atomic.Int64
			got := sortedStable(t, p, records(keys), func(a, b record) int {
				if calls.Add(1)%1000 == 0 {
					runtime.Gosched()
				}
				return byKey(a, b)
			})
			want := records(keys)
			slices.SortStableFunc(want, byKey)
			requireEqual(t, want, got)

			ints := inputs(20 * mergeLen)["random"]
			wantInts := slices.Clone(ints)
			slices.Sort(wantInts)
			requireEqual(t, wantInts, sortedOrdered(t, p, ints))
		}
	})
}

func TestSortWithAnInconsistentComparatorKeepsAPermutation(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	comparators := map[string]func(a, b record) int{
		"random":      func(record, record) int { return rand.IntN(3) - 1 },
		"mostly less": func(record, record) int { return rand.IntN(1000) - 999 },
		"less":        func(record, record) int { return -1 },
		"greater":     func(record, record) int { return 1 },
		"circular":    func(a, b record) int { return int((a.key+3-b.key)%3) - 1 },
		"lies": func(a, b record) int {
			if rand.IntN(100) == 0 {
				return byKey(b, a)
			}
			return byKey(a, b)
		},
	}
	for _, n := range sortLens() {
		keys := inputs(n)["random"]
		for name, compare := range comparators {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				requirePermutation(t, keys, sortedStable(t, p, records(keys), compare))
			})
		}
	}
}

// stops returns after how many comparisons to stop a sort of n elements: everywhere from the first
// leaf to the last merge.
func stops(n int) []int64 {
	all := int64(float64(n) * math.Log2(float64(n)))
	list := []int64{1, 2, int64(n) / 2, int64(n)}
	for range testutil.Stress(40) {
		list = append(list, rand.Int64N(all), all-rand.Int64N(all/3))
	}
	return list
}

func TestSortOfAPanickingComparatorKeepsAPermutation(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		n := 3*mergeLen + 17
		for shape, keys := range inputs(n) {
			if shape != "random" && shape != "few" && shape != "organ pipe" {
				continue
			}
			for _, k := range stops(n) {
				s := records(keys)
				var calls, late atomic.Int64
				var recovered any
				require.NoError(t, p.Run(func(w *pool.Worker) {
					defer func() {
						recovered = recover()
						late.Store(calls.Load())
					}()
					sortStableFunc(w, s, func(a, b record) int {
						if calls.Add(1) == k {
							panic(boom)
						}
						return byKey(a, b)
					}, never)
				}))
				require.Equal(t, late.Load(), calls.Load(), "comparisons after the sort")
				if calls.Load() < k {
					require.Nil(t, recovered)
					require.True(t, slices.IsSortedFunc(s, byKey))
				} else {
					err, ok := recovered.(error)
					require.True(t, ok, "%v", recovered)
					require.ErrorIs(t, err, boom)
				}
				requirePermutation(t, keys, s)
			}
		}
	})
}

func TestSortOfAnAlwaysPanickingComparatorKeepsAPermutation(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for range testutil.Stress(100) {
		keys := inputs(3*mergeLen + 17)["random"]
		s := records(keys)
		var calls atomic.Int64
		k := rand.Int64N(int64(len(keys)) * 10)
		require.NoError(t, p.Run(func(w *pool.Worker) {
			defer func() { require.NotNil(t, recover()) }()
			sortStableFunc(w, s, func(a, b record) int {
				if calls.Add(1) > k {
					panic("boom")
				}
				return byKey(a, b)
			}, never)
		}))
		requirePermutation(t, keys, s)
	}
}

func TestSortThatIsCancelledKeepsAPermutation(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		n := 3*mergeLen + 17
		keys := inputs(n)["random"]
		for _, k := range stops(n) {
			s := records(keys)
			c := new(atomic.Bool)
			var calls atomic.Int64
			sorted := false
			require.NoError(t, p.Run(func(w *pool.Worker) {
				sorted = sortStableFunc(w, s, func(a, b record) int {
					if calls.Add(1) == k {
						c.Store(true)
					}
					return byKey(a, b)
				}, c.Load)
			}))
			require.True(t, sorted || calls.Load() >= k)
			require.True(t, !sorted || slices.IsSortedFunc(s, byKey), "a step was left out")
			requirePermutation(t, keys, s)
		}
	})
}

// TestOrderedSortThatIsCancelledKeepsAPermutation cancels from outside, at
// any time.
func TestOrderedSortThatIsCancelledKeepsAPermutation(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	s := make([]float64, 20*mergeLen)
	for i := range s {
		s[i] = rand.NormFloat64()
	}
	want := slices.Clone(s)
	slices.Sort(want)
	for range testutil.Stress(200) {
		s := slices.Clone(s)
		c := new(atomic.Bool)
		delay := rand.IntN(200_000)
		wait := testutil.Together(1, func(int) {
			for range delay {
				runtime.KeepAlive(c)
			}
			c.Store(true)
		})
		sorted := false
		require.NoError(t, p.Run(func(w *pool.Worker) { sorted = sortOrdered(w, s, c.Load) }))
		wait()
		if !sorted {
			slices.Sort(s)
		}
		requireEqual(t, want, s)
	}
}

// TestSortIsNotUnwoundByItsJoins: a worker whose call was cancelled unwinds when it
// forks, but not in the middle of a merge.
func TestSortIsNotUnwoundByItsJoins(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		keys := inputs(3*mergeLen + 17)["random"]
		for _, k := range stops(len(keys)) {
			s := records(keys)
			ctx, cancel := context.WithCancel(t.Context())
			var calls atomic.Int64
			err := SortFunc(p.With(ctx), s, func(a, b record) int {
				if calls.Add(1) == k {
					cancel()
				}
				return byKey(a, b)
			})
			cancel()
			if err == nil {
				require.True(t, slices.IsSortedFunc(s, byKey))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			requirePermutation(t, keys, s)
		}
	})
}

func TestSortThatIsCancelledBeforeDoesNothing(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	c := new(atomic.Bool)
	c.Store(true)
	for _, n := range []int{0, 1, 10, 10 * leafLen} {
		keys := inputs(n)["random"]
		s, r := slices.Clone(keys), records(keys)
		require.NoError(t, p.Run(func(w *pool.Worker) {
			require.False(t, sortOrdered(w, s, c.Load))
			require.False(t, sortStableFunc(w, r, byKey, c.Load))
		}))
		requireEqual(t, keys, s)
		requireEqual(t, records(keys), r)
	}
}

func TestSortKeepsNothingAlive(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	type big struct {
		key uint32
		_   [100]byte // so that each has its own memory, unlike a record
	}
	s := make([]*big, 4*mergeLen)
	for i := range s {
		s[i] = &big{key: rand.Uint32()}
	}
	first := weak.Make(s[0])
	require.NoError(t, p.Run(func(w *pool.Worker) {
		sortStableFunc(w, s, func(a, b *big) int { return cmp.Compare(a.key, b.key) }, never)
	}))
	clear(s)
	require.True(t, testutil.Eventually(func() bool {
		runtime.GC()
		return first.Value() == nil
	}))
	runtime.KeepAlive(s)
}

func TestSortAllocatesOneBuffer(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	keys := inputs(8 * mergeLen)["random"]
	all := records(keys)
	s, r := make([]int64, len(keys)), make([]record, len(keys))
	require.NoError(t, p.Run(func(w *pool.Worker) {
		ints := func(n int) func() {
			return func() {
				copy(s, keys)
				sortOrdered(w, s[:n], never)
			}
		}
		stable := func(n int) func() {
			return func() {
				copy(r, all)
				sortStableFunc(w, r[:n], byKey, never)
			}
		}
		require.Zero(t, allocations(ints(serialSort-1)))
		require.LessOrEqual(t, allocations(stable(serialSort-1)), uint64(4))
		for _, f := range []func(n int) func(){ints, stable} {
			one := allocations(f(serialSort))
			require.LessOrEqual(t, one, uint64(12))
			require.LessOrEqual(t, allocations(f(len(keys))), one+30, "a leaf or a merge allocates")
		}
	}))
}

// TestASortOfOrderNeedsNoMemory, nor does one with an outlier; one of two runs needs no more than a buffer.
func TestASortOfOrderNeedsNoMemory(t *testing.T) {
	p := pools.New(t)
	const n = 1 << 16
	up, down, r := make([]record, n), make([]record, n), make([]record, n)
	for i := range n {
		up[i].key, down[n-1-i].key = uint32(i), uint32(i)
	}
	buffer := uint64(n * unsafe.Sizeof(up[0]))
	for name, c := range map[string]struct {
		input []record
		most  uint64
	}{
		"ascends":  {up, buffer / 8},
		"descends": {down, buffer / 8},
		"pipe":     {slices.Concat(up[:n/2], down[n/2:]), buffer + buffer/8},
		"files":    {slices.Concat(up[n/2:], up[:n/2]), buffer + buffer/8},
		"outlier":  {slices.Concat(up[:n/3], down[n-1:], up[n/3:n-1]), buffer / 8},
	} {
		for form, sort := range map[string]func() error{
			"SortBy":   func() error { return SortBy(p, r, func(r record) uint32 { return r.key }) },
			"SortFunc": func() error { return SortFunc(p, r, byKey) },
		} {
			if form == "SortFunc" && name == "outlier" {
				continue // its workers look for outliers in parts, which are merged
			}
			least := uint64(math.MaxUint64)
			for range 10 {
				var before, after runtime.MemStats
				copy(r, c.input)
				runtime.ReadMemStats(&before)
				require.NoError(t, sort())
				runtime.ReadMemStats(&after)
				least = min(least, after.TotalAlloc-before.TotalAlloc)
			}
			require.LessOrEqual(t, least, c.most, "%s %s", form, name)
			require.True(t, slices.IsSortedFunc(r, byKey))
		}
	}
}

// allocations returns how often f allocates, when nothing else in the process does.
func allocations(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return least
}

func BenchmarkSort(b *testing.B) {
	p := pools.New(b)
	for _, n := range []int{1 << 10, 1 << 16, 1 << 20} {
		ints := inputs(n)["random"]
		texts := make([]string, n)
		for i, e := range ints {
			texts[i] = strconv.FormatInt(e, 10)
		}
		recs := records(ints)
		benchmarkSort(b, p, "int64", ints, func(w *pool.Worker, s []int64) { sortOrdered(w, s, never) }, slices.Sort[[]int64])
		benchmarkSort(b, p, "string", texts, func(w *pool.Worker, s []string) { sortOrdered(w, s, never) }, slices.Sort[[]string])
		ours := func(w *pool.Worker, s []record) { sortStableFunc(w, s, byKey, never) }
		benchmarkSort(b, p, "by", recs, func(w *pool.Worker, s []record) {
			sortBy(w, s, func(r record) uint32 { return r.key }, never)
		}, func(s []record) { slices.SortFunc(s, byKey) })
		benchmarkSort(b, p, "func", recs, ours, func(s []record) { slices.SortFunc(s, byKey) })
		benchmarkSort(b, p, "stable", recs, ours, func(s []record) { slices.SortStableFunc(s, byKey) })
	}
}

func benchmarkSort[E any](b *testing.B, p *pool.Pool, name string, input []E, ours func(*pool.Worker, []E), theirs func([]E)) {
	s := make([]E, len(input))
	run := func(who string, sort func([]E)) {
		b.Run(fmt.Sprintf("%s/%d/%s", name, len(input), who), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				copy(s, input)
				b.StartTimer()
				sort(s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s)), "ns/elem")
		})
	}
	run("heist", func(s []E) { _ = p.Run(func(w *pool.Worker) { ours(w, s) }) })
	run("slices", theirs)
}

func TestAPanicInASortArrivesTheSameWayWhoeverCompares(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for _, n := range []int{2, serialSort - 1, serialSort, 100_000} {
		for _, at := range []int{1, n - 1} {
			s := make([]int, n)
			var compared atomic.Int64
			e, ok := testutil.Caught(func() {
				_ = SortFunc(p, s, func(a, b int) int {
					if compared.Add(1) == int64(at) {
						panic(io.EOF)
					}
					return 0
				})
			}).(*pool.PanicError)
			require.True(t, ok)
			require.ErrorIs(t, e, io.EOF)
			e, ok = testutil.Caught(func() { _ = SortBy(p, s, func(int) int { panic(io.EOF) }) }).(*pool.PanicError)
			require.True(t, ok)
			require.ErrorIs(t, e, io.EOF)
		}
	}
}

func TestASortedSliceIsGarbageWhenNobodyWantsIt(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for name, sort := range map[string]func(s []int) error{
		"Sort":     func(s []int) error { return Sort(p, s) },
		"SortFunc": func(s []int) error { return SortFunc(p, s, func(a, b int) int { return a - b }) },
	} {
		t.Run(name, func(t *testing.T) {
			sorted := func() weak.Pointer[int] {
				s := rand.Perm(4 * mergeLen)
				require.NoError(t, sort(s))
				return weak.Make(&s[0])
			}()
			require.True(t, testutil.Eventually(func() bool { runtime.GC(); return sorted.Value() == nil }))
		})
	}
}

func TestSortsOfAnyLengthAreStable(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	type record struct{ key, place int }
	shapes := map[string]func(i, n int) int{
		"few keys":             func(i, _ int) int { return i * 7919 % 5 },
		"descending with ties": func(i, n int) int { return (n - i) / 3 },
		"ascending with ties":  func(i, _ int) int { return i / 3 },
		"all the same":         func(int, int) int { return 0 },
	}
	for shape, key := range shapes {
		for _, n := range append(seq(2, 300), 1000, 5*leafLen) {
			s := make([]record, n)
			for i := range s {
				s[i] = record{key(i, n), i}
			}
			want := slices.Clone(s)
			byKey := func(a, b record) int { return a.key - b.key }
			slices.SortStableFunc(want, byKey)
			require.NoError(t, SortFunc(p, s, byKey))
			require.Equal(t, want, s, "%s, %d elements", shape, n)
		}
	}
}

func seq(lo, hi int) (s []int) {
	for i := lo; i < hi; i++ {
		s = append(s, i)
	}
	return s
}

// TestSortStopsSoonAfterAPanic: the other workers check between two leaves whether the sort was
// stopped.
func TestSortStopsSoonAfterAPanic(t *testing.T) {
	const leaves = 64
	p := pools.New(t, pool.WithWorkers(2))
	for range testutil.Stress(10) {
		s := rand.Perm(leaves * leafLen)
		var calls atomic.Int64
		var m meet
		require.NotNil(t, testutil.Caught(func() {
			_ = SortFunc(p, s, func(a, b int) int {
				m.here() // until there are two workers
				switch n := calls.Add(1); {
				case n == 4*leafLen:
					panic(io.EOF)
				case n > 4*leafLen && n%100 == 0: // the worker that panics may not have a CPU
					time.Sleep(time.Microsecond)
				}
				return a - b
			})
		}))
		require.Less(t, calls.Load(), int64(leaves*leafLen*4), "it is less than a third of what all take")
	}
}

// TestAPanicInASearchKeepsAPermutation: one of two pieces of a merge may have been written when the
// search for the place to cut the other panics.
func TestAPanicInASearchKeepsAPermutation(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	const n = 8 * mergeLen
	keys := inputs(n)["random"]
	slices.Sort(keys[:n/2])
	slices.Sort(keys[n/2:])
	var pcs [6]uintptr
	searches := func() bool {
		frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
		for frame, more := frames.Next(); more; frame, more = frames.Next() {
			if strings.HasSuffix(frame.Function, ".before") {
				return true
			}
		}
		return false
	}
	// merge panics at comparison number at of the searches, and returns how many there were.
	merge := func(s []record, at int) (found int) {
		e := newComparables(s, func(a, b record) int {
			if searches() {
				if found++; found == at {
					panic(io.EOF)
				}
			}
			return byKey(a, b)
		}, never)
		e.sides[inBuffer] = slices.Clone(s)
		require.NoError(t, p.Run(func(w *pool.Worker) {
			mergeFork(w, part{sorting: &e.sorting, a: extent{0, n / 2}, b: extent{n / 2, n}, to: inSlice})
		}))
		return found
	}
	all := merge(records(keys), -1)
	for i := range 5 {
		s := records(keys)
		merge(s, all-i*all/6)
		requirePermutation(t, keys, s)
	}
}
