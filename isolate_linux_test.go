package heist

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
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
	isolated := mustIsolate(t, mine)
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

// mustIsolate isolates CPUs, which must be possible.
func mustIsolate(t *testing.T, cpus ...int) *Isolation {
	t.Helper()
	isolated, err := Isolate(cpus...)
	require.NoError(t, err)
	return isolated
}

func requireAllowedEverywhere(t *testing.T, cpus []int) {
	t.Helper()
	for tid, mask := range masks(t) {
		require.Equal(t, cpus, mask, "thread %d", tid)
	}
}

// TestThreadsUnpinnedInIsolationStayOff the isolated CPUs, and get them back when the other threads
// do.
func TestThreadsUnpinnedInIsolationStayOff(t *testing.T) {
	cpus := twoAllowed(t)
	mine := cpus[0]
	pinned, err := Pin(mine)
	require.NoError(t, err)
	isolated := mustIsolate(t, mine)
	require.NoError(t, pinned.Unpin())
	for tid, mask := range masks(t) {
		require.NotContains(t, mask, mine, "thread %d", tid)
	}
	pinned, err = Pin(mine) // and a thread that is bound during the isolation
	require.NoError(t, err)
	require.NoError(t, isolated.Restore())
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

func TestIsolationsExistSideBySide(t *testing.T) {
	cpus := twoAllowed(t)
	if len(cpus) < 3 {
		a := mustIsolate(t, cpus[0])
		_, err := Isolate(cpus[1])
		require.ErrorContains(t, err, "leaves none")
		require.NoError(t, a.Restore())
		requireAllowedEverywhere(t, cpus)
		return
	}
	a := mustIsolate(t, cpus[0])
	b := mustIsolate(t, cpus[1])
	require.NoError(t, a.Restore())
	for tid, mask := range masks(t) {
		require.NotContains(t, mask, cpus[1], "thread %d", tid)
		require.Contains(t, mask, cpus[0], "thread %d", tid)
	}
	require.NoError(t, b.Restore())
	requireAllowedEverywhere(t, cpus)
}

// TestARestoreThatIsRepeatedEndsNoOtherIsolation: another goroutine may have isolated the CPUs
// again since.
func TestARestoreThatIsRepeatedEndsNoOtherIsolation(t *testing.T) {
	cpus := twoAllowed(t)
	first := mustIsolate(t, cpus[0])
	requireMaskOfAll(t, cpus[1:])
	require.NoError(t, first.Restore())
	requireAllowedEverywhere(t, cpus)

	second := mustIsolate(t, cpus[0])
	require.NoError(t, first.Restore())
	requireMaskOfAll(t, cpus[1:])
	_, err := Isolate(cpus[0])
	require.ErrorContains(t, err, "isolated already")
	require.NoError(t, second.Restore())
	requireAllowedEverywhere(t, cpus)

	third := mustIsolate(t, cpus[1:]...)
	require.NoError(t, first.Restore())
	require.NoError(t, second.Restore())
	requireMaskOfAll(t, cpus[:1])
	require.NoError(t, third.Restore())
	requireAllowedEverywhere(t, cpus)
}

// TestAnyGoroutineMayRestore, several at the same time, too. The race detector watches.
func TestAnyGoroutineMayRestore(t *testing.T) {
	cpus := twoAllowed(t)
	for range 10 {
		isolated := mustIsolate(t, cpus[0])
		var results [4]error
		testutil.Together(len(results), func(who int) { results[who] = isolated.Restore() })()
		for _, err := range results {
			require.NoError(t, err)
		}
		requireAllowedEverywhere(t, cpus)
	}
}

// TestIsolationIsKeptApartFromTheCallersSlice: the caller may reuse its slice meanwhile.
func TestIsolationIsKeptApartFromTheCallersSlice(t *testing.T) {
	cpus := twoAllowed(t)
	mine := []int{cpus[0]}
	isolated := mustIsolate(t, mine...)
	mine[0] = cpus[1]
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
}

// TestThreadsClonedInOneIsolationLiveThroughTheNext: the package knows only the mask with which
// such a thread was born, and must not take it for a binding.
func TestThreadsClonedInOneIsolationLiveThroughTheNext(t *testing.T) {
	cpus := twoAllowed(t)
	pinned, err := Pin(cpus[0])
	require.NoError(t, err)
	requireMasks := func(others []int) {
		t.Helper()
		for tid, mask := range masks(t) {
			if tid == unix.Gettid() {
				require.Equal(t, cpus[:1], mask, "the bound thread")
			} else {
				require.Equal(t, others, mask, "thread %d", tid)
			}
		}
	}
	isolated := mustIsolate(t, cpus[0])
	moreThreads(10, func() {
		requireMasks(cpus[1:])
		require.NoError(t, isolated.Restore())
		requireMasks(cpus)
		isolated = mustIsolate(t, cpus[1:]...)
		moreThreads(10, func() {
			requireMasks(cpus[:1])
			require.NoError(t, isolated.Restore())
			requireMasks(cpus)
			isolated = mustIsolate(t, cpus[0])
			requireMasks(cpus[1:])
		})
	})
	require.NoError(t, isolated.Restore())
	requireMasks(cpus)
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

// forOrders calls test with these numbers in every order.
func forOrders(numbers []int, test func(order []int)) {
	var extend func(order, rest []int)
	extend = func(order, rest []int) {
		if len(rest) == 0 {
			test(order)
		}
		for i := range rest {
			extend(append(slices.Clip(order), rest[i]), slices.Delete(slices.Clone(rest), i, i+1))
		}
	}
	extend(nil, numbers)
}

// without returns the CPUs except those in some.
func without(cpus []int, some map[int]*Isolation) []int {
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return some[cpu] != nil })
}

