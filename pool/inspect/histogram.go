package inspect

import (
	"fmt"
	"time"
)

// Timings are how long tasks waited and ran, in a pool with WithTimings.
type Timings struct {
	Wait Histogram // from the moment at which a task was queued to its beginning; of one task in 16
	Run  Histogram // from a task's beginning to its end, waits included; of all tasks that a worker came to, skipped ones too
}

// Histogram counts durations in buckets that are an eighth of a power of two wide, so each is known to 12.5%:
// log-linear, as HdrHistogram's.
type Histogram struct {
	Buckets []Bucket // those that are not empty, the shortest durations first
	Count   uint64
	Sum     time.Duration // as exact as the buckets are
}

// Bucket counts durations that are no longer than UpTo, and longer than the UpTo of the bucket before.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Quantile returns the duration that a share q of all durations, from 0 to 1, did not exceed; 0 if there are none.
func (h Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	left := q * float64(h.Count)
	for _, b := range h.Buckets {
		if left -= float64(b.Count); left <= 0 {
			return b.UpTo
		}
	}
	return h.Buckets[len(h.Buckets)-1].UpTo
}

// Max returns the longest duration.
func (h Histogram) Max() time.Duration { return h.Quantile(1) }

// String returns the histogram in a line.
func (h Histogram) String() string {
	if h.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: p50 %v, p90 %v, p99 %v, p99.9 %v, max %v", h.Count,
		Short(h.Quantile(0.5)), Short(h.Quantile(0.9)), Short(h.Quantile(0.99)), Short(h.Quantile(0.999)), Short(h.Max()))
}
