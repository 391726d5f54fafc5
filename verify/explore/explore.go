// Package explore runs a concurrent program in all its interleavings, or in many, and finds the one that breaks it. It is to
// Go what loom is to Rust and coyote to .NET; README.md says how to use it.
//
//	explore.Check(t, explore.Options{}, func() {
//		var n atomic.Int64 // of package explore/atomic
//		for range 2 {
//			explore.Go("adder", func() { n.Store(n.Load() + 1) })
//		}
//		explore.Wait()
//		explore.Assert(n.Load() == 2, "an addition is lost: %d", n.Load())
//	})
//
// Code that uses sync/atomic, sync and go statements is rewritten for that, see package rewrite.
package explore

import (
	"fmt"
	"os"
	"testing"
	"unsafe"

	"github.com/seed53057037/heist/verify/explore/internal/sched"
)

// Unbounded is the number of preemptions of a search without a bound.
const Unbounded = -1

// Options say how a program is explored. The zero value searches all interleavings with at most two preemptions.
type Options struct {
	// Preemptions bounds how often a goroutine that could go on loses the processor in an interleaving of the search.
	// 0 means 2, and None means none. With Unbounded the search covers all interleavings, but for those that differ
	// from another only in the order of operations that commute. A delayed store counts as a preemption.
	Preemptions int
	// Executions is the most interleavings that the search visits; 0 means a million, None no search.
	Executions int
	// Random is how many interleavings are chosen at random after the search, each by its own seed from Seed on, by PCT.
	Random int
	// Changes is how often priorities change in such an interleaving: it finds bugs that need so many preemptions. 0 means 2.
	Changes int
	Seed    uint64
	// Steps is how many operations an execution may have; one that has more is taken for a livelock. 0 means 20,000.
	Steps int
	// StoreBuffers lets StoreRelease be delayed past later loads of its goroutine, as on amd64.
	StoreBuffers bool
	// Races lets Read and Write find accesses that no operation orders.
	Races bool
}

// None stands for 0 in Options, where 0 is the default.
const None = -2

// The environment variables that replay an interleaving: its schedule, or the seed of a random one. Check prints them.
const (
	ReplayVariable = "EXPLORE_REPLAY"
	SeedVariable   = "EXPLORE_SEED"
)

func orDefault(v, byDefault int) int {
	switch v {
	case 0:
		return byDefault
	case None:
		return 0
	}
	return v
}

func (o Options) options() sched.Options {
	return sched.Options{
		Preemptions: orDefault(o.Preemptions, 2),
		Executions:  orDefault(o.Executions, 1_000_000),
		Random:      o.Random,
		Changes:     orDefault(o.Changes, 2),
		Seed:        o.Seed,
		Steps:       orDefault(o.Steps, 20_000),
		Buffers:     o.StoreBuffers,
		Races:       o.Races,
	}
}

// Result is what an exploration has done.
type Result = sched.Result

// Failure is why an interleaving is not as it should be.
type Failure = sched.Failure

// Explore runs the program in its interleavings until one fails. An interleaving fails by a panic, Assert, a deadlock,
// a race, or more steps than it may have. The program begins in a goroutine called main. It must make all that it uses,
// and depend on nothing but the schedule: no clock, no random numbers, no order of maps, no channels.
//
// Cost: some 0.1 us for an operation, 1 us for a goroutine. Explorations do not run in parallel.
func Explore(o Options, program func()) Result { return sched.Explore(o.options(), program) }

// Replay runs one interleaving again, by the Schedule of a Result, and traces it.
func Replay(o Options, schedule string, program func()) Result {
	return sched.Replay(o.options(), schedule, program)
}

// Check is Explore for a test. A failure prints the interleaving, line by line, and how to replay it.
func Check(t testing.TB, o Options, program func()) Result {
	t.Helper()
	options := o.options()
	if schedule, ok := os.LookupEnv(ReplayVariable); ok {
		r := sched.Replay(options, schedule, program)
		t.Logf("replay of %s:\n%s", schedule, r.Trace)
		if r.Failure != nil {
			t.Fatal(r.Failure)
		}
		return r
	}
	if seed, ok := os.LookupEnv(SeedVariable); ok {
		if _, err := fmt.Sscan(seed, &options.Seed); err != nil {
			t.Fatalf("%s=%s: %v", SeedVariable, seed, err)
		}
		options.Executions, options.Random = 0, 1
	}
	r := sched.Explore(options, program)
	if r.Failure != nil {
		again := fmt.Sprintf("%s=%q", ReplayVariable, r.Schedule)
		if r.Strategy == "random" {
			again += fmt.Sprintf(" or %s=%d", SeedVariable, r.Seed)
		}
		t.Fatalf("interleaving %d (%s) fails: %v\n%s\nreplay it with %s", r.Executions, r.Strategy, r.Failure, r.Trace, again)
	}
	return r
}

// Active says whether a program is explored.
func Active() bool { return sched.Active() }

// Go begins a goroutine with a name.
func Go(name string, f func()) {
	if !sched.Go(name, f) {
		go f()
	}
}

// Wait waits until all other goroutines of the program have ended.
func Wait() { sched.Others() }

// Assert ends the exploration if the condition does not hold.
func Assert(ok bool, format string, args ...any) {
	if !ok {
		sched.Fail(fmt.Sprintf(format, args...))
	}
}

// Yield says that the goroutine waits in a loop for another one. A loop of loads without it is a livelock.
func Yield() { sched.Yield() }

// Block waits until ready holds. It is for replacements of what the explorer does not know, such as futexes: whoever
// makes ready hold uses operations that the explorer knows.
func Block(what string, ready func() bool) {
	if sched.Active() {
		sched.Block(what, nil, ready, nil)
	}
}

// Fence is a full fence: it empties the store buffer.
func Fence() { sched.Fence() }

// Read is a point before a read of memory that is not atomic.
func Read[T any](p *T) *T {
	sched.Access(unsafe.Pointer(p), false)
	return p
}

// Write is a point before a write of memory that is not atomic.
func Write[T any](p *T) *T {
	sched.Access(unsafe.Pointer(p), true)
	return p
}

// Name gives an object, such as an atomic variable, its name in traces.
func Name[T any](p *T, name string) { sched.Name(unsafe.Pointer(p), name) }
