package numa

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The folders guest-... in testdata were saved in virtual machines by verify/guest/run
// -fixtures. What is known about a machine is not what a reader found in its files but
// what qemu was told to make.
func TestGuestsAreWhatQemuWasTold(t *testing.T) {
	for _, c := range []struct {
		guest     string
		nodes     []string
		distances [][]int
		l3        []string
		mib       int64 // in each node
	}{
		{
			guest: "guest-x86_64-4n2c",
			nodes: []string{"0-1", "2-3", "4-5", "6-7"},
			distances: [][]int{
				{10, 16, 22, 28},
				{16, 10, 28, 22},
				{22, 28, 10, 16},
				{28, 22, 16, 10},
			},
			l3:  []string{"0-1", "2-3", "4-5", "6-7"},
			mib: 512,
		},
		{
			guest:     "guest-aarch64-2n4c",
			nodes:     []string{"0-3", "4-7"},
			distances: [][]int{{10, 20}, {20, 10}},
			l3:        []string{}, // it has no folders of caches
			mib:       1024,
		},
	} {
		t.Run(c.guest, func(t *testing.T) {
			got, err := ReadRoot(filepath.Join("testdata", c.guest))
			require.NoError(t, err)
			requireUsable(t, got)
			var nodes []Set
			for i, node := range got.Nodes {
				require.Equal(t, i, node.ID)
				require.Equal(t, c.distances[i], node.Distances)
				// The kernel keeps some of it for itself.
				require.LessOrEqual(t, node.MemoryBytes, c.mib<<20)
				require.Greater(t, node.MemoryBytes, c.mib<<20*3/4)
				nodes = append(nodes, node.CPUs)
			}
			require.Equal(t, c.nodes, lists(nodes))
			require.Equal(t, c.nodes, lists(got.Packages))
			require.Equal(t, c.l3, lists(got.L3))
			require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, lists(got.Cores))
			require.Equal(t, []string{"0-7", "0-7", "0-7"}, lists([]Set{got.Complete, got.Online, got.Allowed}))
		})
	}
}