// TestIsolationsEndInAnyOrder: at each moment threads lack the CPUs whose isolation is in
// force, and no others, in whatever isolation they were cloned.
func TestIsolationsEndInAnyOrder(t *testing.T) {
	cpus := twoAllowed(t)
	isolated := make(map[int]*Isolation) // by CPU
	some := cpus[:min(3, len(cpus)-1)]
	forOrders(some, func(begins []int) {
		forOrders(some, func(ends []int) {
			for _, cpu := range begins {
				isolated[cpu] = mustIsolate(t, cpu)
				moreThreads(1, func() {
					requireMaskOfAll(t, without(cpus, isolated))
					if cpu == begins[len(begins)-1] {
						requireToEndInOrder(t, isolated, ends, func() { requireMaskOfAll(t, without(cpus, isolated)) })
					}
				})
			}
		})
	})
	requireAllowedEverywhere(t, cpus)
}

// requireToEndInOrder restores the isolations, and calls test after each of them.
func requireToEndInOrder(t *testing.T, isolated map[int]*Isolation, order []int, test func()) {
	t.Helper()
	for _, cpu := range order {
		require.NoError(t, isolated[cpu].Restore())
		delete(isolated, cpu)
		test()
	}
}

// TestThreadsNarrowedBySomebodyElseStayAsNarrow: all threads have fewer CPUs than the process was
// started with, as after taskset -a. The pretended CPUs allow several isolations even on a machine
// with two.
func TestThreadsNarrowedBySomebodyElseStayAsNarrow(t *testing.T) {
	cpus := twoAllowed(t)
	before := masks(t)
	some := append(pretendMoreCPUs(t, 3)[:2], cpus[0])
	isolated := make(map[int]*Isolation) // by CPU
	requireMasks := func() {
		t.Helper()
		now := masks(t)
		for tid := range before { // threads that are cloned meanwhile are born with fewer CPUs
			if mask, ok := now[tid]; ok {
				require.Equal(t, without(cpus, isolated), mask, "thread %d in the isolation of %v", tid, isolated)
			}
		}
	}
	forOrders(some, func(begins []int) {
		forOrders(some, func(ends []int) {
			for _, cpu := range begins {
				isolated[cpu] = mustIsolate(t, cpu)
				requireMasks()
			}
			requireToEndInOrder(t, isolated, ends, requireMasks)
		})
	})
}

