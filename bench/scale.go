package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist/bench/internal/c2c"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/page"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/numa"
)

// scaleCases are what bench scale measures unless cases are named: forks of a nanosecond, an uneven tree, trees and a loop that move
// memory, a loop that does not, a sort, tasks that make tasks, and the start of a task.
var scaleCases = []string{
	"forkjoin/fib35", "forkjoin/uts-t3", "forkjoin/mergesort", "forkjoin/matmul", "loop/large", "loop/triangular",
	"algos/sort-1m", "submit/spawn-inside", "latency/start-asleep",
}

// The defaults of bench scale.
const (
	scaleRuns = 3
	scaleTime = 100 * time.Millisecond
)

// scaled returns the suites with numbers of workers that double up to most, and of the implementations heist's first one and what
// needs nothing but Go.
func scaled(suites []runner.Suite, most int) []runner.Suite {
	var numbers []int
	for n := 1; n < most; n *= 2 {
		numbers = append(numbers, n)
	}
	numbers = append(numbers, most)
	for i, suite := range suites {
		suites[i].Cases = slices.Clone(suite.Cases)
		for j := range suites[i].Cases {
			c := &suites[i].Cases[j]
			possible := c.Workers // some cases are not there for one worker, or only for one
			c.Workers = func(int) []int {
				return slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return !slices.Contains(possible(n), n) })
			}
			heist := false
			c.Impls = slices.DeleteFunc(slices.Clone(c.Impls), func(impl runner.Impl) bool {
				if !impl.Peer() {
					later := heist
					heist = true
					return later
				}
				return impl.Name != "serial" && impl.Name != "goroutine" && impl.Name != "go"
			})
		}
	}
	return suites
}

// scale is the command scale. It measures every case with every number of workers, prints its table, and may write a page.
func (c command) scale(o options, args []string) error {
	t := c.topology(numa.Read)
	p := page.Scaling{Topology: t, Settings: [][2]string{
		{"machine", report.Machine()}, {"command", strings.Join(append([]string{"bench"}, args...), " ")}, {"date", time.Now().Format(time.RFC3339)},
		{"runs", fmt.Sprintf("%d of at least %v", o.runs, o.time)},
	}}
	if lines, err := c2c.Sample(t, 20*time.Millisecond); err == nil && len(lines.Tiers) > 0 {
		p.Settings = append(p.Settings, [2]string{"a cache line from CPU to CPU", lines.Summary()})
	}
	var out *os.File
	if o.given["out"] {
		var err error
		if out, err = os.Create(o.out); err != nil { // before the measuring, which takes minutes
			return fmt.Errorf("-out: %w", err)
		}
	}
	for _, s := range p.Settings {
		fmt.Fprintf(c.stdout, "%s: %s\n", s[0], s[1])
	}
	fmt.Fprintf(c.stdout, "%v\n%s\n", t, report.ScaleLegend)
	c.said, c.progress, c.all = make(map[string]bool), newProgress(c.stderr, o), new([]runner.Outcome)
	gauge.Calibrate()
	if err := c.programs.Build(c.programsFor(o)...); err != nil {
		return err
	}
	var failures []error
	for _, suite := range o.suites {
		for _, benchCase := range suite.Cases {
			outcomes, err := c.outcomes(o, suite, benchCase)
			if err != nil {
				failures = append(failures, err)
			}
			if len(outcomes) > 0 {
				p.Cases = append(p.Cases, outcomes)
				report.Scale(c.stdout, outcomes)
			}
		}
	}
	if out != nil {
		failures = append(failures, p.Write(out), out.Close())
	}
	return errors.Join(failures...)
}
