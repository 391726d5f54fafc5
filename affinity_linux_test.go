package heist

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
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

// pinModel says which CPUs a thread has after Pins, Isolations, and losses of the binding in any order.
type pinModel struct {
	free     []int
	pins     [][]int // the CPUs of the live Pins
	isolated []int   // at most one CPU
	has      []int
}

// follow gives the thread the CPUs of the latest Pin, or those of a free thread.
func (m *pinModel) follow() {
	due := m.free
	if len(m.pins) > 0 {
		due = m.pins[len(m.pins)-1]
	}
	left := slices.DeleteFunc(slices.Clone(due), func(cpu int) bool { return slices.Contains(m.isolated, cpu) })
	if m.has = left; len(left) == 0 {
		m.has = due
	}
}

// TestAThreadHasTheCPUsOfTheLatestLivePin whatever CPUs the Pins have, in whatever order they are undone and renewed,
// and keeps its goroutine until the last is undone. The end of each run is random, too: with Pins, or without.
func TestAThreadHasTheCPUsOfTheLatestLivePin(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	sets := [][]int{cpus[:1], cpus[len(cpus)-1:], cpus}
	elsewhere := func(f func() error) error {
		result := make(chan error)
		go func() { result <- f() }()
		return <-result
	}
	for seed := range uint64(testutil.Stress(3000)) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := pinModel{free: cpus, has: cpus}
		var isolated *Isolation
		var live, undone []*Pinned
		var history []string
		thread := endOf(t, func() {
			for range 2 + random.IntN(12) {
				lost := false // the binding, which is set again by the next step
				if len(live) > 0 && random.IntN(4) == 0 {
					history, lost = append(history, "lose"), true
					m.has = cpus
					require.NoError(t, isolation.free.give(0)) // as the system does when the CPUs go offline
				}
				i := random.IntN(len(live) + 1)
				switch step := random.IntN(20); {
				case step == 0 && !lost && len(cpus) > 1 && isolated == nil:
					history = append(history, "isolate")
					m.isolated = cpus[:1]
					isolated = mustIsolate(t, cpus[0])
					m.follow()
				case step <= 1 && !lost && isolated != nil:
					history = append(history, "restore")
					require.NoError(t, isolated.Restore())
					isolated, m.isolated = nil, nil
					m.follow()
				case step <= 3 && len(undone) > 0:
					p := undone[random.IntN(len(undone))]
					require.ErrorIs(t, p.Unpin(), errUnpinned, "%v", history)
					require.ErrorIs(t, p.Rebind(), errUnpinned, "%v", history)
				case step <= 5 && i < len(live):
					require.ErrorIs(t, elsewhere(live[i].Unpin), errElsewhere, "%v", history)
					require.ErrorIs(t, elsewhere(live[i].Rebind), errElsewhere, "%v", history)
				case step <= 10 || len(live) == 0:
					set := sets[random.IntN(len(sets))]
					history = append(history, fmt.Sprint("Pin", set))
					p, err := Pin(set...)
					require.NoError(t, err, "%v", history)
					live, m.pins = append(live, p), append(m.pins, set)
					m.follow()
				case step <= 16 && i < len(live):
					history = append(history, fmt.Sprint("Unpin ", i))
					require.NoError(t, live[i].Unpin(), "%v", history)
					undone = append(undone, live[i])
					latest := i == len(live)-1
					live, m.pins = slices.Delete(live, i, i+1), slices.Delete(m.pins, i, i+1)
					if latest {
						m.follow()
					}
				case i < len(live):
					history = append(history, fmt.Sprint("Rebind ", i))
					require.NoError(t, live[i].Rebind(), "%v", history)
					m.follow()
				}
				mask, err := affinityOf(0)
				require.NoError(t, err)
				require.Equal(t, m.has, mask.cpus(), "%v", history)
				if lost && len(live) > 0 {
					require.NoError(t, live[0].Rebind(), "%v", history)
					m.follow()
				}
			}
			if random.IntN(2) == 0 {
				for _, i := range random.Perm(len(live)) {
					require.NoError(t, live[i].Unpin(), "%v", history)
				}
				live, m.pins = nil, nil
				m.follow()
				requireMask(t, m.has)
			}
		})
		if isolated != nil {
			require.NoError(t, isolated.Restore())
		}
		if len(live) == 0 {
			require.True(t, threadExists(thread), "the goroutine ended locked after %v", history)
		} else {
			requireToEnd(t, thread)
		}
		if t.Failed() {
			return
		}
	}
}

