package goruntime

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
)

func init() {
	programs["yields"] = func() error { return stopBeside(heist.Yield) }
	programs["pause"] = func() error { return stopBeside(func() { heist.Pause(math.MaxInt32) }) } // minutes
}

// TestALoopOfYieldsLetsTheWorldStop runs without the signals that preempt goroutines: they hardly
// ever come outside the system call, and within it they have no effect. A loop that never looks
// whether it should give way stops the program for ever here.
func TestALoopOfYieldsLetsTheWorldStop(t *testing.T) {
	claim.That(t, "a loop of Yields lets the world stop", "collections beside such a loop, in a child with GODEBUG=asyncpreemptoff=1")
	stopsBeside(t, "yields")
}

// TestALongPauseLetsTheWorldStop is the same for the assembly of a pause.
func TestALongPauseLetsTheWorldStop(t *testing.T) {
	claim.That(t, "a long Pause lets the world stop", "collections beside one of minutes, in a child with GODEBUG=asyncpreemptoff=1")
	stopsBeside(t, "pause")
}

func stopsBeside(t *testing.T, program string) {
	var collections int
	child.Result(t, child.Command(t, program, "GODEBUG=asyncpreemptoff=1"), &collections)
	claim.Amount(t, "%d collections", collections)
}

func stopBeside(f func()) error {
	var begun, enough atomic.Bool
	go func() {
		begun.Store(true)
		for !enough.Load() {
			f()
		}
	}()
	for !begun.Load() {
		runtime.Gosched()
	}
	const collections = 20
	for range collections {
		runtime.GC()
	}
	enough.Store(true)
	return child.Tell(collections)
}
