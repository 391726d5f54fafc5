package page

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
)

const markdownLegend = `All figures of one run of "go run ./bench -docs docs", which wrote this document. They are medians. In brackets: heist's best
implementation / this one, measured in turn and compared pair by pair. Below 1 heist is better, whatever the metric; bold
ratios are lost by more than noise. [report.html](report.html) is the same run with plots and ranges. The machine is shared and
noisy: compare ratios, and measure on yours. [What decides the figures](performance.md) explains them.`

// Markdown writes all results as a document: the rows of the README's table, and then a table for each case.
func (p Page) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\n%s\n\n", markdownLegend)
	b.WriteString(markdownTable(table.Row{"", ""}, pairs(p.Settings)))
	if rows := headlines(p.Outcomes); len(rows) > 0 {
		b.WriteString("\n## Summary\n\n" + markdownTable(table.Row{"", "ratio to"}, rows))
	}
	suite := ""
	for i, o := range p.Outcomes {
		if o.Suite != suite {
			suite = o.Suite
			fmt.Fprintf(&b, "\n## %s\n", suite)
		}
		if i > 0 && sameCase(p.Outcomes[i-1], o) {
			continue // it has columns in the table of the first number of workers
		}
		fmt.Fprintf(&b, "\n### %s/%s\n\n%s.\n\n%s", o.Suite, o.Case.Name, o.Case.About, caseTable(p.Outcomes[i:]))
		for _, s := range o.Series {
			if s.Impl.Note != "" {
				fmt.Fprintf(&b, "\n%s %s.\n", s.Impl.Name, strings.TrimSuffix(s.Impl.Note, "."))
			}
		}
	}
	b.WriteString("\n## Versions\n\n" + markdownTable(table.Row{"", ""}, pairs(versions())))
	_, err := io.WriteString(w, b.String())
	return err
}

func sameCase(a, b runner.Outcome) bool { return a.Suite == b.Suite && a.Case.Name == b.Case.Name }

func pairs(all [][2]string) (rows []table.Row) {
	for _, p := range all {
		rows = append(rows, table.Row{p[0], p[1]})
	}
	return rows
}

func markdownTable(header table.Row, rows []table.Row) string {
	t := table.NewWriter()
	t.AppendHeader(header)
	t.AppendRows(rows)
	return t.RenderMarkdown() + "\n"
}

// caseTable has a row for each implementation of the first outcome's case, and a column for each metric and number of
// workers.
func caseTable(outcomes []runner.Outcome) string {
	first := outcomes[0]
	if n := slices.IndexFunc(outcomes, func(o runner.Outcome) bool { return !sameCase(first, o) }); n >= 0 {
		outcomes = outcomes[:n]
	}
	header := table.Row{""}
	var names []string
	cells := make(map[string]map[int]string) // by name and column
	for i, m := range first.Case.Metrics {
		for _, o := range outcomes {
			for _, s := range o.With(i) {
				name := s.Impl.Name
				if cells[name] == nil {
					cells[name] = make(map[int]string)
					names = append(names, name)
				}
				cell := report.Figure(contract.Summarise(s.Metric(i)).Median)
				if r, ok := ratioTo(o, m.Name, name); ok {
					cell += " (" + ratioText(r) + ")"
				}
				cells[name][len(header)] = cell
			}
			header = append(header, fmt.Sprintf("%s, workers: %d", m.Name, o.Workers))
		}
	}
	var rows []table.Row
	for _, name := range names {
		row := table.Row{name}
		for column := range len(header) - 1 {
			row = append(row, cells[name][column+1])
		}
		rows = append(rows, row)
	}
	return markdownTable(header, rows)
}

func ratioTo(o runner.Outcome, metric, peer string) (float64, bool) {
	ratios, _ := o.Ratios()
	for _, r := range ratios {
		if r.Metric == metric && r.RatioTo == peer {
			return r.Ratio, true
		}
	}
	return 0, false
}

// ratioText is bold for what heist loses.
func ratioText(ratio float64) string {
	if ratio > 1+report.Even {
		return "**" + report.Figure(ratio) + "**"
	}
	return report.Figure(ratio)
}

