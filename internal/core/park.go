package core

import (
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// Parker is what the goroutine of a worker sleeps on. Each Park ends with one Unpark, which may
// come first. Only the goroutine that has claimed the sleeper (popped it from a list, moved its
// latch) calls Unpark.
//
// An ordinary goroutine sleeps on a channel: its thread goes on with another goroutine, and
// the process has no more threads than without heist. A goroutine that is locked to a thread
// sleeps on a futex, because a channel would cost two thread switches.
type Parker struct {
	channel chan struct{} // of an ordinary goroutine; nil for a locked one; constant while Unpark may be called
	Sleeper Sleeper       // sleeps in place of a locked goroutine, for a host in a time of its own; else nil; constant
	word    atomic.Uint32 // of a locked goroutine: 1 after an Unpark; the waker sets it, the sleeper clears it
}

// Sleeper has Park and Unpark as a Parker has.
type Sleeper interface {
	Park()
	Unpark()
}

// Init makes the parker of a goroutine that is locked to its thread, or of one that is not.
func (k *Parker) Init(locked bool) {
	if !locked {
		k.channel = make(chan struct{}, 1)
	}
}

// Locked says whether the goroutine is locked to its thread.
func (k *Parker) Locked() bool { return k.channel == nil }

// Park returns after the next Unpark, or at once if there was one since the last Park.
func (k *Parker) Park() {
	if k.channel != nil {
		<-k.channel
		return
	}
	if k.Sleeper != nil {
		k.Sleeper.Park()
		return
	}
	for k.word.Load() == 0 {
		heist.FutexWait(&k.word, 0, -1)
	}
	k.word.Store(0)
}

// Unpark ends a Park.
func (k *Parker) Unpark() {
	if k.channel != nil {
		k.channel <- struct{}{} // never blocks: there is one Unpark for each Park
		return
	}
	if k.Sleeper != nil {
		k.Sleeper.Unpark()
		return
	}
	k.word.Store(1)
	heist.FutexWake(&k.word, 1)
}
