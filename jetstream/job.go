package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool"
)

// Job is a message of the stream that a worker has. It is for the function that was given it, until that returns.
type Job struct {
	message  *nats.Msg
	js       natsjs.JetStream
	worker   *Worker
	lane     *lane
	ctx      context.Context
	sequence uint64
	delivery uint64
	lastErr  string // of the attempt before, if it is known
	attempt  int    // 1 for a job that did not begin before, as far as is known
	suspect  bool   // it began before, or may have, and no process has answered
	sent     int    // messages that Publish has sent

	extended int // Worker.now when its deadline was extended last, or it came; under Worker.mu
}

// Data returns what was published. It must not be changed.
func (j *Job) Data() []byte { return j.message.Data }

// Subject returns the subject that it was published to.
func (j *Job) Subject() string { return j.message.Subject }

// Header returns what was published with it, nil perhaps. It must not be changed.
func (j *Job) Header() nats.Header { return j.message.Header }

// Context ends when the worker gives the job up, because [Worker.Shutdown] ran out of time. A job that looks at it, as calls
// at pw.With(j.Context()) do, ends soon then.
func (j *Job) Context() context.Context { return j.ctx }

// ID returns the job's name: its message id (the header Nats-Msg-Id) if its producer gave it one, or else STREAM.CREATED.SEQUENCE, where
// CREATED tells streams of one name apart. All deliveries of a job have the same.
func (j *Job) ID() string {
	if id := j.message.Header.Get(nats.MsgIdHdr); id != "" {
		return id
	}
	return j.worker.config.Stream + "." + j.worker.born + "." + strconv.FormatUint(j.sequence, 10)
}

// Delivery returns the number of this delivery, from 1 on.
func (j *Job) Delivery() int { return int(j.delivery) }

// Attempt returns how often the job has begun, this time included, from 1 on. Deliveries that were given back, or to processes that
// died before it began, do not count, unless [Config].MaxDeliver is negative: then it is [Job.Delivery].
func (j *Job) Attempt() int { return j.attempt }

func newJob(w *Worker, l *lane, m *nats.Msg) (*Job, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("jetstream: a message that is none of JetStream's: %w", err)
	}
	j := &Job{message: m, js: w.js, worker: w, lane: l, ctx: w.jobs, sequence: meta.Sequence.Stream, delivery: meta.NumDelivered, attempt: 1}
	if w.attempts == nil {
		j.attempt = int(j.delivery)
	}
	return j, nil
}

// Publish publishes a message from a job. The message's id is the job's [Job.Key] and the number of the call, so the stream that stores it
// drops the same message of a later delivery within its duplicate window, two minutes by default. So a job must publish in the same
// order each time. It waits for the stream, with the worker's place lent: pw is the worker that the job's function was given, and not of a fork.
func (j *Job) Publish(pw *pool.Worker, subject string, data []byte) (err error) {
	if subject == "" || strings.ContainsAny(subject, " \t\r\n*>") {
		return fmt.Errorf("jetstream: job %s publishes to %q; it must be one subject, without blanks and wildcards", j.ID(), subject)
	}
	j.sent++
	id := j.Key() + "/" + strconv.Itoa(j.sent)
	pw.Block(func() {
		_, err = j.js.Publish(j.ctx, subject, data, natsjs.WithMsgID(id))
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsjs.ErrNoStreamResponse):
		return fmt.Errorf("jetstream: no stream stores %q, to which job %s publishes; make one, such as: nats stream add RESULTS --subjects %s: %w", subject, j.ID(), subject, err)
	}
	return j.worker.config.explain(err)
}

// Once returns the job's result from a key-value bucket if one is there. If not it calls f and stores what f returns, by the revision, so that of
// several runs of the same job one stores its result, and all return that one. F itself may run more than once, see the package's
// promises; an error of f is stored nowhere and returned.
//
// The waits for the bucket lend the worker's place: pw is the worker that the job's function was given, and not of a fork. The
// key is [Job.Key]. Buckets with a limited size or age forget results, and then a late delivery runs f again.
func (j *Job) Once(pw *pool.Worker, bucket natsjs.KeyValue, f func() ([]byte, error)) (result []byte, err error) {
	if bucket == nil {
		return nil, fmt.Errorf("jetstream: Once was given a nil bucket by job %s", j.ID())
	}
	if f == nil {
		return nil, fmt.Errorf("jetstream: Once was given a nil function by job %s", j.ID())
	}
	key := j.Key()
	if result, err = j.stored(pw, bucket, key); err == nil || !errors.Is(err, natsjs.ErrKeyNotFound) {
		return result, err
	}
	if result, err = f(); err != nil {
		return nil, err
	}
	pw.Block(func() { _, err = bucket.Create(j.ctx, key, result) })
	if errors.Is(err, natsjs.ErrKeyExists) { // another run was faster
		return j.stored(pw, bucket, key)
	}
	if err != nil {
		return nil, fmt.Errorf("the result of job %s: %w", j.ID(), j.worker.config.explain(err))
	}
	return result, nil
}

// stored returns what is stored under a key.
func (j *Job) stored(pw *pool.Worker, bucket natsjs.KeyValue, key string) (result []byte, err error) {
	pw.Block(func() {
		var entry natsjs.KeyValueEntry
		if entry, err = bucket.Get(j.ctx, key); err == nil {
			result = entry.Value()
		}
	})
	if err != nil && !errors.Is(err, natsjs.ErrKeyNotFound) {
		err = fmt.Errorf("the result of job %s: %w", j.ID(), j.worker.config.explain(err))
	}
	return result, err
}

var plainKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

// Key returns the key under which Once stores the job's result: STREAM.DURABLE.ID if that can be one and is not long, or else
// its SHA-256 in hexadecimal digits. The results of two consumers of a stream do not meet.
func (j *Job) Key() string {
	name := j.worker.config.Stream + "." + j.worker.config.Durable + "." + j.ID()
	if len(name) <= longestKey && plainKey.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// longestKey keeps keys, which are parts of subjects, well below the line of 4096 bytes that servers take.
const longestKey = 200

// Permanent returns an error that ends a job at once in the dead-letter stream, for one that cannot succeed. It needs
// [Config].DeadLetter, or the job is delivered again and again.
func Permanent(err error) error { return &verdict{err: err, permanent: true} }

// RetryAfter returns an error that has a job delivered again after d, in place of what [Config].Backoff says.
func RetryAfter(err error, d time.Duration) error { return &verdict{err: err, after: max(d, 0)} }

type verdict struct {
	err       error
	permanent bool
	after     time.Duration
}

func (v *verdict) Error() string {
	if v.err == nil {
		return "jetstream: a failure without an error"
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }
