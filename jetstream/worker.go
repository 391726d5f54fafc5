package jetstream

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/pool"
)

// # The way of a job
//
//  1. Each lane has a goroutine that asks the server for as many jobs as the lane has room for (pull.go). A request stays
//     open for a while, and jobs arrive as they are published.
//  2. A job that arrives is held: it is in the map, and in its lane's queue, which makes it unstarted. The pool gets a task
//     of the lane's priority for it (accept).
//  3. A worker of the pool runs the task, which takes the oldest job of the lane's queue (runNext). So jobs begin in the order in which they came, whichever
//     worker is free first; tasks of the pool, which are pulled in batches and stolen, do not. A queue that has become shorter may make room in its lane.
//  4. Its function returns, and the job is answered: acknowledged, refused with a delay, or published as a dead letter and
//     then terminated (answer). Then it is held no longer. Acknowledgements are sent by one goroutine, those of some milliseconds
//     at a time (acknowledge): each by itself would be a system call here and one at the server.
//
// A worker that ends gives back the jobs of all queues (end). The tasks that the pool still has for them find nothing and do nothing.
//
// Meanwhile one goroutine extends the deadline of all that are held, each third of AckWait (extend).
//
// A job is answered once, after its function and before it leaves the map, so Run, which waits until the map is empty, leaves no job
// without an answer. A process that dies answers nothing, and the server delivers its jobs again after AckWait.
//
// # Suspects
//
// A job that ends its process does so each time, and takes along what runs beside it. So a job that was delivered before and never
// answered is a suspect: it may have ended a process. One suspect runs at a time in a worker, and its attempt is written down before
// (attempts.go). What ran beside a job that ends processes dies with it once, and then no more: as suspects the two do
// not meet again in one process. The suspects that wait count as unstarted, and go back to the front of their queue when it is their turn.

const (
	// ackTime is how long an acknowledgement may wait for others. In bench jobs/short this process used 1.10 of the CPU time of a plain loop
	// when each was sent by itself, and 1.03 to 1.04 with one, two or four milliseconds.
	ackTime = 2 * time.Millisecond

	// averageWeight is the weight of the newest job in the average of how long jobs take.
	averageWeight = 1.0 / 16

	// leastPause and mostPause are the pauses after a request that failed, each twice as long as the one before.
	leastPause, mostPause = 10 * time.Millisecond, time.Second

	// leastRefusal is how long a job waits at least that cannot be run or buried, whatever Backoff says.
	leastRefusal = 100 * time.Millisecond

	// answerTime bounds the wait for the dead-letter stream, and for the bucket of attempts.
	answerTime = 10 * time.Second
)

// Func is what a job does. It runs in a task of the pool, as any other. A nil error acknowledges the job.
type Func func(pw *pool.Worker, j *Job) error

// Worker runs the jobs of a stream on a pool. All methods may be called by any goroutine.
type Worker struct {
	config Config
	js     natsjs.JetStream
	f      Func
	lanes  []*lane

	born     string // when the stream was made, constant; streams of one name differ in it
	replicas int    // of the stream, constant

	jobs   context.Context // of all jobs; ends when they are given up
	giveUp context.CancelCauseFunc

	stop     chan struct{} // closed when no more jobs are to be taken
	stopOnce sync.Once
	running  atomic.Bool // Run was called

	mu      sync.Mutex    // of what follows, and of the lanes
	room    sync.Cond     // of mu: a lane may have more room, or the worker stops
	empty   chan struct{} // closed when no more jobs come and none is held
	over    chan struct{} // closed when Run returns
	held    map[*Job]struct{}
	queued  int           // unstarted jobs of all lanes
	begun   int           // jobs that have begun and not ended
	enough  int           // the last share: a lane that has less than three quarters of it waiting is to be woken
	acks    []*Job        // done, and to be acknowledged
	average time.Duration // that a job takes; 0 before the first
	now     int           // counts the ticks of extend
	moved   bool          // a job has begun or ended since the last tick
	still   int           // for how many ticks none has
	stalled bool          // see pull.go
	suspect *Job          // the one that runs
	line    []*Job        // suspects that wait for it, the first first

	attempts natsjs.KeyValue // nil if they are not counted

	stopped bool
	failed  error // why the worker stopped by itself
	result  error // of Run, constant when it has returned

	acksReady chan struct{} // has a token if acks is not empty
	unsent    chan struct{} // has a token if a lane has unsent tasks

	counts counts
}

