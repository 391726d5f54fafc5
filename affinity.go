package heist

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
)

// ErrPinning is the error, possibly wrapped, on systems that cannot bind threads to CPUs.
var ErrPinning = errors.New("heist: this system does not bind threads to CPUs")

// Pinned is a binding that [Pin] made. It belongs to the goroutine that made it. The methods of
// a nil or zero Pinned return an error.
type Pinned struct {
	cpus    []int
	binding *binding
}

// Pin locks the calling goroutine to its OS thread and binds the thread to the given
// CPUs, by their numbers in the kernel. [Pinned.Unpin] undoes both. After an error
// nothing has changed.
//
// A goroutine may call Pin several times. The CPUs of its latest Pin that is not undone
// count, in whatever order the others are undone.
//
// It fails for a CPU that does not exist or that the process may not use (see [Allowed]),
// and with [ErrPinning] on systems other than Linux.
//
// Threads that the runtime starts later do not inherit the binding, because the runtime
// never clones a locked thread. A process that the goroutine starts does inherit it.
//
// Cost: some system calls, and for a Pin inside another one a read of /proc.
func Pin(cpus ...int) (*Pinned, error) {
	if len(cpus) == 0 {
		return nil, errors.New("heist: Pin without a CPU; give at least one, see Allowed")
	}
	allowed, err := Allowed()
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		if !slices.Contains(allowed, cpu) {
			return nil, fmt.Errorf("heist: cannot pin to CPU %d: this process may use CPUs %v (what taskset, the cpuset of its cgroup and the CPUs that are online leave)", cpu, allowed)
		}
	}
	runtime.LockOSThread()
	b, err := bind(cpus)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("heist: cannot pin to CPUs %v: %w", cpus, err)
	}
	return &Pinned{slices.Clone(cpus), b}, nil
}

// Rebind binds the thread again to the CPUs of the goroutine's latest [Pin]. The kernel
// drops the binding when all of these CPUs go offline or leave the process's cpuset, and
// does not restore it when they return. Rebind fails while they are gone, and after
// Unpin. Only the goroutine that called Pin may call it.
func (p *Pinned) Rebind() error {
	if p.isZero() {
		return errors.New("heist: Rebind of a nil or zero Pinned; use the one that Pin returns")
	}
	if err := p.binding.renew(); err != nil {
		return fmt.Errorf("heist: cannot pin to CPUs %v again: %w", p.cpus, err)
	}
	return nil
}

// Unpin gives the thread back the CPUs that it had before Pin, and then unlocks the
// goroutine from it, in this order, so that no other goroutine runs on a bound thread. If
// the kernel refuses the old CPUs, Unpin returns the error and leaves the goroutine
// locked; the thread is destroyed when the goroutine ends.
//
// A second call, and a call by another goroutine than Pin's, return an error and change
// nothing.
func (p *Pinned) Unpin() error {
	if p.isZero() {
		return errors.New("heist: Unpin of a nil or zero Pinned; use the one that Pin returns")
	}
	if err := p.binding.undo(); err != nil {
		return fmt.Errorf("heist: cannot unpin from CPUs %v: %w", p.cpus, err)
	}
	runtime.UnlockOSThread()
	return nil
}

func (p *Pinned) isZero() bool { return p == nil || p.binding == nil }

var (
	errUnpinned  = errors.New("Unpin was called before")
	errElsewhere = errors.New("this is not the goroutine that called Pin")
)

// Allowed returns the CPUs that the process may use now, in ascending order. On Linux
// these are the CPUs that are online and that the mask of the process, which taskset
// sets, and its cpuset leave; neither [Pin] nor [Isolate] takes any away. Elsewhere they
// are 0 to runtime.NumCPU()-1.
//
// Cost: a system call; where a thread has other CPUs than at the last look, some for each
// thread of the process.
func Allowed() ([]int, error) { return allowed() }
