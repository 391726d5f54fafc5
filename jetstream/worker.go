package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool"
)

// # The way of a job
//
//  1. Each lane has goroutines that ask the server for as many jobs as the lane has room for (pull). A request stays
//     open for a while, and jobs arrive as they are published.
//  2. A job that arrives is held: it is in the map, counts as unstarted, and is submitted to the pool with its priority (accept).
//  3. A worker of the pool begins it (run). It counts as unstarted no longer, which may make room in its lane. A worker that ends
//     begins all that are unstarted itself, to give them back (end); what the pool has of them then does nothing.
//  4. Its function returns, and the job is answered: acknowledged, refused with a delay, or published as a dead letter and
//     then terminated (answer). Then it is held no longer. Acknowledgements are sent by one goroutine, those of some milliseconds
//     at a time (acknowledge): each by itself would be a system call here and one at the server.
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
// not meet again in one process. The suspects that wait count as unstarted.
//
// # Room
//
// The unstarted jobs of all lanes together should be what the pool can begin within soon. The lanes share that evenly, for a lane
// whose jobs have to wait must not keep those of another one away from the pool. What was asked for and has not arrived counts as if it were there.

const (
	// soon is how much work is held, in time. On two CPUs that a server and the jobs keep busy a request takes up to 5 ms to
	// be answered, and with 10 ms of work less than a third of it had arrived.
	soon = 25 * time.Millisecond

	// ackTime is how long an acknowledgement may wait for others. In bench jobs/short this process used 1.10 of the CPU time of a plain loop
	// when each was sent by itself, and 1.03 to 1.04 with one, two or four milliseconds.
	ackTime = 2 * time.Millisecond

	// pullers is how many requests a lane has under way: one is answered while the next is on its way.
	pullers = 2

	// leastRoom and mostRoom bound the jobs that are held for each place of the pool, whatever they take.
	leastRoom, mostRoom = 2, 256

	// pullTime is how long a request to the server stays open, and so how long Run may wait for it at its end. What is asked for
	// follows how long jobs take, so it must not be old. An idle worker asks four times a second.
	pullTime = 250 * time.Millisecond

	// averageWeight is the weight of the newest job in the average of how long jobs take.
	averageWeight = 1.0 / 16

	// leastPause and mostPause are the pauses after a request that failed, each twice as long as the one before.
	leastPause, mostPause = 10 * time.Millisecond, time.Second

	// leastRefusal is how long a job waits at least that cannot be run or buried, whatever Backoff says.
	leastRefusal = 100 * time.Millisecond

	// answerTime bounds the wait for the dead-letter stream.
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

	mu      sync.Mutex
	room    sync.Cond     // of mu: a lane may have more room, or the worker stops
	empty   chan struct{} // closed when no more jobs come and none is held
	over    chan struct{} // closed when Run returns
	held    map[*Job]struct{}
	waiting map[*lane]int // unstarted jobs, and those that were asked for
	queued  int           // unstarted jobs of all lanes
	begun   int           // jobs that have begun and not ended
	enough  int           // the last share: a lane that has less than three quarters of it waiting is to be woken
	acks    []*Job        // done, and to be acknowledged
	full    bool          // a lane waits for a job to end, for MaxRunning run
	average time.Duration // that a job takes; 0 before the first
	suspect *Job          // the one that runs
	line    []*Job        // suspects that wait for it, the first first
	excess  []*Job        // that came while MaxRunning ran, the first first
	backlog []*Job        // that the pool had no room for, see feed

	attempts natsjs.KeyValue // nil if they are not counted

	stopped bool
	failed  error // why the worker stopped by itself

	acksReady chan struct{} // has a token if acks is not empty
	fed       chan struct{} // has a token if backlog is not empty

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
		acksReady: make(chan struct{}, 1), fed: make(chan struct{}, 1), held: make(map[*Job]struct{}), waiting: make(map[*lane]int)}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	w.room.L = &w.mu
	w.jobs, w.giveUp = context.WithCancelCause(context.WithoutCancel(ctx))
	return w, nil
}

// ErrGivenUp is the cause of the contexts of jobs that [Worker.Shutdown] gives up.
var ErrGivenUp = errors.New("jetstream: the worker gave the job up")

