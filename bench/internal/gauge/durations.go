// Package gauge holds what the suites measure with: histograms of durations, the CPU time of the process, and
// computations of a known length.
package gauge

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed53057037/heist/bench/internal/runner"
)

// Durations counts durations in a histogram that is exact to a thousandth, from a
// nanosecond to a minute. One goroutine may use it at a time.
type Durations struct{ histogram *hdrhistogram.Histogram }

const longestDuration = time.Minute

// NewDurations returns an empty histogram.
func NewDurations() Durations {
	return Durations{hdrhistogram.New(1, int64(longestDuration), 3)}
}

// Note counts a duration. One outside of the histogram counts as its nearest end.
func (d Durations) Note(took time.Duration) {
	// Within these bounds there is no error.
	_ = d.histogram.RecordValue(int64(min(max(took, 0), longestDuration)))
}

// Count returns how many durations were noted.
func (d Durations) Count() int { return int(d.histogram.TotalCount()) }

// As returns the histogram for a plot.
func (d Durations) As(of string) (runner.Histogram, error) {
	encoded, err := d.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return runner.Histogram{Of: of, Encoded: encoded}, err
}

// Sample is a run with these values, taken from the histogram.
func (d Durations) Sample(of string, values []float64) (runner.Sample, error) {
	h, err := d.As(of)
	return runner.Sample{Values: values, Histograms: []runner.Histogram{h}}, err
}

// Micros returns percentiles in microseconds: for 99 the least duration that 99 of a
// hundred do not exceed. Among few durations a high percentile is the longest one.
func (d Durations) Micros(percentiles ...float64) []float64 {
	values := make([]float64, len(percentiles))
	for i, p := range percentiles {
		values[i] = float64(d.histogram.ValueAtPercentile(p)) / 1e3
	}
	return values
}
