package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

var background = context.Background()

func nop(*pool.Worker) error { return nil }

// random returns a graph of n nodes, where each comes after some earlier ones, and what comes before each.
func random(n int, f func(i int) func(*pool.Worker) error) (g *Graph, before [][]int) {
	g = new(Graph)
	nodes := make([]*Node, n)
	before = make([][]int, n)
	for i := range nodes {
		nodes[i] = g.Add(fmt.Sprint(i), f(i))
		for range rand.IntN(4) {
			if i > 0 {
				j := max(0, i-1-rand.IntN(20))
				nodes[i].After(nodes[j])
				before[i] = append(before[i], j)
			}
		}
	}
	return g, before
}

// counted returns a random graph whose nodes count the runs.
func counted(n int, ran *atomic.Int32) *Graph {
	g, _ := random(n, func(int) func(*pool.Worker) error { return func(*pool.Worker) error { ran.Add(1); return nil } })
	return g
}

// TestEachNodeRunsOnceAfterThoseBeforeIt, run after run, also if an edge is given twice.
func TestEachNodeRunsOnceAfterThoseBeforeIt(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for range testutil.Stress(40) {
			const n = 300
			var before [][]int
			var ran [n]atomic.Int32
			var round int32
			g, before := random(n, func(i int) func(*pool.Worker) error {
				return func(*pool.Worker) error {
					for _, j := range before[i] {
						if ran[j].Load() != round {
							t.Errorf("%d runs before %d", i, j)
						}
					}
					if got := ran[i].Add(1); got != round {
						t.Errorf("%d has run %d times in %d runs", i, got, round)
					}
					if i%16 == 0 {
						runtime.Gosched()
					}
					return nil
				}
			})
			for round = 1; round <= 3; round++ {
				require.NoError(t, g.Run(background, p))
				for i := range ran {
					require.Equal(t, round, ran[i].Load())
				}
			}
		}
	}
}

// TestAGraphMayGrowBetweenRuns: a node that was a sink is no longer one.
func TestAGraphMayGrowBetweenRuns(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	var g Graph
	require.NoError(t, g.Run(background, p), "there is nothing to do")
	var ran atomic.Int32
	count := func(*pool.Worker) error { ran.Add(1); return nil }
	last := g.Add("0", count)
	for i := range 20 {
		require.NoError(t, g.Run(background, p))
		require.EqualValues(t, i+1, ran.Swap(0))
		last = g.Add(fmt.Sprint(i+1), count).After(last)
	}
}

// TestAnEdgeThatIsGivenTwiceIsDrawnOnce, in the order in which the edges were given.
func TestAnEdgeThatIsGivenTwiceIsDrawnOnce(t *testing.T) {
	var g Graph
	a, b, c := g.Add("a", nop), g.Add("b", nop), g.Add("c", nop)
	b.After(a, a)
	c.After(b).After(a)
	b.After(a)
	var dot strings.Builder
	require.NoError(t, g.WriteDOT(&dot))
	require.Equal(t, 1, strings.Count(dot.String(), "n0 -> n1"))
	require.Equal(t, 3, strings.Count(dot.String(), "->"))
}

