// Package testutil holds what the tests of several packages share.
package testutil

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Short reports whether a test should do a small amount of work. That is so in a plain go test, which has to be
// quick, and with -short. HEIST_VERIFY=ci asks for more, as CI does. HEIST_VERIFY=full, which `go run ./verify` sets,
// asks for all.
func Short() bool { return testing.Short() || os.Getenv("HEIST_VERIFY") == "" }

// Stress scales the number of rounds of a test that looks for races. HEIST_STRESS replaces the factor: 0.05 on an
// emulator, 100 for a night.
func Stress(rounds int) int {
	factor := 1.0
	if Short() {
		factor = 0.1
	}
	if f, err := strconv.ParseFloat(os.Getenv("HEIST_STRESS"), 64); err == nil {
		factor = f
	}
	return max(int(float64(rounds)*factor), 1)
}

// Patience is how long a test waits before it takes the wait for a hang. It is no promise about time: a machine that
// works never reaches it.
const Patience = 30 * time.Second

// Eventually reports whether the condition came to hold within Patience.
func Eventually(condition func() bool) bool {
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// NoMoreGoroutines checks that soon there are no more goroutines than that, and shows them if there are.
func NoMoreGoroutines(t *testing.T, than int) {
	t.Helper()
	if Eventually(func() bool { return runtime.NumGoroutine() <= than }) {
		return
	}
	stacks := make([]byte, 1<<20)
	t.Fatalf("%d goroutines, want %d at most:\n%s", runtime.NumGoroutine(), than, stacks[:runtime.Stack(stacks, true)])
}

// Together runs n bodies in goroutines of their own. wait returns when all bodies have returned.
func Together(n int, body func(who int)) (wait func()) {
	var group sync.WaitGroup
	for who := range n {
		group.Go(func() { body(who) })
	}
	return group.Wait
}

// Caught returns what f panics with, or nil.
func Caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// Returns reports whether f returns, or ends by runtime.Goexit, within Patience. If it does neither, its goroutine is
// left behind.
func Returns(f func()) bool { return ReturnsWithin(Patience, f) }

// ReturnsWithin is Returns with another patience.
func ReturnsWithin(patience time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// Compute keeps its goroutine computing until done is closed. A task that waits would lend its place.
func Compute(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
			runtime.Gosched()
		}
	}
}

// Barrier lets no goroutine through before all have come.
type Barrier struct {
	missing atomic.Int32
	Open    chan struct{} // closed when all have come
}

// NewBarrier returns a barrier for n goroutines.
func NewBarrier(n int) *Barrier {
	b := &Barrier{Open: make(chan struct{})}
	b.missing.Store(int32(n))
	return b
}

// Arrive comes to the barrier, and does not wait.
func (b *Barrier) Arrive() {
	if b.missing.Add(-1) == 0 {
		close(b.Open)
	}
}

// IsOpen says whether all have come.
func (b *Barrier) IsOpen() bool { return b.missing.Load() <= 0 }

// Wait returns when all have come.
func (b *Barrier) Wait() {
	b.Arrive()
	<-b.Open
}

// Compute is Wait for tasks that keep their places meanwhile.
func (b *Barrier) Compute() {
	b.Arrive()
	Compute(b.Open)
}
