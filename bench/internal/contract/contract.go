// Package contract holds the two kinds of line that the benchmark prints with
// -json, one object per line, and the arithmetic behind them. Programs outside
// this repository read these lines and keep them for years, so names, order and
// meaning of the fields do not change.
package contract

import (
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/montanaflynn/stats"
)

// Better says in which direction a metric improves.
type Better string

// The two directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Metric is a quantity that a case measures. Its name ends in its unit.
type Metric struct {
	Name   string
	Better Better
}

// Line is what one implementation reached in one case: the median of its runs,
// the least and the greatest. Samples are the single runs; older lines lack them.
type Line struct {
	Suite   string  `json:"suite"`
	Case    string  `json:"case"`
	Impl    string  `json:"impl"`
	Workers int     `json:"workers"`
	Metric  string  `json:"metric"`
	Value   float64 `json:"value"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Runs    int     `json:"runs"`
	Better  Better  `json:"better"`
	Peer    bool    `json:"peer"`

	Samples []float64 `json:"samples,omitempty"`
}

// Over returns the line with the figures of a series, one value for each run. The series must not be empty.
func (l Line) Over(series []float64) Line {
	spread := Summarise(series)
	l.Value, l.Min, l.Max, l.Runs = spread.Median, spread.Min, spread.Max, len(series)
	l.Samples = make([]float64, len(series))
	for i, v := range series {
		l.Samples[i] = round(v)
	}
	return l
}

// Ratio compares heist's best implementation, Impl, with the peer RatioTo. Below
// 1 heist is better, whatever the direction of the metric.
type Ratio struct {
	Suite   string  `json:"suite"`
	Case    string  `json:"case"`
	Workers int     `json:"workers"`
	Metric  string  `json:"metric"`
	RatioTo string  `json:"ratio_to"`
	Impl    string  `json:"impl"`
	Ratio   float64 `json:"ratio"`
	Min     float64 `json:"ratio_min"`
	Max     float64 `json:"ratio_max"`
}

// Encode writes v, a Line or a Ratio, as one line of JSON.
func Encode(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// Spread is a series of measurements in three numbers, each with five significant
// digits: more than any of them deserves, and few enough to read.
type Spread struct{ Median, Min, Max float64 }

// Summarise returns the spread of a series that is not empty.
func Summarise(series []float64) Spread {
	// The library's only error here is an empty series, for which it also returns
	// NaN: a mistake of the caller's, which shows as such.
	median, _ := stats.Median(series)
	least, _ := stats.Min(series)
	most, _ := stats.Max(series)
	return Spread{round(median), round(least), round(most)}
}

// Compare returns the spread of the ratio of two series that were measured in turn, pair
// by pair: the first of ours to the first of theirs, and so on. A moment in which the
// machine is slow slows down both halves of a pair and leaves their ratio alone.
//
// Two zeros are equal, hence 1. Where only the divisor is zero there is no ratio,
// and ok is false.
func Compare(ours, theirs []float64, better Better) (s Spread, ok bool) {
	ratios := make([]float64, 0, len(ours))
	for i := range min(len(ours), len(theirs)) {
		a, b := ours[i], theirs[i]
		if better == Higher {
			a, b = b, a
		}
		switch {
		case a == b:
			ratios = append(ratios, 1)
		case b == 0:
			return Spread{}, false
		default:
			ratios = append(ratios, a/b)
		}
	}
	if len(ratios) == 0 {
		return Spread{}, false
	}
	return Summarise(ratios), true
}

// Beats says whether x is a better figure than y.
func (b Better) Beats(x, y float64) bool {
	if b == Higher {
		return x > y
	}
	return x < y
}

func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	if err != nil {
		return v
	}
	return r
}
