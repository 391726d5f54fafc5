package pool_test

import (
	"fmt"
	"log"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

func Example() {
	g, _ := pool.NewGroup(pool.Default())
	g.AtMost(4)
	var nodes atomic.Int64
	var node func(depth int) error
	node = func(depth int) error {
		nodes.Add(1)
		if depth == 0 {
			return nil
		}
		var children sync.WaitGroup
		children.Add(5)
		for range 5 {
			g.Go(func() error { defer children.Done(); return node(depth - 1) })
		}
		children.Wait() // heist notices that this task waits, and begins another one
		return nil
	}
	g.Go(func() error { return node(3) })
	if err := g.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(nodes.Load(), "nodes")
	// Output:
	// 156 nodes
}