// TestAnIsolationThatIsOverIsForgotten: a thread is bound to the CPUs that an earlier isolation had
// left it. The next isolation must not think that it took CPUs from this thread.
func TestAnIsolationThatIsOverIsForgotten(t *testing.T) {
	cpus := twoAllowed(t)
	pretendMoreCPUs(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	isolated := mustIsolate(t, cpus[0])
	requireMask(t, cpus[1:])
	require.NoError(t, isolated.Restore())
	requireMask(t, cpus)

	mine, err := affinityOf(0)
	require.NoError(t, err)
	require.NoError(t, mine.without(cpus[:1]).give(0)) // as a C library might
	isolated = mustIsolate(t, cpus[0])
	require.NoError(t, isolated.Restore())
	requireMask(t, cpus[1:])
}

// TestRestoreEndsThoughACPUHasGone: the kernel does not give back a CPU that is offline, however
// often Restore asks.
func TestRestoreEndsThoughACPUHasGone(t *testing.T) {
	cpus := twoAllowed(t)
	gone := pretendMoreCPUs(t, 1)[0]
	for _, some := range [][]int{{gone}, {cpus[0], gone}} {
		isolated := mustIsolate(t, some...)
		restored := make(chan error, 1)
		go func() { restored <- isolated.Restore() }()
		select {
		case err := <-restored:
			require.NoError(t, err)
			requireAllowedEverywhere(t, cpus)
		case <-time.After(30 * time.Second):
			require.Fail(t, "it asks for ever", "for %v", some)
		}
	}
}

// outOfFiles calls f while the process cannot open any file.
func outOfFiles(t *testing.T, f func()) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before))
	none := unix.Rlimit{Cur: 0, Max: before.Max}
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &none, nil))
	defer func() { require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil)) }()
	f()
}

// TestIsolationThatFailsCanBeTriedAgain: both its beginning and its end. A server that has run out
// of file descriptors cannot list its threads, but soon has some again.
func TestIsolationThatFailsCanBeTriedAgain(t *testing.T) {
	cpus := twoAllowed(t)
	var isolated *Isolation
	var err error
	outOfFiles(t, func() { isolated, err = Isolate(cpus[0]) })
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, fmt.Sprintf("heist: cannot isolate CPUs [%d]: ", cpus[0]))
	require.Nil(t, isolated)
	requireAllowedEverywhere(t, cpus)
	isolated = mustIsolate(t, cpus[0])
	requireMaskOfAll(t, cpus[1:])

	outOfFiles(t, func() { err = isolated.Restore() })
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, fmt.Sprintf("heist: cannot give CPUs [%d] back to all threads: ", cpus[0]))
	requireMaskOfAll(t, cpus[1:])
	_, err = Isolate(cpus[0])
	require.ErrorContains(t, err, "isolated already")
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
	require.NoError(t, isolated.Restore())
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
	isolated := mustIsolate(t, cpus[0])
	_, err = Isolate(cpus[0])
	require.ErrorContains(t, err, "isolated already")
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
}

func TestRebindingGivesTheBindingBack(t *testing.T) {
	cpus := twoAllowed(t)
	pinned, err := Pin(cpus[1])
	require.NoError(t, err)
	require.NoError(t, isolation.free.give(0)) // as the system does when the CPU goes offline
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
	isolated := mustIsolate(t, cpus[0])
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

// TestAThreadBoundToTheOtherCPUsStaysBound: an isolation may leave the other threads exactly the
// CPUs that a thread is bound to, as with a pool on each of two nodes. The package must not think
// that this thread lost the rest to the isolation.
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
			isolated := mustIsolate(t, mine)
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
	isolated := mustIsolate(t, cpus[0])
	requireMask(t, cpus[1:])
	require.NoError(t, isolated.Restore())
	requireMask(t, cpus)
	isolated = mustIsolate(t, cpus[0])
	require.NoError(t, pinned.Unpin())
	requireMaskOfAll(t, cpus[1:])
	require.NoError(t, isolated.Restore())
	requireAllowedEverywhere(t, cpus)
}

