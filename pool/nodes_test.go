package pool

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

// pretended returns a machine that looks to a pool as if it had several nodes. Its threads run where
// the system likes. CPU i is on the node with index i modulo nodes, whose number is ten times the
// index. The nodes are in a ring.
func pretended(nodes, cpusPerNode int) machine {
	t := &numa.Topology{}
	for node := range nodes {
		n := numa.Node{ID: 10 * node}
		for other := range nodes {
			apart := min((other-node+nodes)%nodes, (node-other+nodes)%nodes)
			n.Distances = append(n.Distances, 10+11*apart)
		}
		t.Nodes = append(t.Nodes, n)
	}
	for cpu := range nodes * cpusPerNode {
		n := &t.Nodes[cpu%nodes]
		n.CPUs = append(n.CPUs, cpu)
		t.CPUs = append(t.CPUs, numa.CPU{ID: cpu, Node: cpu % nodes, Package: cpu % nodes, Core: cpu, L3: -1})
		t.Cores = append(t.Cores, numa.Set{cpu})
		t.Online = append(t.Online, cpu)
	}
	t.Complete, t.Allowed = t.Online, t.Online
	return machine{
		allowed: func() ([]int, error) { return t.Allowed, nil },
		online:  func() int { return len(t.Online) },
		read:    func() (*numa.Topology, error) { return t, nil },
		pin:     func(...int) (*heist.Pinned, error) { return nil, nil },
		draw:    func(int) int { return 0 },
	}
}

// With HEIST_NODES all tests pretend to run on a machine with as many nodes, of two CPUs
// each.
func init() {
	if nodes, err := strconv.Atoi(os.Getenv("HEIST_NODES")); err == nil {
		thisMachine = pretended(nodes, 2)
	}
}

// skipIfPretended is for tests of what only a real machine, or one node, can show.
func skipIfPretended(t *testing.T) {
	t.Helper()
	if os.Getenv("HEIST_NODES") != "" {
		t.Skip("the machine is a pretence")
	}
}

// onMachine makes the test's pools run on a machine.
func onMachine(t testing.TB, m machine) {
	t.Helper()
	real := thisMachine
	thisMachine = m
	t.Cleanup(func() { thisMachine = real })
}

// newNodes returns a pool on a machine with so many nodes, with a worker for each CPU. Its
// workers believe that they are bound.
func newNodes(t testing.TB, nodes, cpusPerNode int, options ...Option) *Pool {
	t.Helper()
	onMachine(t, pretended(nodes, cpusPerNode))
	return newPool(t, append([]Option{WithPinning(PinCores), WithWorkers(nodes * cpusPerNode)}, options...)...)
}

// newNodesOfChangingSize is newNodes for a pool whose number of workers changes.
func newNodesOfChangingSize(t testing.TB, nodes, cpusPerNode int, options ...Option) *Pool {
	t.Helper()
	onMachine(t, pretended(nodes, cpusPerNode))
	return newPool(t, append([]Option{WithPinning(PinCores), WithWorkers(nodes * cpusPerNode)}, options...)...)
}

// fromEachNode calls f for each of the pool's nodes of which this machine has a CPU, on such a CPU.
func fromEachNode(t *testing.T, p *Pool, f func(node int)) {
	t.Helper()
	seen := make(map[int]bool)
	for _, cpu := range allowed(t) {
		node := p.nodeOf(cpu)
		if seen[node] {
			continue
		}
		seen[node] = true
		pinned, err := heist.Pin(cpu)
		if err != nil {
			t.Skip(err)
		}
		require.Equal(t, node, p.here())
		f(node)
		require.NoError(t, pinned.Unpin())
	}
}

// queues returns how many tasks of a priority lie on each node.
func queues(p *Pool, priority Priority) (n []int) {
	for i := range p.nodes {
		n = append(n, p.nodes[i].queues[priority].Len())
	}
	return n
}