// TestAThreadWithTheNumberOfOneThatEndedBoundIsNotBound: a goroutine ended without Unpin, and the system gives its
// thread's number to another. Neither the CPUs nor the Pinned of the old one count there.
func TestAThreadWithTheNumberOfOneThatEndedBoundIsNotBound(t *testing.T) {
	cpus := twoAllowed(t)
	if beginOf() == 0 {
		t.Skip("the system does not tell when a thread began")
	}
	for _, old := range [][]int{cpus[:1], cpus} {
		thread := endOf(t, func() {
			before := mask(t)
			ended, err := Pin(old...)
			require.NoError(t, err)
			runtime.UnlockOSThread() // as if this thread had begun after that
			ended.binding.thread.since = 0
			require.NoError(t, isolation.free.give(0))

			p, err := Pin(cpus[1])
			require.NoError(t, err)
			require.ErrorIs(t, ended.Rebind(), errElsewhere)
			require.ErrorIs(t, ended.Unpin(), errElsewhere)
			requireMask(t, cpus[1:2])
			require.NoError(t, p.Rebind())
			require.NoError(t, p.Unpin())
			require.Equal(t, before, mask(t))
		})
		require.True(t, threadExists(thread))
	}
}

// TestASecondUnpinUndoesNoOtherPin: neither the mask nor the lock of it.
func TestASecondUnpinUndoesNoOtherPin(t *testing.T) {
	cpus := twoAllowed(t)
	requireToEnd(t, endOf(t, func() {
		first, err := Pin(cpus[0])
		require.NoError(t, err)
		require.NoError(t, first.Unpin())
		runtime.UnlockOSThread() // of endOf
		second, err := Pin(cpus[1])
		require.NoError(t, err)
		for range 3 {
			require.EqualError(t, first.Unpin(), fmt.Sprintf("heist: cannot unpin from CPUs [%d]: Unpin was called before", cpus[0]))
			require.EqualError(t, first.Rebind(), fmt.Sprintf("heist: cannot pin to CPUs [%d] again: Unpin was called before", cpus[0]))
		}
		elsewhere := make(chan error, 2)
		go func() { // on another thread, since second locks this one
			elsewhere <- second.Unpin()
			elsewhere <- second.Rebind()
		}()
		require.ErrorIs(t, <-elsewhere, errElsewhere)
		require.ErrorIs(t, <-elsewhere, errElsewhere)
		requireMask(t, cpus[1:2])
		runtime.LockOSThread() // which endOf undoes
	}))
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

// pretendMoreCPUs makes the package believe, until the test ends, that the process may use n CPUs
// that the machine does not have, and returns them. The kernel refuses a mask of such CPUs alone,
// and ignores them in a mask with others, as it does with CPUs that have gone offline.
func pretendMoreCPUs(t *testing.T, n int) (pretended []int) {
	t.Helper()
	_, err := Allowed()
	require.NoError(t, err)
	real, kept := isolation.free, isolation.kept
	free := slices.Clone(real)
	for cpu := len(free)*wordBits - 1; len(pretended) < n; cpu-- { // within the mask, but hardly a CPU of the machine
		if real.has(cpu) {
			t.Skip("this machine has nearly as many CPUs as the kernel's mask has bits")
		}
		free.set(cpu)
		pretended = append(pretended, cpu)
	}
	looks := lookAgain
	isolation.free, isolation.kept, isolation.witness = free, true, 0
	lookAgain = func(*isolations) {}
	t.Cleanup(func() {
		lookAgain = looks
		isolation.free, isolation.kept = real, kept
		for tid := range masks(t) { // some may have been started meanwhile
			_ = real.give(tid)
		}
	})
	return pretended
}

// The kernel may refuse a CPU that the package takes for allowed, for instance after it went
// offline.
func TestRefusalOfTheKernelIsPassedOn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := mask(t)
	last := pretendMoreCPUs(t, 1)[0]

	p, err := Pin(last)
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, fmt.Sprintf("heist: cannot pin to CPUs [%d]: sched_setaffinity", last))
	require.Nil(t, p)
	require.Equal(t, before, mask(t))
}

