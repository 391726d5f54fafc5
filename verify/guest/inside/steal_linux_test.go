package inside

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
	"github.com/seed53057037/heist/verify/guest"
)

// TestFirstStealsGoToTheNearestTier: all workers but one queue tasks and then block, and
// that one has to steal them all.
func TestFirstStealsGoToTheNearestTier(t *testing.T) {
	m := machine(t)
	for thief := range m.CPUs() {
		// A thief begins with its last victim, so it must not have stolen before.
		var home int
		var from []int
		for innocent := false; !innocent; {
			home, from, innocent = stealAll(t, m, thief)
		}
		order := slices.Clone(from)
		slices.SortStableFunc(order, func(a, b int) int { return m.Distances[home][a] - m.Distances[home][b] })
		// The last task of each worker lies in its LIFO slot, which comes later.
		require.Equal(t, firsts(order), firsts(from), "CPU %d, on node %d", thief, home)
	}
}

// stealAll returns the thief's node, the nodes of the tasks in the order in which it ran
// them, and whether it had stolen nothing before, and nothing ran beside the workers or in the place of one that seemed to wait.
func stealAll(t *testing.T, m guest.Machine, thief int) (home int, from []int, innocent bool) {
	// By default there is a worker for each P, of which there may still be fewer: Go sees within a second or so that CPUs are back.
	p, err := pool.New(pool.WithCPUs(allCPUs(m)...), pool.WithPinning(pool.PinCores), pool.WithTuning(pool.Tuning{UniformLooks: -1}))
	require.NoError(t, err)
	begun, full := testutil.NewBarrier(m.CPUs()), testutil.NewBarrier(m.CPUs())
	var stolen sync.WaitGroup
	release := make(chan struct{})
	const each = 10
	stolen.Add((m.CPUs() - 1) * each)
	cpus := make([]int, m.CPUs())
	var mu sync.Mutex // from
	for i := range cpus {
		require.NoError(t, p.Go(func(w *pool.Worker) {
			var err error
			if cpus[i], err = currentCPU(); err != nil {
				t.Error(err)
			}
			begun.Compute() // from here on no worker is idle
			if !slices.Equal(slices.Sorted(slices.Values(cpus)), slices.Sorted(slices.Values(allCPUs(m)))) {
				if i == 0 { // the monitor had one begin beside the workers
					stolen.Add(-(m.CPUs() - 1) * each)
				}
				return
			}
			if cpus[i] == thief {
				home, innocent = w.Node(), p.Stats().Workers[w.ID()].Steals == 0
				full.Compute()
				return
			}
			node := w.Node()
			for range each {
				_ = w.Go(func(*pool.Worker) {
					mu.Lock()
					from = append(from, node)
					mu.Unlock()
					stolen.Done()
				})
			}
			full.Arrive()
			testutil.Compute(release)
		}))
	}
	if !testutil.ReturnsWithin(patience, stolen.Wait) {
		var dump strings.Builder
		_ = p.Dump(&dump)
		require.Fail(t, "it does not steal everything", "CPU %d\n%s", thief, dump.String())
	}
	close(release)
	require.NoError(t, p.Close())
	s := p.Stats()
	return home, from, innocent && s.Beside == 0 && s.Noticed == 0
}

