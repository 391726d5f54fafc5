// Package drawing draws a machine as boxes within boxes, as hwloc's lstopo does: for bench
// topo, and for the page of pool/poolhttp.
//
//	tree.go    which group of CPUs is inside which
//	layout.go  where each box goes
//	svg.go     the picture
package drawing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed53057037/heist/numa"
)

// Kind is what a box stands for.
type Kind int

// The kinds, in the order in which boxes of the same CPUs contain one another, the
// outermost first. Larger groups are always around smaller ones: a node around its
// packages, an L3 around the nodes that share it.
const (
	Machine Kind = iota
	Package
	Node
	Die
	L3
	Cluster
	L2
	Core
	CPU
	Offline // the CPUs that are present, but not online
)

// String returns the kind as it is written in labels.
func (k Kind) String() string {
	return [...]string{"machine", "package", "node", "die", "L3", "cluster", "L2", "core", "CPU", "offline"}[k]
}

// Box is a group of CPUs, or a single CPU, and the boxes inside it.
type Box struct {
	Kind   Kind
	Number int      // the system's number of a node or CPU, otherwise the index in the topology
	CPUs   numa.Set // the online ones
	Memory int64    // of a node, in bytes; 0 if it has none or it is unknown
	Mark   Mark     // of a CPU
	Inside []*Box   // by their lowest CPU, then those without CPUs
}

// Mark says what is special about a CPU.
type Mark int

// The marks.
const (
	Usable     Mark = iota // nothing special
	NotAllowed             // it is online, but not for this process
	IsOffline
)

// Tree is a machine, as boxes.
type Tree struct {
	Root *Box

	// Notes says what the boxes can't show, a sentence each.
	Notes []string

	// Topology is what the tree shows.
	Topology *numa.Topology
}

// New arranges a topology as a tree. Each online CPU is in it once, as a box of its own in
// the smallest group that has it. Each CPU that is present but not online is in it once, in
// a box that stands apart. A group that shares some of its CPUs with another, while neither
// holds the other, fits nowhere: it is left out, and a note says so.
func New(t *numa.Topology) *Tree {
	tree := &Tree{Root: &Box{Kind: Machine, CPUs: t.Online}, Topology: t}
	for _, group := range groups(t) {
		if crossed := tree.Root.place(group); crossed != nil {
			tree.Notes = append(tree.Notes, fmt.Sprintf("%s, CPUs %v, is not drawn: it crosses %s, CPUs %v.",
				group.Label(), group.CPUs, crossed.Label(), crossed.CPUs))
		}
	}
	tree.Root.sort()
	if note := capacities(t); note != "" {
		tree.Notes = append(tree.Notes, note)
	}

	for _, node := range t.Nodes {
		tree.Root.Memory += node.MemoryBytes
		if len(node.CPUs) == 0 {
			tree.Root.add(&Box{Kind: Node, Number: node.ID, Memory: node.MemoryBytes})
		}
	}
	var offline []*Box
	for _, cpu := range t.Complete {
		if !t.Online.Contains(cpu) {
			offline = append(offline, &Box{Kind: CPU, Number: cpu, Mark: IsOffline})
		}
	}
	if len(offline) > 0 {
		tree.Root.add(&Box{Kind: Offline, Inside: offline})
	}
	return tree
}

// groups returns a box for each group that has CPUs, and for each online CPU, in an order
// in which none belongs inside a later one.
func groups(t *numa.Topology) []*Box {
	var all []*Box
	seen := make(map[string]bool)
	add := func(b *Box) {
		if cpus := b.CPUs.String(); cpus != "" {
			seen[cpus] = true
			all = append(all, b)
		}
	}
	each := func(kind Kind, sets []numa.Set, wanted func(numa.Set) bool) {
		for i, set := range sets {
			if wanted(set) {
				add(&Box{Kind: kind, Number: i, CPUs: set})
			}
		}
	}
	always := func(numa.Set) bool { return true }
	isNew := func(set numa.Set) bool { return !seen[set.String()] }
	each(Package, t.Packages, always)
	for _, node := range t.Nodes {
		add(&Box{Kind: Node, Number: node.ID, CPUs: node.CPUs, Memory: node.MemoryBytes})
	}
	each(L3, t.L3, always)
	each(Core, t.Cores, always)
	each(Die, t.Dies, isNew)
	each(Cluster, t.Clusters, isNew)
	each(L2, t.L2, isNew)
	for _, cpu := range t.Online {
		box := &Box{Kind: CPU, Number: cpu, CPUs: numa.Set{cpu}}
		if !t.Allowed.Contains(cpu) {
			box.Mark = NotAllowed
		}
		add(box)
	}
	slices.SortStableFunc(all, func(a, b *Box) int {
		return cmp.Or(-cmp.Compare(len(a.CPUs), len(b.CPUs)), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// place puts a group, no larger than those placed before, into the smallest box that holds
// all of it. It returns the box that the group crosses, if there is one.
func (b *Box) place(group *Box) (crossed *Box) {
	for _, inner := range b.Inside {
		switch common := common(group.CPUs, inner.CPUs); common {
		case 0:
		case len(group.CPUs):
			return inner.place(group)
		default:
			return inner
		}
	}
	b.add(group)
	return nil
}

func (b *Box) add(inner *Box) { b.Inside = append(b.Inside, inner) }

func (b *Box) sort() {
	slices.SortStableFunc(b.Inside, func(x, y *Box) int { return cmp.Compare(x.CPUs[0], y.CPUs[0]) })
	for _, inner := range b.Inside {
		inner.sort()
	}
}

// Label names the box, with its memory.
func (b *Box) Label() string {
	label := b.Kind.String()
	switch b.Kind {
	case Machine:
		label = fmt.Sprintf("machine, %d CPUs", len(b.CPUs))
	case Offline:
	default:
		label = fmt.Sprintf("%s %d", label, b.Number)
	}
	if b.Memory > 0 {
		label += fmt.Sprintf(", %.1f GiB", float64(b.Memory)/(1<<30))
	}
	return label
}

// capacities returns a note that lists the CPUs of each capacity, if capacities differ; see
// [numa.CPU].
func capacities(t *numa.Topology) string {
	with := make(map[int]numa.Set)
	for _, cpu := range t.CPUs {
		with[cpu.Capacity] = append(with[cpu.Capacity], cpu.ID)
	}
	if len(with) < 2 {
		return ""
	}
	var parts []string
	for _, capacity := range slices.Backward(slices.Sorted(maps.Keys(with))) {
		parts = append(parts, fmt.Sprintf("%d (CPUs %v)", capacity, with[capacity]))
	}
	return "Capacity: " + strings.Join(parts, ", ") + "."
}

// common returns how many CPUs of a are in b.
func common(a, b numa.Set) int {
	n := 0
	for _, cpu := range a {
		if b.Contains(cpu) {
			n++
		}
	}
	return n
}