// TestAFunctionHasTheContextOfTheRun: its worker knows it, and its forks end early when it ends.
func TestAFunctionHasTheContextOfTheRun(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	type key struct{}
	enough, failed := errors.New("enough"), errors.New("failed")
	for name, f := range map[string]func(w *pool.Worker) error{
		"asks":   func(w *pool.Worker) error { testutil.Eventually(w.Cancelled); return nil },
		"forks":  func(w *pool.Worker) error { return pool.ForRange(w, math.MaxInt, func(int, int) {}) },
		"fails":  func(w *pool.Worker) error { testutil.Eventually(w.Cancelled); return failed },
		"panics": func(w *pool.Worker) error { panic(failed) },
		"exits":  func(w *pool.Worker) error { runtime.Goexit(); return nil },
	} {
		ctx, cancel := context.WithCancelCause(context.WithValue(background, key{}, 7))
		var g Graph
		first := g.Add("first", func(w *pool.Worker) error {
			assert.Equal(t, 7, w.Context().Value(key{}))
			cancel(enough)
			return f(w)
		})
		g.Add("second", func(*pool.Worker) error { t.Error("it runs"); return nil }).After(first)
		switch name {
		case "panics":
			require.Equal(t, failed, testutil.Caught(func() { _ = g.Run(ctx, p) }).(*pool.PanicError).Value)
		case "fails":
			require.ErrorIs(t, g.Run(ctx, p), failed)
		case "exits":
			require.ErrorIs(t, g.Run(ctx, p), pool.ErrGoexit)
		default:
			require.ErrorIs(t, g.Run(ctx, p), enough, name)
		}
	}
}

// TestARunAllocatesNothing beyond the first.
func TestARunAllocatesNothing(t *testing.T) {
	if !testutil.ReadsRecords {
		t.Skip("to tell the caller allocates in this build")
	}
	p := pools.New(t, pool.WithWorkers(1))
	g, _ := random(1000, func(int) func(*pool.Worker) error { return nop })
	require.NoError(t, g.Run(background, p))
	least := 1000.
	for range 5 { // a busy pool does something once, such as beginning to look at the network
		least = min(least, testing.AllocsPerRun(5, func() { _ = g.Run(background, p) }))
	}
	require.Zero(t, least)
}

func TestACircleIsNamed(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	var g Graph
	never := func(*pool.Worker) error { t.Error("it runs"); return nil }
	first := g.Add("first", never)
	a, b, c := g.Add("a", never), g.Add("b", never), g.Add("c", never)
	behind := g.Add("behind", never)
	b.After(a, first)
	c.After(b)
	require.NoError(t, g.Check())
	a.After(c)
	behind.After(c)
	err := g.Run(background, p)
	require.EqualError(t, err, "graph: a circle: a -> b -> c -> a")
	var circle *CycleError
	require.ErrorAs(t, g.Check(), &circle)
	require.Equal(t, []string{"a", "b", "c"}, circle.Names)
	require.Nil(t, g.CriticalPath())

	var alone Graph
	n := alone.Add("x", never)
	n.After(n)
	require.EqualError(t, alone.Run(background, p), "graph: a circle: x -> x")
}

// TestAnErrorKeepsWhatComesAfterItFromBeginning, and nothing else; the next run begins afresh.
func TestAnErrorKeepsWhatComesAfterItFromBeginning(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for range testutil.Stress(100) {
		const n = 100
		var fails, ran [n]atomic.Bool
		g, before := random(n, func(i int) func(*pool.Worker) error {
			return func(*pool.Worker) error {
				ran[i].Store(true)
				if fails[i].Load() {
					if i%2 == 0 {
						runtime.Goexit()
					}
					return io.EOF
				}
				return nil
			}
		})
		for _, planted := range []int{0, 1, 5, 0} {
			var spoiled [n]bool
			for i := range n {
				fails[i].Store(false)
				ran[i].Store(false)
			}
			for range planted {
				fails[rand.IntN(n)].Store(true)
			}
			err := g.Run(background, p)
			var want []string
			for i := range n {
				for _, j := range before[i] {
					spoiled[i] = spoiled[i] || spoiled[j] || fails[j].Load()
				}
				require.Equal(t, !spoiled[i], ran[i].Load())
				if fails[i].Load() && !spoiled[i] {
					reason := io.EOF
					if i%2 == 0 {
						reason = pool.ErrGoexit
					}
					require.ErrorIs(t, err, reason)
					want = append(want, fmt.Sprintf("graph: %d: %v", i, reason))
				}
			}
			if len(want) == 0 {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, strings.Join(want, "\n"))
			}
		}
	}
}

