// Migrate shows usual programs for four libraries, errgroup, conc, ants and pond, each beside the same program for
// heist. Both of a pair do the same work, and run compares their results.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/seed53057037/heist/examples/internal/cli"
)

func main() { cli.Main(run) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("migrate", flag.ContinueOnError)
	n := flags.Int("n", 1000, "use this `number` of words, 1 or more")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	if *n < 1 {
		return cli.Usagef("-n is %d, want 1 or more", *n)
	}
	words := make([]string, *n)
	for i := range words {
		words[i] = fmt.Sprintf("%x", i*i)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "library\tits call\theist's\tresults")
	for _, p := range pairs {
		before, err := p.before(ctx, words)
		if err != nil {
			return fmt.Errorf("%s: %w", p.library, err)
		}
		after, err := p.after(ctx, words)
		if err != nil {
			return fmt.Errorf("heist in place of %s: %w", p.library, err)
		}
		if !slices.Equal(before, after) {
			return fmt.Errorf("heist's results differ from those of %s", p.library)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\tthe same %d\n", p.library, p.call, p.heist, len(after))
	}
	return table.Flush()
}

// pair is a job done with a library and with heist: the length of each word, in order.
type pair struct {
	library, call, heist string
	before, after        func(ctx context.Context, words []string) ([]int, error)
}

var pairs = []pair{
	{"errgroup", "WithContext, SetLimit, Go, Wait", "NewGroup, the same", errgroupBefore, errgroupAfter},
	{"conc", "iter.MapErr", "par.MapErr", concBefore, concAfter},
	{"ants", "NewPool, Submit, a WaitGroup", "pool.New, Group.Go, Wait", antsBefore, antsAfter},
	{"pond", "NewResultPool, NewGroup, SubmitErr", "pool.GroupOf, Go", pondBefore, pondAfter},
}

// length is the work. An empty word is an error.
func length(word string) (int, error) {
	if word == "" {
		return 0, errEmpty
	}
	return len(word), nil
}
