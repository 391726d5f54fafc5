// Package heist is the kernel of a work-stealing scheduler: the queues that
// workers own and thieves steal from, the ways in which a thread waits, and the
// binding of threads to CPUs. It knows nothing of workers or tasks: package
// pool builds the scheduler from these parts, and other schedulers can too.
//
// # The parts
//
//   - [Deque] holds the work of one owner, newest first for the owner and
//     oldest first for thieves (Chase and Lev, SPAA 2005).
//   - [Ring] is a bounded first-in first-out run queue from which thieves take half
//     at a time.
//   - [Injector] is the unbounded queue for work from outside, into which a full
//     Ring spills.
//   - [Pause], [Spin], [Yield], [FutexWait] and [FutexWake] are the ways to wait,
//     cheapest first, and [Backoff] is the schedule that goes through them.
//   - [Pin] binds an OS thread to CPUs; [Allowed] says which CPUs the process may
//     use.
//   - [FastRand] picks victims.
//
// # What holds everywhere
//
// Each item given to a queue is taken out exactly once, or its push is refused and
// says so. A lost race is never reported as an empty queue: [StealResult] tells
// [Retry] from [Empty], because the first is worth another try at once and the
// second is not.
//
// No queue blocks. A thread that is descheduled in the middle of an operation can
// delay the items that it was handling, and in an [Injector] also those behind them,
// but it never makes another thread wait in a loop.
//
// A queue keeps no garbage alive: its owner clears the slots of taken items at the
// latest when it next finds the queue empty.
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
