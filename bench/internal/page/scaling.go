package page

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/numa"
)

// Scaling is what the owner of a machine sends back: the machine, and how heist scales on it.
type Scaling struct {
	Settings [][2]string
	Topology *numa.Topology
	Cases    [][]runner.Outcome // each with several numbers of workers
}

// Write writes the page as Markdown.
func (s Scaling) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# How heist scales\n\n%s\n```\n%v```\n\n%s\n", markdownTable(table.Row{"", ""}, pairs(s.Settings)), s.Topology, report.ScaleLegend)
	for _, outcomes := range s.Cases {
		first := outcomes[0]
		fmt.Fprintf(&b, "\n## %s/%s\n\n%s.\n\n%s\n", first.Suite, first.Case.Name, first.Case.About, report.ScaleTable(outcomes, true).RenderMarkdown())
		for _, series := range first.Series {
			if series.Impl.Note != "" {
				fmt.Fprintf(&b, "\n%s %s.\n", series.Impl.Name, strings.TrimSuffix(series.Impl.Note, "."))
			}
		}
	}
	b.WriteString("\n## Versions\n\n" + markdownTable(table.Row{"", ""}, pairs(versions())))
	_, err := io.WriteString(w, b.String())
	return err
}
