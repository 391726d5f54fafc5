package heist

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"syscall"
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

// A binding is a Pin of a thread. Its fields are under isolation.mu.
type binding struct {
	thread int      // 0 when it is undone
	mask   affinity // what Pin asked for
	before affinity // what the thread has when this Pin and those after it are undone; nil for what free threads have
	outer  *binding // the Pin that was in effect before; nil for none
}

// bind binds the calling thread to the CPUs.
func bind(cpus []int) (*binding, error) {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	mask, err := affinityOf(0)
	if err != nil {
		return nil, err
	}
	tid := unix.Gettid()
	b := &binding{thread: tid, mask: make(affinity, len(s.free))}
	for _, cpu := range cpus {
		b.mask.set(cpu)
	}
	if before := s.unnarrowed(tid, mask, s.cpus); !slices.Equal(before, s.free) {
		b.before = before
	}
	// An entry with another mask is that of an ended thread that had the same number, or the kernel has dropped
	// the binding.
	if outer := s.bound[tid]; outer != nil && slices.Equal(outer.mask, b.before) {
		b.outer = outer
	}
	if err := s.give(0, b.mask); err != nil {
		return nil, err
	}
	s.forgetDead()
	s.bound[tid] = b
	return b, nil
}

// check says why the caller must not use the binding.
func (b *binding) check() error {
	switch b.thread {
	case unix.Gettid():
		return nil
	case 0:
		return errUnpinned
	}
	return errElsewhere
}

// renew binds the thread to the CPUs of its latest binding again.
func (b *binding) renew() error {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	return s.give(0, s.bound[b.thread].mask)
}

// undo takes the binding from those of its thread. If it was the latest one, the thread gets back the mask that it
// had before.
func (b *binding) undo() error {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	if latest := s.bound[b.thread]; latest != b {
		for n := latest; n != nil; n = n.outer {
			if n.outer == b {
				n.outer, n.before = b.outer, b.before
			}
		}
		b.thread = 0
		return nil
	}
	s.look()
	if err := s.give(0, b.before); err != nil {
		return fmt.Errorf("the thread stays bound: %w", err)
	}
	if s.bound[b.thread] = b.outer; b.outer == nil {
		delete(s.bound, b.thread)
	}
	s.note(b.thread, b.before)
	b.thread = 0
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
