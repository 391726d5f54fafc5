// Package heist is the kernel of a work-stealing scheduler: the queues that
// workers own and thieves steal from, the ways in which a thread waits, and the
// binding of threads to CPUs. It knows nothing of workers or tasks: package
// pool builds the scheduler from these parts, and other schedulers can too.
//
// # The parts
//
//   - [Deque] holds the work of one owner, newest first for the owner and
//     oldest first for thieves (Chase and Lev, SPAA 2005).
//   - [Ring] is a bounded first-in first-out run queue of which thieves take half
//     at a time.
//   - [Injector] is the unbounded queue by which work comes in from outside and
//     into which a full Ring spills.
//   - [Pause], [Spin], [Yield], [FutexWait] and [FutexWake] are the ways to wait,
//     cheapest first, and [Backoff] is the schedule that goes through them.
//   - [Pin] binds an OS thread to CPUs; [Allowed] says which CPUs there are.
//   - [FastRand] picks victims.
//
// # What holds everywhere
//
// An item handed to a queue is taken out exactly once, or its push was refused
// and said so. A lost race is never reported as an empty queue: [StealResult]
// tells [Retry] from [Empty], because the first is worth another try at once and
// the second is not.
//
// No queue blocks: a thread that is descheduled in the middle of an operation can
// delay the items it was handling, in an [Injector] those behind them too, but never
// makes another thread wait in a loop.
//
// Queues hold pointers and forget them: a slot whose item was taken is cleared by
// its owner no later than when the owner next finds the queue empty, so a queue
// keeps no garbage alive.
//
// # Assembly
//
// On amd64 and arm64 the deque's operations and the pauses are assembly. Assembly
// never stores a Go pointer, because the garbage collector's write barrier would
// miss it: Go code stores the slot and assembly publishes the index. It is never
// preempted asynchronously, so every loop in it is bounded to about a
// microsecond. The race detector cannot see into it; builds with -race, with the
// tag purego, or for another architecture use the same algorithms in
// sync/atomic, and [PortableDeque] offers those in every build.
package heist
