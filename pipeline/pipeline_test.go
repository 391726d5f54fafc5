package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

var background = context.Background()

// count yields 0 to n-1, and then err if it is not nil. Ended is set when it has ended.
func count(n int, err error, ended *bool) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		defer func() { *ended = true }()
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func double(_ context.Context, i int) (int, error) { return 2 * i, nil }

// collect returns all values, and the errors, of which there should be one at most.
func collect[T any](values iter.Seq2[T, error]) (all []T, errs []error) {
	for v, err := range values {
		if err != nil {
			errs = append(errs, err)
		} else {
			all = append(all, v)
		}
	}
	return all, errs
}

func TestAPipelineIsItsLoopsInARow(t *testing.T) {
	p, other := pools.New(t, pool.WithWorkers(2)), pools.New(t, pool.WithWorkers(3))
	for _, n := range []int{0, 1, 7, 1000} {
		for _, window := range []int{1, 8, 2000} {
			for _, within := range []time.Duration{0, time.Hour} {
				var ended bool
				stages := Stage(other, Stage(p, count(n, nil, &ended), window, double), 16, func(_ context.Context, i int) (string, error) {
					return fmt.Sprint(i), nil
				})
				batches, errs := collect(Batches(stages, 10, within))
				require.Empty(t, errs)
				require.True(t, ended)
				var want []string
				for i := range n {
					want = append(want, fmt.Sprint(2*i))
				}
				require.Equal(t, want, slices.Concat(batches...))
				for i, batch := range batches {
					require.True(t, len(batch) == 10 || i == len(batches)-1 && len(batch) > 0)
				}
			}
		}
	}
}

// TestTheFirstErrorEndsAllStages: results and batches before it come, it comes once, and nothing comes after it.
func TestTheFirstErrorEndsAllStages(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	boom := errors.New("boom")
	failAt := func(at int) func(context.Context, int) (int, error) {
		return func(_ context.Context, i int) (int, error) {
			if i == at {
				return 0, boom
			}
			return i, nil
		}
	}
	for _, within := range []time.Duration{0, time.Hour} {
		for name, stages := range map[string]func(values iter.Seq2[int, error]) iter.Seq2[int, error]{
			"first": func(v iter.Seq2[int, error]) iter.Seq2[int, error] {
				return Stage(p, Stage(p, v, 4, failAt(25)), 4, failAt(-1))
			},
			"second": func(v iter.Seq2[int, error]) iter.Seq2[int, error] {
				return Stage(p, Stage(p, v, 4, failAt(-1)), 4, failAt(25))
			},
		} {
			var ended bool
			batches, errs := collect(Batches(stages(count(1000, nil, &ended)), 10, within))
			require.Equal(t, []error{boom}, errs, name)
			require.True(t, ended, name)
			require.Len(t, slices.Concat(batches...), 25, name)
		}
		var ended bool
		batches, errs := collect(Batches(Stage(p, count(25, boom, &ended), 4, double), 10, within))
		require.Equal(t, []error{boom}, errs)
		require.Len(t, slices.Concat(batches...), 25)
	}
}

func TestWhoLeavesTheLoopEndsAllStages(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	goroutines := runtime.NumGoroutine()
	for _, within := range []time.Duration{0, time.Hour} {
		for stop := range 4 {
			var ended bool
			got := 0
			for range Batches(Stage(p, Stage(p, count(1e9, nil, &ended), 4, double), 4, double), 10, within) {
				if got++; got > stop {
					break
				}
			}
			require.True(t, ended)
		}
	}
	testutil.NoMoreGoroutines(t, goroutines+p.Workers()+core.Spares+1) // with that of the pool for its network
}

func TestTheEndOfAContextEndsThePipeline(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(background)
	defer cancel(nil)
	var ended bool
	endless := Stage(p, Stage(p.With(ctx), count(1e9, nil, &ended), 4, double), 4, double)
	got := 0
	var last error
	for _, err := range endless {
		if got++; got == 10 {
			cancel(why)
		}
		last = err
	}
	require.ErrorIs(t, last, why)
	require.True(t, ended)
}

// TestABatchThatIsNotFullComesInTime with values of a sequence that waits 30 ms for each.
func TestABatchThatIsNotFullComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(yield func(int, error) bool) {
			for i := range 7 {
				time.Sleep(30 * time.Millisecond)
				if !yield(i, nil) {
					return
				}
			}
		}
		start := time.Now()
		var at []time.Duration
		var batches [][]int
		for batch, err := range Batches(slow, 3, 50*time.Millisecond) {
			require.NoError(t, err)
			batches, at = append(batches, batch), append(at, time.Since(start)/time.Millisecond)
		}
		require.Equal(t, [][]int{{0, 1}, {2, 3}, {4, 5}, {6}}, batches)
		require.Equal(t, []time.Duration{80, 140, 200, 210}, at)
	})
}

func TestAPanicOfTheSequenceContinuesInTheCaller(t *testing.T) {
	for _, within := range []time.Duration{0, time.Hour} {
		ended := false
		source := func(yield func(int, error) bool) {
			defer func() { ended = true }()
			yield(1, nil)
			panic("source")
		}
		require.Equal(t, "source", testutil.Caught(func() { collect(Batches(source, 10, within)) }))
		require.True(t, ended)
		require.Equal(t, "body", testutil.Caught(func() {
			for range Batches(count(10, nil, &ended), 2, within) {
				panic("body")
			}
		}))

		over := make(chan bool)
		go func() {
			defer close(over)
			collect(Batches(func(yield func(int, error) bool) { runtime.Goexit() }, 10, within))
			over <- true
		}()
		require.False(t, <-over, "Goexit ends the caller, too")
	}
}

// TestWhoLeavesBatchesEndsTheSequence at the value after the last one that was taken, and the sequence's panic as it ends arrives.
func TestWhoLeavesBatchesEndsTheSequence(t *testing.T) {
	for range testutil.Stress(200) {
		produced := 0
		values := func(yield func(int, error) bool) {
			defer panic("as it ends")
			for produced < 3 && yield(produced, nil) {
				produced++
			}
		}
		require.Equal(t, "as it ends", testutil.Caught(func() {
			for range Batches(values, 1, time.Hour) {
				break
			}
		}))
		require.LessOrEqual(t, produced, 1)
	}
}

func TestMisuseIsAnError(t *testing.T) {
	var ended bool
	for want, values := range map[string]iter.Seq2[[]int, error]{
		"pipeline: Batches was given a nil sequence":                                        Batches[int](nil, 1, 0),
		"pipeline: Batches was given batches of 0 values; they have at least 1":             Batches(count(1, nil, &ended), 0, 0),
		"pipeline: Batches was given the time -1ns; it must be positive, or 0 for no bound": Batches(count(1, nil, &ended), 1, -1),
		"pipeline: Stage was given a nil sequence":                                          Batches(Stage(pool.Serial(), nil, 1, double), 1, 0),
		"pipeline: Stage was given a nil function":                                          Batches(Stage[int, int](pool.Serial(), count(1, nil, &ended), 1, nil), 1, 0),
		"pipeline: Stage was given a window of 0 values; it must be 1 or more":              Batches(Stage(pool.Serial(), count(1, nil, &ended), 0, double), 1, 0),
	} {
		batches, errs := collect(values)
		require.Empty(t, batches)
		require.Len(t, errs, 1)
		require.EqualError(t, errs[0], want)
	}
}
