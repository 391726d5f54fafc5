package pool

import (
	"fmt"
	"slices"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// # Placements and nodes
//
// A **placement** is where the thread of a place may run: on one CPU, under one cache, on one node, or anywhere. Where
// workers are not bound, a place is on the node where its holder ran when it last looked (rebind.go).
// The distances between placements make the tiers in which thieves visit the places (internal/policy): same core,
// same L3, same package or node, then the other nodes by their distance.
//
// Each node has its own injectors, for tasks from outside, and its own bitmap of sleeping places. A task goes to
// the node of its submitter, and the wake-up to a sleeping place there, if there is one. Guests are on a roster of the
// node on which they run.
//
// A pool whose workers are all on one node has one node, and pays nothing for all this. So has one with fewer workers than
// nodes, if they are not bound.

// node is the part of a pool on one memory node. All fields are constant.
type node struct {
	id      int      // the system's number
	nearby  []int    // all nodes of the pool, nearest first, as indices into Pool.nodes
	workers int      // how many of the first workers are here
	guests  []guests // the list itself is constant
	// guestsAt is the placement of its guests, as an index into Pool.placements.
	guestsAt int
	queues   [priorities]*heist.Injector[task]
}

// layout is where the places of a pool are. All fields are constant.
type layout struct {
	seats       *policy.Seats
	nodes       []node
	nodeOfCPU   []int // CPU -> node, nil if there is one node
	onCPU       []int // CPU -> the first place that is bound to this CPU alone, or -1; nil if no place is
	victimOrder *policy.Order
}

// layOut finds the nodes of the pool and the placements of its places.
func (p *Pool) layOut() (placements []core.Placement) {
	p.layOutNodes()
	placementOf := make([]int, p.maxWorkers)
	known := make(map[string]int) // key -> index into p.placements
	find := func(cpus []int, node, width int) int {
		key := fmt.Sprint(cpus, node, width)
		i, ok := known[key]
		if !ok {
			i = len(placements)
			known[key] = i
			placements = append(placements, core.Placement{CPUs: cpus, Bound: p.cpus != nil, Node: node, Width: width})
		}
		return i
	}
	for place := range placementOf {
		var i int
		if p.cpus != nil {
			cpus := p.bindings[place%len(p.bindings)]
			i = find(cpus, p.nodeOf(cpus[0]), p.pinning.width())
		} else {
			node := 0
			if p.roams() {
				node = p.nodeOf(p.spots[place%len(p.spots)])
			}
			i = find(p.cpusOn(node), node, policy.SameNode) // as for the guests there
		}
		placementOf[place] = i
		s := &placements[i]
		s.Places++
		if place < p.first {
			p.nodes[s.Node].workers++
			p.bindTo(s, place)
		}
	}
	for i := range p.nodes {
		p.nodes[i].guests = make([]guests, guestRosters)
		p.nodes[i].guestsAt = find(p.cpusOn(i), i, policy.SameNode)
	}
	nodeOf := make([]int, len(placements))
	for i := range placements {
		nodeOf[i] = placements[i].Node
		if p.roams() {
			placements[i].Places = p.maxWorkers // all of them may gather on one node
		}
	}
	p.seats = policy.NewSeats(placementOf, nodeOf)
	return placements
}

// placementOn returns the placement of what is not bound and runs on the node.
func (p *Pool) placementOn(node int) int { return p.nodes[node].guestsAt }

// roams says whether workers are not bound, and may run on several nodes.
func (p *Pool) roams() bool { return p.cpus == nil && len(p.nodes) > 1 }

// bindTo notes the first worker that is bound to one CPU alone.
func (p *Pool) bindTo(s *core.Placement, place int) {
	if !s.Bound || len(s.CPUs) != 1 {
		return
	}
	for s.CPUs[0] >= len(p.onCPU) {
		p.onCPU = append(p.onCPU, -1)
	}
	if p.onCPU[s.CPUs[0]] < 0 {
		p.onCPU[s.CPUs[0]] = place
	}
}

// layOutNodes makes a node for each of the machine's nodes on which workers may run.
func (p *Pool) layOutNodes() {
	var ids []int // as indices into Topology.Nodes
	if t := p.topology; t != nil {
		spots := p.spots
		if p.cpus != nil {
			spots = spots[:min(len(spots), p.maxWorkers)]
		}
		for _, cpu := range spots {
			ids = append(ids, max(t.NodeOf(cpu), 0))
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	fewer := p.cpus == nil && p.first < len(ids) // so that no worker would be on some nodes, whose tasks would wait for a look from afar
	if len(ids) < 2 || fewer {
		p.nodes = []node{{nearby: []int{0}}}
		if len(ids) == 1 {
			p.nodes[0].id = p.topology.Nodes[ids[0]].ID
		}
	} else {
		for _, id := range ids {
			p.nodes = append(p.nodes, node{id: p.topology.Nodes[id].ID, nearby: policy.Nearest(p.topology, id, ids)})
		}
		for _, cpu := range p.topology.CPUs {
			for cpu.ID >= len(p.nodeOfCPU) {
				p.nodeOfCPU = append(p.nodeOfCPU, 0)
			}
			p.nodeOfCPU[cpu.ID] = policy.Nearest(p.topology, max(cpu.Node, 0), ids)[0]
		}
	}
	for i := range p.nodes {
		for q := range p.nodes[i].queues {
			p.nodes[i].queues[q] = heist.NewInjector[task]()
		}
	}
}

// cpusOn returns the pool's CPUs on a node, ascending.
func (p *Pool) cpusOn(node int) (cpus []int) {
	for _, cpu := range p.spots {
		if p.nodeOf(cpu) == node {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return cpus
}

// nodeOf returns the node of a CPU, or the nearest one to it; 0 if it is unknown.
func (p *Pool) nodeOf(cpu int) int {
	if uint(cpu) < uint(len(p.nodeOfCPU)) {
		return p.nodeOfCPU[cpu]
	}
	return 0
}

// here returns the node on which the caller runs.
func (p *Pool) here() int {
	if len(p.nodes) == 1 {
		return 0
	}
	return p.nodeOf(numa.CurrentCPU())
}

// nearby returns all nodes for each node, nearest first.
func (p *Pool) nearby() (nearby [][]int) {
	for i := range p.nodes {
		nearby = append(nearby, p.nodes[i].nearby)
	}
	return nearby
}

// newOrder makes the order in which thieves go through the places.
func (p *Pool) newOrder(placements []core.Placement) *policy.Order {
	return policy.NewOrder(p.seats, len(placements), func(thief, victim int) int {
		a, b := &placements[thief], &placements[victim]
		if p.topology == nil || thief == victim && !a.Bound || len(a.CPUs) == 0 || len(b.CPUs) == 0 {
			return policy.SameNode
		}
		return p.latencies.between(p.topology, a, b)
	}, p.latencies.near(p.topology, p.spots))
}

// Nodes returns the system's numbers of the memory nodes on which the pool has workers or, if they are not bound, may have
// them. A pool with fewer workers than nodes, none of them bound, counts as on one node, with the number 0.
func (p *Pool) Nodes() []int {
	p.mustBeMade()
	ids := make([]int, len(p.nodes))
	for i, n := range p.nodes {
		ids[i] = n.id
	}
	return ids
}
