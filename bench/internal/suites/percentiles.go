package suites

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// durations counts durations in a histogram that is exact to a thousandth, from a
// nanosecond to a minute. One goroutine may use it at a time.
type durations struct{ histogram *hdrhistogram.Histogram }

const longestDuration = time.Minute

func newDurations() durations {
	return durations{hdrhistogram.New(1, int64(longestDuration), 3)}
}

// note counts d. What lies outside of the histogram counts as its nearest end.
func (d durations) note(took time.Duration) {
	// Within these bounds there is no error.
	_ = d.histogram.RecordValue(int64(min(max(took, 0), longestDuration)))
}

// count returns how many durations were noted.
func (d durations) count() int { return int(d.histogram.TotalCount()) }

// micros returns percentiles in microseconds: for 99 the least duration that 99 of a
// hundred do not exceed. Of few durations a high percentile is the longest.
func (d durations) micros(percentiles ...float64) []float64 {
	values := make([]float64, len(percentiles))
	for i, p := range percentiles {
		values[i] = float64(d.histogram.ValueAtPercentile(p)) / 1e3
	}
	return values
}