// only returns the queues of nodes if n tasks lie on one of them.
func only(nodes, node, n int) []int {
	all := make([]int, nodes)
	all[node] = n
	return all
}

// whenAsleep waits until all workers sleep and have had the time to look round once more.
func whenAsleep(t testing.TB, p *Pool) {
	t.Helper()
	require.True(t, whenParked(p))
	time.Sleep(time.Millisecond)
}

func TestAPoolHasTheNodesOnWhichItHasWorkers(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []Option
		nodes   []int
		workers []int
	}{
		{"all", []Option{WithWorkers(8), WithPinning(PinCores)}, []int{0, 10, 20, 30}, []int{2, 2, 2, 2}},
		{"some", []Option{WithCPUs(1, 5, 3)}, []int{10, 30}, []int{2, 1}},
		{"one", []Option{WithCPUs(2, 6)}, []int{20}, nil},
		{"more workers than CPUs", []Option{WithWorkers(11), WithPinning(PinCores)}, []int{0, 10, 20, 30}, []int{3, 3, 3, 2}},
		{"few", []Option{WithWorkers(2), WithTuning(Tuning{MaxWorkers: 2}), WithPinning(PinCores)}, []int{0, 10}, []int{1, 1}},
		{"few at first", []Option{WithWorkers(2), WithTuning(Tuning{MaxWorkers: 4}), WithPinning(PinCores)}, []int{0, 10, 20, 30}, []int{1, 1, 0, 0}},
		{"not bound", []Option{WithWorkers(8)}, []int{0, 10, 20, 30}, []int{2, 2, 2, 2}},
		{"under caches", []Option{WithWorkers(8), WithPinning(PinL3)}, []int{0, 10, 20, 30}, []int{2, 2, 2, 2}},
		{"under nodes", []Option{WithWorkers(8), WithPinning(PinNodes)}, []int{0, 10, 20, 30}, []int{2, 2, 2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onMachine(t, pretended(4, 2))
			p := newPool(t, c.options...)
			require.Equal(t, c.nodes, p.Nodes())
			var workers []int
			for _, n := range p.nodes {
				workers = append(workers, n.workers)
			}
			if c.workers != nil {
				require.Equal(t, c.workers, workers)
			}
			require.NoError(t, p.Run(func(w *Worker) {
				require.Contains(t, c.nodes, w.Node())
				require.Equal(t, serialFib(12), fib(w, 12))
			}))
		})
	}
}

func TestNodesAreNearbyByDistance(t *testing.T) {
	p := newNodes(t, 6, 1)
	for node, n := range p.nodes {
		require.Equal(t, node, n.nearby[0])
		require.Len(t, n.nearby, 6)
		for i := range 5 {
			ring := func(other int) int { return min((other-node+6)%6, (node-other+6)%6) }
			require.LessOrEqual(t, ring(n.nearby[i]), ring(n.nearby[i+1]))
		}
		require.Equal(t, (node+1)%6, n.nearby[1], "of two that are as near, the one behind it")
	}
}

func TestATaskLiesOnItsSubmittersNode(t *testing.T) {
	p := newNodes(t, 2, 2)
	ctx := context.Background()
	fromEachNode(t, p, func(node int) {
		require.NoError(t, p.Pause(ctx))
		nothing := func(*Worker) {}
		for i, submit := range []func() error{
			func() error { return p.Go(nothing) },
			func() error { return p.Submit(ctx, nothing) },
			func() error { return p.TrySubmit(nothing) },
			func() error { _, err := p.SubmitAll(ctx, []func(*Worker){nothing}); return err },
			func() error { newGroup(p).Go(func() error { return nil }); return nil },
			func() error { Async(p, func(*Worker) (int, error) { return 0, nil }); return nil },
			// What a guest leaves behind.
			func() error { return p.Run(func(w *Worker) { require.NoError(t, w.Go(nothing)) }) },
		} {
			require.NoError(t, submit())
			require.Equal(t, only(2, node, i+1), queues(p, PriorityNormal), "submission %d", i)
		}
		require.NoError(t, p.Submit(ctx, nothing, PriorityHigh))
		require.NoError(t, p.Submit(ctx, nothing, PriorityLow))
		require.Equal(t, only(2, node, 1), queues(p, PriorityHigh))
		require.Equal(t, only(2, node, 1), queues(p, PriorityLow))
		p.Resume()
		requireAtRest(t, p)
	})
}

