package pool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Default returns the pool of the process, for libraries that want loops without asking their callers for a pool.
// The first call makes it, with New's defaults, and it follows GOMAXPROCS. (rayon has such a pool, too.) All
// packages of the process share it, so it cannot be closed, paused or resized: Close, Shutdown, Abort, Pause and
// Resize return an error. While it has nothing to do it costs what idle goroutines do.
//
// Any goroutine may call it, any number at a time. But the first call must not be in a bubble of testing/synctest,
// where no pool from outside can be used: there it panics. Cost: an atomic load.
func Default() *Pool {
	if p := shared.pool.Load(); p != nil {
		return p
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if p := shared.pool.Load(); p != nil {
		return p
	}
	if inBubble() {
		panic(errors.New("pool: Default was first called in a bubble of testing/synctest, where a pool of the process cannot be used; make one there with New"))
	}
	p, err := New()
	if err != nil {
		panic(fmt.Errorf("pool: Default: %w", err))
	}
	p.shared = true
	shared.pool.Store(p)
	return p
}

// shared is what Default returns.
var shared struct {
	mu   sync.Mutex // held by the call that makes the pool
	pool atomic.Pointer[Pool]
}

var errShared = errors.New("pool: the pool, which is that of Default or Serial, belongs to the whole process and cannot be closed, paused or resized; make one with New for that")
