package sim

import (
	"fmt"
	"slices"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// Machine is a machine to simulate.
type Machine struct {
	Name  string
	About string // a description, with the source of its distances

	topology *numa.Topology
}

// shape is how a machine is put together, evenly.
type shape struct {
	name, about string
	distances   [][]int // between nodes
	l3s         int     // of a node
	cores       int     // under an L3
	threads     int     // of a core
}

// Distance tables, as the firmware of real machines has them.
var (
	oneNode = [][]int{{10}}

	// What the ACPI and Linux assume without a table.
	fourAlike = [][]int{{10, 20, 20, 20}, {20, 10, 20, 20}, {20, 20, 10, 20}, {20, 20, 20, 10}}

	// Two sockets of a Xeon E5-2695 v4, and most others with two sockets since.
	twoXeons = [][]int{{10, 21}, {21, 10}}

	// Four sockets, every two of them connected: Xeon E7-4870, Xeon Platinum 9242 (two
	// packages with two dies each).
	fourXeons = [][]int{{10, 21, 21, 21}, {21, 10, 21, 21}, {21, 21, 10, 21}, {21, 21, 21, 10}}

	// Two sockets of EPYC with four nodes each ("NPS4"), as numactl -H prints it on machines
	// with 96 and 256 CPUs.
	twoEPYCs = [][]int{
		{10, 12, 12, 12, 32, 32, 32, 32}, {12, 10, 12, 12, 32, 32, 32, 32},
		{12, 12, 10, 12, 32, 32, 32, 32}, {12, 12, 12, 10, 32, 32, 32, 32},
		{32, 32, 32, 32, 10, 12, 12, 12}, {32, 32, 32, 32, 12, 10, 12, 12},
		{32, 32, 32, 32, 12, 12, 10, 12}, {32, 32, 32, 32, 12, 12, 12, 10},
	}

	// Eight sockets with 18 cores each, two boards of four in rings: numactl -H in a
	// report of November 2018 on the mailing list linux-mm ("Memory hotplug softlock
	// issue").
	eightXeons = [][]int{
		{10, 21, 31, 21, 41, 41, 51, 51}, {21, 10, 21, 31, 41, 41, 51, 51},
		{31, 21, 10, 21, 51, 51, 41, 41}, {21, 31, 21, 10, 51, 51, 41, 41},
		{41, 41, 51, 51, 10, 21, 31, 21}, {41, 41, 51, 51, 21, 10, 21, 31},
		{51, 51, 41, 41, 31, 21, 10, 21}, {51, 51, 41, 41, 21, 31, 21, 10},
	}
)

var shapes = []shape{
	{"1n8c", "a small server: one node, two L3s of 4 cores", oneNode, 2, 4, 1},
	{"4n8c", "a guest with 4 nodes of 2 CPUs, the distances not told", fourAlike, 1, 2, 1},
	{"2n72c", "2 sockets of Xeon E5-2695 v4", twoXeons, 1, 18, 2},
	{"4n128c", "4 sockets of 16-core Xeons", fourXeons, 1, 16, 2},
	{"8n256c", "2 sockets of EPYC 7763 with 4 nodes each", twoEPYCs, 2, 8, 2},
	{"8n512c", "2 sockets of EPYC 9754 with 4 nodes each", twoEPYCs, 4, 8, 2},
	{"8s512c", "8 sockets of 32-core Xeons, the distances from 8 sockets of 18", eightXeons, 1, 32, 2},
	{"8s1024c", "8 sockets of 64-core Xeons, the distances from 8 sockets of 18", eightXeons, 1, 64, 2},
}

// Machines returns the machines that come with the simulation, the smallest first.
func Machines() []Machine {
	machines := make([]Machine, len(shapes))
	for i, s := range shapes {
		machines[i] = Machine{Name: s.name, About: s.about, topology: s.topology()}
	}
	return machines
}

// MachineOf returns a machine with a topology that was read from somewhere. It has workers
// on the CPUs that the topology allows.
func MachineOf(t *numa.Topology, about string) Machine {
	nodes := make(map[int]bool)
	for _, cpu := range t.Allowed {
		nodes[t.NodeOf(cpu)] = true
	}
	return Machine{Name: fmt.Sprintf("%dn%dc", len(nodes), len(t.Allowed)), About: about, topology: t}
}

// topology puts the machine together. CPUs are numbered as Linux does on x86: first one
// thread of each core, node after node, then the others.
func (s shape) topology() *numa.Topology {
	t := new(numa.Topology)
	cores := len(s.distances) * s.l3s * s.cores
	t.Cores, t.L3 = make([]numa.Set, cores), make([]numa.Set, cores/s.cores)
	for id := range cores * s.threads {
		core := id % cores
		l3 := core / s.cores
		node := l3 / s.l3s
		t.CPUs = append(t.CPUs, numa.CPU{
			ID: id, Node: node, Core: core, L3: l3, SMT: id / cores,
			Package: -1, Die: -1, Cluster: -1, L2: -1,
		})
		t.Cores[core] = append(t.Cores[core], id)
		t.L3[l3] = append(t.L3[l3], id)
		t.Online = append(t.Online, id)
	}
	t.Complete, t.Allowed = t.Online, t.Online
	for node, distances := range s.distances {
		n := numa.Node{ID: node, Distances: distances}
		for _, cpu := range t.CPUs {
			if cpu.Node == node {
				n.CPUs = append(n.CPUs, cpu.ID)
			}
		}
		t.Nodes = append(t.Nodes, n)
	}
	return t
}

// layout is a machine as the pool's workers see it, with one worker pinned to each CPU.
type layout struct {
	workers int
	nodes   int
	nodeOf  []int     // by worker
	firstOf []int     // by node: its first worker
	nearby  [][]int   // by node: all nodes, nearest first
	between []uint16  // distance between two workers' CPUs
	across  [][]int64 // by two nodes: how long a line takes
}

func (m Machine) layout() *layout {
	t := m.topology
	l := &layout{workers: len(t.Allowed)}
	var ids []int // of the nodes with workers, as indices into t.Nodes
	for _, cpu := range t.Allowed {
		ids = append(ids, max(0, t.NodeOf(cpu)))
	}
	l.nodeOf = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	l.nodes = len(ids)
	l.firstOf = make([]int, l.nodes)
	for w := l.workers - 1; w >= 0; w-- {
		l.nodeOf[w], _ = slices.BinarySearch(ids, l.nodeOf[w])
		l.firstOf[l.nodeOf[w]] = w
	}
	for from := range ids {
		order := make([]int, l.nodes)
		for i := range order {
			order[i] = (from + i) % l.nodes
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return t.Distance(ids[from], ids[a]) - t.Distance(ids[from], ids[b])
		})
		l.nearby = append(l.nearby, order)
		across := make([]int64, l.nodes)
		for to := range across {
			across[to] = sameNode
			if to != from {
				across[to] = line(t.Distance(ids[from], ids[to]))
			}
		}
		l.across = append(l.across, across)
	}
	l.between = make([]uint16, l.workers*l.workers)
	for a, x := range t.Allowed {
		for b, y := range t.Allowed {
			l.between[a*l.workers+b] = uint16(policy.Distance(t, x, y))
		}
	}
	return l
}

func (l *layout) distance(a, b int) int { return int(l.between[a*l.workers+b]) }

// seats has each worker at a placement of its own.
func (l *layout) seats() *policy.Seats {
	placements := make([]int, l.workers)
	for i := range placements {
		placements[i] = i
	}
	return policy.NewSeats(placements, l.nodeOf)
}

// order makes the order of victims, in tiers by distance or in a single tier.
func (l *layout) order(tiers bool) *policy.Order {
	distance := l.distance
	if !tiers {
		distance = func(thief, victim int) int { return policy.SameNode }
	}
	return policy.NewOrder(l.seats(), l.workers, distance, policy.SameNode)
}
