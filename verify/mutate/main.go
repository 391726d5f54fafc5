// Command mutate makes mutants of heist's code by itself, runs the short tests of the mutated
// package against each of a sample, and prints how many of them are caught.
//
//	go run ./verify/mutate                                200 mutants of the root, numa, policy, pool and par
//	go run ./verify/mutate -seed 7 -n 20 -packages ./pool
//	go run ./verify/mutate -list -n 0                     the names of all mutants
//	go run ./verify/mutate -only 'pool/group.go:*: g.done() dropped'
//
// The patches in verify/mutants are chosen by hand: each removes something that a protocol
// needs. These mutants are the small mistakes that can happen anywhere:
//
//   - a comparison that includes its bound or not, == for != and the reverse,
//   - an integer constant one too large, n for n + 1 and n - 1, -- for ++ and the reverse,
//   - && for || and the reverse, the condition of an if negated,
//   - a call whose result is not used, a defer or an assignment to a field dropped,
//   - an if that checks an error without its body,
//   - a half of a condition, a field of a literal or of an assignment lost, a variable that is not set back,
//   - a parameter or a field for another one of its type, two arguments of one type swapped,
//   - an argument of a variadic function, such as an option, not passed on,
//   - ctx.Err() for context.Cause(ctx), an error that no longer wraps its cause,
//   - a slice or map that is shared where it was copied, or its capacity not cut,
//   - a call at once instead of by defer, an Add or += made twice.
//
// Test files, generated files, the methods String and Error, and the texts of errors and
// panics are left alone, as are files that are not built on this machine.
//
// The go command sees each mutant through an overlay, so the work tree stays as it is; do not
// edit it meanwhile. Mutants that do not compile are replaced by others. A mutant is caught
// if a test fails, or does not end in time. Survivors that no test can catch, because they
// behave like the original, are explained in survivors.txt and are counted apart:
//
//	FILE:LINE: CHANGE: REASON
//
// where * in the first three stands for any text.
//
// With a survivor go the first sentences of the docs that it may make untrue: of its function, and of the exported one that calls it.
//
// Run it from the root of the repository. A seed gives the same sample as long as the code
// is the same, and nearly the same when other files have changed. The exit status is 1 if
// something failed (a survivor is no failure), and 2 if the command line is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	complain := func(err error) { fmt.Fprintln(stderr, "mutate:", err) }
	o, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		complain(err)
		return exitUsage
	}
	explanations, err := readExplanations(survivorsText)
	if err == nil {
		err = o.mutate(ctx, explanations, stdout, stderr)
	}
	if err != nil {
		complain(err)
		return exitFailed
	}
	return exitOK
}

type options struct {
	dir      string // where to look for packages, the current directory if empty
	packages []string
	seed     uint64
	n, skip  int
	timeout  time.Duration
	list     bool
	only     string
}

func parseOptions(args []string, help io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints errors
	flags.Uint64Var(&o.seed, "seed", 1, "draws the sample")
	flags.IntVar(&o.n, "n", 200, "how many mutants are tested, 0 for all")
	flags.IntVar(&o.skip, "skip", 0, "how many mutants at the beginning of the sample are left out, to go on where a run was interrupted")
	packages := flags.String("packages", ".,./numa,./internal/policy,./internal/core,./pool,./par,./keyed,./graph,./limit,./pipeline,./progress", "what is mutated, with commas between packages")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long the tests may run with a mutant; one that takes longer is caught")
	flags.BoolVar(&o.list, "list", false, "only print the names of the sample, including mutants that may turn out not to compile")
	flags.StringVar(&o.only, "only", "", "draw only from mutants with this `name`, in which * stands for anything")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(help, "Usage: mutate [flags]   tests the tests with mutants of the code")
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return o, err
	}
	o.packages = strings.FieldsFunc(*packages, func(r rune) bool { return r == ',' })
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; packages are given with -packages", flags.Arg(0))
	case o.n < 0:
		return o, fmt.Errorf("-n is %d, and must not be negative", o.n)
	case o.skip < 0:
		return o, fmt.Errorf("-skip is %d, and must not be negative", o.skip)
	case o.timeout <= 0:
		return o, fmt.Errorf("-timeout is %v, and must be positive", o.timeout)
	case len(o.packages) == 0:
		return o, errors.New("-packages names none")
	}
	for _, p := range o.packages {
		if strings.HasPrefix(p, "-") {
			return o, fmt.Errorf("-packages: %q is no package", p)
		}
	}
	return o, nil
}