// TestCPUsBetweenThoseAllowedAreNotAllowed: the kernel silently ignores such a CPU if the mask has
// another one.
func TestCPUsBetweenThoseAllowedAreNotAllowed(t *testing.T) {
	last := pretendMoreCPUs(t, 1)[0]
	cpus, err := Allowed()
	require.NoError(t, err)
	for between := cpus[len(cpus)-2] + 1; between < last; between += 7 {
		p, err := Pin(cpus[0], between)
		require.ErrorContains(t, err, fmt.Sprintf("heist: cannot pin to CPU %d: this process may use CPUs %v", between, cpus))
		require.Nil(t, p)
		isolated, err := Isolate(between)
		require.ErrorContains(t, err, fmt.Sprintf("heist: cannot isolate CPU %d: this process may use CPUs %v", between, cpus))
		require.Nil(t, isolated)
	}
}

// TestRebindingSaysThatTheCPUsAreGone: Rebind does not settle for the CPUs that the thread has
// instead.
func TestRebindingSaysThatTheCPUsAreGone(t *testing.T) {
	last := pretendMoreCPUs(t, 1)[0]
	p, err := Pin(isolation.free.cpus()[0], last)
	require.NoError(t, err)
	p.cpus, p.binding.mask = p.cpus[1:], p.binding.mask.without(p.cpus[:1]) // the only one that exists goes offline, too
	err = p.Rebind()
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, fmt.Sprintf("heist: cannot pin to CPUs [%d] again: sched_setaffinity", last))
	require.NoError(t, p.Unpin())
}

// TestBindingIsKeptApartFromTheCallersSlice: the caller may reuse its slice for the next worker's
// CPUs.
func TestBindingIsKeptApartFromTheCallersSlice(t *testing.T) {
	cpus := twoAllowed(t)
	mine := []int{cpus[1]}
	p, err := Pin(mine...)
	require.NoError(t, err)
	mine[0] = cpus[0]
	require.NoError(t, isolation.free.give(0)) // as the system does when the CPU goes offline
	require.NoError(t, p.Rebind())
	requireMask(t, cpus[1:2])
	require.NoError(t, p.Unpin())
}

func TestRefusedUnpinSaysThatTheThreadStaysBound(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	p, err := Pin(cpus[0])
	require.NoError(t, err)
	before := p.binding.thread.before
	p.binding.thread.before = make(affinity, len(p.binding.mask)) // no CPU at all

	err = p.Unpin()
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, fmt.Sprintf("heist: cannot unpin from CPUs [%d]: the thread stays bound: sched_setaffinity", cpus[0]))
	require.Equal(t, cpus[0], currentCPU(t))

	p.binding.thread.before = before
	require.NoError(t, p.Unpin())
}

// A sandbox may forbid asking for the mask.
func TestUnknownMaskIsReported(t *testing.T) {
	defer func() { isolation.err = nil }()
	isolation.err = os.NewSyscallError("sched_getaffinity", unix.EPERM)

	cpus, err := Allowed()
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "heist: cannot find out which CPUs the process may use: sched_getaffinity")
	require.Nil(t, cpus)

	p, err := Pin(0)
	require.ErrorIs(t, err, unix.EPERM)
	require.Nil(t, p)
}

// endOf runs body on a new goroutine, waits for its end, and returns its thread. A goroutine that
// ends while it is locked takes its thread with it, which the test can see.
func endOf(t *testing.T, body func()) (thread int) {
	t.Helper()
	if !threadExists(unix.Gettid()) {
		t.Skip("there is no /proc to count threads in")
	}
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // so that it stays on this thread
		id := unix.Gettid()
		if id == os.Getpid() { // the main thread stays in any case, and as long as it is locked another one has to do it
			id = endOf(t, body)
			runtime.UnlockOSThread()
			tid <- id
			return
		}
		defer func() { tid <- id }() // also if body ends the goroutine
		body()
		runtime.UnlockOSThread()
	}()
	return <-tid
}

