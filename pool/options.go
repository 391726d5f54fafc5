package pool

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

// Option sets something of a new pool; see [New].
type Option func(*config) error

type config struct {
	workers int
	pinning Pinning
	cpus    []int // one for each worker, round and round; nil if not pinned
}

// Pinning says to what workers are bound.
type Pinning int

const (
	// PinAuto binds each worker to a CPU where the system can do that, and leaves
	// it to the system otherwise. It is the default.
	PinAuto Pinning = iota
	// PinCores binds each worker to a CPU; New fails if the system cannot.
	PinCores
	// PinNone leaves it to the system where workers run. For a pool that shares
	// its machine with other busy processes that is often better: a bound worker
	// waits for its CPU even if another is free.
	PinNone
)

// maxWorkers stays below the 10,000 threads at which the Go runtime ends a process
// (debug.SetMaxThreads), and above the CPUs of any machine.
const maxWorkers = 1 << 13

// WithWorkers sets the number of workers, from 1 to 8192. More workers than CPUs are
// allowed; they share them.
func WithWorkers(n int) Option {
	return func(c *config) error {
		if n < 1 || n > maxWorkers {
			return fmt.Errorf("pool: WithWorkers(%d): the number of workers must be from 1 to %d", n, maxWorkers)
		}
		c.workers = n
		return nil
	}
}

// WithPinning sets to what workers are bound.
func WithPinning(p Pinning) Option {
	return func(c *config) error {
		if p < PinAuto || p > PinNone {
			return fmt.Errorf("pool: WithPinning(%d): it must be PinAuto, PinCores or PinNone", p)
		}
		c.pinning = p
		return nil
	}
}

// WithCPUs binds the workers to these CPUs, by their numbers in the kernel, in this
// order and, if there are more workers, round again. Without [WithWorkers] there are
// as many workers as CPUs. The CPUs must be among those that the process may use,
// see [heist.Allowed].
func WithCPUs(cpus ...int) Option {
	return func(c *config) error {
		if len(cpus) == 0 {
			return errors.New("pool: WithCPUs without a CPU; leave it out to use all CPUs that are allowed")
		}
		allowed, err := heist.Allowed()
		if err != nil {
			return err
		}
		for i, cpu := range cpus {
			if !slices.Contains(allowed, cpu) {
				return fmt.Errorf("pool: WithCPUs: CPU %d does not exist or is not allowed to this process, which may use CPUs %v", cpu, allowed)
			}
			if slices.Contains(cpus[:i], cpu) {
				return fmt.Errorf("pool: WithCPUs: CPU %d is given twice", cpu)
			}
		}
		c.cpus = slices.Clone(cpus)
		return nil
	}
}

func configure(options []Option) (*config, error) {
	c := new(config)
	for _, o := range options {
		if o == nil {
			return nil, errors.New("pool: New was given a nil Option")
		}
		if err := o(c); err != nil {
			return nil, err
		}
	}
	if c.cpus != nil {
		if c.pinning == PinNone {
			return nil, errors.New("pool: WithCPUs and PinNone contradict each other; leave one of them out")
		}
		c.pinning = PinCores
		if c.workers == 0 {
			c.workers = len(c.cpus)
		}
		return c, nil
	}
	allowed, err := heist.Allowed()
	if err != nil && c.pinning == PinCores {
		return nil, err
	}
	if c.workers == 0 {
		c.workers = runtime.GOMAXPROCS(0)
		if len(allowed) > 0 {
			c.workers = min(c.workers, len(allowed))
		}
	}
	if c.pinning == PinNone || c.pinning == PinAuto && !canPin(allowed) {
		return c, nil
	}
	c.cpus = spread(allowed)
	return c, nil
}

// canPin tries it out, on a thread of its own. A sandbox may refuse the system call.
func canPin(cpus []int) bool {
	if len(cpus) == 0 {
		return false
	}
	result := make(chan error)
	go func() {
		pinned, err := heist.Pin(cpus...)
		if err == nil {
			err = pinned.Unpin()
		}
		result <- err
	}()
	return <-result == nil
}

// spread orders the CPUs so that the first workers get cores of their own, and the
// second hardware threads of cores come last.
func spread(cpus []int) []int {
	// What is wrong with /sys does not matter here: the CPUs that it is silent about
	// keep their place.
	topology, _ := numa.Read()
	order := slices.Clone(cpus)
	rank := make(map[int]int) // CPU -> how many CPUs of its core come before it
	for _, core := range topology.Cores {
		n := 0
		for _, cpu := range core {
			if slices.Contains(cpus, cpu) {
				rank[cpu] = n
				n++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank[a] - rank[b] })
	return order
}
