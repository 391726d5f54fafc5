// First is a program with one of each: forks, a loop and a group of tasks.
package main

import (
	"fmt"
	"log"
	"strings"
	"sync/atomic"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2) // both halves, maybe at the same time
	return x + y
})

func main() {
	p, err := pool.New() // a worker for each CPU
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Fork-join: this goroutine takes part, the workers steal from it.
	n, err := fib.Run(p, 30)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("fib(30) =", n)

	// Loops divide themselves, as long as a worker is idle.
	squares := make([]int, 1000)
	err = par.For(p, len(squares), func(i int) { squares[i] = i * i })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("999 squared is", squares[999])

	// Tasks: a group has the manners of errgroup.
	var words atomic.Int64
	g, _ := pool.NewGroup(p)
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
}
