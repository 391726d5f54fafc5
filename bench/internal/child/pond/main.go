// Pond runs the implementations that use pond.
package main

import (
	"github.com/alitto/pond/v2"

	"github.com/seed53057037/heist/bench/internal/suites"
)

func main() {
	suites.Main(suites.Library{Name: "pond", Open: func(workers int) (suites.Tasks, error) {
		p := pond.NewPool(workers)
		return suites.Tasks{
			Submit: func(n int, task func()) error {
				for range n {
					if err := p.Go(task); err != nil {
						return err
					}
				}
				return nil
			},
			Stop: p.StopAndWait,
		}, nil
	}})
}
