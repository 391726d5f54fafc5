// Package suites holds the benchmarks, one file per suite.
package suites

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// All returns every suite, in the order in which they run and are listed. What needs a library of another project runs
// only in a program that has linked it.
func All(linked ...Library) []runner.Suite {
	return []runner.Suite{
		dequeSuite(),
		primitivesSuite(),
		forkJoinSuite(),
		loopSuite(),
		algosSuite(),
		graphSuite(),
		submitSuite(linked),
		latencySuite(linked),
		mixedSuite(),
		blockingSuite(),
		neighbourSuite(linked),
		idleSuite(linked),
		serviceSuite(linked),
		balanceSuite(),
		parseSuite(linked),
		c2cSuite(),
	}
}

// asked measures with the number of workers that was asked for, and no other.
func asked(workers int) []int { return []int{workers} }

// single measures with one worker, where there is nothing to share.
func single(int) []int { return []int{1} }

// atLeastTwo is for cases that need two sides.
func atLeastTwo(workers int) []int { return []int{max(2, workers)} }

// oneAndAsked shows the cost of sharing with one worker, and its gain with several.
func oneAndAsked(workers int) []int {
	if workers == 1 {
		return []int{1}
	}
	return []int{1, workers}
}

func lower(names ...string) []contract.Metric {
	metrics := make([]contract.Metric, len(names))
	for i, name := range names {
		metrics[i] = contract.Metric{Name: name, Better: contract.Lower}
	}
	return metrics
}

// once returns a function that computes f(env) at its first call, for inputs that outlive a run.
func once[T any](f func(runner.Env) T) func(runner.Env) T {
	var result T
	var do sync.Once
	return func(env runner.Env) T {
		do.Do(func() { result = f(env) })
		return result
	}
}

// A lap does the work of a case once.
type lap func() (runner.Lap, error)

// lapped returns an implementation of a case whose one metric is nanoseconds per
// operation. Start returns its lap, and a stop function or nil.
func lapped(name string, start func(runner.Env) (lap, func(), error)) runner.Impl {
	return lappedIn(time.Nanosecond, name, start)
}

// lappedIn is lapped with a metric in another unit of time.
func lappedIn(unit time.Duration, name string, start func(runner.Env) (lap, func(), error)) runner.Impl {
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
		work, stop, err := start(env)
		run := func() (runner.Sample, error) {
			l, err := runner.Repeat(env.Time, work)
			return runner.Sample{Values: []float64{l.PerOp() / float64(unit)}, Detail: l.Detail, Extra: l.Extra}, err
		}
		return run, stop, err
	}}
}

// timed is a lap whose whole work is timed.
func timed(ops int, work func() error) (runner.Lap, error) {
	start := time.Now()
	err := work()
	return runner.Lap{Ops: ops, Took: time.Since(start)}, err
}

// onPool is an implementation with a pool of its own, which ends with it.
func onPool(name string, run func(env runner.Env, p *pool.Pool) runner.Run) runner.Impl {
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
		p, stop, err := newPool(env)
		if err != nil {
			return nil, nil, err
		}
		return run(env, p), stop, nil
	}}
}

// withoutPool is an implementation that has nothing to stop.
func withoutPool(name string, run func(env runner.Env) runner.Run) runner.Impl {
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) { return run(env), nil, nil }}
}

// newPool starts heist with the workers of the case and the given options.
func newPool(env runner.Env, options ...pool.Option) (p *pool.Pool, stop func(), err error) {
	if p, err = open(env.Workers, options...); err != nil {
		return nil, nil, missingPins(err)
	}
	return p, func() { p.Close() }, nil
}

// open makes a pool on the machine, or on the one that PretendMachine has named.
func open(workers int, options ...pool.Option) (*pool.Pool, error) {
	pretended, err := pool.OptionsFromEnv(pretend)
	if err != nil {
		return nil, err
	}
	return pool.New(slices.Concat([]pool.Option{pool.WithWorkers(workers)}, options, pretended)...)
}

const pretend = "HEISTBENCH" // before the names of settings in the environment of this process and those that it starts

// PretendMachine has the pools of this process, and of those that it starts, take the machine for the one in a file.
func PretendMachine(file string) error {
	const variable = pretend + "_TOPOLOGY"
	if err := os.Setenv(variable, file); err != nil {
		return err
	}
	if _, err := pool.OptionsFromEnv(pretend); err != nil {
		return errors.Join(errors.Unwrap(err), os.Unsetenv(variable)) // without the name of the variable, which nobody has written
	}
	return nil
}

// patience is how long a run may wait for work that should long be done. So a lost
// task shows as a wrong count, not as a command that hangs.
const patience = 30 * time.Second
