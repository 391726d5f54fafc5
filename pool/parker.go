package pool

import (
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// parker is what the goroutine of a worker sleeps on. One sleep ends with one unpark, which
// may come first: the goroutine that has claimed the sleeper (popped it from a list, moved its latch)
// calls unpark, and nobody else does.
//
// An ordinary goroutine sleeps on a channel: its thread goes on with another goroutine, and
// the process has no more threads than without heist. A goroutine that is locked to a thread
// sleeps on a futex, since on a channel it would cost two switches of threads.
type parker struct {
	channel chan struct{} // of an ordinary goroutine, else nil; constant while anybody may unpark
	word    atomic.Uint32 // of a locked one: 1 if there was an unpark; the waker sets it, the sleeper clears it
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
		k.channel <- struct{}{} // it has room: one unpark for each sleep
		return
	}
	k.word.Store(1)
	heist.FutexWake(&k.word, 1)
}
