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
//	place.go     a CPU and who computes there
//	worker.go    a worker's life; compare pool/worker.go, find.go and sleep.go
//	fork.go      forks and joins; compare pool/fork.go
//	wait.go      what a join does while a thief has the fork
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
// # Places
//
// A place is the right to compute on a CPU. A worker is a goroutine, and has a place unless it
// waits for a thief or is idle. A waiter lends its place to a stand-in. When the thief is done
// the waiter goes on at once, also when the stand-in is in the middle of a job; then the two
// share the CPU, each at half the speed, until one of them ends its job or begins to wait.
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
