package numa

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
)

// onEachCPU runs body pinned to each allowed CPU in turn.
func onEachCPU(t *testing.T, body func(cpu int)) {
	t.Helper()
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	for _, cpu := range cpus {
		p, err := heist.Pin(cpu)
		require.NoError(t, err)
		body(cpu)
		require.NoError(t, p.Unpin())
	}
}

func TestEveryWayToTheCurrentCPUTellsThePinnedOne(t *testing.T) {
	topology, err := Read()
	if err != nil {
		t.Log("nodes are a guess: ", err)
	}
	for _, way := range []struct {
		name    string
		current func() (cpu, node int)
	}{{"Current", Current}, {"system call", getcpu}} {
		t.Run(way.name, func(t *testing.T) {
			onEachCPU(t, func(want int) {
				for range 100 {
					cpu, node := way.current()
					require.Equal(t, want, cpu)
					require.Equal(t, want, CurrentCPU())
					if i := topology.NodeOf(want); i >= 0 {
						require.Equal(t, topology.Nodes[i].ID, node, "CPU %d", cpu)
					}
					runtime.Gosched()
				}
			})
		})
	}
}

func TestCurrentCPUIsUnknownWhereTheKernelDoesNotTell(t *testing.T) {
	withoutSyscall(t, unix.SYS_GETCPU, unix.ENOSYS, func() {
		cpu, node := getcpu()
		require.Equal(t, []int{-1, -1}, []int{cpu, node})
	})
}
