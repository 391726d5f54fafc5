package heist

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// affinity is a thread's CPU mask in the kernel's layout. unix.CPUSet holds only
// 1024 CPUs.
type affinity []uintptr

const wordBits = bits.UintSize

// largestMask bounds the search for the size of the kernel's mask: 2^19 CPUs, 64
// times what Linux can be configured for.
const largestMask = 1 << 19 / wordBits

// affinityOf returns the mask of a thread; tid 0 is the calling thread.
func affinityOf(tid int) (affinity, error) {
	// The kernel returns EINVAL while a is smaller than its own mask.
	for words := 1024 / wordBits; words <= largestMask; words *= 2 {
		a := make(affinity, words)
		n, _, errno := syscall.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), uintptr(words*wordBits/8), uintptr(unsafe.Pointer(&a[0])))
		switch errno {
		case 0:
			return a[:(int(n)*8+wordBits-1)/wordBits], nil
		case unix.EINVAL:
			continue
		}
		return nil, os.NewSyscallError("sched_getaffinity", errno)
	}
	return nil, fmt.Errorf("sched_getaffinity: the kernel's CPU mask is larger than %d CPUs", largestMask*wordBits)
}

func (a affinity) set(cpu int) { a[cpu/wordBits] |= 1 << (cpu % wordBits) }

func (a affinity) has(cpu int) bool {
	return cpu/wordBits < len(a) && a[cpu/wordBits]&(1<<(cpu%wordBits)) != 0
}

// everyCPU is a mask of all CPUs that fit.
func everyCPU(words int) affinity { return slices.Repeat(affinity{math.MaxUint}, words) }

func (a affinity) cpus() []int {
	var cpus []int
	for i, word := range a {
		for ; word != 0; word &= word - 1 {
			cpus = append(cpus, i*wordBits+bits.TrailingZeros(uint(word)))
		}
	}
	return cpus
}

// without returns the mask with these CPUs removed.
func (a affinity) without(cpus []int) affinity {
	rest := slices.Clone(a)
	for _, cpu := range cpus {
		if cpu/wordBits < len(rest) {
			rest[cpu/wordBits] &^= 1 << (cpu % wordBits)
		}
	}
	return rest
}

func (a affinity) isEmpty() bool {
	return !slices.ContainsFunc(a, func(word uintptr) bool { return word != 0 })
}

// give sets the mask of a thread to a; tid 0 is the calling thread.
func (a affinity) give(tid int) error {
	_, _, errno := syscall.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(tid), uintptr(len(a)*wordBits/8), uintptr(unsafe.Pointer(&a[0])))
	if errno != 0 {
		return os.NewSyscallError("sched_setaffinity", errno)
	}
	return nil
}

// A binding is a Pin. Its fields are under isolation.mu.
type binding struct {
	thread *boundThread // nil when it is undone
	mask   affinity     // what Pin asked for
}

// A boundThread is a thread with live Pins, those that are not undone. Each of them locks the goroutine to the
// thread, so they are all of one goroutine and of the coroutines that run in its place. The thread's mask is that of
// its latest live Pin, and what it was before the first when none is left. Its fields are under isolation.mu.
type boundThread struct {
	tid    int
	since  time.Duration // when the first Pin was, since boot
	before affinity      // nil for what free threads have
	pins   []*binding    // the live ones, in the order of their calls; never empty in isolations.bound
}

// due is the thread's mask when these of its Pins are live.
func (t *boundThread) due(pins []*binding) affinity {
	if len(pins) == 0 {
		return t.before
	}
	return pins[len(pins)-1].mask
}

// mask is the mask of the latest Pin.
func (t *boundThread) mask() affinity { return t.due(t.pins) }

// bootTime returns the time since boot.
func bootTime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return math.MaxInt64
	}
	return time.Duration(now.Nano())
}

// beginOf returns when the calling thread began, since boot, and 0 if the system does not tell. It may be a tick too
// early, but never late.
func beginOf() time.Duration {
	stat, err := os.ReadFile("/proc/thread-self/stat")
	if err != nil {
		return 0
	}
	const start = 22 - 3 // in proc(5) it is field 22; the first one behind the name, which may have blanks, is field 3
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= start {
		return 0
	}
	ticks, _ := strconv.ParseInt(fields[start], 10, 64)
	return time.Duration(ticks) * (time.Second / 100) // the unit of /proc on every machine that Go supports
}

// here returns what is known of the calling thread: a new boundThread if it has no live Pin. A goroutine can end
// without Unpin, and its thread with it, and a thread that begins later can have the same number.
func (s *isolations) here() (*boundThread, error) {
	tid := unix.Gettid()
	if t := s.bound[tid]; t != nil {
		if beginOf() <= t.since {
			return t, nil
		}
		delete(s.bound, tid)
		delete(s.before, tid)
	}
	mask, err := affinityOf(0)
	if err != nil {
		return nil, err
	}
	t := &boundThread{tid: tid, since: bootTime()}
	if before := s.unnarrowed(tid, mask, s.cpus); !slices.Equal(before, s.free) {
		t.before = before
	}
	return t, nil
}

// bind binds the calling thread to the CPUs.
func bind(cpus []int) (*binding, error) {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.here()
	if err != nil {
		return nil, err
	}
	b := &binding{thread: t, mask: make(affinity, len(s.free))}
	for _, cpu := range cpus {
		b.mask.set(cpu)
	}
	if err := s.give(0, b.mask); err != nil {
		return nil, err
	}
	s.forgetDead()
	t.pins = append(t.pins, b)
	s.bound[t.tid] = t
	return b, nil
}

// check says why the caller must not use the binding.
func (b *binding) check() error {
	if b.thread == nil {
		return errUnpinned
	}
	if isolation.bound[unix.Gettid()] != b.thread {
		return errElsewhere
	}
	return nil
}

// renew binds the thread to the CPUs of its latest binding again.
func (b *binding) renew() error {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	return s.give(0, b.thread.mask())
}

// undo takes the binding from those of its thread. If it was the latest, the thread gets the mask that is due without
// it.
func (b *binding) undo() error {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	t := b.thread
	rest := slices.DeleteFunc(slices.Clone(t.pins), func(other *binding) bool { return other == b })
	if t.pins[len(t.pins)-1] == b {
		s.look()
		due := t.due(rest)
		if err := s.give(0, due); err != nil {
			return fmt.Errorf("the thread stays bound: %w", err)
		}
		s.note(t.tid, due)
	}
	if t.pins = rest; len(rest) == 0 {
		delete(s.bound, t.tid)
	}
	b.thread = nil
	return nil
}

func allowed() ([]int, error) {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, fmt.Errorf("heist: cannot find out which CPUs the process may use: %w", s.err)
	}
	s.look()
	return s.free.cpus(), nil
}
