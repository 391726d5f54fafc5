package c2c

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// The most CPUs for which the table has room for the least and the greatest, and for which
// it has room at all.
const (
	roomForSpread = 10
	roomForTable  = 32
)

// Text writes the result for a terminal: a table of all CPUs, if they are not too many, and
// a table of the tiers.
func (s *Sweep) Text(w io.Writer) error {
	if len(s.Tiers) == 0 {
		_, err := fmt.Fprintln(w, s.Nothing())
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "A cache line's way from one CPU to another, in ns: the median of the rounds")
	switch {
	case len(s.CPUs) <= roomForSpread:
		fmt.Fprintf(&b, ", the least and the greatest.\n%s\n\n", s.table(true))
	case len(s.CPUs) <= roomForTable:
		fmt.Fprintf(&b, ".\n%s\n\n", s.table(false))
	default:
		fmt.Fprintf(&b, ".\n%d CPUs are too many for a table of all pairs; see -svg and -matrix.\n\n", len(s.CPUs))
	}
	fmt.Fprintln(&b, s.tiers())
	_, err := io.WriteString(w, b.String())
	return err
}

// Nothing says why there are no tiers. The caller has found that there are none.
func (s *Sweep) Nothing() string {
	return fmt.Sprintf("there is nothing to measure: CPU %v is alone, it takes two", s.CPUs)
}

// table has a row and a column for each CPU.
func (s *Sweep) table(spread bool) string {
	t := newTable()
	header := table.Row{"CPU"}
	columns := []table.ColumnConfig{{Number: 1, Align: text.AlignRight}}
	for i, cpu := range s.CPUs {
		header = append(header, cpu)
		columns = append(columns, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(columns)
	for _, from := range s.CPUs {
		row := table.Row{from}
		for _, to := range s.CPUs {
			row = append(row, cell(s.Between(from, to), spread))
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// cell writes a way; the diagonal stays empty.
func cell(way contract.Spread, spread bool) string {
	switch {
	case way == contract.Spread{}:
		return ""
	case spread:
		return fmt.Sprintf("%.1f\n%.1f-%.1f", way.Median, way.Min, way.Max)
	}
	return fmt.Sprintf("%.1f", way.Median)
}

// Summary names the tiers, each with the median of its pairs.
func (s *Sweep) Summary() string {
	var all []string
	for _, tier := range s.Tiers {
		all = append(all, fmt.Sprintf("%s %.1f ns", tier.Name, contract.Summarise(s.rounds(tier)).Median))
	}
	return strings.Join(all, ", ")
}

// tiers has a row for each tier, with its closest and its farthest pair.
func (s *Sweep) tiers() string {
	t := newTable()
	t.AppendHeader(table.Row{"tier", "pairs", "median", "the closest pair", "the farthest pair"})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}})
	for _, tier := range s.Tiers {
		closest, farthest := tier.Pairs[0], tier.Pairs[0]
		for _, pair := range tier.Pairs {
			if s.median(pair) < s.median(closest) {
				closest = pair
			}
			if s.median(pair) > s.median(farthest) {
				farthest = pair
			}
		}
		t.AppendRow(table.Row{tier.Name, len(tier.Pairs), fmt.Sprintf("%.1f", contract.Summarise(s.rounds(tier)).Median), s.end(closest), s.end(farthest)})
	}
	return t.Render()
}

func (s *Sweep) median(p Pair) float64 { return s.Between(p.First, p.Second).Median }

func (s *Sweep) end(p Pair) string {
	return fmt.Sprintf("%.1f (CPUs %d and %d)", s.median(p), p.First, p.Second)
}

func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}
