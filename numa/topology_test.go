package numa

import (
	"fmt"
	"strings"
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

func TestStringLeavesOutWhatIsTheSame(t *testing.T) {
	firstLine := func(f files) string {
		line, _, _ := strings.Cut(readSound(t, f).String(), "\n")
		return line
	}
	require.Equal(t, "CPUs 0-7: 2 nodes, 2 packages, 2 L3 caches, 4 cores", firstLine(smt()))
	require.Equal(t, "CPUs 0-7: 2 nodes, 2 packages, 4 dies, 2 L3 caches, 4 cores", firstLine(chiplets()))
	require.Equal(t, "CPUs 0-7: 2 nodes, 2 packages, 2 L3 caches, 4 cores", firstLine(smt().
		with(forEach(8, "topology/die_cpus_list", func(cpu int) any { return []string{"0-1,4-5", "2-3,6-7"}[cpu%4/2] }))))
	require.Equal(t, "CPUs 0-5 (little 0-3): 1 node, 1 package, 2 clusters, 3 L2 caches, 6 cores", firstLine(bigLittle()))
}

// Big cores of one type may differ by a few percent; little ones differ by more.
func TestStringCallsNoBigCoreLittle(t *testing.T) {
	capacity := func(all ...int) files {
		return bigLittle().with(forEach(6, "cpu_capacity", func(cpu int) any { return all[cpu] }))
	}
	require.Contains(t, readSound(t, capacity(718, 731, 997, 973, 1017, 1024)).String(), "(little 0-1)")
	require.NotContains(t, readSound(t, capacity(1024, 1024, 997, 997, 1017, 1024)).String(), "little")

	f := bigLittle()
	for cpu := range 4 {
		delete(f, fmt.Sprintf("cpu/cpu%d/cpu_capacity", cpu))
	}
	require.NotContains(t, readSound(t, f).String(), "little", "an unknown capacity is not a small one")
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if t, _ := Read(); len(t.CPUs) == 0 {
			b.Fatal("no CPUs")
		}
	}
}
