package heist

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// currentCPU returns the CPU that runs the calling thread.
func currentCPU(t testing.TB) int {
	t.Helper()
	var cpu uint32
	_, _, errno := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	require.Zero(t, errno)
	return int(cpu)
}

// mask returns the calling thread's mask, by another way than the package's own.
func mask(t testing.TB) unix.CPUSet {
	t.Helper()
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	return set
}

func TestPinnedThreadRunsOnItsCPU(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	for _, cpu := range cpus[:min(len(cpus), 8)] {
		p, err := Pin(cpu)
		require.NoError(t, err)
		for range 20 {
			require.Equal(t, cpu, currentCPU(t))
			runtime.Gosched()
			Yield()
		}
		set := mask(t)
		require.Equal(t, 1, set.Count())
		require.NoError(t, p.Unpin())
	}
}

func TestPinTakesSeveralCPUs(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	p, err := Pin(append(cpus, cpus[0])...) // one of them twice
	require.NoError(t, err)
	set := mask(t)
	require.Equal(t, len(cpus), set.Count())
	require.NoError(t, p.Unpin())
}

func TestUnpinRestoresTheMaskThatWas(t *testing.T) {
	runtime.LockOSThread() // to look at the same thread afterwards
	defer runtime.UnlockOSThread()
	cpus, err := Allowed()
	require.NoError(t, err)
	before := mask(t)

	outer, err := Pin(cpus[len(cpus)-1])
	require.NoError(t, err)
	pinned := mask(t)
	require.True(t, pinned.IsSet(cpus[len(cpus)-1]))

	inner, err := Pin(cpus[0]) // allowed, though the thread is narrowed
	require.NoError(t, err)
	require.Equal(t, cpus[0], currentCPU(t))
	still, err := Allowed()
	require.NoError(t, err)
	require.Equal(t, cpus, still)

	require.NoError(t, inner.Unpin())
	require.Equal(t, pinned, mask(t))
	require.NoError(t, outer.Unpin())
	require.Equal(t, before, mask(t))
}

func TestImpossibleCPUsAreNamed(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	before := mask(t)
	for _, wrong := range []int{-1, cpus[len(cpus)-1] + 1, 1 << 20, math.MaxInt, math.MinInt} {
		p, err := Pin(cpus[0], wrong)
		require.ErrorContains(t, err, fmt.Sprintf("heist: cannot pin to CPU %d: this process may use CPUs %v", wrong, cpus))
		require.NotErrorIs(t, err, ErrPinning)
		require.Nil(t, p)
		require.Equal(t, before, mask(t))
	}
}

// The kernel may know better, for instance after the CPU went offline.
func TestRefusalOfTheKernelIsPassedOn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := mask(t)
	last := len(initial)*wordBits - 1 // in the mask's size, but hardly a CPU
	if slices.Contains(initial.cpus(), last) {
		t.Skip("this machine has as many CPUs as the kernel's mask has bits")
	}
	real := initial
	defer func() { initial = real }()
	initial = slices.Clone(initial)
	initial.set(last)

	p, err := Pin(last)
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, fmt.Sprintf("heist: cannot pin to CPUs [%d]: sched_setaffinity", last))
	require.Nil(t, p)
	require.Equal(t, before, mask(t))
}

func TestRefusedUnpinSaysThatTheThreadStaysBound(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	p, err := Pin(cpus[0])
	require.NoError(t, err)
	before := p.before
	p.before = make(affinity, len(before)) // no CPU at all

	err = p.Unpin()
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "heist: cannot unpin, the thread stays bound: sched_setaffinity")
	require.Equal(t, cpus[0], currentCPU(t))

	p.before = before
	require.NoError(t, p.Unpin())
}

// A sandbox may forbid to ask for the mask.
func TestUnknownMaskIsReported(t *testing.T) {
	defer func() { initialErr = nil }()
	initialErr = os.NewSyscallError("sched_getaffinity", unix.EPERM)

	cpus, err := Allowed()
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "heist: cannot find out which CPUs the process may use: sched_getaffinity")
	require.Nil(t, cpus)

	p, err := Pin(0)
	require.ErrorIs(t, err, unix.EPERM)
	require.Nil(t, p)
}

