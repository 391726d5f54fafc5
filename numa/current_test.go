package numa

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCurrentCPUAndNodeAreKnownTogether(t *testing.T) {
	for range 1000 {
		cpu, node := Current()
		require.Equal(t, cpu < 0, node < 0, "CPU %d, node %d", cpu, node)
		require.Equal(t, cpu < 0, CurrentCPU() < 0)
	}
}

func BenchmarkCurrentCPU(b *testing.B) {
	for b.Loop() {
		CurrentCPU()
	}
}
