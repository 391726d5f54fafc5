package pool

import (
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// Tuning holds settings that few pools need, for users who measure what they change. A field that is 0 leaves the
// default, or what an earlier [WithTuning] has set. Negative numbers are errors, except where they mean none.
type Tuning struct {
	// MaxWorkers is the most workers that [Pool.Resize] can ask for, from the number that the pool begins with to
	// 8192. The default is the greatest of that number, GOMAXPROCS and, in a pool that follows GOMAXPROCS (see
	// [New]), the number of CPUs that the machine has online. Cost: some kilobytes for each worker that there ever
	// was.
	MaxWorkers int

	// HotWorker keeps one worker awake when there is nothing to do: it spins until there is, so a task that comes
	// to an idle pool usually starts within some microseconds. It costs a CPU, and a P: with as many workers as Ps the rest of
	// the process would wait for the spinning worker to give way, so [New] makes one fewer where nothing says how
	// many. In a bubble of testing/synctest New refuses it.
	HotWorker bool

	// Isolate keeps the other threads of the process, those of the Go runtime included, off the pool's CPUs until
	// Close. What else the process does, such as the collector's work, runs on the other CPUs; see [heist.Isolate].
	// So the pool must not have all CPUs that the process may use: give it fewer workers, or [WithCPUs]. The pool
	// binds as [PinCores] does, unless [WithPinning] says otherwise. Guests, such as callers of [ForRange], count
	// among the other threads.
	Isolate bool

	// Spin is how long a worker that finds nothing to do spins before it yields its CPU a few times and goes to
	// sleep; negative is not at all. A task that comes while the worker spins starts at once; a wake-up takes 4 to
	// 10 microseconds, or several times that on a virtual machine. A worker stops spinning where that has been in vain, until work comes as soon as that again.
	// A worker that spins so counts as busy for [Pool.WaitIdle], which waits for its sleep. The default is
	// heist.DefaultSpin, 10 microseconds, and an idle pool sleeps.
	Spin time.Duration

	// FreePs is by how much GOMAXPROCS is raised while the pool is open. The additional Ps are there beside those
	// that busy workers hold, so the other goroutines of the process need not wait until Go preempts a worker,
	// which takes 10 ms. The threads then share the CPUs, and the system divides them. GOMAXPROCS is that of the
	// whole process. While it is raised it does not follow the limits of the process; afterwards it is the
	// program's again, or Go's default, which does (the program's counts as the default if it is the same number).
	// The default is 1 if workers are bound and there are at least as many as Ps, because bound
	// workers do not give way; otherwise it is none, as with a negative number.
	FreePs int

	// PollPeriod is after how many tasks of its own a worker looks into the injector first. It is 60 in
	// open-coroutine, and in Go's own scheduler and Tokio, whose 61st task is from there. By default the period is
	// from 8 to 255, and adapts to how long tasks take, so that tasks from outside wait a millisecond at most.
	PollPeriod int

	// Latencies is a document of measured latencies between CPUs, as go run ./bench c2c -matrix FILE
	// writes it: the CPUs' numbers, and the nanoseconds that a cache line takes from one to the other.
	//
	//	{"cpus": [0, 1, 2], "ns": [[0, 48, 97], [48, 0, 96], [97, 96, 0]]}
	//
	// Thieves visit their victims tier by tier, and these latencies make the tiers: a latency that is at most a
	// quarter above the lowest of a tier belongs to the tier. Workers on CPUs that are not named come last.
	// WithTuning reads the whole document. By default the topology makes the tiers: the same core, the same L3
	// cache, the same package or node, and the other nodes by distance.
	Latencies io.Reader

	// Topology is what the pool takes the machine for, instead of what [numa.Read] says: for tests and measurements with
	// several nodes on a machine that has one. It names CPUs that there are, and need not name all. JSON of the form that
	// [numa.Topology.MarshalJSON] describes can be decoded into one. A pool does not change it, and neither may the program.
	Topology *numa.Topology

	// UniformLooks is the probability, up to 1, that a thief's look at the other workers is uniform: it draws its
	// victims, each independently and uniformly from all others, instead of going from near to far. The more such
	// looks there are, the closer the number of steal attempts is to the bound that Blumofe and Leiserson proved
	// for 1, and the fewer steals are near. Only the last look before a worker sleeps visits every place once. The
	// default is 1/8, see bench sim, and none if all workers are equally far from one another; negative is none.
	UniformLooks float64

	// Patience is how many looks a thief takes at the workers on its own node before it turns to other nodes.
	// Between two looks it spins, 50 ns at first, and longer each time. On a machine with one node Patience changes
	// nothing. The default is none.
	Patience int
}

// WithTuning sets those fields of the pool's [Tuning] that are not 0.
func WithTuning(t Tuning) Option {
	var measured latencies
	var unreadable error
	if t.Latencies != nil {
		measured, unreadable = readLatencies(t.Latencies)
	}
	return func(c *config) error {
		switch {
		case t.MaxWorkers < 0 || t.MaxWorkers > maxWorkers:
			return fmt.Errorf("pool: Tuning.MaxWorkers is %d; it must be from 1 to %d, or 0 for the default", t.MaxWorkers, maxWorkers)
		case t.FreePs > maxWorkers:
			return fmt.Errorf("pool: Tuning.FreePs is %d; it must be at most %d", t.FreePs, maxWorkers)
		case t.PollPeriod < 0:
			return fmt.Errorf("pool: Tuning.PollPeriod is %d; it must be at least 1, or 0 to adapt", t.PollPeriod)
		case unreadable != nil:
			return unreadable
		case !(t.UniformLooks <= 1): // or it is not a number
			return fmt.Errorf("pool: Tuning.UniformLooks is %v; a probability must be at most 1", t.UniformLooks)
		case t.Patience < 0:
			return fmt.Errorf("pool: Tuning.Patience is %d; it must not be negative", t.Patience)
		}
		for i := range reflect.TypeOf(t).NumField() {
			field, value := reflect.TypeOf(t).Field(i), reflect.ValueOf(t).Field(i)
			switch {
			case value.IsZero():
			case value.Kind() == reflect.Interface, value.Kind() == reflect.Pointer:
				c.ask("Tuning."+field.Name, "given")
			default:
				c.ask("Tuning."+field.Name, value)
			}
		}
		set(&c.topology, t.Topology)
		set(&c.maxWorkers, t.MaxWorkers)
		set(&c.latency, t.HotWorker)
		set(&c.isolate, t.Isolate)
		set(&c.spin, t.Spin)
		set(&c.pollPeriod, t.PollPeriod)
		set(&c.search.Patience, t.Patience)
		if t.FreePs != 0 {
			c.freePs = max(t.FreePs, 0)
		}
		if measured != nil {
			c.latencies = measured
		}
		if t.UniformLooks != 0 {
			c.search.Uniform = uint32(max(t.UniformLooks, 0) * policy.Always)
			c.looksGiven = true
		}
		return nil
	}
}

// set sets the field, unless the value is 0.
func set[T comparable](field *T, value T) {
	var none T
	if value != none {
		*field = value
	}
}
