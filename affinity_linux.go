package heist

import (
	"fmt"
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

// bind binds the calling thread to the CPUs and returns the mask that it had before.
func bind(cpus []int) (affinity, error) {
	isolation.mu.Lock()
	defer isolation.mu.Unlock()
	before, err := affinityOf(0)
	if err != nil {
		return nil, err
	}
	before = unnarrowed(unix.Gettid(), before, isolation.cpus)
	return before, bindHere(cpus)
}

// rebind binds the calling thread to the CPUs again.
func rebind(cpus []int) error {
	isolation.mu.Lock()
	defer isolation.mu.Unlock()
	return bindHere(cpus)
}

// bindHere binds the calling thread to those of the CPUs that are not isolated, or to all
// of them if all are isolated.
func bindHere(cpus []int) error {
	mask := make(affinity, len(initial))
	for _, cpu := range cpus {
		mask.set(cpu)
	}
	if err := withoutIsolated(mask).give(0); err != nil {
		return err
	}
	isolation.forgetDead()
	isolation.bound[unix.Gettid()] = mask
	return nil
}

// restore gives the calling thread back the mask that it had before bind, without the
// CPUs that are isolated now.
func (a affinity) restore() error {
	isolation.mu.Lock()
	defer isolation.mu.Unlock()
	narrowed := withoutIsolated(a)
	if err := narrowed.give(0); err != nil {
		return err
	}
	if slices.Equal(a, initial) {
		delete(isolation.bound, unix.Gettid())
	} else { // another Pin is still in effect
		isolation.bound[unix.Gettid()] = a
	}
	if !slices.Equal(a, narrowed) {
		isolation.before[unix.Gettid()] = a
	}
	return nil
}

// initial is the mask that the process was started with. The package's initialisation
// reads it, on the main thread; later, Pin may have narrowed any thread, including the
// main one.
var initial, initialErr = affinityOf(0)

func allowed() ([]int, error) {
	if initialErr != nil {
		return nil, fmt.Errorf("heist: cannot find out which CPUs the process may use: %w", initialErr)
	}
	return initial.cpus(), nil
}
