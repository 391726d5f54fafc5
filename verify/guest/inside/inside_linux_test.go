// Package inside has the tests that need a machine with several nodes, and the right to
// take its CPUs away. They run in the guests that verify/guest/run boots and are skipped
// anywhere else.
package inside

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/guest"
)

// machine returns what qemu was told. Outside of a guest it skips the test.
func machine(t *testing.T) guest.Machine {
	t.Helper()
	m, inside, err := guest.Current()
	require.NoError(t, err)
	if !inside {
		t.Skip("not in a guest; see verify/guest/run")
	}
	return m
}

// patience is the time after which something counts as a hang, on a machine that is slow and shares
// its host.
const patience = 3 * time.Minute

// currentCPU returns the CPU that runs the calling thread, as the kernel says.
func currentCPU() (int, error) {
	var cpu uint32
	_, _, errno := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("getcpu", errno)
	}
	return int(cpu), nil
}

// newPool returns a pool with a worker on each of the CPUs, or on all. It must close at
// the end of the test.
func newPool(t *testing.T, cpus []int) *pool.Pool {
	t.Helper()
	p, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithCPUs(cpus...))
	require.NoError(t, err)
	t.Cleanup(func() {
		var err error
		if !t.Failed() {
			require.True(t, testutil.ReturnsWithin(patience, func() { err = p.Close() }), "Close hangs")
			require.NoError(t, err)
		}
	})
	return p
}

// allCPUs returns the CPUs of all nodes, the last node's first, so that a worker's number
// is not that of its CPU.
func allCPUs(m guest.Machine) []int {
	var cpus []int
	for node := m.Nodes() - 1; node >= 0; node-- {
		cpus = append(cpus, m.NodeCPUs(node)...)
	}
	return cpus
}

// write writes into a file of the kernel's.
func write(t *testing.T, text string, file ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(file...), []byte(text), 0))
}
