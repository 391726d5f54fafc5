package heist

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A futex is a word to sleep on: a thread goes to sleep only if the word still has
// the value that it expects, so a wake-up that comes in between is not lost. The
// waker changes the word first and wakes afterwards.

// FutexWait puts the caller to sleep while *addr equals val, until a [FutexWake] on the
// same word or until timeout has passed. A negative timeout means no limit; with 0 the
// caller does not sleep. FutexWait returns false only on a timeout. After true the
// caller must look at the word again, because wake-ups can be spurious.
//
// On Linux the OS thread sleeps and gives up its P at once, so that other goroutines
// can run. Elsewhere the goroutine sleeps on a channel.
//
// Cost: a system call, and 4 to 10 microseconds from the wake-up to the return, or several times that on a virtual machine.
func FutexWait(addr *atomic.Uint32, val uint32, timeout time.Duration) bool {
	if timeout == 0 {
		return addr.Load() != val
	}
	return futexWait(addr, val, timeout)
}

// FutexWake wakes up to n callers of [FutexWait] on addr and returns how many it
// woke. It does nothing if n is not positive.
//
// Cost: a system call even if no thread sleeps; about 5 microseconds if one does.
//
// Not inlined, for the reason that [Yield] gives.
//
//go:noinline
func FutexWake(addr *atomic.Uint32, n int) int {
	if n <= 0 {
		return 0
	}
	return futexWake(addr, n)
}

// Yield gives the CPU to another thread, if one waits for it. The caller keeps its P.
// For a goroutine that is locked to its thread, runtime.Gosched costs two thread
// switches, and Yield none if no thread waits. On systems without a system call for it,
// Yield is runtime.Gosched.
//
// Not inlined: a loop of Yields gives way at the entry of a function when the Go
// runtime stops the world. It cannot be preempted in a raw system call, and such a loop
// is nearly always in one: a garbage collection beside it took up to 4 seconds.
//
//go:noinline
func Yield() { yield() }

// parkingLot is the futex of systems without one: sleepers queue in a bucket that the
// word's address chooses. Every build contains it, so that every build tests it.
type parkingLot [64]bucket

type bucket struct {
	mu       sync.Mutex
	sleepers []sleeper // in order of arrival
}

type sleeper struct {
	addr *atomic.Uint32
	wake chan struct{} // closed by the waker, which also removes the sleeper
}

func (p *parkingLot) bucket(addr *atomic.Uint32) *bucket {
	return &p[uint64(uintptr(unsafe.Pointer(addr)))*golden>>58]
}

func (p *parkingLot) wait(addr *atomic.Uint32, val uint32, timeout time.Duration) bool {
	b := p.bucket(addr)
	b.mu.Lock()
	if addr.Load() != val {
		b.mu.Unlock()
		return true
	}
	s := sleeper{addr, make(chan struct{})}
	b.sleepers = append(b.sleepers, s)
	b.mu.Unlock()

	if timeout < 0 {
		<-s.wake
		return true
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-s.wake:
		return true
	case <-t.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.sleepers {
		if b.sleepers[i] == s {
			b.sleepers = slices.Delete(b.sleepers, i, i+1)
			return false
		}
	}
	return true // woken just as the time was up
}

func (p *parkingLot) wake(addr *atomic.Uint32, n int) int {
	b := p.bucket(addr)
	b.mu.Lock()
	defer b.mu.Unlock()
	woken := 0
	kept := b.sleepers[:0]
	for _, s := range b.sleepers {
		if s.addr == addr && woken < n {
			close(s.wake)
			woken++
			continue
		}
		kept = append(kept, s)
	}
	clear(b.sleepers[len(kept):])
	b.sleepers = kept
	return woken
}
