// Bench measures heist and its peers, in turn on the same machine.
//
//	go run ./bench                         most suites at a glance, about two minutes
//	go run ./bench deque forkjoin          those suites, with more and longer runs
//	go run ./bench -json submit            one JSON object per line
//	go run ./bench -peers go,ants submit   compared with those only
//	go run ./bench -html report.html       and a self-contained page of plots and tables
//	go run ./bench -docs docs              and the documents that show figures: report.html, summary.svg, benchmarks.md
//	go run ./bench list                    names suites, cases and implementations
//	go run ./bench topo                    draws the machine, as text or as a picture (-svg)
//	go run ./bench c2c                     a cache line's way between every two CPUs
//	go run ./bench sim                     the scheduler on machines of up to 1024 CPUs, simulated
//	go run ./bench scale                   heist with 1, 2, 4 and more workers, up to all CPUs
//	go run ./bench compare OLD NEW         what got worse between two files of -json
//
// The suites are: the queues (deque), the steps of forks and wake-ups (primitives), divide and conquer
// (forkjoin), parallel loops (loop) and algorithms over slices (algos), graphs (graph), tasks (submit) and how long they
// wait (latency), shapes of real programs (mixed), tasks that wait (blocking), what a pool does to its process
// (neighbour), what it costs asleep (idle), requests to a server (service), uneven lanes of work (balance), a real
// job (parse), and the time in which one CPU tells another something (c2c). Peers are other libraries for Go, programs
// in Rust, C++ and Java, and the code that one writes without a library. The programs are compiled when
// they are first needed, and left out where their toolchain is missing. A glance includes them where that
// is quick.
//
// Topo, c2c, sim, scale and compare have flags of their own; "bench topo -h" and so on explain them.
// Each implementation runs in a process of its own, so that none finds what another has left or has linked: threads,
// timers, a heap, the number of Ps. The processes wait for one another. A timer is pending in each, as in nearly every
// server, except in the cases called -notimer, which are measured where their suite is named. Each run starts anew, so
// that luck with memory shows as spread.
//
// The metric peak-MB of forkjoin and submit, on Linux, is the most memory that the process had in RAM during a run. For Go
// some 12 MB of it are the runtime and the benchmark itself; the implementation "serial" shows that.
//
// C2c writes a matrix that a pool can read, so that it steals from the nearest first.
//
// The exit status is 1 if an implementation gave a wrong answer or something failed,
// 2 if the command line is wrong, and 3 if compare finds that something got worse.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed53057037/heist/bench/internal/c2c"
	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/compare"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/jobs"
	"github.com/seed53057037/heist/bench/internal/page"
	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/internal/sim"
	"github.com/seed53057037/heist/bench/internal/suites"
	"github.com/seed53057037/heist/bench/internal/topo"
	"github.com/seed53057037/heist/internal/drawing"
	"github.com/seed53057037/heist/numa"
)

func main() {
	var programs child.Programs
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		programs.Remove()
		os.Exit(exitFailed)
	}()
	c := command{suites: all(), stdout: os.Stdout, stderr: os.Stderr, programs: &programs}
	topology := sync.OnceValue(func() *numa.Topology { return c.topology(numa.Read) })
	c.crossing = func(d time.Duration) float64 { return c2c.Glance(topology(), d) }
	status := c.run(os.Args[1:])
	programs.Remove()
	os.Exit(status)
}

// all returns the suites of all packages. Programs of their own run them: see package child.
func all() []runner.Suite {
	all := append(suites.All(), jobs.Suite())
	for _, s := range all {
		for i, c := range s.Cases {
			s.Cases[i].Named = c.Named || s.Name == "jobs" || slices.Contains(named, s.Name+"/"+c.Name)
		}
	}
	return all
}

