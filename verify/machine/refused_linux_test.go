package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

func init() {
	programs["load"] = useEverything
	programs["pin"] = tryToPin
	programs["memory"] = tryMemory
	programs["unpin"] = closeWithoutAffinity
	programs["no heist futex"] = useEverythingWithoutFutex
}

// useEverything uses everything for as long as the child should, and tells how much that was.
func useEverything() error {
	c, err := useAndCount()
	if err != nil {
		return err
	}
	return child.Tell(c)
}

func useAndCount() (load.Counts, error) {
	d, err := child.Duration()
	if err != nil {
		return load.Counts{}, err
	}
	return load.For(d)
}

// errnos are what sandboxes answer.
var errnos = []unix.Errno{unix.EPERM, unix.ENOSYS}

// result runs a program from whose beginning these calls are refused, and decodes what it told.
func result(t *testing.T, program string, v any, calls ...refusal) {
	t.Helper()
	stdout, stderr, err := run(t, program, calls...)
	require.NoError(t, err, "%s", stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), v), "%q", stdout)
}

// run runs a program from whose beginning these calls are refused. The test is skipped where the
// kernel does not filter calls.
func run(t *testing.T, program string, calls ...refusal) (stdout, stderr string, err error) {
	t.Helper()
	c := child.Command(t, program, child.For(duration()))
	if len(calls) > 0 {
		c.Env = append(c.Env, refusing(calls...))
	}
	stdout, stderr, err = child.Run(c)
	if c.ProcessState.ExitCode() == exitNoFilter {
		t.Skip("the kernel does not filter system calls: ", stderr)
	}
	return stdout, stderr, err
}

// Package heist has no use for these calls, or can do without. It does not use membarrier at all;
// if a fence ever relied on it, this test would have to change.
func TestHeistDoesWithoutGetcpuMembarrierAndYield(t *testing.T) {
	claim.That(t, "getcpu, membarrier and sched_yield may be refused: nothing is lost",
		"a seccomp filter from the child's beginning; deques, rings, injectors and a pool")
	var sum []string
	for _, errno := range errnos {
		for _, call := range []uint32{unix.SYS_GETCPU, unix.SYS_MEMBARRIER, unix.SYS_SCHED_YIELD} {
			var c load.Counts
			result(t, "load", &c, refusal{call, errno})
			sum = append(sum, c.String())
		}
	}
	var all load.Counts
	result(t, "load", &all, refusal{unix.SYS_GETCPU, unix.EPERM}, refusal{unix.SYS_MEMBARRIER, unix.EPERM}, refusal{unix.SYS_SCHED_YIELD, unix.EPERM})
	claim.Amount(t, "%d refusals one by one, and all at once with %v", len(sum), all)
}

// attempts has the results of attempts to bind threads.
type attempts struct {
	Pinned  bool // the pool without options
	CPU     int  // numa.CurrentCPU
	Allowed string
	Pin     string            // heist.Pin
	Locked  bool              // after that
	New     map[string]string // pool.New that must bind
	Load    load.Counts
}

func tryToPin() error {
	a := attempts{CPU: numa.CurrentCPU(), New: make(map[string]string)}
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	_, err := heist.Allowed()
	a.Allowed = text(err)
	_, err = heist.Pin(0)
	a.Pin = text(err)
	for name, option := range map[string]pool.Option{
		"PinCores": pool.WithPinning(pool.PinCores),
		"PinL3":    pool.WithPinning(pool.PinL3),
		"PinNodes": pool.WithPinning(pool.PinNodes),
		"CPUs":     pool.WithCPUs(0),
	} {
		p, err := pool.New(option, pool.WithWorkers(1))
		if p != nil {
			err = errors.Join(err, p.Close(), errors.New("there is a pool"))
		}
		a.New[name] = text(err)
	}
	p, err := pool.New()
	if err != nil {
		return err
	}
	pinning, _ := p.Pinning()
	a.Pinned = pinning != pool.PinNone
	if _, err := load.Pool(p); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if a.Load, err = useAndCount(); err != nil {
		return err
	}
	return child.Tell(a)
}

func TestWithoutAffinityAPoolIsNotPinnedUnlessItMustBe(t *testing.T) {
	claim.That(t, "sched_setaffinity may be refused: New works without pinning, or says why not if pinning was asked for",
		"a seccomp filter from the child's beginning; pools with each kind of pinning")
	withoutAffinity(t, unix.SYS_SCHED_SETAFFINITY, "sched_setaffinity: ", func(a attempts) { require.Empty(t, a.Allowed) })
}

