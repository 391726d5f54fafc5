package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// even is how far from 1 a ratio may be and still be called even: less than that is noise.
const even = 0.02

// Story ends a run with one screen: for each case heist against the best other, in the case's first metric and with
// the most workers, as a bar, sorted; and where heist lost, to what and by how much.
func Story(w io.Writer, outcomes []runner.Outcome) {
	all := scores(outcomes)
	if len(all) == 0 {
		return
	}
	won := slices.IndexFunc(all, func(s score) bool { return s.Ratio > 1-even })
	lost := slices.IndexFunc(all, func(s score) bool { return s.Ratio > 1+even })
	if won < 0 {
		won = len(all)
	}
	if lost < 0 {
		lost = len(all)
	}
	fmt.Fprintf(w, "\nheist against the best other of each case, its first metric: %d won, %d even (within %.0f%%), %d lost\n\n",
		won, lost-won, even*100, len(all)-lost)
	t := table.NewWriter()
	t.SetStyle(plainStyle())
	t.Style().Options.SeparateHeader = false
	const columns = 2
	half := (len(all) + columns - 1) / columns
	for i := range half {
		row := table.Row{}
		for j := i; j < len(all); j += half {
			row = append(row, all[j].name(), figure(all[j].Ratio), bar(all[j].Ratio))
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
	fmt.Fprintf(w, "\n%s\n", scale)
	if lost == len(all) {
		return
	}
	fmt.Fprint(w, "\nlost:\n")
	t = table.NewWriter()
	t.SetStyle(plainStyle())
	t.Style().Options.SeparateHeader = false
	for _, s := range slices.Backward(all[lost:]) {
		t.AppendRow(table.Row{s.name(), s.Metric, figure(s.Ratio) + " of " + s.RatioTo, fmt.Sprintf("(%s to %s)", figure(s.Min), figure(s.Max))})
	}
	fmt.Fprintln(w, t.Render())
}

// score is heist's ratio to the best other of a case.
type score contract.Ratio

func (s score) name() string { return s.Suite + "/" + s.Case }

// scores returns the score of each case that has one, the best first.
func scores(outcomes []runner.Outcome) []score {
	most := make(map[string]score)
	for _, o := range outcomes {
		ratios, _ := o.Ratios()
		var worst contract.Ratio
		for _, r := range ratios {
			if r.Metric == o.Case.Metrics[0].Name && r.Ratio > worst.Ratio {
				worst = r
			}
		}
		s := score(worst)
		if old, ok := most[s.name()]; worst.Ratio > 0 && (!ok || old.Workers <= s.Workers) {
			most[s.name()] = s
		}
	}
	var all []score
	for _, s := range most {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b score) int {
		return cmp.Or(cmp.Compare(a.Ratio, b.Ratio), cmp.Compare(a.name(), b.name()))
	})
	return all
}

// A bar goes from 1, in its middle, to the left if heist needs less than the other and to the right if it needs more; its
// ends are a factor of four.
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
