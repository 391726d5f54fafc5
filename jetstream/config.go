package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool"
)

// Config says which jobs a [Worker] takes, and what it does with those that fail. Stream and Durable are needed, and DeadLetter
// unless MaxDeliver is negative.
type Config struct {
	// Pool runs the jobs; nil is [pool.Default].
	Pool *pool.Pool

	// Stream has the jobs. It must exist.
	Stream string

	// Durable names the consumer, which all processes share. It is made if it does not exist. If it exists and is configured
	// in another way, that is an error. Jobs of high and low priority have consumers of their own, named Durable-high
	// and Durable-low.
	Durable string

	// High, Normal and Low are the subjects of jobs by their priority, wildcards included. If all are empty the worker takes all
	// subjects of the stream, with normal priority.
	High, Normal, Low string

	// AckWait is after how long the server gives up a worker that says nothing; 0 is 30 seconds. It is not a limit for jobs,
	// for a worker speaks for those that it has.
	AckWait time.Duration

	// MaxDeliver is after how many deliveries, of those that began, a job that was never acknowledged ends in the dead-letter
	// stream; 0 is 5, and a negative number is no limit. The worker keeps the count of jobs that are delivered again
	// in a key-value bucket, [Config.AttemptsBucket], which it makes, and which forgets a job after a day without an attempt. The
	// first attempt is not written down, so a job that ends its process may begin once more than that.
	MaxDeliver int

	// MaxRunning is how many jobs may have begun and not ended at a time, those that wait in Block included; 0 is 32 for each place
	// of the pool.
	MaxRunning int

	// Backoff is how long a job waits after its first failure, its second and so on; the last one stands for all later ones. Nil is
	// 1 s, 5 s, 30 s.
	Backoff []time.Duration

	// DeadLetter is the subject to which jobs are published that are given up. A stream other than Stream must store it.
	DeadLetter string

	// OnError is told what goes wrong besides jobs, such as a server that is not there for a while. It may be called by several
	// goroutines at a time, and must not call Shutdown; nil logs with slog.
	OnError func(error)
}

// The defaults. AckWait and MaxDeliver are those of most of NATS's examples.
const (
	defaultAckWait    = 30 * time.Second
	leastAckWait      = 300 * time.Millisecond // where jobs compute on all Ps, deadlines of 100 ms passed before they were extended
	defaultMaxDeliver = 5
	defaultRunning    = 32 // for each place
)

var defaultBackoff = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// check fills in the defaults, and returns an error for what cannot be.
func (c *Config) check() error {
	if c.Pool == nil {
		c.Pool = pool.Default()
	}
	if c.AckWait == 0 {
		c.AckWait = defaultAckWait
	}
	if c.MaxDeliver == 0 {
		c.MaxDeliver = defaultMaxDeliver
	}
	if c.Backoff == nil {
		c.Backoff = defaultBackoff
	}
	if c.OnError == nil {
		c.OnError = func(err error) { slog.Error("heist/jetstream", "error", err) }
	}
	switch {
	case c.Stream == "":
		return errors.New("jetstream: Config.Stream is empty; name the stream that has the jobs")
	case c.Durable == "":
		return errors.New("jetstream: Config.Durable is empty; name the consumer that all workers of these jobs share")
	case strings.ContainsAny(c.Durable, " \t\r\n.*>/\\"):
		return fmt.Errorf("jetstream: Config.Durable is %q; a consumer's name has no blanks, dots, wildcards or slashes", c.Durable)
	case c.AckWait < leastAckWait:
		return fmt.Errorf("jetstream: Config.AckWait is %v; it must be at least %v, or jobs are delivered again while they run", c.AckWait, leastAckWait)
	case c.MaxRunning < 0:
		return fmt.Errorf("jetstream: Config.MaxRunning is %d; it must be at least 1, or 0 for the default", c.MaxRunning)
	case c.MaxDeliver > 0 && c.DeadLetter == "":
		return errors.New("jetstream: Config.DeadLetter is empty; name the subject for jobs that are given up, or set MaxDeliver to -1 to try for ever")
	case strings.ContainsAny(c.DeadLetter, " \t\r\n*>"):
		return fmt.Errorf("jetstream: Config.DeadLetter is %q; it must be one subject, without blanks and wildcards", c.DeadLetter)
	case len(c.Backoff) == 0:
		return errors.New("jetstream: Config.Backoff has no delays; leave it nil for the default")
	}
	for _, d := range c.Backoff {
		if d < 0 {
			return fmt.Errorf("jetstream: Config.Backoff has %v; delays are not negative", d)
		}
	}
	if err := pool.Do(c.Pool); err != nil {
		return fmt.Errorf("jetstream: Config.Pool: %w", err)
	}
	seen := map[string]bool{}
	for _, l := range c.lanes() {
		if l.subject != "" && !subjectForm.MatchString(l.subject) {
			return fmt.Errorf("jetstream: the subject %q is none; subjects are words with dots between them, such as jobs.render or jobs.*", l.subject)
		}
		if seen[l.subject] {
			return fmt.Errorf("jetstream: two priorities have the subject %q; each needs its own", l.subject)
		}
		seen[l.subject] = true
		for other := range seen {
			if other != l.subject && overlaps(strings.Split(other, "."), strings.Split(l.subject, ".")) {
				return fmt.Errorf("jetstream: the subjects %q and %q of two priorities overlap, so some jobs would have both; make them apart", other, l.subject)
			}
		}
	}
	return nil
}