// NewWorker checks the configuration, finds the streams and makes the consumers that do not exist. It takes no job before [Worker.Run].
func NewWorker(ctx context.Context, js natsjs.JetStream, c Config, f Func) (*Worker, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("jetstream: NewWorker was called with a nil context")
	case js == nil:
		return nil, errors.New("jetstream: NewWorker was called with a nil JetStream; see jetstream.New of nats.go")
	case f == nil:
		return nil, errors.New("jetstream: NewWorker was called with a nil function")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	w := &Worker{config: c, js: js, f: f, stop: make(chan struct{}), empty: make(chan struct{}), over: make(chan struct{}),
		acksReady: make(chan struct{}, 1), unsent: make(chan struct{}, 1), held: make(map[*Job]struct{})}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	w.room.L = &w.mu
	for _, l := range w.lanes {
		l.run = func(pw *pool.Worker) { w.runNext(pw, l) }
	}
	w.jobs, w.giveUp = context.WithCancelCause(context.WithoutCancel(ctx))
	return w, nil
}

// ErrGivenUp is the cause of the contexts of jobs that [Worker.Shutdown] gives up.
var ErrGivenUp = errors.New("jetstream: the worker gave the job up")

// Run takes jobs until ctx ends or Shutdown is called. Then it takes no more, gives back those that have not begun, and returns when those
// that run have ended and all are answered. The error is nil then. It is not if the worker cannot go on: the connection or the
// pool is closed, or the consumer or the stream was removed; nor if the server has not received the last answers within ten seconds.
// Run is called once. After a Shutdown it returns at once.
func (w *Worker) Run(ctx context.Context) error {
	if w.running.Swap(true) {
		return errors.New("jetstream: Run was called twice; make another worker")
	}
	defer close(w.over)
	w.result = w.runUntil(ctx)
	return w.result
}

func (w *Worker) runUntil(ctx context.Context) error {
	defer context.AfterFunc(ctx, w.end)()
	var loops sync.WaitGroup
	for _, l := range w.lanes {
		if err := w.listen(l); err != nil {
			w.fail(w.config.explain(err))
			break
		}
		loops.Go(func() { w.take(l) })
	}
	over := make(chan struct{})
	var extender sync.WaitGroup
	extender.Go(func() { w.extend(over) })
	extender.Go(func() { w.acknowledge(over) })
	extender.Go(func() { w.feed(over) })
	loops.Wait() // no job comes any more
	w.mu.Lock()
	if len(w.held) == 0 {
		close(w.empty)
	}
	w.stopped = true
	w.mu.Unlock()
	<-w.empty
	close(over)
	extender.Wait()
	// Answers are published without waiting for the server. What is flushed was received.
	flush, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	err := w.js.Conn().FlushWithContext(flush)
	w.giveUp(ErrGivenUp)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.failed == nil {
		return fmt.Errorf("jetstream: the last answers may not have arrived, and their jobs be delivered again: %w", err)
	}
	return w.failed
}

// Shutdown ends Run in order, waits until it has returned, and returns its error: no more jobs are taken, those that have not begun are given back, and those
// that run may end. If ctx ends first, the contexts of these jobs do, and Shutdown returns an error that says how many have not
// answered; they are delivered again when AckWait has passed, unless they end meanwhile. Without a Run it returns at once. A job, and OnError, must
// not call it, for they would wait for themselves.
func (w *Worker) Shutdown(ctx context.Context) error {
	w.end()
	if !w.running.Load() {
		return nil
	}
	select {
	case <-w.over:
		return w.result
	case <-ctx.Done():
	}
	w.giveUp(ErrGivenUp)
	// Jobs that look at their contexts end now, and are answered.
	select {
	case <-w.over:
		return w.result
	case <-time.After(10 * ackTime):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return fmt.Errorf("jetstream: all jobs have ended, but the server has not received the last answers: %w", context.Cause(ctx))
	}
	return fmt.Errorf("jetstream: %d jobs have not ended, and will be delivered again: %w", len(w.held), context.Cause(ctx))
}

