package heist

import (
	"errors"
	"fmt"
	"slices"
)

// Isolation keeps CPUs free of the process's other threads. [Isolate] makes it.
type Isolation struct {
	cpus     []int
	restored bool // under isolation.mu
}

// Isolate takes these CPUs from all threads of the process, including those of the Go
// runtime and those that it starts later. Threads that are bound to no other CPUs, for
// example by [Pin], keep them. [Isolation.Restore] gives the CPUs back. Isolate does not
// affect the threads of other processes; see the kernel's isolcpus or cpusets for those.
//
// Several isolations of different CPUs can exist at the same time. Isolate fails if no CPU
// would be left for the other threads, if a CPU is isolated already or not allowed (see
// [Allowed]), and with [ErrPinning] on systems other than Linux; then nothing has changed.
//
// Any goroutine may call it. Cost: some five system calls for each thread of the process,
// and two short stops of the world; more where threads end all the time.
func Isolate(cpus ...int) (*Isolation, error) {
	if len(cpus) == 0 {
		return nil, errors.New("heist: Isolate without a CPU; give at least one, see Allowed")
	}
	allowed, err := Allowed()
	if err != nil {
		return nil, err
	}
	for i, cpu := range cpus {
		if !slices.Contains(allowed, cpu) {
			return nil, fmt.Errorf("heist: cannot isolate CPU %d: this process may use CPUs %v", cpu, allowed)
		}
		if slices.Contains(cpus[:i], cpu) {
			return nil, fmt.Errorf("heist: cannot isolate CPU %d: it is given twice", cpu)
		}
	}
	if err := isolate(cpus); err != nil {
		return nil, err
	}
	return &Isolation{cpus: slices.Clone(cpus)}, nil
}

// Restore gives the CPUs back to all threads that have lost them. After an error, for
// example because the process has no file descriptor left, the isolation is still in
// effect, and Restore can be called again. After a success further calls do nothing.
// Restore of a nil or zero Isolation is an error. Any goroutine may call it.
func (i *Isolation) Restore() error {
	if i == nil || i.cpus == nil {
		return errors.New("heist: Restore of a nil or zero Isolation; use the one that Isolate returns")
	}
	return i.restore()
}
