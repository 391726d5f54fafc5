// Ants runs the implementations that use ants.
package main

import (
	"github.com/panjf2000/ants/v2"

	"github.com/seed53057037/heist/bench/internal/suites"
)

func main() {
	suites.Main(suites.Library{Name: "ants", Open: func(workers int) (suites.Tasks, error) {
		p, err := ants.NewPool(workers)
		if err != nil {
			return suites.Tasks{}, err
		}
		return suites.Tasks{
			Submit: func(n int, task func()) error {
				for range n {
					if err := p.Submit(task); err != nil {
						return err
					}
				}
				return nil
			},
			Stop: p.Release,
		}, nil
	}})
}
