package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// TestTheDefaultPoolIsOneForAll that ask for it, also at the same time, and none of them can end it
// for the others. The test runs in a process of its own, in which the pool stays.
func TestTheDefaultPoolIsOneForAll(t *testing.T) {
	if !inChild() {
		output, err := child(t)
		require.NoError(t, err, output)
		return
	}
	synctest.Test(t, func(t *testing.T) { require.ErrorContains(t, testutil.Caught(func() { Default() }).(error), "bubble") })
	const libraries = 16
	var pools [libraries]*Pool
	var all sync.WaitGroup
	for i := range libraries {
		all.Go(func() {
			p := Default()
			pools[i] = p
			var sum atomic.Int64
			for range 100 {
				add := func(lo, hi int) { sum.Add(int64(hi - lo)) }
				if err := errors.Join(ForRange(p, 1000, add), p.Run(func(w *Worker) {
					require.NoError(t, ForRange(w, 1000, add))
					w.Do(func(*Worker) { sum.Add(1) }, func(*Worker) { sum.Add(1) })
				})); err != nil {
					t.Error(err)
				}
				require.Same(t, errShared, p.Close())
				require.Same(t, errShared, p.Shutdown(context.Background()))
				_, err := p.Abort(context.Background())
				require.Same(t, errShared, err)
				require.Same(t, errShared, p.Pause(context.Background()))
				require.Same(t, errShared, p.Resize(1))
			}
			if got := sum.Load(); got != 100*2002 {
				t.Errorf("%d", got)
			}
		})
	}
	all.Wait()
	for _, p := range pools {
		require.Same(t, pools[0], p)
	}
	other := newPool(t, WithWorkers(2))
	require.NoError(t, other.Run(func(*Worker) {
		require.NoError(t, ForRange(Default(), 1000, func(int, int) {
			if err := ForRange(other, 10, func(int, int) {}); err != nil {
				t.Error(err)
			}
		}))
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { Default() }))
}

func TestWhoRecoversSeesWhatIsAnUnwinding(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen any
	require.ErrorIs(t, p.With(ctx).Run(func(w *Worker) {
		defer func() {
			seen = recover()
			if IsUnwind(seen) {
				panic(seen)
			}
		}()
		cancel()
		for {
			w.Do(func(*Worker) {}, func(*Worker) {})
		}
	}), context.Canceled)
	require.True(t, IsUnwind(seen))
	for _, v := range []any{nil, "boom", errors.New("boom"), new(PanicError), (*PanicError)(nil)} {
		require.False(t, IsUnwind(v))
	}
}