// TestAThreadBoundInAnIsolationGetsWhatIsLeft of its CPUs, and the others afterwards.
func TestAThreadBoundInAnIsolationGetsWhatIsLeft(t *testing.T) {
	cpus := twoAllowed(t)
	isolated := mustIsolate(t, cpus[0])
	pinned, err := Pin(cpus[0], cpus[1])
	require.NoError(t, err)
	requireMask(t, cpus[1:2])
	require.NoError(t, pinned.Rebind())
	requireMask(t, cpus[1:2])
	require.NoError(t, isolated.Restore())
	requireMask(t, cpus[:2])
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

func requireMaskOfAll(t *testing.T, want []int) {
	t.Helper()
	for tid, mask := range masks(t) {
		require.Equal(t, want, mask, "thread %d", tid)
	}
}

// TestRebindingWorksInAnIsolation: a worker that lost its CPU, and with it the binding, gets the
// CPU back although the isolation counts it among the other threads.
func TestRebindingWorksInAnIsolation(t *testing.T) {
	cpus := twoAllowed(t)
	mine := cpus[:1]
	pinned, err := Pin(mine...)
	require.NoError(t, err)
	require.NoError(t, isolation.free.give(0)) // as the system does when the CPU goes offline
	isolated := mustIsolate(t, mine...)
	requireMask(t, cpus[1:])
	require.NoError(t, pinned.Rebind())
	requireMask(t, mine)
	require.NoError(t, isolation.free.give(0))
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
	for range testutil.Stress(3000) {
		isolated := mustIsolate(t, cpus[0])
		require.NoError(t, isolated.Restore())
	}
	over.Store(true)
	pinning.Wait()
	requireAllowedEverywhere(t, cpus)
}

// TestThreadsThatComeAndGoAreIsolatedAsWell has goroutines end while they are locked, so that their
// threads end too and the runtime starts new ones all the time.
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
	for range testutil.Stress(150) {
		isolated := mustIsolate(t, cpus[0])
		requireMaskOfAll(t, cpus[1:])
		require.NoError(t, isolated.Restore())
		requireAllowedEverywhere(t, cpus)
	}
	over.Store(true)
	churn.Wait()
}

// TestThreadsThatEndBoundAreForgotten: a goroutine that ends while it is locked takes its thread
// with it, and the package is not told.
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

const sandboxed = "HEIST_TEST_SANDBOXED"

// The other half of TestSandboxThatForbidsBindingIsReported: it runs in the child.
func TestSandboxedChild(t *testing.T) {
	if os.Getenv(sandboxed) == "" {
		t.Skip("not the child")
	}
	cpus := twoAllowed(t)
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SCHED_SETAFFINITY, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 || isolation.free.give(0) == nil {
		t.Skip("there is no such sandbox here: ", errno)
	}
	runtime.UnlockOSThread()

	for range 2 { // the second time must not say "isolated already"
		isolated, err := Isolate(cpus[0])
		require.ErrorIs(t, err, unix.EPERM)
		require.ErrorContains(t, err, fmt.Sprintf("heist: cannot isolate CPUs [%d]: sched_setaffinity", cpus[0]))
		require.Nil(t, isolated)
		requireAllowedEverywhere(t, cpus)
	}
	pinned, err := Pin(cpus[0])
	require.ErrorIs(t, err, unix.EPERM)
	require.Nil(t, pinned)
	requireAllowedEverywhere(t, cpus)
}

// TestSandboxThatForbidsBindingIsReported: a container may let the process see its CPUs but not
// choose among them.
func TestSandboxThatForbidsBindingIsReported(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self, "-test.run=^TestSandboxedChild$", "-test.v")
	child.Env = append(os.Environ(), sandboxed+"=1", "GORACE=atexit_sleep_ms=0")
	output, err := child.CombinedOutput()
	if errors.Is(err, unix.ENOEXEC) {
		t.Skip("an emulator runs this test but cannot start it again")
	}
	require.NoError(t, err, "%s", output)
	if strings.Contains(string(output), "--- SKIP: TestSandboxedChild") {
		t.Skipf("%s", output)
	}
	require.Contains(t, string(output), "--- PASS: TestSandboxedChild")
}
