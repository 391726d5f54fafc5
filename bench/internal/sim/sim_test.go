package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
)

// machine returns one that is put together for a test.
func machine(distances [][]int, l3s, cores, threads int) Machine {
	s := shape{distances: distances, l3s: l3s, cores: cores, threads: threads}
	return Machine{Name: fmt.Sprintf("%dn", len(distances)), topology: s.topology()}
}

// small returns machines on which a run takes milliseconds.
func small() []Machine {
	return []Machine{
		machine(oneNode, 1, 1, 1),
		machine(oneNode, 1, 2, 1),
		machine(oneNode, 2, 4, 2),
		machine(fourAlike, 1, 2, 1),
		machine(twoEPYCs, 1, 2, 2),
	}
}

func setups(m Machine, load work) map[string]setup {
	l := m.layout()
	all := make(map[string]setup)
	for _, s := range Strategies() {
		all[s.Name] = setup{layout: l, order: l.order(s.tiers), parameters: s.parameters, lastVictim: s.lastVictim, load: load, seed: 1}
	}
	return all
}

// tinyLoads returns loads that are as small as the machines.
func tinyLoads(l *layout) map[string]work {
	return map[string]work{
		"geometric": {tree: geometric(4, 2000)},
		"binomial":  {tree: binomial(60, 500)},
		"fib":       {tree: fibonacci(13, 3000)},
		"combining": {tree: combining(13, 3000, 2000)},
		"skewed":    {tree: skewed(20_000, 50, 20)},
		"service":   {service: newService(rand.New(rand.NewPCG(1, 2)), l, 400, 0.7)},
	}
}

func TestSameSeedGivesTheSameOutputToTheLastByte(t *testing.T) {
	loads, err := ChooseLoads("uts-t3,forkjoin,service-90")
	require.NoError(t, err)
	o := Options{Machines: small()[3:4], Loads: loads, Strategies: Strategies(), Seed: 5, Seeds: 2}
	print := func() (string, []Outcome) {
		outcomes, err := Run(o)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, Text(&b, outcomes))
		for _, line := range Lines(outcomes) {
			require.NoError(t, contract.Encode(&b, line))
		}
		return b.String(), outcomes
	}
	first, outcomes := print()
	second, _ := print()
	require.Equal(t, first, second)
	for _, o := range outcomes {
		if o.Load.Name == "uts-t3" {
			assert.NotEqual(t, o.Runs[0], o.Runs[1], "another seed, another run")
		}
	}
}

// count is the serial traversal.
func count(t *tree, lo, hi int32) (nodes int, time int64) {
	for i := lo; i < hi; i++ {
		n, c := count(t, t.children[i], t.children[i+1])
		nodes, time = nodes+1+n, time+int64(t.cost[i])+c
		if n > 0 {
			time += int64(t.after)
		}
	}
	return nodes, time
}

func TestEveryNodeAndRequestRunsOnceOnEveryMachine(t *testing.T) {
	for _, m := range small() {
		for name, load := range tinyLoads(m.layout()) {
			for strategy, u := range setups(m, load) {
				var e *engine
				u.tweak = func(engine *engine) { e = engine }
				stats, err := u.run()
				require.NoError(t, err, "%s with %s on %s", name, strategy, m.Name)
				require.NotContains(t, e.ran, false)
				require.Zero(t, e.left)
				requireNobodyIsLeft(t, e)
				if load.tree == nil {
					require.Len(t, e.latencies, load.service.arriving/2)
					continue
				}
				nodes, time := count(load.tree, 0, 1)
				require.Len(t, e.ran, nodes)
				require.Equal(t, time, stats.Work)
			}
		}
	}
}

// requireNobodyIsLeft checks the state after a run: nobody waits for a fork, each place has one worker at most, who is
// awake, and the protocol's counts are those of its workers.
func requireNobodyIsLeft(t *testing.T, e *engine) {
	t.Helper()
	has := make(map[*place]*worker)
	awake := 0
	for _, w := range e.workers[e.clients:] {
		require.Zero(t, w.bottom, "worker %d waits for a fork", w.id)
		require.NotEqual(t, core.Waiting, w.core.State(), "worker %d", w.id)
		if w.place != nil {
			require.Nil(t, has[w.place], "two workers have the same place")
			require.Equal(t, core.Holding, w.core.State())
			has[w.place] = w
		}
		if s := w.core.State(); s == core.Holding || s == core.Beside {
			require.Contains(t, w.cpu.running, w)
			awake++
		}
	}
	require.Zero(t, e.core.Waits())
	require.LessOrEqual(t, e.core.Active(), awake+len(e.places), "and those that were woken just now")
	state := e.core.Sleep.Load()
	require.GreaterOrEqual(t, state.Searching(), 0)
	require.LessOrEqual(t, state.Searching(), len(e.places))
	require.GreaterOrEqual(t, state.Sleepers(), 0)
	require.LessOrEqual(t, state.Sleepers(), len(e.places))
	for i, pl := range e.places {
		if has[pl] != nil {
			require.False(t, e.core.Sleep.Parked(i), "place %d sleeps, and worker %d has it", i, has[pl].id)
		}
	}
}

