package report

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/bench/internal/compare"
)

// Comparison prints what changed between two files: a table of everything, then the changes for the worse and for the
// better, and then the keys that only one file has.
func Comparison(w io.Writer, r compare.Result, o compare.Options) {
	fmt.Fprintf(w, "Medians, with the %.0f%% confidence interval around them; ∞ if there are too few samples for one.\nA change has p below %g, and is above %s and the samples' spread; ~ is none.\n",
		100*compare.Confidence, o.Alpha, percent(o.Least))
	fmt.Fprintf(w, "Half of all series are spread over more than %.0f%% of their medians in the old file, and %.0f%% in the new one.\n",
		100*r.OldNoise, 100*r.NewNoise)
	if max(r.OldNoise, r.NewNoise) > muchNoise {
		fmt.Fprint(w, "That hides small changes. Measure while the machine does nothing else, or join several runs in each file,\nold and new in turn.\n")
	}
	fmt.Fprintln(w)
	printRows(w, r.Rows)

	few := make(map[string]int)
	var worse, better []compare.Row
	for _, row := range r.Rows {
		if need := row.Few(); need != "" {
			few[need]++
		}
		switch row.Verdict {
		case compare.Worse:
			worse = append(worse, row)
		case compare.Better:
			better = append(better, row)
		}
	}
	for need, n := range few {
		fmt.Fprintf(w, "\nToo few samples in %d of %d rows, whatever the change: %s; measure with as many -runs, or join files of several runs.\n",
			n, len(r.Rows), need)
	}
	fmt.Fprintf(w, "\nworse: %d\n", len(worse))
	printRows(w, worse)
	fmt.Fprintf(w, "\nbetter: %d\n", len(better))
	printRows(w, better)
	printKeys(w, "only in the old file", r.OnlyOld)
	printKeys(w, "only in the new file", r.OnlyNew)
}

// muchNoise is the noise of a file that hides changes that users look for.
const muchNoise = 0.1

func printRows(w io.Writer, rows []compare.Row) {
	if len(rows) == 0 {
		return
	}
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.AppendHeader(table.Row{"case", "implementation", "workers", "metric", "old", "", "new", "", "change", "p"})
	var columns []table.ColumnConfig
	for _, number := range []int{3, 5, 7, 9, 10} {
		columns = append(columns, table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, r := range rows {
		name, change := r.Impl, "~"
		if r.Peer {
			name += " (peer)"
		}
		if r.Verdict != compare.Same {
			change = fmt.Sprintf("%+.1f%%", 100*r.Change())
		}
		t.AppendRow(table.Row{
			r.Name(), name, r.Workers, r.Metric, Figure(r.Old.Center), "± " + r.Old.PctRangeString(),
			Figure(r.New.Center), "± " + r.New.PctRangeString(), change, fmt.Sprintf("%.3f", r.Test.P),
		})
	}
	fmt.Fprintln(w, t.Render())
}

func printKeys(w io.Writer, where string, keys []compare.Key) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s: %d\n", where, len(keys))
	for _, key := range keys {
		fmt.Fprintln(w, "", key)
	}
}

func percent(share float64) string { return fmt.Sprintf("%g%%", 100*share) }
