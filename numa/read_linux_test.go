package numa

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAllowedIsWhatTheSchedulerAllows(t *testing.T) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Skip("more CPUs than this test can ask for: ", err)
	}
	got, _ := Read()
	for cpu := range 8 * len(mask) {
		if mask.IsSet(cpu) {
			require.True(t, got.Allowed.Contains(cpu), cpu)
		}
	}
}

func TestAPinnedThreadDoesNotHideTheOthersCPUs(t *testing.T) {
	before, _ := Read()
	if before.Allowed.Len() < 2 {
		t.Skip("there is only one CPU")
	}
	runtime.LockOSThread()
	var old, pinned unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &old))
	pinned.Set(before.Allowed[0])
	require.NoError(t, unix.SchedSetaffinity(0, &pinned))
	got, _ := Read()
	require.NoError(t, unix.SchedSetaffinity(0, &old))
	runtime.UnlockOSThread()
	require.Equal(t, before.Allowed, got.Allowed)
}

func TestPipesDoNotBlock(t *testing.T) {
	f := smt()
	delete(f, "node/node0/meminfo")
	root := f.write(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(root, treePath("node/node0/meminfo")), 0o666))
	got, err := ReadRoot(root)
	requireUsable(t, got)
	require.ErrorContains(t, err, "not a regular file")
}

func TestBothWaysToReadThisMachineAgree(t *testing.T) {
	got, err := Read()
	dump, dumpErr := ReadRoot("/")
	t.Log(err, dumpErr)
	requireUsable(t, dump)
	require.Equal(t, got.Online, dump.Online)
	require.Equal(t, got.Cores, dump.Cores)
	require.Equal(t, len(got.Nodes), len(dump.Nodes))
}
