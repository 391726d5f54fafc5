package suites

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed53057037/heist/bench/internal/runner"
)

// durations counts durations in a histogram that is exact to a thousandth, from a
// nanosecond to a minute. One goroutine may use it at a time.
type durations struct{ histogram *hdrhistogram.Histogram }

const longestDuration = time.Minute

func newDurations() durations {
	return durations{hdrhistogram.New(1, int64(longestDuration), 3)}
}

// note counts a duration. One outside of the histogram counts as its nearest end.
func (d durations) note(took time.Duration) {
	// Within these bounds there is no error.
	_ = d.histogram.RecordValue(int64(min(max(took, 0), longestDuration)))
}

// count returns how many durations were noted.
func (d durations) count() int { return int(d.histogram.TotalCount()) }

// as returns the histogram for a plot.
func (d durations) as(of string) (runner.Histogram, error) {
	encoded, err := d.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return runner.Histogram{Of: of, Encoded: encoded}, err
}

// sample is a run with these values, taken from the histogram.
func (d durations) sample(of string, values []float64) (runner.Sample, error) {
	h, err := d.as(of)
	return runner.Sample{Values: values, Histograms: []runner.Histogram{h}}, err
}

// micros returns percentiles in microseconds: for 99 the least duration that 99 of a
// hundred do not exceed. Among few durations a high percentile is the longest one.
func (d durations) micros(percentiles ...float64) []float64 {
	values := make([]float64, len(percentiles))
	for i, p := range percentiles {
		values[i] = float64(d.histogram.ValueAtPercentile(p)) / 1e3
	}
	return values
}
