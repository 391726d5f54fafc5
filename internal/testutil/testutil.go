// Package testutil is what the tests of several packages share.
package testutil

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Short says whether a test should do a small amount. That is so in a plain go test, which has to be quick, and with
// -short. HEIST_VERIFY=ci asks for more, as CI does. HEIST_VERIFY=full, which `go run ./verify` sets, asks for all.
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

// Patience is after how long something that never comes is taken for a hang. It is
// no promise about time: on a machine that works it is never reached.
const Patience = 30 * time.Second

// Eventually says whether the condition came to hold.
func Eventually(condition func() bool) bool {
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Together runs n bodies in goroutines of their own. Wait returns when all have.
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

// Returns says whether f returns, or ends by runtime.Goexit. If it does neither, its goroutine is left behind.
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
