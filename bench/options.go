package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed53057037/heist/bench/internal/report"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/internal/sim"
	"github.com/seed53057037/heist/bench/internal/suites"
)

// options is the parsed command line.
type options struct {
	command string // list, topo, c2c, sim, scale, compare, or measure
	suites  []runner.Suite
	json    bool
	workers int
	runs    int
	time    time.Duration
	budget  time.Duration
	peers   string
	html    string
	docs    string

	root, svg, cpus, matrix, topology string

	machine, load string
	seed          uint64
	seeds         int
	sweep         bool

	out string

	files []string // the files to compare
	alpha float64
	worse percentage

	given map[string]bool // the flags on the command line
}

// The commands. Other names are suites to measure. So is c2c beside other suites; alone it
// is a command, which shows more.
const (
	cmdMeasure = ""
	cmdList    = "list"
	cmdTopo    = "topo"
	cmdC2C     = "c2c"
	cmdSim     = "sim"
	cmdScale   = "scale"
	cmdCompare = "compare"
)

// flagsOf names the flags of each command. c2c takes the flags for measuring as well, so that
// one command line fits all suites.
var flagsOf = map[string][]string{
	cmdMeasure: {"docs", "html", "json", "peers", "runs", "time", "topology", "workers"},
	cmdList:    {"json", "peers", "runs", "time", "workers"},
	cmdTopo:    {"json", "root", "svg"},
	cmdC2C:     {"cpus", "json", "matrix", "peers", "runs", "svg", "time", "workers"},
	cmdCompare: {"alpha", "peers", "worse"},
	cmdScale:   {"out", "runs", "time", "workers"},
	cmdSim:     {"json", "load", "machine", "root", "seed", "seeds", "sweep"},
}

// defaultsOf has the defaults of flags that have others in other commands.
var defaultsOf = map[string]map[string]string{
	cmdCompare: {"peers": "none"},
	cmdScale:   {"runs": fmt.Sprint(scaleRuns), "time": scaleTime.String()},
}

// commandOf returns the command for the names on the command line.
func commandOf(names []string) string {
	switch {
	case len(names) > 0 && slices.Contains([]string{cmdList, cmdTopo, cmdSim, cmdScale, cmdCompare}, names[0]):
		return names[0]
	case len(names) == 1 && names[0] == cmdC2C:
		return cmdC2C
	}
	return cmdMeasure
}

// A run of everything is a glance; a run of named suites is meant to be quoted.
const (
	shortRuns, fullRuns = 3, 7
	shortTime, fullTime = 20 * time.Millisecond, 200 * time.Millisecond
	// shortBudget keeps the glance short as suites are added: a case with long rounds
	// gets fewer of them.
	shortBudget = time.Second / 10
)

// simMachines is the default of bench sim: under 20 seconds on two CPUs.
const simMachines = "1n8c,4n8c,8n512c"

// maxSeeds is hours of simulation.
const maxSeeds = 1000

// maxWorkers is beyond every existing machine; more is a typing error.
const maxWorkers = 4096

const usage = `Usage: bench [flags] [NAME...]      measure all suites in a short form, or what is named
       bench [flags] list [NAME...]  name suites, cases and implementations
       bench topo [flags]            draw the machine; see bench topo -h
       bench c2c [flags]             time a cache line between all CPUs; see bench c2c -h
       bench sim [flags]             simulate the scheduler on large machines; see bench sim -h
       bench scale [flags] [NAME...] measure with 1, 2, 4 and more workers; see bench scale -h
       bench compare OLD NEW [flags] tell what got worse between two files of -json; see bench compare -h

A NAME is a suite, or one case of it: forkjoin, forkjoin/fib35.

Suites: %s
Peers:  %s

Flags:
`

const topoUsage = `Usage: bench topo [flags]

Draws a machine as a tree: packages, nodes, dies, caches, cores and CPUs, and the
distances between its nodes.

Flags:
`

const c2cUsage = `Usage: bench c2c [flags]

Measures how long a cache line takes from one CPU to another, for every two CPUs: two
threads write to one word in turn, half of a round trip is one way. Each round goes
through all pairs. The table has the medians of the rounds. There are always two threads
and no peers, whatever -workers and -peers say.

With -json the suite's lines are followed by the matrix, in the form of -matrix:

	{"cpus":[0,1,2],"ns":[[0,48.1,97],[48.1,0,96],[97,96,0]]}

Flags:
`

