package pool

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

// Option is a setting of a new pool; see [New].
type Option func(*config) error

type config struct {
	asked      map[string]string  // setting -> what an option said
	by         string             // where the present option comes from, empty for the program
	name       string             // empty for none
	timed      bool               // WithTimings
	slowAfter  time.Duration      // WithSlowTask; 0 for none
	onSlow     func(inspect.Slow) // the same; nil for none
	stamps     bool               // an option needs to know how long jobs take
	workers    int
	maxWorkers int
	follows    bool // the number of workers follows GOMAXPROCS and the CPUs of the process
	pinning    Pinning
	why        string         // why the pinning is what it is
	cpus       []int          // CPUs that the workers are bound to, in the order in which they get them; nil if not pinned
	spots      []int          // CPUs that the workers may run on: cpus, or all that the process may use; nil if the system does not say
	bindings   [][]int        // the CPUs of each worker, as many entries as cpus; workers beyond that start over
	topology   *numa.Topology // nil if it was not read
	isolate    bool
	machine    machine
	latencies  latencies // nil if they were not measured
	search     policy.Parameters
	looksGiven bool // Tuning.UniformLooks was given
	inBubble   bool // the pool is made in a bubble of testing/synctest

	spin       time.Duration // as in heist.Backoff
	yields     int           // as in heist.Backoff
	latency    bool
	freePs     int
	pollPeriod int // 0 if it adapts
	bound      int // 0 for none
	callers    int // 0 for any number
	onPanic    func(*PanicError)
	begins     func(*Worker) // nil for none, like ends
	ends       func(*Worker)
}

// machine is the machine that the pool runs on.
type machine struct {
	allowed func() ([]int, error)
	online  func() int // how many CPUs are online, 0 if the system does not say
	read    func() (*numa.Topology, error)
	pin     func(cpus ...int) (*heist.Pinned, error)
	draw    func(n int) int // a number below n
}

var thisMachine = machine{allowed: heist.Allowed, online: onlineCPUs, read: numa.Read, pin: heist.Pin, draw: rand.IntN} // tests replace it

// Pinning says to which CPUs workers are bound. Guests are not bound.
//
// On Linux a process that a task starts inherits the CPUs of the task's worker. To give the process all CPUs, start
// it in a goroutine of its own, and wait for that goroutine in [Worker.Block].
type Pinning int

const (
	// PinAuto is PinNone, or PinCores if [WithCPUs] or Isolate asks for CPUs. [Pool.Pinning] returns what was chosen, and
	// why. PinAuto is the default.
	PinAuto Pinning = iota
	// PinCores binds each worker to one CPU; New fails if the system cannot bind. It is for pools that own their
	// CPUs: a bound worker waits for its CPU even if another one is free. Where the process may use more CPUs than
	// there are Ps, as in a container with a quota, other processes are likely to use these CPUs as well. There the
	// first CPU is drawn at random, or all pools of the machine would share the first ones. [WithCPUs] chooses the
	// CPUs, and so does the system (cpuset, taskset).
	PinCores
	// PinNone leaves it to Go's scheduler and the system where workers run. The workers are goroutines that are not
	// locked to threads. Where no P is idle they give way to the other goroutines of the process every 25
	// microseconds. On a machine with several memory nodes a worker looks where it runs whenever it begins, and
	// between two tasks, and steals near there first.
	PinNone
	// PinL3 binds each worker to the CPUs under one level 3 cache, or, where there is none, to those of a package
	// or node. The system chooses among them, and moves a worker whose CPU is busy. New fails if the system cannot
	// bind.
	PinL3
	// PinNodes is like PinL3, for the CPUs of a memory node.
	PinNodes
)

// width returns the distance between two workers that are bound to the same CPUs.
func (p Pinning) width() int {
	switch p {
	case PinL3:
		return policy.SameCache
	case PinNodes:
		return policy.SameNode
	}
	return policy.SameCore
}

// String returns the name of the constant.
func (p Pinning) String() string {
	if p < PinAuto || p > PinNodes {
		return fmt.Sprintf("Pinning(%d)", int(p))
	}
	return [...]string{"PinAuto", "PinCores", "PinNone", "PinL3", "PinNodes"}[p]
}

// Pinning returns how the pool's workers are bound, which is never [PinAuto], and why.
func (p *Pool) Pinning() (pinning Pinning, why string) {
	p.mustBeMade()
	return p.pinning, p.why
}

// maxWorkers stays below the 10,000 threads at which the Go runtime ends a process
// (debug.SetMaxThreads), and above the CPUs of any machine.
const maxWorkers = core.MostBound

// WithWorkers sets the number of workers, from 1 to 8192. More workers than CPUs are allowed; they share the CPUs.
func WithWorkers(n int) Option {
	return func(c *config) error {
		if n < 1 || n > maxWorkers {
			return fmt.Errorf("pool: WithWorkers(%d): the number of workers must be from 1 to %d", n, maxWorkers)
		}
		c.workers = n
		c.ask("WithWorkers", n)
		return nil
	}
}

