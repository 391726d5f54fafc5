package suites

import (
	"slices"
	"sync"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/pool"
)

// forkJoinSuite measures divide and conquer: what it costs to offer one half to
// thieves, when nearly always none takes it, and how well the halves spread when
// they are uneven.
//
// Each case is one algorithm with the same cut-offs and the same grain for all,
// the programs in other languages included; the file of the case defines it.
//
// With one worker exactly one thread computes: heist's root runs on the worker,
// and the goroutine that asked for it sleeps. With more, the asking goroutine
// takes part, as it does in a service. The hand-over of the root is timed;
// starting the pool is not.
func forkJoinSuite() runner.Suite {
	return runner.Suite{
		Name:  "forkjoin",
		About: "divide and conquer",
		Cases: runner.WithPeak(
			fibCase(), queensCase(), geometricCase(), binomialCase(), skynetCase(), mergesortCase(), matmulCase(),
		),
	}
}

// A job is the computation of a case.
type job[T any] struct {
	ops   int               // the divisor of the time
	ready func()            // puts the input in place, if not nil; not timed
	check func(got T) error // not timed

	// watch, if not nil, is called before the time begins, with heist's pool or nil.
	// The function that it returns is called when the time has ended.
	watch func(*pool.Pool) func() (detail string, extra []runner.Extra)
}

// adding is a job whose answer is a number.
func adding(what string, ops, want int) job[int] {
	return job[int]{ops: ops, check: func(got int) error { return runner.Check(what, got, want) }}
}

// lap is one execution of the job, on the pool if p is not nil.
func (j job[T]) lap(p *pool.Pool, compute func() (T, error)) lap {
	return func() (runner.Lap, error) {
		if j.ready != nil {
			j.ready()
		}
		report := func() (string, []runner.Extra) { return "", nil }
		if j.watch != nil {
			report = j.watch(p)
		}
		start := time.Now()
		got, err := compute()
		l := runner.Lap{Ops: j.ops, Took: time.Since(start)}
		l.Detail, l.Extra = report()
		if err == nil {
			err = j.check(got)
		}
		return l, err
	}
}

// forked is an implementation that computes on heist's workers, with a metric in
// the given unit.
func forked[T any](name string, unit time.Duration, start func(runner.Env) (job[T], func(*pool.Worker) T)) runner.Impl {
	return lappedIn(unit, name, func(env runner.Env) (lap, func(), error) {
		p, stop, err := newPool(env)
		if err != nil {
			return nil, nil, err
		}
		run := p.Run
		if env.Workers == 1 {
			run = func(root func(*pool.Worker)) error { return runOnWorker(p, root) }
		}
		j, compute := start(env)
		return j.lap(p, func() (got T, err error) {
			err = run(func(w *pool.Worker) { got = compute(w) })
			return got, err
		}), stop, nil
	})
}

// runOnWorker runs root on a worker of the pool and waits without taking part.
func runOnWorker(p *pool.Pool, root func(*pool.Worker)) error {
	done := make(chan struct{})
	err := p.Go(func(w *pool.Worker) {
		root(w)
		close(done)
	})
	if err == nil {
		<-done
	}
	return err
}

// called is an implementation that runs in the measuring goroutine.
func called[T any](name string, unit time.Duration, start func(runner.Env) (job[T], func() T)) runner.Impl {
	return lappedIn(unit, name, func(env runner.Env) (lap, func(), error) {
		j, compute := start(env)
		return j.lap(nil, func() (T, error) { return compute(), nil }), nil, nil
	})
}

// both calls f and g, one of them in a goroutine of its own, and returns when both
// have returned: a fork as one writes it without a library.
func both(f, g func()) {
	var half sync.WaitGroup
	half.Go(f)
	g()
	half.Wait()
}

// foreign returns the peers in other languages, which do every case of the suite. Each
// run of a peer is a process that warms up, the JVM for over a second. So in a glance only
// those that are quick take part.
func foreign(metric string, quick ...string) []runner.Impl {
	metrics := lower(metric)
	others := []runner.Impl{peers.Rayon(metrics), peers.TBB(metrics), peers.ForkJoinPool(metrics)}
	for i := range others {
		others[i].Costly = !slices.Contains(quick, others[i].Name)
	}
	return others
}

// random returns the n-th number, from 0, of the sequence splitmix64 with seed 1. It
// is the input of every case that needs one, in every language.
func random(n int) uint64 {
	x := 1 + (uint64(n)+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
