// Quicksort sorts numbers by a recursion of its own, and then counts them in bins: the two smallest programs that fork and reduce.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

func main() { cli.Main(run, os.Interrupt) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("quicksort", flag.ContinueOnError)
	n := flags.Int("numbers", 1_000_000, "draw this `number` of numbers, each the sum of four dice")
	seed := flags.Uint64("seed", 1, "draw from this `seed`")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	if *n < 0 {
		return cli.Usagef("-numbers is %d, want 0 or more", *n)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	numbers := make([]int, *n)
	for i := range numbers {
		for range dice {
			numbers[i] += random.IntN(6) + 1
		}
	}
	at := pool.Default().With(ctx)
	if _, err := quicksort.Run(at, numbers); err != nil {
		return err
	}
	bins, err := histogram(at, numbers)
	if err != nil {
		return err
	}
	most := max(slices.Max(bins), 1)
	for sum := dice; sum < len(bins); sum++ {
		fmt.Fprintf(stdout, "%2d %s %d\n", sum, strings.Repeat("#", bins[sum]*50/most), bins[sum])
	}
	return nil
}

const dice = 4

// cutOff is the length below which a slice is sorted in one go: shorter ones cost less than what divides them.
const cutOff = 64

var quicksort = pool.Recursive(func(f *pool.Fork[[]int, struct{}], s []int) (none struct{}) {
	if len(s) <= cutOff {
		slices.Sort(s)
		return none
	}
	less, more := parts(s)
	f.Join(less, more)
	return none
})

// parts divides s around the median of three: none of less is above one of more, and what equals the pivot is in neither.
func parts(s []int) (less, more []int) {
	pivot := max(min(s[0], s[len(s)/2]), min(max(s[0], s[len(s)/2]), s[len(s)-1]))
	lo, hi := 0, len(s)
	for i := 0; i < hi; {
		switch x := s[i]; {
		case x < pivot:
			s[lo], s[i] = x, s[lo]
			lo, i = lo+1, i+1
		case x > pivot:
			hi--
			s[i], s[hi] = s[hi], x
		default:
			i++
		}
	}
	return s[:lo], s[hi:]
}

// histogram counts how often each sum of dice is there. Each block has bins of its own, so that nobody waits for others.
func histogram(at pool.Place, numbers []int) ([]int, error) {
	return par.Reduce(at, numbers,
		func() []int { return make([]int, 6*dice+1) },
		func(bins []int, x int) []int { bins[x]++; return bins },
		func(bins, others []int) []int {
			for i, n := range others {
				bins[i] += n
			}
			return bins
		})
}
