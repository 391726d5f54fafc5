package par

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// algoLens are lengths around the borders of blocks.
func algoLens() []int {
	lens := []int{0, 1, 2, 3, 7, 8, 9, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 8191, 8192, 8193, 20_000}
	switch {
	case testutil.UnderRace && testutil.Short(): // 8193 elements are divided among workers already
		return lens[:len(lens)-1]
	case !testutil.Short():
		return append(lens, 100_003, 1<<18)
	}
	return lens
}

func count(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestMapKeepsTheOrder(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens() {
			if n > 100_003 {
				continue
			}
			in, want := count(n), make([]string, n)
			for i := range want {
				want[i] = strconv.Itoa(i)
			}
			for name, g := range granularities() {
				out, err := Map(p, in, strconv.Itoa, g...)
				require.NoError(t, err)
				requireEqual(t, want, out, name)
			}
		}
	})
}

func TestMapToInPlace(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	s := count(10_000)
	require.NoError(t, MapTo(p, s, s, func(n int) int { work(10); return 3 * n }))
	for i, n := range s {
		require.Equal(t, 3*i, n)
	}
}

func TestAlgosRefuseWhatTheyCannotDo(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	s := []int{1, 2, 3}
	add := func(a, b int) int { t.Error("called"); return a + b }
	isOne := func(int) bool { t.Error("called"); return true }
	same := func(a int) int { t.Error("called"); return a }
	require.EqualError(t, MapTo(p, make([]int, 2), s, same), "par: MapTo was given 2 results and 3 elements; there must be as many")
	require.EqualError(t, Scan(p, make([]int, 2), s, add), "par: Scan was given 2 results and 3 elements; there must be as many")
	require.EqualError(t, Scan(p, nil, s, add), "par: Scan was given 0 results and 3 elements; there must be as many")
	require.EqualError(t, MapTo[int, int](p, s, s, nil), "par: Map or MapTo was given a nil function")
	require.EqualError(t, Scan(p, s, s, nil), "par: Scan was given a nil function")
	_, err := Map[int, int](p, s, nil)
	require.EqualError(t, err, "par: Map or MapTo was given a nil function")
	_, err = Reduce(p, s, nought, nil, add)
	require.EqualError(t, err, "par: Reduce was given a nil function")
	_, err = Reduce(p, s, nought, add, nil)
	require.EqualError(t, err, "par: Reduce was given a nil function")
	_, err = Filter(p, s, nil)
	require.EqualError(t, err, "par: Filter was given a nil function")
	_, err = Find(p, s, nil)
	require.EqualError(t, err, "par: Find was given a nil function")
	require.EqualError(t, ForSeq(p, slices.Values(s), nil), "par: ForSeq was given a nil function")
	_, err = MapSeq[int, int](p, slices.Values(s), nil)
	require.EqualError(t, err, "par: MapSeq was given a nil function")
	_, _, err = MinMax[int](p, nil)
	require.ErrorIs(t, err, ErrEmpty)

	shut, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, shut.Close())
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(errStolen)
	for want, at := range map[error]pool.Place{pool.Do(nil): nil, pool.ErrClosed: shut, errStolen: p.With(cancelled)} {
		for _, s := range [][]int{nil, s, count(20_000)} {
			out, err := Map(at, s, same)
			require.ErrorIs(t, err, want)
			require.Nil(t, out)
			require.ErrorIs(t, MapTo(at, slices.Clone(s), s, same), want)
			_, err = Reduce(at, s, nought, add, add)
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, Scan(at, slices.Clone(s), s, add), want)
			out, err = Filter(at, s, isOne)
			require.ErrorIs(t, err, want)
			require.Nil(t, out)
			i, err := Find(at, s, isOne)
			require.ErrorIs(t, err, want)
			require.Equal(t, -1, i)
			_, _, err = MinMax(at, s)
			require.ErrorIs(t, err, want)
			_, err = MinFunc(at, s, cmp.Compare[int])
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, ForSeq(at, slices.Values(s), func(int) { t.Error("called") }), want)
			out, err = MapSeq(at, slices.Values(s), same)
			require.ErrorIs(t, err, want)
			require.Nil(t, out)
		}
	}
}

// TestNilSequenceIsRefused is for a former bug: a nil dereference deep inside.
func TestNilSequenceIsRefused(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	var err error
	require.NotPanics(t, func() { err = ForSeq(p, nil, func(int) {}) })
	require.EqualError(t, err, "par: ForSeq or MapSeq was given a nil sequence")
	require.NotPanics(t, func() { _, err = MapSeq(p, nil, func(n int) int { return n }) })
	require.Error(t, err)
}

func nought() int { return 0 }

// TestEachBlockCollectsIntoAMapOfItsOwn: values that are references are shared by no blocks, and not by calls.
func TestEachBlockCollectsIntoAMapOfItsOwn(t *testing.T) {
	type histogram = map[int]int
	zero := func() histogram { return histogram{} }
	add := func(h histogram, i int) histogram { h[i%10]++; return h }
	merge := func(a, b histogram) histogram {
		for k, n := range b {
			a[k] += n
		}
		return a
	}
	collect := func(t *testing.T, at pool.Place) {
		for _, n := range algoLens() {
			s, want := count(n), histogram{}
			for _, i := range s {
				want = add(want, i)
			}
			for range 2 {
				got, err := Reduce(at, s, zero, add, merge)
				require.NoError(t, err)
				require.Equal(t, want, got)
				got, err = ReduceRange(at, n, func(lo, hi int) histogram {
					h := histogram{}
					for _, i := range s[lo:hi] {
						h[i%10]++
					}
					return h
				}, merge)
				require.NoError(t, err)
				require.Equal(t, want, got)
				for _, at := range []pool.Place{at, JoinErrors(at)} {
					got, err = ReduceErr(at, s, zero, func(_ context.Context, h histogram, i int) (histogram, error) { return add(h, i), nil }, merge)
					require.NoError(t, err)
					require.Equal(t, want, got)
					got, err = ReduceErr(at, s, zero, func(context.Context, histogram, int) (histogram, error) { return nil, errStolen }, merge)
					require.Equal(t, n > 0, errors.Is(err, errStolen), "whatever add returns with an error, it is not merged")
					require.Equal(t, n == 0, got != nil)
				}
			}
		}
	}
	forSizes(t, func(t *testing.T, p *pool.Pool) { collect(t, p) })
	collect(t, pool.Serial())
}