// The Go runtime then believes that it has one CPU.
func TestUnknownAffinityIsAnErrorOnlyIfItIsNeeded(t *testing.T) {
	claim.That(t, "sched_getaffinity may be refused: New works without pinning, or says why not if pinning was asked for",
		"a seccomp filter from the child's beginning; pools with each kind of pinning")
	withoutAffinity(t, unix.SYS_SCHED_GETAFFINITY, "cannot find out which CPUs the process may use: sched_getaffinity: ",
		func(a attempts) { a.New["heist.Allowed"] = a.Allowed })
}

// withoutAffinity requires that everything that needs the call reports its refusal. look may add
// errors to those of New.
func withoutAffinity(t *testing.T, call uint32, says string, look func(a attempts)) {
	t.Helper()
	errs := 0
	var done load.Counts
	for _, errno := range errnos {
		var a attempts
		result(t, "pin", &a, refusal{call, errno})
		require.False(t, a.Pinned)
		a.New["heist.Pin"] = a.Pin
		look(a)
		for name, err := range a.New {
			require.Contains(t, err, says+errno.Error(), name)
			require.NotContains(t, err, "there is a pool", name)
			errs++
		}
		done = a.Load
	}
	claim.Amount(t, "%d clear errors; unpinned: %v", errs, done)
}

// memoryCalls are those that place memory on nodes, or tell where it is.
var memoryCalls = []uint32{unix.SYS_MBIND, unix.SYS_MOVE_PAGES, unix.SYS_SET_MEMPOLICY, unix.SYS_GET_MEMPOLICY}

// placements has the results of attempts to place memory.
type placements struct {
	Errors  []bool // whether they are numa.ErrMemoryPolicy
	Texts   []string
	Plain   int // bytes that could be had without a policy
	Counted load.Counts
}

func tryMemory() error {
	var p placements
	for _, policy := range []numa.Policy{numa.Bind(0), numa.Prefer(0), numa.Interleave(0), numa.Blocks(0)} {
		m, err := numa.Map(1<<20, policy)
		if m != nil {
			err = errors.Join(err, m.Close(), errors.New("there is memory"))
		}
		p.Errors = append(p.Errors, errors.Is(err, numa.ErrMemoryPolicy))
		p.Texts = append(p.Texts, fmt.Sprint(err))
	}
	m, err := numa.Map(1<<20, numa.Policy{})
	if err != nil {
		return err
	}
	p.Plain = len(m.Bytes())
	if err := errors.Join(m.Touch(), m.Close()); err != nil {
		return err
	}
	if p.Counted, err = useAndCount(); err != nil {
		return err
	}
	return child.Tell(p)
}

func TestRefusedMemoryPoliciesAreErrorsAndThePoolNeedsNone(t *testing.T) {
	claim.That(t, "mbind, move_pages and the like may be refused: numa says so, the pool does without",
		"a seccomp filter from the child's beginning; memory with each policy and with none, and a pool")
	var calls []refusal
	for _, call := range memoryCalls {
		calls = append(calls, refusal{call, unix.EPERM})
	}
	var p placements
	result(t, "memory", &p, calls...)
	for i, is := range p.Errors {
		require.True(t, is, p.Texts[i])
		require.NotContains(t, p.Texts[i], "there is memory")
	}
	require.Equal(t, 1<<20, p.Plain)
	claim.Amount(t, "%d errors of %d policies; %v", len(p.Errors), len(p.Errors), p.Counted)
}

// unpinning is what came of threads that could not be given their old CPUs back.
type unpinning struct {
	Narrowed int // threads, while the pool was open
	Others   int // goroutines that had a thread each afterwards
	Bound    int // of those, goroutines on a thread that was narrowed
}

func closeWithoutAffinity() error {
	var u unpinning
	p, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithWorkers(8))
	if err != nil {
		return err
	}
	endWithoutFilter(refuse(refusal{unix.SYS_SCHED_SETAFFINITY, unix.EPERM}))
	if _, err := load.Pool(p); err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if isNarrowed(tid) {
			u.Narrowed++
		}
	}
	if err := p.Close(); err != nil {
		return err
	}
	u.Others = 100
	var meet, over sync.WaitGroup
	var bound atomic.Int32
	meet.Add(u.Others)
	for range u.Others {
		over.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			meet.Done()
			meet.Wait()
			if isNarrowed(0) {
				bound.Add(1)
			}
		})
	}
	over.Wait()
	u.Bound = int(bound.Load())
	return child.Tell(u)
}