func TestATaskLiesOnTheNodeThatWasAskedFor(t *testing.T) {
	p := newNodes(t, 3, 1)
	ctx := context.Background()
	require.NoError(t, p.Pause(ctx))
	defer p.Resume()
	nothing := func(*Worker) {}
	for node, id := range p.Nodes() {
		for _, priority := range []Priority{PriorityNormal, PriorityHigh, PriorityLow} {
			require.NoError(t, submitOn(p, ctx, id, nothing, priority))
			require.NoError(t, p.TrySubmit(nothing, priority, OnNode(id)))
			require.NoError(t, submitOn(p, ctx, id, nothing, priority, Delay(time.Microsecond)))
			require.NoError(t, submitOn(p, ctx, id, nothing, priority, StartBy(time.Now(), nothing)))
			require.True(t, testutil.Eventually(func() bool { return queues(p, priority)[node] == 4 }), "node %d, priority %d", id, priority)
		}
	}
}

// TestSubmitOnLeavesTheOptionsAlone: they are in the caller's slice, which has room behind them.
func TestSubmitOnLeavesTheOptionsAlone(t *testing.T) {
	p := newNodes(t, 2, 1)
	options := append(make([]TaskOption, 0, 2), PriorityHigh)
	require.NoError(t, submitOn(p, context.Background(), 10, func(*Worker) {}, options...))
	require.Nil(t, options[:2][1])
}

func TestAMissingNodeIsAnErrorThatNamesThoseThatExist(t *testing.T) {
	ctx := context.Background()
	ran := func(*Worker) { t.Error("it ran") }
	p := newNodes(t, 3, 1)
	for _, id := range []int{-1, 1, 2, 30, math.MaxInt} {
		want := fmt.Sprintf("has no worker on node %d, but on nodes [0 10 20]", id)
		require.ErrorContains(t, submitOn(p, ctx, id, ran), want)
		require.ErrorContains(t, p.TrySubmit(ran, OnNode(id)), want)
		require.ErrorContains(t, p.Submit(ctx, ran, OnNode(id), PriorityHigh), want)
	}
	unbound := newPool(t, WithPinning(PinNone), WithWorkers(3))
	require.ErrorContains(t, submitOn(unbound, ctx, 30, ran), "but on nodes [0 10 20]")
	require.NoError(t, submitOn(unbound, ctx, 10, func(*Worker) {}))
	one := newPool(t, WithCPUs(2))
	require.ErrorContains(t, submitOn(one, ctx, 0, ran), "but on nodes [20]")
	require.NoError(t, submitOn(one, ctx, 20, func(*Worker) {}))
}

// requireAtHome submits tasks to a pool that sleeps, and counts those that a worker of their
// node runs. A worker of another node that is about to sleep may be faster, so a few are
// allowed to go elsewhere.
func requireAtHome(t *testing.T, p *Pool) {
	t.Helper()
	const rounds = 30
	for _, id := range p.Nodes() {
		home := 0
		for range rounds {
			whenAsleep(t, p)
			ran := make(chan *Worker)
			require.NoError(t, submitOn(p, context.Background(), id, func(w *Worker) { ran <- w }))
			if w := <-ran; w.Node() == id {
				home++
			}
		}
		require.GreaterOrEqual(t, home, rounds*3/4, "on node %d", id)
	}
}

func TestTheWakeUpPrefersASleeperOnTheNode(t *testing.T) {
	requireAtHome(t, newNodes(t, 3, 2))
}