// TestFloatsAreRoundedTheSameWay for any number of workers, idle or not.
func TestFloatsAreRoundedTheSameWay(t *testing.T) {
	add := func(a, b float64) float64 { return a + b }
	zero := func() float64 { return 0 }
	forms := map[string]func(at pool.Place, s []float64) ([]float64, error){
		"Sum": func(at pool.Place, s []float64) ([]float64, error) { x, err := Sum(at, s); return []float64{x}, err },
		"Reduce": func(at pool.Place, s []float64) ([]float64, error) {
			x, err := Reduce(at, s, zero, add, add)
			return []float64{x}, err
		},
		"ReduceErr": func(at pool.Place, s []float64) ([]float64, error) {
			x, err := ReduceErr(at, s, zero, func(_ context.Context, a, b float64) (float64, error) { return a + b, nil }, add)
			return []float64{x}, err
		},
		"Sums": func(at pool.Place, s []float64) ([]float64, error) {
			out := make([]float64, len(s))
			return out, Sums(at, out, s)
		},
		"Sums in place": func(at pool.Place, s []float64) ([]float64, error) {
			out := slices.Clone(s)
			return out, Sums(at, out, out)
		},
	}
	var places []*pool.Pool
	for _, workers := range []int{1, 2, 4} {
		places = append(places, pools.New(t, pool.WithWorkers(workers)))
	}
	for _, n := range algoLens() {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		s := make([]float64, n)
		for i := range s { // sums of these depend much on their order
			s[i] = (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(30)))
		}
		for name, form := range forms {
			want, err := form(pool.Serial(), s)
			require.NoError(t, err)
			same := func(at pool.Place) {
				got, err := form(at, s)
				assert.NoError(t, err)
				assert.True(t, slices.Equal(floatBits(want), floatBits(got)), "%s of %d", name, n)
			}
			for _, p := range places {
				for range testutil.Stress(10) {
					requireAtRest(t, p)
					same(p)
					require.NoError(t, pool.ForRange(p, 2*p.Workers(), func(w *pool.Worker, _, _ int) { same(w) }, pool.Grain(1))) // no worker is idle
				}
			}
		}
	}
}

func floatBits(s []float64) []uint64 {
	all := make([]uint64, len(s))
	for i, x := range s {
		all[i] = math.Float64bits(x)
	}
	return all
}

// matrix is one whose products do not commute.
type matrix [4]uint32

var unit = matrix{1, 0, 0, 1}

func (a matrix) times(b matrix) matrix {
	return matrix{a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3], a[2]*b[0] + a[3]*b[2], a[2]*b[1] + a[3]*b[3]}
}

func randomMatrices(n int) []matrix {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	s := make([]matrix, n)
	for i := range s {
		s[i] = matrix{r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()}
	}
	return s
}

func TestReduceKeepsTheOrder(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens() {
			if n <= 8193 {
				got, err := Reduce(p, count(n), func() string { return "" },
					func(s string, i int) string { return s + strconv.Itoa(i) + "," },
					func(a, b string) string { return a + b })
				require.NoError(t, err)
				var want strings.Builder
				for i := range n {
					fmt.Fprint(&want, i, ",")
				}
				require.Equal(t, want.String(), got)
			}
			s := randomMatrices(n)
			product := unit
			for _, m := range s {
				product = product.times(m)
			}
			got, err := Reduce(p, s, func() matrix { return unit }, matrix.times, matrix.times)
			require.NoError(t, err)
			require.Equal(t, product, got, "%d matrices", n)
		}
	})
}

func TestReduceOfNothingIsZero(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	never := func(a, b int) int { t.Error("called"); return a }
	got, err := Reduce(p, []int{}, func() int { return 17 }, never, never)
	require.NoError(t, err)
	require.Equal(t, 17, got)
	list, err := Reduce(p, []int{}, func() []int { return []int{17} }, func(s []int, _ int) []int { t.Error("called"); return s },
		func(a, _ []int) []int { t.Error("called"); return a })
	require.NoError(t, err)
	require.Equal(t, []int{17}, list)
}

// TestAReductionContinuesWhatRefersToMemory from block to block, in the order of the elements, so that there are not many tables to make and to merge.
func TestAReductionContinuesWhatRefersToMemory(t *testing.T) {
	type table struct {
		n    int
		seen []int
	}
	add := func(v table, i int) table { return table{v.n + 1, append(v.seen, i)} }
	merge := func(a, b table) table { return table{a.n + b.n, append(a.seen, b.seen...)} }
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, at := range []pool.Place{p, pool.Serial()} {
			for _, n := range algoLens() {
				var made atomic.Int64
				got, err := Reduce(at, count(n), func() table { made.Add(1); return table{} }, add, merge)
				require.NoError(t, err)
				require.Equal(t, n, got.n)
				require.Equal(t, count(n), append([]int{}, got.seen...))
				if at == pool.Serial() || p.Workers() == 1 && n < 1000 { // which the caller does alone
					require.EqualValues(t, 1, made.Load())
				}
			}
		}
	})
}

