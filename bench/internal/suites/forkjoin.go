package suites

import (
	"sync"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// forkJoinSuite measures divide and conquer: what it costs to offer one half to
// others, when nearly always nobody takes it.
func forkJoinSuite() runner.Suite {
	return runner.Suite{
		Name:  "forkjoin",
		About: "divide and conquer",
		Cases: []runner.Case{fibCase()},
	}
}

// fibCase measures fib(35), the naive recursion, where every call with n >= 2
// forks: nothing is cut off and computed serially, so the 14,930,351 forks are
// nearly all of the time. The figure is ns of elapsed time per fork, with the
// additions and comparisons of fib in it; "serial" shows those alone.
//
// With one worker exactly one thread computes: heist's root runs on the worker,
// and the goroutine that asked for it sleeps. With more, the asking goroutine
// takes part, as it does in a service. The hand-over of the root is in the time;
// starting the pool is not.
func fibCase() runner.Case {
	return runner.Case{
		Name:    "fib35",
		About:   "fib(35) with a fork in every call; time per fork",
		Metrics: lower("ns/fork"),
		Workers: oneAndAsked,
		Impls: []runner.Impl{
			onPool("heist-join", fibJoin),
			onPool("heist-closure", fibClosure),
			plain("serial", func(env runner.Env) lap { return fibLap(fibSize(env), fib) }),
			fibGoroutine(),
		},
	}
}

// fibSize is the n of fib(n).
func fibSize(env runner.Env) int { return env.Size(35, 15) }

// fibForks is the number of calls of fib(n) with n >= 2, which is fib(n+1)-1.
func fibForks(n int) int { return fibWant(n+1) - 1 }

// fibWant computes fib(n) without recursion.
func fibWant(n int) int {
	a, b := 0, 1
	for range n {
		a, b = b, a+b
	}
	return a
}

func fibLap(n int, compute func(n int) int) lap {
	return func() (runner.Lap, error) {
		return timed(fibForks(n), func() error {
			return runner.Check("fib", compute(n), fibWant(n))
		})
	}
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func fibJoin(w *pool.Worker, n int) int {
	if n < 2 {
		return n
	}
	x, y := pool.Join(w, fibJoin, n-1, fibJoin, n-2)
	return x + y
}

func fibClosure(w *pool.Worker, n int) int {
	if n < 2 {
		return n
	}
	var x, y int
	w.Do(
		func(w *pool.Worker) { x = fibClosure(w, n-1) },
		func(w *pool.Worker) { y = fibClosure(w, n-2) },
	)
	return x + y
}

func onPool(name string, compute func(w *pool.Worker, n int) int) runner.Impl {
	return lapped(name, func(env runner.Env) (lap, func(), error) {
		p, stop, err := newPool(env)
		if err != nil {
			return nil, nil, err
		}
		run := p.Run
		if env.Workers == 1 {
			run = func(root func(*pool.Worker)) error { return runOnWorker(p, root) }
		}
		n := fibSize(env)
		return func() (runner.Lap, error) {
			return timed(fibForks(n), func() error {
				var got int
				if err := run(func(w *pool.Worker) { got = compute(w, n) }); err != nil {
					return err
				}
				return runner.Check("fib", got, fibWant(n))
			})
		}, stop, nil
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

// fibGoroutine starts a goroutine for one half of every call. That takes a hundred
// times as long as the rest, so it computes a smaller number; the cost of a fork
// hardly depends on it.
func fibGoroutine() runner.Impl {
	const n = 27
	impl := plain("goroutine", func(env runner.Env) lap { return fibLap(env.Size(n, 10), fibGo) })
	impl.Note = "computes fib(27) instead of fib(35), which would take seconds; the figure is per fork"
	return impl
}

func fibGo(n int) int {
	if n < 2 {
		return n
	}
	var x int
	var half sync.WaitGroup
	half.Go(func() { x = fibGo(n - 1) })
	y := fibGo(n - 2)
	half.Wait()
	return x + y
}
