package pool

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/numa"
)

// FuzzReadLatencies: whatever the document says, there is an error that says where it comes
// from, or an order in which each two CPUs have a distance.
func FuzzReadLatencies(f *testing.F) {
	for _, document := range []string{
		``, `null`, `{}`, `[]`, `{"cpus": [0], "ns": [[0]]}`,
		`{"cpus": [0, 1, 2], "ns": [[0, 48, 97], [48, 0, 96], [97, 96, 0]]}`,
		`{"cpus": [3, 3], "ns": [[0, 5], [5, 0]]}`,
		`{"cpus": [-1, 9223372036854775807], "ns": [[0, 1e-300], [2147483646, 0]]}`,
		`{"cpus": [0, 7], "ns": [[0, 5], null]}`,
		`{"cpus": [0], "ns": [[0]]} x`,
	} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		o, err := readLatencies(strings.NewReader(document))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "pool: Tuning.Latencies: "), err)
			return
		}
		var topology numa.Topology
		for pair, level := range o {
			require.Positive(t, level)
			require.Less(t, level, unmeasured)
			distance := o.between(&topology, &core.Placement{CPUs: pair[:1]}, &core.Placement{CPUs: pair[1:]})
			require.Equal(t, level, distance)
			require.NotEmpty(t, o.name(distance))
		}
	})
}
