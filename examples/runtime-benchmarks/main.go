// Runtime-benchmarks has the fork-join programs of https://github.com/tzcnt/runtime-benchmarks, with its sizes, arguments and output: skynet
// with 10^8 leaves, nqueens(14), fib(39) and the product of two matrices of 2048 by 2048.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/pool"
)

func main() {
	// Links to the program have the names of the benchmarks, as those have programs of their own elsewhere.
	if name := filepath.Base(os.Args[0]); slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
		os.Args = slices.Insert(os.Args, 1, name)
	}
	cli.Main(run)
}

// benchmark is a program with a size. Prepare makes what is done, and checks the answer, twice: once to warm up.
type benchmark struct {
	name    string
	size    int  // the default
	given   bool // the size is an argument
	prepare func(size int) (do func(p *pool.Pool) (output int, err error))
}

var benchmarks = []benchmark{
	{"skynet", 8, false, skynet},
	{"nqueens", 14, false, nqueens},
	{"fib", 39, true, fibonacci},
	{"matmul", 2048, true, matmul},
}

func run(_ context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("runtime-benchmarks", flag.ContinueOnError)
	size := flags.Int("size", 0, "`n`: powers of ten for skynet, queens, the number of fib, rows of a matrix; 0 for the usual one")
	if err := cli.Parse(flags, "[-size N] skynet|nqueens|fib N|matmul N [THREADS]", args, stdout); err != nil {
		return err
	}
	operands := flags.Args()
	i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return len(operands) > 0 && b.name == operands[0] })
	if i < 0 {
		return cli.Usagef("name one of skynet, nqueens, fib and matmul")
	}
	b, numbers := benchmarks[i], []int{}
	for _, text := range operands[1:] {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return cli.Usagef("%q is no number above 0", text)
		}
		numbers = append(numbers, n)
	}
	if *size != 0 {
		b.size = *size
	}
	if b.given && len(numbers) > 0 {
		b.size, numbers = numbers[0], numbers[1:]
	}
	threads := runtime.GOMAXPROCS(0)
	if len(numbers) > 0 {
		threads = numbers[0]
	}
	if len(numbers) > 1 || b.size < 1 || b.name == "matmul" && (b.size < blockSize || b.size&(b.size-1) != 0) {
		return cli.Usagef("%s cannot have these numbers", b.name)
	}
	return b.measure(stdout, threads)
}

func (b benchmark) measure(to io.Writer, threads int) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	p, err := pool.New(pool.WithWorkers(threads))
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Fprintf(to, "threads: %d\n", threads)
	do := b.prepare(b.size)
	if _, err := do(p); err != nil { // to warm up
		return err
	}
	start := time.Now()
	output, err := do(p)
	took := time.Since(start)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "output: %d\nruns:\n  - iteration_count: 1\n    duration: %d us\n", output, took.Microseconds())
	if most, ok := peakMemory(); ok {
		fmt.Fprintf(to, "    max_rss: %s KiB\n", most)
	}
	return nil
}

// peakMemory is what Linux says of the process.
func peakMemory() (kibibytes string, ok bool) {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return "", false
	}
	return fields[0], true
}

// check returns an error for a wrong answer.
func check(got, want int, err error) (int, error) {
	if err == nil && got != want {
		err = fmt.Errorf("the answer is %d instead of %d", got, want)
	}
	return got, err
}
