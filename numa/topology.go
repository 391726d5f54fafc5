// Package numa describes the machine: its memory nodes and the distances
// between them, its packages, dies, clusters and cores, the caches that CPUs
// share, how much the CPUs can do, and which of them the process may use.
//
// [Read] looks at this machine, [ReadRoot] at any copy of a machine's /sys and
// /proc. Both read only files, without cgo or a library, and both always return a
// usable topology: missing or broken parts are replaced by something simpler, in
// the end by a single node that holds every CPU, and the error says what was
// replaced.
//
// The sources are the folders cpu and node of /sys/devices/system. A machine
// without nodes has its memory from /proc/meminfo. On systems other than Linux
// the topology is one node.
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
// The groups of one kind never overlap: a CPU is in one node, package, die,
// cluster, core, L2 and L3 at most. As JSON, a topology has the form that
// [Topology.MarshalJSON] describes.
type Topology struct {
	// Nodes are the memory nodes, by ascending ID. There is at least one.
	Nodes []Node

	// CPUs are the online CPUs, by ascending ID.
	CPUs []CPU

	// Packages, Dies, Clusters and Cores are the online CPUs of each package
	// (socket), of each die, of each cluster and of each core (its hardware
	// threads), in the order of their lowest CPU. They are empty where the system
	// does not say.
	//
	// A cluster is what Linux calls one: cores that share something below the
	// last-level cache, on x86 their L2. So a cluster may be a single core, or
	// all cores under an L3. The kernel calls the two halves of an AMD Bulldozer
	// module threads of a core.
	Packages, Dies, Clusters, Cores []Set

	// L2 and L3 are the online CPUs under each level 2 and level 3 cache, ordered
	// like the other groups and empty where the system does not say. Instruction
	// caches do not count.
	L2, L3 []Set

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

	// Node, Package, Die, Cluster, Core, L2 and L3 say where the CPU belongs:
	// they are indices into the Topology's Nodes, Packages and so on, or -1
	// where that is unknown.
	Node, Package, Die, Cluster, Core, L2, L3 int

	// SMT is the CPU's rank among the online hardware threads of its core: 0 for
	// the thread with the lowest ID. It is always 0 without simultaneous
	// multithreading, and if the core is unknown.
	SMT int

	// Capacity is how much the CPU gets done at its highest frequency, in 1024ths
	// of what the machine's biggest core does; 0 if unknown. It is the kernel's
	// cpu_capacity. On x86 machines with two types of cores whose cpu_capacity
	// does not tell the CPUs apart, it is made as the kernel makes it, from the
	// highest_perf of the ACPI's CPPC. A CPU whose core runs another thread gets
	// less done than that.
	Capacity int
}

// A kind is a kind of group. It says where a topology keeps the groups, and where
// a CPU keeps its index into them. name is the groups' name in JSON.
type kind struct {
	name   string
	groups func(*Topology) *[]Set
	index  func(*CPU) *int
}

var (
	packages = kind{"packages", func(t *Topology) *[]Set { return &t.Packages }, func(c *CPU) *int { return &c.Package }}
	dies     = kind{"dies", func(t *Topology) *[]Set { return &t.Dies }, func(c *CPU) *int { return &c.Die }}
	clusters = kind{"clusters", func(t *Topology) *[]Set { return &t.Clusters }, func(c *CPU) *int { return &c.Cluster }}
	cores    = kind{"cores", func(t *Topology) *[]Set { return &t.Cores }, func(c *CPU) *int { return &c.Core }}
	l2       = kind{"l2", func(t *Topology) *[]Set { return &t.L2 }, func(c *CPU) *int { return &c.L2 }}
	l3       = kind{"l3", func(t *Topology) *[]Set { return &t.L3 }, func(c *CPU) *int { return &c.L3 }}

	kinds = []kind{packages, dies, clusters, cores, l2, l3}
)

// Distances of the ACPI's SLIT table, which gives a node's own memory 10 and any
// other node twice as much unless it knows better.
const (
	localDistance  = 10
	remoteDistance = 20
	maxDistance    = 1<<16 - 1 // the table's own are bytes
)