// TestOnlyFloatsAreDividedByTheLength: a type that does not round needs no blocks, and a table had better be one for each worker.
func TestOnlyFloatsAreDividedByTheLength(t *testing.T) {
	for range 2 { // the second time it is remembered
		for _, v := range []any{1.5, float32(1), 1i, [3]float64{}, struct {
			s [2]string
			x [1]struct{ c complex64 }
		}{}} {
			require.True(t, rounds(reflect.TypeOf(v)), "%T", v)
		}
		for _, v := range []any{0, "", [3]int{}, struct{ a, b int }{}, map[int]float64{}, []float64{}, new(float64), struct {
			x float64
			m map[string]int
		}{}, [2][]float64{}, struct {
			e error
			x float64
		}{}, make(chan float64), func() float64 { return 0 }} {
			require.False(t, rounds(reflect.TypeOf(v)), "%T", v)
		}
	}
}

// TestALargeValueHasLongBlocks, but never less than 128 of them because of that.
func TestALargeValueHasLongBlocks(t *testing.T) {
	require.Equal(t, blocksOf(1<<20, 1), blocksFor[float64](1<<20))
	require.Equal(t, 2048, blocksFor[[128]float64](1<<20).size)
	require.Equal(t, 129, blocksFor[[1 << 20]float64](1000*128+1).count())
	for n := range 100 {
		require.Equal(t, blocksOf(n, 1), blocksFor[[1 << 20]float64](n))
	}
}

// TestTablesAreMergedIntoOne: a table that took long to merge is not merged a second time.
func TestTablesAreMergedIntoOne(t *testing.T) {
	var m runsOfWorker[int]
	for i := range 9 {
		before := len(m.runs)
		took := m.add(8-i, 9-i, func(int, int) int { return 1 }, func(a, b int) int { heist.Spin(10 * time.Microsecond); return a + b })
		require.Equal(t, i > 0, took > 0, "%d", i)
		require.LessOrEqual(t, len(m.runs), max(before, 1), "%d", i)
	}
	require.Equal(t, []run[int]{{0, 9, 9, 9}}, m.runs)
}

// TestNoLargeTableIsMergedIntoASmallOne: a merge takes as long as its second argument is large, and a loop begins with small ranges.
func TestNoLargeTableIsMergedIntoASmallOne(t *testing.T) {
	const n, key = 100_000, 100 * time.Nanosecond
	least := n
	for range 9 { // an interrupt makes any merge look long or short
		keys := 0
		got, err := ReduceRange(pool.Serial(), n, func(lo, hi int) int { heist.Spin(time.Duration(hi-lo) * key); return hi - lo }, func(a, b int) int {
			heist.Spin(time.Duration(b) * key)
			keys += b
			return a + b
		})
		require.NoError(t, err)
		require.Equal(t, n, got)
		least = min(least, keys)
	}
	require.Less(t, least, n/10)
}

// TestRunsAreMergedAsATreeIs, not one range after the other: strings would be copied as often as there are ranges.
func TestRunsAreMergedAsATreeIs(t *testing.T) {
	const ranges, levels = 1000, 10
	var m runsOfWorker[string]
	copied, want := 0, ""
	for i := ranges - 1; i >= 0; i-- {
		e := string(rune('a' + i%26))
		want = e + want
		m.add(i, i+1, func(int, int) string { heist.Spin(20 * time.Microsecond); return e }, func(a, b string) string { copied += len(a) + len(b); return a + b })
		m.heavy = false // whatever interrupted a merge
	}
	m.add(2*ranges, 2*ranges+1, func(int, int) string { return "elsewhere" }, nil)
	require.LessOrEqual(t, copied, ranges*levels)
	got := ""
	for _, r := range m.runs[:len(m.runs)-1] {
		got = r.value + got
	}
	require.Equal(t, want, got)
	require.LessOrEqual(t, len(m.runs), levels+1)
}

// serialScan is what Scan means.
func serialScan[T any](s []T, op func(T, T) T) []T {
	out := slices.Clone(s)
	for i := 1; i < len(s); i++ {
		out[i] = op(out[i-1], s[i])
	}
	return out
}

func requireScans[T comparable](t *testing.T, p *pool.Pool, s []T, op func(T, T) T) {
	t.Helper()
	want := serialScan(s, op)
	out := make([]T, len(s))
	require.NoError(t, Scan(p, out, s, op))
	requireEqual(t, want, out, "beside", len(s))
	inPlace := slices.Clone(s)
	require.NoError(t, p.Run(func(w *pool.Worker) { require.NoError(t, Scan(w, inPlace, inPlace, op)) }))
	requireEqual(t, want, inPlace, "in place", len(s))
}

func TestScanIsTheSerialOne(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 4, 16} {
		p := pools.New(t, pool.WithWorkers(workers))
		lens := algoLens()
		for n := range 100 {
			lens = append(lens, n)
		}
		for n := range 40 {
			lens = append(lens, 1<<13-5+n)
		}
		for _, n := range lens {
			if n%3 == 0 && n <= 1<<13 { // here with idle workers, otherwise with whatever they do
				requireAtRest(t, p)
			}
			requireScans(t, p, count(n), func(a, b int) int { return a + b })
			requireScans(t, p, randomMatrices(n), matrix.times)
		}
		s := make([]string, 1<<13)
		for i := range s {
			s[i] = string(rune('a' + i%26))
		}
		requireScans(t, p, s, func(a, b string) string { return (a + b)[max(0, len(a)+len(b)-100):] })
	}
}

