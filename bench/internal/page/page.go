// Package page writes results as one self-contained page: plots, tables, and what they were measured on.
package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/internal/drawing"
	"github.com/seed53057037/heist/numa"
)

// Page is the content of the page.
type Page struct {
	Outcomes []runner.Outcome
	Settings [][2]string // each a setting and its value
	Topology *numa.Topology
	Lanes    Lanes
	Steals   Steals
	Line     float64 // what a cache line takes from CPU to CPU, ns; 0 if it was not measured
	Day      string  // of the run
	Earlier  string  // the document that Markdown's replaces
}

// Lanes is the simulator's result for suite balance.
type Lanes struct {
	Work             time.Duration // all tasks together
	CPUs             int
	Static, Stealing time.Duration
}

// Steals is how often each worker of a pool stole from each: Count[thief][victim].
type Steals struct {
	Of    string
	Count [][]uint64
}

//go:embed page.tmpl
var source string

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure": report.Figure, "style": func() template.CSS { return pictureStyle },
}).Parse(source))

// section is a part of the page with plots, all of which follow from outcomes.
type section struct {
	ID, Title, About string
	Plots            []template.HTML
	Lost             []report.Score
}

// view is what the template shows.
type view struct {
	Machine  string
	Sections []section
	Missing  []missing
	Drawing  template.HTML
	Notes    []string
	Settings [][2]string
	Versions [][2]string
	Suites   []suiteTable
}

// missing is a section without plots, and the command that would give it some.
type missing struct{ Title, Command string }

// Write writes the page.
func (p Page) Write(w io.Writer) error {
	v := view{Machine: report.Machine(), Settings: p.Settings, Versions: versions(), Suites: tables(p.Outcomes)}
	for _, part := range []struct {
		title   string
		command string
		draw    func() (section, error)
	}{
		{"The story", "", p.story},
		{"Fork costs", "forkjoin", p.forks},
		{"Speed-up", "forkjoin -workers N, with N above 1", p.speedups},
		{"Latency", "latency service neighbour", p.latencies},
		{"Neighbours", "neighbour", p.neighbours},
		{"Four lanes", "balance", p.lanes},
		{"Who stole from whom", "", p.steals},
	} {
		s, err := part.draw()
		if err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
		if len(s.Plots) == 0 {
			v.Missing = append(v.Missing, missing{part.title, strings.TrimSpace("go run ./bench -html FILE " + part.command)})
			continue
		}
		s.Title = part.title
		v.Sections = append(v.Sections, s)
	}
	tree := drawing.New(p.Topology)
	v.Drawing, v.Notes = template.HTML(tree.Figure(nil)), tree.Notes
	return layout.Execute(w, v)
}

// add draws bars into the section.
func (s *section) add(title, unit string, all []bar, how scale, mark, width float64) {
	if len(all) > 0 {
		s.Plots = append(s.Plots, drawBars(title, unit, all, how, mark, width))
	}
}

func (p Page) story() (section, error) {
	all, counts := verdicts(report.Scores(p.Outcomes))
	s := section{ID: "story", About: fmt.Sprintf("heist's best implementation against the best other of each case, in the case's first metric: "+
		"%d won (green), %d even within %.0f%% (grey), %d lost (red). Left of 1 heist is better; the lines are the least and the greatest ratio of a run.",
		counts[won], counts[evenly], 100*report.Even, counts[lost])}
	for _, score := range slices.Backward(report.Scores(p.Outcomes)) {
		if score.Ratio > 1+report.Even {
			s.Lost = append(s.Lost, score)
		}
	}
	if picture := p.summary(); picture != "" {
		s.Plots = append(s.Plots, picture)
	}
	s.add("heist / the best other", "ratio, log scale", all, ratios(all), 0, wide)
	return s, nil
}

// panels are what the picture of the README shows: of each case a metric, for some implementations.
var panels = []struct {
	title, name, metric string
	impls               []string
}{
	{"fib(35): a fork with its two calls", "forkjoin/fib35", "ns/fork", []string{"heist-recursive", "goroutine", "rayon", "tbb"}},
	{"sort of a million int64, an element", "algos/sort-1m", "ns/elem", []string{"heist", "serial", "rayon", "tbb"}},
	{"an echo beside a saturated pool, p99", "neighbour/saturated", "net-p99-us", []string{"heist", "go", "ants"}},
}