// NodeOf returns the node of a CPU, as an index into t.Nodes, or -1 if the CPU
// is not online or its node is unknown. It is a binary search over t.CPUs.
func (t *Topology) NodeOf(cpu int) int {
	if c := t.cpu(cpu); c != nil {
		return c.Node
	}
	return -1
}

// Distance returns how far node b's memory is from node a's CPUs, both given as
// indices into t.Nodes. The units are those of the ACPI's SLIT table: 10 is a
// node's own memory, 20 costs about twice as much. If the system does not say,
// the distance is 10 from a node to itself and 20 otherwise. It is 20 too if a or
// b is no node, such as the -1 of NodeOf. Distance takes constant time.
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
// and one for each node. Dies, clusters and L2 caches are left out if they are
// the same CPUs as another kind of group that is listed. Little CPUs have
// noticeably less capacity than the biggest. The form may change.
func (t *Topology) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPUs %v", t.Online)
	if offline := t.Complete.minus(t.Online); offline.Len() > 0 {
		fmt.Fprintf(&b, " (offline %v)", offline)
	}
	if t.Allowed.Len() < t.Online.Len() {
		fmt.Fprintf(&b, " (allowed %v)", t.Allowed)
	}
	if little := t.little(); little.Len() > 0 {
		fmt.Fprintf(&b, " (little %v)", little)
	}
	fmt.Fprintf(&b, ": %s", count(len(t.Nodes), "node"))
	for _, group := range []struct {
		sets []Set
		noun string
		told [][]Set // groups that may be of the same CPUs
	}{
		{t.Packages, "package", nil},
		{t.Dies, "die", [][]Set{t.Packages}},
		{t.L3, "L3 cache", nil},
		{t.Clusters, "cluster", [][]Set{t.Packages, t.Dies, t.L3, t.Cores}},
		{t.L2, "L2 cache", [][]Set{t.Packages, t.Dies, t.L3, t.Clusters, t.Cores}},
		{t.Cores, "core", nil},
	} {
		same := func(other []Set) bool { return slices.EqualFunc(group.sets, other, slices.Equal[Set]) }
		if len(group.sets) > 0 && !slices.ContainsFunc(group.told, same) {
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

// little returns the CPUs of little cores: the capacity of the biggest core
// exceeds theirs by more than 5%, which the kernel calls noticeably greater
// (capacity_greater in its kernel/sched/fair.c). A big core may be a little
// faster than the next.
func (t *Topology) little() Set {
	biggest := 0
	for _, cpu := range t.CPUs {
		biggest = max(biggest, cpu.Capacity)
	}
	var little Set
	for _, cpu := range t.CPUs {
		if cpu.Capacity > 0 && biggest*1024 > cpu.Capacity*1078 {
			little = append(little, cpu.ID)
		}
	}
	return little
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// cpu returns the CPU with an ID, or nil if it is not online.
func (t *Topology) cpu(id int) *CPU {
	i, found := slices.BinarySearchFunc(t.CPUs, id, func(c CPU, id int) int { return cmp.Compare(c.ID, id) })
	if !found {
		return nil
	}
	return &t.CPUs[i]
}

// place makes groups those of kind k, and gives their CPUs the indices.
func (t *Topology) place(k kind, groups []Set) {
	*k.groups(t) = groups
	for i, group := range groups {
		for _, cpu := range group {
			*k.index(t.cpu(cpu)) = i
		}
	}
}

// placeNodes makes nodes those of the topology, gives their CPUs the indices, and
// returns the CPUs that are in no node.
func (t *Topology) placeNodes(nodes []Node) (homeless Set) {
	t.Nodes = nodes
	for i := range t.CPUs {
		t.CPUs[i].Node = -1
	}
	for i, n := range nodes {
		for _, cpu := range n.CPUs {
			t.cpu(cpu).Node = i
		}
	}
	for _, cpu := range t.CPUs {
		if cpu.Node < 0 {
			homeless = append(homeless, cpu.ID)
		}
	}
	return homeless
}

// rankThreads fills in the rank of each hardware thread within its core.
func (t *Topology) rankThreads() {
	for _, core := range t.Cores {
		for rank, cpu := range core {
			t.cpu(cpu).SMT = rank
		}
	}
}