func TestScanBesideBusyWorkers(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	release := make(chan struct{})
	g := newGroup(p)
	for range p.Workers() {
		g.Go(func() error { <-release; return nil })
	}
	require.True(t, testutil.Eventually(func() bool { return p.Stats().Total().Tasks >= 2 }))
	requireScans(t, p, count(50_000), func(a, b int) int { return a + b })
	close(release)
	require.NoError(t, g.Wait())
}

// TestScanGivesItsOperatorOnlyElements is for a former bug: with idle workers, op was called with a zero
// value in place of the total of the last part, which is never computed.
func TestScanGivesItsOperatorOnlyElements(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	requireAtRest(t, p)
	s := make([]*int, 1<<13)
	for i := range s {
		s[i] = &i
	}
	out := make([]*int, len(s))
	require.NotPanics(t, func() {
		err := Scan(p, out, s, func(a, b *int) *int { sum := *a + *b; return &sum })
		require.NoError(t, err)
	})
	for i, sum := range out {
		require.NotNil(t, sum, i)
		require.Equal(t, i*(i+1)/2, *sum)
	}
}

// TestWorkersThatScanTogetherTakeEachElementOnce, in the order of the range, however long parts of it take, and end if one of them fails.
func TestWorkersThatScanTogetherTakeEachElementOnce(t *testing.T) {
	for _, workers := range []int{2, 3, 8} {
		p := pools.New(t, pool.WithWorkers(workers))
		var summed atomic.Int64
		scan := func(s []matrix, fails func(i int) bool) ([]matrix, error) {
			out := make([]matrix, len(s))
			in := func(step time.Duration, from matrix, lo, hi int, each func(i int, total matrix)) matrix {
				for i := lo; i < hi; i++ {
					heist.Spin(step + time.Duration(i%7)*time.Microsecond)
					if fails(i) {
						panic("fails")
					}
					from = from.times(s[i])
					each(i, from)
				}
				return from
			}
			return out, ScanRange(p, len(s), func(lo, hi int) matrix {
				summed.Add(int64(hi - lo))
				return in(time.Microsecond, unit, lo, hi, func(int, matrix) {})
			}, matrix.times, func(before matrix, lo, hi int) matrix {
				return in(time.Duration(lo%3)*time.Microsecond, before, lo, hi, func(i int, total matrix) {
					assert.Zero(t, out[i])
					out[i] = total
				})
			})
		}
		never := func(int) bool { return false }
		for i := range 20 {
			s := randomMatrices(500 + 83*i)
			want := slices.Clone(s)
			for i := range want[1:] {
				want[i+1] = want[i].times(s[i+1])
			}
			requireAtRest(t, p)
			out, err := scan(s, never)
			require.NoError(t, err)
			requireEqual(t, want, out, "workers", workers)
			at := i * len(s) / 20
			require.Panics(t, func() { _, _ = scan(s, func(i int) bool { return i == at }) })
		}
		require.True(t, testutil.Eventually(func() bool { // no other worker may have come in time
			_, err := scan(randomMatrices(5000), never)
			require.NoError(t, err)
			return summed.Load() > 0
		}))
	}
}

// TestAScanWhoseCallsAreDearHasFewOfThem: with 64 indices in each they would be 1,024.
func TestAScanWhoseCallsAreDearHasFewOfThem(t *testing.T) {
	calls := 0
	require.True(t, testutil.Eventually(func() bool { // the system may take the CPU away in the middle of a call
		calls = 0
		require.NoError(t, ScanRange(pool.Serial(), 1<<16, func(lo, hi int) int { return hi - lo }, func(a, b int) int { return a + b }, func(before, lo, hi int) int {
			calls++
			heist.Spin(30 * time.Microsecond)
			return before + hi - lo
		}))
		return calls <= 20
	}), "%d calls", calls)
}

func TestFilterKeepsTheOrder(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens() {
			for name, keep := range map[string]func(int) bool{
				"none":  func(int) bool { return false },
				"all":   func(int) bool { return true },
				"odd":   func(i int) bool { return i%2 == 1 },
				"few":   func(i int) bool { return i%1000 == 999 },
				"front": func(i int) bool { return i < n/3 },
				"back":  func(i int) bool { return i >= n/3 },
			} {
				s := count(n)
				calls := make(tally, n)
				got, err := Filter(p, s, func(i int) bool { calls[i].Add(1); return keep(i) })
				require.NoError(t, err)
				require.NoError(t, calls.once())
				want := make([]int, 0, n)
				for _, i := range s {
					if keep(i) {
						want = append(want, i)
					}
				}
				requireEqual(t, want, got, name, n)
				requireEqual(t, count(n), s, "the slice itself")
			}
		}
	})
}

func TestFilterKeepsNothingElseAlive(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	type element struct {
		l    *object
		keep bool
	}
	var kept []element
	var dropped []weak.Pointer[object]
	func() {
		var s []element
		for i := range 3000 {
			l, seen := garbage()
			s = append(s, element{l, i%10 == 0})
			if i%10 != 0 {
				dropped = append(dropped, seen)
			}
		}
		var err error
		kept, err = Filter(p, s, func(e element) bool { return e.keep })
		require.NoError(t, err)
	}()
	requireAtRest(t, p)
	requireCollected(t, dropped...)
	require.Equal(t, len(kept), cap(kept))
	for _, e := range kept {
		require.NotNil(t, e.l)
	}
}

func TestFindReturnsTheFirst(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens() {
			s := count(n)
			for _, first := range []int{0, 1, n / 256, n/256 + 1, n / 2, n - 1, n} {
				got, err := Find(p, s, func(i int) bool { return i >= first })
				require.NoError(t, err)
				if first < 0 || n == 0 || first >= n {
					first = -1
				}
				if n == 0 {
					first = -1
				}
				require.Equal(t, first, got, "of %d", n)
			}
		}
	})
}