// end has the worker take no more jobs, and gives back those that have not begun.
func (w *Worker) end() {
	w.stopOnce.Do(func() {
		w.mu.Lock()
		close(w.stop) // under mu, so nothing is queued from now on
		w.room.Broadcast()
		unstarted := w.line
		w.line = nil
		for _, j := range unstarted {
			j.lane.waiting--
		}
		for _, l := range w.lanes {
			unstarted = append(unstarted, l.queue...)
			l.waiting -= len(l.queue)
			l.queue = nil
		}
		w.queued = 0
		w.mu.Unlock()
		w.giveBack(unstarted...)
	})
}

func (w *Worker) ending() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// fail stops the worker for a reason.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	if w.failed == nil {
		w.failed = err
	}
	w.mu.Unlock()
	w.end()
}

// accept holds a job and queues it, with a task of the pool that will take it or an older one.
func (w *Worker) accept(l *lane, m *nats.Msg) error {
	j, err := newJob(w, l, m)
	w.mu.Lock()
	if asked := l.fulfil(1); err != nil {
		l.waiting -= asked
		w.mu.Unlock()
		return err
	} else if asked == 0 {
		l.waiting++ // it comes after the end of its request
	}
	w.counts.taken.Add(1)
	if j.delivery > 1 {
		w.counts.redelivered.Add(1)
	}
	w.held[j] = struct{}{}
	j.extended = w.now
	if w.ending() {
		l.waiting--
		w.room.Broadcast() // take waits for the last request
		w.mu.Unlock()
		w.giveBack(j)
		return nil
	}
	l.queue = append(l.queue, j)
	w.queued++
	w.mu.Unlock()
	w.submit(l)
	return nil
}

// submit gives the pool a task of a lane. Where the pool has no room for it (WithQueueBound) it is left to feed.
func (w *Worker) submit(l *lane) {
	err := w.config.Pool.TrySubmit(l.run, l.priority)
	if errors.Is(err, pool.ErrFull) {
		w.mu.Lock()
		l.unsent++
		w.mu.Unlock()
		select {
		case w.unsent <- struct{}{}:
		default:
		}
		return
	}
	w.refused(err)
}

// refused ends the worker if the pool takes no tasks any more.
func (w *Worker) refused(err error) {
	if err != nil && !w.ending() {
		w.fail(fmt.Errorf("jetstream: the pool refuses the worker's tasks: %w", err))
	}
}

// feed gives the pool the unsent tasks as it has room. It waits for that, where take must not: jobs that arrive are to be held.
func (w *Worker) feed(over <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-w.stop: // all that is queued is given back
		case <-over:
		}
		cancel()
	}()
	for {
		select {
		case <-over:
			return
		case <-w.unsent:
		}
		for _, l := range w.lanes {
			w.mu.Lock()
			n := l.unsent
			l.unsent = 0
			w.mu.Unlock()
			for ; n > 0 && !w.ending(); n-- {
				w.refused(w.config.Pool.Submit(ctx, l.run, l.priority))
			}
		}
	}
}

// next takes the oldest job for a task of a lane. It returns nil if the job was given back, or if MaxRunning run: then the task comes again
// when one of them ends. The task may be the first to come after one has ended, while one of higher priority is on its way back. So
// it takes that one's job.
func (w *Worker) next(l *lane) *Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.returning = max(0, l.returning-1)
	if len(l.queue) == 0 { // another task has taken the job, or it was given back
		w.returnOne()
		return nil
	}
	if w.begun >= w.mostRunning() {
		l.owed++
		return nil
	}
	for _, first := range w.lanes[:slices.Index(w.lanes, l)] {
		if first.returning > 0 && len(first.queue) > 0 {
			first.returning--
			l.owed++
			l = first
			break
		}
	}
	j := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	w.queued--
	w.begun++
	w.moved = true
	l.waiting--
	if 4*l.waiting <= 3*w.enough {
		w.room.Broadcast()
	}
	return j
}

// ended counts one less that runs. The caller holds mu.
func (w *Worker) ended() {
	w.begun--
	w.moved = true
	if w.stalled {
		w.stalled = false
		w.room.Broadcast()
	}
	w.returnOne()
}

