// Package pool is a work-stealing scheduler: fork-join, loops and tasks on workers that steal from each
// other. Workers are goroutines, or threads that are bound to CPUs.
//
// # How do I
//
//	run a loop                                  ForRange; elements and algorithms: package par
//	run a recursive function                    Recursive; two different halves: Join
//	run some functions and wait for them        Do; with a worker: Worker.Do
//	add children that add children              Worker.Scope
//	get one function's result later             Async
//	  when others are done, or one of them      After; Then, All, Any; for a select Future.Done
//	run functions that may fail                 NewGroup; with results GroupOf; one is enough: First
//	  so many of them at a time                 Group.AtMost, a part of the pool
//	run something without waiting for it        Pool.Go; inside a task Worker.Go
//	  with a priority, delay, deadline,
//	  node, context or bound                    Pool.Submit, TrySubmit, SubmitAll
//	refuse callers when there are too many      WithCallers, and Try
//	run something once on each worker           Pool.Broadcast; where a worker begins: WithHooks
//	bound open files or connections             Group.SetLimit, or the window of par.Stream
//	wait for a channel, a lock, the network     nothing; Worker.Block, Pool.Block: noticed at once
//	end a call early                            Place.With; a search that one result ends: Worker.Stop
//	end the pool                                Close, Shutdown, Abort
//	do without a pool of my own                 Default, the process's; Serial, in the caller
//	see what goes on                            Load, Stats, Config, Dump; WithName, WithTimings, WithSlowTask
//
// Calls take a [Place]: a pool, a worker, or one of them with a context that ends the call early. A goroutine
// that makes a blocking call from outside becomes a guest: it computes at once on its own stack, and the workers steal
// what it forks. Groups and futures are made at a place, too, and end with its context.
//
// What ends because of a context returns the context's cause, [context.Cause], as an error that is also the context's Err for
// [errors.Is]: context.DeadlineExceeded whatever cause WithTimeoutCause was given. A nil context is an error of a call that returns one;
// elsewhere it is a panic.
//
// # Forks and tasks
//
// A fork is half of a computation whose other half the caller runs itself: [Recursive],
// [Join] and [Worker.Do]. It costs some nanoseconds, so it may be small, and no allocation but for the closures that
// Do takes. Forks lie in their worker's fork stacks, from which thieves take the
// oldest, usually the largest, one at a time. Loops divide their range by forks, but only
// while the pool is hungry: while a worker that could take a part searches or sleeps.
//
// A task is run exactly once, by one worker. Tasks come from [Pool.Go], [Worker.Go], [Group],
// [Pool.Submit] and [Async]. Tasks from outside lie in the pool's injectors, tasks
// from inside in their worker's LIFO slot and run queue, from which thieves take half. A child of a [Scope] lies in its worker's deque, from which thieves take the oldest. On a
// machine with several memory nodes each node has its own injectors, and a loop is divided
// among the nodes before it is divided further.
//
// # Where a worker looks for work
//
//  1. Its batch buffer, LIFO slot and run queue. Every so many tasks it looks at the injector first, and tasks of high
//     priority come before all that.
//  2. Its node's injector, from which it takes a share into its batch buffer.
//  3. The guests of its node; then the other workers, tier by tier, the nearest tier first; then the guests of other
//     nodes. In a tier the last victim that had something comes first, and then the others from a random one on. The
//     worker takes a fork or a scope's child, or else half of the victim's run queue or batch buffer.
//  4. The injectors of all nodes.
//
// A worker that finds nothing spins, then yields, and at last parks, and its place sleeps until a waker claims it.
//
// # Waiting
//
// Nothing runs on top of a wait but what is waited for: the children of a scope, or a future that has not begun. A worker that waits for a stolen fork, a scope, a future or a group,
// or in [Worker.Block], lends its place, the right to compute, to another worker, and goes on when
// its wait is over. So tasks that wait for one another hang only if a goroutine for each task and each
// guest would, and a task may hold a lock across a join. Waits that heist was not
// told of, for channels, locks, the network, are noticed, and lend the place as well; [Worker.Block] saves the time that
// this takes at first. A task that spins until another one has done something does not wait: it computes, and keeps its place
// unless it calls [Worker.Yield]. The items of one loop are not tasks, and must not wait for one another, see [Granularity].
//
// # Misuse
//
// Bad arguments (nil, numbers out of range, what New did not make) are an error that names the function and says what to do. A
// function that returns an error returns it; the functions that add to a [Group] make the group fail with it; others panic with it.
// That a worker is used only by the function that it was given to is checked where that costs nothing. A build with the tag
// heistdebug (go test -tags heistdebug) checks it at each use.
//
// # Other goroutines of the process
//
// A busy worker gives way to other goroutines every 25 microseconds where no P is idle, and lets the network be polled
// every 100 microseconds. If the CPU of a bound worker goes offline, the worker continues on another CPU and returns
// when its CPU does.
//
// # Bubbles
//
// A pool that is made in a bubble of testing/synctest belongs to it: delays and deadlines follow the
// bubble's time, which passes when the pool has nothing to do either. (Where tasks are queued at a paused pool, it looks at them every 32
// milliseconds of that time, which makes long sleeps slow.) Such a pool must not be used from
// outside, nor a pool from outside in the bubble. Its workers are not bound, and [New] refuses options that
// would bind them, since to synctest a thread that sleeps is not a goroutine that waits. It also refuses
// [WithSlowTask] and [Tuning].HotWorker, which would keep the bubble's time from passing.
//
// # Seeing inside
//
// [Pool.Load] tells what the pool does now, [Pool.Stats] what it has done, [Pool.Config] how it is configured. [Pool.Dump]
// shows what each worker runs and what it waits for, and names circles of tasks that wait for one another (deadlocks). [WithTimings]
// measures how long tasks wait and run, [WithSlowTask] reports tasks that take too long. Goroutine labels
// (runtime/pprof.Do) of a submitter or caller follow the work to every worker; a stolen fork has the labels that its
// victim has when it is stolen. A runtime/trace has tasks and regions for what the pool does. What is not requested costs
// next to nothing.
//
// # What is promised
//
// A task that was accepted runs exactly once, before [Pool.Close] returns, or is skipped because its context has ended,
// and counted, or is returned by [Pool.Abort]. What it adds while Close waits is accepted, too. A task that was not accepted was refused with an error. A panic reaches
// the goroutine that waits for the function that panicked, with its stack; a group or future keeps it for Wait. If nobody can wait,
// as for [Pool.Go], the panic ends the process, as a panic in a goroutine does, or goes to [WithPanicHandler]. A [runtime.Goexit] in a function of a blocking call ends the
// caller's goroutine, even if the call was cancelled or stopped; if another function of the call panics, that panic arrives instead. Inside a task submitting to the pool never blocks ([Group.SetLimit] does, and lends the place), and a task
// may submit, fork, open a group and wait for it. No more tasks run at a time than there are places, except for tasks that come back from a wait:
// each goes on at once, beside the worker that computes in its place, since it may hold what that worker waits for. While
// a coroutine of iter.Pull waits, a task and a caller a millisecond begin beside the others.
package pool
