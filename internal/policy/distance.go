package policy

import (
	"cmp"
	"slices"

	"github.com/seed53057037/heist/numa"
)

// Distances between CPUs. Between nodes they are the system's own, limited to 3 to 254, in
// the units of [numa.Topology.Distance].
const (
	SameCore = iota
	SameCache
	SameNode  // or package, or unknown
	Elsewhere = 255
)

// Distance returns how far apart two CPUs are. An L3 cache that spans nodes counts only
// within a node.
func Distance(t *numa.Topology, a, b int) int {
	if a == b {
		return SameCore
	}
	x, y := CPU(t, a), CPU(t, b)
	switch {
	case x == nil || y == nil:
		return SameNode
	case x.Node != y.Node:
		return min(max(t.Distance(x.Node, y.Node), SameNode+1), Elsewhere-1)
	case x.Core == y.Core && x.Core >= 0:
		return SameCore
	case x.L3 == y.L3 && x.L3 >= 0:
		return SameCache
	}
	return SameNode
}

// Nearest returns the indices of ids, which are indices into t.Nodes, by the distance of
// these nodes from the node from. Of equally distant nodes, those whose numbers follow from
// come first, so that not all nodes turn to the same one.
func Nearest(t *numa.Topology, from int, ids []int) []int {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	after := func(i int) int { return (ids[i] - from + len(t.Nodes)) % len(t.Nodes) }
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(t.Distance(from, ids[a])-t.Distance(from, ids[b]), after(a)-after(b))
	})
	return order
}

// CPU returns the CPU with a number, or nil if it is not online.
func CPU(t *numa.Topology, id int) *numa.CPU {
	i, found := slices.BinarySearchFunc(t.CPUs, id, func(c numa.CPU, id int) int { return cmp.Compare(c.ID, id) })
	if !found {
		return nil
	}
	return &t.CPUs[i]
}
