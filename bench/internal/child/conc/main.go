// Conc runs the implementations that use conc.
package main

import (
	"github.com/sourcegraph/conc/pool"

	"github.com/seed53057037/heist/bench/internal/suites"
)

func main() {
	suites.Main(suites.Library{Name: "conc", Open: func(workers int) (suites.Tasks, error) {
		p := pool.New().WithMaxGoroutines(workers)
		return suites.Tasks{
			Submit: func(n int, task func()) error {
				for range n {
					p.Go(task)
				}
				return nil
			},
			Stop: p.Wait,
		}, nil
	}})
}
