package suites

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
	"github.com/seed53057037/heist/graph"
	"github.com/seed53057037/heist/pool"
)

// graphSuite measures graphs of functions: to build one, with what its first run needs, and to run it again and again. The
// function of a node sets its depth, one more than the greatest of the nodes before it, so a node that begins too early shows.
//
// The peers are oneTBB's flow graph of continue nodes, and what one writes in Go without a library: a counter for each node, and a
// goroutine for each one that is released, but the first of them, with which the releasing goroutine goes on.
func graphSuite() runner.Suite {
	return runner.Suite{
		Name:  "graph",
		About: "graphs of functions that run again and again",
		Cases: []runner.Case{
			graphCase("chain", "100,000 nodes, each after the one before it", func(env runner.Env) dependencies {
				d := make(dependencies, env.Size(100_000, 1000))
				for i := 1; i < len(d); i++ {
					d[i] = []int{i - 1}
				}
				return d
			}),
			graphCase("fan", "100,000 nodes, a first one, those after it, and a last one after all", func(env runner.Env) dependencies {
				d := make(dependencies, env.Size(100_000, 1000))
				last := len(d) - 1
				for i := 1; i < last; i++ {
					d[i] = []int{0}
					d[last] = append(d[last], i)
				}
				return d
			}),
			graphCase("random", "100,000 nodes, each after up to four random ones before it", func(env runner.Env) dependencies {
				d := make(dependencies, env.Size(100_000, 1000))
				for i := range d {
					for k := range min(i, 4) {
						d[i] = append(d[i], int(random(4*i+k)%uint64(i)))
					}
				}
				return d
			}),
			graphCase("wavefront", "512 x 512 nodes, each after the one to the left and the one above", func(env runner.Env) dependencies {
				size := env.Size(512, 16)
				d := make(dependencies, size*size)
				for i := range d {
					if i%size > 0 {
						d[i] = append(d[i], i-1)
					}
					if i >= size {
						d[i] = append(d[i], i-size)
					}
				}
				return d
			}),
		},
	}
}

// dependencies has for each node those before it, which have smaller numbers.
type dependencies [][]int

var graphMetrics = lower("ns/node", "build-ns/node")

func graphCase(name, about string, shape func(runner.Env) dependencies) runner.Case {
	shape = once(shape)
	tbb := peers.TBB(graphMetrics)
	tbb.Costly = true
	goroutine := withoutPool("goroutine", func(env runner.Env) runner.Run { return builtAndRun(env, shape(env), newCountedGraph) })
	return runner.Case{
		Name: name, About: about + "; time per node of a run, and of building", Metrics: graphMetrics, Workers: oneAndAsked,
		Impls: []runner.Impl{
			onPool("heist", func(env runner.Env, p *pool.Pool) runner.Run {
				return builtAndRun(env, shape(env), func(n *nodes) (func() error, error) { return newGraph(n, p) })
			}),
			goroutine,
			tbb,
		},
	}
}

// builtAndRun measures the time of a run, and that of building.
func builtAndRun(env runner.Env, d dependencies, build func(n *nodes) (run func() error, err error)) runner.Run {
	n := &nodes{d, make([]int32, len(d))}
	want := n.serially()
	return func() (runner.Sample, error) {
		var run func() error
		built, err := runner.Repeat(env.Time/2, func() (runner.Lap, error) {
			return timed(len(d), func() (err error) { run, err = build(n); return err })
		})
		if err != nil {
			return runner.Sample{}, err
		}
		ran, err := runner.Repeat(env.Time, func() (runner.Lap, error) {
			clear(n.depth)
			l, err := timed(len(d), run)
			if err == nil {
				err = runner.Check("the depths", slices.Equal(n.depth, want), true)
			}
			return l, err
		})
		return runner.Sample{Values: []float64{ran.PerOp(), built.PerOp()}}, err
	}
}

// nodes is what the nodes' functions compute.
type nodes struct {
	before dependencies
	depth  []int32
}

func (n *nodes) visit(i int) {
	deepest := int32(0)
	for _, b := range n.before[i] {
		deepest = max(deepest, n.depth[b])
	}
	n.depth[i] = deepest + 1
}

func (n *nodes) serially() []int32 {
	for i := range n.before {
		n.visit(i)
	}
	return slices.Clone(n.depth)
}

func newGraph(n *nodes, p *pool.Pool) (run func() error, err error) {
	g := new(graph.Graph)
	made := make([]*graph.Node, len(n.before))
	for i, before := range n.before {
		made[i] = g.Add("", func(*pool.Worker) error { n.visit(i); return nil })
		for _, b := range before {
			made[i].After(made[b])
		}
	}
	return func() error { return g.Run(context.Background(), p) }, g.Check()
}

// countedGraph is a graph with a counter for each node.
type countedGraph struct {
	*nodes
	after [][]int32
	left  []atomic.Int32
	group sync.WaitGroup
}

func newCountedGraph(n *nodes) (run func() error, err error) {
	g := &countedGraph{nodes: n, after: make([][]int32, len(n.before)), left: make([]atomic.Int32, len(n.before))}
	var first []int
	for i, before := range n.before {
		for _, b := range before {
			g.after[b] = append(g.after[b], int32(i))
		}
		if len(before) == 0 {
			first = append(first, i)
		}
	}
	return func() error {
		for i, before := range n.before {
			g.left[i].Store(int32(len(before)))
		}
		for _, i := range first {
			g.group.Go(func() { g.run(i) })
		}
		g.group.Wait()
		return nil
	}, nil
}

func (g *countedGraph) run(i int) {
	for i >= 0 {
		g.visit(i)
		next := -1
		for _, a := range g.after[i] {
			switch {
			case g.left[a].Add(-1) > 0:
			case next < 0:
				next = int(a)
			default:
				g.group.Go(func() { g.run(int(a)) })
			}
		}
		i = next
	}
}
