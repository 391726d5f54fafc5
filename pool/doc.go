// Package pool is a work-stealing scheduler: fork-join and tasks on workers that steal from each
// other, goroutines or threads that are bound to CPUs.
//
// # Forks and tasks
//
// A fork is half of a computation whose other half the caller runs itself: [Recursive],
// [Join] and [Worker.Do]. It costs 2 to 4 ns and no allocation, so it
// may be small. Forks lie in their worker's fork stacks, from which thieves take the
// oldest, usually the largest, one at a time (fork.go). Loops divide their range by forks, but only
// when the pool is hungry (loop.go): [ForRange] is the one of which all others are made. Loops over elements and
// algorithms, sorts among them, are in package par.
//
// A task is run once, by whichever worker comes to it: [Pool.Go], [Worker.Go], [Group],
// [Worker.Scope], and with more to choose [Pool.Submit] and [Async]: a bound, priorities,
// delays, deadlines for the start. Tasks from outside lie in the pool's injectors, tasks
// from inside in their worker's LIFO slot and run queue, from which thieves take half. On a
// machine with several memory nodes each has injectors of its own, and a loop is divided
// among the nodes before it is divided further (affinity.go).
//
// A goroutine that calls [Pool.Run] or a loop becomes a guest: it starts at once on its
// own stack, and the workers take what it forks (guest.go). All
// blocking calls take a [Place]: a pool, a worker, or one of them with a context that
// ends the call early (cancelscope.go).
//
// # Which call
//
//	a loop                                      ForRange; elements and algorithms: package par
//	a recursive function; two different halves  Recursive; Join
//	some functions, by who has no worker        Do
//	                by who has one              Worker.Do
//	children that add children                  Worker.Scope
//	one whose result is wanted later            Async, TryAsync
//	functions that may fail                     Pool.Group; with results GroupOf; one is enough: First
//	so many of them at a time                   Group.AtMost, a part of the pool
//	something that nobody waits for             Pool.Go; inside a task Worker.Go
//	  with a priority, delay, deadline,
//	  node, context or bound                    Pool.Submit, TrySubmit, SubmitAll
//	for too many callers                        WithCallers, and TryRun or View.Try to refuse them
//	something once on each worker               Pool.Broadcast; where a worker begins: WithHooks
//	files or connections, so many at a time     Group.SetLimit, or the window of par.Stream
//	something that waits                        Worker.Block; without a worker Pool.Block
//	the end                                     Close, Shutdown, Abort
//	without a pool                              Serial in the caller, Default the process's
//	a search that one result ends               WithCancel and Worker.Stop
//
// # Where a worker looks
//
//  1. its batch buffer, LIFO slot and run queue, but first the injector every so many
//     tasks, and urgent tasks before all that (find.go)
//  2. its node's injector, of which it takes a share into its batch buffer
//  3. the other workers and the guests, the last one that had something first and then
//     tier by tier, the nearest first, from a random one on: a fork, or else half of the
//     run queue (placement.go)
//  4. the injectors of all nodes
//
// and if there is nothing, it spins, yields and at last becomes idle, and its place goes to sleep;
// sleep.md has the protocol by which it does so without missing anything. How a pool gets on with
// the other goroutines of its process is the matter of fairness.go, and what becomes of workers
// whose CPU goes that of rebind.go.
//
// # Waiting
//
// Nothing runs on top of a wait. A worker that waits for a stolen fork, a scope, a future, a group
// or in [Worker.Block] lends its place, the right to compute, to another worker, and goes on when
// what it waits for is done (waiting.md). So a program hangs only if it would hang with a goroutine
// for each task and each guest, and a lock may be held across a join. A task that waits for anything
// that heist does not know of says so by [Worker.Block].
//
// # Bubbles
//
// A pool that is made in a bubble of testing/synctest belongs to it: delays and deadlines follow the
// bubble's time, which passes when the pool has nothing to do either. It must not be used from
// outside, nor a pool from outside in the bubble. Its workers are not bound, and [New] refuses what would bind them, for
// a thread that sleeps is no goroutine that waits.
//
// # Seeing inside
//
// [Pool.Load] is what the pool does now, [Pool.Stats] what it has done, [Pool.Config] what it is. [Pool.Dump] shows who runs what and who waits for
// whom, and names the circle where tasks wait for one another. [WithTimings] measures how long tasks wait and run, [WithSlowTask] reports those that take too long.
// Goroutine labels (runtime/pprof.Do) of who submits or calls follow the work to every worker; a stolen fork has those that its victim has when it is stolen. And a runtime/trace has tasks and regions for
// what the pool does. What is not asked for costs next to nothing (observe.go, labels.go).
//
// # What is promised
//
// What was accepted is done exactly once, before [Pool.Close] returns; what was not
// accepted was refused with an error, and what is skipped because its context has ended is counted.
// A panic reaches the goroutine that waits for the function
// that panicked, with its stack; if nobody waits, it ends the process, as it does in
// a goroutine, or goes to [WithPanicHandler]. Inside a task submitting never blocks, and a
// task may submit, fork, open a group and wait for it. No more tasks run at a time than
// there are workers, but for those that come back from a wait: each goes on at once, beside the worker that computes
// in its place, or it might hold what that one waits for. While a coroutine of iter.Pull waits, a
// task a millisecond begins beside the workers (coroutine.go).
package pool