// firsts returns each number where it is for the first time.
func firsts(s []int) (once []int) {
	for _, v := range s {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	return once
}

// perNode has each node compute the same, and waits.
func perNode(t *testing.T, p *pool.Pool, nodes []int, n int) {
	var done sync.WaitGroup
	for _, node := range nodes {
		done.Add(1)
		require.NoError(t, p.Submit(context.Background(), func(w *pool.Worker) {
			defer done.Done()
			_, _ = fib.Run(w, n)
		}, pool.OnNode(node)))
	}
	require.True(t, testutil.ReturnsWithin(patience, done.Wait))
}

// near returns how many steals there were within nodes, and how many in all.
func near(s inspect.Stats) (within, all uint64) {
	for _, tier := range s.Tiers {
		all += tier.Steals
		if slices.Contains([]string{"same core", "same L3", "same node"}, tier.Name) {
			within += tier.Steals
		}
	}
	return within, all
}

// A bush is a tree for which thieves come all the time: a root with many children, whose trees
// are small and of any size, as in the T3 of UTS.
type bush struct {
	seed  uint64
	depth int
	left  *atomic.Int32 // trees that have not begun
	// balanced is called when a tenth of the trees have begun, and when all have. Before that
	// the owner may not have published all of them yet.
	balanced func(bool)
}

const (
	trees  = 5000
	leaves = 502 // of 1000 nodes; the others have two children
)

var grown = pool.Recursive(func(f *pool.Fork[bush, int], b bush) int {
	if b.depth == 0 {
		return b.root(f)
	}
	if b.depth == 1 {
		switch b.left.Add(-1) {
		case trees * 9 / 10:
			b.balanced(true)
		case 0:
			b.balanced(false)
		}
	}
	b.seed = (b.seed ^ b.seed>>31) * 0x9e3779b97f4a7c15
	if b.seed>>32%1000 < leaves {
		return 1
	}
	b.depth++
	left, right := b, b
	left.seed++
	right.seed += 2
	x, y := f.Join(left, right)
	return x + y + 1
})

// root is a function of its own, because its slices have a constant length: Go keeps the smaller one in the frame, and a
// recursion 1500 deep whose frames have 40 KB each takes 64 MiB for each goroutine.
//
//go:noinline
func (b bush) root(f *pool.Fork[bush, int]) int {
	all, sizes := make([]bush, trees), make([]int, trees)
	for i := range all {
		all[i] = b
		all[i].seed, all[i].depth = uint64(i), 1
	}
	b.left.Store(trees)
	f.JoinAll(all, sizes)
	sum := 1
	for _, n := range sizes {
		sum += n
	}
	return sum
}

// TestBalancedWorkIsStolenWithinNodes: while each node has work that has not begun, thieves find it on their own node,
// except in the looks that draw their victims: where workers are bound, where they are not, and where threads that are not bound
// are moved from node to node all the time.
func TestBalancedWorkIsStolenWithinNodes(t *testing.T) {
	m := machine(t)
	bound := []pool.Option{pool.WithCPUs(allCPUs(m)...), pool.WithPinning(pool.PinCores)}
	for _, c := range []struct {
		name    string
		options []pool.Option
		moved   bool
		least   float64 // percents
	}{
		{"uniform", append(bound, pool.WithTuning(pool.Tuning{UniformLooks: 1})), false, 0},
		// It is about 90, or half of that where the host lets a node stand still for a part of the time: then its owner publishes
		// nothing, and its thieves rightly look elsewhere. On a busy host that is most tries, so the best one counts. When the last
		// victim came before nearer ones, it was 40 in the machine with four nodes, each time; by uniform looks it is 25.
		{"by topology", bound, false, 60},
		{"by topology, not bound", nil, false, 35},
		{"by topology, not bound and moved", nil, true, 35},
	} {
		var shares []float64
		for tries := 0; tries < 8 && (len(shares) == 0 || slices.Max(shares) <= c.least); tries++ {
			if share, balanced := shareOfNearSteals(t, m, c.moved, c.options...); balanced {
				shares = append(shares, share)
			}
		}
		t.Logf("%s: %.1f%% of the steals within the node", c.name, shares)
		if len(shares) >= 4 { // else the host let a node stand still most of the time
			require.Greater(t, slices.Max(shares), c.least)
		}
	}
}

// shareOfNearSteals returns percents, and whether there was a time in which all nodes had work:
// the host may let a node stand still.
func shareOfNearSteals(t *testing.T, m guest.Machine, moved bool, options ...pool.Option) (share float64, balanced bool) {
	p, err := pool.New(append([]pool.Option{pool.WithWorkers(m.CPUs())}, options...)...)
	require.NoError(t, err)
	if moved {
		defer moveThreads(t, m)()
	}
	all := testutil.NewBarrier(m.CPUs())
	var begun [64]atomic.Bool // by node: a worker there has begun
	var done sync.WaitGroup
	var mu sync.Mutex
	bushes, over := 0, false
	var begin, end inspect.Stats
	tell := func(yes bool) {
		mu.Lock()
		defer mu.Unlock()
		if yes {
			bushes++
		}
		switch {
		case yes && bushes == m.Nodes():
			begin = p.Stats()
		case !yes && !over:
			over, end = true, p.Stats()
		}
	}
	for range m.CPUs() {
		done.Add(1)
		require.NoError(t, p.Go(func(w *pool.Worker) {
			defer done.Done()
			all.Compute() // so that no worker is idle
			if !begun[nodeHere(t, m)].Swap(true) {
				_ = grown.Call(w, bush{left: new(atomic.Int32), balanced: tell})
			}
		}))
	}
	require.True(t, testutil.ReturnsWithin(patience, done.Wait))
	require.NoError(t, p.Close())
	within, steals := near(end)
	withinBefore, stealsBefore := near(begin)
	if steals <= stealsBefore || stealsBefore == 0 {
		return 0, false
	}
	return 100 * float64(within-withinBefore) / float64(steals-stealsBefore), true
}

// nodeHere returns the index of the node that runs the calling thread.
func nodeHere(t *testing.T, m guest.Machine) int {
	cpu, err := currentCPU()
	if err != nil {
		t.Error(err)
	}
	for node := range m.Nodes() {
		if slices.Contains(m.NodeCPUs(node), cpu) {
			return node
		}
	}
	t.Errorf("CPU %d is on no node", cpu)
	return 0
}

// moveThreads moves each thread of the process to another node, one every 2 milliseconds, until the returned function is called. Afterwards
// they may run anywhere.
func moveThreads(t *testing.T, m guest.Machine) (stop func()) {
	set := func(thread int, cpus []int) {
		var mask unix.CPUSet
		for _, cpu := range cpus {
			mask.Set(cpu)
		}
		_ = unix.SchedSetaffinity(thread, &mask) // the thread may have ended
	}
	threads := func() (ids []int) {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if id, err := strconv.Atoi(e.Name()); err == nil {
				ids = append(ids, id)
			}
		}
		return ids
	}
	over, moved := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(moved)
		for node := 0; ; {
			for _, thread := range threads() {
				select {
				case <-over:
					for _, thread := range threads() {
						set(thread, allCPUs(m))
					}
					return
				case <-time.After(2 * time.Millisecond):
					set(thread, m.NodeCPUs(node))
					node = (node + 1) % m.Nodes()
				}
			}
		}
	}()
	return func() {
		close(over)
		<-moved
	}
}