// TestTasksOfANodeWithoutWorkersAreRun: the node's workers have left, or never came.
func TestTasksOfANodeWithoutWorkersAreRun(t *testing.T) {
	p := newNodesOfChangingSize(t, 3, 2)
	ctx := context.Background()
	for _, workers := range []int{1, 6, 2, 1} {
		require.NoError(t, p.Pause(ctx))
		ran := make(tally, 90)
		for i := range ran {
			priority := Priority(i / 3 % 3)
			require.NoError(t, submitOn(p, ctx, 10*(i%3), func(*Worker) { ran[i].Add(1) }, priority))
		}
		require.NoError(t, p.Resize(workers))
		p.Resume()
		require.True(t, testutil.Eventually(func() bool { return ran.once() == nil }), "with %d workers: %v", workers, ran.once())
		requireAtRest(t, p)
		for i := range testutil.Stress(100) { // one by one
			done := make(chan struct{})
			require.NoError(t, submitOn(p, ctx, 10*(i%3), func(*Worker) { close(done) }))
			require.True(t, closed(done))
		}
	}
	requireAtRest(t, p)
}

// TestNoNodeStarvesUnderWhatNeverEnds: no worker is left on node 1, and the worker of node 0 always has
// something to do at home.
func TestNoNodeStarvesUnderWhatNeverEnds(t *testing.T) {
	const period = 8
	for _, c := range []struct {
		name    string
		endless []Priority
		own     bool // the worker's own queue never ends either
		starts  Priority
	}{
		{"normal under own", nil, true, PriorityNormal},
		{"normal under normal", []Priority{PriorityNormal}, false, PriorityNormal},
		{"normal under high", []Priority{PriorityHigh}, false, PriorityNormal},
		{"normal under high and normal", []Priority{PriorityHigh, PriorityNormal}, false, PriorityNormal},
		{"normal under all", []Priority{PriorityHigh, PriorityNormal, PriorityLow}, true, PriorityNormal},
		{"high under normal", []Priority{PriorityNormal}, true, PriorityHigh},
		{"high under low", []Priority{PriorityLow}, true, PriorityHigh},
		{"low under normal", []Priority{PriorityNormal}, true, PriorityLow},
		{"low under high", []Priority{PriorityHigh}, true, PriorityLow},
		{"high under high", []Priority{PriorityHigh}, false, PriorityHigh},
		{"low under low", []Priority{PriorityLow}, false, PriorityLow},
		{"high under all", []Priority{PriorityHigh, PriorityNormal, PriorityLow}, true, PriorityHigh},
		{"low under all", []Priority{PriorityHigh, PriorityNormal, PriorityLow}, true, PriorityLow},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newNodesOfChangingSize(t, 2, 1, WithTuning(Tuning{PollPeriod: period}))
			require.NoError(t, p.Resize(1))
			var ran atomic.Int64
			var enough atomic.Bool
			defer enough.Store(true) // also if the test fails
			endless := func(w *Worker, queue func(w *Worker, f func(*Worker)) error) {
				var again func(*Worker)
				again = func(w *Worker) {
					if ran.Add(1); !enough.Load() {
						_ = queue(w, again)
					}
				}
				for range 3 {
					require.NoError(t, queue(w, again))
				}
			}
			if c.own {
				require.NoError(t, p.Go(func(w *Worker) { endless(w, (*Worker).Go) }))
			}
			for _, priority := range c.endless {
				endless(nil, func(_ *Worker, f func(*Worker)) error { return p.enqueue(f, priority, 0) })
			}
			require.True(t, testutil.Eventually(func() bool { return ran.Load() > 1000 }))
			for range testutil.Stress(50) {
				started := make(chan int64, 1)
				require.NoError(t, p.enqueue(func(*Worker) { started <- ran.Load() }, c.starts, 1))
				before := ran.Load()
				select {
				case after := <-started:
					// The injector comes first once in a period. One of 8 such times is for another
					// node, and half of those are for the one that is not home. A batch in between may
					// be of the greatest length.
					require.LessOrEqual(t, after-before, int64(otherTurns*2*otherNodes*(period+heist.MaxPull)+lowTurns))
				case <-time.After(testutil.Patience):
					require.Fail(t, "it starves", "%d others have run meanwhile", ran.Load()-before)
				}
			}
		})
	}
}