// isNarrowed says whether a thread may not use all CPUs of the process. Zero is the caller's.
func isNarrowed(tid int) bool {
	allowed, err := heist.Allowed()
	var mask unix.CPUSet
	return err == nil && unix.SchedGetaffinity(tid, &mask) == nil && mask.Count() < len(allowed)
}

func TestThreadsThatCannotBeUnpinnedAreNotUsedAgain(t *testing.T) {
	claim.That(t, "sched_setaffinity may be refused later: Close works, and no goroutine gets a thread that is still bound",
		"a seccomp filter that is installed while a pinned pool works; the masks of threads before and after Close")
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("with a single CPU, pinned and not pinned are the same")
	}
	var u unpinning
	result(t, "unpin", &u)
	require.Equal(t, 8, u.Narrowed)
	require.Zero(t, u.Bound)
	claim.Amount(t, "%d bound threads; afterwards %d goroutines with a thread each, %d of them bound", u.Narrowed, u.Others, u.Bound)
}

// Go's own locks sleep on futexes, so there is no program in which heist could do without them.
func TestWithoutFutexGoItselfEndsTheProcess(t *testing.T) {
	claim.That(t, "where futex is refused Go's runtime ends the process and says so: no pool hangs or spins",
		"a seccomp filter from the child's beginning")
	ends := 0
	for _, errno := range errnos {
		_, stderr, err := run(t, "load", refusal{unix.SYS_FUTEX, errno})
		require.Error(t, err)
		require.Contains(t, stderr, "futexwakeup addr=")
		require.Contains(t, stderr, fmt.Sprintf("returned -%d\n", int(errno)))
		ends++
	}
	claim.Amount(t, "%d ends with Go's message", ends)
}

// useEverythingWithoutFutex refuses futex where package heist calls it, and nowhere else: the
// filter knows the calling instruction, and the runtime has one of its own.
func useEverythingWithoutFutex() error {
	from, to, err := rawSyscall()
	if err != nil {
		return err
	}
	endWithoutFilter(refuseFutexBetween(from, to))
	if _, _, errno := syscall.RawSyscall6(unix.SYS_FUTEX, 0, 0, 0, 0, 0, 0); errno != unix.EPERM {
		return fmt.Errorf("the filter does not work: %w", errno)
	}
	return useEverything()
}

func TestAFutexThatDoesNotSleepLosesNothing(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the filter is for 64-bit words, the lower half first")
	}
	claim.That(t, "a futex call that fails is a wake-up without a cause, and loses nothing",
		"a seccomp filter that refuses the calls of heist, and not those of the Go runtime")
	var c load.Counts
	result(t, "no heist futex", &c)
	require.NotZero(t, c.Parks)
	claim.Amount(t, "%v", c)
}

// rawSyscall returns where the function is that makes all system calls except for the runtime's
// own: from its first byte to that of the next function.
func rawSyscall() (from, to uintptr, err error) {
	for pc := reflect.ValueOf(syscall.RawSyscall6).Pointer(); ; {
		f := runtime.FuncForPC(pc - 1)
		if f == nil {
			return 0, 0, errors.New("this binary has no internal/runtime/syscall.Syscall6 below syscall.RawSyscall6")
		}
		to, pc = pc, f.Entry()
		if strings.HasSuffix(f.Name(), "runtime/syscall/linux.Syscall6") || strings.HasSuffix(f.Name(), "runtime/syscall.Syscall6") {
			return pc, to, nil
		}
	}
}

// refuseFutexBetween has the kernel refuse futex if the calling instruction lies between two
// addresses, which must be below 4 GiB.
func refuseFutexBetween(from, to uintptr) error {
	if uint64(to) >= 1<<32 {
		return fmt.Errorf("the program lies above 4 GiB, at %#x", to)
	}
	// Offsets in the kernel's struct seccomp_data.
	const number, instruction = 0, 8
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	const jump = unix.BPF_JMP | unix.BPF_K
	return install([]unix.SockFilter{
		load(number),
		{Code: jump | unix.BPF_JEQ, K: unix.SYS_FUTEX, Jf: 6},
		load(instruction + 4),
		{Code: jump | unix.BPF_JEQ, K: 0, Jf: 4},
		load(instruction),
		{Code: jump | unix.BPF_JGE, K: uint32(from), Jf: 2},
		{Code: jump | unix.BPF_JGT, K: uint32(to), Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	})
}