// summary is the picture of the README, which stands alone, too.
func (p Page) summary() template.HTML {
	var all []template.HTML
	for _, panel := range panels {
		var bars []bar
		for _, o := range p.Outcomes { // the last one has the most workers
			i := slices.IndexFunc(o.Case.Metrics, func(m contract.Metric) bool { return m.Name == panel.metric })
			if o.Suite+"/"+o.Case.Name == panel.name && i >= 0 {
				bars = slices.DeleteFunc(implementations(o, i), func(b bar) bool { return !slices.Contains(panel.impls, b.label) })
			}
		}
		if len(bars) > 0 {
			all = append(all, drawBars(panel.title, panel.metric, bars, scaleFor(bars), 0, half))
		}
	}
	if len(all) == 0 {
		return ""
	}
	const gap, high = 24, titleHigh + 16 + axisHigh + 4*rowHigh
	w := newPicture("heist against others", float64(len(all))*(half+gap)-gap, high)
	fmt.Fprintf(&w.b, "<style>%s</style>", pictureStyle)
	w.rect("ground", 0, 0, w.w, w.h) // whatever is behind it elsewhere may be light or dark
	for i, picture := range all {
		fmt.Fprintf(&w.b, `<g transform="translate(%d 0)">%s</g>`, i*(half+gap), picture)
	}
	return w.end()
}

// verdicts returns a bar for each score, and the number of bars of each colour.
func verdicts(scores []report.Score) (all []bar, counts map[string]int) {
	counts = make(map[string]int)
	for _, score := range scores {
		class := evenly
		switch {
		case score.Ratio > 1+report.Even:
			class = lost
		case score.Ratio <= 1-report.Even:
			class = won
		}
		counts[class]++
		all = append(all, bar{score.Name(), score.Ratio, score.Min, score.Max, class, report.Figure(score.Ratio) + " of " + score.RatioTo})
	}
	return all, counts
}

// implementations returns a bar for each implementation that has the case's i-th metric.
func implementations(o runner.Outcome, i int) (all []bar) {
	for _, s := range o.With(i) {
		spread := contract.Summarise(s.Metric(i))
		all = append(all, bar{s.Impl.Name, spread.Median, spread.Min, spread.Max, classOf(s.Impl), report.Figure(spread.Median)})
	}
	return all
}

func classOf(i runner.Impl) string {
	if i.Peer() {
		return theirs
	}
	return ours
}

func heading(o runner.Outcome) string {
	return fmt.Sprintf("%s/%s, workers: %d", o.Suite, o.Case.Name, o.Workers)
}

func (p Page) forks() (section, error) {
	s := section{ID: "forks", About: "What each implementation takes in the cases of suite forkjoin: medians, the lines from the least to the greatest run. " +
		"heist is blue. On a log scale the bars begin at the power of ten below the least figure."}
	for _, o := range p.Outcomes {
		if o.Suite != "forkjoin" {
			continue
		}
		all := implementations(o, 0)
		s.add(heading(o), o.Case.Metrics[0].Name, all, scaleFor(all), 0, half)
	}
	return s, nil
}

func (p Page) speedups() (section, error) {
	s := section{ID: "speedup", About: "The median with one worker against that with several, for each implementation by itself; the lines are the least and the " +
		"greatest that runs of both can give. The dashed line is as many as there are workers. What is the same program with any number of workers stays at 1."}
	for _, o := range p.Outcomes {
		s.add(heading(o), "times as fast as with one worker", speedups(p.Outcomes, o), linear, float64(o.Workers), half)
	}
	return s, nil
}

// speedups returns how many times as fast as with one worker each implementation of an outcome is.
func speedups(outcomes []runner.Outcome, o runner.Outcome) (all []bar) {
	i := slices.IndexFunc(outcomes, func(one runner.Outcome) bool {
		return one.Workers == 1 && one.Suite == o.Suite && one.Case.Name == o.Case.Name
	})
	if i < 0 || o.Workers == 1 {
		return nil
	}
	for _, s := range o.With(0) {
		alone, ok := outcomes[i].Find(s.Impl.Name)
		if !ok {
			continue
		}
		one, many := contract.Summarise(alone.Metric(0)), contract.Summarise(s.Metric(0))
		if o.Case.Metrics[0].Better == contract.Higher {
			one, many = many, one
		}
		if many.Min <= 0 {
			continue
		}
		times := one.Median / many.Median
		all = append(all, bar{s.Impl.Name, times, one.Min / many.Max, one.Max / many.Min, classOf(s.Impl), report.Figure(times) + "x"})
	}
	return all
}

func (p Page) latencies() (section, error) {
	s := section{ID: "latency", About: "Every task, answer or wake-up of all runs together, by percentile: the further right, the rarer. " +
		"heist's lines are thick, others' dashed. Programs in other languages tell no histograms and have no line."}
	for _, o := range p.Outcomes {
		curves, order, err := curvesOf(o)
		if err != nil {
			return s, err
		}
		for _, of := range order {
			title := heading(o)
			if len(order) > 1 {
				title += ", " + of
			}
			s.Plots = append(s.Plots, drawCurves(title, curves[of]))
		}
	}
	return s, nil
}

// curvesOf returns an outcome's curves by what they measure, and the sorted keys.
func curvesOf(o runner.Outcome) (curves map[string][]curve, order []string, err error) {
	curves = make(map[string][]curve)
	for _, s := range o.Series {
		of, merged, err := s.Histograms()
		if err != nil {
			return nil, nil, err
		}
		for i, h := range merged {
			curves[of[i]] = append(curves[of[i]], curve{s.Impl.Name, !s.Impl.Peer(), percentiles(h)})
		}
	}
	return curves, slices.Sorted(maps.Keys(curves)), nil
}

