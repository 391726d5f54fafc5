package par

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

// TestAlgorithmsRunWithoutAPool at the serial place, as they do at others.
func TestAlgorithmsRunWithoutAPool(t *testing.T) {
	at := pool.Serial()
	s := make([]int, 200_000)
	for i := range s {
		s[i] = rand.IntN(1000)
	}
	want := slices.Sorted(slices.Values(s))
	for _, sort := range []func(pool.Place, []int) error{
		func(at pool.Place, s []int) error { return Sort(at, s) },
		func(at pool.Place, s []int) error { return SortFunc(at, s, func(a, b int) int { return a - b }) },
		func(at pool.Place, s []int) error { return SortBy(at, s, func(a int) int { return a }) },
	} {
		c := slices.Clone(s)
		require.NoError(t, sort(at, c))
		require.Equal(t, want, c)
	}
	sum, err := Sum(at, s)
	require.NoError(t, err)
	squares, err := Map(at, s, func(x int) int { return x * x })
	require.NoError(t, err)
	even, err := Filter(at, s, func(x int) bool { return x%2 == 0 })
	require.NoError(t, err)
	i, err := Find(at, s, func(x int) bool { return x == 999 })
	require.NoError(t, err)
	require.Equal(t, slices.Index(s, 999), i)
	next := 0
	for x, err := range Stream(at, slices.Values(s[:1000]), 8, func(_ context.Context, x int) (int, error) { return x, nil }) {
		require.NoError(t, err)
		require.Equal(t, s[next], x)
		next++
	}
	require.Equal(t, 1000, next)
	wantSum, wantEven := 0, []int(nil)
	for i, x := range s {
		wantSum += x
		if x%2 == 0 {
			wantEven = append(wantEven, x)
		}
		require.Equal(t, x*x, squares[i])
	}
	require.Equal(t, wantSum, sum)
	require.Equal(t, wantEven, even)
	words, err := Collect(at, strings.SplitSeq("a b c", " "), func(s string) string { return s + s })
	require.NoError(t, err)
	require.Equal(t, []string{"aa", "bb", "cc"}, words)
}