func threadExists(tid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
	return err == nil
}

func TestPinLeavesTheGoroutineUnlockedAfterItFailedOrWasUndone(t *testing.T) {
	first, last := isolation.free.cpus()[0], pretendMoreCPUs(t, 1)[0]
	var over []int
	for range 8 {
		over = append(over,
			endOf(t, func() { _, _ = Pin() }),
			endOf(t, func() { _, _ = Pin(-1) }),
			endOf(t, func() { _, _ = Pin(last) }),
			endOf(t, func() {
				if p, err := Pin(first); err == nil {
					_ = p.Unpin()
				}
			}))
	}
	// The opposite case shows that threads do end, and gives them time to. A goroutine here may get
	// a thread of those before.
	ended := map[int]bool{}
	for range 3 {
		locked := endOf(t, runtime.LockOSThread)
		for !ended[locked] && threadExists(locked) {
			Yield()
		}
		ended[locked] = true
	}
	for _, tid := range over {
		require.True(t, ended[tid] || threadExists(tid), "thread %d has ended", tid)
	}
}

// TestThreadThatStaysBoundIsUsedByNobodyElse: after a refused Unpin the goroutine is still locked,
// so its thread ends with it.
func TestThreadThatStaysBoundIsUsedByNobodyElse(t *testing.T) {
	cpus := twoAllowed(t)
	requireToEnd(t, endOf(t, func() {
		p, err := Pin(cpus[0])
		if err != nil {
			t.Error(err)
			return
		}
		p.binding.thread.before = make(affinity, len(p.binding.mask)) // no CPU at all, which the kernel refuses
		if p.Unpin() == nil {
			t.Error("it was not refused")
		}
	}))
}

// requireToEnd waits for the end of a thread that belongs to a goroutine which has ended.
func requireToEnd(t *testing.T, thread int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); threadExists(thread); Yield() {
		require.True(t, time.Now().Before(deadline), "the thread %d is still there", thread)
	}
}

// TestAllowedFollowsWhatTheProcessMayUse: the system gives all threads other masks when the cpuset changes, or a
// CPU goes offline or comes back. Bound threads have less, and count for nothing.
func TestAllowedFollowsWhatTheProcessMayUse(t *testing.T) {
	cpus := twoAllowed(t)
	pinned, err := Pin(cpus[0])
	require.NoError(t, err)
	for _, now := range [][]int{cpus[1:], cpus, cpus[:1], cpus, cpus[1:], cpus} {
		give := make(affinity, len(isolation.free))
		for _, cpu := range now {
			give.set(cpu)
		}
		for range 2 { // and those that were being started
			for tid := range masks(t) {
				if tid != unix.Gettid() {
					_ = give.give(tid)
				}
			}
			runtime.GC()
		}
		allowed, err := Allowed()
		require.NoError(t, err)
		if now[0] != cpus[0] {
			allowed = slices.DeleteFunc(allowed, func(cpu int) bool { return cpu == cpus[0] }) // the bound thread still has it
		}
		require.Equal(t, now, allowed)
		again, err := Allowed() // from the witness
		require.NoError(t, err)
		require.Subset(t, again, now)
		require.Equal(t, len(now), len(slices.DeleteFunc(again, func(cpu int) bool { return !slices.Contains(now, cpu) })))
	}
	require.NoError(t, pinned.Unpin())
	requireAllowedEverywhere(t, cpus)
}

// Threads that the runtime starts while a goroutine is pinned, for goroutines that it has started,
// are as free as the process.
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
	require.Equal(t, []int{1, 31, 32, 64, 127, 128}, a.without([]int{0, 2, 63, 191, 192, 1000}).cpus())
	require.Equal(t, cpus, a.cpus(), "it is another mask")

	_, err := affinityOf(math.MaxInt32) // no such thread
	require.ErrorIs(t, err, unix.ESRCH)
	require.Error(t, make(affinity, 1).give(0), "a thread without a CPU is refused")
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
