// Package sim simulates the scheduler of package pool on machines that are larger than the
// one at hand: workers, queues, forks and sleep in virtual time, on one thread, so that the
// same seed gives the same run to the last nanosecond.
//
// The pool's own code decides: [policy.Order] and [policy.Search] choose victims and
// pauses, [policy.Sleep] says who sleeps, who searches and whom to wake. The simulation
// adds what package policy lacks, queues and a clock:
//
//	machine.go   machines, with distance tables of real ones
//	costs.go     the cost of each step, and its source
//	tree.go      loads that fork and join
//	service.go   loads of requests from outside
//	agenda.go    which coroutine runs next
//	engine.go    virtual time and cache lines
//	queue.go     a run queue
//	place.go     a CPU and the workers that compute there
//	worker.go    a worker's life; compare pool/worker.go, find.go and sleep.go
//	fork.go      forks and joins; compare pool/fork.go
//	wait.go      what a join does while a thief has the fork
//	run.go       one run and its result
//	strategy.go  what is compared
//	sweep.go     all runs of a command, and their results together
//	report.go    tables
//
// # Time
//
// Each worker is a coroutine with a clock of its own, which each of its steps advances.
// Before a worker touches shared state it lets all coroutines run whose clocks are behind
// (worker.sync). It may be ahead by up to slack, so that a thief need not stop at each of
// hundreds of victims. The result is always an order in which the steps could have
// happened.
//
// # Places
//
// A place is the right to compute on a CPU. A worker is a goroutine, and has a place unless it
// waits for a thief or is idle. A waiter lends its place to a stand-in. When the thief is done
// the waiter goes on at once, even if the stand-in is in the middle of a job; then the two
// share the CPU, each at half the speed, until one of them ends its job or begins to wait.
//
// # Cache lines
//
// Shared state lies in words, each for the cache lines of one thing: the queues of a
// worker, the injector of a node, the state of package policy's Sleep, a bitmap. Reading a
// word again that has not changed costs next to nothing. Reading one that has changed costs
// the way from the worker that changed it, which depends on the distance. Changing a word
// that others have read costs the way as well, and workers that change a word at the same
// moment wait for one another. Where a compare-and-swap would fail, a race is lost.
//
// # What is left out
//
// Two threads of a core are as fast as two cores. Memory bandwidth, frequencies and the
// garbage collector set no limits. The system never takes a CPU away. There are no guests,
// priorities, spare workers or panics.
package sim
