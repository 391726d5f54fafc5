package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows on a terminal how far a run has come. Elsewhere it is nil and prints nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress returns the progress of a run, which may print nothing for minutes.
func newProgress(w io.Writer, o options) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	steps := 0
	for _, suite := range o.suites {
		for _, benchCase := range suite.Cases {
			steps += len(benchCase.Workers(o.workers))
		}
	}
	return &progress{progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))}
}

// show names what is being measured.
func (p *progress) show(what string) {
	if p == nil {
		return
	}
	p.bar.Describe(what)
	_ = p.bar.RenderBlank()
}

// hide ends a step and frees the line for other output. Errors of the terminal are ignored.
func (p *progress) hide() {
	if p == nil {
		return
	}
	_ = p.bar.Clear()
	_ = p.bar.Add(1)
	_ = p.bar.Clear()
}
