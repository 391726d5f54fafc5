package goruntime

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
)

func init() { programs["yields"] = stopBesideYields }

// TestALoopOfYieldsLetsTheWorldStop does without the signals that preempt goroutines, for they
// hardly ever come outside of the system call, and within it they have no effect. A loop that never
// looks whether it should give way stops the program for ever here.
func TestALoopOfYieldsLetsTheWorldStop(t *testing.T) {
	claim.That(t, "a loop of Yields lets the world stop", "collections beside such a loop, in a child with GODEBUG=asyncpreemptoff=1")
	var collections int
	child.Result(t, child.Command(t, "yields", "GODEBUG=asyncpreemptoff=1"), &collections)
	claim.Amount(t, "%d collections", collections)
}

func stopBesideYields() error {
	var begun, enough atomic.Bool
	go func() {
		begun.Store(true)
		for !enough.Load() {
			heist.Yield()
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
