package page

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
)

func outcome(workers int, better contract.Better, series map[string][]float64) runner.Outcome {
	o := runner.Outcome{Suite: "forkjoin", Workers: workers, Case: runner.Case{Name: "one", Metrics: []contract.Metric{{Name: "figure", Better: better}}}}
	for _, name := range []string{"heist", "go"} {
		s := runner.Series{Impl: runner.Impl{Name: name}}
		for _, v := range series[name] {
			s.Samples = append(s.Samples, runner.Sample{Values: []float64{v}})
		}
		if s.Samples != nil {
			o.Series = append(o.Series, s)
		}
	}
	return o
}

func TestSpeedUpIsOfAnImplementationAgainstItself(t *testing.T) {
	one := outcome(1, contract.Lower, map[string][]float64{"heist": {8, 10, 12}, "go": {100}})
	many := outcome(4, contract.Lower, map[string][]float64{"heist": {2, 2.5, 4}, "go": {50}})
	all := speedups([]runner.Outcome{one, many}, many)
	require.Len(t, all, 2)
	require.Equal(t, bar{"heist", 4, 2, 6, ours, "4.00x"}, all[0])
	require.Equal(t, 2.0, all[1].mid)
	require.Empty(t, speedups([]runner.Outcome{one, many}, one), "nothing to compare with")
	require.Empty(t, speedups([]runner.Outcome{many}, many), "not measured with one")

	one = outcome(1, contract.Higher, map[string][]float64{"heist": {10}})
	many = outcome(4, contract.Higher, map[string][]float64{"heist": {30}})
	require.Equal(t, 3.0, speedups([]runner.Outcome{one, many}, many)[0].mid, "of a rate")
}

func TestVerdictsAreByTheSameRuleAsTheStory(t *testing.T) {
	var scores []report.Score
	for _, ratio := range []float64{0.5, 0.98, 0.99, 1.02, 1.03} {
		scores = append(scores, report.Score{Case: "one", Ratio: ratio, Min: ratio, Max: ratio})
	}
	all, counts := verdicts(scores)
	require.Equal(t, []string{won, won, evenly, evenly, lost}, []string{all[0].class, all[1].class, all[2].class, all[3].class, all[4].class})
	require.Equal(t, map[string]int{won: 2, evenly: 2, lost: 1}, counts)
}

func TestPercentilesStandAtTheirNines(t *testing.T) {
	require.Zero(t, nines(0, 1000))
	require.InDelta(t, 1, nines(90, 1000), 1e-9)
	require.InDelta(t, 3, nines(99.9, 10_000), 1e-9)
	require.InDelta(t, 3, nines(100, 1000), 1e-9, "a thousand tell no more than 99.9%")

	h := hdrhistogram.New(1, int64(time.Minute), 3)
	for i := range 1000 {
		require.NoError(t, h.RecordValue(int64(i)*1000))
	}
	points := percentiles(h)
	last := points[len(points)-1]
	require.InDelta(t, 3, last.X, 1e-9)
	require.InEpsilon(t, 999, last.Y, 0.001)
	for i, at := range points {
		require.Positive(t, at.Y, "on a log axis")
		if i > 0 {
			require.GreaterOrEqual(t, at.X, points[i-1].X)
			require.GreaterOrEqual(t, at.Y, points[i-1].Y)
		}
	}
}

func TestHistogramsOfAllRunsAreOne(t *testing.T) {
	encoded := func(values ...int64) runner.Sample {
		h := hdrhistogram.New(1, int64(time.Minute), 3)
		for _, v := range values {
			require.NoError(t, h.RecordValue(v))
		}
		bytes, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		require.NoError(t, err)
		return runner.Sample{Values: []float64{1}, Histograms: []runner.Histogram{{Of: "start", Encoded: bytes}}}
	}
	o := outcome(2, contract.Lower, map[string][]float64{"go": {1}}) // which has none
	o.Series = append(o.Series, runner.Series{Impl: runner.Impl{Name: "heist"}, Samples: []runner.Sample{encoded(5, 70_000), encoded(int64(time.Minute))}})
	_, merged, err := o.Series[1].Histograms()
	require.NoError(t, err)
	require.EqualValues(t, 3, merged[0].TotalCount())
	require.InEpsilon(t, int64(time.Minute), merged[0].Max(), 0.001)

	curves, order, err := curvesOf(o)
	require.NoError(t, err)
	require.Equal(t, []string{"start"}, order)
	require.Len(t, curves["start"], 1)
	require.Equal(t, "heist", curves["start"][0].label)

	o.Series[1].Samples[0].Histograms[0].Encoded = []byte("x")
	_, _, err = curvesOf(o)
	require.ErrorContains(t, err, "heist")
}

func TestScalesShowTheLeastAndKeepTheOrder(t *testing.T) {
	near := []bar{{mid: 1, min: 1, max: 2}, {mid: 20, min: 10, max: 30}}
	require.Nil(t, scaleFor(near).ticks, "linear")
	far := []bar{{mid: 0.3, min: 0.2, max: 0.4}, {mid: 100, min: 10, max: 3000}, {mid: 0}}
	s := scaleFor(far)
	require.Zero(t, s.place(0))
	require.Positive(t, s.place(0.2))
	require.Less(t, s.place(0.3), s.place(100))
	require.Equal(t, "0.100", s.ticks[0].Label)
	require.GreaterOrEqual(t, s.ticks[len(s.ticks)-1].Value, s.place(3000))

	s = ratios([]bar{{mid: 0.5, min: 0.2, max: 1}, {mid: 3, min: 0, max: 4}})
	require.Zero(t, s.place(1))
	require.InDelta(t, -s.place(4), s.place(0.25), 1e-9)
	require.False(t, math.IsInf(s.place(0), 0))
}

func TestMatrixHasTheFirstThiefOnTop(t *testing.T) {
	picture := string(drawMatrix("steals", [][]uint64{{0, 1, 2}, {3, 0, 4}, {5, 6, 0}}))
	require.Regexp(t, `(?s)>1</text>.*>2</text>.*>3</text>.*>4</text>.*>5</text>.*>6</text>`, picture)
	require.Equal(t, 3, strings.Count(picture, `class="nobody"`))
	require.NotEmpty(t, drawMatrix("none", [][]uint64{{0, 0}, {0, 0}}))
}

func TestEvenTicksCoverTheAxis(t *testing.T) {
	for most, want := range map[float64]int{1: 3, 1.9: 4, 4.9: 5, 9: 5, 0.3: 4, 100: 3, 0: 1} {
		ticks := evenTicks(most)
		require.Len(t, ticks, want, "%v: %v", most, ticks)
		require.LessOrEqual(t, ticks[len(ticks)-1].Value, most*1.001)
	}
}
