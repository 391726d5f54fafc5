package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// Even is how far from 1 a ratio may be and still count as even: a smaller difference is noise.
const Even = 0.02

// Story ends a run with one screen: a sorted bar for each case, for heist against the best other implementation in the
// case's first metric and with the most workers; and for each case that heist lost, to which implementation and by how
// much.
func Story(w io.Writer, outcomes []runner.Outcome) {
	all := Scores(outcomes)
	if len(all) == 0 {
		return
	}
	won := slices.IndexFunc(all, func(s Score) bool { return s.Ratio > 1-Even })
	lost := slices.IndexFunc(all, func(s Score) bool { return s.Ratio > 1+Even })
	if won < 0 {
		won = len(all)
	}
	if lost < 0 {
		lost = len(all)
	}
	fmt.Fprintf(w, "\nheist against the best other of each case, its first metric:\n%d won, %d even (within %.0f%%), %d lost\n\n",
		won, lost-won, Even*100, len(all)-lost)
	bars := inColumns(all, 2)
	if text.LongestLineLen(bars) > width {
		bars = inColumns(all, 1)
	}
	fmt.Fprintln(w, bars)
	fmt.Fprintf(w, "\n%s\n", text.WrapSoft(scale, width))
	if lost == len(all) {
		return
	}
	fmt.Fprint(w, "\nlost:\n")
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	for _, s := range slices.Backward(all[lost:]) {
		t.AppendRow(table.Row{s.Name(), s.Metric, Figure(s.Ratio) + " of " + s.RatioTo, Within(s.Min, s.Max)})
	}
	fmt.Fprintln(w, t.Render())
}

// inColumns writes the scores one below the other, in so many columns.
func inColumns(all []Score, columns int) string {
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	rows := (len(all) + columns - 1) / columns
	for i := range rows {
		row := table.Row{}
		for j := i; j < len(all); j += rows {
			row = append(row, all[j].Name(), Figure(all[j].Ratio), bar(all[j].Ratio))
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// Score is heist's ratio to the best other of a case.
type Score contract.Ratio

// Name is the case's full name.
func (s Score) Name() string { return s.Suite + "/" + s.Case }

// Scores returns the score of each case that has one, the best first.
func Scores(outcomes []runner.Outcome) []Score {
	most := make(map[string]Score)
	for _, o := range outcomes {
		best, _ := o.Best(0)
		worst := o.Worst(0, best)
		s := Score(worst)
		if old, ok := most[s.Name()]; worst.Ratio > 0 && (!ok || old.Workers <= s.Workers) {
			most[s.Name()] = s
		}
	}
	var all []Score
	for _, s := range most {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Score) int {
		return cmp.Or(cmp.Compare(a.Ratio, b.Ratio), cmp.Compare(a.Name(), b.Name()))
	})
	return all
}

// A bar starts at 1, in its middle, and goes to the left if heist needs less than the other and to the right if it needs
// more. Its ends stand for a factor of four.
const (
	barHalf = 8
	barEnd  = 2 // as a power of 2
	scale   = "A bar goes to the left of the middle where heist is better, to the right where it is worse; its ends stand for a factor of 4."
)

func bar(ratio float64) string {
	n := int(math.Round(math.Log2(ratio) / barEnd * barHalf))
	n = min(max(n, -barHalf), barHalf)
	left, right := max(-n, 0), max(n, 0)
	return strings.Repeat(" ", barHalf-left) + strings.Repeat("█", left) + "│" + strings.Repeat("█", right) + strings.Repeat(" ", barHalf-right)
}
