// Package cli holds what the main functions of the examples share: flags, signals and the exit status.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// Main calls run and exits with its status. The first of the signals ends run's context.
func Main(run func(ctx context.Context, args []string, stdout io.Writer) error, signals ...os.Signal) {
	ctx := context.Background()
	if len(signals) > 0 { // without signals, NotifyContext would take all
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, signals...)
		context.AfterFunc(ctx, stop) // so that a second signal ends the process
	}
	err := run(ctx, os.Args[1:], os.Stdout)
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case errors.As(err, &usage):
		complain(err)
		os.Exit(exitUsage)
	default:
		complain(err)
		os.Exit(exitFailed)
	}
}

func complain(err error) {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
}

// Parse parses the command line. Operands names the arguments after the flags in the usage; if it is empty, none
// are allowed.
func Parse(flags *flag.FlagSet, operands string, args []string, stdout io.Writer) error {
	flags.SetOutput(io.Discard) // a wrong flag gets one line, not the whole usage
	flags.Usage = func() {}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stdout, "usage: %s\n", strings.TrimSpace(flags.Name()+" [flags] "+operands))
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return Usagef("%w", err)
	}
	if operands == "" && flags.NArg() > 0 {
		return Usagef("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// Usagef returns an error of the command line.
func Usagef(format string, values ...any) error {
	return &usageError{fmt.Errorf(format+"; -h shows the flags", values...)}
}

type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }
