package policy

import (
	"fmt"
	"slices"
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

// TestDistanceOfNodesStaysBetweenItsNeighbours: whatever a firmware says of two nodes, they are
// farther apart than CPUs of the same node, and nearer than Elsewhere.
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

// oneWay returns nodes with one CPU each, CPU i on node i, and these distances by node.
func oneWay(rows ...[]int) *numa.Topology {
	t := new(numa.Topology)
	for i, row := range rows {
		t.Nodes = append(t.Nodes, numa.Node{ID: i, CPUs: numa.Set{i}, Distances: row})
		t.CPUs = append(t.CPUs, numa.CPU{ID: i, Node: i, Core: i, L3: i})
	}
	return t
}

// TestFromANodeCountsItsOwnRow: a firmware may say that the way there is shorter than the way back.
// A thief goes by the way there.
func TestFromANodeCountsItsOwnRow(t *testing.T) {
	there := oneWay(
		[]int{10, 12, 40, 31},
		[]int{99, 10, 21, 21},
		[]int{13, 50, 10, 14},
		[]int{20, 30, 25, 10})
	for a, from := range there.Nodes {
		for b, distance := range from.Distances {
			if a != b {
				require.Equal(t, distance, Distance(there, a, b), "from %d to %d", a, b)
			}
		}
	}
	all := []int{0, 1, 2, 3}
	for from, want := range [][]int{{0, 1, 3, 2}, {1, 2, 3, 0}, {2, 0, 3, 1}, {3, 0, 2, 1}} {
		require.Equal(t, want, Nearest(there, from, all), "from %d", from)
	}
}

// forPermutations calls test with the numbers below n in every order.
func forPermutations(n int, test func(order []int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			test(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

// TestNodesThatAreAsFarFollowOnesOwn: equally far nodes come in the order of their numbers, from
// the own node on and around the end. If all nodes had the same favourite, all thieves would go
// there first. The order in which the caller lists the nodes does not matter.
func TestNodesThatAreAsFarFollowOnesOwn(t *testing.T) {
	nearest := func(topology *numa.Topology, from int, ids []int) (nodes []int) {
		for _, i := range Nearest(topology, from, ids) {
			nodes = append(nodes, ids[i])
		}
		return nodes
	}
	equal := oneWay(
		[]int{10, 20, 20, 20, 20},
		[]int{20, 10, 20, 20, 20},
		[]int{20, 20, 10, 20, 20},
		[]int{20, 20, 20, 10, 20},
		[]int{20, 20, 20, 20, 10})
	pairs := oneWay( // 0 and 2 are near each other, and so are 1 and 3
		[]int{10, 20, 15, 20},
		[]int{20, 10, 20, 15},
		[]int{15, 20, 10, 20},
		[]int{20, 15, 20, 10})
	forPermutations(5, func(ids []int) {
		for from := range 5 {
			want := []int{from, (from + 1) % 5, (from + 2) % 5, (from + 3) % 5, (from + 4) % 5}
			require.Equal(t, want, nearest(equal, from, ids), "from %d, of %v", from, ids)
		}
		some := slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id == 0 || id == 2 })
		require.Equal(t, []int{3, 4, 1}, nearest(equal, 2, some), "from a node that is not one of %v", some)
	})
	forPermutations(4, func(ids []int) {
		for from, want := range [][]int{{0, 2, 1, 3}, {1, 3, 2, 0}, {2, 0, 3, 1}, {3, 1, 0, 2}} {
			require.Equal(t, want, nearest(pairs, from, ids), "from %d, of %v", from, ids)
		}
	})
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