// TestAPanicArrivesWhenAllHasEnded.
func TestAPanicArrivesWhenAllHasEnded(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	var g Graph
	var others, after atomic.Bool
	broken := true
	bad := g.Add("bad", func(*pool.Worker) error {
		if broken {
			panic(io.EOF)
		}
		return nil
	})
	g.Add("after", func(*pool.Worker) error { after.Store(true); return nil }).After(bad)
	g.Add("other", func(w *pool.Worker) error { runtime.Gosched(); others.Store(true); return io.ErrShortWrite })
	e, ok := testutil.Caught(func() { _ = g.Run(background, p) }).(*pool.PanicError)
	require.True(t, ok)
	require.ErrorIs(t, e, io.EOF)
	require.Contains(t, string(e.Stack), "TestAPanicArrivesWhenAllHasEnded")
	require.True(t, others.Load())
	require.False(t, after.Load())
	broken = false
	require.ErrorIs(t, g.Run(background, p), io.ErrShortWrite)
	require.True(t, after.Load())
}

// TestTheEndOfTheContextKeepsNodesFromBeginning, and the next run begins afresh.
func TestTheEndOfTheContextKeepsNodesFromBeginning(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(background)
	var g Graph
	var ran atomic.Int32
	last := g.Add("0", func(*pool.Worker) error { cancel(cause); return nil })
	for i := range 100 {
		last = g.Add(fmt.Sprint(i+1), func(*pool.Worker) error { ran.Add(1); return nil }).After(last)
	}
	for range 2 { // the second time the context has ended before
		err := g.Run(ctx, p)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, ran.Load())
	}
	require.NoError(t, g.Run(background, p))
	require.EqualValues(t, 100, ran.Load())
}

// TestGraphsRunInsideOfTasks on the only worker, and not inside of themselves.
func TestGraphsRunInsideOfTasks(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	var outer, inner Graph
	inner.Add("inner", nop).After(inner.Add("before", nop))
	outer.Add("outer", func(*pool.Worker) error { return inner.Run(background, p) })
	outer.Add("itself", func(*pool.Worker) error { return outer.Run(background, p) })
	require.EqualError(t, outer.Run(background, p), "graph: itself: graph: the graph runs already; a graph runs once at a time")
}

// TestALongChainLeavesTheWorkerToOthers: the only worker runs another task in the midst of it.
func TestALongChainLeavesTheWorkerToOthers(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	var g Graph
	var other atomic.Bool
	var seen int
	var last *Node
	for i := range 10_000 {
		n := g.Add(fmt.Sprint(i), func(*pool.Worker) error {
			if i == 0 {
				return p.Go(func(*pool.Worker) { other.Store(true) })
			}
			if seen == 0 && other.Load() {
				seen = i
			}
			return nil
		})
		if last != nil {
			n.After(last)
		}
		last = n
	}
	require.NoError(t, g.Run(background, p))
	require.NotZero(t, seen)
}

func TestAClosedPoolRunsNoGraph(t *testing.T) {
	p, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	g, _ := random(100, func(int) func(*pool.Worker) error { return func(*pool.Worker) error { t.Error("it runs"); return nil } })
	require.Same(t, pool.ErrClosed, g.Run(background, p))
	require.Same(t, pool.ErrClosed, g.Run(background, p), "it can be run again")
}

// TestCloseWaitsForARun, or refuses it as a whole.
func TestCloseWaitsForARun(t *testing.T) {
	for range testutil.Stress(50) {
		p, err := pool.New(pool.WithWorkers(2))
		require.NoError(t, err)
		var ran atomic.Int32
		g := counted(500, &ran)
		over := testutil.Together(1, func(int) {
			if err := g.Run(background, p); err == nil {
				assert.EqualValues(t, 500, ran.Load())
			} else {
				assert.ErrorIs(t, err, pool.ErrClosed)
			}
		})
		for range rand.IntN(3) {
			runtime.Gosched()
		}
		require.NoError(t, p.Close())
		require.True(t, testutil.Returns(over))
	}
}

