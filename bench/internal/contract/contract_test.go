package contract_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
)

func TestLinesHaveTheContractsShape(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, contract.Encode(&out, contract.Line{
		Suite: "forkjoin", Case: "fib35", Impl: "heist-recursive", Workers: 1,
		Metric: "ns/fork", Better: contract.Lower,
	}.Over([]float64{5.2, 4.8, 4.9000001})))
	require.NoError(t, contract.Encode(&out, contract.Ratio{
		Suite: "forkjoin", Case: "fib35", Workers: 1, Metric: "ns/fork", RatioTo: "rayon",
		Impl: "heist-recursive", Ratio: 0.49, Min: 0.47, Max: 0.52,
	}))
	assert.Equal(t, `{"suite":"forkjoin","case":"fib35","impl":"heist-recursive","workers":1,`+
		`"metric":"ns/fork","value":4.9,"min":4.8,"max":5.2,"runs":3,"better":"lower","peer":false,"samples":[5.2,4.8,4.9]}
{"suite":"forkjoin","case":"fib35","workers":1,"metric":"ns/fork","ratio_to":"rayon",`+
		`"impl":"heist-recursive","ratio":0.49,"ratio_min":0.47,"ratio_max":0.52}
`, out.String())
}

func TestSummarise(t *testing.T) {
	assert.Equal(t, contract.Spread{Median: 2, Min: 1, Max: 9}, contract.Summarise([]float64{9, 1, 2}))
	assert.Equal(t, contract.Spread{Median: 2.5, Min: 1, Max: 9}, contract.Summarise([]float64{9, 1, 2, 3}))
	assert.Equal(t, 3.1416, contract.Summarise([]float64{3.14159265}).Median)
	assert.Equal(t, 123460.0, contract.Summarise([]float64{123456}).Median)
}

func TestRatioBelowOneMeansHeistIsBetter(t *testing.T) {
	half, ok := contract.Compare([]float64{5}, []float64{10}, contract.Lower)
	require.True(t, ok)
	assert.Equal(t, 0.5, half.Median, "half the time is better")

	half, ok = contract.Compare([]float64{10}, []float64{5}, contract.Higher)
	require.True(t, ok)
	assert.Equal(t, 0.5, half.Median, "twice the rate is better")

	assert.True(t, contract.Lower.Beats(1, 2))
	assert.True(t, contract.Higher.Beats(2, 1))
}

// The second round is ten times slower for both: within the pair the ratio does
// not change, where a ratio of medians or of least values would.
func TestRatioIsTakenWithinThePair(t *testing.T) {
	s, ok := contract.Compare([]float64{1, 20, 3}, []float64{2, 40, 4}, contract.Lower)
	require.True(t, ok)
	assert.Equal(t, contract.Spread{Median: 0.5, Min: 0.5, Max: 0.75}, s)
}

func TestRatioOfZeros(t *testing.T) {
	s, ok := contract.Compare([]float64{0, 0}, []float64{0, 2}, contract.Lower)
	require.True(t, ok)
	assert.Equal(t, contract.Spread{Median: 0.5, Min: 0, Max: 1}, s)

	_, ok = contract.Compare([]float64{1}, []float64{0}, contract.Lower)
	assert.False(t, ok, "nothing can be said about a share of zero")
	_, ok = contract.Compare(nil, nil, contract.Lower)
	assert.False(t, ok)
}