// Run takes jobs until ctx ends or Shutdown is called. Then it takes no more, gives back those that have not begun, and returns when those
// that run have ended and all are answered. The error is nil then. It is not if the worker cannot go on: the connection or the
// pool is closed, or the consumer or the stream was removed. Run is called once.
func (w *Worker) Run(ctx context.Context) error {
	if w.running.Swap(true) {
		return errors.New("jetstream: Run was called twice; make another worker")
	}
	defer close(w.over)
	defer context.AfterFunc(ctx, w.end)()
	var loops sync.WaitGroup
	for _, l := range w.lanes {
		for range pullers {
			loops.Go(func() { w.take(l) })
		}
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

// Shutdown ends Run in order and waits until it has returned: no more jobs are taken, those that have not begun are given back, and those
// that run may end. If ctx ends first, the contexts of these jobs do, and Shutdown returns an error that says how many have not
// answered; they are delivered again when AckWait has passed, unless they end meanwhile. Without a Run it returns at once. A job must
// not call it, for it would wait for itself.
func (w *Worker) Shutdown(ctx context.Context) error {
	w.end()
	if !w.running.Load() {
		return nil
	}
	select {
	case <-w.over:
		return nil
	case <-ctx.Done():
	}
	w.giveUp(ErrGivenUp)
	// Jobs that look at their contexts end now, and are answered.
	select {
	case <-w.over:
		return nil
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
		close(w.stop)
		w.mu.Lock()
		w.room.Broadcast()
		all := slices.Collect(maps.Keys(w.held))
		w.mu.Unlock()
		for _, j := range all {
			w.giveBackUnstarted(j)
		}
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

// take takes jobs of a lane until the worker stops.
func (w *Worker) take(l *lane) {
	pause := leastPause
	for {
		n := w.awaitRoom(l)
		if n == 0 {
			return
		}
		err := w.pull(l, n)
		if err != nil {
			err = l.cause(err)
		}
		switch {
		case err == nil:
			pause = leastPause
			continue
		case w.ending():
			return
		case cannotGoOn(err):
			w.fail(w.config.explain(err))
			return
		}
		w.config.OnError(fmt.Errorf("jetstream: consumer %s: %w; the next try is in %v", l.durable, err, pause))
		select {
		case <-w.stop:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// cause returns a better reason for an error of a request, if the consumer or the stream was removed: a request for jobs of one that is not
// there gets no answer.
func (l *lane) cause(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), mostPause)
	defer cancel()
	if _, missing := l.consumer.Info(ctx); missing != nil && cannotGoOn(missing) {
		return missing
	}
	return err
}

func cannotGoOn(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, natsjs.ErrConsumerDeleted) ||
		errors.Is(err, natsjs.ErrConsumerNotFound) || errors.Is(err, natsjs.ErrStreamNotFound)
}

// awaitRoom waits until a lane has room for a quarter of its share, and returns for how many jobs, half of its share at most: 0 if the
// worker stops.
func (w *Worker) awaitRoom(l *lane) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.ending() {
		share := w.share()
		w.enough = share
		if n := min(share-w.waiting[l], (share+1)/pullers); n > 0 && 4*n >= share {
			w.waiting[l] += n
			return n
		}
		w.room.Wait()
	}
	return 0
}

// share returns how many unstarted jobs a lane may hold. The caller holds mu.
func (w *Worker) share() int {
	places := w.config.Pool.Workers()
	n := leastRoom
	if w.average > 0 {
		n = int(min(soon/w.average, mostRoom))
	}
	most := w.mostRunning() - w.begun
	if most <= 0 {
		w.full = true
		return 0
	}
	others := w.config.Pool.Load().Queued.Total() - w.queued
	return max(min(places*max(n, leastRoom)-max(others, 0), most)/len(w.lanes), 1)
}

// pull asks for n jobs, for which there is room, and accepts those that come.
func (w *Worker) pull(l *lane, n int) error {
	defer func() { // what did not come leaves room
		w.mu.Lock()
		w.waiting[l] -= n
		w.mu.Unlock()
	}()
	batch, err := l.consumer.Fetch(n, natsjs.FetchMaxWait(pullTime))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		n--
		if err := w.accept(l, m); err != nil {
			w.config.OnError(err)
		}
	}
	return batch.Error()
}

// accept holds a job and submits it to the pool. One that the pool refuses is given back.
func (w *Worker) accept(l *lane, m natsjs.Msg) error {
	j, err := newJob(w, l, m)
	if err != nil {
		w.mu.Lock()
		w.waiting[l]--
		w.mu.Unlock()
		return err
	}
	w.counts.taken.Add(1)
	if j.delivery > 1 {
		w.counts.redelivered.Add(1)
	}
	w.mu.Lock()
	w.held[j] = struct{}{}
	w.queued++
	w.mu.Unlock()
	if w.ending() { // end has not seen it
		w.giveBackUnstarted(j)
		return nil
	}
	w.submit(j)
	return nil
}

// submit queues a job in the pool. One that the pool has no room for (WithQueueBound) waits in the backlog; one that it refuses is given back.
func (w *Worker) submit(j *Job) {
	err := w.config.Pool.TrySubmit(func(pw *pool.Worker) { w.run(pw, j) }, j.lane.priority, pool.Named(j.Subject()))
	if errors.Is(err, pool.ErrFull) {
		w.mu.Lock()
		w.backlog = append(w.backlog, j)
		w.mu.Unlock()
		select {
		case w.fed <- struct{}{}:
		default:
		}
		return
	}
	w.refused(j, err)
}

// refused gives back a job that the pool has refused, if err says so.
func (w *Worker) refused(j *Job, err error) {
	if err == nil {
		return
	}
	w.giveBackUnstarted(j)
	err = fmt.Errorf("jetstream: the pool refuses job %s: %w", j.id, err)
	switch {
	case errors.Is(err, pool.ErrClosed):
		w.fail(err)
	case !w.ending():
		w.config.OnError(err)
	}
}

// feed submits the backlog as the pool has room. It waits for that, where take must not: jobs that arrive are to be held.
func (w *Worker) feed(over <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-w.stop: // all in the backlog are given back
		case <-over:
		}
		cancel()
	}()
	for {
		select {
		case <-over:
			return
		case <-w.fed:
		}
		for {
			w.mu.Lock()
			if len(w.backlog) == 0 {
				w.mu.Unlock()
				break
			}
			j := w.backlog[0]
			w.backlog = w.backlog[1:]
			w.mu.Unlock()
			w.refused(j, w.config.Pool.Submit(ctx, func(pw *pool.Worker) { w.run(pw, j) }, j.lane.priority, pool.Named(j.Subject())))
		}
	}
}

