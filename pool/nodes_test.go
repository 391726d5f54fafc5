package pool

import (
	"os"
	"strconv"
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

// pretended returns a machine of several nodes, as far as a pool can tell: its threads run
// where the system likes. CPU i is on node i modulo nodes, whose number is ten times that,
// and the nodes are in a ring.
func pretended(nodes, cpusPerNode int) machine {
	t := &numa.Topology{}
	for node := range nodes {
		n := numa.Node{ID: 10 * node}
		for other := range nodes {
			apart := min((other-node+nodes)%nodes, (node-other+nodes)%nodes)
			n.Distances = append(n.Distances, 10+11*apart)
		}
		t.Nodes = append(t.Nodes, n)
	}
	for cpu := range nodes * cpusPerNode {
		n := &t.Nodes[cpu%nodes]
		n.CPUs = append(n.CPUs, cpu)
		t.CPUs = append(t.CPUs, numa.CPU{ID: cpu, Node: cpu % nodes, Package: cpu % nodes, Core: cpu, L3: -1})
		t.Cores = append(t.Cores, numa.Set{cpu})
		t.Online = append(t.Online, cpu)
	}
	t.Complete, t.Allowed = t.Online, t.Online
	return machine{
		allowed: func() ([]int, error) { return t.Allowed, nil },
		read:    func() (*numa.Topology, error) { return t, nil },
		pin:     func(...int) (*heist.Pinned, error) { return nil, nil },
	}
}

// With HEIST_NODES all tests pretend to run on a machine with as many nodes, of two CPUs
// each.
func init() {
	if nodes, err := strconv.Atoi(os.Getenv("HEIST_NODES")); err == nil {
		thisMachine = pretended(nodes, 2)
	}
}

// skipIfPretended is for tests of what only a real machine, or one node, can show.
func skipIfPretended(t *testing.T) {
	t.Helper()
	if os.Getenv("HEIST_NODES") != "" {
		t.Skip("the machine is a pretence")
	}
}
