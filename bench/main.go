// Bench measures heist and what else there is, in turn on the same machine.
//
//	go run ./bench                         every suite at a glance, under two minutes
//	go run ./bench deque forkjoin          those suites, with more and longer runs
//	go run ./bench -json submit            one JSON object per line
//	go run ./bench -peers go,ants submit   compared with those only
//	go run ./bench list                    names suites, cases and implementations
//
// The suites are: the queues (deque), divide and conquer (forkjoin), parallel loops
// (loop) and algorithms over slices (algos), tasks (submit) and how long they wait
// (latency), what a pool does to its process (neighbour) and costs asleep (idle), requests
// to a server (service), uneven lanes of work (balance), and a real job (parse). Peers
// are other libraries for Go, programs in Rust, C++ and Java, which are compiled when they
// are first needed and left out where their toolchain is missing, and what one writes
// without a library. In a glance those in other languages take part where that is quick.
//
// The exit status is 1 if an implementation gave a wrong answer or failed, and 2 if
// the command line is wrong.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/internal/suites"
)

func main() {
	if suites.ServeIfAsked() {
		return
	}
	c := command{suites: suites.All(), stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(c.run(os.Args[1:]))
}

// command is the program, so that tests can run it.
type command struct {
	suites         []runner.Suite
	stdout, stderr io.Writer
	tiny           bool            // see runner.Env
	said           map[string]bool // the notes that were printed
}

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func (c command) run(args []string) int {
	o, err := parseOptions(args, c.suites, c.stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		c.complain(err.Error())
		return exitUsage
	}
	if o.list {
		report.List(c.stdout, o.suites)
		return exitOK
	}
	if !o.json {
		upTo, legend := "", report.Legend
		if o.budget > 0 {
			upTo, legend = "up to ", legend+"\n"+report.Glance
		}
		fmt.Fprintf(c.stdout, "%s\nworkers: %d; runs: %s%d of at least %v, after one to warm up\n%s\n",
			report.Machine(), o.workers, upTo, o.runs, o.time, legend)
	}
	c.said = make(map[string]bool)
	status := exitOK
	for _, suite := range o.suites {
		for _, benchCase := range suite.Cases {
			if err := c.measure(o, suite, benchCase); err != nil {
				c.complain(err.Error())
				status = exitFailed
			}
		}
	}
	return status
}

// measure measures a case with every number of workers and prints it. It prints
// what succeeded and returns what did not.
func (c command) measure(o options, suite runner.Suite, benchCase runner.Case) error {
	how := runner.Options{
		Runs: o.runs, Time: o.time, Budget: o.budget, Peers: o.wantsPeer, Note: c.note, Tiny: c.tiny,
	}
	var outcomes []runner.Outcome
	var failures []error
	for _, workers := range benchCase.Workers(o.workers) {
		outcome, err := runner.Measure(suite, benchCase, workers, how)
		if err != nil {
			failures = append(failures, err)
		}
		_, notes := outcome.Ratios()
		for _, note := range notes {
			c.note(note)
		}
		outcomes = append(outcomes, outcome)
	}
	if o.json {
		failures = append(failures, report.JSON(c.stdout, outcomes))
	} else {
		report.Table(c.stdout, outcomes)
	}
	return errors.Join(failures...)
}

// note prints a line to standard error, once: what holds for a case holds for it
// with every number of workers.
func (c command) note(line string) {
	if !c.said[line] {
		c.said[line] = true
		c.complain(line)
	}
}

// complain prints to standard error, a line for each line of text.
func (c command) complain(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(c.stderr, "bench: %s\n", strings.TrimSpace(line))
	}
}