// TestFindReturnsTheFirstThoughALaterOneIsFoundBefore holds up the worker that finds the first one until
// another worker has found a later one.
func TestFindReturnsTheFirstThoughALaterOneIsFoundBefore(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for range testutil.Stress(20) {
		requireAtRest(t, p)
		found := make(gate)
		var caller, finders atomic.Int64
		s := count(300)
		got, err := Find(p, s, func(i int) bool {
			who := int64(goroutineID())
			if i == 0 {
				caller.Store(who)
			}
			if who != caller.Load() { // the other worker accepts the first item that it looks at
				if finders.Add(1) == 1 {
					found.open()
				}
				return true
			}
			work(20_000)
			if i == 20 {
				found.await()
				return true
			}
			return false
		})
		require.NoError(t, err)
		require.LessOrEqual(t, got, 20)
		require.GreaterOrEqual(t, got, 0)
		if finders.Load() == 0 {
			require.Equal(t, 20, got)
		}
	}
}

func TestFindStopsEarly(t *testing.T) {
	n := 10_000_000
	if testutil.Short() {
		n /= 10
	}
	for _, workers := range []int{1, 2} {
		p := pools.New(t, pool.WithWorkers(workers))
		s := make([]uint8, n)
		for _, hit := range []int{0, 1, 1000, n / 100} {
			s[hit] = 1
			require.True(t, testutil.Eventually(func() bool { // the caller may stand still before the hit, while others look at the rest
				var looks atomic.Int64
				i, err := Find(p, s, func(e uint8) bool { looks.Add(1); return e == 1 })
				require.NoError(t, err)
				require.Equal(t, hit, i)
				return looks.Load() < int64(n/2)
			}), "hit at %d", hit)
			s[hit] = 0
		}
		i, err := Find(p, s, func(e uint8) bool { return e == 1 })
		require.NoError(t, err)
		require.Equal(t, -1, i)
	}
}

func TestMinMax(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens()[1:] {
			r := rand.New(rand.NewPCG(3, uint64(n)))
			s := make([]int, n)
			words := make([]string, n)
			floats := make([]float64, n)
			for i := range s {
				s[i] = int(r.Int64()) - 1<<30
				words[i] = fmt.Sprint(s[i])
				floats[i] = r.NormFloat64()
			}
			least, most, err := MinMax(p, s)
			require.NoError(t, err)
			require.Equal(t, []int{slices.Min(s), slices.Max(s)}, []int{least, most})
			a, b, err := MinMax(p, words)
			require.NoError(t, err)
			require.Equal(t, []string{slices.Min(words), slices.Max(words)}, []string{a, b})
			x, y, err := MinMax(p, floats)
			require.NoError(t, err)
			require.Equal(t, []float64{slices.Min(floats), slices.Max(floats)}, []float64{x, y})
			for _, at := range []int{0, n / 2, n - 1} {
				old := floats[at]
				floats[at] = math.NaN()
				x, y, err = MinMax(p, floats)
				require.NoError(t, err)
				require.True(t, math.IsNaN(x) && math.IsNaN(y), "NaN at %d of %d", at, n)
				floats[at] = old
			}
		}
	})
}

// numbers yields 0 to n-1, and without end if n is negative.
func numbers(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i != n && yield(i); i++ {
		}
	}
}

func TestEachHandlesEachValueOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range algoLens() {
			for _, cost := range []int{0, 300} {
				if n*cost > 3_000_000 {
					continue
				}
				handled := make(tally, n)
				require.NoError(t, ForSeq(p, numbers(n), func(i int) { handled[i].Add(1); work(cost) }))
				require.NoError(t, handled.once())
			}
		}
	})
}

func TestCollectKeepsTheOrder(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for place, in := range inPlaces {
			for _, n := range []int{0, 1, 2, 100, 10_000} {
				require.NoError(t, in(p, func(at pool.Place) error {
					got, err := MapSeq(at, numbers(n), func(i int) string { work(i % 50); return strconv.Itoa(i) })
					if err == nil && len(got) != n {
						err = fmt.Errorf("%d of %d values", len(got), n)
					}
					for i, s := range got {
						if s != strconv.Itoa(i) {
							return fmt.Errorf("%q at %d of %d", s, i, n)
						}
					}
					return err
				}), place)
			}
		}
	}
}

// TestSequenceRunsInTheCaller: a sequence relies on that if it reads from something that is not safe for
// several goroutines, or is locked to a thread.
func TestSequenceRunsInTheCaller(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for range testutil.Stress(20) {
		me := goroutineID()
		handled := make(tally, 3000)
		require.NoError(t, ForSeq(p, func(yield func(int) bool) {
			for i := range len(handled) {
				if goroutineID() != me {
					t.Error("the sequence runs elsewhere")
				}
				if !yield(i) {
					return
				}
			}
		}, func(i int) { handled[i].Add(1); work(300) }))
		require.NoError(t, handled.once())
	}
}

// TestEachSharesItsValues, also those that come after many which the caller has handled alone because they take nothing.
func TestEachSharesItsValues(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for range testutil.Stress(20) {
		for _, cheap := range []int{0, 100_000} {
			requireAtRest(t, p)
			var m meet
			require.NoError(t, ForSeq(p, numbers(cheap+patientItems), func(i int) {
				if i >= cheap {
					m.here()
				}
			}))
			require.NoError(t, m.result(), cheap)
		}
	}
}