// mutate draws mutants, and prints survivors and the score.
func (o options) mutate(ctx context.Context, explanations []explanation, stdout, progress io.Writer) error {
	packages, err := load(ctx, o.dir, o.packages)
	if err != nil {
		return err
	}
	all, err := mutants(packages)
	if err != nil {
		return err
	}
	drawn := draw(all, o.seed, o.only)
	if len(drawn) == 0 {
		if o.only != "" {
			return fmt.Errorf("none of %d mutants is named %q; -list -n 0 prints the names", len(all), o.only)
		}
		return fmt.Errorf("%s has nothing to mutate", strings.Join(o.packages, ", "))
	}
	if o.skip >= len(drawn) {
		return fmt.Errorf("-skip is %d, and there are %d mutants", o.skip, len(drawn))
	}
	drawn = drawn[o.skip:]
	n := len(drawn)
	if o.n > 0 {
		n = min(n, o.n)
	}
	if o.list {
		for _, m := range drawn[:n] {
			fmt.Fprintln(stdout, m.name)
		}
		return nil
	}

	fmt.Fprintf(progress, "seed %d: %d of %d mutants\n", o.seed, n, len(all))
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var s score
	passed := map[*goPackage]bool{}
	for _, m := range drawn {
		if s.tested() == n {
			break
		}
		var v verdict
		if p := m.file.pkg; !passed[p] {
			err = p.pass(ctx, o.timeout)
			passed[p] = true
		}
		start := time.Now()
		if err == nil {
			v, err = m.test(ctx, dir, o.timeout)
		}
		if ctx.Err() != nil { // the tests were killed
			break
		}
		if err != nil {
			return err
		}
		reason := explain(explanations, m.name, m.steady)
		s.count(v, reason)
		fmt.Fprintf(progress, "%-16s %4.0f s  %s\n", v.outcome, time.Since(start).Seconds(), strings.TrimSpace(m.name+"  "+v.detail))
		switch {
		case v.outcome != survived:
		case reason != "":
			fmt.Fprintf(stdout, "explained %s: %s\n", m.name, reason)
		default:
			fmt.Fprintf(stdout, "survived %s\n%s%s", m.name, m.diff(), m.sentences())
		}
	}
	if s.tested() > 0 || ctx.Err() != nil {
		fmt.Fprintln(stdout, s)
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case s.tested() == 0:
		return fmt.Errorf("none of %d mutants compiles", len(drawn))
	}
	return nil
}

// score counts the outcomes of mutants.
type score struct{ caught, timedOut, survived, explained, uncompiled int }

func (s *score) count(v verdict, reason string) {
	switch {
	case v.outcome == uncompiled:
		s.uncompiled++
	case v.outcome == timedOut:
		s.timedOut++
		s.caught++
	case v.outcome == caught:
		s.caught++
	case reason != "":
		s.explained++
	default:
		s.survived++
	}
}

// tested is the number of mutants of the sample that have been tested.
func (s score) tested() int { return s.caught + s.survived + s.explained }

// String returns the score as it is printed. The percentage is of the mutants that a test
// could have caught.
func (s score) String() string {
	of, percent := s.caught+s.survived, 100.0
	if of > 0 {
		percent = 100 * float64(s.caught) / float64(of)
	}
	return fmt.Sprintf("did not compile: %d; caught by a time-out: %d; explained: %d\ncaught %d of %d (%.1f%%)",
		s.uncompiled, s.timedOut, s.explained, s.caught, of, percent)
}
