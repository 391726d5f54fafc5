package page

import (
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/require"
)

func TestTheSummaryKeepsTheOtherKindOfMachine(t *testing.T) {
	document := "# Benchmarks\n"
	run := func(line float64, ratio string) string {
		header, rows := Page{Line: line, Day: "2000-01-01", Earlier: document}.bothKinds([]table.Row{{"fib", ratio}})
		document = "# Benchmarks\n\n" + markdownTable(header, rows) + "\nmore\n"
		return summaryTable.FindString(document)
	}
	require.Equal(t, "|  | ratio to, on far cores (227 ns, 2000-01-01) |\n| --- | --- |\n| fib | 2 rayon |\n", run(227, "2 rayon"))
	require.Equal(t, "|  | ratio to, on near cores (54.0 ns, 2000-01-01) | ratio to, on far cores (227 ns, 2000-01-01) |\n| --- | --- | --- |\n| fib | 1 rayon | 2 rayon |\n", run(54, "1 rayon"))
	require.Equal(t, "|  | ratio to, on near cores (60.0 ns, 2000-01-01) | ratio to, on far cores (227 ns, 2000-01-01) |\n| --- | --- | --- |\n| fib | 3 rayon | 2 rayon |\n", run(60, "3 rayon"))
	require.Equal(t, "|  | ratio to, on far cores (220 ns, 2000-01-01) | ratio to, on near cores (60.0 ns, 2000-01-01) |\n| --- | --- | --- |\n| fib | 4 rayon | 3 rayon |\n", run(220, "4 rayon"))
	require.Equal(t, "|  | ratio to |\n| --- | --- |\n| fib | 5 rayon |\n", run(0, "5 rayon"))
}
