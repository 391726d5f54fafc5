package pool

import (
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// parker is what the goroutine of a worker sleeps on. Each park ends with one unpark, which may
// come first. Only the goroutine that has claimed the sleeper (popped it from a list, moved its
// latch) calls unpark.
//
// An ordinary goroutine sleeps on a channel: its thread goes on with another goroutine, and
// the process has no more threads than without heist. A goroutine that is locked to a thread
// sleeps on a futex, because a channel would cost two thread switches.
type parker struct {
	channel chan struct{} // of an ordinary goroutine; nil for a locked one; constant while unpark may be called
	word    atomic.Uint32 // of a locked goroutine: 1 after an unpark; the waker sets it, the sleeper clears it
}

func (k *parker) park() {
	if k.channel != nil {
		<-k.channel
		return
	}
	for k.word.Load() == 0 {
		heist.FutexWait(&k.word, 0, -1)
	}
	k.word.Store(0)
}

func (k *parker) unpark() {
	if k.channel != nil {
		k.channel <- struct{}{} // never blocks: there is one unpark for each sleep
		return
	}
	k.word.Store(1)
	heist.FutexWake(&k.word, 1)
}
