// Numa shows what to see and to choose on a machine with several memory nodes: its topology, what a pool's workers
// are bound to, and how far away they steal, by default and with other choices.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
	"text/tabwriter"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

func main() { cli.Main(run, os.Interrupt, syscall.SIGTERM) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("numa", flag.ContinueOnError)
	workers := flags.Int("workers", 0, "give each pool this `number` of workers; 0 is as many as it chooses")
	rounds := flags.Int("rounds", 50, "compute this `number` of recursions in each pool, 1 or more")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	switch {
	case *workers < 0:
		return cli.Usagef("-workers is %d, want 0 or more", *workers)
	case *rounds < 1:
		return cli.Usagef("-rounds is %d, want 1 or more", *rounds)
	}
	topology, err := numa.Read()
	if err != nil { // the topology is still usable
		fmt.Fprintf(stdout, "some of the machine is not known: %v\n", err)
	}
	fmt.Fprintln(stdout, topology)
	if len(topology.Nodes) == 1 {
		fmt.Fprintln(stdout, "There is one memory node: no memory is far away, and thieves have few tiers to choose from, if any.")
	}
	fmt.Fprintln(stdout)

	var base []pool.Option
	if *workers > 0 {
		base = append(base, pool.WithWorkers(*workers))
	}
	var results []result
	for _, c := range choices(base, *workers, topology.Allowed.Len()) {
		r, err := c.measure(ctx, *rounds)
		var refused *refusedError
		switch {
		case errors.As(err, &refused) && len(results) > 0:
			fmt.Fprintf(stdout, "%s: not on this machine: %v\n", c.name, err)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(stdout, "%s: workers: %d; bound: %s, because %s\n", c.name, r.workers, r.pinning, r.why)
		if r.workers == 1 {
			fmt.Fprintf(stdout, "%s: a single worker has nobody to steal from\n", c.name)
		}
		results = append(results, r)
	}
	fmt.Fprintln(stdout)
	return table(stdout, results)
}

// choice is a kind of pool.
type choice struct {
	name    string
	options []pool.Option
}

// choices returns the default first, which the others are compared with.
func choices(base []pool.Option, workers, cpus int) []choice {
	with := func(options ...pool.Option) []pool.Option { return append(base[:len(base):len(base)], options...) }
	isolated := with(pool.WithTuning(pool.Tuning{Isolate: true}))
	if workers == 0 { // the other threads of the process need a CPU, too
		isolated = append(isolated, pool.WithWorkers(max(1, cpus-1)))
	}
	return []choice{
		{"default", base},
		{"uniform looks", with(pool.WithTuning(pool.Tuning{UniformLooks: 1}))},
		{"isolation", isolated},
	}
}

type result struct {
	name    string
	pinning pool.Pinning
	why     string
	workers int
	tiers   []inspect.TierStats
}

// refusedError says why the pool cannot be made.
type refusedError struct{ error }

var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

const argument, value = 24, 46368

// measure lets a pool compute and returns its counts.
func (c choice) measure(ctx context.Context, rounds int) (r result, err error) {
	p, err := pool.New(c.options...)
	if err != nil {
		return r, &refusedError{err}
	}
	// Close may report that other threads could not get back their CPUs.
	defer func() { err = errors.Join(err, p.Close()) }()
	r = result{name: c.name, workers: p.Workers()}
	r.pinning, r.why = p.Pinning()
	for range rounds {
		// As a task, because a caller from outside is not bound, whatever the workers are bound to.
		n, err := pool.Async(p, func(w *pool.Worker) (int, error) { return fib.Run(w.With(ctx), argument) }).Wait(ctx)
		if err != nil {
			return r, fmt.Errorf("ended early: %w", err)
		}
		if n != value {
			return r, fmt.Errorf("fib(%d) is %d, want %d", argument, n, value)
		}
	}
	r.tiers = p.Stats().Tiers
	return r, nil
}

// table shows the tiers of each pool beside the default's. The number of steals varies from run to run; their
// shares of the tiers vary less.
func table(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "pool\ttier of victims\tattempts\tsteals\tlost races\tforks and tasks\tsteals, %\tchange, points\t")
	usual := map[string]float64{}
	for i, r := range results {
		var all uint64
		for _, tier := range r.tiers {
			all += tier.Steals
		}
		for _, tier := range r.tiers {
			percent, change := "-", "-"
			if all > 0 { // else there are no shares
				share := 100 * float64(tier.Steals) / float64(all)
				percent = fmt.Sprintf("%.0f", share)
				before, known := usual[tier.Name]
				if known {
					change = fmt.Sprintf("%+.0f", share-before)
				}
				if i == 0 {
					usual[tier.Name] = share
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t\n",
				r.name, tier.Name, tier.Attempts, tier.Steals, tier.LostRaces, tier.Items, percent, change)
		}
	}
	return w.Flush()
}