var subjectForm = regexp.MustCompile(`^[^\s.]+(\.[^\s.]+)*$`)

// backoff returns the delay after an attempt.
func (c *Config) backoff(attempt int) time.Duration {
	return c.Backoff[min(attempt, len(c.Backoff))-1]
}

// lane is the way of the jobs of one priority.
type lane struct {
	priority pool.Priority
	subject  string // "" is all subjects of the stream
	durable  string
	consumer natsjs.Consumer
	run      func(pw *pool.Worker) // the lane's task, which runs the oldest job of the queue

	inbox    string
	arrivals *nats.Subscription // of the inbox

	// Under Worker.mu:
	open      []*request // that are not over, the oldest first
	err       error      // trouble with requests, for take
	queue     []*Job     // unstarted, the oldest first; each has a task in the pool, or one that is unsent or owed
	waiting   int        // unstarted jobs, and those that open requests asked for
	unsent    int        // tasks that the pool had no room for, see feed
	owed      int        // tasks that found MaxRunning jobs running
	returning int        // tasks that were owed, and have been given to the pool again
	excess    int        // for how many ticks of extend the queue has had more than twice the share
}

func (c *Config) lanes() (all []*lane) {
	for _, l := range []lane{
		{priority: pool.PriorityHigh, subject: c.High, durable: c.Durable + "-high"},
		{priority: pool.PriorityNormal, subject: c.Normal, durable: c.Durable},
		{priority: pool.PriorityLow, subject: c.Low, durable: c.Durable + "-low"},
	} {
		if l.subject != "" {
			all = append(all, &l)
		}
	}
	if all == nil {
		all = append(all, &lane{priority: pool.PriorityNormal, durable: c.Durable})
	}
	return all
}

// connect finds the streams and makes the consumers, and the bucket for attempts if they are counted.
func (w *Worker) connect(ctx context.Context) error {
	c, js := &w.config, w.js
	stream, err := js.Stream(ctx, c.Stream)
	if err != nil {
		return c.explain(err)
	}
	w.born = strconv.FormatInt(stream.CachedInfo().Created.UnixNano(), 36)
	w.replicas = stream.CachedInfo().Config.Replicas
	if c.DeadLetter != "" {
		name, err := js.StreamNameBySubject(ctx, c.DeadLetter)
		switch {
		case errors.Is(err, natsjs.ErrStreamNotFound):
			return fmt.Errorf("jetstream: no stream stores Config.DeadLetter, %q; make one, such as: nats stream add DEAD --subjects %s", c.DeadLetter, c.DeadLetter)
		case err != nil:
			return c.explain(err)
		case name == c.Stream:
			return fmt.Errorf("jetstream: Config.DeadLetter, %q, is a subject of stream %s itself; jobs that are given up need another stream", c.DeadLetter, c.Stream)
		}
	}
	w.lanes = c.lanes()
	for _, l := range w.lanes {
		if l.consumer, err = c.consumer(ctx, stream, l); err != nil {
			return err
		}
	}
	if c.MaxDeliver > 0 {
		w.attempts, err = c.attempts(ctx, js, w.replicas)
	}
	return err
}

