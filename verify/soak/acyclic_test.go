package soak

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
)

var programs = flag.Int("programs", 0, "how many programs TestNoAcyclicProgramHangs runs; 0 is 15 seconds of them, 2 with -short, 100,000 for a claim")

// enoughPrograms says when TestNoAcyclicProgramHangs has run enough of them.
func enoughPrograms() func(n int) bool {
	most := *programs
	if most == 0 && claim.Full() {
		most = 100_000
	}
	if most > 0 {
		return func(n int) bool { return n >= most }
	}
	lasts := 15 * time.Second
	if testutil.Short() {
		lasts = 2 * time.Second
	}
	end := time.Now().Add(lasts)
	return func(int) bool { return time.Now().After(end) }
}

// noNodeEnds is how long the test waits for a node to end. A program takes milliseconds.
const noNodeEnds = 20 * time.Second

func TestNoAcyclicProgramHangs(t *testing.T) {
	claim.That(t, "a program whose waits are no circle does not hang",
		"tasks, futures, groups, scopes, forks and guests from one seed that wait for one another in all ways, submitted in any order, with a watchdog")
	first := chosenSeed()
	t.Logf("-seed=%d", first)
	existing := goleak.IgnoreCurrent()
	nodes, waits, n := 0, 0, 0
	for enough := enoughPrograms(); !enough(n); n++ {
		seed := first + uint64(n)
		again := fmt.Sprintf("run it again by: go test ./verify/soak -run '^TestNoAcyclicProgramHangs$' -seed=%d -programs=1", seed)
		start := time.Now()
		d := generateDAG(seed)
		x, err := runDAG(d, noNodeEnds)
		require.NoError(t, err, again)
		if took := time.Since(start); took > 2*time.Second {
			t.Logf("seed %d took %v", seed, took)
		}
		nodes += len(x.Nodes)
		for _, node := range x.Nodes {
			waits += len(node.Needs) + len(node.Inside)
		}
	}
	var err error
	require.True(t, testutil.Eventually(func() bool { err = goleak.Find(existing); return err == nil }), "%v", err)
	t.Logf("%d programs, %d nodes, %d waits", n, nodes, waits)
	claim.Amount(t, "%s programs, %s nodes, %s waits", claim.Count(n), claim.Count(nodes), claim.Count(waits))
}

func TestAnAcyclicProgramIsWhatItsSeedSays(t *testing.T) {
	claim.That(t, "an acyclic program is replayed by its seed, and is acyclic", "programs are made twice and compared; each wait is for a lower node, and not for another fork")
	first, n := chosenSeed(), 200
	for i := range uint64(n) {
		d := generateDAG(first + i)
		require.Equal(t, d, generateDAG(d.Seed))
		d.requireAcyclic(t)
	}
	claim.Amount(t, "%s programs", claim.Count(n))
}

func (d *dag) requireAcyclic(t *testing.T) {
	t.Helper()
	launched := make([]int, len(d.Nodes))
	for _, id := range d.Roots {
		launched[id]++
	}
	for _, n := range d.Nodes {
		for _, need := range n.Needs {
			require.Less(t, need.On, n.Low)
		}
		for _, need := range n.Inside {
			require.Less(t, need.On, n.ID)
		}
		for _, need := range append(n.Needs[:len(n.Needs):len(n.Needs)], n.Inside...) {
			// If n is inside a computation of forks, what it waits for is in the same fork, or
			// outside of the computation.
			for in, parent := n, n.Parent; parent >= 0; in, parent = d.Nodes[parent], d.Nodes[parent].Parent {
				around := d.Nodes[parent]
				if forks := around.Nest == nestDo || around.Nest == nestJoin || around.Nest == nestLoop; forks {
					require.True(t, need.On < around.Low || need.On >= in.Low)
				}
			}
		}
		for _, id := range n.Then {
			launched[id]++
			require.Greater(t, d.Nodes[id].Low, n.ID)
		}
		for _, id := range n.First {
			launched[id]++
		}
		for _, id := range n.Children {
			launched[id]++
			require.Equal(t, n.ID, d.Nodes[id].Parent)
		}
	}
	for id, k := range launched {
		require.Equal(t, 1, k, "node %d", id)
	}
}

func TestTheWatchdogSeesACircle(t *testing.T) {
	claim.That(t, "the watchdog of acyclic programs can bark", "programs in which two nodes wait for each other are reported with the circle")
	const n = 3
	first := chosenSeed()
	found := 0
	for seed := first; found < n; seed++ {
		d := generateDAG(seed)
		d.OneP = false // or it might be slow, and seem to hang before the circle is closed
		for i := range d.Pools {
			d.Pools[i].Pinned, d.Pools[i].Hot = false, false
		}
		low, high := d.plant()
		if low < 0 {
			continue
		}
		found++
		var h *hang
		for patience := 400 * time.Millisecond; ; patience *= 2 { // a slow machine may seem to hang before the circle is closed
			x, err := runDAG(d, patience)
			require.True(t, errors.As(err, &h), "seed %d: %v", seed, err)
			close(x.release)
			x.left.Wait()
			require.NoError(t, x.close(noNodeEnds), "seed %d", seed)
			if h.circle != nil || patience > testutil.Patience {
				break
			}
		}
		require.Contains(t, h.circle, low, "seed %d\n%s", seed, h.report)
		require.Contains(t, h.circle, high, "seed %d\n%s", seed, h.report)
		require.Contains(t, h.report, fmt.Sprintf("waits for node %d by", high))
	}
	claim.Amount(t, "%s circles", claim.Count(n))
}

// plant has a node without a parent wait for a higher one that waits for it, and returns the two. The higher one
// begins before the lower one has ended. It may wait first for others that the lower one keeps from ending; then the
// circle goes through these.
func (d *dag) plant() (low, high int) {
	for _, n := range d.Nodes {
		for _, other := range n.Needs {
			on := d.Nodes[other.On]
			if n.Parent < 0 && n.depends < on.ID && on.Parent < 0 && on.Nest == noNest {
				on.Needs = append(on.Needs, need{n.ID, byChannel})
				return on.ID, n.ID
			}
		}
	}
	return -1, -1
}
