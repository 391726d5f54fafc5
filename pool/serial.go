package pool

import (
	"errors"
	"sync"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// Serial returns a place where everything runs in the caller, as if there were no other workers: loops from their
// first item to their last ([Granularity.FromEnd]: range by range from the last), the functions of a [Do] in their order, those of a [Group] and of an [Async] before Go and Async
// return; a runtime.Goexit in one of them ends the caller. It is for tests, and for callers of a library that have no pool and want none. Any number of goroutines may use it
// at the same time.
//
// A function that waits for one that would come after it waits for ever. No worker is there to run tasks later, so [Worker.Go], a [Delay], and [After] a future of a pool that is not done are refused with an
// error. Futures of Serial are done when they are made, so [Then], [All] and [Any] of them run in the caller as well.
//
// Cost: that of a guest, 40 ns for each call; no goroutine.
func Serial() Place { return serial() }

// serial makes a pool without workers, for guests alone: no place sleeps, so it is never hungry, and there are no thieves.
var serial = sync.OnceValue(func() *Pool {
	p := makePool(&config{search: policy.Defaults, machine: thisMachine, pinning: PinNone, why: "the place has no workers"})
	p.shared = true
	p.core.Monitored.Store(true) // no monitor is wanted: what a waiting caller has not begun waits for it
	p.eachQueue(func(q *heist.Injector[task]) { q.Close() })
	return p
})

func (p *Pool) isSerial() bool { return p.maxWorkers == 0 }

var errSerial = errors.New("pool: the place of Serial has no workers that could run a task later; use a pool, or a call that waits, such as Do")
