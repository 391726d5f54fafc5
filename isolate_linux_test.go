package heist

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// masks returns the CPUs of all threads of the process.
func masks(t *testing.T) map[int][]int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	all := make(map[int][]int)
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		require.NoError(t, err)
		if mask, err := affinityOf(tid); err == nil { // it may be gone
			all[tid] = mask.cpus()
		}
	}
	return all
}

func twoAllowed(t *testing.T) []int {
	t.Helper()
	cpus, err := Allowed()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("this process may use one CPU only")
	}
	return cpus
}

// moreThreads makes the runtime start threads while f runs, each of them locked.
func moreThreads(n int, f func()) {
	var started, ended sync.WaitGroup
	end := make(chan struct{})
	for range n {
		started.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-end
		})
	}
	started.Wait()
	f()
	close(end)
	ended.Wait()
}

func TestIsolationTakesCPUsFromAllOtherThreads(t *testing.T) {
	cpus := twoAllowed(t)
	mine := cpus[len(cpus)-1]
	pinned, err := Pin(mine)
	require.NoError(t, err)
	before := masks(t)
	isolated, err := Isolate(mine)
	require.NoError(t, err)
	moreThreads(10, func() {
		bound := 0
		for tid, mask := range masks(t) {
			if slices.Equal(mask, []int{mine}) {
				bound++
			} else {
				require.NotContains(t, mask, mine, "thread %d", tid)
			}
		}
		require.Equal(t, 1, bound, "the bound thread keeps its CPU")
		require.NoError(t, isolated.Restore())
		for tid, mask := range masks(t) {
			if was, ok := before[tid]; ok {
				require.Equal(t, was, mask, "thread %d", tid)
			} else {
				require.Equal(t, cpus, mask, "thread %d, which is new", tid)
			}
		}
	})
	require.NoError(t, isolated.Restore(), "once more does nothing")
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

func requireAllowedEverywhere(t *testing.T, cpus []int) {
	t.Helper()
	for tid, mask := range masks(t) {
		require.Equal(t, cpus, mask, "thread %d", tid)
	}
}

// TestThreadsUnpinnedInIsolationStayOff the isolated CPUs, and get them back with the
// others.
func TestThreadsUnpinnedInIsolationStayOff(t *testing.T) {
	cpus := twoAllowed(t)
	mine := cpus[0]
	pinned, err := Pin(mine)
	require.NoError(t, err)
	isolated, err := Isolate(mine)
	require.NoError(t, err)
	require.NoError(t, pinned.Unpin())
	for tid, mask := range masks(t) {
		require.NotContains(t, mask, mine, "thread %d", tid)
	}
	pinned, err = Pin(mine) // and one that is bound meanwhile
	require.NoError(t, err)
	require.NoError(t, isolated.Restore())
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

func TestIsolationsExistSideBySide(t *testing.T) {
	cpus := twoAllowed(t)
	if len(cpus) < 3 {
		_, err := Isolate(cpus[0])
		require.NoError(t, err)
		_, err = Isolate(cpus[1])
		require.ErrorContains(t, err, "leaves none")
		require.NoError(t, unisolate(cpus[:1]))
		requireAllowedEverywhere(t, cpus)
		return
	}
	a, err := Isolate(cpus[0])
	require.NoError(t, err)
	b, err := Isolate(cpus[1])
	require.NoError(t, err)
	require.NoError(t, a.Restore())
	for tid, mask := range masks(t) {
		require.NotContains(t, mask, cpus[1], "thread %d", tid)
		require.Contains(t, mask, cpus[0], "thread %d", tid)
	}
	require.NoError(t, b.Restore())
	requireAllowedEverywhere(t, cpus)
}

func TestIsolationSaysWhatItCannotDo(t *testing.T) {
	cpus := twoAllowed(t)
	_, err := Isolate()
	require.ErrorContains(t, err, "without a CPU")
	_, err = Isolate(cpus...)
	require.ErrorContains(t, err, "leaves none of CPUs")
	_, err = Isolate(1 << 20)
	require.ErrorContains(t, err, "this process may use CPUs")
	_, err = Isolate(cpus[0], cpus[0])
	require.ErrorContains(t, err, "given twice")
	isolated, err := Isolate(cpus[0])
	require.NoError(t, err)
	_, err = Isolate(cpus[0])
	require.ErrorContains(t, err, "isolated already")
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
}

func TestRebindingGivesTheBindingBack(t *testing.T) {
	cpus := twoAllowed(t)
	pinned, err := Pin(cpus[1])
	require.NoError(t, err)
	require.NoError(t, initial.give(0)) // as the system does when the CPU goes offline
	require.NoError(t, pinned.Rebind())
	mask, err := affinityOf(0)
	require.NoError(t, err)
	require.Equal(t, cpus[1:2], mask.cpus())
	require.NoError(t, pinned.Unpin())
}
