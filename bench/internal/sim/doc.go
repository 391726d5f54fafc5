// Package sim simulates the scheduler of package pool on machines that are larger than the
// one at hand: workers, queues, forks and sleep in virtual time, on one thread, so that the
// same seed gives the same run to the last nanosecond.
//
// What decides is the pool's own code: [policy.Order] and [policy.Search] choose victims and
// pauses, [policy.Sleep] says who sleeps, who searches and whom to wake. What the simulation
// has of its own is what package policy lacks, queues and a clock:
//
//	machine.go   machines, with distance tables of real ones
//	costs.go     what everything takes, and where that is from
//	tree.go      loads that fork and join
//	service.go   loads of requests from outside
//	agenda.go    who is next
//	engine.go    virtual time and cache lines
//	queue.go     a run queue
//	worker.go    a worker's life; compare pool/worker.go, find.go and sleep.go
//	fork.go      forks and joins; compare pool/fork.go and latch.go
//	run.go       one run and what came of it
//	strategy.go  what is compared
//	sweep.go     all runs of a command, and what they say together
//	report.go    tables
//
// # Time
//
// Each worker is a coroutine with a clock of its own. Whatever it does moves its clock;
// before it touches what others can see, it lets all those go first whose clocks are behind
// (worker.sync). It may be ahead by up to slack, so that a thief need not stop at each of
// hundreds of victims. What results is always an order in which the steps could have
// happened.
//
// # Cache lines
//
// What others can see lies in words, each for the cache lines of one thing: the queues of a
// worker, the injector of a node, the state of package policy's Sleep, a bitmap. A word that
// nobody has changed since one read it costs next to nothing to read again; one that has
// changed costs the way from who changed it, which depends on the distance. To change what
// others have read costs the way as well, and those who change a word at the same moment
// wait for one another. Where a compare-and-swap would fail, a race is lost.
//
// # What is left out
//
// Two threads of a core are as fast as two cores. Memory bandwidth, frequencies, and the
// garbage collector know no limits. The system never takes a CPU away. There are no guests,
// priorities, doormen, spare workers or panics.
package sim
