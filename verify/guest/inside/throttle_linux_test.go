package inside

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/verify/claim"
)

// A container with a CPU limit gets its CPUs for a part of each period, all of them together, and
// none at all for the rest of it: all threads of the process stop where they are, a searcher as
// well as a waker in the middle of waking another.
func TestThrottlingLosesNothing(t *testing.T) {
	claim.That(t, "cpu.max may stop all threads in the middle of anything: nothing is lost",
		"a pool under load in a cgroup of an emulated machine, with less and less of its CPUs")
	m := machine(t)
	group := joinGroup(t, "heist-throttled", "cpu")
	p := newPool(t, allCPUs(m))
	limits := []string{"100000 100000", "20000 100000", "2000 10000"}
	underLoad(t, p, func(settle func()) {
		for _, limit := range limits {
			before := throttled(t, group)
			write(t, limit, group, "cpu.max")
			for settle(); throttled(t, group) == before; settle() {
				time.Sleep(time.Millisecond)
			}
		}
		write(t, "max", group, "cpu.max")
	})
	periods := throttled(t, group)
	require.NotZero(t, periods)
	claim.Amount(t, "%d limits, %d CPUs, throttled in %s periods", len(limits), m.CPUs(), claim.Count(periods))
}

// joinGroup makes a cgroup with a controller and moves the process there, until the test ends.
func joinGroup(t *testing.T, name, controller string) (group string) {
	t.Helper()
	const cgroups = "/sys/fs/cgroup"
	if err := os.WriteFile(cgroups+"/cgroup.subtree_control", []byte("+"+controller), 0); errors.Is(err, unix.EINVAL) {
		t.Skip("this kernel has no cgroup controller ", controller)
	} else {
		require.NoError(t, err)
	}
	group = cgroups + "/" + name
	require.NoError(t, os.Mkdir(group, 0o755))
	pid := fmt.Sprint(os.Getpid())
	write(t, pid, group, "cgroup.procs")
	t.Cleanup(func() {
		write(t, pid, cgroups, "cgroup.procs")
		require.NoError(t, os.Remove(group))
	})
	return group
}

// throttled returns in how many periods the group was stopped.
func throttled(t *testing.T, group string) (periods int) {
	t.Helper()
	stat, err := os.ReadFile(group + "/cpu.stat")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(stat), "nr_throttled ")
	require.True(t, found, "%s", stat)
	_, err = fmt.Sscan(rest, &periods)
	require.NoError(t, err)
	return periods
}
