package sim

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// Legend explains the columns, once for all tables.
const Legend = `The real code of sleep, waits and policy in virtual time; see package sim for the costs and what is left out.
Makespan is in milliseconds, of several seeds the median with the least and the greatest.
Speed-up is T1 over the makespan.
Remote are the steals from another node. An attempt is a visit of a victim, failed or not;
P is the number of workers, T1 the time of all nodes, D that of the longest chain of them:
Blumofe and Leiserson's bounds are O(P D) attempts, here for each microsecond of P D, and
T1/P + O(D) for the makespan. Lent is how often who waited for a thief lent its place, goroutines are
the workers and all their stand-ins. Ratios are to uniform victims, seed by seed.`

// Text writes a table for each machine, with its loads and strategies.
func Text(w io.Writer, outcomes []Outcome) error {
	for i := range outcomes {
		o := &outcomes[i]
		if i > 0 && outcomes[i-1].Machine.Name == o.Machine.Name {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s; %d workers\n%s\n", o.Machine.Name, o.Machine.About, o.Workers, machineTable(outcomes, o.Machine.Name)); err != nil {
			return err
		}
	}
	return nil
}

func machineTable(outcomes []Outcome, machine string) string {
	t := newTable(table.Row{"load", "victims", "makespan", "ratio", "speed-up", "steals", "remote", "share", "ratio", "attempts", "attempts/PD us", "/(T1/P+D)", "wake-ups", "parked", "lent", "goroutines", "p50 us", "p99 us", "p99.9 us"})
	last := ""
	for i := range outcomes {
		o := &outcomes[i]
		if o.Machine.Name != machine {
			continue
		}
		if last != "" && o.Load.Name != last {
			t.AppendSeparator()
		}
		name := o.Load.Name
		if name == last {
			name = ""
		}
		last = o.Load.Name
		median := func(metric string) string {
			if values := o.values(metric); values != nil {
				return figure(contract.Summarise(values).Median)
			}
			return ""
		}
		b := base(outcomes, o)
		t.AppendRow(table.Row{
			name, o.Strategy.Name, spread(o.values(makespan)), ratio(o, b, makespan), median(speedUp),
			median("steals"), median(remoteSteals), median("remote-percent") + "%", ratio(o, b, remoteSteals),
			median("attempts"), median("attempts/PD-us"), median("makespan/bound"), median("wake-ups"), median("parked-percent") + "%", median("lent"), median("goroutines"),
			median("p50-us"), median(tail), median("p999-us"),
		})
	}
	return t.Render()
}

// spread writes the median, and the least and the greatest if there are several values.
func spread(values []float64) string {
	s := contract.Summarise(values)
	if len(values) == 1 {
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", figure(s.Median), figure(s.Min), figure(s.Max))
}

func ratio(o, base *Outcome, metric string) string {
	if base == nil || base == o {
		return ""
	}
	r, ok := contract.Compare(o.values(metric), base.values(metric), contract.Lower)
	if !ok {
		return ""
	}
	return figure(r.Median)
}

// RankingText writes the ranking of a sweep.
func RankingText(w io.Writer, outcomes []Outcome) error {
	for i := range outcomes {
		m := outcomes[i].Machine
		if i > 0 && outcomes[i-1].Machine.Name == m.Name {
			continue
		}
		t := newTable(table.Row{"victims", "makespan", "of the worst load", "remote steals", "on the worst of UTS"})
		ranking := Rank(outcomes, m.Name)
		for _, r := range ranking {
			t.AppendRow(table.Row{r.Strategy.Name, figure(r.Makespan), figure(r.Worst), figure(r.Remote), figure(r.Most)})
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s. Relative to uniform victims, geometric means over the loads; the best of those with at most a third of the remote steals on UTS come first.\n%s\n", m.Name, m.About, t.Render()); err != nil {
			return err
		}
		if len(ranking) > 0 {
			if _, err := fmt.Fprintf(w, "Best: %s.\n", ranking[0].Strategy.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func newTable(header table.Row) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i, name := range header {
		if name != "load" && name != "victims" {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(columns)
	return t
}

// figure writes a number with three significant digits, and never with an exponent.
func figure(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, digits), 64)
}
