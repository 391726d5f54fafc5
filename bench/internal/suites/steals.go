package suites

import (
	"fmt"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// StealsOf describes the work of [Steals].
const StealsOf = "small binomial trees of the Unbalanced Tree Search, 6213 nodes each, every child a fork"

// Steals counts trees on a pool of so many workers, for about the given time. It returns how often each worker stole
// from each other one: steals[thief][victim].
func Steals(workers int, length time.Duration) (steals [][]uint64, err error) {
	env := runner.Env{Workers: workers}
	p, stop, err := newPool(env)
	if err != nil {
		return nil, err
	}
	defer stop()
	tree := &utsTree{seed: 42, b: 20, q: 0.124875, m: 8, nodes: 6213}
	count := tree.recursive()
	for start := time.Now(); time.Since(start) < length; {
		var nodes int
		// On a worker, as a caller that takes part would be one more victim.
		if err := runOnWorker(p, func(w *pool.Worker) { nodes = 1 + count(w, tree.root()) }); err != nil {
			return nil, err
		}
		if err := runner.Check("the nodes of the tree", nodes, tree.nodes); err != nil {
			return nil, fmt.Errorf("heist %w", err)
		}
	}
	// The rest are slots of guests, of which there were none, and of workers that Resize could add.
	steals = p.StealMatrix()[:workers]
	for i := range steals {
		steals[i] = steals[i][:workers]
	}
	return steals, nil
}
