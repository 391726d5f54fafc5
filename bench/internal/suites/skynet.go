package suites

// skynet: a tree of ten children per node and a million leaves. A leaf returns its
// ordinal, from 0, and a node the sum of its children: 499,999,500,000 at the root.
// It is Atemerev's benchmark (github.com/atemerev/skynet) with forks in place of
// goroutines and channels. The ten children of a node are a range that is halved,
// the first half rounded down, and the halves are forked, down to the leaves:
// 999,999 forks. There is no cut-off. The metric is ns per leaf.
//
// In scope, all nodes are children of one scope, and each worker adds up the leaves that it
// visits. In scope-pair a fork is a scope with two children.

import (
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/pool"
)

func skynetCase() runner.Case {
	const fewerNote = "has 100,000 leaves, a million would take seconds; the figure is per leaf"
	fewer := func(env runner.Env) int { return env.Size(100_000, 1000) }
	goroutine := skynetOff("goroutine", fewer, skynetGo)
	goroutine.Note = fewerNote
	pair := skynetOn("heist-scope-pair", fewer, skynetPair)
	rayonPair := peers.RayonBy("rayon-scope-pair", lower("ns/leaf"))
	pair.Note, rayonPair.Note = fewerNote, fewerNote
	rayonScope := peers.RayonBy("rayon-scope", lower("ns/leaf"))
	pair.Costly, rayonPair.Costly, rayonScope.Costly = true, true, true
	return runner.Case{
		Name:    "skynet",
		About:   "a million leaves give their ordinals, ten children per node, a fork for every child; time per leaf",
		Metrics: lower("ns/leaf"),
		Workers: oneAndAsked,
		Impls: append([]runner.Impl{
			skynetOn("heist-recursive", skynetSize, skynetRecursive.Call),
			skynetOn("heist-join", skynetSize, skynetJoin),
			skynetOn("heist-scope", skynetSize, skynetScope),
			pair,
			skynetOff("serial", skynetSize, skynet),
			goroutine,
			rayonScope,
			rayonPair,
		}, foreign("ns/leaf")...),
	}
}

func skynetOn(name string, size func(runner.Env) int, sum func(*pool.Worker, siblings) int) runner.Impl {
	return forked(name, time.Nanosecond, func(env runner.Env) (job[int], func(*pool.Worker) int) {
		n := size(env)
		return skynetJob(n), func(w *pool.Worker) int { return sum(w, siblings{size: n, n: 1}) }
	})
}

func skynetOff(name string, size func(runner.Env) int, sum func(siblings) int) runner.Impl {
	return called(name, time.Nanosecond, func(env runner.Env) (job[int], func() int) {
		n := size(env)
		return skynetJob(n), func() int { return sum(siblings{size: n, n: 1}) }
	})
}

func skynetSize(env runner.Env) int { return env.Size(1_000_000, 1000) }

func skynetJob(leaves int) job[int] {
	return adding("the sum of the leaves", leaves, leaves*(leaves-1)/2)
}

// siblings are n nodes of the same parent, one after the other.
type siblings struct {
	first int // ordinal of the first leaf below them
	size  int // the leaves below each node
	n     int
}

const skynetChildren = 10

// children returns the children of a single node that is not a leaf.
func (s siblings) children() siblings {
	return siblings{first: s.first, size: s.size / skynetChildren, n: skynetChildren}
}

func (s siblings) halve() (lower, upper siblings) {
	lower, upper = s, s
	lower.n = s.n / 2
	upper.n -= lower.n
	upper.first += lower.n * s.size
	return lower, upper
}

func skynet(s siblings) int {
	if s.size == 1 {
		sum := 0
		for i := range s.n {
			sum += s.first + i
		}
		return sum
	}
	sum := 0
	for i := range s.n {
		one := siblings{first: s.first + i*s.size, size: s.size, n: 1}
		sum += skynet(one.children())
	}
	return sum
}

var skynetRecursive = pool.Recursive(func(f *pool.Fork[siblings, int], s siblings) int {
	if s.n == 1 {
		if s.size == 1 {
			return s.first
		}
		s = s.children()
	}
	x, y := f.Join(s.halve())
	return x + y
})

// skynetScope makes every node a child of one scope. A child returns nothing, so each worker
// has a sum.
func skynetScope(w *pool.Worker, root siblings) int {
	type padded struct {
		sum int
		_   [120]byte
	}
	sums := make([]padded, w.Pool().Slots())
	var visit func(s *pool.Scope, w *pool.Worker, one siblings)
	visit = func(s *pool.Scope, w *pool.Worker, one siblings) {
		if one.size == 1 {
			sums[w.ID()].sum += one.first
			return
		}
		all := one.children()
		for i := range all.n {
			child := siblings{first: all.first + i*all.size, size: all.size, n: 1}
			s.Go(w, func(w *pool.Worker) { visit(s, w, child) })
		}
	}
	w.Scope(func(s *pool.Scope) { visit(s, w, root) })
	total := 0
	for i := range sums {
		total += sums[i].sum
	}
	return total
}

// skynetPair makes the two halves children of a scope of their own.
func skynetPair(w *pool.Worker, all siblings) int {
	if all.n == 1 {
		if all.size == 1 {
			return all.first
		}
		all = all.children()
	}
	lower, upper := all.halve()
	var x, y int
	w.Scope(func(s *pool.Scope) {
		s.Go(w, func(w *pool.Worker) { x = skynetPair(w, lower) })
		s.Go(w, func(w *pool.Worker) { y = skynetPair(w, upper) })
	})
	return x + y
}

func skynetJoin(w *pool.Worker, s siblings) int {
	if s.n == 1 {
		if s.size == 1 {
			return s.first
		}
		s = s.children()
	}
	lower, upper := s.halve()
	x, y := pool.Join(w, skynetJoin, lower, skynetJoin, upper)
	return x + y
}

func skynetGo(s siblings) int {
	if s.n == 1 {
		if s.size == 1 {
			return s.first
		}
		s = s.children()
	}
	lower, upper := s.halve()
	var x, y int
	both(func() { x = skynetGo(lower) }, func() { y = skynetGo(upper) })
	return x + y
}
