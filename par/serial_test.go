package par

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil/pools"
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
	words, err := MapSeq(at, strings.SplitSeq("a b c", " "), func(s string) string { return s + s })
	require.NoError(t, err)
	require.Equal(t, []string{"aa", "bb", "cc"}, words)
}

// TestAStreamThatIsNotTakenFromHoldsUpNoCaller, whether the stream's consumer waits for that caller or is that
// caller.
func TestAStreamThatIsNotTakenFromHoldsUpNoCaller(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := pools.New(t, pool.WithWorkers(workers), pool.WithCallers(1))
		s := make([]int, 100)
		same := func(_ context.Context, v int) (int, error) { return v, nil }
		next, stop := iter.Pull2(Stream(p, slices.Values(s), 5, same))
		_, _, more := next()
		require.True(t, more)
		require.NoError(t, For(p, 100, func(int) {}))
		second, stopSecond := iter.Pull2(AsCompleted(p, slices.Values(s), 5, same))
		for range 50 {
			_, _, more = next()
			require.True(t, more)
			_, _, more = second()
			require.True(t, more)
		}
		stop()
		stopSecond()
		for _, err := range Stream(p, slices.Values(s), 5, same) {
			require.NoError(t, err)
			done := make(chan error)
			go func() { done <- For(p, 10, func(int) {}) }()
			require.NoError(t, <-done)
		}
		require.NoError(t, p.Try().Run(func(*pool.Worker) {}))
	}
}

// TestFormsWithErrKeepWhatThePlaceSays: a place that does not wait for admission stays one, also with JoinErrors.
func TestFormsWithErrKeepWhatThePlaceSays(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1), pool.WithCallers(1))
	require.NoError(t, p.Run(func(*pool.Worker) {
		done := make(chan error)
		go func() {
			at := p.With(t.Context()).Try()
			f := func(context.Context, int) error { return nil }
			done <- ForErr(at, 5, f)
			done <- ForErr(JoinErrors(at), 5, f)
			done <- pool.Do(at, func(*pool.Worker) {})
		}()
		for range 3 {
			require.Same(t, pool.ErrFull, <-done)
		}
	}))
}