// TestAnAbortLeavesNobodyWaiting: a run in the midst of it ends, with or without an error.
func TestAnAbortLeavesNobodyWaiting(t *testing.T) {
	for range testutil.Stress(50) {
		p, err := pool.New(pool.WithWorkers(2))
		require.NoError(t, err)
		var ran atomic.Int32
		g := counted(500, &ran)
		over := testutil.Together(1, func(int) {
			err := g.Run(background, p)
			if ran.Load() == 500 {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, pool.ErrClosed)
			}
		})
		heist := rand.IntN(3)
		for range heist {
			runtime.Gosched()
		}
		left, err := p.Abort(background)
		require.NoError(t, err)
		for _, f := range left {
			f(nil)
		}
		require.True(t, testutil.Returns(over))
	}
}

// TestARunOfAnAbortedPoolEnds, also one in a task, whose pool does not end before it, and gives the errors of what has run.
func TestARunOfAnAbortedPoolEnds(t *testing.T) {
	failed := errors.New("failed")
	for name, run := range map[string]func(p *pool.Pool, g *Graph) error{
		"outside": func(p *pool.Pool, g *Graph) error { return g.Run(background, p) },
		"in a task": func(p *pool.Pool, g *Graph) error {
			_, err := pool.Async(p, func(*pool.Worker) (int, error) { return 0, g.Run(background, p) }).Wait(background)
			return err
		},
		"in what a task waits for": func(p *pool.Pool, g *Graph) error {
			within, ended := make(chan error), make(chan error)
			go func() { within <- g.Run(background, p) }()
			require.NoError(t, p.Go(func(*pool.Worker) { ended <- <-within }))
			return <-ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pool.New(pool.WithWorkers(1))
			require.NoError(t, err)
			begun := make(chan struct{})
			begin := sync.OnceFunc(func() { close(begun) })
			var g Graph
			for range 100 {
				node := g.Add("node", func(w *pool.Worker) error {
					begin() // the others lie behind the first, unless time decides what waits
					testutil.Compute(p.Aborted())
					for p.Load().Queued.Total() > 0 { // until Abort has them
						runtime.Gosched()
					}
					return failed
				})
				g.Add("after", func(*pool.Worker) error { t.Error("it runs"); return nil }).After(node)
			}
			var errs error
			over := testutil.Together(1, func(int) { errs = run(p, &g) })
			<-begun
			left, err := p.Abort(background)
			require.NoError(t, err)
			require.True(t, testutil.Returns(over))
			require.ErrorIs(t, errs, pool.ErrClosed)
			require.ErrorIs(t, errs, failed)
			for _, f := range left {
				f(nil)
			}
			require.ErrorContains(t, g.Run(background, p), "cannot run again")
		})
	}
}

// TestAnAbortEndsAChain, whose nodes lie in no queue.
func TestAnAbortEndsAChain(t *testing.T) {
	p, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	begun := make(chan struct{})
	var ran atomic.Int32
	var g Graph
	const nodes = 10_000
	begin := sync.OnceFunc(func() { close(begun) })
	last := g.Add("first", func(*pool.Worker) error { begin(); testutil.Compute(p.Aborted()); return nil })
	for range nodes {
		next := g.Add("next", func(*pool.Worker) error {
			ran.Add(1)
			for range 10 {
				runtime.Gosched()
			}
			return nil
		})
		last = next.After(last)
	}
	over := testutil.Together(1, func(int) { assert.ErrorIs(t, g.Run(background, p), pool.ErrClosed) })
	<-begun
	_, err = p.Abort(background)
	require.NoError(t, err)
	require.True(t, testutil.Returns(over))
	require.Less(t, ran.Load(), int32(nodes))
	ran.Store(0)
	if err := g.Run(background, pools.New(t)); !errors.Is(err, errOver) { // a node was just being queued
		require.NoError(t, err)
		require.EqualValues(t, nodes, ran.Load())
	}
}