// WithName gives the pool a name for dumps, pages, metrics and profiles. The workers' goroutines then have the
// pprof labels heist_pool and heist_worker. The name must not be empty, and need not be unique. Cost: nothing for a
// task without labels.
func WithName(name string) Option {
	return func(c *config) error {
		if name == "" {
			return errors.New("pool: WithName was given an empty name; leave it out for none")
		}
		c.name = name
		c.ask("WithName", name)
		return nil
	}
}

// WithQueueBound limits how many tasks wait in the injectors: when there are n, [Pool.Submit] waits and
// [Pool.TrySubmit] refuses. The bound is approximate, because concurrent submitters see the same room. Tasks that
// workers have already taken into their queues do not count. [Pool.Go] and groups take room and never wait for it.
// By default there is no bound.
func WithQueueBound(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("pool: WithQueueBound(%d): the bound must be at least 1; leave it out for none", n)
		}
		c.bound = n
		c.ask("WithQueueBound", n)
		return nil
	}
}

// WithPanicHandler has f called for each panic of a task that no goroutine waits for, in the goroutine in which it
// happened; then the worker goes on. Without a handler such a panic ends the process, as a panic in a goroutine
// does. A panic in f ends the process in any case.
func WithPanicHandler(f func(e *PanicError)) Option {
	return func(c *config) error {
		if f == nil {
			return errNilFunc("WithPanicHandler")
		}
		c.onPanic = f
		c.ask("WithPanicHandler", "given")
		return nil
	}
}

// WithHooks sets hooks for state that belongs to a thread, if workers are bound, or to a profile. A worker calls
// begins in its goroutine before it runs anything, and ends where that goroutine ends. Either may be nil. A worker
// begins with the pool, or because others wait, and ends with the pool, or when it is no longer needed: as many as Resize allows and eight more stay on
// each node or, if workers are bound, CPU or cache, and others until they were not needed for some 0.3 seconds. Where a
// task ends its goroutine by runtime.Goexit, the worker goes on in another one, and calls both. Guests call no
// hooks. The hooks must not use the pool nor wait for its tasks, and a panic in them ends the process.
func WithHooks(begins, ends func(w *Worker)) Option {
	return func(c *config) error {
		c.begins, c.ends = begins, ends
		c.ask("WithHooks", "given")
		return nil
	}
}

// WithPinning sets how workers are bound. A bound worker is locked to its thread (runtime.LockOSThread). Go ends the
// process, by a fatal error that nothing can recover, if such a worker calls next or stop of an iter.Pull that another
// goroutine has made. A task calls them in a goroutine of its own:
//
//	w.Block(func() {
//		done := make(chan struct{})
//		go func() { defer close(done); v, ok = next() }()
//		<-done
//	})
//
// An iter.Pull that the task itself has made may be called as usual.
//
// Nor should as many tasks as there are Ps poll with sleeps of a few microseconds: Go runs locked goroutines whose timers
// fire before all that wait in a P's queue, and the rest of the process, the pool's monitor included, would starve. See Tuning.FreePs.
func WithPinning(p Pinning) Option {
	return func(c *config) error {
		if p < PinAuto || p > PinNodes {
			return fmt.Errorf("pool: WithPinning(%d): it must be PinAuto, PinCores, PinL3, PinNodes or PinNone", p)
		}
		c.pinning = p
		c.ask("WithPinning", p)
		return nil
	}
}

// WithCPUs binds the workers to these CPUs, by their numbers in the kernel. Workers get the CPUs in this order, and
// start over if there are more workers than CPUs. Without [WithWorkers] there are as many workers as CPUs. The CPUs
// must be among those that the process may use, see [heist.Allowed].
func WithCPUs(cpus ...int) Option {
	return func(c *config) error {
		if len(cpus) == 0 {
			return errors.New("pool: WithCPUs without a CPU; leave it out to use all CPUs that are allowed")
		}
		allowed, err := c.machine.allowed()
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
		c.ask("WithCPUs", inspect.CPUList(cpus))
		return nil
	}
}

// ask records what was asked for, for [Pool.Config].
func (c *config) ask(setting string, value any) {
	if c.asked == nil {
		c.asked = make(map[string]string)
	}
	c.asked[setting] = fmt.Sprint(value) + c.by
}

func configure(options []Option) (*config, error) {
	c := &config{search: policy.Defaults, machine: thisMachine, freePs: -1, inBubble: inBubble()}
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
		c.maxWorkers = max(c.workers, ownPs())
	}
	if c.freePs < 0 {
		c.freePs = 0
		if c.cpus != nil && c.workers >= ownPs() {
			c.freePs = 1
		}
	}
	c.stamps = c.timed || c.slowAfter > 0
	if c.inBubble && c.slowAfter > 0 {
		return nil, errors.New("pool: in a bubble of testing/synctest WithSlowTask would measure real time and keep the bubble's time from passing; leave it out")
	}
	if c.inBubble && c.latency {
		return nil, errors.New("pool: in a bubble of testing/synctest the worker of Tuning.HotWorker would keep the bubble's time from passing; leave it out")
	}
	if c.maxWorkers < c.workers {
		return nil, fmt.Errorf("pool: Tuning.MaxWorkers is %s, and the pool begins with %d workers", c.asked["Tuning.MaxWorkers"], c.workers)
	}
	return c, nil
}