func TestNodeThatRunsTwiceIsAFailure(t *testing.T) {
	e := &engine{ran: make([]bool, 2), left: 2}
	e.ranOnce(1)
	e.finish(10)
	require.NoError(t, e.failure)
	require.False(t, e.over)
	e.ranOnce(1)
	e.finish(11)
	require.True(t, e.over)
	require.ErrorContains(t, e.failure, "number 1 ran twice")
}

// Sizes that suite forkjoin gives for the same definitions.
func TestGeometricTreeIsTheBenchmarks(t *testing.T) {
	assert.Equal(t, 944, geometric(4, 1).nodes())
	assert.Equal(t, 63914, geometric(7, 1).nodes())
	assert.Equal(t, 8, geometric(7, 1).depth)
}

func TestNoRunIsFasterThanTheLaws(t *testing.T) {
	for _, m := range small() {
		for name, load := range tinyLoads(m.layout()) {
			for strategy, u := range setups(m, load) {
				stats, err := u.run()
				require.NoError(t, err)
				assert.GreaterOrEqual(t, stats.Makespan*int64(u.layout.workers), stats.Work, "%s %s", name, strategy)
				assert.GreaterOrEqual(t, stats.Makespan, stats.Span, "%s %s", name, strategy)
				if u.layout.workers > 4 && load.tree != nil {
					assert.Less(t, stats.Makespan, stats.Work, "%s %s is faster than one worker", name, strategy)
				}
			}
		}
	}
}

// One worker has what the tree takes, the wake-up, and the forks: nothing to steal, nobody
// to wait for.
func TestOneWorkerTakesTheSerialTimeAndTheForks(t *testing.T) {
	m := machine(oneNode, 1, 1, 1)
	run := func(tree *tree) Stats {
		stats, err := setups(m, work{tree: tree})["tiers-last"].run()
		require.NoError(t, err)
		require.Zero(t, stats.Steals)
		return stats
	}
	chain := func(n int, cost int32) *tree {
		return grow(n, 1, func(n, _ int, add func(int)) int32 {
			if n > 1 {
				add(n - 1)
			}
			return cost
		})
	}
	start := run(chain(1, 1000)).Makespan - 1000
	assert.Equal(t, 70_000+start, run(chain(10, 7000)).Makespan, "no fork, no cost")
	assert.Greater(t, start, int64(woken))

	tree := fibonacci(12, 4000)
	forks := int64(tree.nodes() / 2) // one for each node that has children
	stats := run(tree)
	private := stats.Makespan - start - stats.Work - forks*fork
	assert.Greater(t, private, int64(0), "the oldest forks are public")
	assert.LessOrEqual(t, private, forks*2*rmw, "a public fork is two atomic operations")
}

// The first worker has something long to do, the second something short. When the second
// sleeps and the first has searched and goes to sleep as well, a request comes, at every
// moment of that. It sees a searcher and wakes nobody.
func TestWithoutTheSecondLookAWakeUpIsLost(t *testing.T) {
	m := machine(twoXeons, 1, 1, 1)
	lost := 0
	for at := int64(115_000); at < 135_000; at += sameNode {
		load := work{service: &service{arriving: 3, lines: 1, requests: []request{
			{cost: 100_000, whole: -1}, {cost: 1000, whole: -1, arrival: 20_000, node: 1}, {cost: 1000, whole: -1, arrival: at},
		}}}
		u := setups(m, load)["tiers-last"]
		u.tweak = func(e *engine) { e.slack = 0 } // or nobody comes in between
		_, err := u.run()
		require.NoError(t, err, at)
		u.tweak = func(e *engine) { e.slack, e.skipRecheck = 0, true }
		if _, err = u.run(); err != nil {
			require.ErrorContains(t, err, "everybody sleeps, and 1 of 3 nodes or requests have not run: 2 of 2 places sleep")
			lost++
		}
	}
	assert.Positive(t, lost, "who does not look again after the announcement sleeps through what came before it")
}

