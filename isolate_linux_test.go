package heist

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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

// requireMask checks the caller's mask.
func requireMask(t *testing.T, want []int) {
	t.Helper()
	mask, err := affinityOf(0)
	require.NoError(t, err)
	require.Equal(t, want, mask.cpus())
}

func TestRefusedIsolationChangesNothing(t *testing.T) {
	cpus := twoAllowed(t)
	isolated, err := Isolate(cpus[0])
	require.NoError(t, err)
	for _, refused := range [][]int{nil, cpus, cpus[1:], {cpus[0]}, {cpus[1], cpus[1]}, {-1}, {cpus[1], 1 << 20}} {
		_, err := Isolate(refused...)
		require.Error(t, err, "%v", refused)
		for tid, mask := range masks(t) {
			require.Equal(t, cpus[1:], mask, "thread %d, after %v", tid, refused)
		}
	}
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
}

// TestAThreadBoundToTheOtherCPUsStaysBound: what is left to the others may be just what a
// thread was bound to, as with a pool on each of two nodes. It must not be taken for one
// that lost the rest to the isolation.
func TestAThreadBoundToTheOtherCPUsStaysBound(t *testing.T) {
	cpus := twoAllowed(t)
	mine, others := cpus[0], cpus[1:]
	for _, c := range []struct {
		name       string
		pinFirst   bool
		unpinFirst bool
	}{
		{"pinned before", true, false},
		{"pinned meanwhile", false, false},
		{"pinned before, unpinned meanwhile", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pinned *Pinned
			var err error
			if c.pinFirst {
				pinned, err = Pin(others...)
				require.NoError(t, err)
			}
			isolated, err := Isolate(mine)
			require.NoError(t, err)
			if !c.pinFirst {
				pinned, err = Pin(others...)
				require.NoError(t, err)
			}
			requireMask(t, others)
			inner, err := Pin(others[0]) // nested
			require.NoError(t, err)
			if c.unpinFirst {
				require.NoError(t, inner.Unpin())
			}
			require.NoError(t, isolated.Restore())
			if !c.unpinFirst {
				require.NoError(t, inner.Unpin())
			}
			requireMask(t, others)
			require.NoError(t, pinned.Unpin())
			requireAllowedEverywhere(t, cpus)
		})
	}
}

// TestAThreadBoundToMoreThanTheIsolatedCPUsLosesThose, and has them back afterwards.
func TestAThreadBoundToMoreThanTheIsolatedCPUsLosesThose(t *testing.T) {
	cpus := twoAllowed(t)
	pinned, err := Pin(cpus...)
	require.NoError(t, err)
	isolated, err := Isolate(cpus[0])
	require.NoError(t, err)
	requireMask(t, cpus[1:])
	require.NoError(t, isolated.Restore())
	requireMask(t, cpus)
	isolated, err = Isolate(cpus[0])
	require.NoError(t, err)
	require.NoError(t, pinned.Unpin())
	requireMaskOfAll(t, cpus[1:])
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
}

func requireMaskOfAll(t *testing.T, want []int) {
	t.Helper()
	for tid, mask := range masks(t) {
		require.Equal(t, want, mask, "thread %d", tid)
	}
}

// TestRebindingWorksInAnIsolation: a worker that lost its CPU, and with it the binding, gets
// it back though it counts as one of the others meanwhile.
func TestRebindingWorksInAnIsolation(t *testing.T) {
	cpus := twoAllowed(t)
	mine := cpus[:1]
	pinned, err := Pin(mine...)
	require.NoError(t, err)
	require.NoError(t, initial.give(0)) // as the system does when the CPU goes offline
	isolated, err := Isolate(mine...)
	require.NoError(t, err)
	requireMask(t, cpus[1:])
	require.NoError(t, pinned.Rebind())
	requireMask(t, mine)
	require.NoError(t, initial.give(0))
	require.NoError(t, pinned.Rebind())
	require.NoError(t, isolated.Restore())
	requireMask(t, mine)
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

// TestPinsAndIsolationsAtTheSameTimeLeaveNoThreadNarrowed: a thread may be pinned while an
// isolation begins or ends.
func TestPinsAndIsolationsAtTheSameTimeLeaveNoThreadNarrowed(t *testing.T) {
	cpus := twoAllowed(t)
	var over atomic.Bool
	var pinning sync.WaitGroup
	for range 4 {
		pinning.Go(func() {
			for !over.Load() {
				pinned, err := Pin(cpus[0])
				if err == nil {
					err = pinned.Unpin()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range stress(3000) {
		isolated, err := Isolate(cpus[0])
		require.NoError(t, err)
		require.NoError(t, isolated.Restore())
	}
	over.Store(true)
	pinning.Wait()
	requireAllowedEverywhere(t, cpus)
}

// TestThreadsThatComeAndGoAreIsolatedAsWell has goroutines that end locked, with their
// threads, so that the runtime starts others all the time.
func TestThreadsThatComeAndGoAreIsolatedAsWell(t *testing.T) {
	cpus := twoAllowed(t)
	var over atomic.Bool
	var churn sync.WaitGroup
	for range 4 {
		churn.Go(func() {
			for !over.Load() {
				var end sync.WaitGroup
				end.Go(runtime.LockOSThread)
				end.Wait()
			}
		})
	}
	for range stress(300) {
		isolated, err := Isolate(cpus[0])
		require.NoError(t, err)
		requireMaskOfAll(t, cpus[1:])
		require.NoError(t, isolated.Restore())
		requireAllowedEverywhere(t, cpus)
	}
	over.Store(true)
	churn.Wait()
}

// TestThreadsThatEndBoundAreForgotten: a goroutine that ends locked takes its thread along,
// and tells nobody.
func TestThreadsThatEndBoundAreForgotten(t *testing.T) {
	cpus := twoAllowed(t)
	for range 1000 {
		ended := make(chan error)
		go func() {
			_, err := Pin(cpus[0])
			ended <- err
		}()
		require.NoError(t, <-ended)
	}
	isolation.mu.Lock()
	defer isolation.mu.Unlock()
	require.Less(t, len(isolation.bound), 500)
}