// TestNearLooksLeaveNothingBehind: the worker that has the work stays busy and is on another node than
// all thieves.
func TestNearLooksLeaveNothingBehind(t *testing.T) {
	for _, looks := range []int{0, 1, 2, math.MaxInt} {
		for _, uniform := range []float64{0, 1.0 / 64, 1} {
			t.Run(fmt.Sprint(looks, " ", uniform), func(t *testing.T) {
				p := newNodes(t, 3, 1, WithTuning(Tuning{Patience: looks, UniformLooks: uniform}))
				for round := range testutil.Stress(20) {
					if round%4 == 0 {
						require.True(t, whenParked(p))
					}
					const tasks = 10 // in its ring and its slot
					var ran atomic.Int32
					all, ended := make(chan struct{}), make(chan bool)
					require.NoError(t, submitOn(p, context.Background(), 10*(round%3), func(w *Worker) {
						for range tasks {
							_ = w.Go(func(*Worker) {
								if ran.Add(1) == tasks {
									close(all)
								}
							})
							pause()
						}
						x, y := stolenJoin(w, func(*Worker) int { return 1 }, func(*Worker) int { return 2 })
						ended <- closed(all) && x == 1 && y == 2
					}))
					require.True(t, <-ended, "%d of the tasks were run", ran.Load())
				}
			})
		}
	}
}

func TestAGuestIsOnTheNodeOnWhichItCame(t *testing.T) {
	p := newNodes(t, 2, 2)
	fromEachNode(t, p, func(node int) {
		require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, p.Nodes()[node], w.Node()) }))
	})
}

// TestAllNodesWakeUpForTasksThatWaitForOneAnother, whichever worker was woken first.
func TestAllNodesWakeUpForTasksThatWaitForOneAnother(t *testing.T) {
	for _, nodes := range []int{2, 3, 7} {
		p := newNodes(t, nodes, 2)
		for round := range testutil.Stress(100) {
			if round%2 == 0 {
				require.True(t, whenParked(p))
			}
			meet := testutil.NewBarrier(p.Workers() + 1)
			for i := range p.Workers() {
				node := i % nodes
				if round%3 == 0 {
					node = round % nodes // all tasks on one node
				}
				require.NoError(t, submitOn(p, context.Background(), 10*node, func(*Worker) { meet.Wait() }))
			}
			require.True(t, testutil.Returns(meet.Wait), "somebody sleeps over a task")
		}
	}
}

// TestSeveralNodesUnderEverything has tasks, forks, loops, groups, guests, blocks, pauses
// and other sizes at once.
func TestSeveralNodesUnderEverything(t *testing.T) {
	for _, nodes := range []int{2, 5} {
		everything(t, newNodesOfChangingSize(t, nodes, 2, WithTuning(Tuning{MaxWorkers: 3 * nodes})), 1, nodes, 2*nodes, 3*nodes)
	}
}

func TestCloseRunsTheTasksOfAllNodes(t *testing.T) {
	onMachine(t, pretended(4, 1))
	for round := range testutil.Stress(100) {
		p, err := New(WithPinning([]Pinning{PinCores, PinNodes}[round%2]), WithWorkers(4))
		require.NoError(t, err)
		ran := make(tally, 48)
		for i := range ran {
			require.NoError(t, submitOn(p, context.Background(), 10*(i%4), func(w *Worker) {
				if i%5 == 0 {
					w.Block(runtime.Gosched)
				}
				ran[i].Add(1)
			}, Priority(i%3)))
			if i == round%48 {
				require.NoError(t, p.Resize(1+round%4))
			}
		}
		requireCloses(t, p)
		require.NoError(t, ran.once())
	}
}

