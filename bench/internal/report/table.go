package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// Legend explains the columns, once for all tables.
const Legend = `Figures are medians over the runs, with the least and the greatest.
"heist / it" is heist's best implementation against the one in the row, measured
in turn and compared pair by pair; below 1 heist is better, whatever the metric.
"lines" is the median in transfers of a cache line from CPU to CPU.`

// Crossing tells what a cache line takes from CPU to CPU, if it is known.
func Crossing(ns float64) string {
	if ns == 0 {
		return ""
	}
	return fmt.Sprintf("; a cache line takes %s ns from CPU to CPU", Figure(ns))
}

// Glance says what a run with a budget for each case leaves out.
const Glance = `This is a glance: a case gets fewer runs where they take long, long cases that
resemble others and the suite jobs are left out, and of the programs in other
languages the JVM's takes no part, nor do the others in most of forkjoin. Name a
suite to have it measured in full.`

// Table prints one case, measured with one or several numbers of workers.
func Table(w io.Writer, outcomes []runner.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	first := outcomes[0]
	caption(w, first)
	_, speedup := first.Find(serial)
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	header := table.Row{"workers", "metric", "implementation", "median", "min", "max", "heist / it", ""}
	if speedup {
		header = append(header, "speed-up")
	}
	crosses := outcomes[len(outcomes)-1].Line > 0
	if crosses {
		header = append(header, "lines")
	}
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for _, number := range []int{1, 4, 5, 6, 7, 9, 10} {
		columns = append(columns, table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, o := range outcomes {
		for i := range o.Case.Metrics {
			appendRows(t, o, i, speedup)
			t.AppendSeparator()
		}
	}
	all := t.Render()
	for _, number := range []int{8, 6, 5} { // what can be left out: ranges
		if text.LongestLineLen(all) > width {
			columns = append(slices.DeleteFunc(columns, func(c table.ColumnConfig) bool { return c.Number == number }), table.ColumnConfig{Number: number, Hidden: true})
			t.SetColumnConfigs(columns)
			all = t.Render()
		}
	}
	fmt.Fprintln(w, all)
	for _, o := range outcomes {
		printDetails(w, o)
	}
	printNotes(w, first)
}

// caption prints what the table below is about.
func caption(w io.Writer, o runner.Outcome) {
	fmt.Fprintf(w, "\n%s\n", text.WrapSoft(fmt.Sprintf("%s/%s: %s", o.Suite, o.Case.Name, o.Case.About), width))
}

// width is that of a terminal.
const width = 80

// Within is the range of a ratio; empty if there was one run.
func Within(least, most float64) string {
	if least == most {
		return ""
	}
	return fmt.Sprintf("(%s to %s)", Figure(least), Figure(most))
}

// serial is the implementation that speed-ups are relative to.
const serial = "serial"

func appendRows(t table.Writer, o runner.Outcome, metric int, speedup bool) {
	m := o.Case.Metrics[metric]
	best, _ := o.Best(metric)
	base, _ := o.Find(serial)
	ratios := make(map[string]contract.Ratio)
	all, _ := o.Ratios()
	for _, r := range all {
		if r.Metric == m.Name {
			ratios[r.RatioTo] = r
		}
	}
	for _, s := range o.With(metric) {
		name := s.Impl.Name
		if s.Impl.Note != "" {
			name += " *"
		}
		spread := contract.Summarise(s.Metric(metric))
		ratio, within := "", ""
		if r, ok := ratios[s.Impl.Name]; ok {
			ratio, within = Figure(r.Ratio), Within(r.Min, r.Max)
		} else if s.Impl.Name == best.Impl.Name {
			ratio = "best"
		}
		row := table.Row{o.Workers, m.Name, name,
			Figure(spread.Median), Figure(spread.Min), Figure(spread.Max), ratio, within}
		if speedup {
			times := ""
			if m.Name != runner.PeakMB {
				// How many times as fast as serial: the ratio of serial to this.
				if ratio, ok := contract.Compare(base.Metric(metric), s.Metric(metric), m.Better); ok {
					times = Figure(ratio.Median) + "x"
				}
			}
			row = append(row, times)
		}
		if o.Line > 0 && strings.HasPrefix(m.Name, "ns/") {
			row = append(row, Figure(spread.Median/o.Line))
		}
		t.AppendRow(row)
	}
}

func printDetails(w io.Writer, o runner.Outcome) {
	for _, s := range o.Series {
		detail := s.Typical().Detail
		if detail == "" {
			continue
		}
		fmt.Fprintf(w, " %s, %d workers:\n", s.Impl.Name, o.Workers)
		for line := range strings.Lines(detail) {
			fmt.Fprint(w, "   ", line)
		}
	}
}

func printNotes(w io.Writer, o runner.Outcome) {
	for _, s := range o.Series {
		if s.Impl.Note != "" {
			fmt.Fprintln(w, text.WrapSoft(fmt.Sprintf(" * %s %s", s.Impl.Name, s.Impl.Note), width))
		}
	}
}

// List prints suites, cases and implementations.
func List(w io.Writer, suites []runner.Suite) {
	for _, suite := range suites {
		for _, c := range suite.Cases {
			var impls []string
			for _, impl := range c.Impls {
				impls = append(impls, impl.Name)
			}
			fmt.Fprintf(w, "%s/%s\n", suite.Name, c.Name)
			for _, about := range []string{c.About, strings.Join(impls, " ")} {
				for line := range strings.Lines(text.WrapSoft(about, width-4)) {
					fmt.Fprintf(w, "    %s\n", strings.TrimSpace(line))
				}
			}
		}
	}
}

// plainStyle has no lines but those between groups of rows, and prints headers
// unchanged.
func plainStyle() table.Style {
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	return style
}

// Figure writes a number with three significant digits, and never with an
// exponent.
func Figure(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, digits), 64)
}