func TestEachWithASlowProducerOrASlowConsumer(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	const n = 40
	handled := make(tally, n)
	require.NoError(t, ForSeq(p, func(yield func(int) bool) {
		for i := range n {
			time.Sleep(200 * time.Microsecond)
			if !yield(i) {
				return
			}
		}
	}, func(i int) { handled[i].Add(1) }))
	require.NoError(t, handled.once())

	handled = make(tally, n)
	var running, most atomic.Int64
	require.NoError(t, ForSeq(p, numbers(n), func(i int) {
		lower(&most, -running.Add(1))
		heist.Spin(200 * time.Microsecond) // one that waits would lend its place
		running.Add(-1)
		handled[i].Add(1)
	}))
	require.NoError(t, handled.once())
	require.LessOrEqual(t, -most.Load(), int64(p.Workers()+1), "more ran at once than there are workers")
}

func TestPanicOfASequenceArrives(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for _, n := range []int{0, 1, 100, 5000} {
			var running atomic.Int64
			v := testutil.Caught(func() {
				_ = ForSeq(p, func(yield func(int) bool) {
					for i := range n {
						if !yield(i) {
							return
						}
					}
					panic("the sequence")
				}, func(int) { running.Add(1); work(300); running.Add(-1) })
			})
			require.Equal(t, "the sequence", v.(*pool.PanicError).Value)
			require.Zero(t, running.Load())
			requireAtRest(t, p)
		}
	}
}

func TestPanicOfAConsumerEndsTheSequence(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for _, cost := range []int{0, 1000} {
			for range testutil.Stress(10) {
				var running atomic.Int64
				v := testutil.Caught(func() {
					_, err := MapSeq(p, numbers(-1), func(i int) int {
						running.Add(1)
						defer running.Add(-1)
						if i == 5000 {
							panic("boom")
						}
						work(cost)
						return i
					})
					t.Error("MapSeq returned", err)
				})
				if e, ok := v.(*pool.PanicError); ok {
					v = e.Value
				}
				require.Equal(t, "boom", v)
				require.Zero(t, running.Load())
				requireAtRest(t, p)
			}
		}
	}
}

func TestGoexitOfAConsumerEndsTheCaller(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := pools.New(t, pool.WithWorkers(workers))
		for range testutil.Stress(20) {
			returned := false
			require.True(t, testutil.Returns(func() {
				_ = ForSeq(p, numbers(-1), func(i int) {
					if i == 3000 {
						runtime.Goexit()
					}
					work(100)
				})
				returned = true
			}))
			require.False(t, returned)
		}
	}
}

func TestCancellationEndsAnEndlessSequence(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for _, cost := range []int{0, 1000} {
			ctx, cancel := context.WithCancelCause(context.Background())
			var handled atomic.Int64
			err := ForSeq(p.With(ctx), numbers(-1), func(int) {
				if handled.Add(1) == 2000 {
					cancel(errStolen)
				}
				work(cost)
			})
			require.ErrorIs(t, err, errStolen)

			ctx, stop := context.WithTimeout(context.Background(), 2*time.Millisecond)
			got, err := MapSeq(p.With(ctx), numbers(-1), func(i int) int { work(cost); return i })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Nil(t, got)
			stop()
			requireAtRest(t, p)
		}
	}
}

// TestCancelledSequenceIsAskedForNothingMore is for a former bug: a cancelled ForSeq went on to ask for
// values until it had a batch of them, up to 4096, however long they took to come.
func TestCancelledSequenceIsAskedForNothingMore(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	requireAtRest(t, p)
	ctx, cancel := context.WithCancelCause(context.Background())
	asked := 0
	var err error
	require.NoError(t, p.Run(func(w *pool.Worker) {
		err = ForSeq(w.With(ctx), func(yield func(int) bool) {
			for i := range 100_000 { // many come quickly
				if !yield(i) {
					return
				}
			}
			cancel(errStolen)
			assert.True(t, testutil.Eventually(w.Cancelled))
			for asked < mostBatch && yield(asked) {
				asked++ // later values come slowly, one in a second
			}
		}, func(int) {})
	}))
	require.ErrorIs(t, err, errStolen)
	require.Less(t, asked, 10, "values after the end")
}

// TestAScanOfAnyLengthEnds if its functions do not look at each index.
func TestAScanOfAnyLengthEnds(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		n := math.MaxInt
		var last atomic.Int64
		require.NoError(t, ScanRange(p, n, func(lo, hi int) int { return hi - lo }, func(a, b int) int { return a + b }, func(before, lo, hi int) int {
			assert.Equal(t, lo, before)
			if hi == n {
				last.Add(1)
			}
			return before + hi - lo
		}))
		require.EqualValues(t, 1, last.Load())
	})
}

// TestCancelledAlgosEndEarly checks that a cancelled call is unwound and returns no result.
func TestCancelledAlgosEndEarly(t *testing.T) {
	const n = 1 << 16
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		s := count(n)
		for name, run := range map[string]func(at pool.Place, tick func()) error{
			"Map": func(at pool.Place, tick func()) error {
				out, err := Map(at, s, func(i int) int { tick(); return i })
				assert.Nil(t, out)
				return err
			},
			"Reduce": func(at pool.Place, tick func()) error {
				_, err := Reduce(at, s, nought, func(a, b int) int { tick(); return a + b }, func(a, b int) int { return a + b })
				return err
			},
			"Filter": func(at pool.Place, tick func()) error {
				out, err := Filter(at, s, func(int) bool { tick(); return true })
				assert.Nil(t, out)
				return err
			},
			"Find": func(at pool.Place, tick func()) error {
				i, err := Find(at, s, func(int) bool { tick(); return false })
				assert.Equal(t, -1, i)
				return err
			},
		} {
			for range testutil.Stress(10) {
				ctx, cancel := context.WithCancelCause(context.Background())
				ticks := canceller{after: n / 16, cancel: cancel}
				err := run(p.With(ctx), func() {
					ticks.tick()
					work(100)
				})
				require.ErrorIs(t, err, errStolen, name)
				require.Less(t, ticks.Load(), int64(n), name)
				requireAtRest(t, p)
			}
		}
	}
}

