// Package pool is a work-stealing scheduler: fork-join and tasks on pinned worker
// threads that steal from each other.
//
// # Forks and tasks
//
// A fork is half of a computation whose other half the caller runs itself: [Recursive],
// [Join], [Both] and [Worker.Do]. It costs a nanosecond or two and no allocation, so it
// may be small. Forks lie in their worker's fork stacks, from which thieves take the
// oldest, usually the largest, one at a time (fork.go). Loops and what is made of them
// ([For], [Map], [Reduce], [Scan], [Filter], [Find], [Sort], [Phases] and others) divide
// their range by forks, but only when somebody is hungry (loop.go).
//
// A task is run once, by whichever worker comes to it: [Pool.Go], [Worker.Go], [Group],
// [Worker.Scope], and with more to choose [Pool.Submit] and [Async]: a bound, priorities,
// delays, deadlines for the start. Tasks from outside lie in the pool's injectors, tasks
// from inside in their worker's LIFO slot and run queue, from which thieves take half. On a
// machine with several memory nodes each has injectors of its own, and a loop is divided
// among the nodes before it is divided further (pieces.go).
//
// A goroutine that calls [Pool.Run] or a loop becomes a guest: it starts at once on its
// own stack, in the place of a worker, and the others take what it forks (guest.go). All
// blocking calls take a [Place]: a pool, a worker, or one of them with a context that
// ends the call early (call.go).
//
// # Where a worker looks
//
//  1. its batch buffer, LIFO slot and run queue, but first the injector every so many
//     tasks, and urgent tasks before all that (find.go)
//  2. its node's injector, of which it takes a share into its batch buffer
//  3. the other workers and the guests, the last one that had something first and then
//     tier by tier, the nearest first, from a random one on: a fork, or else half of the
//     run queue (sites.go)
//  4. the injectors of all nodes
//
// and if there is nothing, it spins, yields and at last parks; sleep.md has the protocol by
// which it does so without missing anything. A pool that sleeps is woken by way of a
// doorman (doorman.go). How a pool gets on with the other goroutines of its process is
// the matter of neighbour.go, and what becomes of workers whose CPU goes that of away.go.
//
// A worker that waits for a stolen fork looks for other forks meanwhile, those of the
// thief first, and for tasks, which might take long, when it would otherwise go to sleep.
// A worker that waits for a group, a future or a scope looks for both. So a lock must not be
// held across a join or a wait: what runs meanwhile may want it. A task that waits for
// anything else says so by [Worker.Block], and a spare worker takes its place (crew.go).
//
// # What is promised
//
// What was accepted is done exactly once, before [Pool.Close] returns; what was not
// accepted was refused with an error. A panic reaches whoever waits for the function
// that panicked, with its stack; if nobody waits, it ends the process, as it does in
// a goroutine, or goes to [WithPanicHandler]. Inside a task submitting never blocks, and a
// task may submit, fork, open a group and wait for it. At no time do more tasks run than
// there are workers, those that block aside.
//
// One thing breaks this: runtime.Goexit, which testing's FailNow calls too, ends a
// whole goroutine. In a task or fork that a waiting worker or guest helps with, it takes
// along whatever waits below on the same stack. A worker is replaced, a guest's
// goroutine is not.
package pool
