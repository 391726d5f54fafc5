package par

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// runs returns n records of random keys that are in order up to mid and from mid on, and all of them in order.
func runs(n, mid int, distinct int64) (s, sorted []record) {
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = rand.Int64N(distinct)
	}
	slices.Sort(keys[:mid])
	slices.Sort(keys[mid:])
	s = records(keys)
	sorted = slices.Clone(s)
	slices.SortStableFunc(sorted, byKey)
	return s, sorted
}

func keysIn(s []record) []int64 {
	keys := make([]int64, len(s))
	for _, r := range s {
		keys[r.index] = int64(r.key)
	}
	return keys
}

func TestMergeIsTheStableOne(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range []int{0, 1, 2, 3, insertedAlone, insertedAlone + 1, 100, mergeLen - 1, mergeLen, mergeLen + 1, 2*mergeLen + 1, 5*mergeLen + 17} {
			for _, mid := range []int{0, 1, n / 3, n / 2, n - 1, n} {
				for _, distinct := range []int64{1, 7, 1 << 31} {
					if mid < 0 || mid > n {
						continue
					}
					s, sorted := runs(n, mid, distinct)
					require.NoError(t, MergeFunc(p, s, mid, byKey))
					requireEqual(t, sorted, s, "%d at %d of %d", n, mid, distinct)
				}
			}
		}
	})
}

// TestMergeThatEndsEarlyKeepsAPermutation: by a panic, by its context, or because there is no order.
func TestMergeThatEndsEarlyKeepsAPermutation(t *testing.T) {
	boom := errors.New("boom")
	n := 5*mergeLen + 17
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for range testutil.Stress(100) {
			var calls atomic.Int64
			k := 2 + rand.Int64N(int64(n))
			at := func(do func()) func(a, b record) int {
				calls.Store(0)
				return func(a, b record) int {
					if calls.Add(1) == k {
						do()
					}
					return byKey(a, b)
				}
			}
			s, _ := runs(n, rand.IntN(n+1), 1<<31)
			keys := keysIn(s)
			recovered := testutil.Caught(func() { require.NoError(t, MergeFunc(p, s, len(s)/2, at(func() { panic(boom) }))) })
			if calls.Load() >= k {
				require.ErrorIs(t, recovered.(error), boom)
			}
			requirePermutation(t, keys, s)

			s, sorted := runs(n, n/2, 1<<31)
			keys = keysIn(s)
			ctx, cancel := context.WithCancelCause(t.Context())
			err := MergeFunc(p.With(ctx), s, n/2, at(func() { cancel(boom) }))
			if err != nil {
				require.ErrorIs(t, err, boom)
			} else {
				requireEqual(t, sorted, s)
			}
			requirePermutation(t, keys, s)
			cancel(nil)

			for _, compare := range []func(a, b record) int{
				func(record, record) int { return rand.IntN(3) - 1 },
				func(record, record) int { return -1 },
				func(record, record) int { return 1 },
			} {
				require.NoError(t, MergeFunc(p, s, rand.IntN(n+1), compare))
				requirePermutation(t, keys, s)
			}
		}
	})
}

// TestLongElementsInAFewRunsAreSorted: the caller alone merges them, and reverses those that descend.
func TestLongElementsInAFewRunsAreSorted(t *testing.T) {
	type long struct {
		key int
		_   [504]byte
	}
	p := pools.New(t, pool.WithWorkers(2))
	s := make([]long, shortRange)
	for i := range s {
		s[i].key = max(7*shortRange/8-i, 2*(i-7*shortRange/8))
	}
	byKey := func(a, b long) int { return a.key - b.key }
	require.NoError(t, SortFunc(p, s, byKey))
	require.True(t, slices.IsSortedFunc(s, byKey))
}

func TestMergeRefusesWhatItCannotDo(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	s := []record{{2, 0}, {1, 1}}
	for _, mid := range []int{-1, 3} {
		require.ErrorContains(t, MergeFunc(p, s, mid, byKey), "which must be 0 to 2")
	}
	require.EqualError(t, MergeFunc(p, s, 1, nil), "par: MergeFunc was given a nil function")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, MergeFunc(p.With(ctx), s, 1, byKey), context.Canceled)
	require.Equal(t, []record{{2, 0}, {1, 1}}, s)
}
