// Package jetstream runs jobs that lie in a NATS JetStream stream on heist pools, in any number of processes.
//
// A [Worker] pulls messages of a durable consumer and runs each as a task of its pool. The function of a job gets the
// pool's worker, so a job may fork, loop and scope as any other task:
//
//	w, err := jetstream.NewWorker(ctx, js, jetstream.Config{
//		Stream: "JOBS", Durable: "render", Normal: "jobs.render", DeadLetter: "dead.render",
//	}, func(pw *pool.Worker, j *jetstream.Job) error {
//		return render(pw, j.Data())
//	})
//	if err != nil {
//		return err
//	}
//	return w.Run(ctx)
//
// # What is promised
//
// A job is run at least once. It is answered after its function has returned, so a job whose process dies is delivered
// again, to any process. It may therefore run more than once: after a crash, after a network partition that lasts longer than
// [Config].AckWait, or if an acknowledgement is lost. JetStream can promise no more, for a function may do anything before
// its process dies.
//
// An effect is exactly once if it is one that the server decides: [Job.Once] stores a result under the job's name unless there is one,
// by the revision of a key-value bucket, and [Job.Publish] publishes under message ids that are the same each time, which
// the receiving stream's duplicate window drops. Effects elsewhere must be idempotent.
//
// # How many jobs a worker holds
//
// A worker holds jobs that have not begun for about 25 milliseconds of work, by the average of how long
// jobs have taken, and no fewer than two for each of the pool's places. Jobs of others wait in the stream, where every process
// can have them. What the pool has queued besides counts against that, down to one job for each priority. Jobs that turn out to be too many are given
// back: those that are beyond twice as much for a second, and all if none has begun or ended for a second. Jobs of one priority begin in the order in which they
// arrive. While a job is held or runs its deadline is extended, so a long job is not delivered twice; of a process that hangs or dies the
// deadline passes.
//
// # Failures
//
// A job whose function returns an error, panics or calls runtime.Goexit is refused with a delay, [Config].Backoff, and delivered
// again. After [Config].MaxDeliver deliveries it ends in the dead-letter stream, with its error and the stack of a
// panic. Only deliveries that began count, those to processes that died meanwhile included: jobs that a process held when another
// job ended it are not given up for that. A job that cannot be stored as a dead letter, because that stream is full for example,
// is refused again and not lost.
//
// A dead letter has the job's data and its headers, except those that begin with Nats- and Heist-: the former tell the server what to do with the job.
// A letter is larger than its job. What the server or the stream does not take, for its limits max_payload and max_msg_size and that
// of 64 kB for headers, is left out, first the stack, then the job's headers, then the end of its data; [HeaderCut] says so. Jobs that have to be buried whole
// stay a few kilobytes below these limits.
package jetstream
