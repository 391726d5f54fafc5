package suites

import (
	"fmt"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// boundsOf begins to count a pool's steal attempts. It returns a function that relates them, and the time
// since then, to Blumofe and Leiserson's bounds for randomized work stealing (JACM 1999).
//
// T1 is the time of a computation on one worker, and D the time of its longest chain, which is also its
// time on any number of workers. P workers are expected to need T1/P + O(D) and to make O(P D) attempts,
// failed ones included: for each worker a constant number in the time of a step.
func boundsOf(p *pool.Pool) (report func(t1, d time.Duration) (detail string, extra []runner.Extra)) {
	before, tried, start := p.Stats().Total(), attempts(p), time.Now()
	return func(t1, d time.Duration) (string, []runner.Extra) {
		took, after, workers := time.Since(start), p.Stats().Total(), p.Workers()
		count := attempts(p) - tried
		each := float64(count) / (float64(workers) * max(d.Seconds(), 1e-9) * 1e6)
		makespan := took.Seconds() / (t1.Seconds()/float64(workers) + d.Seconds())
		return fmt.Sprintf("%d steals of %d items in %d attempts, %.3g for each us of P D; time / (T1/P + D) = %.2f; P = %d, D = %v, T1 = %v\n",
				after.Steals-before.Steals, after.Items-before.Items, count, each, makespan,
				workers, d.Round(100*time.Nanosecond), t1.Round(time.Microsecond)),
			[]runner.Extra{
				{Metric: "steals", Value: float64(after.Steals - before.Steals)}, {Metric: "attempts", Value: float64(count)},
				{Metric: "attempts/PD-us", Value: each}, {Metric: "makespan/bound", Value: makespan},
			}
	}
}

// attempts returns how often thieves have tried a victim.
func attempts(p *pool.Pool) (sum uint64) {
	for _, tier := range p.Stats().Tiers {
		sum += tier.Attempts
	}
	return sum
}
