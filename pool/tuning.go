package pool

import (
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/seed53057037/heist/internal/policy"
)

// Tuning is what few pools need, for those who measure what it changes. A field that is 0 leaves what is the default, or what an
// earlier [WithTuning] has set. Negative numbers are errors but where they mean none.
type Tuning struct {
	// MaxWorkers is how many workers [Pool.Resize] can ask for: from the number that the
	// pool begins with to 8192. The default is that number or GOMAXPROCS, whichever is
	// greater. Cost: some kilobytes for each worker that there ever was.
	MaxWorkers int

	// HotWorker keeps one worker awake that would be the last to go to sleep: it spins
	// until there is something to do, so a task that comes to an idle pool starts within a
	// microsecond. It costs a CPU, and a P: the pool should have one worker fewer than there
	// are Ps, or the rest of the process waits for the spinning worker to give way.
	HotWorker bool

	// Isolate keeps the other threads of the process off the CPUs of the pool, those of the Go
	// runtime included, until Close: what else the process does, the collector's work for
	// instance, happens on the other CPUs. See [heist.Isolate]. So the pool must not have all
	// CPUs that the process may use; give it fewer workers, or [WithCPUs]. It binds as [PinCores]
	// does, unless [WithPinning] says otherwise. Guests, such as callers of [ForRange], are threads
	// of the process like others.
	Isolate bool

	// Spin is how long a worker that finds nothing to do spins before it yields its CPU
	// a few times and goes to sleep; negative is not at all. A task that comes while it spins
	// starts at once; a wake-up takes 4 to 10 microseconds. The default is
	// heist.DefaultSpin, 10 microseconds, and an idle pool sleeps.
	Spin time.Duration

	// FreePs raises GOMAXPROCS by so many while the pool is open, so that there are Ps beside
	// those that busy workers hold, and the other goroutines of the process need not wait until
	// Go preempts a worker, which takes 10 ms. The threads share the CPUs then, and the system
	// divides them. GOMAXPROCS is the whole process's. The default is 1 if workers are bound and there
	// are as many as Ps, for bound workers do not give way; else it is none, as with a negative number.
	FreePs int

	// PollPeriod makes workers look into the injector first after every so many tasks of their own: 60
	// in open-coroutine, and in Go's own scheduler and Tokio, whose 61st task is from there. By
	// default the period adapts to how long tasks take, so that what comes from outside waits a
	// millisecond at most, and is from 8 to 255.
	PollPeriod int

	// Latencies is a document of measured latencies between CPUs, as go run ./bench c2c -matrix FILE
	// writes it: the CPUs' numbers, and the nanoseconds that a cache line takes from one to the other.
	//
	//	{"cpus": [0, 1, 2], "ns": [[0, 48, 97], [48, 0, 96], [97, 96, 0]]}
	//
	// Thieves go from tier to tier of victims, and these make the tiers: what is at most a quarter slower than
	// the fastest of a tier belongs to it, and workers on CPUs that are not named come last. WithTuning reads all of it.
	// By default the topology makes them: the same core, the same L3 cache, the same package or node, and the other nodes by distance.
	Latencies io.Reader

	// UniformLooks is the probability, up to 1, with which a thief's look at the other
	// workers draws its victims, each independently and uniformly from all others, instead of going from near to far.
	// The more such looks there are, the closer the number of steal attempts is to the bound that Blumofe and
	// Leiserson proved for 1, and the fewer steals are near. Only the last look
	// before a worker sleeps visits every place once. The default is 1/8, see bench sim, and none if
	// all workers are equally far from one another; negative is none.
	UniformLooks float64

	// Patience is how many looks a thief takes at the workers on its own node before it
	// turns to other nodes. Between two looks it spins, 50 ns at first, and longer each time. On
	// a machine with one node it changes nothing. The default is none.
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
			if !value.IsZero() && field.Name != "Latencies" {
				c.ask("Tuning."+field.Name, value)
			}
		}
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
			c.ask("Tuning.Latencies", "a document")
		}
		if t.UniformLooks != 0 {
			c.search.Uniform = uint32(max(t.UniformLooks, 0) * policy.Always)
			c.looksGiven = true
		}
		return nil
	}
}

// set sets what is given.
func set[T comparable](field *T, value T) {
	var none T
	if value != none {
		*field = value
	}
}
