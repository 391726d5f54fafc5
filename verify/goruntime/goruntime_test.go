// Package goruntime checks that heist and the Go runtime get on with each other: the garbage
// collector, moving stacks, stops of the world, profiles, signals and new processes.
package goruntime

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

func TestMain(m *testing.M) {
	child.Main(m, programs)
}

// programs are what the children of these tests run.
var programs = map[string]func() error{
	"load":    useEverything,
	"stopped": useEverythingStopped,
	"delays":  measureDelays,
}

// duration is how long a child that looks for corruption goes on.
func duration() time.Duration {
	switch {
	case claim.Full():
		return 3 * time.Second
	case testutil.Short():
		return 300 * time.Millisecond
	}
	return time.Second
}

func useEverything() error {
	c, err := useEverythingBesideGarbage()
	if err != nil {
		return err
	}
	return child.Tell(c)
}

// useEverythingBesideGarbage has a goroutine make garbage of all sizes meanwhile, so that the
// collector comes often and the memory that it freed is soon used again.
func useEverythingBesideGarbage() (load.Counts, error) {
	d, err := child.Duration()
	if err != nil {
		return load.Counts{}, err
	}
	var enough atomic.Bool
	var littering sync.WaitGroup
	littering.Go(func() {
		for size := 1; !enough.Load(); size = (size*5 + 7) % 5000 {
			waste := make([]*int, size+1)
			waste[size] = new(int)
			litter.Store(&waste)
			runtime.Gosched() // so that something else runs, too
		}
	})
	c, err := load.For(d)
	enough.Store(true)
	littering.Wait()
	return c, err
}

// litter makes what is stored there escape to the heap.
var litter atomic.Pointer[[]*int]

// useEverythingIn uses everything in a child with this environment, and says how much.
func useEverythingIn(t *testing.T, env ...string) load.Counts {
	t.Helper()
	var c load.Counts
	child.Result(t, child.Command(t, "load", append(env, child.For(duration()))...), &c)
	return c
}

const everything = "deques, rings, injectors and a pool in a child process with "

func TestCollectingAllTheTimeCorruptsNothing(t *testing.T) {
	claim.That(t, "what is queued stays alive while garbage is collected all the time", everything+"GOGC=1")
	c := useEverythingIn(t, "GOGC=1")
	require.NotZero(t, c.Collections)
	claim.Amount(t, "%v", c)
}

// With gccheckmark=1 the collector marks everything a second time, with the world stopped, and
// ends the program if it finds an object that it had missed: one whose pointer was stored
// without a write barrier.
func TestNoPointerIsStoredBehindTheCollectorsBack(t *testing.T) {
	claim.That(t, "no pointer is stored without a write barrier", everything+"GODEBUG=gccheckmark=1")
	c := useEverythingIn(t, "GOGC=5", "GODEBUG=gccheckmark=1")
	require.NotZero(t, c.Collections)
	claim.Amount(t, "%v", c)
}

func TestFreedMemoryIsNotUsed(t *testing.T) {
	claim.That(t, "no freed memory is used", everything+"GODEBUG=clobberfree=1")
	c := useEverythingIn(t, "GOGC=1", "GODEBUG=clobberfree=1")
	require.NotZero(t, c.Collections)
	claim.Amount(t, "%v", c)
}

// Go code that never gives way would stop the collector for ever here.
func TestNothingHangsWithoutAsynchronousPreemption(t *testing.T) {
	claim.That(t, "nothing hangs when goroutines are not preempted in loops", everything+"GODEBUG=asyncpreemptoff=1")
	claim.Amount(t, "%v", useEverythingIn(t, "GODEBUG=asyncpreemptoff=1"))
}

func TestAllDebuggingAtOnceFindsNothing(t *testing.T) {
	claim.That(t, "nothing is corrupt with all of the runtime's debugging at once", everything+
		"GOGC=1, GOMAXPROCS=4, clobberfree=1, asyncpreemptoff=1, gcstoptheworld=1")
	c := useEverythingIn(t, "GOGC=1", "GOMAXPROCS=4", "GODEBUG=clobberfree=1,asyncpreemptoff=1,gcstoptheworld=1")
	require.NotZero(t, c.Collections)
	claim.Amount(t, "%v", c)
}

// Checkptr looks at each conversion of an unsafe.Pointer, and at each sum that makes one.
func TestPointersAreCalculatedByTheRules(t *testing.T) {
	if !claim.Full() {
		t.Skip("builds the standard library anew; HEIST_VERIFY=full asks for it")
	}
	claim.That(t, "unsafe pointers are calculated by the rules", everything+"-d=checkptr in all packages")
	binary := child.Build(t, "GOFLAGS=", "-gcflags=all=-d=checkptr")
	var c load.Counts
	child.Result(t, child.CommandOf(t, binary, "load", "GOGC=1", child.For(duration())), &c)
	claim.Amount(t, "%v", c)
}

// stopped is what the program of the same name tells.
type stopped struct {
	load.Counts
	Stops uint64
}

func TestStoppingTheWorldEveryMillisecondCorruptsNothing(t *testing.T) {
	claim.That(t, "nothing is corrupt when the world is stopped every millisecond", everything+
		"a goroutine that reads statistics, changes GOMAXPROCS and returns memory")
	var s stopped
	// With more Ps than CPUs, the goroutine that stops the world need not wait for a worker
	// to give way.
	child.Result(t, child.Command(t, "stopped", "GOMAXPROCS=8", child.For(duration())), &s)
	require.NotZero(t, s.Stops)
	claim.Amount(t, "%s stops, %v", claim.Count(s.Stops), s.Counts)
}

func useEverythingStopped() error {
	var stops atomic.Uint64
	end := everyMillisecond(func(turn int) {
		stops.Add(1)
		stopTheWorld(turn)
	})
	c, err := useEverythingBesideGarbage()
	end()
	if err != nil {
		return err
	}
	return child.Tell(stopped{c, stops.Load()})
}

// everyMillisecond calls f again and again until the function that it returns is called.
func everyMillisecond(f func(turn int)) (end func()) {
	enough, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for turn := 1; ; turn++ {
			select {
			case <-enough:
				return
			case <-time.After(time.Millisecond):
				f(turn)
			}
		}
	}()
	return func() { close(enough); <-over }
}

// stopTheWorld stops it, in one of several ways.
func stopTheWorld(turn int) {
	switch {
	case turn%500 == 0:
		debug.FreeOSMemory()
	case turn%100 == 0:
		runtime.GC()
	case turn%10 == 0:
		n := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(n + 1)
		runtime.GOMAXPROCS(n)
	default:
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
	}
}

// microseconds writes a time in seconds so that it can be read.
func microseconds(seconds float64) string {
	return strconv.FormatFloat(seconds*1e6, 'f', 0, 64) + " us"
}
