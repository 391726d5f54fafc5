package runner_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

var lowerIsBetter = []contract.Metric{{Name: "ns/op", Better: contract.Lower}, {Name: "allocs/op", Better: contract.Lower}}

// running is an implementation that calls f in each run, and has one value.
func running(name string, f func()) runner.Impl {
	return runner.Impl{Name: name, Start: func(runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) {
			f()
			return runner.Sample{Values: []float64{1}}, nil
		}, nil, nil
	}}
}

var held []byte

// TestPeakIsOfWhatRan, and not of what runs later.
func TestPeakIsOfWhatRan(t *testing.T) {
	f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("the system has no high-water mark that can be reset:", err)
	}
	require.NoError(t, f.Close())
	const size = 100 << 20
	c := runner.WithPeak(runner.Case{Name: "race", Metrics: lowerIsBetter, Impls: []runner.Impl{
		running("heist", func() {}),
		running("large", func() {
			held = make([]byte, size)
			for i := 0; i < size; i += 1024 {
				held[i] = 1
			}
			held = nil
		}),
	}})[0]
	out, err := runner.Measure(runner.Suite{}, c, 1, runner.Options{Runs: 1})
	require.NoError(t, err)
	require.Len(t, out.With(2), 2)
	small, large := out.Series[0].Metric(2), out.Series[1].Metric(2)
	for i := range large {
		assert.Positive(t, small[i])
		assert.GreaterOrEqual(t, large[i], small[i]+100)
	}
	assert.Empty(t, out.With(1), "values between that are missing are not there")
	assert.Len(t, out.Lines(), 4)
	ratios, notes := out.Ratios()
	assert.Len(t, ratios, 2)
	assert.Empty(t, notes)
}

func TestPeakOfAChildIsWhatItPrints(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(playChild, "right")
	child := runner.Child("rayon", lowerIsBetter[:1], func(runner.Env) ([]string, error) { return []string{program}, nil })
	c := runner.WithPeak(runner.Case{Metrics: lowerIsBetter, Impls: []runner.Impl{child}})[0]
	out, err := runner.Measure(runner.Suite{}, c, 2, runner.Options{Runs: 1})
	require.NoError(t, err)
	require.True(t, out.Series[0].Has(2))
	assert.False(t, out.Series[0].Has(1))
	assert.Equal(t, []float64{7}, out.Series[0].Metric(2))
}

// An implementation that is Alone tells its peak itself, or nobody does.
func TestPeakThatIsNotToldIsNoFailure(t *testing.T) {
	silent := running("heist", func() {})
	silent.Alone = true
	c := runner.WithPeak(runner.Case{Metrics: lowerIsBetter[:1], Impls: []runner.Impl{silent}})[0]
	out, err := runner.Measure(runner.Suite{}, c, 1, runner.Options{Runs: 2})
	require.NoError(t, err)
	assert.Len(t, out.Lines(), 1)
	assert.Len(t, out.With(0), 1)
	_, ok := out.Best(1)
	assert.False(t, ok)
}

func TestWithPeakLeavesSharedMetricsAlone(t *testing.T) {
	shared := lowerIsBetter[:1]
	c := runner.WithPeak(runner.Case{Metrics: shared})[0]
	assert.Equal(t, runner.PeakMB, c.Metrics[1].Name)
	assert.Equal(t, "allocs/op", lowerIsBetter[1].Name)
}