// returnOne gives the pool one of the owed tasks, if a job may begin. The caller holds mu.
func (w *Worker) returnOne() {
	if w.begun >= w.mostRunning() {
		return
	}
	for _, l := range w.lanes { // the first has the highest priority
		if l.owed > 0 {
			l.owed--
			l.returning++
			go w.submit(l) // it takes mu
			return
		}
	}
}

// mostRunning is MaxRunning, or its default.
func (w *Worker) mostRunning() int {
	if w.config.MaxRunning > 0 {
		return w.config.MaxRunning
	}
	return defaultRunning * w.config.Pool.Workers()
}

// giveBack gives back jobs that have not begun.
func (w *Worker) giveBack(unstarted ...*Job) {
	for _, j := range unstarted {
		w.tell(j, j.message.Nak())
	}
	w.counts.givenBack.Add(uint64(len(unstarted)))
	w.leave(unstarted...)
}

// leave says that jobs have their answers.
func (w *Worker) leave(jobs ...*Job) {
	w.mu.Lock()
	for _, j := range jobs {
		delete(w.held, j)
	}
	if w.stopped && len(w.held) == 0 && len(jobs) > 0 {
		close(w.empty)
	}
	w.mu.Unlock()
}

// finish says that a job has its answer and runs no longer.
func (w *Worker) finish(j *Job) {
	w.mu.Lock()
	w.ended()
	w.mu.Unlock()
	w.leave(j)
}

// runNext is the lane's task in the pool: it runs the lane's oldest job.
func (w *Worker) runNext(pw *pool.Worker, l *lane) {
	if pw == nil { // Abort has given the task back, and another goroutine calls it: the pool is closed, and end gives back what is queued
		return
	}
	pw.ShowAs(w.f)
	if j := w.next(l); j != nil {
		pw.Named(j.Subject(), func() { w.run(pw, j) })
	}
}

// run runs a job in a task of the pool and answers it, however its function ends.
func (w *Worker) run(pw *pool.Worker, j *Job) {
	if j.delivery > 1 && w.config.MaxDeliver > 0 {
		known, err := w.pastAttempts(pw, j)
		if err == nil && j.suspect && !w.isNextSuspect(j) {
			return // it is in the line
		}
		defer w.nextSuspect(j)
		if err == nil && j.attempt > w.config.MaxDeliver {
			reason := fmt.Errorf("begun %d times, and no process has answered", j.attempt-1)
			if !j.suspect {
				reason = errors.New(j.lastErr) // it could not be stored as a dead letter then
			}
			j.attempt--
			w.bury(pw, j, reason, nil)
			w.finish(j)
			return
		}
		if err == nil {
			err = w.writeAttempt(pw, j, known)
		}
		if err != nil {
			w.refuse(j, fmt.Errorf("its attempts are not known: %w", w.config.explain(err)))
			w.finish(j)
			return
		}
	}
	start := time.Now()
	err, stack, returned := pool.ErrGoexit, []byte(nil), false
	defer func() {
		if !returned {
			if v := panics.Recovered(recover()); v != nil {
				stack, err = panicked(v)
			}
		}
		w.answer(pw, j, time.Since(start), err, stack)
	}()
	err = w.f(pw, j)
	returned = true
}

// panicked makes an error of a panic, with the stack of where it began.
func panicked(v any) (stack []byte, err error) {
	if e, ok := v.(*pool.PanicError); ok {
		return e.Stack, e
	}
	return debug.Stack(), fmt.Errorf("panic: %v", v)
}

// took counts a job that took so long. The caller holds mu.
func (w *Worker) took(d time.Duration) {
	if w.average == 0 {
		w.average = d
	}
	w.average += time.Duration(averageWeight * float64(d-w.average))
}

