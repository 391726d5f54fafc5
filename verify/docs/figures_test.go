package docs

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "put the figures of docs/benchmarks.md into the pages that show them")

// A figure in a page links to its table, and its title says which cell it is, or which ratio behind it:
//
//	[3.03 ns](benchmarks.md#forkjoinfib35 "heist-recursive, ns/fork, workers: 2")
//	[0.518](benchmarks.md#forkjoinfib35 "rayon, ratio in ns/fork, workers: 2")
var (
	figure   = regexp.MustCompile(`\[([\d.]+)([^\]]*\]\((?:docs/)?benchmarks\.md)#([\w-]+) "([^"]+)"\)`)
	unmarked = regexp.MustCompile(`\[[\d.]+[^\]]*\]\([^)]*benchmarks\.md[^")]*\)`)
	cell     = regexp.MustCompile(`^([\d.]+)(?: \(\**([\d.]+)\**\))?`)
)

// figures are the cells of a document's tables, by anchor and title.
func figures(text string) map[string]string {
	all := map[string]string{}
	var anchor string
	var columns []string
	for line := range strings.Lines(text) {
		if h := heading.FindStringSubmatch(line); h != nil {
			anchor, columns = anchors(line)[0], nil
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
		case columns == nil:
			columns = cells
		case len(cells) == len(columns)+1:
			for i, text := range cells[1:] {
				if c := cell.FindStringSubmatch(text); c != nil {
					all[anchor+` `+cells[0]+", "+columns[i]] = c[1]
					all[anchor+` `+cells[0]+", ratio in "+columns[i]] = c[2]
				}
			}
		}
	}
	return all
}

// withFigures is a page with the figures that its links name, and the links that name none.
func withFigures(page string, of map[string]string) (text string, unknown []string) {
	text = figure.ReplaceAllStringFunc(page, func(link string) string {
		part := figure.FindStringSubmatch(link)
		value := of[part[3]+" "+part[4]]
		if value == "" {
			unknown = append(unknown, link)
			return link
		}
		return "[" + value + part[2] + "#" + part[3] + ` "` + part[4] + `")`
	})
	return text, append(unknown, unmarked.FindAllString(page, -1)...)
}

var summaryTable = regexp.MustCompile(`(?m)^\|  \| ratio to.*\n(\|.*\n)+`)

func TestThePagesHaveTheFiguresOfTheBenchmarks(t *testing.T) {
	texts := documents(t)
	benchmarks := texts["docs/benchmarks.md"]
	of, table := figures(benchmarks), summaryTable.FindString(benchmarks)
	require.Greater(t, len(of), 500)
	require.NotEmpty(t, table, "docs/benchmarks.md has no summary; go run ./bench -docs docs writes it")
	shown := 0
	for name, text := range texts {
		if name == "docs/benchmarks.md" {
			continue
		}
		want, unknown := withFigures(summaryTable.ReplaceAllLiteralString(text, table), of)
		assert.Empty(t, unknown, "%s: figures that are not in docs/benchmarks.md", name)
		shown += len(figure.FindAllString(text, -1))
		if *update && want != text {
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(want), 0o644))
			continue
		}
		assert.True(t, want == text, "%s has other figures than docs/benchmarks.md; go test ./verify/docs -update mends that", name)
	}
	require.Greater(t, shown, 5)
	require.Contains(t, texts["README.md"], table)

	planted := `[9 ns](benchmarks.md#a "x, ns") [9](benchmarks.md#a "x, ratio in ns") [8](benchmarks.md#a "y, ns") [7](benchmarks.md#a)`
	got, unknown := withFigures(planted, figures("### a\n\n|  | ns |\n| --- | --- |\n| x | 1.50 (**2.5**) |\n"))
	assert.Equal(t, `[1.50 ns](benchmarks.md#a "x, ns") [2.5](benchmarks.md#a "x, ratio in ns") [8](benchmarks.md#a "y, ns") [7](benchmarks.md#a)`, got)
	assert.Equal(t, []string{`[8](benchmarks.md#a "y, ns")`, `[7](benchmarks.md#a)`}, unknown)
}

// The pictures are of the run that wrote docs/benchmarks.md.
func TestThePicturesAreOfTheSameRun(t *testing.T) {
	report, err := os.ReadFile(filepath.Join(root, "docs/report.html"))
	require.NoError(t, err)
	picture, err := os.ReadFile(filepath.Join(root, "docs/summary.svg"))
	require.NoError(t, err)
	assert.True(t, bytes.Contains(report, bytes.TrimSpace(picture)), "docs/summary.svg is not in docs/report.html; go run ./bench -docs docs writes both")
	date := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`).FindString(documents(t)["docs/benchmarks.md"])
	assert.True(t, bytes.Contains(report, []byte(date)), "docs/benchmarks.md is of another run than docs/report.html")
}
