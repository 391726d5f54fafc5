package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// void are the elements of HTML that have no end.
var void = map[string]bool{"meta": true, "link": true, "br": true, "img": true}

// readPage returns a page's elements by id, and all text of cells, and checks that every element is closed and that
// nothing is loaded from elsewhere.
func readPage(t *testing.T, text string) (ids map[string]bool, cells []string) {
	t.Helper()
	ids = make(map[string]bool)
	var open []string
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			require.Empty(t, open, "elements that are not closed")
			return ids, cells
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			require.NotEqual(t, "script", token.Data)
			for _, a := range token.Attr {
				switch {
				case a.Key == "id":
					require.False(t, ids[a.Val], "id %q is there twice", a.Val)
					ids[a.Val] = true
				case a.Key == "src" || strings.HasSuffix(a.Key, "href"):
					require.True(t, strings.HasPrefix(a.Val, "#"), a.Val)
				}
			}
			if kind == html.StartTagToken && !void[token.Data] {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			name := z.Token().Data
			require.NotEmpty(t, open, name)
			require.Equal(t, open[len(open)-1], name)
			open = open[:len(open)-1]
		case html.TextToken:
			if len(open) > 0 && open[len(open)-1] == "td" {
				cells = append(cells, z.Token().Data)
			}
		}
	}
}

func TestPageHasEverySectionAndEveryFigure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	out := runCommand(all(), "-json", "-html", file, "-runs=2", "-time=1ms", "-workers=2", "-peers=go,serial,static,ants",
		"forkjoin", "latency", "neighbour", "service", "balance")
	require.Equal(t, exitOK, out.status, out.stderr)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	page := string(written)
	ids, cells := readPage(t, page)
	for _, id := range []string{"story", "forks", "speedup", "latency", "neighbours", "lanes", "steals", "machine", "environment", "results", "cpu0"} {
		require.True(t, ids[id], id)
	}
	require.False(t, ids["missing"])
	require.NotContains(t, page, "url(")
	require.NotContains(t, page, "@import")

	for text := range strings.Lines(out.stdout) {
		var l contract.Line
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		if l.Impl == "" || strings.Contains(text, "ratio_to") {
			continue
		}
		for _, v := range []float64{l.Value, l.Min, l.Max} {
			require.Contains(t, cells, report.Figure(v), text)
		}
	}
	require.Contains(t, cells, "-peers=go,serial,static,ants"[len("-peers="):])
}

func TestDocumentsHaveTheSameRun(t *testing.T) {
	dir := t.TempDir()
	out := runCommand(all(), "-json", "-docs", dir, "-runs=2", "-time=1ms", "-workers=2", "-peers=serial,static,mutex,errgroup",
		"deque", "forkjoin/fib35", "balance")
	require.Equal(t, exitOK, out.status, out.stderr)
	text := func(name string) string {
		written, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(written)
	}
	markdown := text("benchmarks.md")
	for _, heading := range []string{"## Summary", "## deque", "### deque/push-pop", "### forkjoin/fib35", "### balance/lanes", "## Versions"} {
		require.Equal(t, 1, strings.Count(markdown, "\n"+heading+"\n"), heading)
	}
	require.NotContains(t, markdown, "7711 Go files", "what was not measured has no row")
	metrics, figures := map[string]bool{}, 0
	lines := slices.SortedStableFunc(strings.Lines(out.stdout), func(a, b string) int { // ratios first
		return strings.Count(b, "ratio_to") - strings.Count(a, "ratio_to")
	})
	for _, line := range lines {
		var l struct {
			contract.Line
			RatioTo string `json:"ratio_to"`
			Ratio   float64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.RatioTo != "" {
			figure := report.Figure(l.Ratio)
			if l.Ratio > 1+report.Even {
				figure = "**" + figure + "**"
			}
			require.True(t, strings.Contains(markdown, "("+figure+")"), line)
			metrics[l.Metric] = true
		} else if metrics[l.Metric] { // and none besides those of the case, of which there are no ratios
			figure := regexp.MustCompile(`\| ` + regexp.QuoteMeta(report.Figure(l.Value)) + `( \(| \|)`)
			require.True(t, figure.MatchString(markdown), line)
			figures++
		}
	}
	require.Greater(t, figures, 20)
	require.True(t, strings.Contains(text("report.html"), strings.TrimSpace(text("summary.svg"))))
}

func TestPageSaysWhatWasNotMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	out := runCommand(suiteOf(steady("heist", 10, 42), steady("<b>&go", 20, 42)), "-html", file, "-runs=1", "-workers=2")
	require.Equal(t, exitOK, out.status, out.stderr)
	require.Contains(t, out.stdout, "toy/one: a toy", "the tables are printed as well")
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	ids, cells := readPage(t, string(written))
	require.True(t, ids["story"])
	require.False(t, ids["forks"])
	require.True(t, ids["missing"])
	require.Contains(t, string(written), "go run ./bench -html FILE forkjoin")
	require.Contains(t, cells, "<b>&go", "names are text")
}

func TestPageThatCannotBeWrittenFailsBeforeMeasuring(t *testing.T) {
	for _, file := range []string{"", t.TempDir(), filepath.Join(t.TempDir(), "no", "such")} {
		out := runCommand(suiteOf(steady("heist", 10, 42)), "-html", file)
		require.Equal(t, exitFailed, out.status)
		require.Empty(t, out.stdout)
		require.Contains(t, out.stderr, "-html: open ")
	}
	out := runCommand(all(), "list", "-html", "x")
	require.Equal(t, exitUsage, out.status)
}

// TestDocumentsOfAMachineThatIsMovedHoldOneKindOfCores: a sample after which the cores are of the other kind is taken again, once they are as they
// were; and if they stay so, nothing is written.
func TestDocumentsOfAMachineThatIsMovedHoldOneKindOfCores(t *testing.T) {
	for name, c := range map[string]struct {
		ways    []float64 // before the run, and then one at each look; the last one stays
		samples int
		fails   bool
	}{
		"stays":     {[]float64{50, 60}, 2, false},
		"was moved": {[]float64{50, 220, 240, 60}, 3, false},
		"is moved":  {[]float64{50, 60, 220}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "benchmarks.md")
			require.NoError(t, os.WriteFile(file, []byte("of before"), 0o666))
			samples := 0
			counted := runner.Impl{Name: "heist", Start: func(runner.Env) (runner.Run, func(), error) {
				return func() (runner.Sample, error) { samples++; return runner.Sample{Values: []float64{1}}, nil }, nil, nil
			}}
			var stdout, stderr strings.Builder
			command := command{suites: suiteOf(counted), stdout: &stdout, stderr: &stderr, tiny: true, programs: &programs}
			command.crossing = func(time.Duration) float64 {
				way := c.ways[0]
				c.ways = c.ways[min(1, len(c.ways)-1):]
				return way
			}
			status := command.run([]string{"-docs", dir, "-runs=2", "-time=1ms", "toy"})
			written, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, c.samples, samples)
			if !c.fails {
				require.Equal(t, exitOK, status, stderr.String())
				require.Contains(t, string(written), "# Benchmarks")
				return
			}
			require.Equal(t, exitFailed, status)
			require.Equal(t, "of before", string(written))
			require.Contains(t, stderr.String(), "a cache line took 50.0 ns from CPU to CPU before it and takes 220 ns now (near cores, far cores)")
			require.Contains(t, stderr.String(), "measure again")
		})
	}
}