func TestPanicsOfAlgosArrive(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		s := count(20_000)
		at := func(n int) func(int) {
			var calls atomic.Int64
			return func(int) {
				if calls.Add(1) == int64(n) {
					panic("boom")
				}
			}
		}
		for _, n := range []int{1, 2, 100, 9000} {
			for name, f := range map[string]func(boom func(int)) error{
				"Map": func(boom func(int)) error { _, err := Map(p, s, func(i int) int { boom(i); return i }); return err },
				"Reduce": func(boom func(int)) error {
					_, err := Reduce(p, s, nought, func(a, b int) int { boom(b); return a }, func(a, b int) int { return a })
					return err
				},
				"merge": func(boom func(int)) error {
					_, err := ReduceRange(p, len(s), func(_, _ int) float64 { return 0 }, func(_, _ float64) float64 { boom(0); boom(0); panic("boom") })
					return err
				},
				"Scan": func(boom func(int)) error {
					return Scan(p, make([]int, len(s)), s, func(a, b int) int { boom(b); return a })
				},
				"Filter": func(boom func(int)) error {
					_, err := Filter(p, s, func(i int) bool { boom(i); return true })
					return err
				},
				"Find": func(boom func(int)) error {
					_, err := Find(p, s, func(i int) bool { boom(i); return false })
					return err
				},
				"each again": func(boom func(int)) error { return ForSeq(p, slices.Values(s), boom) },
			} {
				v := testutil.Caught(func() { t.Error(name, "returned", f(at(n))) })
				if e, ok := v.(*pool.PanicError); ok {
					v = e.Value
				}
				require.Equal(t, "boom", v, name)
			}
		}
		requireAtRest(t, p)
	})
}

func TestAlgosInsideAlgos(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for range testutil.Stress(10) {
			var total atomic.Int64
			require.NoError(t, pool.ForRange(p, 20, func(w *pool.Worker, lo, hi int) {
				for range hi - lo {
					s := count(1000)
					sum, err := Reduce(w, s, nought, func(a, b int) int { work(10); return a + b }, func(a, b int) int { return a + b })
					kept, err2 := Filter(w, s, func(i int) bool { return i%2 == 0 })
					seen, err3 := MapSeq(w, slices.Values(kept), func(i int) int { return i })
					out := make([]int, 9000)
					err4 := Scan(w, out, count(9000), func(a, b int) int { return a + b })
					assert.NoError(t, errors.Join(err, err2, err3, err4))
					total.Add(int64(sum + len(seen) + out[8999]))
				}
			}))
			require.EqualValues(t, 20*(1000*999/2+500+9000*8999/2), total.Load())
		}
	}
}

// TestNoBatchOfASequenceIsLongerThanItsBound, however cheap the values are after those that the caller has handled alone.
func TestNoBatchOfASequenceIsLongerThanItsBound(t *testing.T) {
	p := pools.New(t)
	var h batchLengths
	require.NoError(t, dealOut(p, func(yield func(int) bool) {
		for i := range 1 << 20 {
			if !yield(i) {
				return
			}
		}
	}, &h))
	require.Equal(t, 1<<20, h.values)
	require.LessOrEqual(t, h.longest, 4096)
	require.Greater(t, h.longest, 64)
}

// batchLengths takes long for the first values alone.
type batchLengths struct{ longest, values int }

func (h *batchLengths) first(few []int) {
	h.values += len(few)
	heist.Spin(time.Duration(len(few)) * 50 * time.Nanosecond)
}

func (h *batchLengths) batch(values []int) (handle func()) {
	h.longest = max(h.longest, len(values))
	h.values += len(values)
	return func() {}
}

// TestAValueWaitsForItsBatchOnly: where nobody else computes, it is handled before the sequence goes on.
func TestAValueWaitsForItsBatchOnly(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	handled := make(tally, 3*mostBatch)
	require.NoError(t, ForSeq(p, func(yield func(int) bool) {
		for i := range handled {
			if i >= mostBatch && handled[i-mostBatch].Load() == 0 {
				t.Errorf("value %d waits though %d more have come", i-mostBatch, mostBatch)
				return
			}
			if !yield(i) {
				return
			}
		}
	}, func(i int) { handled[i].Add(1) }))
	require.NoError(t, handled.once())
}

// TestFewValuesWaitWhereASequenceBecomesSlow: its batch is not filled, whether the caller was alone or dealt batches out.
func TestFewValuesWaitWhereASequenceBecomesSlow(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	for _, f := range []time.Duration{0, 100 * time.Nanosecond} {
		const fast, slow = 10_000, 100
		handled := 0
		require.NoError(t, ForSeq(p, func(yield func(int) bool) {
			for i := range fast + slow {
				if i >= fast {
					heist.Spin(2 * batchTime)
				}
				if waiting := i - max(handled, fast); waiting > mostUnseen {
					t.Errorf("%d slow values wait", waiting)
				}
				if !yield(i) {
					return
				}
			}
		}, func(int) {
			handled++
			heist.Spin(f)
		}))
		require.Equal(t, fast+slow, handled)
	}
}

// TestBlocksAreTheWholeRangeAndAtMost2048.
func TestBlocksAreTheWholeRangeAndAtMost2048(t *testing.T) {
	for n := 0; n < 1<<22; n += 1 + n/100 {
		b, end := blocksOf(n, 1), 0
		require.LessOrEqual(t, b.count(), 2048)
		for i := range b.count() {
			lo, hi := b.at(i)
			require.True(t, lo == end && hi > lo, "block %d of %d", i, n)
			end = hi
		}
		require.Equal(t, n, end)
	}
}