// answer tells the server what became of a job that ran for so long, or leaves that to acknowledge.
func (w *Worker) answer(pw *pool.Worker, j *Job, ran time.Duration, err error, stack []byte) {
	err = sound(err)
	w.mu.Lock()
	w.took(ran)
	if err == nil && j.suspect {
		w.mu.Unlock()
		w.acknowledgeSuspect(pw, j)
		return
	}
	if err == nil {
		w.ended()
		w.acks = append(w.acks, j)
		first := len(w.acks) == 1
		w.mu.Unlock()
		if first {
			w.acksReady <- struct{}{} // it is empty: acknowledge takes the token, and then all of acks
		}
		return
	}
	w.mu.Unlock()
	defer w.finish(j)
	w.counts.failed.Add(1)
	var v *verdict
	errors.As(err, &v)
	switch {
	case v != nil && v.permanent, w.config.MaxDeliver > 0 && j.attempt >= w.config.MaxDeliver:
		w.bury(pw, j, err, stack)
	case v != nil:
		w.writeAnswer(pw, j, j.attempt, err)
		w.tell(j, j.message.NakWithDelay(v.after))
	default:
		w.writeAnswer(pw, j, j.attempt, err)
		w.tell(j, j.message.NakWithDelay(w.config.backoff(j.attempt)))
	}
}

// sound returns err, or another error if its methods panic, as those of a nil pointer may.
func sound(err error) (same error) {
	defer func() {
		if v := recover(); v != nil {
			same = fmt.Errorf("an error of type %T, whose methods panic: %v", err, v)
		}
	}()
	if err != nil {
		_ = err.Error()
		_ = errors.Is(err, errSilent) // calls Unwrap
	}
	return err
}

// acknowledgeSuspect waits until the server has the acknowledgement. The next suspect may end the process at once, and take
// acknowledgements along that have not been sent: so one that did nothing would fail again and again.
func (w *Worker) acknowledgeSuspect(pw *pool.Worker, j *Job) {
	defer w.finish(j)
	var err error
	pw.Block(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		err = j.message.AckSync(nats.Context(ctx))
	})
	if err == nil {
		w.counts.done.Add(1)
	}
	w.tell(j, err)
}

// acknowledge sends the acknowledgements of jobs that are done.
func (w *Worker) acknowledge(over <-chan struct{}) {
	var batch []*Job
	for {
		select {
		case <-over:
			return
		case <-w.acksReady:
		}
		time.Sleep(ackTime)
		w.mu.Lock()
		batch, w.acks = w.acks, batch[:0]
		w.mu.Unlock()
		for _, j := range batch {
			w.tell(j, j.message.Ack())
		}
		w.counts.done.Add(uint64(len(batch)))
		w.leave(batch...)
		clear(batch)
	}
}

// tell reports an answer that could not be sent. The job is delivered again then.
func (w *Worker) tell(j *Job, err error) {
	if err != nil {
		w.config.OnError(fmt.Errorf("jetstream: the answer to job %s: %w; it will be delivered again", j.ID(), err))
	}
}

// refuse has a job delivered again after the longest delay, and reports why.
func (w *Worker) refuse(j *Job, err error) {
	w.config.OnError(fmt.Errorf("jetstream: job %s: %w", j.ID(), err))
	w.tell(j, j.message.NakWithDelay(max(w.config.Backoff[len(w.config.Backoff)-1], leastRefusal)))
}

// extend extends the deadlines of all jobs that are held, when a third of AckWait has passed, and gives back those that are too many.
func (w *Worker) extend(over <-chan struct{}) {
	after := w.config.AckWait / 3
	period := min(after/4, stallTime/4)
	ticks := int(after / period)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var due []*Job
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		if err := pool.Do(w.config.Pool); err != nil { // what it has not begun it may never begin
			w.fail(fmt.Errorf("jetstream: the worker's pool: %w", err))
		}
		load := w.config.Pool.Load()
		due = due[:0]
		w.mu.Lock()
		w.now++
		if back := w.surplus(load, period); len(back) > 0 {
			go w.giveBackToOthers(back) // Run waits until they are held no longer
		}
		if w.jobs.Err() == nil { // jobs that were given up are the server's
			for j := range w.held {
				if w.now-j.extended >= ticks {
					j.extended = w.now
					due = append(due, j)
				}
			}
		}
		w.mu.Unlock()
		for _, j := range due {
			// One that was answered meanwhile says so, which is no error.
			if err := j.message.InProgress(); err == nil {
				w.counts.extended.Add(1)
			} else if !errors.Is(err, nats.ErrMsgAlreadyAckd) {
				w.config.OnError(fmt.Errorf("jetstream: the deadline of job %s was not extended: %w", j.ID(), err))
			}
		}
	}
}
