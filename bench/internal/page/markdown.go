package page

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
)

const lostLegend = "Each case whose first metric heist's best implementation loses to the best other, with the most workers. Plain calls in\n" +
	"the suite primitives, and a process without a pool, do nothing of what is measured: they are no others, and their ratios are not bold."

const markdownLegend = `All figures of one run of "go run ./bench -docs docs", which wrote this document. They are medians. In brackets: heist's best
implementation / this one, measured in turn and compared pair by pair; behind another implementation of heist's, it / the best other, which is
named. Below 1 heist is better, whatever the metric; bold ratios are lost. Where a ratio and the medians fall on
different sides of 1, noise decides. "peak-MB" is the most memory that the
process had in RAM; in Go some 12 MB of it are the runtime and the benchmark itself. [report.html](report.html) is the same run with plots and
ranges. The machine is shared and noisy: compare ratios, and measure on yours. [What decides the figures](performance.md) explains them.`

// Markdown writes all results as a document: the rows of the README's table, and then a table for each case.
func (p Page) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\n%s\n\n", markdownLegend)
	b.WriteString(markdownTable(table.Row{"", ""}, pairs(p.Settings)))
	if rows := headlines(p.Outcomes); len(rows) > 0 {
		b.WriteString("\n## Summary\n\n" + markdownTable(p.bothKinds(rows)))
	}
	if rows := lostTable(p.Outcomes); len(rows) > 0 {
		b.WriteString("\n## Where heist loses\n\n" + lostLegend + "\n\n" + markdownTable(table.Row{"case", "metric", "heist's best", "ratio to the best other"}, rows))
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
	all := make(map[string]map[int]string) // by name and column
	for i, m := range first.Case.Metrics {
		for _, o := range outcomes {
			for _, s := range o.With(i) {
				name := s.Impl.Name
				if all[name] == nil {
					all[name] = make(map[int]string)
					names = append(names, name)
				}
				cell := report.Figure(contract.Summarise(s.Metric(i)).Median)
				if r, ok := ratioTo(o, m.Name, name); ok && name == o.Case.Floor {
					cell += " (" + report.Figure(r) + ")"
				} else if ok {
					cell += " (" + ratioText(r) + ")"
				} else if best, _ := o.Best(i); !s.Impl.Peer() && name != best.Impl.Name {
					if r := o.Worst(i, s); r.Ratio > 0 {
						cell += " (" + ratioText(r.Ratio) + " " + r.RatioTo + ")"
					}
				}
				all[name][len(header)] = cell
			}
			header = append(header, fmt.Sprintf("%s, workers: %d", m.Name, o.Workers))
		}
	}
	var rows []table.Row
	for _, name := range names {
		row := table.Row{name}
		for column := range len(header) - 1 {
			row = append(row, all[name][column+1])
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

// lostTable is the cases that heist lost, in their first metric and to the best other, the worst first.
func lostTable(outcomes []runner.Outcome) (rows []table.Row) {
	for _, s := range slices.Backward(report.Scores(outcomes)) {
		if s.Ratio > 1+report.Even {
			rows = append(rows, table.Row{s.Name(), s.Metric, s.Impl, report.Figure(s.Ratio) + " " + s.RatioTo})
		}
	}
	return rows
}

// headline is a row of the README's table: a case, compared with some peers.
type headline struct {
	text  string
	of    shown
	peers []string
}

// shown is a case, or one of its metrics, for heist's best implementation or a certain one, with as many workers as were
// measured or with so many.
type shown struct {
	name, metric, impl string
	workers            int
}

// readme is what users compare first, won or lost: one case a row.
var readme = []headline{
	{"fib(35), a fork in every call", shown{name: "forkjoin/fib35"}, []string{"serial", "goroutine", "rayon", "tbb"}},
	{"the same on one worker", shown{name: "forkjoin/fib35", workers: 1}, []string{"serial", "rayon"}},
	{"an unbalanced tree, UTS T3", shown{name: "forkjoin/uts-t3"}, []string{"rayon", "tbb"}},
	{"merge sort", shown{name: "forkjoin/mergesort"}, []string{"rayon", "tbb"}},
	{"`par.For` over 4096 uneven items", shown{name: "loop/triangular", impl: "heist-for"}, []string{"goroutine", "rayon"}},
	{"`par.Sort` of a million int64", shown{name: "algos/sort-1m"}, []string{"serial", "rayon"}},
	{"`par.SortFunc` of a million pairs (stable, rayon's is not)", shown{name: "algos/sortfunc-1m"}, []string{"serial", "rayon"}},
	{"a million empty tasks from one goroutine", shown{name: "submit/external-1"}, []string{"go", "channel", "pond", "tokio"}},
	{"start of a task, pool asleep, p50", shown{name: "latency/start-asleep"}, []string{"go", "pond", "rayon", "tokio"}},
	{"an echo beside a saturated pool, p99", shown{name: "neighbour/saturated", metric: "net-p99-us"}, []string{"go", "ants"}},
	{"a timer beside it, p50", shown{name: "neighbour/saturated", metric: "timer-p50-us"}, []string{"go", "ants"}},
	{"7711 Go files parsed", shown{name: "parse/go-source"}, []string{"errgroup", "static"}},
}

// nearCores is the most that a cache line takes between near cores, in ns. Within a chip it takes 25 to 90, between sockets, or between the
// CPUs of a virtual machine that lie on two chips, 130 and more.
const nearCores = 110

var kinds = [...]string{"near cores", "far cores"}

// Cores is the kind of a machine's cores between which a cache line takes so many ns.
func Cores(line float64) string {
	if line > nearCores {
		return kinds[1]
	}
	return kinds[0]
}

// summaryTable is the summary in a document.
var summaryTable = regexp.MustCompile(`(?m)^\|  \| ratio to.*\n(\|.*\n)+`)

// bothKinds is the summary's header and rows: those of this run, and beside them what the document that it replaces says of the other kind
// of machine. A run that did not measure the distance of the cores replaces both.
func (p Page) bothKinds(rows []table.Row) (table.Row, []table.Row) {
	if p.Line == 0 {
		return table.Row{"", "ratio to"}, rows
	}
	kind := Cores(p.Line)
	header := table.Row{"", fmt.Sprintf("ratio to, on %s (%s ns, %s)", kind, report.Figure(p.Line), p.Day)}
	earlier := strings.Split(summaryTable.FindString(p.Earlier), "\n")
	column := slices.IndexFunc(cells(earlier[0]), func(title string) bool {
		return !strings.Contains(title, kind) && (strings.Contains(title, kinds[0]) || strings.Contains(title, kinds[1]))
	})
	if column < 0 {
		return header, rows
	}
	header = append(header, cells(earlier[0])[column])
	others := make(map[string]string)
	for _, line := range earlier {
		if c := cells(line); column < len(c) {
			others[c[0]] = c[column]
		}
	}
	for i, row := range rows {
		rows[i] = append(row, others[row[0].(string)])
	}
	return header, rows
}

func cells(line string) (all []string) {
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}

// headlines are the rows of which something was measured.
func headlines(outcomes []runner.Outcome) (rows []table.Row) {
	for _, h := range readme {
		if ratios := h.of.ratios(h.peers, outcomes); ratios != "" {
			rows = append(rows, table.Row{h.text, ratios})
		}
	}
	return rows
}

func (s shown) ratios(peers []string, outcomes []runner.Outcome) string {
	var with *runner.Outcome
	for i, o := range outcomes {
		if o.Suite+"/"+o.Case.Name == s.name && o.Workers <= cmp.Or(s.workers, o.Workers) && (with == nil || o.Workers > with.Workers) {
			with = &outcomes[i]
		}
	}
	if with == nil {
		return ""
	}
	metric := max(0, slices.IndexFunc(with.Case.Metrics, func(m contract.Metric) bool { return m.Name == s.metric }))
	ours, ok := with.Best(metric)
	if s.impl != "" {
		ours, ok = with.Find(s.impl)
	}
	var ratios []string
	for _, peer := range peers {
		if theirs, measured := with.Find(peer); ok && measured && theirs.Has(metric) {
			if r, ok := with.Ratio(metric, ours, theirs); ok {
				ratios = append(ratios, ratioText(r.Ratio)+" "+peer)
			}
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
