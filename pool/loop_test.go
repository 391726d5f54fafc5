package pool

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForRunsEachItemOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for _, g := range []Granularity{Lazy, Grain(1), Grain(7), new(AdaptiveGrain).Granularity()} {
			for _, n := range []int{0, 1, 2, 3, 10, 255, 256, 257, 1000, 20_000} {
				ran := make([]atomic.Int32, n)
				require.NoError(t, For(p, n, func(i int) {
					ran[i].Add(1)
					for range i % 1000 {
					}
				}, g))
				for i := range ran {
					require.EqualValues(t, 1, ran[i].Load(), "item %d of %d", i, n)
				}
			}
		}
	})
}

func TestAlgos(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	s := make([]int, 100_000)
	for i := range s {
		s[i] = i
	}
	sum, err := Reduce(p, s, 0, func(a, b int) int { return a + b }, func(a, b int) int { return a + b })
	require.NoError(t, err)
	require.Equal(t, len(s)*(len(s)-1)/2, sum)
	i, err := Find(p, s, func(e int) bool { return e%1000 == 999 })
	require.NoError(t, err)
	require.Equal(t, 999, i)
	even, err := Filter(p, s, func(e int) bool { return e%2 == 0 })
	require.NoError(t, err)
	require.Len(t, even, len(s)/2)
	out := make([]int, len(s))
	require.NoError(t, Scan(p, out, s, func(a, b int) int { return a + b }))
	require.Equal(t, sum, out[len(out)-1])
	require.NoError(t, Each(p, func(yield func(int) bool) {
		for i := range 10000 {
			if !yield(i) {
				return
			}
		}
	}, func(i int) { atomic.AddInt64((*int64)(nil_()), int64(i)) }))
	sq, err := Collect(p, func(yield func(int) bool) {
		for i := range 10000 {
			if !yield(i) {
				return
			}
		}
	}, func(i int) int { return i * i })
	require.NoError(t, err)
	for i := range sq {
		require.Equal(t, i*i, sq[i])
	}
	var counts [10]atomic.Int64
	require.NoError(t, Phases(p, 1000, 10, func(ph, lo, hi int) {
		counts[ph].Add(int64(hi - lo))
		if ph > 0 && counts[ph-1].Load() != 1000 {
			t.Error("early")
		}
	}))
	lo, hi, err := MinMax(p, s)
	require.NoError(t, err)
	require.Equal(t, []int{0, len(s) - 1}, []int{lo, hi})
	require.NoError(t, Sort(p, even))
}

var sink int64

func nil_() *int64 { return &sink }
