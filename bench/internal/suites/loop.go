package suites

import (
	"slices"
	"sync"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// loopSuite measures parallel loops, called by a goroutine that is no worker.
//
// outside-1024-asleep and outside-1024-hot: y[i] = 3 x[i] + 1 for 1024 numbers of 64
// bits, some 0.4 us of work. That is less than the wake-up of a thread takes, so the
// question is what it costs to find that out. Asleep, the caller sleeps for 5 ms before
// each call, and so does the pool. Hot, one call follows the other.
//
// large: the same for a million numbers.
//
// triangular: item i of 4096 is 8 i rounds of a 64-bit xorshift, begun with i + 1, so
// that the second half takes three times as long as the first.
//
// nbody: see nbody.go.
//
// The first three are medians of calls: 41, 101 batches of 64, and 21, or more if
// those are done before the run's time is over. Half as many come before, without a
// pause, to warm up. A batch is timed as a whole and gives one figure per call, for the
// clock, read before and after, takes some 0.05 us; in the calls asleep and the large
// ones that is included, in every language. Triangular and nbody are means.
func loopSuite() runner.Suite {
	calls := func(name, about string, a affine) runner.Case {
		return runner.Case{
			Name: name, About: about, Metrics: lower("us"), Workers: asked,
			Impls: loopImpls("us", a.run),
		}
	}
	return runner.Suite{
		Name:  "loop",
		About: "parallel loops, called from outside the pool",
		Cases: []runner.Case{
			calls("outside-1024-asleep", "1024 small items after a pause of 5 ms, the clock's 0.05 us included; median of calls",
				affine{n: 1024, least: 41, batch: 1, pause: 5 * time.Millisecond}),
			calls("outside-1024-hot", "1024 small items, call after call; median of calls, timed by 64",
				affine{n: 1024, least: 101, batch: 64}),
			calls("large", "a million small items; median of calls",
				affine{n: 1_000_000, least: 21, batch: 1}),
			{
				Name:    "triangular",
				About:   "4096 items of 8 i rounds; time for all",
				Metrics: lower("ms"),
				Workers: asked,
				Impls:   loopImpls("ms", triangular),
			},
			nbody(),
		},
	}
}

// body is what is done for the items of a loop, in both forms. It is made once, outside
// of what is timed.
type body struct {
	item  func(i int)
	items func(lo, hi int)
}

// A looping does the body for the items 0 to n-1.
type looping func(n int, b body) error

// loopImpls are the ways to loop, and a run is made of each.
func loopImpls(metric string, run func(runner.Env, looping) runner.Run) []runner.Impl {
	on := func(name string, loop func(p *pool.Pool, n int, b body) error) runner.Impl {
		return onPool(name, func(env runner.Env, p *pool.Pool) runner.Run {
			return run(env, func(n int, b body) error { return loop(p, n, b) })
		})
	}
	off := func(name string, loop func(workers, n int, b body)) runner.Impl {
		return withoutPool(name, func(env runner.Env) runner.Run {
			return run(env, func(n int, b body) error { loop(env.Workers, n, b); return nil })
		})
	}
	return []runner.Impl{
		on("heist", func(p *pool.Pool, n int, b body) error { return pool.ForRange(p, n, b.items) }),
		on("heist-for", func(p *pool.Pool, n int, b body) error { return par.For(p, n, b.item) }),
		off("serial", func(_, n int, b body) { b.items(0, n) }),
		off("goroutine", divided),
		peers.Rayon(lower(metric)),
		peers.TBB(lower(metric)),
	}
}

// divided starts a goroutine per worker, each for an equal part of the items.
func divided(workers, n int, b body) {
	var all sync.WaitGroup
	for k := range workers {
		all.Go(func() { b.items(k*n/workers, (k+1)*n/workers) })
	}
	all.Wait()
}

// affine is a case with n items, and the number of loops over them.
type affine struct {
	n, least, batch int
	pause           time.Duration
}

func (a affine) run(env runner.Env, loop looping) runner.Run {
	if env.Tiny {
		a.n, a.least, a.batch, a.pause = min(a.n, 5000), 3, min(a.batch, 2), a.pause/10
	}
	x, y := make([]uint64, a.n), make([]uint64, a.n)
	for i := range x {
		x[i] = random(i)
	}
	b := body{
		item: func(i int) { y[i] = 3*x[i] + 1 },
		items: func(lo, hi int) {
			from, to := x[lo:hi], y[lo:hi]
			for i := range to {
				to[i] = 3*from[i] + 1
			}
		},
	}
	return func() (runner.Sample, error) {
		median, err := a.median(env.Time, func() error { return loop(a.n, b) })
		if err != nil {
			return runner.Sample{}, err
		}
		clear(y)
		if err := loop(a.n, b); err != nil {
			return runner.Sample{}, err
		}
		for i := range y {
			if y[i] != 3*x[i]+1 {
				return runner.Sample{}, runner.Check("an item of the loop", y[i], 3*x[i]+1)
			}
		}
		return runner.Sample{Values: []float64{median / 1e3}}, nil
	}
}

// median returns the median of the calls, in nanoseconds.
func (a affine) median(least time.Duration, call func() error) (float64, error) {
	batch := func() error {
		for range a.batch {
			if err := call(); err != nil {
				return err
			}
		}
		return nil
	}
	for range a.least / 2 {
		if err := batch(); err != nil {
			return 0, err
		}
	}
	var took []time.Duration
	for began := time.Now(); len(took) < a.least || time.Since(began) < least; {
		if a.pause > 0 {
			time.Sleep(a.pause)
		}
		start := time.Now()
		err := batch()
		took = append(took, time.Since(start))
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(a.batch), nil
}

func triangular(env runner.Env, loop looping) runner.Run {
	out := make([]uint64, env.Size(4096, 512))
	item := func(i int) { out[i] = triangularItem(i) }
	b := body{item: item, items: func(lo, hi int) {
		for i := lo; i < hi; i++ {
			item(i)
		}
	}}
	return func() (runner.Sample, error) {
		l, err := runner.Repeat(env.Time, func() (runner.Lap, error) {
			clear(out)
			return timed(1, func() error { return loop(len(out), b) })
		})
		for i := 0; i < len(out) && err == nil; i += 61 {
			err = runner.Check("an item of the loop", out[i], triangularItem(i))
		}
		return runner.Sample{Values: []float64{l.PerOp() / 1e6}}, err
	}
}

func triangularItem(i int) uint64 {
	x := uint64(i + 1)
	for range i * 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