// countOf returns how many CPUs the process may use, if these are the allowed ones.
func countOf(allowed []int) int {
	if len(allowed) == 0 { // the system does not say which
		return runtime.NumCPU()
	}
	return len(allowed)
}

// spare leaves a P for the rest of the process, of n, where a hot worker never gives its own back. On one P there is none to
// leave.
func (c *config) spare(n int) int {
	if c.latency {
		return max(1, n-1)
	}
	return n
}

// place chooses the number of workers and their CPUs.
func (c *config) place() error {
	given := c.cpus
	c.cpus = nil
	if c.pinning == PinNone && given != nil {
		return errors.New("pool: WithCPUs and PinNone contradict each other; leave one of them out")
	}
	if c.pinning == PinNone && c.isolate {
		return errors.New("pool: Tuning.Isolate and PinNone contradict each other: only bound workers can have CPUs to themselves; leave one of them out")
	}
	allowed, err := c.machine.allowed()
	if c.workers == 0 {
		switch {
		case given != nil:
			c.workers = len(given)
		case c.isolate: // isolation takes CPUs, and so Ps, from the rest of the process
			c.workers = min(ownPs(), countOf(allowed))
		default:
			c.workers, c.follows = c.spare(min(ownPs(), countOf(allowed))), true
			if c.maxWorkers == 0 {
				c.maxWorkers = max(countOf(allowed), ownPs(), c.machine.online())
			}
		}
	}
	switch {
	case c.pinning != PinAuto:
		c.why = "it was asked for"
	case given != nil || c.isolate:
		c.pinning, c.why = PinCores, "CPUs were asked for"
		if given == nil {
			c.why = "Tuning.Isolate was asked for"
		}
	default:
		c.pinning, c.why = PinNone, "nothing asked for workers that are bound"
	}
	// An error in /sys does not matter here: CPUs that it does not describe count as on one node, each with a core
	// of its own.
	if c.topology == nil && (c.pinning != PinNone || len(allowed) > 1) {
		c.topology, _ = c.machine.read()
	}
	if c.pinning == PinNone {
		c.spots = allowed
		return nil
	}
	if c.inBubble {
		return errors.New("pool: in a bubble of testing/synctest workers cannot be bound, for a thread that sleeps is no goroutine that waits; leave out what binds them, or use WithPinning(PinNone)")
	}
	if err != nil {
		return err
	}
	if c.cpus = given; given == nil {
		first := 0
		if ownPs() < len(allowed) { // a container with a quota, say: the other processes there choose in the same way
			first = c.machine.draw(len(allowed))
		}
		c.cpus = spread(c.topology, allowed, first)
		if c.isolate { // the other CPUs are for the rest of the process
			c.cpus = c.cpus[:min(len(c.cpus), max(c.workers, c.maxWorkers))]
		}
	}
	c.spots = c.cpus
	for _, cpu := range c.cpus {
		c.bindings = append(c.bindings, boundTo(c.topology, c.pinning, cpu, c.cpus))
	}
	return nil
}

// boundTo returns the CPUs, among those of the pool, to which the worker that gets cpu is bound.
func boundTo(t *numa.Topology, p Pinning, cpu int, cpus []int) []int {
	width := p.width()
	if width == policy.SameCore {
		return []int{cpu}
	}
	if c := policy.CPU(t, cpu); c == nil || c.L3 < 0 {
		width = policy.SameNode
	}
	var bound []int
	for _, other := range cpus {
		if policy.Distance(t, cpu, other) <= width {
			bound = append(bound, other)
		}
	}
	slices.Sort(bound)
	return bound
}

// spread orders the CPUs so that the first workers get cores of their own, big ones before little ones, and the
// second hardware threads of cores come last. Equally good CPUs keep their order, from the one at index first on,
// and round again.
func spread(t *numa.Topology, cpus []int, first int) []int {
	rank := make(map[int]int) // CPU -> how many CPUs of its core come before it
	for _, core := range t.Cores {
		n := 0
		for _, cpu := range core {
			if slices.Contains(cpus, cpu) {
				rank[cpu] = n
				n++
			}
		}
	}
	capacity := make(map[int]int)
	for _, cpu := range t.CPUs {
		capacity[cpu.ID] = cpu.Capacity
	}
	order := slices.Concat(cpus[first:], cpus[:first])
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(rank[a]-rank[b], capacity[b]-capacity[a])
	})
	return order
}
