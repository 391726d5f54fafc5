package pool_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

func fib(w *pool.Worker, n int) int {
	if n < 2 {
		return n
	}
	x, y := pool.Join(w, fib, n-1, fib, n-2) // both halves, maybe at the same time
	return x + y
}

func Example() {
	p, err := pool.New() // a pinned worker for each CPU
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Fork-join: this goroutine takes part, the workers steal from it.
	err = p.Run(func(w *pool.Worker) {
		fmt.Println("fib(30) =", fib(w, 30))
	})
	if err != nil {
		log.Fatal(err)
	}

	// Tasks: a group has the manners of errgroup.
	var words atomic.Int64
	g, _ := p.Group(context.Background())
	for _, text := range []string{"to steal", "or not to steal", "that is the question"} {
		g.Go(func() error {
			words.Add(int64(len(strings.Fields(text))))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(words.Load(), "words")
	// Output:
	// fib(30) = 832040
	// 10 words
}
