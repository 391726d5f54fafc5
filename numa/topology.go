// Package numa describes the machine: its memory nodes and the distances
// between them, its packages, cores and last-level caches, and the CPUs that
// the process may use.
//
// [Read] looks at this machine, [ReadRoot] at any copy of a machine's /sys and
// /proc. Both read files alone, without cgo or a library, and both always
// return a topology that can be used: what is missing or broken is replaced by
// something simpler, in the end by a single node that holds every CPU, and the
// error says what was replaced.
//
// The sources are the folders cpu and node of /sys/devices/system. A machine
// without nodes has its memory from /proc/meminfo. Systems other than Linux are
// one node.
package numa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Topology is a snapshot of a machine. Nothing changes it after it was read,
// so any number of goroutines may use it as long as none of them writes to it.
//
// The groups of one kind never overlap: a CPU is in one node, package, core
// and L3 at most.
type Topology struct {
	// Nodes are the memory nodes, by ascending ID. There is always one at
	// least.
	Nodes []Node

	// CPUs are the online CPUs, by ascending ID.
	CPUs []CPU

	// Packages, Cores and L3 are the online CPUs of each package (socket),
	// of each core (its hardware threads) and under each level 3 cache, in
	// the order of their lowest CPU. They are empty where the system does
	// not tell. The kernel calls the two halves of an AMD Bulldozer module
	// threads of a core.
	Packages, Cores, L3 []Set

	// Complete is every CPU that is present in the machine, online or not.
	Complete Set

	// Online is the CPUs that the system runs threads on.
	Online Set

	// Allowed is the online CPUs that the process may run on, by its
	// affinity mask or, in a dump, its cpuset. It is never empty.
	Allowed Set
}

// Node is a memory node: memory, and the CPUs that are closest to it.
type Node struct {
	// ID is the system's number of the node. Numbers may have gaps, so it is
	// not an index into Topology.Nodes.
	ID int

	// CPUs is the node's online CPUs. A node that only has memory has none.
	CPUs Set

	// MemoryBytes is the MemTotal of the node's meminfo, in bytes: its memory
	// less what the kernel reserved at boot; 0 if the node has none or it is
	// unknown.
	MemoryBytes int64

	// Distances holds the distance from this node to each of Topology.Nodes,
	// in the same order and in the units of Topology.Distance; nil if
	// unknown.
	Distances []int
}

// CPU is a logical CPU: a hardware thread, what the system schedules on.
type CPU struct {
	// ID is the system's number of the CPU.
	ID int

	// Node, Package, Core and L3 say where the CPU belongs: they are indices
	// into the Topology's Nodes, Packages, Cores and L3, or -1 where that is
	// unknown.
	Node, Package, Core, L3 int
}

// Distances of the ACPI's SLIT table, which gives a node's own memory 10 and
// takes any other node to be twice as far unless told better.
const (
	localDistance  = 10
	remoteDistance = 20
)

// NodeOf returns the node of a CPU, as an index into t.Nodes, or -1 if the CPU
// is not online or its node is unknown. It is a binary search over t.CPUs.
func (t *Topology) NodeOf(cpu int) int {
	if c := t.cpu(cpu); c != nil {
		return c.Node
	}
	return -1
}

// Distance returns how far node b's memory is from node a's CPUs, both given
// as indices into t.Nodes. The units are those of the ACPI's SLIT table: 10 is
// a node's own memory, 20 costs about twice as much. Where the system does not
// tell, it is 10 from a node to itself and 20 otherwise, and 20 too if a or b
// is no node, such as the -1 of NodeOf. It takes constant time.
func (t *Topology) Distance(a, b int) int {
	if a < 0 || b < 0 || a >= len(t.Nodes) || b >= len(t.Nodes) {
		return remoteDistance
	}
	if d := t.Nodes[a].Distances; b < len(d) {
		return d[b]
	}
	if a == b {
		return localDistance
	}
	return remoteDistance
}

// String returns a short listing for people to read: a line for the machine
// and one for each node. Its form may change.
func (t *Topology) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPUs %v", t.Online)
	if offline := t.Complete.minus(t.Online); offline.Len() > 0 {
		fmt.Fprintf(&b, " (offline %v)", offline)
	}
	if t.Allowed.Len() < t.Online.Len() {
		fmt.Fprintf(&b, " (allowed %v)", t.Allowed)
	}
	fmt.Fprintf(&b, ": %s", count(len(t.Nodes), "node"))
	for _, group := range []struct {
		sets []Set
		noun string
	}{{t.Packages, "package"}, {t.L3, "L3 cache"}, {t.Cores, "core"}} {
		if len(group.sets) > 0 {
			fmt.Fprintf(&b, ", %s", count(len(group.sets), group.noun))
		}
	}
	b.WriteByte('\n')
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "node %d: ", n.ID)
		if n.CPUs.Len() > 0 {
			fmt.Fprintf(&b, "CPUs %v", n.CPUs)
		} else {
			b.WriteString("no CPUs")
		}
		if n.MemoryBytes > 0 {
			fmt.Fprintf(&b, ", %.1f GiB", float64(n.MemoryBytes)/(1<<30))
		}
		if len(n.Distances) > 0 {
			fmt.Fprintf(&b, ", distances %s", strings.Trim(fmt.Sprint(n.Distances), "[]"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// cpu returns the CPU with an ID, nil if it is not online.
func (t *Topology) cpu(id int) *CPU {
	i, found := slices.BinarySearchFunc(t.CPUs, id, func(c CPU, id int) int { return cmp.Compare(c.ID, id) })
	if !found {
		return nil
	}
	return &t.CPUs[i]
}
