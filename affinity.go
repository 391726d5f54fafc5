package heist

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
)

// ErrPinning is the error, possibly wrapped, on systems that cannot bind threads to CPUs.
var ErrPinning = errors.New("heist: this system does not bind threads to CPUs")

// Pinned is a binding that [Pin] made. It belongs to the goroutine that made it.
type Pinned struct {
	before affinity
	cpus   []int
}

// Pin locks the calling goroutine to its OS thread and binds the thread to the given
// CPUs, by their numbers in the kernel. [Pinned.Unpin] undoes both. After an error
// nothing has changed.
//
// It fails for a CPU that does not exist or that the process may not use (see [Allowed]),
// and with [ErrPinning] on systems other than Linux.
//
// Threads that the runtime starts later do not inherit the binding, because the runtime
// never clones a locked thread. A process that the goroutine starts does inherit it.
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
	before, err := bind(cpus)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("heist: cannot pin to CPUs %v: %w", cpus, err)
	}
	return &Pinned{before, slices.Clone(cpus)}, nil
}

// Rebind binds the thread again to the CPUs that were given to [Pin]. The kernel drops
// the binding when all of these CPUs go offline or leave the process's cpuset, and does
// not restore it when they return. Rebind fails while they are gone. Only the goroutine
// that called Pin may call it.
func (p *Pinned) Rebind() error {
	if err := rebind(p.cpus); err != nil {
		return fmt.Errorf("heist: cannot pin to CPUs %v again: %w", p.cpus, err)
	}
	return nil
}

// Unpin gives the thread back the CPUs that it had before Pin, and then unlocks the
// goroutine from it, in this order, so that no other goroutine runs on a bound thread. If
// the kernel refuses the old CPUs, Unpin returns the error and leaves the goroutine
// locked; the thread is destroyed when the goroutine ends. Call it once.
func (p *Pinned) Unpin() error {
	if err := p.before.restore(); err != nil {
		return fmt.Errorf("heist: cannot unpin, the thread stays bound: %w", err)
	}
	runtime.UnlockOSThread()
	return nil
}

// Allowed returns the CPUs that the process may use, in ascending order. On Linux these
// are the CPUs of the affinity mask that the process was started with, which taskset and
// cpusets restrict; elsewhere they are 0 to runtime.NumCPU()-1.
func Allowed() ([]int, error) { return allowed() }