// pair returns a machine with two CPUs, and a tree whose root has two leaves. The second is
// stolen.
func pair(first, second int32) (*layout, work) {
	return machine(oneNode, 1, 2, 1).layout(), work{tree: grow(0, 1, func(n, index int, add func(int)) int32 {
		switch index {
		case 0:
			add(1)
			add(2)
			return 50_000 // the other worker is awake then
		case 1:
			return first
		}
		return second
	})}
}

// The first leaf always takes 100 us, and the second from 20 to 180. While that one is the
// shorter, or so little longer that the waiter's look sees its end, no place is lent.
func TestWhoWaitsLooksBeforeItLendsItsPlace(t *testing.T) {
	run := func(second int32) Stats {
		l, load := pair(100_000, second)
		stats, err := setup{layout: l, order: l.order(false), load: load, seed: 1}.run()
		require.NoError(t, err)
		require.EqualValues(t, 1, stats.Steals)
		require.Equal(t, 2+stats.Lent, stats.Goroutines)
		return stats
	}
	short, long := run(20_000), run(180_000)
	require.Zero(t, short.Lent)
	require.EqualValues(t, 1, long.Lent)
	late := int32(0) // the longest that the waiter does without lending
	for second := int32(20_000); second < 180_000; second += 500 {
		stats := run(second)
		if stats.Lent > 0 {
			break
		}
		late = second
		require.LessOrEqual(t, stats.Makespan, short.Makespan+shortLook+2*sameNode)
		require.GreaterOrEqual(t, stats.Makespan, short.Makespan)
	}
	require.Equal(t, run(late).Makespan/1000, (short.Makespan+shortLook)/1000, "it looks for that long")
	require.Less(t, run(late+500).Makespan, short.Makespan+shortLook+500+waker+woken, "and sleeps then")
	require.EqualValues(t, 180_000-150_000, long.Makespan-run(150_000).Makespan, "until the thief is done")
}

// One worker computes for 1000 ns. After 400 of them another comes back, for 200.
func TestWorkersOfAPlaceShareItsCPU(t *testing.T) {
	l, load := pair(1, 1)
	e := setup{layout: l, order: l.order(false), load: load}.engine()
	defer e.stop()
	e.slack = 0
	ends := make(map[*worker]int64)
	compute := func(ns int64) *worker {
		w := &worker{cpu: e.cpus[0]}
		e.begin(w, func() {
			w.enter()
			w.now += ns
			w.sync()
			ends[w] = w.now
			w.leave()
		})
		return w
	}
	first, second := compute(1000), compute(200)
	e.agenda.set(0, never) // the client
	first.wake(0)
	second.wake(400)
	for i, at := e.agenda.first(); at != never; i, at = e.agenda.first() {
		e.workers[i].next()
	}
	assert.Equal(t, map[*worker]int64{second: 400 + 2*200, first: 1000 + 200}, ends)
}

func TestEveryWaitEnds(t *testing.T) {
	for _, m := range small()[1:] {
		l := m.layout()
		for name, load := range tinyLoads(l) {
			if load.tree == nil {
				continue
			}
			for seed := range uint64(5) {
				var e *engine
				u := setup{layout: l, order: l.order(true), parameters: policy.Defaults, load: load, seed: seed}
				u.tweak = func(engine *engine) { e = engine }
				_, err := u.run()
				require.NoError(t, err, "%s on %s, seed %d", name, m.Name, seed)
				require.Zero(t, e.left)
				requireNobodyIsLeft(t, e)
			}
		}
	}
}

// On one CPU there is nobody to wait for. On two, a worker that waits leaves its CPU to a
// stand-in, so nearly all the time is work.
func TestWaitersLeaveNoCPUIdle(t *testing.T) {
	l := machine(oneNode, 1, 2, 1).layout()
	for seed := range uint64(20) {
		u := setup{layout: l, order: l.order(false), load: work{tree: skewed(20_000, 50, 100)}, seed: seed}
		stats, err := u.run()
		require.NoError(t, err)
		require.Positive(t, stats.Lent)
		require.Less(t, float64(2*stats.Makespan), 1.15*float64(stats.Work), "seed %d", seed)
	}
}