const simUsage = `Usage: bench sim [flags]

Simulates the scheduler on machines of up to 8 nodes and 1024 CPUs, with the code by
which a real pool searches, sleeps, wakes and waits, and compares ways of choosing victims:
at random, the nearest tier first, and in each tier the last victim first. Time is virtual,
and the same seeds give the same output.

Machines: %s
Loads:    %s

Flags:
`

const scaleUsage = `Usage: bench scale [flags] [NAME...]

Measures how heist scales: some cases, or those named, with 1, 2, 4 and so on up to -workers
workers, of heist and, where they exist, of serial code and goroutines. Each case gets a table
of times, speed-up, efficiency and steals. It takes a few minutes, on a machine that does
nothing else. With -out it also writes a page with the tables and the machine, to send back:

	go run -buildvcs=true ./bench scale -out scaling.md

Cases:  %s

Flags:
`

const compareUsage = `Usage: bench compare [flags] OLD NEW

Compares two files of lines that bench -json printed, each of one run or of several after one
another, by the Mann-Whitney test on all samples of a key: case, implementation, workers and
metric. A change is beyond noise if its p is below -alpha, and the medians differ by more than
-worse and by more than the ranges of both files' samples together. That takes at least four
samples in each file. Lines without samples, as they were before, count as one.

One run does not know how runs differ: what else the machine does may slow down all of it. So a
change between single runs must also exceed the range of a typical key. On a noisy machine that
hides small changes: take several runs for each file, old and new in turn.

The exit status is 3 if one of heist's implementations got worse, in any metric. Peers,
and what only one of the files has, do not count.

Flags:
`

// percentage is a share on the command line, with or without the percent sign.
type percentage float64

func (p *percentage) String() string { return fmt.Sprintf("%g%%", 100*float64(*p)) }

func (p *percentage) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(v >= 0) {
		return errors.New("must be a percentage such as 2%")
	}
	*p = percentage(v / 100)
	return nil
}

// parseOptions reads the command line. Flags may stand before and after the names of
// suites, with one dash or two. Every error is one line that says what is wrong and
// what would be right; flag.ErrHelp means that the usage has been printed.
func parseOptions(args []string, known []runner.Suite, help io.Writer) (options, error) {
	o := options{given: make(map[string]bool), worse: report.Even}
	flags := o.flags()
	var names []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			printUsage(help, commandOf(names), flags, known)
			return o, err
		} else if err != nil {
			// Package flag quotes values, but not a name.
			return o, fmt.Errorf("%s; the flags are %s", strings.ReplaceAll(err.Error(), "\n", `\n`), flagNames(commandOf(names)))
		}
		if rest = flags.Args(); len(rest) > 0 {
			names, rest = append(names, rest[0]), rest[1:]
		}
	}
	flags.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	o.command = commandOf(names)
	if err := o.checkFlags(); err != nil {
		return o, err
	}
	switch {
	case o.command == cmdTopo && len(names) > 1:
		return o, fmt.Errorf("topo draws a machine and takes no names, such as %q; its flags are %s", names[1], flagNames(cmdTopo))
	case o.command == cmdSim && len(names) > 1:
		return o, fmt.Errorf("sim takes no names, such as %q; see -machine and -load; its flags are %s", names[1], flagNames(cmdSim))
	case o.command == cmdSim && (o.seeds < 1 || o.seeds > maxSeeds):
		return o, fmt.Errorf("-seeds is %d; it must be from 1 to %d", o.seeds, maxSeeds)
	case o.command == cmdCompare && len(names) != 3:
		return o, fmt.Errorf("compare takes two files, the old one and the new one, not %d", len(names)-1)
	case o.command == cmdCompare && !(o.alpha > 0 && o.alpha < 1):
		return o, fmt.Errorf("-alpha is %v; it must be between 0 and 1, such as 0.05", o.alpha)
	case o.command == cmdCompare:
		if o.files = names[1:]; !o.given["peers"] {
			o.peers = "none"
		}
		return o, nil
	case o.command == cmdTopo, o.command == cmdSim:
		return o, nil
	case o.command == cmdList:
		names = names[1:]
	case o.command == cmdScale:
		if names = names[1:]; len(names) == 0 {
			names = scaleCases
		}
	}
	o.setDefaults(len(names) > 0)
	if err := o.checkValues(known); err != nil {
		return o, err
	}
	var err error
	if o.suites, err = chooseSuites(names, known); o.command == cmdScale {
		o.suites = scaled(o.suites, o.workers)
	}
	return o, err
}

