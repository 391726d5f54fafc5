package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strconv"
	"time"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pipeline"
	"github.com/seed53057037/heist/pool"
)

// Lines are parsed, at most 64 of them at a time, then looked up, at most 8 at a time, and written in batches of 100, or of what a second brings.
func Example() {
	p := pool.Default()
	lines := slices.Values([]string{"3", "5", "8"})
	parsed := par.Stream(p, lines, 64, func(_ context.Context, line string) (int, error) { return strconv.Atoi(line) })
	squares := pipeline.Stage(p, parsed, 8, func(_ context.Context, n int) (int, error) { return n * n, nil })
	for batch, err := range pipeline.Batches(squares, 100, time.Second) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch)
	}
	// Output: [9 25 64]
}

// A source that can fail yields its error, which ends the stages behind it.
func ExampleStage() {
	source := func(yield func(string, error) bool) {
		_ = yield("12", nil) && yield("", fmt.Errorf("the line is cut"))
	}
	for n, err := range pipeline.Stage(pool.Default(), source, 8, func(_ context.Context, line string) (int, error) { return strconv.Atoi(line) }) {
		fmt.Println(n, err)
	}
	// Output:
	// 12 <nil>
	// 0 the line is cut
}

func ExampleBatches() {
	readings := func(yield func(int, error) bool) {
		for i := range 5 {
			if !yield(i, nil) {
				return
			}
		}
	}
	for batch, err := range pipeline.Batches(readings, 2, 0) {
		fmt.Println(batch, err)
	}
	// Output:
	// [0 1] <nil>
	// [2 3] <nil>
	// [4] <nil>
}
