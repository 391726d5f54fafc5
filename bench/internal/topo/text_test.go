package topo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/drawing"
	"github.com/seed53057037/heist/numa"
)

const fixtures = "../../../numa/testdata"

// written returns the text of a machine.
func written(t *testing.T, m *numa.Topology) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, Text(&b, drawing.New(m)))
	return b.String()
}

func TestEveryFixtureIsWritten(t *testing.T) {
	machines, err := filepath.Glob(fixtures + "/*")
	require.NoError(t, err)
	require.NotEmpty(t, machines)
	for _, machine := range machines {
		topology, _ := numa.ReadRoot(machine) // can be used, whatever is wrong with it
		require.Contains(t, written(t, topology), "Numbers are CPUs", machine)
	}
}

// made returns a machine with CPUs 0 to n-1 and nothing else.
func made(n int) *numa.Topology {
	topology := &numa.Topology{}
	for cpu := range n {
		topology.Online = append(topology.Online, cpu)
		topology.CPUs = append(topology.CPUs, numa.CPU{ID: cpu, Node: -1, Package: -1, Die: -1, Cluster: -1, Core: -1, L2: -1, L3: -1})
	}
	topology.Complete, topology.Allowed = topology.Online, topology.Online
	topology.Nodes = []numa.Node{{CPUs: topology.Online}}
	return topology
}

func TestNotesAreBelowTheTree(t *testing.T) {
	m := made(4)
	m.Packages = []numa.Set{{0, 1}, {2, 3}}
	m.Nodes = []numa.Node{{ID: 0, CPUs: numa.Set{0}}, {ID: 7, CPUs: numa.Set{1, 2}}, {ID: 8, CPUs: numa.Set{3}}}
	assert.Contains(t, written(t, m), drawing.New(m).Notes[0])
}

func TestOfflineAndForbiddenCPUsAreMarked(t *testing.T) {
	m := made(3)
	m.Complete, m.Allowed = numa.Set{0, 1, 2, 3, 4}, numa.Set{0, 1}
	m.Cores = []numa.Set{{0, 2}}
	m.CPUs[2].Core = 0
	text := written(t, m)
	assert.Contains(t, text, "node 0: [0 (2)] 1\n")
	assert.Contains(t, text, "offline: 3 4\n")
	assert.Contains(t, text, "in parentheses are not for this process")
}

func TestUnknownDistancesAreNotMadeUp(t *testing.T) {
	m := made(2)
	m.Nodes = []numa.Node{{ID: 0, CPUs: numa.Set{0}}, {ID: 5, CPUs: numa.Set{1}}}
	text := func() string { return written(t, m) }
	assert.NotContains(t, text(), "Distances")
	m.Nodes[0].Distances = []int{10, 31}
	assert.Regexp(t, `0 +10 +31`, text())
	assert.Regexp(t, `5 +\? +\?`, text())
}

func TestLongLinesBreakBetweenCores(t *testing.T) {
	m := made(128)
	for cpu := range 64 {
		m.Cores = append(m.Cores, numa.Set{cpu, cpu + 64})
	}
	m.Allowed = numa.Set{0, 1, 70}
	text := written(t, m)
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, len([]rune(line)), lineWidth+len("         ")+1)
		assert.Equal(t, strings.Count(line, "["), strings.Count(line, "]"), line)
	}
}

func Example() {
	server, err := numa.ReadRoot(fixtures + "/2n4c")
	if err != nil {
		fmt.Println(err)
	}
	if err := Text(os.Stdout, drawing.New(server)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ── CPUs 0-7: 2 nodes, 2 packages, 2 L3 caches, 4 cores
	//    ├─ package 0 > node 0, 16.0 GiB > L3 0: [0 4] [1 5]
	//    └─ package 1 > node 1, 16.0 GiB > L3 1: [2 6] [3 7]
	// Numbers are CPUs; those in brackets share a core.
	//
	// Distances from the CPUs of the row's node to the memory of the column's (10 is a node's own):
	//  node   0   1
	// ──────────────
	//     0  10  21
	//     1  21  10
}