func TestABoundHoldsForAllNodesTogether(t *testing.T) {
	p := newNodes(t, 3, 1, WithQueueBound(3))
	ctx := context.Background()
	require.NoError(t, p.Pause(ctx))
	for node := range 3 {
		require.NoError(t, p.TrySubmit(func(*Worker) {}, OnNode(10*node)))
	}
	for node := range 3 {
		require.ErrorIs(t, p.TrySubmit(func(*Worker) {}, OnNode(10*node)), ErrFull)
	}
	submitted := make(chan error)
	go func() { submitted <- submitOn(p, ctx, 20, func(*Worker) {}) }()
	require.True(t, testutil.Eventually(func() bool { return p.room.waiting.Load() == 1 }))
	p.Resume()
	require.NoError(t, <-submitted)
}

// # Statistics

// big is a machine of several nodes with caches, cores and threads, numbered as Linux does:
// first the first thread of each core, node by node. The first core under each cache is a
// big one.
func big(nodes, caches, cores, threads int) machine {
	m := pretended(nodes, 0)
	t, _ := m.read()
	all := nodes * caches * cores
	t.Cores = make([]numa.Set, all)
	for cpu := range all * threads {
		core := cpu % all
		c := numa.CPU{ID: cpu, Core: core, L3: core / cores, Node: core / cores / caches, Capacity: 512, SMT: cpu / all}
		if core%cores == 0 {
			c.Capacity = 1024
		}
		t.CPUs = append(t.CPUs, c)
		t.Online = append(t.Online, cpu)
		t.Cores[core] = append(t.Cores[core], cpu)
		t.Nodes[c.Node].CPUs = append(t.Nodes[c.Node].CPUs, cpu)
	}
	t.Complete, t.Allowed = t.Online, t.Online
	return m
}

func tierNames(p *Pool) (names []string) {
	for _, tier := range p.Stats().Tiers {
		names = append(names, tier.Name)
	}
	return names
}

func TestTiersHaveTheNamesOfWhatIsShared(t *testing.T) {
	onMachine(t, big(3, 2, 2, 2))
	near := []string{"same core", "same L3", "same node"}
	require.Equal(t, append(near, "nodes at distance 21"), tierNames(newPool(t, WithWorkers(24), WithPinning(PinCores))))
	require.Equal(t, append(near[1:], "nodes at distance 21"), tierNames(newPool(t, WithWorkers(24), WithPinning(PinL3))))
	require.Equal(t, append(near[2:], "nodes at distance 21"), tierNames(newPool(t, WithWorkers(24), WithPinning(PinNodes))))
	require.Equal(t, append(near[2:], "nodes at distance 21"), tierNames(newPool(t, WithWorkers(24))))
	onMachine(t, pretended(6, 1)) // a ring
	require.Equal(t, []string{"same core", "same node", "nodes at distance 21", "nodes at distance 32", "nodes at distance 43"},
		tierNames(newPool(t, WithWorkers(6), WithPinning(PinCores))))
}

// TestThievesKnowHowFarTheirVictimsAre checks the tier of each pair.
func TestThievesKnowHowFarTheirVictimsAre(t *testing.T) {
	onMachine(t, big(2, 2, 2, 2))
	p := newPool(t, WithWorkers(16), WithPinning(PinCores))
	machine := topologyOf(t)
	for _, thief := range p.places[:p.first] {
		for _, victim := range p.places[:p.first] {
			a, b := machine.CPUs[thief.core.Placement().CPUs[0]], machine.CPUs[victim.core.Placement().CPUs[0]]
			want := "nodes at distance 21"
			switch {
			case a.Core == b.Core:
				want = "same core"
			case a.L3 == b.L3:
				want = "same L3"
			case a.Node == b.Node:
				want = "same node"
			}
			require.Equal(t, want, p.Stats().Tiers[thief.search.Tier(victim.index)].Name, "from CPU %d to CPU %d", a.ID, b.ID)
		}
		for node, n := range p.nodes {
			want := "same node"
			if node != thief.core.Placement().Node {
				want = "nodes at distance 21"
			}
			require.Equal(t, want, p.Stats().Tiers[thief.search.TierOf(n.guestsAt)].Name)
		}
	}
}