// TestStopEndsItsNodeAlone, whose error is what Stop was given.
func TestStopEndsItsNodeAlone(t *testing.T) {
	p := pools.New(t)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	found := errors.New("found")
	var g Graph
	var ran atomic.Int32
	g.Add("after", func(*pool.Worker) error { t.Error("it runs"); return nil }).After(
		g.Add("stops", func(w *pool.Worker) error { w.Stop(found); return nil }))
	for range 10 {
		g.Add("other", func(*pool.Worker) error { ran.Add(1); return nil })
	}
	err := g.Run(ctx, p)
	require.ErrorIs(t, err, found)
	require.NotErrorIs(t, err, pool.ErrClosed)
	require.EqualValues(t, 10, ran.Load())
}

func TestTheCriticalPathIsThatOfTheLongestWaits(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	var g Graph
	g.WithTimings()
	slow := func(w *pool.Worker) error { w.Block(func() { time.Sleep(20 * time.Millisecond) }); return nil }
	read, parse := g.Add("read", slow), g.Add("parse", slow)
	config := g.Add("config \"x\"", nop)
	link := g.Add("link", nop).After(parse, config)
	parse.After(read)
	g.Add("notes", nop).After(config)
	require.Nil(t, g.CriticalPath(), "it has not run")
	require.NoError(t, g.Run(background, p))
	ended, cancel := context.WithCancel(background)
	cancel()
	require.Error(t, g.Run(ended, p))
	require.Nil(t, g.CriticalPath(), "the last run ran nothing")
	require.NoError(t, g.Run(background, p))
	path := g.CriticalPath()
	var names []string
	for _, step := range path {
		names = append(names, step.Name)
		require.GreaterOrEqual(t, step.Late, time.Duration(0))
	}
	require.Equal(t, []string{"read", "parse", "link"}, names)
	require.GreaterOrEqual(t, path[1].Took, 20*time.Millisecond)

	var b strings.Builder
	require.NoError(t, g.WriteDOT(&b))
	for _, line := range []string{
		`n0 [label="read\n`, `n2 [label="config \"x\"\n`, "n0 -> n1 [style=bold]", "n1 -> n3 [style=bold]", "n2 -> n3\n", "n2 -> n4\n",
	} {
		require.Contains(t, b.String(), line)
	}
	require.Equal(t, 5, strings.Count(b.String(), "style=bold"))
	require.Equal(t, "link", link.Name())

	cancelled, cancel := context.WithCancel(background)
	var short Graph
	short.WithTimings()
	short.Add("b", slow).After(short.Add("a", func(*pool.Worker) error { cancel(); return nil }))
	require.Error(t, short.Run(cancelled, p))
	require.Len(t, short.CriticalPath(), 1, "b did not run")
	require.Error(t, short.WriteDOT(broken{}))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestMisuseIsNamed(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	var g, other Graph
	n := g.Add("n", nop)
	says := func(what string, f func()) {
		t.Helper()
		err, ok := testutil.Caught(f).(error)
		require.True(t, ok)
		require.ErrorContains(t, err, what)
	}
	says("nil function", func() { g.Add("x", nil) })
	says("another graph, or nil", func() { n.After(nil) })
	says("another graph, or nil", func() { n.After(other.Add("y", nop)) })
	require.ErrorContains(t, g.Run(background, nil), "not made by New")
	var none context.Context
	require.ErrorContains(t, g.Run(none, p), "nil context")
	g.Add("changes", func(*pool.Worker) error { g.Add("z", nop); return nil })
	says("while the graph runs", func() { _ = g.Run(background, p) })
}

// TestANodeHasALine: see graph.go, "Layout".
func TestANodeHasALine(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 64, unsafe.Sizeof(Node{}))
	}
}
