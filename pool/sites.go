package pool

import (
	"fmt"
	"slices"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// # Sites and nodes
//
// A site is where the thread of a slot may run: on one CPU, under one cache, on one node,
// or anywhere. How far apart the sites are makes the tiers in which thieves go through the
// slots (internal/policy): same core, same L3, same package or node, then the other nodes by
// their distance.
//
// What comes from outside and who sleeps is kept by node: each has its injectors and its
// bitmap of sleepers. A task goes to the node of its submitter, and the wake-up to a
// sleeper there, if there is one. Guests take a slot of the node that they run on.
//
// A pool whose workers are all on one node, or not bound, has one node, and nothing of
// this costs it anything.

// site is where the thread of a slot may run.
type site struct {
	cpus  []int // ascending; nil for any
	node  int   // index into Pool.nodes
	width int   // the distance within the site
}

// node is a part of a pool. All of it is constant.
type node struct {
	id      int   // the system's number
	nearby  []int // all nodes of the pool, nearest first, as indices into Pool.nodes
	workers int   // how many of the first workers are here
	queues  [priorities]*heist.Injector[task]
}

// layOut finds the nodes of the pool and the sites of its slots.
func (p *Pool) layOut() {
	p.layOutNodes()
	p.siteOf = make([]int, p.idOf(p.maxWorkers+p.spares))
	known := make(map[string]int) // the sites that there are
	put := func(slot int, s site) {
		key := fmt.Sprint(s)
		i, ok := known[key]
		if !ok {
			i = len(p.sites)
			known[key] = i
			p.sites = append(p.sites, s)
		}
		p.siteOf[slot] = i
	}
	for rank := range p.maxWorkers + p.spares {
		s := p.siteOn(rank % len(p.nodes)) // of a spare, which may be anywhere
		if cpus := p.cpusOf(rank); cpus != nil && rank < p.maxWorkers {
			s = site{cpus: cpus, width: p.pinning.width(), node: p.nodeOf(cpus[0])}
		}
		put(p.idOf(rank), s)
		if rank < p.first {
			p.nodes[s.node].workers++
			p.bindTo(s, rank)
		}
	}
	for i := range p.nGuests {
		put(p.first+i, p.siteOn(i%len(p.nodes)))
	}
	if p.crew.doormen > 0 {
		put(p.first+p.nGuests, p.siteOn(0))
	}
}

// bindTo notes which worker has a CPU to itself.
func (p *Pool) bindTo(s site, rank int) {
	if len(s.cpus) != 1 {
		return
	}
	for s.cpus[0] >= len(p.onCPU) {
		p.onCPU = append(p.onCPU, -1)
	}
	if p.onCPU[s.cpus[0]] < 0 {
		p.onCPU[s.cpus[0]] = rank
	}
}

// layOutNodes makes a node of each of the machine's nodes on which there is a worker.
func (p *Pool) layOutNodes() {
	var ids []int // as indices into Topology.Nodes
	if t := p.topology; t != nil {
		for _, cpu := range p.cpus[:min(len(p.cpus), p.maxWorkers)] {
			ids = append(ids, max(t.NodeOf(cpu), 0))
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	if len(ids) < 2 {
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

// siteOn returns the site of whoever may be anywhere on a node.
func (p *Pool) siteOn(node int) site {
	s := site{node: node, width: policy.SameNode}
	for _, cpu := range p.cpus {
		if p.nodeOf(cpu) == node {
			s.cpus = append(s.cpus, cpu)
		}
	}
	slices.Sort(s.cpus)
	return s
}

// nodeOf returns the node of a CPU, or the one that is nearest to it; 0 if that is unknown.
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

// nodesOfSlots returns each slot's node.
func (p *Pool) nodesOfSlots() []int {
	nodes := make([]int, len(p.siteOf))
	for slot, site := range p.siteOf {
		nodes[slot] = p.sites[site].node
	}
	return nodes
}

// newOrder makes the order in which thieves go through the slots.
func (p *Pool) newOrder() *policy.Order {
	return policy.NewOrder(p.siteOf, len(p.sites), func(thief, victim int) int {
		a, b := p.sites[thief], p.sites[victim]
		if p.topology == nil || len(a.cpus) == 0 || len(b.cpus) == 0 {
			return policy.SameNode
		}
		return p.distances.between(p.topology, a, b)
	}, p.distances.near(p.topology, p.cpus))
}

// Nodes returns the numbers, as the system has them, of the memory nodes on which the pool
// has workers. A pool whose workers are not bound has one node, with the number 0 perhaps.
func (p *Pool) Nodes() []int {
	ids := make([]int, len(p.nodes))
	for i, n := range p.nodes {
		ids[i] = n.id
	}
	return ids
}