// named are cases that are measured only where they are named, so that a run of everything takes two minutes on a machine that has compiled nothing. A round of most takes
// over a second on two CPUs, and they resemble others. So are those of jobs, whose peer is a server that takes half a minute to compile.
var named = []string{
	"forkjoin/uts-t3", "forkjoin/nqueens12", "loop/outside-1024-asleep",
	"algos/grid-prefixes", "algos/grid-strings", "algos/grid-stable", "algos/grid-by", "algos/grid-func", "algos/grid-elements", "algos/sort-stable-1m",
	"submit/external-4", "latency/start-gc", "latency/gap-200us", "latency/gap-1ms", "latency/gap-5ms", "latency/burst-10", "mixed/compress-4", "mixed/ntt-18-4",
	"blocking/sleep-50us", "blocking/sleep-10ms", "blocking/sleep-100ms", "blocking/http-5ms", "blocking/files", "blocking/exec", "blocking/mixture", "blocking/notice-first",
	"service/task", "service/beside", "service/loop-200us", "service/http-task", "service/http-loop-200us",
}

// command is the program, so that tests can run it.
type command struct {
	suites         []runner.Suite
	stdout, stderr io.Writer
	programs       *child.Programs
	tiny           bool            // see runner.Env
	said           map[string]bool // the notes that were printed
	progress       *progress
	all            *[]runner.Outcome // all outcomes, for the story at the end
	line           float64           // what a cache line took from CPU to CPU before the suites, in ns; 0 if it was not measured

	// crossing measures that, for some times d. It is nil in most tests.
	crossing func(d time.Duration) float64
}

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitWorse  = 3
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
	switch o.command {
	case cmdList:
		report.List(c.stdout, o.suites)
		return exitOK
	case cmdTopo:
		return c.status(c.drawMachine(o))
	case cmdC2C:
		return c.status(c.timeLines(o))
	case cmdSim:
		return c.status(c.simulate(o))
	case cmdScale:
		return c.status(c.scale(o, args))
	case cmdCompare:
		worse, err := c.compare(o)
		if err == nil && worse {
			return exitWorse
		}
		return c.status(err)
	}
	return c.measureAll(o, args)
}

// measureAll measures the chosen suites, and returns the exit status.
func (c command) measureAll(o options, args []string) int {
	earlier, _ := os.ReadFile(filepath.Join(o.docs, "benchmarks.md")) // it need not be there
	documents := o.documents()
	files := make([]*os.File, len(documents))
	for i, d := range documents {
		var err error
		// Opened before the measuring, which may take an hour; what is in it stays until there is something better.
		if files[i], err = os.OpenFile(d.file, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
			return c.status(fmt.Errorf("-%s: %w", d.flag, err))
		}
	}
	if !o.json {
		if c.crossing != nil {
			c.line = c.crossing(20 * time.Millisecond)
		}
		upTo, legend := "", report.Legend
		if o.budget > 0 {
			upTo, legend = "up to ", legend+"\n"+report.Glance
		}
		fmt.Fprintf(c.stdout, "%s\nworkers: %d; runs: %s%d of at least %v%s\n%s\n",
			report.Machine(), o.workers, upTo, o.runs, o.time, report.Crossing(c.line), legend)
	}
	c.said = make(map[string]bool)
	c.progress = newProgress(c.stderr, o)
	c.all = new([]runner.Outcome)
	gauge.Calibrate()
	if err := c.programs.Build(c.programsFor(o)...); err != nil {
		return c.status(err)
	}
	status := exitOK
	for _, suite := range o.suites {
		for _, benchCase := range suite.Cases {
			if o.leavesOut(benchCase) {
				continue
			}
			if err := c.measure(o, suite, benchCase); err != nil {
				c.complain(err.Error())
				status = exitFailed
				if errors.Is(err, errMoved) {
					return status
				}
			}
		}
	}
	c.progress.hide()
	if !o.json {
		report.Story(c.stdout, *c.all)
	}
	if !o.given["docs"] {
		if err := c.moved(); err != nil {
			c.complain(err.Error())
		}
	}
	if len(documents) > 0 {
		p, err := c.page(o, args)
		p.Earlier = string(earlier)
		for i, d := range documents {
			if err == nil {
				err = files[i].Truncate(0)
			}
			if err == nil {
				err = d.write(p, files[i])
			}
			if err = errors.Join(err, files[i].Close()); err != nil {
				return c.status(fmt.Errorf("-%s: %w", d.flag, err))
			}
		}
	}
	return status
}

// errMoved is the error of a -docs run that waited in vain for the cores on which it began.
var errMoved = errors.New("the documents stay as they were; measure again")

// moved says that a virtual machine was moved between near and far cores. Then no word about its cores holds for all figures.
func (c command) moved() error {
	if c.line == 0 {
		return nil
	}
	now := c.crossing(time.Millisecond)
	if now == 0 || page.Cores(c.line) == page.Cores(now) {
		return nil
	}
	return fmt.Errorf("the machine changed during the run: a cache line took %s ns from CPU to CPU before it and takes %s ns now (%s, %s)",
		report.Figure(c.line), report.Figure(now), page.Cores(c.line), page.Cores(now))
}

// steady says whether a sample of a -docs run counts, in which each figure is said to be of near or of far cores. A virtual machine may be moved
// between them every few seconds. If this one was, steady waits until it is back, for so long.
func (c command) steady(patience time.Duration) (counts bool, err error) {
	counts = true
	for begin := time.Now(); ; time.Sleep(patience / 1000) {
		switch err := c.moved(); {
		case err == nil:
			return counts, nil
		case time.Since(begin) >= patience:
			return false, fmt.Errorf("%w: %w", err, errMoved)
		}
		counts = false
	}
}

// leavesOut says whether a run with a budget leaves the case out.
func (o options) leavesOut(c runner.Case) bool { return c.Named && o.budget > 0 }

