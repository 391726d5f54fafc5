package errgroup_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed53057037/heist/errgroup"
)

func Example() {
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(2)
	texts := []string{"to steal", "or not to steal", "that is the question"}
	counts := make([]int, len(texts))
	for i, text := range texts {
		g.Go(func() error {
			counts[i] = len(strings.Fields(text))
			return ctx.Err()
		})
	}
	fmt.Println(g.Wait(), counts)
	fmt.Println(context.Cause(ctx))
	// Output:
	// <nil> [2 4 4]
	// context canceled
}