func TestTheftsOfTiersAndPairsAddUpToThoseOfWorkers(t *testing.T) {
	for _, uniform := range []float64{0, 1} {
		onMachine(t, big(2, 2, 2, 1))
		p := newPool(t, WithWorkers(8), WithTuning(Tuning{MaxWorkers: 10, UniformLooks: uniform}))
		steals := func() bool {
			require.NoError(t, p.Run(func(w *Worker) { stolenJoin(w, nop[int], nop[int]) }))
			for range 20 {
				require.NoError(t, p.Go(func(w *Worker) { fib(w, 15) }))
			}
			return p.Stats().Total().Steals > 50
		}
		require.True(t, testutil.Eventually(steals))
		require.NoError(t, p.Resize(10))
		before := p.Stats().Total().Steals
		require.True(t, testutil.Eventually(func() bool { steals(); return p.Stats().Total().Steals > before+50 }))
		requireAtRest(t, p)

		s, pairs, total := p.Stats(), p.StealMatrix(), p.Stats().Total()
		require.Len(t, pairs, len(s.Workers)+1)
		var tiers inspect.TierStats
		byTier := make([]uint64, len(s.Tiers))
		for _, tier := range s.Tiers {
			require.LessOrEqual(t, tier.Steals+tier.LostRaces, tier.Attempts)
			require.GreaterOrEqual(t, tier.Items, tier.Steals)
			tiers.Steals += tier.Steals
			tiers.Items += tier.Items
			tiers.LostRaces += tier.LostRaces
		}
		require.Equal(t, total.Steals, tiers.Steals)
		require.Equal(t, total.Items, tiers.Items)
		require.Equal(t, total.LostRaces, tiers.LostRaces)
		fromGuests := uint64(0)
		for thief, w := range s.Workers {
			row := pairs[thief]
			require.Len(t, row, len(s.Workers)+1)
			sum := row[len(s.Workers)]
			fromGuests += sum
			for victim, n := range row[:len(s.Workers)] {
				sum += n
				byTier[p.places[thief].search.Tier(victim)] += n
			}
			require.Equal(t, w.Steals, sum, "of worker %d", thief)
		}
		require.NotZero(t, fromGuests)
		for i, tier := range s.Tiers {
			require.GreaterOrEqual(t, tier.Steals, byTier[i], "of tier %s", tier.Name)
			fromGuests -= tier.Steals - byTier[i]
		}
		require.Zero(t, fromGuests)
	}
}

// # What workers are bound to

