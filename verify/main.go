// Command verify checks what heist promises, and prints a table of claims: how each was
// checked, how much, and the result.
//
//	go run ./verify                     everything, in full: some 65 minutes on two CPUs
//	go run ./verify -amounts ci         the same in the amounts of CI, in some five minutes
//	go run ./verify linear model        only these folders of verify
//	go run ./verify -markdown           the table in docs/trust.md
//
// It runs the tests of the folders beside it. `go test ./verify/...` runs them too, in
// smaller amounts:
//
//   - model: Promela models of the protocols, searched exhaustively, with mutants.
//   - linear: histories of the real queues, recorded while threads race, are checked
//     against sequential specifications, in every build.
//   - interleave: small programs over the real code in all their interleavings; explore is the
//     explorer that runs them, for code of any Go program.
//   - mutants: mutants of the real code; each must be caught by a test.
//   - mutate: a program that makes mutants by itself, and prints how many of a sample the
//     tests catch. Verify checks only its explanations of survivors.
//   - soak: random programs whose parts must each run exactly once, many items, many tasks.
//   - sequence: random calls against a simple pool that does the same, and all fuzz targets.
//   - hazards: bugs that other schedulers had, one test for each.
//   - waits: programs that wait for what heist does not know of, without Block.
//   - dropin: the tests of packages that heist's take the place of.
//   - goruntime: what the Go runtime does meanwhile. machine: what the system refuses.
//   - guest: emulated machines with several nodes, and the tests that need them.
//   - leak: a closed pool leaves nothing behind.
//   - vet: a program that does what go vet does, for other systems.
//
// verify is a module of its own, so that programs that only use heist do not download its
// dependencies.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"time"

	"github.com/seed53057037/heist/verify/claim"
)

const module = "github.com/seed53057037/heist/verify"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "verify:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		fmt.Fprintln(progress, "Usage: verify [flags] [FOLDER...]   checks all claims, or those of some folders of verify")
		flags.PrintDefaults()
	}
	amounts := flags.String("amounts", "full", "how much is checked: little, as go test does; ci, in some minutes; full")
	markdown := flags.Bool("markdown", false, "print the table in Markdown")
	limit := flags.Duration("timeout", time.Hour, "how long a folder may take")
	if err := flags.Parse(args); err != nil {
		return err
	}
	test := []string{"test", "-json", "-p", "1", "-count", "1", "-timeout", limit.String()}
	environment := os.Environ()
	switch *amounts {
	case "little":
		environment = append(environment, claim.AmountVariable+"=")
	case "ci", "full":
		environment = append(environment, claim.AmountVariable+"="+*amounts)
	default:
		return fmt.Errorf("-amounts is %q; it can be little, ci or full", *amounts)
	}
	if flags.NArg() == 0 {
		test = append(test, module+"/...")
	}
	for _, folder := range flags.Args() {
		test = append(test, path.Join(module, folder))
	}

	start := time.Now()
	c := exec.Command("go", test...)
	c.Env, c.Stderr = environment, progress
	events, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("the tests could not be started: %w", err)
	}
	rows, err := read(events, progress)
	if err != nil {
		return errors.Join(err, c.Process.Kill(), c.Wait())
	}
	ended := c.Wait()
	tabulate(rows, *markdown, out)
	fmt.Fprintf(progress, "%s\n", time.Since(start).Round(time.Second))
	switch bad := failures(rows); {
	case bad > 0:
		return fmt.Errorf("%d of %d rows are not as they should be", bad, len(rows))
	case ended != nil:
		return fmt.Errorf("all rows are as they should be, but go test says: %w", ended)
	case len(rows) == 0:
		return errors.New("nothing was checked")
	}
	return nil
}
