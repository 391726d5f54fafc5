package policy

import (
	"fmt"
	"testing"

	"github.com/seed53057037/heist/numa"
	"github.com/stretchr/testify/require"
)

// server has two nodes, each with two L3 caches, of two cores with two threads. The
// nodes are at the given distance.
func server(distance int) *numa.Topology {
	t := &numa.Topology{Nodes: []numa.Node{
		{ID: 0, Distances: []int{10, distance}},
		{ID: 1, Distances: []int{distance, 10}},
	}}
	for cpu := range 16 {
		core := cpu / 2
		t.CPUs = append(t.CPUs, numa.CPU{ID: cpu, Node: core / 4, Core: core, L3: core / 2})
	}
	return t
}

func TestDistancesGrowFromTheCoreToOtherNodes(t *testing.T) {
	for _, c := range []struct{ a, b, want int }{
		{0, 0, SameCore},
		{0, 1, SameCore},
		{0, 2, SameCache},
		{0, 3, SameCache},
		{0, 4, SameNode},
		{0, 7, SameNode},
		{0, 8, 21},
		{7, 15, 21},
	} {
		require.Equal(t, c.want, Distance(server(21), c.a, c.b), "from %d to %d", c.a, c.b)
		require.Equal(t, c.want, Distance(server(21), c.b, c.a), "from %d to %d", c.b, c.a)
	}
}

// TestDistanceOfNodesStaysBetweenItsNeighbours: whatever a firmware says of two nodes, they
// are farther apart than what is on one node, and nearer than nowhere.
func TestDistanceOfNodesStaysBetweenItsNeighbours(t *testing.T) {
	for _, said := range []int{-1, 0, 1, 2, 10, 11, 254, 255, 1 << 16} {
		d := Distance(server(said), 0, 8)
		require.Greater(t, d, SameNode, "said to be %d", said)
		require.Less(t, d, Elsewhere, "said to be %d", said)
	}
}

func TestWhatNobodyKnowsCountsAsTheSameNode(t *testing.T) {
	require.Equal(t, SameNode, Distance(server(21), 0, 99))
	require.Equal(t, SameNode, Distance(server(21), 99, 0))
	require.Equal(t, SameCore, Distance(server(21), 99, 99))
	blank := &numa.Topology{Nodes: []numa.Node{{}}}
	for cpu := range 3 { // without cores and caches
		blank.CPUs = append(blank.CPUs, numa.CPU{ID: cpu, Core: -1, L3: -1})
	}
	require.Equal(t, SameNode, Distance(blank, 0, 1))
	require.Equal(t, SameCore, Distance(blank, 1, 1))
}

// TestACacheEndsAtItsNode: on some machines one L3 serves two nodes.
func TestACacheEndsAtItsNode(t *testing.T) {
	both := server(12)
	for i := range both.CPUs {
		both.CPUs[i].L3 = 0
	}
	require.Equal(t, 12, Distance(both, 0, 8))
	require.Equal(t, SameCache, Distance(both, 0, 6))
}

func ExampleDistance() {
	t := server(32)
	fmt.Println(Distance(t, 0, 1), Distance(t, 0, 2), Distance(t, 0, 4), Distance(t, 0, 8))
	// Output: 0 1 2 32
}
