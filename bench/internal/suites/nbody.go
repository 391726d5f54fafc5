package suites

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// nbody is a simulation in steps, each a parallel region: bodies attract one another, and a step takes some 50 microseconds of one CPU. All
// implementations call their loop for each step from a goroutine that is no worker, but for phases, which is one call for all steps, and
// counter, the least that can be done: a thread for each worker, which spins until one counter says that the next step may begin.
func nbody() runner.Case {
	return runner.Case{
		Name:    "nbody",
		About:   "128 bodies, a parallel region for each of 200 steps; time for a step",
		Metrics: lower("us"),
		Workers: asked,
		Impls: []runner.Impl{
			bodiesOn("heist", func(p *pool.Pool, n, steps int, step stepping) error {
				return eachStep(steps, func(k int) error {
					return pool.ForRange(p, n, func(_ *pool.Worker, lo, hi int) { step(k, lo, hi) })
				})
			}),
			bodiesOn("heist-phases", func(p *pool.Pool, n, steps int, step stepping) error { return par.Phases(p, n, steps, step) }),
			bodiesOff("serial", func(_, n, steps int, step stepping) error {
				return eachStep(steps, func(k int) error { step(k, 0, n); return nil })
			}),
			bodiesOff("goroutine", func(workers, n, steps int, step stepping) error {
				return eachStep(steps, func(k int) error {
					divided(workers, n, body{items: func(lo, hi int) { step(k, lo, hi) }})
					return nil
				})
			}),
			bodiesOff("counter", counted),
			peers.Rayon(lower("us")),
		},
	}
}

// stepping does a step for the bodies lo to hi-1.
type stepping = func(step, lo, hi int)

func eachStep(steps int, do func(step int) error) error {
	for k := range steps {
		if err := do(k); err != nil {
			return err
		}
	}
	return nil
}

func bodiesOn(name string, run func(p *pool.Pool, n, steps int, step stepping) error) runner.Impl {
	return onPool(name, func(env runner.Env, p *pool.Pool) runner.Run {
		return simulate(env, func(n, steps int, step stepping) error { return run(p, n, steps, step) })
	})
}

func bodiesOff(name string, run func(workers, n, steps int, step stepping) error) runner.Impl {
	return withoutPool(name, func(env runner.Env) runner.Run {
		return simulate(env, func(n, steps int, step stepping) error { return run(env.Workers, n, steps, step) })
	})
}

// counted has the workers spin on one counter for the next step, and the caller on another one until all have done theirs.
func counted(workers, n, steps int, step stepping) error {
	var begun, done atomic.Int64
	part := func(k, worker int) { step(k, worker*n/workers, (worker+1)*n/workers) }
	await := func(counter *atomic.Int64, value int) {
		for spins := 0; counter.Load() < int64(value); spins++ {
			if heist.Pause(1); spins > 2000 {
				runtime.Gosched()
			}
		}
	}
	for worker := 1; worker < workers; worker++ {
		go func() {
			for k := range steps {
				await(&begun, k+1)
				part(k, worker)
				done.Add(1)
			}
		}()
	}
	for k := range steps {
		begun.Store(int64(k + 1))
		part(k, 0)
		await(&done, (k+1)*(workers-1))
	}
	return nil
}

const bodies = 128

// bodyState is where the bodies are, and how fast. A step reads the places of one of two moments and writes those of the other.
type bodyState struct {
	at    [2][bodies][3]float64
	speed [bodies][3]float64
}

func newBodies() *bodyState {
	s := new(bodyState)
	for i := range bodies {
		for d := range 3 {
			s.at[0][i][d] = float64(random(3*i+d)>>11) / (1 << 53)
		}
	}
	return s
}

func (s *bodyState) step(k, lo, hi int) {
	from, to := &s.at[k%2], &s.at[(k+1)%2]
	for i := lo; i < hi; i++ {
		here, speed := from[i], &s.speed[i]
		var pull [3]float64
		for j := range from {
			x, y, z := from[j][0]-here[0], from[j][1]-here[1], from[j][2]-here[2]
			square := x*x + y*y + z*z + 1e-3
			force := 1 / (square * math.Sqrt(square))
			pull[0] += x * force
			pull[1] += y * force
			pull[2] += z * force
		}
		for d := range 3 {
			speed[d] += pull[d] * 1e-6
			to[i][d] = here[d] + speed[d]*1e-3
		}
	}
}

func simulate(env runner.Env, run func(n, steps int, step stepping) error) runner.Run {
	steps := env.Size(200, 6)
	want := newBodies()
	for k := range steps {
		want.step(k, 0, bodies)
	}
	return func() (runner.Sample, error) {
		l, err := runner.Repeat(env.Time, func() (runner.Lap, error) {
			s := newBodies()
			start := time.Now()
			err := run(bodies, steps, s.step)
			lap := runner.Lap{Took: time.Since(start), Ops: steps}
			if err == nil && *s != *want {
				err = runner.Check("the place of a body", s.at[0][0], want.at[0][0])
			}
			return lap, err
		})
		return runner.Sample{Values: []float64{l.PerOp() / 1e3}}, err
	}
}
