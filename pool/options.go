package pool

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

// Option sets something of a new pool; see [New].
type Option func(*config) error

type config struct {
	workers    int
	maxWorkers int
	spares     int // -1 for the default
	pinning    Pinning
	cpus       []int // one for each worker, round and round; nil if not pinned

	spin       time.Duration // as in heist.Backoff
	yields     int           // as in heist.Backoff
	latency    bool
	freePs     int
	pollPeriod int // 0 if it adapts
	bound      int // 0 for none
	onPanic    func(*PanicError)
}

// Pinning says to what workers are bound.
type Pinning int

const (
	// PinAuto binds each worker to a CPU where the system can do that, and is PinNone
	// otherwise. A task that comes from outside while the pool sleeps may be run by a
	// stand-in that is not bound, which starts sooner than a thread wakes up on another
	// CPU. It is the default.
	PinAuto Pinning = iota
	// PinCores binds each worker to a CPU, without exception; New fails if the system
	// cannot.
	PinCores
	// PinNone leaves it to Go's scheduler and the system where workers run: they are
	// goroutines that are not locked to threads. For a pool that shares its machine
	// with other busy processes that is often better, for a bound worker waits for its
	// CPU even if another is free; and for one that shares its process with goroutines
	// that must not wait, for an unlocked worker gives way to them every 100
	// microseconds, where a locked one is preempted after 10 ms.
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

// WithMaxWorkers sets how many workers [Pool.Resize] can ask for: from the number that the
// pool begins with to 8192. The default is that number or GOMAXPROCS, whichever is
// greater. Cost: some kilobytes for each worker that there ever was.
func WithMaxWorkers(n int) Option {
	return func(c *config) error {
		if n < 1 || n > maxWorkers {
			return fmt.Errorf("pool: WithMaxWorkers(%d): the number must be from 1 to %d", n, maxWorkers)
		}
		c.maxWorkers = n
		return nil
	}
}

// WithSpares sets how many tasks can lend their places to spare workers at the same time,
// see [Worker.Block]: from 0 to 8192. The default is twice the workers, from 8 to 64.
func WithSpares(n int) Option {
	return func(c *config) error {
		if n < 0 || n > maxWorkers {
			return fmt.Errorf("pool: WithSpares(%d): the number must be from 0 to %d", n, maxWorkers)
		}
		c.spares = n
		return nil
	}
}

// WithSpin sets how long a worker that finds nothing to do spins before it yields its CPU
// a few times and goes to sleep; 0 is not at all. A task that comes while it spins
// starts at once; a wake-up takes 4 to 10 microseconds. The default is
// [heist.DefaultSpin], 10 microseconds, and an idle pool sleeps.
func WithSpin(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("pool: WithSpin(%v): the time must not be negative", d)
		}
		c.spin = d
		if d == 0 {
			c.spin = -1
		}
		return nil
	}
}

// WithHotWorker keeps one worker awake that would be the last to go to sleep: it spins
// until there is something to do, so a task that comes to an idle pool starts within a
// microsecond. It costs a CPU, and a P: the pool should have one worker fewer than there
// are Ps, or the rest of the process waits for the spinning worker to give way.
func WithHotWorker() Option {
	return func(c *config) error {
		c.latency = true
		return nil
	}
}

// WithFreePs raises GOMAXPROCS by n while the pool is open, so that there are Ps beside
// those that busy workers hold, and the other goroutines of the process need not wait until
// Go preempts a worker, which takes 10 ms. The threads share the CPUs then, and the system
// divides them. GOMAXPROCS is the whole process's.
func WithFreePs(n int) Option {
	return func(c *config) error {
		if n < 0 || n > maxWorkers {
			return fmt.Errorf("pool: WithFreePs(%d): the number must be from 0 to %d", n, maxWorkers)
		}
		c.freePs = n
		return nil
	}
}

// WithPollPeriod makes workers look into the injector first once in n tasks: 61 in Go's
// own scheduler and Tokio, 60 in open-coroutine. By default the period adapts to how
// long tasks take, so that what comes from outside waits a millisecond at most, and is
// from 8 to 255.
func WithPollPeriod(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("pool: WithPollPeriod(%d): the number of tasks must be at least 1", n)
		}
		c.pollPeriod = n
		return nil
	}
}

// WithQueueBound limits how many tasks wait in the injector: [Pool.Submit] waits when
// there are n, [Pool.TrySubmit] refuses. It is about n: those who submit at the same
// moment see the same room. What workers have already taken into their queues does not
// count, nor does what [Pool.Go] and groups queue, which never wait. By default there is
// no bound.
func WithQueueBound(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("pool: WithQueueBound(%d): the bound must be at least 1; leave it out for none", n)
		}
		c.bound = n
		return nil
	}
}

// WithPanicHandler has panics of tasks that nobody waits for given to f, in the goroutine
// in which they happened; the worker goes on. Without it such a panic ends the process, as
// one in a goroutine does. A panic in f ends the process in any case.
func WithPanicHandler(f func(e *PanicError)) Option {
	return func(c *config) error {
		if f == nil {
			return errNilFunc("WithPanicHandler")
		}
		c.onPanic = f
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
	c := &config{spares: -1}
	for _, o := range options {
		if o == nil {
			return nil, errors.New("pool: New was given a nil Option")
		}
		if err := o(c); err != nil {
			return nil, err
		}
	}
	if err := c.place(); err != nil {
		return nil, err
	}
	if c.maxWorkers == 0 {
		c.maxWorkers = max(c.workers, runtime.GOMAXPROCS(0))
	}
	if c.maxWorkers < c.workers {
		return nil, fmt.Errorf("pool: WithMaxWorkers(%d): the pool begins with %d workers", c.maxWorkers, c.workers)
	}
	if c.spares < 0 {
		c.spares = min(max(2*c.workers, 8), 64)
	}
	return c, nil
}

// place chooses the number of workers and their CPUs.
func (c *config) place() error {
	if c.cpus != nil {
		if c.pinning == PinNone {
			return errors.New("pool: WithCPUs and PinNone contradict each other; leave one of them out")
		}
		c.pinning = PinCores
		if c.workers == 0 {
			c.workers = len(c.cpus)
		}
		return nil
	}
	allowed, err := heist.Allowed()
	if err != nil && c.pinning == PinCores {
		return err
	}
	if c.workers == 0 {
		c.workers = runtime.GOMAXPROCS(0)
		if len(allowed) > 0 {
			c.workers = min(c.workers, len(allowed))
		}
	}
	if c.pinning == PinNone || c.pinning == PinAuto && !canPin(allowed) {
		return nil
	}
	c.cpus = spread(allowed)
	return nil
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