// begin says that a job is unstarted no longer. It is false for one that has begun before, and for one that has to wait, as MaxRunning run.
func (w *Worker) begin(j *Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.begun {
		return false
	}
	if w.begun >= w.mostRunning() {
		w.excess = append(w.excess, j)
		return false
	}
	w.setBegun(j)
	return true
}

// setBegun and unbegin count a job as begun, and as unstarted once more. The caller holds mu.
func (w *Worker) setBegun(j *Job) {
	j.begun = true
	w.queued--
	w.begun++
	w.waiting[j.lane]--
	if 4*w.waiting[j.lane] <= 3*w.enough {
		w.room.Broadcast()
	}
}

func (w *Worker) unbegin(j *Job) {
	j.begun = false
	w.queued++
	w.waiting[j.lane]++
	w.ended()
}

// mostRunning is MaxRunning, or its default.
func (w *Worker) mostRunning() int {
	if w.config.MaxRunning > 0 {
		return w.config.MaxRunning
	}
	return defaultRunning * w.config.Pool.Workers()
}

// giveBackUnstarted gives a job back if it has not begun. What the pool has of it does nothing then.
func (w *Worker) giveBackUnstarted(j *Job) {
	w.mu.Lock()
	unstarted := !j.begun
	if unstarted {
		w.setBegun(j)
	}
	w.mu.Unlock()
	if unstarted {
		w.counts.givenBack.Add(1)
		w.tell(j, j.message.Nak())
		w.leave(j)
	}
}

// leave says that jobs have their answers.
func (w *Worker) leave(jobs ...*Job) {
	w.mu.Lock()
	for _, j := range jobs {
		delete(w.held, j)
		if !j.done {
			w.ended()
		}
	}
	if w.stopped && len(w.held) == 0 {
		close(w.empty)
	}
	w.mu.Unlock()
}

// ended counts one less that has begun. The caller holds mu.
func (w *Worker) ended() {
	w.begun--
	if w.full {
		w.full = false
		w.room.Broadcast()
	}
	if len(w.excess) > 0 {
		next := w.excess[0]
		w.excess = w.excess[1:]
		go w.submit(next) // it takes mu
	}
}

// run runs a job in a task of the pool and answers it, however its function ends.
func (w *Worker) run(pw *pool.Worker, j *Job) {
	if !w.begin(j) {
		return
	}
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
			w.leave(j)
			return
		}
		if err == nil {
			err = w.writeAttempt(pw, j, known)
		}
		if err != nil {
			w.refuse(j, fmt.Errorf("its attempts are not known: %w", w.config.explain(err)))
			w.leave(j)
			return
		}
	}
	start := time.Now()
	err, stack := pool.ErrGoexit, []byte(nil)
	defer func() {
		if v := recover(); v != nil {
			stack, err = panicked(v)
		}
		w.took(time.Since(start))
		w.answer(pw, j, err, stack)
	}()
	err = w.f(pw, j)
}

// panicked makes an error of a panic, with the stack of where it began.
func panicked(v any) (stack []byte, err error) {
	if e, ok := v.(*pool.PanicError); ok {
		return e.Stack, e
	}
	return debug.Stack(), fmt.Errorf("panic: %v", v)
}

