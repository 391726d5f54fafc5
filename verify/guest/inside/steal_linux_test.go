package inside

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/guest"
)

// TestFirstStealsGoToTheNearestTier: all workers but one queue tasks and then block, and
// that one has to steal them all.
func TestFirstStealsGoToTheNearestTier(t *testing.T) {
	m := machine(t)
	for thief := range m.CPUs() {
		// A worker begins with the last one that had something, so it must not have
		// stolen before.
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
// them, and whether it had stolen nothing before.
func stealAll(t *testing.T, m guest.Machine, thief int) (home int, from []int, innocent bool) {
	p, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithUniformLooks(0))
	require.NoError(t, err)
	var begun, full, stolen sync.WaitGroup
	release := make(chan struct{})
	const each = 10
	begun.Add(m.CPUs())
	full.Add(m.CPUs())
	stolen.Add((m.CPUs() - 1) * each)
	for range m.CPUs() {
		require.NoError(t, p.Go(func(w *pool.Worker) {
			begun.Done()
			begun.Wait() // from here on nobody is idle
			cpu, err := currentCPU()
			if err != nil {
				t.Error(err)
			}
			if cpu == thief {
				home, innocent = w.Node(), p.Stats().Workers[w.ID()].Steals == 0
				full.Done()
				full.Wait()
				return
			}
			node := w.Node()
			for range each {
				_ = w.Go(func(*pool.Worker) {
					from = append(from, node)
					stolen.Done()
				})
			}
			full.Done()
			<-release
		}))
	}
	require.True(t, returns(stolen.Wait), "CPU %d does not steal everything", thief)
	close(release)
	require.NoError(t, p.Close())
	return home, from, innocent
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
		require.NoError(t, p.SubmitOn(context.Background(), node, func(w *pool.Worker) {
			defer done.Done()
			_, _ = fib.Run(w, n)
		}))
	}
	require.True(t, returns(done.Wait))
}

// near returns how many steals there were within nodes, and how many in all.
func near(s pool.Stats) (within, all uint64) {
	for _, tier := range s.Tiers {
		all += tier.Steals
		if slices.Contains([]string{"same core", "same L3", "same node"}, tier.Name) {
			within += tier.Steals
		}
	}
	return within, all
}

// TestBalancedWorkIsStolenWithinNodes prints how many steals stay within the node when each
// node has as much to do. With one neighbour among seven others, uniform victims would be a
// seventh. It could be nearly all on a machine whose CPUs run at the same time; these take
// turns on the host's, and a neighbour that does not run has nothing to give.
func TestBalancedWorkIsStolenWithinNodes(t *testing.T) {
	m := machine(t)
	for name, work := range map[string]func(p *pool.Pool){
		"forks": func(p *pool.Pool) { perNode(t, p, p.Nodes(), 27) },
		"loop": func(p *pool.Pool) {
			require.NoError(t, pool.For(p, 4000*m.CPUs(), func(int) { sink.Add(spin(2000)) }))
		},
	} {
		for _, order := range []struct {
			name  string
			order pool.VictimOrder
		}{{"uniform", pool.Uniform()}, {"by topology", pool.ByTopology()}} {
			p, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithVictimOrder(order.order))
			require.NoError(t, err)
			for range 5 {
				work(p)
			}
			within, all := near(p.Stats())
			t.Logf("%s, %s: %d of %d steals within the node\n%v", name, order.name, within, all, p.Stats().Tiers)
			require.NoError(t, p.Close())
			if order.name == "by topology" {
				require.Greater(t, 5*within, all, name)
			}
		}
	}
}

var sink atomic.Uint32

//go:noinline
func spin(n int) (x uint32) {
	for i := range n {
		x = x*1664525 + uint32(i)
	}
	return x
}

// TestWorkThatStartsOnOneNode prints how long it takes, compared with uniform random
// victims, when all work starts on one node. It is a figure and no assertion: an emulated
// machine keeps no time.
func TestWorkThatStartsOnOneNode(t *testing.T) {
	m := machine(t)
	t.Logf("median makespan, by topology / uniform: %.2f of %d pairs", startOnOneNode(t, m, 9), 9)
}

func startOnOneNode(t *testing.T, m guest.Machine, pairs int) float64 {
	uniform, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithVictimOrder(pool.Uniform()))
	require.NoError(t, err)
	tiers, err := pool.New(pool.WithPinning(pool.PinCores))
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
