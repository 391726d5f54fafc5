package runner

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// Outcome is a case, measured with one number of workers.
type Outcome struct {
	Suite   string
	Case    Case
	Workers int
	Series  []Series
	Line    float64 // what a cache line takes from CPU to CPU, ns; 0 if that is not known, or does not matter
}

// With returns the series that have a value for the case's i-th metric.
func (o Outcome) With(i int) []Series {
	var with []Series
	for _, s := range o.Series {
		if s.Has(i) {
			with = append(with, s)
		}
	}
	return with
}

// Best returns the heist implementation with the best median of the case's i-th
// metric. Ok is false if no implementation of heist's was measured.
func (o Outcome) Best(i int) (best Series, ok bool) {
	better := o.Case.Metrics[i].Better
	var record float64
	for _, s := range o.With(i) {
		if s.Impl.Peer() {
			continue
		}
		median := contract.Summarise(s.Metric(i)).Median
		if !ok || better.Beats(median, record) {
			best, record, ok = s, median, true
		}
	}
	return best, ok
}

// Find returns the series of the implementation with this name.
func (o Outcome) Find(name string) (s Series, ok bool) {
	for _, s := range o.Series {
		if s.Impl.Name == name {
			return s, true
		}
	}
	return Series{}, false
}

// Lines returns one line per metric and implementation, and then the extra figures.
func (o Outcome) Lines() []contract.Line {
	var lines []contract.Line
	add := func(s Series, m contract.Metric, values []float64) {
		lines = append(lines, contract.Line{
			Suite: o.Suite, Case: o.Case.Name, Impl: s.Impl.Name, Workers: o.Workers,
			Metric: m.Name, Better: m.Better, Peer: s.Impl.Peer(),
		}.Over(values))
	}
	for i, m := range o.Case.Metrics {
		for _, s := range o.With(i) {
			add(s, m, s.Metric(i))
		}
	}
	for _, s := range o.Series {
		for i, extra := range s.Samples[0].Extra {
			values := make([]float64, len(s.Samples))
			for round, sample := range s.Samples {
				values[round] = sample.Extra[i].Value
			}
			add(s, contract.Metric{Name: extra.Metric, Better: contract.Lower}, values)
		}
	}
	return lines
}

// Ratio compares heist's implementation with a peer in the case's i-th metric.
func (o Outcome) Ratio(i int, ours, theirs Series) (r contract.Ratio, ok bool) {
	m := o.Case.Metrics[i]
	spread, ok := contract.Compare(ours.Metric(i), theirs.Metric(i), m.Better)
	return contract.Ratio{
		Suite: o.Suite, Case: o.Case.Name, Workers: o.Workers, Metric: m.Name,
		RatioTo: theirs.Impl.Name, Impl: ours.Impl.Name,
		Ratio: spread.Median, Min: spread.Min, Max: spread.Max,
	}, ok
}

// Worst is the ratio of heist's implementation to the peer that does best in the case's i-th metric. A case's floor is no peer.
func (o Outcome) Worst(i int, ours Series) (worst contract.Ratio) {
	for _, s := range o.With(i) {
		if !s.Impl.Peer() || s.Impl.Name == o.Case.Floor {
			continue
		}
		if r, ok := o.Ratio(i, ours, s); ok && r.Ratio > worst.Ratio {
			worst = r
		}
	}
	return worst
}

// Ratios returns one ratio per metric and peer. There is none if the peer's figure
// is zero and heist's is not; a note says so.
func (o Outcome) Ratios() (ratios []contract.Ratio, notes []string) {
	for i, m := range o.Case.Metrics {
		best, ok := o.Best(i)
		if !ok {
			continue
		}
		for _, s := range o.With(i) {
			if !s.Impl.Peer() {
				continue
			}
			r, ok := o.Ratio(i, best, s)
			if !ok {
				notes = append(notes, fmt.Sprintf("%s/%s: no ratio of %s to %s in %s: a share of zero",
					o.Suite, o.Case.Name, best.Impl.Name, s.Impl.Name, m.Name))
				continue
			}
			ratios = append(ratios, r)
		}
	}
	return ratios, notes
}

// Typical returns the sample whose first value is nearest to the median. Its
// details stand for all runs.
func (s Series) Typical() Sample {
	first := s.Metric(0)
	median := contract.Summarise(first).Median
	typical, distance := Sample{}, math.Inf(1)
	for i, v := range first {
		if d := math.Abs(v - median); d < distance {
			typical, distance = s.Samples[i], d
		}
	}
	return typical
}

// Histograms returns the histograms of the series, in nanoseconds, each merged over all runs, and what each measures.
// Programs in other languages have none.
func (s Series) Histograms() (of []string, merged []*hdrhistogram.Histogram, err error) {
	for i, first := range s.Samples[0].Histograms {
		var sum *hdrhistogram.Histogram
		for _, sample := range s.Samples {
			h, err := hdrhistogram.Decode(sample.Histograms[i].Encoded)
			if err != nil {
				return nil, nil, fmt.Errorf("the histogram of %s: %w", s.Impl.Name, err)
			}
			if sum == nil {
				sum = h
			} else {
				sum.Merge(h)
			}
		}
		of, merged = append(of, first.Of), append(merged, sum)
	}
	return of, merged, nil
}