// took counts a job that took so long.
func (w *Worker) took(d time.Duration) {
	w.mu.Lock()
	if w.average == 0 {
		w.average = d
	}
	w.average += time.Duration(averageWeight * float64(d-w.average))
	w.mu.Unlock()
}

// answer tells the server what became of a job, or leaves that to acknowledge.
func (w *Worker) answer(pw *pool.Worker, j *Job, err error, stack []byte) {
	if err == nil {
		w.mu.Lock()
		j.done = true
		w.ended()
		w.acks = append(w.acks, j)
		first := len(w.acks) == 1
		w.mu.Unlock()
		if first {
			w.acksReady <- struct{}{} // it is empty: acknowledge takes the token, and then all of acks
		}
		return
	}
	defer w.leave(j)
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
		w.config.OnError(fmt.Errorf("jetstream: the answer to job %s: %w; it will be delivered again", j.id, err))
	}
}

// The headers of a dead letter.
const (
	HeaderError    = "Heist-Error"
	HeaderStack    = "Heist-Stack"
	HeaderJob      = "Heist-Job"      // the job's ID
	HeaderSubject  = "Heist-Subject"  // to which the job was published
	HeaderStream   = "Heist-Stream"   // of the job
	HeaderSequence = "Heist-Sequence" // in that stream
	HeaderDelivery = "Heist-Delivery" // the number of deliveries that began
)

// mostStack bounds a stack in a dead letter, in bytes. The default max_payload of a server is a megabyte.
const mostStack = 32 << 10

// bury publishes a job as a dead letter, and ends it when the dead-letter stream has it. A job that cannot be stored
// there, or for which there is no such stream, is refused with the longest delay.
func (w *Worker) bury(pw *pool.Worker, j *Job, reason error, stack []byte) {
	if w.config.DeadLetter == "" {
		w.refuse(j, fmt.Errorf("it is no dead letter, for Config.DeadLetter is empty: %w", reason))
		return
	}
	letter := nats.NewMsg(w.config.DeadLetter)
	letter.Data = j.Data()
	for key, values := range j.Header() {
		if key != natsjs.MsgIDHeader {
			letter.Header[key] = values
		}
	}
	for key, value := range map[string]string{
		HeaderError: brief(reason.Error(), mostError), HeaderStack: string(stack[:min(len(stack), mostStack)]), HeaderJob: j.id, HeaderSubject: j.Subject(),
		HeaderStream: w.config.Stream, HeaderSequence: strconv.FormatUint(j.sequence, 10), HeaderDelivery: strconv.Itoa(j.attempt),
	} {
		if value != "" {
			letter.Header.Set(key, headerText(value))
		}
	}
	var err error
	publish := func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		id := "dead/" + w.Name() + "/" + j.attemptsKey()
		if _, err = w.js.PublishMsg(ctx, letter, natsjs.WithMsgID(id)); errors.Is(err, nats.ErrMaxPayload) {
			letter.Header.Del(HeaderStack)
			_, err = w.js.PublishMsg(ctx, letter, natsjs.WithMsgID(id))
		}
	}
	pw.Block(publish)
	if err != nil {
		w.writeAnswer(pw, j, max(j.attempt, w.config.MaxDeliver), reason) // so that it is not run again
		w.refuse(j, fmt.Errorf("it failed with %q, and is no dead letter yet: %w", brief(reason.Error(), mostError), w.config.explain(err)))
		return
	}
	w.counts.dead.Add(1)
	w.tell(j, j.message.TermWithReason("dead letter"))
}

// refuse has a job delivered again after the longest delay, and reports why.
func (w *Worker) refuse(j *Job, err error) {
	w.config.OnError(fmt.Errorf("jetstream: job %s: %w", j.id, err))
	w.tell(j, j.message.NakWithDelay(max(w.config.Backoff[len(w.config.Backoff)-1], leastRefusal)))
}

// extend extends the deadlines of all jobs that are held.
func (w *Worker) extend(over <-chan struct{}) {
	period := w.config.AckWait / 3
	ticker := time.NewTicker(period / 4)
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
		now := time.Now()
		due = due[:0]
		w.mu.Lock()
		if w.jobs.Err() == nil { // jobs that were given up are the server's
			for j := range w.held {
				if now.Sub(j.extended) >= period {
					j.extended = now
					due = append(due, j)
				}
			}
		}
		w.mu.Unlock()
		for _, j := range due {
			// One that was answered meanwhile says so, which is no error.
			if err := j.message.InProgress(); err == nil {
				w.counts.extended.Add(1)
			} else if !errors.Is(err, natsjs.ErrMsgAlreadyAckd) {
				w.config.OnError(fmt.Errorf("jetstream: the deadline of job %s was not extended: %w", j.id, err))
			}
		}
	}
}