func TestPolicyChoosesTheVictims(t *testing.T) {
	m := machine(twoEPYCs, 1, 2, 2)
	l := m.layout()
	load := work{tree: binomial(500, 3000)}
	share := func(tiers bool, p policy.Parameters) float64 {
		stats, err := setup{layout: l, order: l.order(tiers), parameters: p, load: load, seed: 3}.run()
		require.NoError(t, err)
		return stats.RemoteShare()
	}
	uniform := share(false, policy.Parameters{Uniform: policy.Always})
	assert.InDelta(t, 28.0/31, uniform, 0.1, "28 of 31 other workers are on other nodes")
	assert.InDelta(t, uniform, share(true, policy.Parameters{Uniform: policy.Always}), 0.1, "every look is at all alike")
	assert.Less(t, share(true, policy.Parameters{}), 0.8*uniform)
	assert.Less(t, share(true, policy.Parameters{Patience: 20}), share(true, policy.Parameters{}))
}

func TestAgendaGivesTheEarliestAndOfSeveralTheLowest(t *testing.T) {
	a := newAgenda(5)
	_, at := a.first()
	require.Equal(t, int64(never), at)
	times := []int64{7, 3, 3, 9, 3}
	for i, at := range times {
		a.set(i, at)
	}
	for _, want := range []int{1, 2, 4, 0, 3} {
		i, at := a.first()
		require.Equal(t, want, i)
		require.Equal(t, times[i], at)
		a.set(i, never)
	}
}

func TestMachinesAreWhatTheirNamesSay(t *testing.T) {
	for _, m := range Machines() {
		var nodes, cpus int
		_, err := fmt.Sscanf(m.Name, "%dn%dc", &nodes, &cpus)
		if err != nil {
			_, err = fmt.Sscanf(m.Name, "%ds%dc", &nodes, &cpus)
		}
		require.NoError(t, err)
		require.Len(t, m.topology.Nodes, nodes)
		require.Len(t, m.topology.Allowed, cpus)
		for a := range nodes {
			require.Equal(t, 10, m.topology.Distance(a, a))
			for b := range a {
				require.Equal(t, m.topology.Distance(a, b), m.topology.Distance(b, a))
			}
			require.Len(t, m.topology.Nodes[a].CPUs, cpus/nodes)
		}
	}
}

func TestWorkersOfANodeAreNearerThanOthers(t *testing.T) {
	l := machine(twoEPYCs, 2, 2, 2).layout() // 32 cores, of which CPU 32 is the first one's other thread
	assert.Equal(t, policy.SameCore, l.distance(0, 32))
	assert.Equal(t, policy.SameCache, l.distance(0, 1))
	assert.Equal(t, policy.SameNode, l.distance(0, 2))
	assert.Equal(t, 12, l.distance(0, 4))
	assert.Equal(t, 32, l.distance(0, 16))
	assert.Equal(t, []int{5, 6, 7, 4, 0, 1, 2, 3}, l.nearby[5][:8])
}

func TestRankPutsThoseThatStayNearFirst(t *testing.T) {
	outcome := func(strategy string, makespan, remote int64) Outcome {
		return Outcome{Machine: Machine{Name: "m"}, Load: Load{Name: "uts"}, Strategy: Strategy{Name: strategy}, Workers: 1,
			Runs: []Stats{{Makespan: makespan, Steals: remote, Remote: remote}}}
	}
	ranking := Rank([]Outcome{
		outcome(Uniform, 1e6, 300), outcome("fast", 5e5, 200), outcome("slow", 9e5, 30), outcome("good", 8e5, 60),
	}, "m")
	require.Len(t, ranking, 3)
	assert.Equal(t, "good", ranking[0].Strategy.Name)
	assert.Equal(t, "slow", ranking[1].Strategy.Name)
	assert.Equal(t, "fast", ranking[2].Strategy.Name, "two thirds of the remote steals")
	assert.InDelta(t, 0.8, ranking[0].Makespan, 1e-6)
	assert.InDelta(t, 0.2, ranking[0].Most, 1e-6)
}

func TestLinesNameCaseAndComparison(t *testing.T) {
	outcomes, err := Run(Options{Machines: small()[3:4], Loads: Loads()[1:2], Strategies: Strategies(), Seeds: 1})
	require.NoError(t, err)
	ratios := make(map[string]int)
	for _, line := range Lines(outcomes) {
		switch l := line.(type) {
		case contract.Line:
			assert.Equal(t, "sim", l.Suite)
			assert.Equal(t, "uts-t3-4n", l.Case)
			assert.Equal(t, 8, l.Workers)
			assert.Equal(t, l.Impl == "uniform", l.Peer)
		case contract.Ratio:
			ratios[l.RatioTo+", "+l.Metric]++
		}
	}
	assert.Equal(t, map[string]int{"uniform, makespan-ms": 2, "uniform, remote-steals": 2}, ratios)
}
