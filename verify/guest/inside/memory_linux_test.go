package inside

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

const mappedBytes = 4 << 20

// onCPU calls f on a CPU.
func onCPU(t *testing.T, cpu int, f func()) {
	t.Helper()
	pinned, err := heist.Pin(cpu)
	require.NoError(t, err)
	f()
	require.NoError(t, pinned.Unpin())
}

// nodesOf asks the kernel where pages lie, by another way than the package's own.
func nodesOf(t *testing.T, memory []byte) []int32 {
	t.Helper()
	size := os.Getpagesize()
	pages := make([]unsafe.Pointer, len(memory)/size)
	for i := range pages {
		pages[i] = unsafe.Pointer(&memory[i*size])
	}
	status := make([]int32, len(pages))
	// Without a list of nodes, move_pages moves nothing and only says where the pages are.
	_, _, errno := syscall.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(pages)),
		uintptr(unsafe.Pointer(&pages[0])), 0, uintptr(unsafe.Pointer(&status[0])), 0)
	require.Zero(t, errno)
	return status
}

// requireOn checks that all of the memory lies on a node.
func requireOn(t *testing.T, node int, memory []byte) {
	t.Helper()
	for page, on := range nodesOf(t, memory) {
		require.EqualValues(t, node, on, "page %d; a negative number is an error", page)
	}
}

func TestMemoryLandsWhereItWasBound(t *testing.T) {
	m := machine(t)
	for node := range m.Nodes() {
		far := (node + 1) % m.Nodes()
		onCPU(t, m.NodeCPUs(far)[0], func() {
			memory, err := numa.Map(mappedBytes, numa.Bind(node))
			require.NoError(t, err)
			require.NoError(t, memory.Touch())
			requireOn(t, node, memory.Bytes())

			require.NoError(t, memory.Move(numa.Bind(far)))
			requireOn(t, far, memory.Bytes())
			require.NoError(t, memory.Close())
		})
	}
}

func TestLocalMemoryIsOfTheNodeThatTouchesIt(t *testing.T) {
	m := machine(t)
	for node := range m.Nodes() {
		onCPU(t, m.NodeCPUs(node)[0], func() {
			memory, err := numa.Map(mappedBytes, numa.Local())
			require.NoError(t, err)
			require.NoError(t, memory.Touch())
			requireOn(t, node, memory.Bytes())
			require.NoError(t, memory.Close())
		})
	}
}

func TestCurrentNodeIsTheCPUs(t *testing.T) {
	m := machine(t)
	for node := range m.Nodes() {
		for _, cpu := range m.NodeCPUs(node) {
			onCPU(t, cpu, func() {
				gotCPU, gotNode := numa.Current()
				require.Equal(t, cpu, gotCPU)
				require.Equal(t, node, gotNode)
				require.Equal(t, cpu, numa.CurrentCPU())
			})
		}
	}
}
