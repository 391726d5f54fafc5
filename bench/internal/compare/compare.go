// Package compare tells the changes between two files of the contract's lines from noise.
package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/montanaflynn/stats"
	"golang.org/x/perf/benchmath"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// Key says what was measured.
type Key struct {
	Suite, Case, Impl string
	Workers           int
	Metric            string
}

// Name is the case's full name.
func (k Key) Name() string { return k.Suite + "/" + k.Case }

func (k Key) String() string {
	return fmt.Sprintf("%s %s, workers: %d, %s", k.Name(), k.Impl, k.Workers, k.Metric)
}

func (k Key) order(other Key) int {
	return cmp.Or(cmp.Compare(k.Suite, other.Suite), cmp.Compare(k.Case, other.Case), cmp.Compare(k.Impl, other.Impl),
		cmp.Compare(k.Workers, other.Workers), cmp.Compare(k.Metric, other.Metric))
}

// File is what a file holds.
type File map[Key]*Series

// Series is all samples that a file has of one key.
type Series struct {
	Better  contract.Better
	Peer    bool
	Samples []float64
	Runs    int // of the benchmark, each of which wrote a line
}

// Read reads a file of the contract's lines, of one run or of several. It skips ratios, which follow from the other
// lines, and the matrix of c2c, which has no samples.
func Read(name string) (File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := make(File)
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := f.add(line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, number, err)
		}
	}
	if len(f) == 0 {
		return nil, fmt.Errorf("%s: there are no lines of bench -json", name)
	}
	return f, nil
}

func (f File) add(text []byte) error {
	var line struct {
		contract.Line
		RatioTo string          `json:"ratio_to"`
		Value   *float64        `json:"value"`
		CPUs    json.RawMessage `json:"cpus"`
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("no line of bench -json: %w", err)
	}
	if line.RatioTo != "" || line.CPUs != nil {
		return nil
	}
	for _, field := range []struct {
		name  string
		there bool
	}{
		{"suite", line.Suite != ""}, {"case", line.Case != ""}, {"impl", line.Impl != ""}, {"metric", line.Metric != ""},
		{"value", line.Value != nil}, {"better", line.Better == contract.Lower || line.Better == contract.Higher},
	} {
		if !field.there {
			return fmt.Errorf("no line of bench -json: its %s is not given, or unknown", field.name)
		}
	}
	samples := line.Samples
	if len(samples) == 0 {
		samples = []float64{*line.Value}
	}
	key := Key{line.Suite, line.Case, line.Impl, line.Workers, line.Metric}
	s, ok := f[key]
	if !ok {
		s = &Series{Better: line.Better, Peer: line.Peer}
		f[key] = s
	}
	if s.Better != line.Better {
		return fmt.Errorf("%v: better is %s here and %s before", key, line.Better, s.Better)
	}
	s.Samples = append(s.Samples, samples...)
	s.Runs++
	return nil
}

// width is what a series is spread over: its range without a tenth of the samples at either end, lest the longer series be
// the wider one.
func (s *Series) width() float64 {
	sorted := slices.Sorted(slices.Values(s.Samples))
	cut := len(sorted) / 10
	return sorted[len(sorted)-1-cut] - sorted[cut]
}

// noise is the width of a typical series of the file, as a share of its median.
func (f File) noise() float64 {
	var shares []float64
	for _, s := range f {
		if median, _ := stats.Median(s.Samples); median != 0 {
			shares = append(shares, s.width()/math.Abs(median))
		}
	}
	if len(shares) == 0 {
		return 0
	}
	typical, _ := stats.Median(shares)
	return typical
}

