package machine

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

func init() { programs["bare"] = liveWithoutFiles }

// bare is what heist knows of a machine without /sys and /proc.
type bare struct {
	Allowed  []int
	Topology *numa.Topology
	Read     string // errors
	Isolate  string
	Pinned   bool
	Isolated string
	Counts   load.Counts
}

func liveWithoutFiles() error {
	var b bare
	var err error
	if b.Allowed, err = heist.Allowed(); err != nil {
		return err
	}
	b.Topology, err = numa.Read()
	b.Read = fmt.Sprint(err)
	_, err = heist.Isolate(b.Allowed[0])
	b.Isolate = fmt.Sprint(err)
	_, err = pool.New(pool.WithTuning(pool.Tuning{Isolate: true}), pool.WithWorkers(1))
	b.Isolated = fmt.Sprint(err)

	p, err := pool.New(pool.WithPinning(pool.PinCores))
	if err != nil {
		return err
	}
	pinning, _ := p.Pinning()
	b.Pinned = pinning != pool.PinNone
	if err := p.Close(); err != nil {
		return err
	}
	if b.Counts, err = useAndCount(); err != nil {
		return err
	}
	return child.Tell(b)
}

func needsLibraries(t *testing.T, binary string) bool {
	t.Helper()
	f, err := elf.Open(binary)
	require.NoError(t, err)
	defer f.Close()
	return f.Section(".interp") != nil
}

func TestWithoutSysAndProcOnlyIsolationIsRefused(t *testing.T) {
	claim.That(t, "without /sys and /proc numa says what is missing, pools work and pin, and isolation is an error",
		"a child whose root is an empty folder (chroot)")
	if os.Getuid() != 0 {
		t.Skip("chroot is root's")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	if needsLibraries(t, self) { // which an empty folder does not have
		if !claim.Full() {
			t.Skip("this binary is linked with cgo; HEIST_VERIFY=full builds another one")
		}
		self = child.Build(t, "CGO_ENABLED=0")
	}
	root := t.TempDir()
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "tests"), program, 0o755))

	c := child.CommandOf(t, "/tests", "bare", child.For(duration()))
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	c.Dir = "/"
	var b bare
	child.Result(t, c, &b)
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	require.Equal(t, allowed, b.Allowed)
	require.Contains(t, b.Read, "/sys/devices/system/cpu: no CPUs found")
	require.Len(t, b.Topology.Nodes, 1)
	require.Equal(t, numa.Set(allowed), b.Topology.Allowed)
	require.True(t, b.Pinned)
	errs := 1
	if len(allowed) > 1 {
		for _, text := range []string{b.Isolate, b.Isolated} {
			require.Contains(t, text, "cannot isolate CPUs")
			require.Contains(t, text, "/proc/self/task: no such file or directory")
			errs++
		}
	}
	claim.Amount(t, "%d clear errors; pinned: %v", errs, b.Counts)
}
