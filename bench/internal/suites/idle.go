package suites

import (
	"runtime/debug"
	"time"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// idleSuite measures what an idle pool costs.
//
// asleep: first the garbage of the process is collected and its free memory returned, so
// that the runtime has nothing to do later. A pool is made, runs a hundred empty tasks, and
// gets 50 ms to fall asleep. Then the CPU time and the voluntary context switches of the
// process are counted, over all its threads and the kernel's work for them, for the run's
// time but at least 500 ms. The only goroutine outside of the pool sleeps meanwhile.
// Afterwards the pool must run another hundred tasks.
//
// CPU time is in percent of one CPU, wake-ups are per second; "none" is the process
// without a pool. Zero, which is below the system's resolution, counts as one microsecond
// and one wake-up, so that ratios exist.
//
// The program that links ants has its default pool besides, whose goroutine looks at the clock twice a second.
func idleSuite(linked libraries) runner.Suite {
	impl := func(name string, open opener) runner.Impl {
		return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
			if _, err := gauge.UsageSoFar(); err != nil {
				return nil, nil, runner.Missing{Reason: err.Error()}
			}
			return func() (runner.Sample, error) { return idle(env, open) }, nil, nil
		}}
	}
	return runner.Suite{
		Name:  "idle",
		About: "the CPU time of a pool with nothing to do",
		Cases: runner.InBothStates([]runner.Case{{
			Name:    "asleep",
			About:   "a pool that has run something and sleeps; CPU time of the process in percent of one CPU",
			Metrics: lower("cpu-percent", "wakeups/s"),
			Workers: asked,
			Floor:   "none",
			Impls: []runner.Impl{
				impl("heist", openHeist()),
				impl("heist-pinned", openHeist(pool.WithPinning(pool.PinCores))),
				impl("none", openNone),
				linking("ants", impl("ants", linked.of("ants").opener)),
				linking("pond", impl("pond", linked.of("pond").opener)),
			},
		}}),
	}
}

// openNone makes no pool: the submitter of a task runs it.
func openNone(_ runner.Env, task func(i int)) (func(i int) error, func(), error) {
	return func(i int) error { task(i); return nil }, func() {}, nil
}

// idle is one run.
func idle(env runner.Env, open opener) (runner.Sample, error) {
	settle, length := 50*time.Millisecond, max(env.Time, 500*time.Millisecond)
	if env.Tiny {
		settle, length = 2*time.Millisecond, 20*time.Millisecond
	}
	debug.FreeOSMemory()

	var g goal
	submit, stop, err := open(env, func(int) { g.add(1) })
	if err != nil {
		return runner.Sample{}, err
	}
	defer stop()
	if err := exercise(&g, submit); err != nil {
		return runner.Sample{}, err
	}
	time.Sleep(settle)

	before, err := gauge.UsageSoFar()
	if err != nil {
		return runner.Sample{}, err
	}
	start := time.Now()
	time.Sleep(length)
	took := time.Since(start)
	after, err := gauge.UsageSoFar()
	if err != nil {
		return runner.Sample{}, err
	}
	return runner.Sample{Values: perSecond(after.Since(before), took)}, exercise(&g, submit)
}

// exercise makes a pool run tasks that only count.
func exercise(g *goal, submit func(i int) error) error {
	const tasks = 100
	g.set(tasks)
	for i := range tasks {
		if err := submit(i); err != nil {
			return err
		}
	}
	g.wait()
	return g.check("the number of tasks done")
}

// perSecond returns the values of the case's metrics, never zero.
func perSecond(u gauge.Usage, took time.Duration) []float64 {
	return []float64{
		100 * max(u.CPU, time.Microsecond).Seconds() / took.Seconds(),
		float64(max(u.Wakeups, 1)) / took.Seconds(),
	}
}