// flags returns the flags of all commands, which set o.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is one line, without the usage
	flags.BoolVar(&o.json, "json", false, "print JSON, one object per line, instead of tables")
	flags.StringVar(&o.html, "html", "", "write a page with plots and all results to this `file` as well")
	flags.StringVar(&o.docs, "docs", "", "write report.html, summary.svg and benchmarks.md of this run to this `folder` as well")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "number of workers")
	flags.IntVar(&o.runs, "runs", 0,
		fmt.Sprintf("rounds (default %d, or %d if no suite is named; then fewer where a case takes over %v)", fullRuns, shortRuns, shortBudget))
	flags.DurationVar(&o.time, "time", 0,
		fmt.Sprintf("how long each run lasts at least (default %v, or %v if no suite is named)", fullTime, shortTime))
	flags.StringVar(&o.peers, "peers", "all", "comma-separated peers to compare with, all or none")
	flags.StringVar(&o.root, "root", "", "draw or simulate the machine whose sys and proc folders are in this `folder`, such as a dump")
	flags.StringVar(&o.topology, "topology", "", "have heist's pools take the machine for the one in this `file`, as bench topo -json prints it, with the CPUs of this one")
	flags.StringVar(&o.svg, "svg", "", "write a picture to this `file` as well")
	flags.StringVar(&o.cpus, "cpus", "", "the CPUs to measure between, as a `list` such as 0-3,8 (default all that the process may use)")
	flags.StringVar(&o.out, "out", "", "write a page of Markdown to this `file` as well")
	flags.StringVar(&o.matrix, "matrix", "", "write the matrix to this `file` as well")
	flags.StringVar(&o.machine, "machine", simMachines, "comma-separated machines to simulate, or all")
	flags.StringVar(&o.load, "load", "all", "comma-separated loads, or all")
	flags.Uint64Var(&o.seed, "seed", 1, "where victims and arrivals are from")
	flags.IntVar(&o.seeds, "seeds", 1, "so many runs, with seeds from -seed on")
	flags.Float64Var(&o.alpha, "alpha", 0.05, "how probable a change may be, as a `p`, where there is none")
	flags.Var(&o.worse, "worse", "by which `share` a median changes at least, or it is noise")
	flags.BoolVar(&o.sweep, "sweep", false, "go through the parameters of the pool's search and tell which are best; takes minutes")
	return flags
}

// checkFlags returns an error if a flag belongs to another command.
func (o options) checkFlags() error {
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		if slices.Contains(flagsOf[o.command], name) {
			continue
		}
		var others []string
		for _, command := range []string{cmdMeasure, cmdTopo, cmdC2C, cmdSim, cmdScale, cmdCompare} {
			if slices.Contains(flagsOf[command], name) {
				others = append(others, "bench "+cmp.Or(command, "[NAME...]"))
			}
		}
		return fmt.Errorf("-%s is for %s; the flags here are %s", name, strings.Join(others, " and "), flagNames(o.command))
	}
	if o.command == cmdList && o.json {
		return errors.New("list prints a table, not measurements; leave out -json")
	}
	return nil
}

// setDefaults sets the values that depend on whether the command line names a suite.
func (o *options) setDefaults(named bool) {
	runs, least := shortRuns, shortTime
	if named {
		runs, least = fullRuns, fullTime
	} else {
		o.budget = shortBudget
	}
	if o.command == cmdScale {
		runs, least = scaleRuns, scaleTime
	}
	if !o.given["runs"] {
		o.runs = runs
	}
	if !o.given["time"] {
		o.time = least
	}
}