// TestALoopWithAnAffinityStaysOnItsNodes runs a loop again and again, and counts the items that run on the node on which they ran the
// time before. That is a figure and no assertion: thieves rightly take what a node that the host does not run has not begun.
func TestALoopWithAnAffinityStaysOnItsNodes(t *testing.T) {
	m := machine(t)
	for _, c := range []struct {
		name    string
		options []pool.Option
		busy    bool // another process takes a CPU
	}{
		{"PinNodes", []pool.Option{pool.WithPinning(pool.PinNodes)}, false},
		{"not bound", nil, false},
		{"not bound, beside busy threads", nil, true},
	} {
		p, err := pool.New(append([]pool.Option{pool.WithWorkers(m.CPUs())}, c.options...)...)
		require.NoError(t, err)
		if c.busy {
			defer busyThreads(m.Nodes())()
		}
		var a pool.Affinity
		ran := make([]int, 4096)
		var stayed []float64
		for range 15 {
			var same atomic.Int64
			require.NoError(t, pool.ForRange(p, len(ran), func(_ *pool.Worker, lo, hi int) {
				node := nodeHere(t, m)
				for i := lo; i < hi; i++ {
					heist.Spin(20 * time.Microsecond)
					if ran[i] == node {
						same.Add(1)
					}
					ran[i] = node
				}
			}, a.Granularity()))
			stayed = append(stayed, 100*float64(same.Load())/float64(len(ran)))
		}
		require.NoError(t, p.Close())
		slices.Sort(stayed)
		t.Logf("%s: %.0f%% of the items stayed on their node (median; least %.0f%%, most %.0f%%)", c.name, stayed[len(stayed)/2], stayed[0], stayed[len(stayed)-1])
	}
}

// busyThreads keeps so many threads that are no worker's busy.
func busyThreads(n int) (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		all.Wait()
	}
}

// TestWorkThatStartsOnOneNode prints how long it takes, compared with uniform random
// victims, when all work starts on one node. It is a figure and no assertion: an emulated
// machine keeps no time.
func TestWorkThatStartsOnOneNode(t *testing.T) {
	m := machine(t)
	t.Logf("median makespan, by topology / uniform: %.2f of %d pairs", startOnOneNode(t, m, 9), 9)
}

func startOnOneNode(t *testing.T, m guest.Machine, pairs int) float64 {
	uniform, err := pool.New(pool.WithCPUs(allCPUs(m)...), pool.WithPinning(pool.PinCores), pool.WithTuning(pool.Tuning{UniformLooks: 1}))
	require.NoError(t, err)
	tiers, err := pool.New(pool.WithCPUs(allCPUs(m)...), pool.WithPinning(pool.PinCores))
	require.NoError(t, err)
	var ratios []float64
	for i := range pairs {
		node := []int{i % m.Nodes()}
		took := func(p *pool.Pool) float64 {
			start := time.Now()
			perNode(t, p, node, 30)
			return time.Since(start).Seconds()
		}
		ratios = append(ratios, took(tiers)/took(uniform))
	}
	require.NoError(t, uniform.Close())
	require.NoError(t, tiers.Close())
	slices.Sort(ratios)
	return ratios[pairs/2]
}
