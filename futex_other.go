//go:build !linux

package heist

import (
	"runtime"
	"sync/atomic"
	"time"
)

var lot parkingLot

func futexWait(addr *atomic.Uint32, val uint32, timeout time.Duration) bool {
	return lot.wait(addr, val, timeout)
}

func futexWake(addr *atomic.Uint32, n int) int { return lot.wake(addr, n) }

func yield() { runtime.Gosched() }