// A goroutine that ends while it is locked takes its thread with it, and that can be
// seen.
func TestFailedPinLeavesTheGoroutineUnlocked(t *testing.T) {
	endOf := func(body func()) (thread int) {
		tid := make(chan int)
		go func() {
			runtime.LockOSThread() // to learn the thread's number in peace
			id := unix.Gettid()
			body()
			runtime.UnlockOSThread()
			tid <- id
		}()
		return <-tid
	}
	exists := func(tid int) bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return err == nil
	}
	if !exists(unix.Gettid()) {
		t.Skip("there is no /proc to count threads in")
	}

	real := initial
	defer func() { initial = real }()
	last := len(initial)*wordBits - 1
	initial = slices.Clone(initial)
	initial.set(last)
	var failed []int
	for range 8 {
		failed = append(failed,
			endOf(func() { _, _ = Pin() }),
			endOf(func() { _, _ = Pin(-1) }),
			endOf(func() { _, _ = Pin(last) }))
	}
	// The opposite, to see that threads end, and to give them time for it. It may
	// get a thread of those before.
	ended := map[int]bool{os.Getpid(): true} // the main thread stays in any case
	for range 3 {
		locked := endOf(runtime.LockOSThread)
		for !ended[locked] && exists(locked) {
			Yield()
		}
		ended[locked] = true
	}
	for _, tid := range failed {
		require.True(t, ended[tid] || exists(tid), "thread %d has ended", tid)
	}
}

// The threads that the runtime starts while goroutines are pinned, for goroutines
// that those have started, are as free as the process.
func TestPinDoesNotLeakToOtherThreads(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("a single CPU: every mask is the same")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	free := mask(t)
	p, err := Pin(cpus[0])
	require.NoError(t, err)

	// Each holds a thread until all have one, so most of them are new.
	const threads = 16
	var ready, done sync.WaitGroup
	ready.Add(threads)
	var narrowed atomic.Int32
	for range threads {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var set unix.CPUSet
			if unix.SchedGetaffinity(0, &set) != nil || set != free {
				narrowed.Add(1)
			}
			ready.Done()
			ready.Wait()
		})
	}
	done.Wait()
	require.NoError(t, p.Unpin())
	require.Zero(t, narrowed.Load(), "of %d threads", threads)
}

func TestMaskHasAnyNumberOfCPUs(t *testing.T) {
	a := make(affinity, 3*64/wordBits)
	cpus := []int{0, 1, 31, 32, 63, 64, 127, 128, 191}
	for _, cpu := range cpus {
		a.set(cpu)
	}
	require.Equal(t, cpus, a.cpus())
	require.Empty(t, affinity(nil).cpus())

	_, err := affinityOf(math.MaxInt32) // no such thread
	require.ErrorIs(t, err, unix.ESRCH)
	require.Error(t, make(affinity, 1).restore(), "a thread without a CPU is refused")
}

const restrictedTo = "HEIST_TEST_RESTRICTED_TO"

// The other half of TestRestrictedProcessSeesItsCPUOnly: it runs in the child.
func TestRestrictedChild(t *testing.T) {
	only := os.Getenv(restrictedTo)
	if only == "" {
		t.Skip("not the child")
	}
	cpus, err := Allowed()
	require.NoError(t, err)
	require.Equal(t, "["+only+"]", fmt.Sprint(cpus))
	require.Equal(t, 1, runtime.NumCPU())

	p, err := Pin(cpus[0])
	require.NoError(t, err)
	require.Equal(t, cpus[0], currentCPU(t))
	require.NoError(t, p.Unpin())
	_, err = Pin(cpus[0] + 1)
	require.ErrorContains(t, err, "this process may use CPUs ["+only+"]")
}

// What taskset does to a process: it starts with a narrowed mask.
func TestRestrictedProcessSeesItsCPUOnly(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, cpu := range []int{cpus[0], cpus[len(cpus)-1]} {
		child := exec.Command(self, "-test.run=^TestRestrictedChild$", "-test.v")
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", restrictedTo, cpu), "GORACE=atexit_sleep_ms=0")

		p, err := Pin(cpu) // a child inherits the mask of the thread that starts it
		require.NoError(t, err)
		output, err := child.CombinedOutput()
		require.NoError(t, p.Unpin())
		if errors.Is(err, unix.ENOEXEC) {
			t.Skip("an emulator runs this test but cannot start it again")
		}
		require.NoError(t, err, "%s", output)
		require.True(t, strings.Contains(string(output), "--- PASS: TestRestrictedChild"), "%s", output)
	}
}
