package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/verify/claim"
)

// row is a claim and its result, or a test without a claim that failed.
type row struct {
	folder             string
	claim, how, amount string
	result             result
	reason             string // why it was not checked
	elapsed            time.Duration
}

type result string

const (
	shown      result = "ok"
	failed     result = "FAILED"
	notChecked result = "not checked"
	unfinished result = "did not end"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test string
	Output, Key, Value                string
	Elapsed                           float64
}

// read makes rows of a run's events. It prints each row, and the output of failures, to
// progress as soon as it is known.
func read(events io.Reader, progress io.Writer) ([]row, error) {
	claims := make(map[string]*row)     // by package and test
	said := make(map[string][]string)   // output of running tests
	failures := make(map[string]string) // the first test of a package that failed
	var rows []row
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("go test printed %q, which is none of its events: %w", lines.Text(), err)
		}
		top, _, sub := strings.Cut(e.Test, "/") // a subtest counts for its test
		test := e.Package + " " + top
		folder := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
		switch e.Action {
		case "attr":
			r := claims[test]
			if r == nil {
				r = &row{folder: folder, result: unfinished}
				claims[test] = r
			}
			switch e.Key {
			case claim.Key:
				r.claim = e.Value
			case claim.HowKey:
				r.how = e.Value
			case claim.AmountKey:
				r.amount = e.Value
			}
		case "output":
			said[test] = append(said[test], e.Output)
		case "build-output":
			fmt.Fprint(progress, e.Output)
		case "build-fail":
			rows = append(rows, row{folder: e.ImportPath, claim: "it can be built", result: failed})
		case "pass", "fail", "skip":
			if sub {
				break
			}
			r := claims[test]
			delete(claims, test)
			output := strings.Join(said[test], "")
			delete(said, test)
			if r == nil {
				if e.Action != "fail" || e.Test == "" && failures[e.Package] != "" {
					break
				}
				r = &row{folder: folder, claim: cmp.Or(e.Test, "the tests of the folder")}
			}
			r.elapsed = time.Duration(e.Elapsed * float64(time.Second))
			switch {
			case e.Action == "fail":
				r.result = failed
				failures[e.Package] = e.Test
				fmt.Fprint(progress, output)
			case e.Action == "skip":
				r.result, r.reason = notChecked, lastWords(output)
			case r.amount == "":
				r.result, r.reason = failed, "the test does not say how much it checked"
			default:
				r.result = shown
			}
			fmt.Fprintf(progress, "%-11s %s: %s (%v)\n", r.result, r.folder, r.claim, r.elapsed.Round(100*time.Millisecond))
			rows = append(rows, *r)
		}
	}
	for _, r := range claims {
		rows = append(rows, *r)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.folder, b.folder) })
	return rows, lines.Err()
}

// lastWords returns the last line that a test printed, which is why it was skipped.
func lastWords(output string) string {
	var last string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			last = line
		}
	}
	if _, reason, ok := strings.Cut(last, ".go:"); ok { // file.go:12: why
		_, last, _ = strings.Cut(reason, " ")
	}
	return last
}

// failures counts the rows that failed or did not end. A row that cannot be checked on this
// machine has a reason instead.
func failures(rows []row) (n int) {
	for _, r := range rows {
		if r.result == failed || r.result == unfinished {
			n++
		}
	}
	return n
}

// tabulate prints the table.
func tabulate(rows []row, markdown bool, out io.Writer) {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"folder", "claim", "checked by", "how much", "result", "s"})
	for _, r := range rows {
		how := r.how
		if r.reason != "" {
			how = strings.TrimPrefix(how+"; "+r.reason, "; ")
		}
		t.AppendRow(table.Row{r.folder, r.claim, how, r.amount, r.result, fmt.Sprintf("%.0f", r.elapsed.Seconds())})
	}
	if markdown {
		fmt.Fprintln(out, t.RenderMarkdown())
		return
	}
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateRows = true
	wrap := func(name string, width int) table.ColumnConfig {
		return table.ColumnConfig{Name: name, WidthMax: width, WidthMaxEnforcer: text.WrapSoft}
	}
	t.SetColumnConfigs([]table.ColumnConfig{wrap("claim", 40), wrap("checked by", 40), wrap("how much", 40)})
	fmt.Fprintln(out, t.Render())
}