// bindings returns a machine that notes what its threads are bound to.
func bindings(m machine) (_ machine, bound func() [][]int) {
	var mu sync.Mutex
	var all [][]int
	m.pin = func(cpus ...int) (*heist.Pinned, error) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, slices.Clone(cpus))
		return nil, nil
	}
	return m, func() [][]int {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestPinningsBindWorkersToWhatIsShared(t *testing.T) {
	// 2 nodes of 2 caches of 2 cores of 2 threads: CPUs 0 and 8 are threads of one core, and 0
	// and 1 under one cache, of which 0 is the big core. So the first workers are on the
	// first threads of the big cores.
	spread := []int{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15}
	under := func(groups ...[]int) func(cpu int) []int {
		return func(cpu int) []int {
			for _, g := range groups {
				if slices.Contains(g, cpu) {
					return g
				}
			}
			return nil
		}
	}
	alone := func(cpu int) []int { return []int{cpu} }
	caches := under([]int{0, 1, 8, 9}, []int{2, 3, 10, 11}, []int{4, 5, 12, 13}, []int{6, 7, 14, 15})
	nodes := under([]int{0, 1, 2, 3, 8, 9, 10, 11}, []int{4, 5, 6, 7, 12, 13, 14, 15})
	for _, c := range []struct {
		name    string
		options []Option
		order   []int
		bound   func(cpu int) []int
	}{
		{"cores", []Option{WithPinning(PinCores)}, spread, alone},
		{"caches", []Option{WithPinning(PinL3)}, spread, caches},
		{"nodes", []Option{WithPinning(PinNodes)}, spread, nodes},
		{"some cores", []Option{WithPinning(PinCores), WithWorkers(6)}, spread[:6], alone},
		{"some caches", []Option{WithPinning(PinL3), WithWorkers(6)}, spread[:6], caches},
		{"more workers", []Option{WithPinning(PinNodes), WithWorkers(20)}, slices.Concat(spread, spread[:4]), nodes},
		{"given cores", []Option{WithCPUs(9, 3, 14)}, []int{9, 3, 14}, alone},
		{"given cores under caches", []Option{WithPinning(PinL3), WithCPUs(9, 3, 1, 14)}, []int{9, 3, 1, 14},
			under([]int{1, 9}, []int{3}, []int{14})},
		{"given cores on nodes", []Option{WithPinning(PinNodes), WithCPUs(9, 3, 1, 14)}, []int{9, 3, 1, 14},
			under([]int{1, 3, 9}, []int{14})},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, bound := bindings(big(2, 2, 2, 2))
			onMachine(t, m)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
			p := newPool(t, c.options...)
			require.Equal(t, len(c.order), p.Workers())
			var want [][]int
			for rank, cpu := range c.order {
				want = append(want, c.bound(cpu))
				require.Equal(t, c.bound(cpu), p.places[rank].core.Placement().CPUs, "worker %d", rank)
			}
			require.ElementsMatch(t, want, bound())
		})
	}
}

// TestPinL3WithoutACacheBindsToTheNode, as its comment says.
func TestPinL3WithoutACacheBindsToTheNode(t *testing.T) {
	m, bound := bindings(pretended(2, 2)) // which has none
	onMachine(t, m)
	newPool(t, WithPinning(PinL3), WithWorkers(4))
	require.ElementsMatch(t, [][]int{{0, 2}, {1, 3}, {0, 2}, {1, 3}}, bound())
}

func TestMachinesThatCannotBindSaySo(t *testing.T) {
	m := pretended(2, 1)
	m.pin = func(...int) (*heist.Pinned, error) { return nil, heist.ErrPinning }
	onMachine(t, m)
	for _, pinning := range []Pinning{PinCores, PinL3, PinNodes} {
		_, err := New(WithPinning(pinning))
		require.ErrorIs(t, err, heist.ErrPinning)
	}
	_, err := New(WithTuning(Tuning{Isolate: true}), WithWorkers(1))
	require.ErrorIs(t, err, heist.ErrPinning)
	p := newPool(t, WithWorkers(2))
	require.False(t, isPinned(p))
	require.Equal(t, []int{0, 10}, p.Nodes())
}

// TestUnboundWorkersShareTheirIdleWorkersWithGuests: workers that begin beside the places become idle where places find them.
func TestUnboundWorkersShareTheirIdleWorkersWithGuests(t *testing.T) {
	for nodes, workers := range map[int]int{1: 4, 2: 4, 3: 6} {
		onMachine(t, pretended(nodes, 2))
		p := newPool(t, WithWorkers(workers))
		require.Len(t, p.core.Placements(), nodes)
		for _, pl := range p.victims() {
			require.Equal(t, p.nodes[pl.core.Node()].guestsAt, p.seats.Of(pl.index))
		}
	}
}

// TestTheFirstOfTheWorkersOnACPUHasIt: a waker chooses the place that is bound to its own CPU last.
func TestTheFirstOfTheWorkersOnACPUHasIt(t *testing.T) {
	cpu := allowed(t)[0]
	p := newPool(t, WithCPUs(cpu), WithWorkers(3))
	require.Equal(t, 0, p.onCPU[cpu])
}