// TestPanicNilOfAnAlgorithmArrives, whatever GODEBUG says of it.
func TestPanicNilOfAnAlgorithmArrives(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	p := pools.New(t, pool.WithWorkers(2))
	const n = 20_000
	items := count(n)
	var calls atomic.Int64
	boom := func() {
		if calls.Add(1) == 9000 {
			panic(nil)
		}
	}
	fails := func() error { boom(); return nil }
	forms := map[string]func() error{
		"For": func() error { return For(p, n, func(int) { boom() }) },
		"Map": func() error { _, err := Map(p, items, func(int) int { boom(); return 0 }); return err },
		"Filter": func() error {
			_, err := Filter(p, items, func(int) bool { boom(); return true })
			return err
		},
		"Reduce": func() error {
			_, err := ReduceRange(p, n, func(lo, hi int) int {
				for range hi - lo {
					boom()
				}
				return 0
			}, func(a, b int) int { return a + b })
			return err
		},
		"SortFunc": func() error {
			return SortFunc(p, rand.Perm(n), func(a, b int) int { boom(); return a - b })
		},
		"SortFunc of few": func() error {
			calls.Store(8990)
			return SortFunc(p, rand.Perm(30), func(a, b int) int { boom(); return a - b })
		},
		"SortBy": func() error { return SortBy(p, rand.Perm(n), func(a int) int { boom(); return a }) },
		"MergeFunc": func() error {
			return MergeFunc(p, append(count(n), items...), n, func(a, b int) int { boom(); return a - b })
		},
		"ForSeq": func() error { return ForSeq(p, numbers(n), func(int) { boom() }) },
		"MapSeq": func() error { _, err := MapSeq(p, numbers(n), func(int) int { boom(); return 0 }); return err },
		"Phases": func() error {
			calls.Store(8990)
			return Phases(p, 100, 100, func(int, int, int) { boom() })
		},
		"ForErr": func() error { return ForErr(p, n, func(context.Context, int) error { return fails() }) },
	}
	for name, stream := range streams[int, int]() {
		for where, hooks := range map[string][3]func(){"f": {boom, func() {}, func() {}}, "source": {func() {}, boom, func() {}}, "consumer": {func() {}, func() {}, boom}} {
			forms[name+", "+where] = func() (err error) {
				for _, err = range stream(p, func(yield func(int) bool) {
					for i := range n {
						if hooks[1](); !yield(i) {
							return
						}
					}
				}, 64, func(_ context.Context, i int) (int, error) { hooks[0](); return i, nil }) {
					hooks[2]()
				}
				return err
			}
		}
	}
	for name, form := range forms {
		calls.Store(0)
		var v any
		require.True(t, testutil.Returns(func() {
			returned := false
			defer func() {
				if !returned {
					v = panics.Recovered(recover())
				}
			}()
			v = form()
			returned = true
		}), "%s: it hangs, or its goroutine ends", name)
		err, _ := v.(error)
		require.ErrorAs(t, err, new(*runtime.PanicNilError), "%s: %v", name, v)
		requireAtRest(t, p)
	}
}

// TestFindKeepsTheFirstHit, whichever of two chunks that run at the same time has its hit first, and leaves out what comes
// after it.
func TestFindKeepsTheFirstHit(t *testing.T) {
	for _, laterFirst := range []bool{false, true} {
		b := findBody[findIndex]{first: new(atomic.Int64)}
		b.first.Store(math.MaxInt64)
		b.f = func(lo, _ int) int {
			require.Less(t, lo, 20, "it comes after a hit")
			if laterFirst && lo == 0 || !laterFirst && lo == 10 {
				other := b
				other.f = func(lo, _ int) int { return lo + 5 }
				other.Run(10-lo, 20-lo) // while this chunk runs
				b.Run(20, 30)
			}
			return lo + 5
		}
		if laterFirst {
			b.Run(0, 10)
		} else {
			b.Run(10, 20)
		}
		require.EqualValues(t, 5, b.first.Load(), "the later chunk has its hit first: %v", laterFirst)
	}
}

// TestReductionsOfFloatsMergeTheSamePairs, wherever the caller stops to be alone.
func TestReductionsOfFloatsMergeTheSamePairs(t *testing.T) {
	type float struct {
		_ float64
		s string
	}
	p := pools.New(t, pool.WithWorkers(2))
	merge := func(a, b float) float { return float{s: "(" + a.s + b.s + ")"} }
	for _, n := range []int{1, 2, 3, 17, 100, 333} {
		want := ""
		for slow := -1; slow < 20; slow++ { // the block that takes longer than a loop that the caller runs alone
			var block atomic.Int64
			got, err := ReduceRange(p, n, func(lo, hi int) float {
				if block.Add(1)-1 == int64(slow) {
					time.Sleep(50 * time.Microsecond)
				}
				return float{s: fmt.Sprint("[", lo, " ", hi, "]")}
			}, merge)
			require.NoError(t, err)
			if slow < 0 {
				want = got.s
			}
			require.Equal(t, want, got.s, "%d elements, block %d is slow", n, slow)
		}
	}
}

// TestBatchesWaitForTheNextSteal: a worker that has done one need not wait until the caller has done its own.
func TestBatchesWaitForTheNextSteal(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	const values, last = 200, 16 // the last ones may find nobody who computes
	me := goroutineID()
	var others atomic.Int64
	require.NoError(t, ForSeq(p, numbers(values), func(i int) {
		before := others.Load()
		time.Sleep(2 * batchTime) // so that each is a batch
		switch {
		case i == 0 || t.Failed():
		case goroutineID() != me:
			others.Add(1)
		case i < values-last:
			if !testutil.Eventually(func() bool { return others.Load() >= before+2 }) {
				t.Errorf("nobody handles others during value %d", i)
			}
		}
	}))
}
