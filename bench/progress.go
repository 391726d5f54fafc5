package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows on a terminal how far a run has come. Elsewhere it is nil, and silent.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress returns the progress of a run, which may go on for minutes without a word.
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

// show says what is measured now.
func (p *progress) show(what string) {
	if p == nil {
		return
	}
	p.bar.Describe(what)
	_ = p.bar.RenderBlank()
}

// hide is for the end of a step: the line is for others again. What a terminal does not take is not worth an error.
func (p *progress) hide() {
	if p == nil {
		return
	}
	_ = p.bar.Clear()
	_ = p.bar.Add(1)
	_ = p.bar.Clear()
}
