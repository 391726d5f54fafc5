package suites

import (
	"errors"
	"fmt"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/c2c"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/numa"
)

// c2cPairs is the most pairs of a tier that a run measures: enough for a glance at the many
// pairs of a large machine. bench c2c measures all.
const c2cPairs = 64

// c2cSuite measures how long a cache line takes from one CPU to another, in a case for each
// of the tiers in which a pool steals. See [c2c.Pair.Measure].
//
// A run measures the pairs of the tier one after the other, at most 64 of them, evenly
// spread, and returns their median. There are no peers: the time is the machine's, whatever
// runs on it.
func c2cSuite() runner.Suite {
	suite := runner.Suite{Name: "c2c", About: "the way of a cache line from one CPU to another"}
	for i, tier := range c2c.Tiers(&numa.Topology{}, nil) {
		suite.Cases = append(suite.Cases, runner.Case{
			Name: tier.Name, About: tier.About, Metrics: lower("ns"),
			Workers: func(int) []int { return []int{2} },
			Impls: []runner.Impl{{Name: "heist", Start: func(env runner.Env) (runner.Run, func(), error) {
				return startC2C(env, i)
			}}},
		})
	}
	return suite
}

// startC2C returns the run of a tier, or Missing if the machine has no such pairs.
func startC2C(env runner.Env, i int) (runner.Run, func(), error) {
	// Where Read had to guess, pairs seem farther than they are, or closer; bench topo reports
	// the guesses.
	t, _ := numa.Read()
	all := c2c.Tiers(t, t.Allowed)[i]
	if len(all.Pairs) == 0 {
		return nil, nil, runner.Missing{Reason: fmt.Sprintf("the CPUs %v have no such pair", t.Allowed)}
	}
	if err := canPin(all.Pairs[0].First); errors.Is(err, heist.ErrPinning) {
		return nil, nil, runner.Missing{Reason: err.Error()}
	} else if err != nil {
		return nil, nil, err
	}
	some := all.Some(env.Size(c2cPairs, 2))
	return func() (runner.Sample, error) {
		ways, err := some.Measure(env.Time)
		if err != nil {
			return runner.Sample{}, err
		}
		sample := runner.Sample{Values: []float64{contract.Summarise(ways).Median}}
		if len(some.Pairs) < len(all.Pairs) {
			sample.Detail = fmt.Sprintf("%d of %d pairs", len(some.Pairs), len(all.Pairs))
		}
		return sample, nil
	}, nil, nil
}

// canPin returns the reason if a thread cannot be bound to a CPU.
func canPin(cpu int) error {
	pin, err := heist.Pin(cpu)
	if err != nil {
		return err
	}
	return pin.Unpin()
}