// headline is a row of the README's table: cases, each with the peers that it is compared with.
type headline struct {
	text    string
	workers int // 0 is as many as were measured
	cases   []string
	peers   []string
	metric  string // if empty, the case's first one
}

// readme is what users compare first, won or lost.
var readme = []headline{
	{"fib(35), a fork in every call", 0, []string{"forkjoin/fib35"}, []string{"rayon", "tbb", "forkjoinpool"}, ""},
	{"the same on one worker", 1, []string{"forkjoin/fib35"}, []string{"rayon", "serial"}, ""},
	{"nqueens(12); UTS T1; UTS T3", 0, []string{"forkjoin/nqueens12", "forkjoin/uts-t1", "forkjoin/uts-t3"}, []string{"rayon", "tbb"}, ""},
	{"merge sort; matrices", 0, []string{"forkjoin/mergesort", "forkjoin/matmul"}, []string{"rayon", "tbb"}, ""},
	{"a loop of 1024 small items, pool asleep", 0, []string{"loop/outside-1024-asleep"}, []string{"serial", "goroutine", "rayon", "tbb"}, ""},
	{"a million empty tasks; from four submitters", 0, []string{"submit/external-1", "submit/external-4"}, []string{"go", "channel", "pond", "tokio"}, ""},
	{"start of a task, pool asleep, p50", 0, []string{"latency/start-asleep"}, []string{"go", "pond", "rayon", "tokio"}, ""},
	{"the same beside busy goroutines, p50", 0, []string{"latency/start-busy"}, []string{"go"}, ""},
	{"start of a task, pool asleep and no timer pending, p50", 0, []string{"latency/start-asleep-notimer"}, []string{"go", "pond"}, ""},
	{"CPU time of a task of 5 us, one each ms, with a timer; without", 0, []string{"latency/gap-1ms", "latency/gap-1ms-notimer"}, []string{"go", "channel"}, "cpu-us"},
	{"sort of a million int64; `SortFunc` of pairs (stable, rayon's is not)", 0, []string{"algos/sort-1m", "algos/sortfunc-1m"}, []string{"serial", "rayon"}, ""},
	{"7711 Go files parsed", 0, []string{"parse/go-source"}, []string{"errgroup", "static"}, ""},
	{"16 uneven tasks and their sum", 0, []string{"mixed/msm"}, []string{"go"}, ""},
	{"steal from a busy deque; its injector", 0, []string{"deque/steal-contended", "deque/injector"}, []string{"mutex"}, ""},
}

// headlines are the rows of which something was measured.
func headlines(outcomes []runner.Outcome) (rows []table.Row) {
	for _, h := range readme {
		var cells []string
		for _, name := range h.cases {
			if cell := h.cell(name, outcomes); cell != "" {
				cells = append(cells, cell)
			}
		}
		if len(cells) > 0 {
			rows = append(rows, table.Row{h.text, strings.Join(cells, "; ")})
		}
	}
	return rows
}

func (h headline) cell(name string, outcomes []runner.Outcome) string {
	var with *runner.Outcome
	for i, o := range outcomes {
		if o.Suite+"/"+o.Case.Name == name && o.Workers <= cmp.Or(h.workers, o.Workers) && (with == nil || o.Workers > with.Workers) {
			with = &outcomes[i]
		}
	}
	if with == nil {
		return ""
	}
	var ratios []string
	for _, peer := range h.peers {
		if r, ok := ratioTo(*with, cmp.Or(h.metric, with.Case.Metrics[0].Name), peer); ok {
			ratios = append(ratios, ratioText(r)+" "+peer)
		}
	}
	return strings.Join(ratios, ", ")
}

// Summary writes the picture of the story, heist against the best other of each case, as SVG.
func (p Page) Summary(w io.Writer) error {
	s, err := p.story()
	if err != nil || len(s.Plots) == 0 {
		return err
	}
	_, err = io.WriteString(w, string(s.Plots[0])+"\n")
	return err
}
