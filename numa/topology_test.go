package numa

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThisMachineIsUsable(t *testing.T) {
	got, err := Read()
	t.Log(err)
	t.Log(got)
	requireUsable(t, got)
}

func TestDistanceHasDefaults(t *testing.T) {
	topology := &Topology{Nodes: []Node{{Distances: []int{10, 32}}, {}}}
	for _, c := range []struct{ a, b, want int }{
		{0, 0, 10}, {0, 1, 32}, {1, 0, 20}, {1, 1, 10},
		{-1, 0, 20}, {0, -1, 20}, {-1, -1, 20}, {0, 2, 20}, {2, 2, 20},
	} {
		require.Equal(t, c.want, topology.Distance(c.a, c.b), c)
	}
}

func TestNodeOfUnknownCPUs(t *testing.T) {
	topology := oneNode(Set{2, 5})
	require.Equal(t, 0, topology.NodeOf(5))
	for _, cpu := range []int{-1, 0, 3, 6} {
		require.Equal(t, -1, topology.NodeOf(cpu), cpu)
	}
}

func TestStringNamesWhatIsNotAllowed(t *testing.T) {
	topology := oneNode(firstCPUs(4))
	topology.Allowed = Set{1, 2}
	require.Equal(t, "CPUs 0-3 (allowed 1-2): 1 node\nnode 0: CPUs 0-3\n", topology.String())
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if t, _ := Read(); len(t.CPUs) == 0 {
			b.Fatal("no CPUs")
		}
	}
}