// percentiles returns the points of a curve. A log axis has no zero: a duration below 1 ns counts as 1 ns.
func percentiles(h *hdrhistogram.Histogram) (points []point) {
	for _, b := range h.CumulativeDistributionWithTicks(10) {
		points = append(points, point{nines(b.Quantile, h.TotalCount()), float64(max(b.ValueAt, 1)) / 1e3})
	}
	return points
}

func (p Page) neighbours() (section, error) {
	s := section{ID: "neighbours", About: "How late a timer and a TCP echo are beside a pool in the same process (suite neighbour), and what the pool does meanwhile: " +
		"medians, the lines from the least to the greatest run. Less is better, but for tasks and parts a second."}
	for _, o := range p.Outcomes {
		if o.Suite != "neighbour" {
			continue
		}
		for i, m := range o.Case.Metrics {
			all := implementations(o, i)
			s.add(heading(o), m.Name, all, scaleFor(all), 0, half)
		}
	}
	return s, nil
}

func (p Page) lanes() (section, error) {
	s := section{ID: "lanes"}
	for _, o := range p.Outcomes {
		if o.Suite != "balance" {
			continue
		}
		all := implementations(o, 0)
		s.add("measured, workers: "+fmt.Sprint(o.Workers), o.Case.Metrics[0].Name, all, linear, 0, half)
	}
	if len(s.Plots) == 0 {
		return s, nil
	}
	least := p.Lanes.Work.Seconds() * 1e3 / float64(p.Lanes.CPUs)
	s.About = fmt.Sprintf("Lanes of 100, 100, 200 and 350 tasks, divided statically and by stealing (suite balance). On the left as measured here, where a task takes 1 ms, "+
		"or 0.1 ms in a glance. On the right simulated on %d CPUs, each task 1 ms: the dashed line is %s ms, all work divided by the CPUs. Less is impossible, so the "+
		"116 ms that are sometimes told of this picture are not to be had.", p.Lanes.CPUs, report.Figure(least))
	simulated := func(name string, took time.Duration, impl runner.Impl) bar {
		ms := took.Seconds() * 1e3
		return bar{name, ms, ms, ms, classOf(impl), report.Figure(ms)}
	}
	all := []bar{simulated("heist", p.Lanes.Stealing, runner.Impl{Name: "heist"}), simulated("static", p.Lanes.Static, runner.Impl{Name: "static"})}
	s.add(fmt.Sprintf("simulated, CPUs: %d", p.Lanes.CPUs), "ms", all, linear, least, half)
	return s, nil
}

func (p Page) steals() (section, error) {
	s := section{ID: "steals", About: fmt.Sprintf("How often each worker stole from each, in a short run of its own with %d workers on %d CPUs: %s. "+
		"It shows where thieves look, and is no measure of speed.", len(p.Steals.Count), len(p.Topology.Allowed), p.Steals.Of)}
	s.Plots = append(s.Plots, drawMatrix("steals", p.Steals.Count))
	return s, nil
}

// suiteTable is all results of a suite.
type suiteTable struct {
	Name  string
	Rows  []resultRow
	Notes []string
}

type resultRow struct {
	contract.Line
	Ratio string
}

func tables(outcomes []runner.Outcome) (suites []suiteTable) {
	for _, o := range outcomes {
		if len(suites) == 0 || suites[len(suites)-1].Name != o.Suite {
			suites = append(suites, suiteTable{Name: o.Suite})
		}
		t := &suites[len(suites)-1]
		ratios, _ := o.Ratios()
		for _, line := range o.Lines() {
			row := resultRow{Line: line}
			for _, r := range ratios {
				if r.Metric == line.Metric && r.RatioTo == line.Impl {
					row.Ratio = strings.TrimSpace(report.Figure(r.Ratio) + " " + report.Within(r.Min, r.Max))
				}
			}
			t.Rows = append(t.Rows, row)
		}
		for _, s := range o.Series {
			if note := fmt.Sprintf("%s: %s %s", o.Case.Name, s.Impl.Name, s.Impl.Note); s.Impl.Note != "" && !slices.Contains(t.Notes, note) {
				t.Notes = append(t.Notes, note)
			}
		}
	}
	return suites
}

// versions returns the versions of Go and of the program's libraries.
func versions() (all [][2]string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	all = append(all, [2]string{"go", info.GoVersion})
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") || strings.HasPrefix(s.Key, "GO") || s.Key == "-race" || s.Key == "-tags" {
			all = append(all, [2]string{s.Key, s.Value})
		}
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			continue // heist itself, from the same repository
		}
		all = append(all, [2]string{m.Path, cmp.Or(m.Version, "unknown")})
	}
	return all
}
