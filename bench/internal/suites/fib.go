package suites

// fib35: fib(35), the naive recursion, where every call with n >= 2 forks. There is
// no serial cut-off, so the 14,930,351 forks are nearly all of the time. The figure
// is ns of elapsed time per fork, with the additions and comparisons of fib in it;
// "serial" shows those alone.

import (
	"fmt"
	"runtime"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

func fibCase() runner.Case {
	fibOn := func(name string, fib func(*pool.Worker, int) int) runner.Impl {
		return forked(name, time.Nanosecond, func(env runner.Env) (job[int], func(*pool.Worker) int) {
			n := fibSize(env)
			j := fibJob(n)
			j.watch = allocations(j.ops)
			return j, func(w *pool.Worker) int { return fib(w, n) }
		})
	}
	fibDoImpl := fibOn("heist-do", fibDo)
	fibDoImpl.Costly = true
	return runner.Case{
		Name:    "fib35",
		About:   "fib(35) with a fork in every call; time per fork",
		Metrics: lower("ns/fork"),
		Workers: oneAndAsked,
		Impls: append([]runner.Impl{
			fibOn("heist-recursive", fibRecursive.Call),
			fibOn("heist-join", fibJoin),
			fibDoImpl,
			called("serial", time.Nanosecond, func(env runner.Env) (job[int], func() int) {
				n := fibSize(env)
				return fibJob(n), func() int { return fib(n) }
			}),
			fibGoroutine(),
		}, foreign("ns/fork", "rayon")...),
	}
}

// fibSize is the n of fib(n).
func fibSize(env runner.Env) int { return env.Size(35, 15) }

// allocations counts what all goroutines allocate in a lap.
func allocations(forks int) func(*pool.Pool) func() (string, []runner.Extra) {
	return func(*pool.Pool) func() (string, []runner.Extra) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		return func() (string, []runner.Extra) {
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / float64(forks)
			return fmt.Sprintf("%.3f allocations per fork\n", each), []runner.Extra{{Metric: "allocs/fork", Value: each}}
		}
	}
}

func fibJob(n int) job[int] { return adding("fib", fibForks(n), fibWant(n)) }

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

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

var fibRecursive = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

func fibJoin(w *pool.Worker, n int) int {
	if n < 2 {
		return n
	}
	x, y := pool.Join(w, fibJoin, n-1, fibJoin, n-2)
	return x + y
}

func fibDo(w *pool.Worker, n int) int {
	if n < 2 {
		return n
	}
	var x, y int
	w.Do(
		func(w *pool.Worker) { x = fibDo(w, n-1) },
		func(w *pool.Worker) { y = fibDo(w, n-2) },
	)
	return x + y
}

// fibGoroutine starts a goroutine for one half of every call. That takes a hundred
// times as long as the other implementations, so it computes a smaller number; the
// cost of a fork hardly depends on it.
func fibGoroutine() runner.Impl {
	const size = 27
	impl := called("goroutine", time.Nanosecond, func(env runner.Env) (job[int], func() int) {
		n := env.Size(size, 10)
		if env.Glance {
			n -= 4
		}
		return fibJob(n), func() int { return fibGo(n) }
	})
	impl.Note = "computes fib(27), at a glance fib(23), instead of fib(35), which would take seconds; the figure is per fork"
	return impl
}

func fibGo(n int) (sum int) {
	if n < 2 {
		return n
	}
	var x, y int
	both(func() { x = fibGo(n - 1) }, func() { y = fibGo(n - 2) })
	return x + y
}
