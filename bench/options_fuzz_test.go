package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzOptions: a command line, words between spaces, is understood, or the error is one
// line.
func FuzzOptions(f *testing.F) {
	known := all()
	for _, line := range []string{
		"", "-h", "list", "list forkjoin", "forkjoin/fib35 -workers 2", "--json=true deque ring",
		"scale -out x", "scale -workers 3 toy", "topo -root x -svg y", "topo deque", "c2c -cpus 0-3", "c2c deque -cpus 0", "sim -seeds 0", "sim -machine all -load x",
		"-a\nb", "-workers 0", "-runs -1", "-time 0s", "-time 1h forkjoin", "-peers go,rayon", "-peers none,", "-- -json", "-seed 1e9",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		o, err := parseOptions(strings.Split(line, " "), known, io.Discard)
		switch {
		case errors.Is(err, flag.ErrHelp):
		case err != nil:
			require.NotContains(t, err.Error(), "\n")
		case o.command == cmdMeasure, o.command == cmdC2C:
			require.NotEmpty(t, o.suites)
			require.Positive(t, o.workers)
			require.Positive(t, o.runs)
			require.Positive(t, o.time)
		}
	})
}