// programsFor returns the programs that the suites run in.
func (c command) programsFor(o options) (names []string) {
	for _, suite := range o.suites {
		for _, benchCase := range suite.Cases {
			if o.leavesOut(benchCase) {
				continue
			}
			for _, impl := range benchCase.Impls {
				if impl.Alone || c.tiny && impl.Links == "" || impl.Peer() && !o.wantsPeer(impl.Name) {
					continue
				}
				names = append(names, impl.Program())
				if impl.Links == "jobs" {
					names = append(names, "nats") // its server
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The pool whose steals the page shows.
const stealWorkers, stealTime = 8, 300 * time.Millisecond

// document is a file that a run writes besides.
type document struct {
	flag, file string
	write      func(page.Page, io.Writer) error
}

func (o options) documents() (all []document) {
	if o.given["html"] {
		all = append(all, document{"html", o.html, page.Page.Write})
	}
	if o.given["docs"] {
		all = append(all, document{"docs", filepath.Join(o.docs, "report.html"), page.Page.Write},
			document{"docs", filepath.Join(o.docs, "summary.svg"), page.Page.Summary},
			document{"docs", filepath.Join(o.docs, "benchmarks.md"), page.Page.Markdown})
	}
	return all
}

// page returns what documents show. It measures and simulates what is not of the suites.
func (c command) page(o options, args []string) (page.Page, error) {
	p := page.Page{Outcomes: *c.all, Topology: c.topology(numa.Read), Line: c.line, Day: time.Now().Format(time.DateOnly)}
	length := stealTime
	if c.tiny {
		length = time.Millisecond
	}
	var err error
	if p.Steals.Count, err = suites.Steals(stealWorkers, length); err != nil {
		return p, err
	}
	p.Steals.Of = suites.StealsOf
	lanes := suites.Lanes()
	p.Lanes.CPUs = len(lanes)
	for _, tasks := range lanes {
		p.Lanes.Work += time.Duration(tasks) * time.Millisecond
	}
	if p.Lanes.Static, p.Lanes.Stealing, err = sim.Lanes(lanes, time.Millisecond); err != nil {
		return p, err
	}
	runs := fmt.Sprint(o.runs)
	if o.budget > 0 {
		runs = fmt.Sprintf("up to %d, fewer where a case takes over %v", o.runs, o.budget)
	}
	p.Settings = [][2]string{
		{"machine", report.Machine()}, {"date", time.Now().Format(time.RFC3339)},
		{"command", strings.Join(append([]string{"bench"}, args...), " ")}, {"workers", fmt.Sprint(o.workers)},
		{"runs", runs}, {"time of a run", "at least " + o.time.String()}, {"peers", o.peers},
		{"GOGC, GOMEMLIMIT, GODEBUG", fmt.Sprintf("%q, %q, %q", os.Getenv("GOGC"), os.Getenv("GOMEMLIMIT"), os.Getenv("GODEBUG"))},
	}
	if c.line > 0 {
		p.Settings = append(p.Settings, [2]string{"a cache line from CPU to CPU", report.Figure(c.line) + " ns at the beginning; with -docs, a sample after which the cores are not " +
			page.Cores(c.line) + " is taken again"})
	}
	return p, nil
}

// measure measures a case with every number of workers. It prints the outcomes and
// returns the failures.
func (c command) measure(o options, suite runner.Suite, benchCase runner.Case) error {
	outcomes, err := c.outcomes(o, suite, benchCase)
	if o.json {
		return errors.Join(err, report.JSON(c.stdout, outcomes))
	}
	report.Table(c.stdout, outcomes)
	return err
}

// outcomes measures a case with every number of workers. The error joins the failures.
func (c command) outcomes(o options, suite runner.Suite, benchCase runner.Case) (outcomes []runner.Outcome, err error) {
	how := runner.Options{
		Runs: o.runs, Time: o.time, Budget: o.budget, Peers: o.wantsPeer, Note: c.note, Tiny: c.tiny,
		Isolate: func(impl runner.Impl, env runner.Env) (runner.Run, func(), error) {
			return c.programs.Start(impl, env, c.note)
		},
	}
	if o.given["docs"] {
		patience := 5 * time.Minute
		if c.tiny {
			patience = 100 * time.Millisecond
		}
		how.Steady = func() (bool, error) { return c.steady(patience) }
	}
	var failures []error
	for _, workers := range benchCase.Workers(o.workers) {
		c.progress.show(suite.Name + "/" + benchCase.Name)
		outcome, err := runner.Measure(suite, benchCase, workers, how)
		c.progress.hide()
		if err != nil {
			failures = append(failures, err)
		}
		_, notes := outcome.Ratios()
		for _, note := range notes {
			c.note(note)
		}
		if suite.Crosses && workers > 1 {
			outcome.Line = c.line
		}
		if len(outcome.Series) > 0 {
			outcomes = append(outcomes, outcome)
		}
	}
	*c.all = append(*c.all, outcomes...)
	return outcomes, errors.Join(failures...)
}

// drawMachine is the command topo.
func (c command) drawMachine(o options) error {
	machine := report.Machine()
	read := numa.Read
	if o.given["root"] {
		machine = o.root
		if err := isMachine(o.root); err != nil {
			return err
		}
		read = func() (*numa.Topology, error) { return numa.ReadRoot(o.root) }
	}
	t := c.topology(read)
	tree := drawing.New(t)
	if o.given["svg"] {
		if err := writeFile(o.svg, tree.SVG); err != nil {
			return err
		}
	}
	if o.json {
		return json.NewEncoder(c.stdout).Encode(t)
	}
	fmt.Fprintln(c.stdout, machine)
	return topo.Text(c.stdout, tree)
}

// topology returns the topology from read. Part of it may be a guess. It can be drawn and used
// all the same, so a guess is reported and is no failure.
func (c command) topology(read func() (*numa.Topology, error)) *numa.Topology {
	t, err := read()
	if err != nil {
		c.complain("part of the topology is a guess:\n" + err.Error())
	}
	return t
}

// timeLines is the command c2c.
func (c command) timeLines(o options) error {
	t := c.topology(numa.Read)
	cpus, err := c2c.Choose(t, o.cpus, o.given["cpus"])
	if err != nil {
		return usageError{fmt.Errorf("-cpus: %w", err)}
	}
	if !o.json {
		fmt.Fprintf(c.stdout, "%s\nCPUs: %v; runs: %d of at least %v\n\n", report.Machine(), cpus, o.runs, o.time)
	}
	sweep, err := c2c.Run(t, cpus, o.runs, o.time)
	if err != nil {
		return err
	}
	if o.given["svg"] {
		if err := writeFile(o.svg, sweep.SVG); err != nil {
			return err
		}
	}
	if o.given["matrix"] {
		if err := writeFile(o.matrix, sweep.Matrix().Write); err != nil {
			return err
		}
	}
	if !o.json {
		return sweep.Text(c.stdout)
	}
	if len(sweep.Tiers) == 0 {
		c.complain(sweep.Nothing())
	}
	for _, line := range sweep.Lines() {
		if err := contract.Encode(c.stdout, line); err != nil {
			return err
		}
	}
	return sweep.Matrix().Write(c.stdout)
}

// simulate is the command sim.
func (c command) simulate(o options) error {
	so := sim.Options{Seed: o.seed, Seeds: o.seeds, Strategies: sim.Strategies()}
	if o.sweep {
		so.Strategies = sim.Swept()
	}
	var err error
	if so.Loads, err = sim.ChooseLoads(o.load); err != nil {
		return usageError{fmt.Errorf("-load: %w", err)}
	}
	if so.Machines, err = sim.ChooseMachines(o.machine); err != nil {
		return usageError{fmt.Errorf("-machine: %w", err)}
	}
	if o.given["root"] {
		if err := isMachine(o.root); err != nil {
			return err
		}
		t := c.topology(func() (*numa.Topology, error) { return numa.ReadRoot(o.root) })
		so.Machines = []sim.Machine{sim.MachineOf(t, o.root)}
	}
	outcomes, err := sim.Run(so)
	if err != nil {
		return err
	}
	if o.json {
		for _, line := range sim.Lines(outcomes) {
			if err := contract.Encode(c.stdout, line); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintln(c.stdout, sim.Legend)
	if o.sweep {
		return sim.RankingText(c.stdout, outcomes)
	}
	return sim.Text(c.stdout, outcomes)
}

// compare is the command compare. It says whether an implementation of heist's got worse.
func (c command) compare(o options) (worse bool, err error) {
	var files [2]compare.File
	var peers []string
	for i, name := range o.files {
		if files[i], err = compare.Read(name); err != nil {
			return false, err
		}
		peers = append(peers, files[i].Peers()...)
	}
	if o.peers != "all" && o.peers != "none" {
		for name := range strings.SplitSeq(o.peers, ",") {
			if !slices.Contains(peers, name) {
				return false, usageError{fmt.Errorf("-peers: neither file has one called %q", name)}
			}
		}
	}
	how := compare.Options{Alpha: o.alpha, Least: float64(o.worse), Peers: o.wantsPeer}
	result := compare.Compare(files[0], files[1], how)
	report.Comparison(c.stdout, result, how)
	return result.Worse(), nil
}

// isMachine returns an error for a folder that lacks a machine's CPUs. ReadRoot would make up
// a machine with as many CPUs as this one.
func isMachine(root string) error {
	if _, err := os.Stat(filepath.Join(root, "sys/devices/system/cpu")); err != nil {
		return fmt.Errorf("-root has no machine's CPUs: %w; give the folder that holds its sys and proc", err)
	}
	return nil
}

// writeFile creates a file and lets write fill it.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// usageError is an error of the command line that shows only after parsing.
type usageError struct{ error }

// status prints an error, if there is one, and returns the exit status.
func (c command) status(err error) int {
	var wrong usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong):
		c.complain(err.Error())
		return exitUsage
	}
	c.complain(err.Error())
	return exitFailed
}

// note prints a line to standard error once, even if it holds for a case with every number
// of workers.
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