// keepAttempts is for how long a job's attempts are known.
const keepAttempts = 24 * time.Hour

var notInBuckets = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// AttemptsBucket returns the name of the bucket in which the worker counts attempts: heist-STREAM-DURABLE, and digits that tell
// streams and consumers with dashes in their names apart.
func (c Config) AttemptsBucket() string {
	sum := sha256.Sum256([]byte(c.Stream + "\x00" + c.Durable))
	return "heist-" + notInBuckets.ReplaceAllString(c.Stream+"-"+c.Durable, "_") + "-" + hex.EncodeToString(sum[:4])
}

// attempts returns the bucket for the attempts of jobs that are delivered again, which it makes if there is none.
func (c *Config) attempts(ctx context.Context, js natsjs.JetStream, replicas int) (natsjs.KeyValue, error) {
	name := c.AttemptsBucket()
	bucket, err := js.KeyValue(ctx, name)
	if errors.Is(err, natsjs.ErrBucketNotFound) {
		bucket, err = js.CreateKeyValue(ctx, natsjs.KeyValueConfig{
			Bucket: name, Description: "attempts of jobs that were delivered again", TTL: keepAttempts, Replicas: replicas,
		})
		if errors.Is(err, natsjs.ErrBucketExists) { // another process was faster
			bucket, err = js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the bucket %s, which counts attempts: %w", name, c.explain(err))
	}
	return bucket, nil
}

// consumer returns a lane's consumer, which it makes if there is none.
func (c *Config) consumer(ctx context.Context, stream natsjs.Stream, l *lane) (natsjs.Consumer, error) {
	if err := subjectLies(l.subject, stream.CachedInfo().Config.Subjects); err != nil {
		return nil, fmt.Errorf("jetstream: stream %s: %w", c.Stream, err)
	}
	wanted := natsjs.ConsumerConfig{
		Durable:       l.durable,
		AckPolicy:     natsjs.AckExplicitPolicy,
		AckWait:       c.AckWait,
		MaxDeliver:    -1, // the worker counts, so that no job ends before it is a dead letter
		MaxAckPending: -1, // each worker bounds what it holds
		FilterSubject: l.subject,
	}
	consumer, err := stream.Consumer(ctx, l.durable)
	if errors.Is(err, natsjs.ErrConsumerNotFound) {
		consumer, err = stream.CreateConsumer(ctx, wanted)
		if errors.Is(err, natsjs.ErrConsumerExists) { // another process was faster
			consumer, err = stream.Consumer(ctx, l.durable)
		}
	}
	if errors.Is(err, natsjs.ErrNotPullConsumer) {
		return nil, fmt.Errorf("jetstream: the consumer %s of stream %s pushes its messages; choose another Config.Durable, for workers pull", l.durable, c.Stream)
	}
	if err != nil {
		return nil, c.explain(err)
	}
	if differences := differ(consumer.CachedInfo().Config, wanted); len(differences) > 0 {
		return nil, fmt.Errorf("jetstream: the consumer %s of stream %s is configured in another way: %s; change the Config, choose another Durable, or remove it when no worker uses it: nats consumer rm %s %s",
			l.durable, c.Stream, strings.Join(differences, ", "), c.Stream, l.durable)
	}
	return consumer, nil
}

// differ lists what of a consumer that exists would have workers misbehave.
func differ(is, wanted natsjs.ConsumerConfig) (all []string) {
	compare := func(name string, is, wanted any) {
		if is != wanted {
			all = append(all, fmt.Sprintf("%s is %v there and %v here", name, is, wanted))
		}
	}
	subject := is.FilterSubject
	if len(is.FilterSubjects) > 0 {
		subject = strings.Join(is.FilterSubjects, " ")
	}
	compare("the subject", fmt.Sprintf("%q", subject), fmt.Sprintf("%q", wanted.FilterSubject))
	compare("the acknowledgement", is.AckPolicy, wanted.AckPolicy)
	compare("the wait for it", is.AckWait, wanted.AckWait)
	compare("the number of deliveries", is.MaxDeliver, wanted.MaxDeliver)
	compare("the number of delays (its backoff)", len(is.BackOff), 0)
	compare("whether it sends headers only", is.HeadersOnly, false)
	compare("the largest request", is.MaxRequestBatch, 0)
	compare("the longest request", is.MaxRequestExpires, time.Duration(0))
	return all
}

// subjectLies says what is wrong with a subject that a stream does not have.
func subjectLies(subject string, of []string) error {
	if subject == "" {
		return nil
	}
	for _, s := range of {
		if overlaps(strings.Split(subject, "."), strings.Split(s, ".")) {
			return nil
		}
	}
	return fmt.Errorf("it has no messages of subject %q, for its subjects are %q; correct the subject, or add it: nats stream edit --subjects", subject, of)
}

// overlaps says whether a subject can be of both patterns.
func overlaps(a, b []string) bool {
	for i := range max(len(a), len(b)) {
		switch {
		case i < len(a) && a[i] == ">" && i < len(b), i < len(b) && b[i] == ">" && i < len(a):
			return true
		case i >= len(a) || i >= len(b):
			return false
		case a[i] != b[i] && a[i] != "*" && b[i] != "*":
			return false
		}
	}
	return true
}

// explain says what to do about an error of the server or the connection.
func (c *Config) explain(err error) error {
	var refused *natsjs.APIError
	const notFiltered, notUnique natsjs.ErrorCode = 10099, 10100 // JSConsumerWQMultipleUnfilteredErr and JSConsumerWQConsumerNotUniqueErr of the server
	switch {
	case errors.Is(err, natsjs.ErrStreamNotFound):
		return fmt.Errorf("jetstream: there is no stream %s; make it before its workers begin, such as: nats stream add %s --subjects 'jobs.>': %w", c.Stream, c.Stream, err)
	case errors.Is(err, natsjs.ErrJetStreamNotEnabled), errors.Is(err, natsjs.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("jetstream: the server has no JetStream for this account; start it with -js, or ask for the account's limits: %w", err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, natsjs.ErrNoStreamResponse):
		return fmt.Errorf("jetstream: no JetStream answers; is it on (-js), has it this account, and are the stream, its consumer and its buckets still there?: %w", err)
	case errors.Is(err, natsjs.ErrConsumerDeleted), errors.Is(err, natsjs.ErrConsumerNotFound):
		return fmt.Errorf("jetstream: a consumer of stream %s was removed; a new worker makes it again: %w", c.Stream, err)
	case errors.As(err, &refused) && (refused.ErrorCode == notFiltered || refused.ErrorCode == notUnique):
		return fmt.Errorf("jetstream: another consumer of the work queue %s has some of these subjects; in a work queue each job has one consumer: %w", c.Stream, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("jetstream: the connection is closed; connect with nats.MaxReconnects(-1), and close the connection after Run has returned: %w", err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("jetstream: the server refuses these credentials, or what they may do; see nats.UserCredentials, and the account's permissions for $JS.API.>: %w", err)
	case tooLarge(err):
		return fmt.Errorf("jetstream: a message is larger than the server or its stream takes; make it smaller, keep its data in an object store, or raise max_payload and the stream's or bucket's limit: %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("jetstream: the server does not answer; is it there, and may these credentials use $JS.API.>?: %w", err)
	}
	return fmt.Errorf("jetstream: %w", err)
}
