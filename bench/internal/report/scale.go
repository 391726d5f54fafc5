package report

import (
	"fmt"
	"io"
	"regexp"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// ScaleLegend explains the columns of [Scale].
const ScaleLegend = `Figures are medians over the runs, in brackets the least and the greatest.
Speed-up is relative to heist with one worker, efficiency is the speed-up of
each worker. The last columns say how many times as fast as serial code and as
goroutines heist is, measured in turn and compared pair by pair. Percentiles are
of waiting times, which more workers do not divide.`

// percentile matches metrics that do not fall with more workers.
var percentile = regexp.MustCompile(`\bp\d+-`)

// Scale prints how a case scales.
func Scale(w io.Writer, outcomes []runner.Outcome) {
	caption(w, outcomes[0])
	all := ScaleTable(outcomes, true).Render()
	if text.LongestLineLen(all) > width {
		all = ScaleTable(outcomes, false).Render()
	}
	fmt.Fprintln(w, all)
}

// ScaleTable is the table of a case in its first metric, perhaps with ranges, with a row for each number of workers. Each outcome
// has one implementation of heist's.
func ScaleTable(outcomes []runner.Outcome, ranges bool) table.Writer {
	first := outcomes[0]
	metric := first.Case.Metrics[0]
	var peers []string
	for _, s := range first.With(0) {
		if s.Impl.Peer() {
			peers = append(peers, s.Impl.Name)
		}
	}
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.SuppressTrailingSpaces()
	t.SuppressEmptyColumns() // not every case has everything
	header := table.Row{"workers", metric.Name, "", "speed-up", "efficiency", "steals/worker"}
	for _, name := range peers {
		header = append(header, "x "+name)
	}
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := range header {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	var one float64 // heist's figure with one worker
	for _, o := range outcomes {
		ours, ok := o.Best(0)
		if !ok {
			continue
		}
		spread := contract.Summarise(ours.Metric(0))
		row := table.Row{o.Workers, Figure(spread.Median), "", "", "", ""}
		if ranges {
			row[2] = Within(spread.Min, spread.Max)
		}
		if o.Workers == 1 {
			one = spread.Median
		}
		if one > 0 && !percentile.MatchString(metric.Name) {
			if times, ok := contract.Compare([]float64{one}, []float64{spread.Median}, metric.Better); ok {
				row[3], row[4] = Figure(times.Median), Figure(100*times.Median/float64(o.Workers))+"%"
			}
		}
		for _, extra := range ours.Typical().Extra {
			if extra.Metric == "steals" {
				row[5] = Figure(extra.Value / float64(o.Workers))
			}
		}
		for _, name := range peers {
			cell := ""
			if peer, ok := o.Find(name); ok {
				if times, ok := contract.Compare(peer.Metric(0), ours.Metric(0), metric.Better); ok {
					cell = Figure(times.Median)
				}
			}
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	return t
}
