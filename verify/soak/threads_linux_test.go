package soak

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
)

// threadCount knows how many workers there have been in all pools.
type threadCount struct{ workers int }

func (c *threadCount) add(r *run) {
	for _, p := range r.pools {
		c.workers += p.Workers()
	}
}

// requireNoneLeft looks at the threads that the process has: none may still be bound as a
// worker was. The runtime keeps threads for later, so there may be some, but when there
// have been many pools, not as many as there were workers.
func (c *threadCount) requireNoneLeft(t *testing.T) {
	t.Helper()
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		var set unix.CPUSet
		if unix.SchedGetaffinity(id, &set) == nil { // else it has ended
			require.Equal(t, len(allowed), set.Count(), "thread %d of process %d is bound", id, os.Getpid())
		}
	}
	if c.workers > 1000 {
		require.Less(t, len(threads), c.workers/2, "threads of closed pools")
	}
}
