package suites

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/runner"
)

func TestLadderFindsALeafThatIsMissing(t *testing.T) {
	var l ladder
	for range 3 {
		require.NoError(t, l.climb(ladderSerial))
		require.NoError(t, l.climb(ladderGo))
	}
	assert.Positive(t, l.down)
	assert.Positive(t, l.up)
	short := func(r rung) int { return ladderSerial(rung{r.ladder, r.n - 1}) }
	assert.EqualError(t, l.climb(short), "gave 127 for the leaves of a ladder, expected 128")
}

func TestASpreeIsFromTheFirstLeafToTheLast(t *testing.T) {
	var s spree
	assert.Equal(t, rungs, ladderSerial(rung{&ladder{leaf: s.leaf}, rungs}))
	assert.True(t, s.over.Load())
	assert.GreaterOrEqual(t, s.last, s.first)
	assert.NotZero(t, s.first)
}

func TestVolleyFindsAForkThatDidNotRun(t *testing.T) {
	env := runner.Env{Tiny: true}
	_, err := volley(env, func(f func(func(half) int)) error {
		f(func(h half) int { return h.land() })
		return nil
	})
	require.NoError(t, err)
	_, err = volley(env, func(f func(func(half) int)) error {
		f(func(h half) int { h.land(); return 0 })
		return nil
	})
	assert.EqualError(t, err, "gave 0 for the forks that ran, expected 22")
	_, err = volley(env, func(func(func(half) int)) error { return assert.AnError })
	assert.ErrorIs(t, err, assert.AnError)
}

func TestAlarmsAskWhoeverIsWoken(t *testing.T) {
	env := runner.Env{Tiny: true, Time: time.Millisecond}
	for _, start := range []bed{futexBed, func(_ runner.Env, awake func()) (func() error, func(), error) {
		return func() error { awake(); return nil }, func() {}, nil
	}} {
		s, err := alarms(env, start)
		require.NoError(t, err)
		assert.Len(t, s.Values, len(wakeMetrics))
	}
	_, err := alarms(env, func(runner.Env, func()) (func() error, func(), error) {
		return func() error { return assert.AnError }, func() {}, nil
	})
	assert.ErrorIs(t, err, assert.AnError)
}