func (o options) checkValues(known []runner.Suite) error {
	switch {
	case o.workers < 1 || o.workers > maxWorkers:
		return fmt.Errorf("-workers is %d; it must be from 1 to %d", o.workers, maxWorkers)
	case o.runs < 1:
		return fmt.Errorf("-runs is %d; it must be at least 1", o.runs)
	case o.time <= 0:
		return fmt.Errorf("-time is %v; it must be above 0, such as 50ms", o.time)
	}
	if o.topology != "" {
		if err := suites.PretendMachine(o.topology); err != nil {
			return fmt.Errorf("-topology: %w", err)
		}
	}
	return checkPeers(o.peers, known)
}

// chooseSuites returns the suites with these names, or all if there are no names, each
// once and in the order of known. A name SUITE/CASE stands for that case of the suite.
func chooseSuites(names []string, known []runner.Suite) ([]runner.Suite, error) {
	if len(names) == 0 {
		return known, nil
	}
	for _, name := range names {
		suite, wanted, one := strings.Cut(name, "/")
		i := slices.IndexFunc(known, func(s runner.Suite) bool { return s.Name == suite })
		if i < 0 {
			return nil, fmt.Errorf("no suite is called %q; there are %s", suite, strings.Join(suiteNames(known), ", "))
		}
		if cases := caseNames(known[i]); one && !slices.Contains(cases, wanted) {
			return nil, fmt.Errorf("no case of suite %s is called %q; there are %s", suite, wanted, strings.Join(cases, ", "))
		}
	}
	var chosen []runner.Suite
	for _, s := range known {
		if !slices.Contains(names, s.Name) {
			s.Cases = slices.DeleteFunc(slices.Clone(s.Cases), func(c runner.Case) bool {
				return !slices.Contains(names, s.Name+"/"+c.Name)
			})
		}
		if len(s.Cases) > 0 {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func caseNames(s runner.Suite) []string {
	names := make([]string, len(s.Cases))
	for i, c := range s.Cases {
		names[i] = c.Name
	}
	return names
}

func suiteNames(suites []runner.Suite) []string {
	names := make([]string, len(suites))
	for i, s := range suites {
		names[i] = s.Name
	}
	return names
}

// peerNames returns the names of all peers, sorted.
func peerNames(suites []runner.Suite) []string {
	var names []string
	for _, suite := range suites {
		for _, c := range suite.Cases {
			for _, impl := range c.Impls {
				if impl.Peer() {
					names = append(names, impl.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func checkPeers(list string, known []runner.Suite) error {
	if list == "all" || list == "none" {
		return nil
	}
	peers := peerNames(known)
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(peers, name) {
			return fmt.Errorf("no peer is called %q; there are all, none, %s", name, strings.Join(peers, ", "))
		}
	}
	return nil
}

// wantsPeer says whether to measure the peer with this name.
func (o options) wantsPeer(name string) bool {
	switch o.peers {
	case "all":
		return true
	case "none":
		return false
	}
	return slices.Contains(strings.Split(o.peers, ","), name)
}

func flagNames(command string) string { return "-" + strings.Join(flagsOf[command], ", -") }

func printUsage(w io.Writer, command string, flags *flag.FlagSet, known []runner.Suite) {
	switch command {
	case cmdTopo:
		io.WriteString(w, topoUsage)
	case cmdC2C:
		io.WriteString(w, c2cUsage)
	case cmdSim:
		fmt.Fprintf(w, simUsage, strings.Join(sim.MachineNames(), ", "), strings.Join(sim.LoadNames(), ", "))
	case cmdScale:
		fmt.Fprintf(w, scaleUsage, strings.Join(scaleCases, ", "))
	case cmdCompare:
		io.WriteString(w, compareUsage)
	default:
		fmt.Fprintf(w, usage, strings.Join(suiteNames(known), ", "), strings.Join(peerNames(known), ", "))
	}
	its := flag.NewFlagSet(command, flag.ContinueOnError)
	for _, name := range flagsOf[command] {
		f := flags.Lookup(name)
		its.Var(f.Value, f.Name, f.Usage)
		its.Lookup(name).DefValue = f.DefValue
		if value, ok := defaultsOf[command][name]; ok {
			its.Lookup(name).Usage, _, _ = strings.Cut(f.Usage, " (default")
			its.Lookup(name).DefValue = value
		}
	}
	its.SetOutput(w)
	its.PrintDefaults()
}
