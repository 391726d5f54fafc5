package suites

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

func TestLoopsFindItemsLeftOut(t *testing.T) {
	whole := func(n int, b body) error { b.items(0, n); return nil }
	short := func(n int, b body) error { b.items(0, n-1); return nil }
	single := func(n int, b body) error {
		for i := range n {
			b.item(i)
		}
		return nil
	}
	failing := func(int, body) error { return assert.AnError }
	env := runner.Env{Tiny: true, Time: 1}
	small := affine{n: 62, least: 3, batch: 2, pause: time.Microsecond}
	for name, run := range map[string]func(runner.Env, looping) runner.Run{
		"affine":     small.run,
		"triangular": func(env runner.Env, loop looping) runner.Run { return triangular(env, loop) },
	} {
		for _, loop := range []looping{whole, single} {
			s, err := run(env, loop)()
			require.NoError(t, err, name)
			assert.Positive(t, s.Values[0], name)
		}
		_, err := run(env, failing)()
		require.ErrorIs(t, err, assert.AnError, name)
	}
	_, err := small.run(env, short)()
	assert.ErrorContains(t, err, "an item of the loop")
	_, err = triangular(env, func(n int, b body) error { b.items(1, n); return nil })()
	assert.ErrorContains(t, err, "an item of the loop")
}

func TestHotCallsAreTimedTogether(t *testing.T) {
	calls := 0
	median, err := affine{least: 4, batch: 10}.median(0, func() error {
		calls++
		time.Sleep(10 * time.Microsecond)
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, (2+4)*10, calls)
	assert.GreaterOrEqual(t, median, 10e3)
}

func TestDividedLeavesNothingOut(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 7} {
		done := make([]int, 5)
		divided(workers, len(done), body{items: func(lo, hi int) {
			for i := lo; i < hi; i++ {
				done[i]++
			}
		}})
		assert.Equal(t, []int{1, 1, 1, 1, 1}, done, "%d workers", workers)
	}
}

func TestPairsCheckFindsWhatIsWrong(t *testing.T) {
	input := []pair{{5, 0}, {3, 1}, {5, 2}, {4, 3}}
	stable := slices.SortedStableFunc(slices.Values(input), byKey)
	swapped := slices.Clone(stable)
	swapped[2], swapped[3] = swapped[3], swapped[2]
	assert.NoError(t, checkPairs(input, stable, true))
	assert.NoError(t, checkPairs(input, swapped, false))
	assert.ErrorContains(t, checkPairs(input, swapped, true), "out of order")
	assert.ErrorContains(t, checkPairs(input, input, false), "out of order")
	doubled := slices.Clone(stable)
	doubled[3] = doubled[2]
	assert.ErrorContains(t, checkPairs(input, doubled, false), "not the input's")
}

func TestSameElements(t *testing.T) {
	check := sameElements([]int64{1, 2})
	assert.NoError(t, check([]int64{1, 2}))
	assert.ErrorContains(t, check([]int64{1}), "the number of elements")
	assert.ErrorContains(t, check([]int64{1, 3}), "an element")
}

func TestLanesFindsLostAndDoubledTasks(t *testing.T) {
	l := lanes{rounds: 1, answer: gauge.Busy(1)}
	env := runner.Env{Workers: 3, Tiny: true}
	all := func(r *lanesRun) error {
		for lane, tasks := range laneTasks {
			for task := range tasks {
				r.task(task%3, lane%3, lane, task)
			}
		}
		return nil
	}
	got, err := l.lap(env, all)
	require.NoError(t, err)
	assert.Contains(t, got.Detail, "Worker 2: [")
	assert.Contains(t, got.Detail, "250 tasks, ")

	_, err = l.lap(env, func(r *lanesRun) error { _ = all(r); r.task(0, 0, 1, 7); return nil })
	assert.EqualError(t, err, "gave 749 for the number of tasks done once, expected 750")
	_, err = l.lap(env, func(*lanesRun) error { return nil })
	assert.EqualError(t, err, "gave 0 for the number of tasks done once, expected 750")
}

func TestBar(t *testing.T) {
	assert.Equal(t, "==========~~~~~~~~~~                    ", bar(0.25, 0.25))
	assert.Equal(t, "========================================", bar(1.2, 0.3))
}

// TestInputsOfSorts holds what the inputs are that are not random.
func TestInputsOfSorts(t *testing.T) {
	const n = 16
	want := map[string][]int64{
		"sorted":     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		"reversed":   {16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1},
		"organ-pipe": {0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3, 2, 1},
		"killer":     {1, 9, 3, 11, 5, 13, 7, 15, 2, 4, 6, 8, 10, 12, 14, 16},
	}
	for _, in := range inputs {
		var got []int64
		for i := range n {
			got = append(got, in.key(i, n))
		}
		if w, ok := want[in.name]; ok {
			assert.Equal(t, w, got, in.name)
		}
	}
}

func TestSkynetInScopes(t *testing.T) {
	p, stop, err := newPool(runner.Env{Workers: 2})
	require.NoError(t, err)
	defer stop()
	require.NoError(t, p.Run(func(w *pool.Worker) {
		assert.Equal(t, 499_500, skynetPair(w, siblings{size: 1000, n: 1}))
		assert.Equal(t, 499_500, skynetScope(w, siblings{size: 1000, n: 1}))
	}))
}
