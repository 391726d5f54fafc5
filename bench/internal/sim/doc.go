// Package sim simulates the scheduler of package pool on machines that are larger than the
// one at hand: workers, queues, forks and sleep in virtual time, on one thread, so that the
// same seed gives the same run to the last nanosecond.
//
// The pool's own code decides. [core.Pool] is the protocol: who searches and for how long, who sleeps, who wakes whom, and
// what happens while a worker waits. [policy.Order] and [policy.Search] choose victims. Tasks lie in a [heist.Ring] and a
// [heist.Injector]. The simulation is their host, and adds a clock and what each step costs:
//
//	machine.go   machines, with distance tables of real ones
//	costs.go     the cost of each step, and its source
//	tree.go      loads that fork and join
//	service.go   loads of requests from outside
//	agenda.go    which coroutine runs next
//	engine.go    virtual time and cache lines
//	cpu.go       CPUs, which workers take turns on, and sleep
//	host.go      what package core asks of a pool, and a place
//	worker.go    what a worker does between two steps of the protocol
//	fork.go      forks and joins
//	run.go       one run and its result
//	strategy.go  what is compared
//	sweep.go     all runs of a command, and their results together
//	report.go    tables
//
// # Time
//
// Each worker is a coroutine with a clock of its own, which each of its steps advances.
// Before a worker touches shared state it lets all coroutines run whose clocks are behind
// (clock.sync). It may be ahead by up to slack, so that a thief need not stop at each of
// hundreds of victims. The result is always an order in which the steps could have
// happened. A step of package core takes time where it calls the host: before it changes the
// state that all workers share ([core.Time]), when it looks at everything, and when it wakes a worker.
//
// # CPUs
//
// A place, and each worker that takes turns there, is bound to a CPU. A worker whose wait is over
// goes on at once, even if a stand-in is in the middle of a job; then the two
// share the CPU, each at half the speed.
//
// # Cache lines
//
// Shared state lies in words, each for the cache lines of one thing: the queues and forks of a
// place, the injector of a node, the state of policy.Sleep, a bitmap. Reading a
// word again that has not changed costs next to nothing. Reading one that has changed costs
// the way from the CPU that changed it, which depends on the distance. Changing a word
// that others have read costs the way as well, and workers that change a word at the same
// moment wait for one another. Where a compare-and-swap would fail, a race is lost.
//
// # What is left out
//
// Two threads of a core are as fast as two cores. Memory bandwidth, frequencies and the
// garbage collector set no limits. The system never takes a CPU away. There are no guests, children of scopes,
// priorities or panics.
package sim

// The simulation says again, in few words, what these do, with their costs. go test ./verify/model notices when one of them
// changes.
//
// stands for: pool/worker.go: Worker.queue Worker.awaitPlace Worker.step Worker.runOne Worker.stealWork place.stealTasks
// stands for: pool/find.go: Worker.chooseTask Worker.nextLocalTask Worker.pullBatch Worker.nextRemoteTaskAnywhere maxLIFO
// stands for: pool/sleep.go: Pool.anyWork Worker.wakeHelper
// stands for: pool/place.go: place.queued Worker.offers stealFork
// stands for: pool/fork.go: stack.eager stack.alarm stack.claim frames.pushTo frames.relax frames.takeBack frames.joinStolen frames.reclaim frames.publish
// stands for: pool/waiting.go: latch.complete Worker.await Worker.watchLatch Worker.isSpare Worker.lend shortLook longLook