// Peers returns the names of the peers.
func (f File) Peers() []string {
	var names []string
	for key, s := range f {
		if s.Peer {
			names = append(names, key.Impl)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Verdict says whether something changed.
type Verdict int

// The verdicts. A change within the noise is Same.
const (
	Same Verdict = iota
	Better
	Worse
)

// Row compares the two files' samples of a key.
type Row struct {
	Key
	Peer     bool
	Old, New benchmath.Summary
	Test     benchmath.Comparison
	Verdict  Verdict
}

// Change is the change of the median as a share of the old median; it is infinite if that was 0.
func (r Row) Change() float64 {
	if r.Old.Center == r.New.Center {
		return 0
	}
	return (r.New.Center - r.Old.Center) / math.Abs(r.Old.Center)
}

// Few says how many samples a change needs to show, if there are fewer.
func (r Row) Few() string {
	for _, warning := range r.Test.Warnings {
		if text := warning.Error(); strings.HasPrefix(text, "need ") {
			return text
		}
	}
	return ""
}

// Options say what is a change.
type Options struct {
	Alpha float64                // the greatest p of a change
	Least float64                // the least change, as a share of the old median
	Peers func(name string) bool // which peers are compared as well
}

// Result is the result of a comparison.
type Result struct {
	Rows               []Row
	OnlyOld, OnlyNew   []Key
	OldNoise, NewNoise float64 // what a typical series of the file is spread over, as a share of its median
}

// Confidence is the confidence of the intervals around medians.
const Confidence = 0.95

// Compare compares two files. A change is large enough, improbable by the Mann-Whitney test if nothing had changed, and
// beyond the noise.
//
// The test takes samples for independent, and those of one run are not: what slows the machine down for a minute slows
// down all samples of some series. Of 94 series of one program it called 18 to 44 changed between two runs on a machine
// with other load. So the medians must also differ by more than the widths of both series together, which left 0 or 1.
//
// A series of a single run does not tell how runs vary: the load may have met all of its samples, or none. There the
// medians must differ by more than the width that the typical series of the file would have with that median, too, which
// left none. Series that hardly vary are exempt: they count what does not depend on the load, such as allocations.
func Compare(older, newer File, o Options) Result {
	r := Result{OldNoise: older.noise(), NewNoise: newer.noise()}
	wanted := func(key Key, s *Series) bool { return !s.Peer || o.Peers != nil && o.Peers(key.Impl) }
	thresholds := benchmath.DefaultThresholds
	thresholds.CompareAlpha = o.Alpha
	for key, was := range older {
		is, ok := newer[key]
		switch {
		case !wanted(key, was):
		case !ok:
			r.OnlyOld = append(r.OnlyOld, key)
		default:
			r.Rows = append(r.Rows, r.compare(key, was, is, o, &thresholds))
		}
	}
	for key, is := range newer {
		if _, ok := older[key]; !ok && wanted(key, is) {
			r.OnlyNew = append(r.OnlyNew, key)
		}
	}
	slices.SortFunc(r.Rows, func(a, b Row) int { return a.order(b.Key) })
	slices.SortFunc(r.OnlyOld, Key.order)
	slices.SortFunc(r.OnlyNew, Key.order)
	return r
}

func (r Result) compare(key Key, was, is *Series, o Options, thresholds *benchmath.Thresholds) Row {
	// The library sorts its arguments.
	before := benchmath.NewSample(slices.Clone(was.Samples), thresholds)
	after := benchmath.NewSample(slices.Clone(is.Samples), thresholds)
	row := Row{
		Key: key, Peer: is.Peer,
		Old:  benchmath.AssumeNothing.Summary(before, Confidence),
		New:  benchmath.AssumeNothing.Summary(after, Confidence),
		Test: benchmath.AssumeNothing.Compare(before, after),
	}
	if row.Test.P >= o.Alpha || row.Change() == 0 || math.Abs(row.Change()) <= o.Least || r.noisy(row, was, is, o) {
		return row
	}
	row.Verdict = Worse
	if is.Better.Beats(row.New.Center, row.Old.Center) {
		row.Verdict = Better
	}
	return row
}

// noisy says whether the change of a row is within the noise of its series or of the files.
func (r Result) noisy(row Row, was, is *Series, o Options) bool {
	change := math.Abs(row.New.Center - row.Old.Center)
	before, after := math.Abs(row.Old.Center), math.Abs(row.New.Center)
	if change <= was.width()+is.width() {
		return true
	}
	if was.width() <= o.Least*before && is.width() <= o.Least*after || was.Runs > 1 && is.Runs > 1 {
		return false
	}
	return change <= max(r.OldNoise*before, r.NewNoise*after)
}

// Worse says whether an implementation of heist's got worse.
func (r Result) Worse() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Verdict == Worse && !row.Peer })
}
