package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
)

// options is what the command line says.
type options struct {
	suites  []runner.Suite
	list    bool
	json    bool
	workers int
	runs    int
	time    time.Duration
	budget  time.Duration
	peers   string
}

// A run of everything is a glance; a run of what was named is meant to be quoted.
const (
	shortRuns, fullRuns = 3, 7
	shortTime, fullTime = 50 * time.Millisecond, 200 * time.Millisecond
	// shortBudget keeps the glance short as suites are added: a case whose rounds
	// are long gets fewer of them.
	shortBudget = time.Second
)

// maxWorkers is beyond every machine there is; more is a slip of the finger.
const maxWorkers = 4096

const usage = `Usage: bench [flags] [NAME...]      measure all suites in a short form, or what is named
       bench [flags] list [NAME...]  name suites, cases and implementations

A NAME is a suite, or one case of it: forkjoin, forkjoin/fib35.

Suites: %s
Peers:  %s

Flags:
`

// parseOptions reads the command line. Flags may stand before and after the names
// of suites, with one dash or two. Every error is one line that names what is wrong
// and what would be right; flag.ErrHelp means that the usage has been printed.
func parseOptions(args []string, known []runner.Suite, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is one line, without the usage below it
	flags.BoolVar(&o.json, "json", false, "print one JSON object per line instead of tables")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "number of workers")
	flags.IntVar(&o.runs, "runs", 0,
		fmt.Sprintf("rounds that count, after one that does not (default %d, or %d if no suite is named, fewer where a case takes over %v)", fullRuns, shortRuns, shortBudget))
	flags.DurationVar(&o.time, "time", 0,
		fmt.Sprintf("how long each run lasts at least (default %v, or %v if no suite is named)", fullTime, shortTime))
	flags.StringVar(&o.peers, "peers", "all", "comma-separated peers to compare with, all or none")

	var names []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			printUsage(help, flags, known)
			return o, err
		} else if err != nil {
			return o, fmt.Errorf("%w; the flags are %s", err, flagNames(flags))
		}
		if rest = flags.Args(); len(rest) > 0 {
			names, rest = append(names, rest[0]), rest[1:]
		}
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })

	if len(names) > 0 && names[0] == "list" {
		o.list, names = true, names[1:]
	}
	if o.list && o.json {
		return o, errors.New("list prints a table, not measurements; leave out -json")
	}
	runs, least, budget := shortRuns, shortTime, shortBudget
	if len(names) > 0 {
		runs, least, budget = fullRuns, fullTime, 0
	}
	if !given["runs"] {
		o.runs, o.budget = runs, budget
	}
	if !given["time"] {
		o.time = least
	}
	switch {
	case o.workers < 1 || o.workers > maxWorkers:
		return o, fmt.Errorf("-workers is %d; it must be from 1 to %d", o.workers, maxWorkers)
	case o.runs < 1:
		return o, fmt.Errorf("-runs is %d; it must be at least 1", o.runs)
	case o.time <= 0:
		return o, fmt.Errorf("-time is %v; it must be above 0, such as 50ms", o.time)
	}
	if err := checkPeers(o.peers, known); err != nil {
		return o, err
	}
	var err error
	o.suites, err = chooseSuites(names, known)
	return o, err
}

// chooseSuites returns the suites with these names, all if there are none, in the
// order in which they are known and each once. A name SUITE/CASE stands for that case of
// the suite.
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

// wantsPeer says whether the peer with this name is to be measured.
func (o options) wantsPeer(name string) bool {
	switch o.peers {
	case "all":
		return true
	case "none":
		return false
	}
	return slices.Contains(strings.Split(o.peers, ","), name)
}

func flagNames(flags *flag.FlagSet) string {
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	return strings.Join(names, ", ")
}

func printUsage(w io.Writer, flags *flag.FlagSet, known []runner.Suite) {
	fmt.Fprintf(w, usage, strings.Join(suiteNames(known), ", "), strings.Join(peerNames(known), ", "))
	flags.SetOutput(w)
	flags.PrintDefaults()
}
