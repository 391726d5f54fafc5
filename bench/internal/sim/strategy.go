package sim

import (
	"math/rand/v2"

	"github.com/seed53057037/heist/internal/policy"
)

// Strategy is a way of choosing victims.
type Strategy struct {
	Name  string
	About string

	tiers      bool
	lastVictim bool
	parameters policy.Parameters
}

// Uniform is the name of the strategy that others are compared with.
const Uniform = "uniform"

// Strategies returns the strategies to compare.
func Strategies() []Strategy {
	return []Strategy{
		{Name: Uniform, About: "each victim drawn from all alike", parameters: policy.Parameters{Uniform: policy.Always}},
		{Name: "tiers", About: "the nearest tier first, each from a random victim on", tiers: true, parameters: policy.Defaults},
		{Name: "tiers-last", About: "the same, in each tier the last victim first, as the pool does", tiers: true, lastVictim: true, parameters: policy.Defaults},
	}
}

// Load is something to run, scaled to the machine.
type Load struct {
	Name  string
	About string

	make func(l *layout, seed uint64) work
}

// work is a tree or a service.
type work struct {
	tree    *tree
	service *service
}

// nodeCost is how long a node of the Unbalanced Tree Search takes here. The benchmark has a
// parameter for that; with its own choice, one digest, it would take a hundred times as many
// nodes to keep the machine busy for as long.
const nodeCost = 10_000

// Loads returns the loads.
func Loads() []Load {
	return []Load{
		{"uts-t1", "Unbalanced Tree Search, geometric tree", func(l *layout, _ uint64) work {
			return work{tree: geometric(pick(l, 6, 7, 8), nodeCost)}
		}},
		{"uts-t3", "Unbalanced Tree Search, binomial tree", func(l *layout, _ uint64) work {
			return work{tree: binomial(32*l.workers, nodeCost)}
		}},
		{"forkjoin", "the recursion of fib, with leaves of 10 to 70 us", func(l *layout, _ uint64) work {
			return work{tree: fibonacci(pick(l, 17, 21, 24), 40_000)}
		}},
		{"combine", "the same, and 30 us after the two calls that a call makes", func(l *layout, _ uint64) work {
			return work{tree: combining(pick(l, 17, 21, 24), 40_000, 30_000)}
		}},
		{"skewed", "a range divided by 1 to 9 again and again, 200 ns an element, down to 40 us", func(l *layout, _ uint64) work {
			return work{tree: skewed(int32(20_000*l.workers), 200, 200)}
		}},
		{"service-30", "requests from outside, CPUs busy for 30% of the time", requests(0.3)},
		{"service-60", "requests from outside, CPUs busy for 60% of the time", requests(0.6)},
		{"service-90", "requests from outside, CPUs busy for 90% of the time", requests(0.9)},
	}
}

// pick chooses by the size of the machine: up to 16 CPUs, up to 128, or more.
func pick(l *layout, small, medium, large int) int {
	switch {
	case l.workers <= 16:
		return small
	case l.workers <= 128:
		return medium
	}
	return large
}

func requests(busy float64) func(*layout, uint64) work {
	return func(l *layout, seed uint64) work {
		random := rand.New(rand.NewPCG(seed, 0x5e41ce))
		return work{service: newService(random, l, 300*l.workers, busy)}
	}
}
