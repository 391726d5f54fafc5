package pool

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/seed53057037/heist"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threads returns the number of threads of the process, and of those among them
// that may not use all of its CPUs.
func threads(t testing.TB) (all, narrowed int) {
	t.Helper()
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		var mask unix.CPUSet
		if unix.SchedGetaffinity(id, &mask) != nil {
			continue // it has just ended
		}
		all++
		if mask.Count() < len(cpus) {
			narrowed++
		}
	}
	return all, narrowed
}

func TestNoThreadIsLeftNarrowedAfterClose(t *testing.T) {
	skipIfPretended(t)
	if len(threadCPUs(t)) < 2 {
		t.Skip("with a single CPU, pinned and not pinned are the same")
	}
	before, narrowedBefore := threads(t)
	for round := range stress(100) {
		p, err := New(WithWorkers(4), WithPinning(PinCores))
		require.NoError(t, err)
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 5) }))
		if round%4 == 0 {
			_, narrowed := threads(t)
			require.Equal(t, narrowedBefore+4, narrowed)
		}
		require.NoError(t, p.Close())
	}
	require.True(t, eventually(func() bool {
		_, narrowed := threads(t)
		return narrowed <= narrowedBefore
	}))
	after, _ := threads(t)
	require.Less(t, after, before+50, "threads are left behind")
}

// TestReplacedWorkerIsPinnedAgain: a worker whose goroutine ended goes on in another
// thread.
func TestReplacedWorkerIsPinnedAgain(t *testing.T) {
	skipIfPretended(t)
	cpus := threadCPUs(t)
	p := newPool(t, WithCPUs(cpus[len(cpus)-1]))
	for range stress(20) {
		require.NoError(t, p.Go(func(*Worker) { runtime.Goexit() }))
		on := make(chan []int)
		require.NoError(t, p.Go(func(*Worker) { on <- threadCPUs(t) }))
		require.Equal(t, cpus[len(cpus)-1:], <-on)
	}
}

// threadCPUs returns the CPUs that the calling thread may use.
func threadCPUs(t testing.TB) (cpus []int) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Error(err)
	}
	for cpu := range len(mask) * 64 {
		if mask.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
