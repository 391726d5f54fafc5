package jetstream

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
)

func nothing(*pool.Worker, *Job) error { return nil }

func TestBadConfigurationsSayWhatToDo(t *testing.T) {
	t.Parallel()
	js := newNode(t).connect()
	ctx := context.Background()
	stream(t, js, "JOBS", "jobs")
	stream(t, js, "DEAD", "dead")
	for _, c := range []natsjs.ConsumerConfig{
		{Durable: "quick", AckPolicy: natsjs.AckExplicitPolicy, AckWait: time.Second, MaxDeliver: 3},
		{Durable: "none", AckPolicy: natsjs.AckNonePolicy, MaxDeliver: -1},
		{Durable: "small", AckPolicy: natsjs.AckExplicitPolicy, AckWait: defaultAckWait, MaxDeliver: -1, MaxRequestBatch: 10},
		{Durable: "other", AckPolicy: natsjs.AckExplicitPolicy, MaxDeliver: -1, FilterSubject: "jobs.other"},
	} {
		_, err := js.CreateConsumer(ctx, "JOBS", c)
		require.NoError(t, err)
	}
	_, err := js.CreatePushConsumer(ctx, "JOBS", natsjs.ConsumerConfig{Durable: "push", DeliverSubject: "to.me", AckPolicy: natsjs.AckExplicitPolicy})
	require.NoError(t, err)

	closed := newPool(t)
	require.NoError(t, closed.Close())
	good := Config{Stream: "JOBS", Durable: "good", DeadLetter: "dead"}
	for name, test := range map[string]struct {
		change func(*Config)
		says   []string
	}{
		"no stream named":      {func(c *Config) { c.Stream = "" }, []string{"Config.Stream is empty"}},
		"no stream":            {func(c *Config) { c.Stream = "NONE" }, []string{"there is no stream NONE", "nats stream add NONE"}},
		"no durable":           {func(c *Config) { c.Durable = "" }, []string{"Config.Durable is empty"}},
		"bad durable":          {func(c *Config) { c.Durable = "a.b" }, []string{`"a.b"`, "no blanks, dots"}},
		"wrong subject":        {func(c *Config) { c.Normal = "job.x" }, []string{`no messages of subject "job.x"`, `"jobs.>"`}},
		"two of a subject":     {func(c *Config) { c.High, c.Low = "jobs.x", "jobs.x" }, []string{`"jobs.x"`, "each needs its own"}},
		"no dead letters":      {func(c *Config) { c.DeadLetter = "" }, []string{"Config.DeadLetter is empty", "-1"}},
		"nobody stores them":   {func(c *Config) { c.DeadLetter = "lost" }, []string{`no stream stores Config.DeadLetter, "lost"`, "nats stream add"}},
		"dead letters as jobs": {func(c *Config) { c.DeadLetter = "jobs.dead" }, []string{"another stream"}},
		"wildcard":             {func(c *Config) { c.DeadLetter = "dead.*" }, []string{"without blanks and wildcards"}},
		"no subject":           {func(c *Config) { c.High = "jobs..x" }, []string{`"jobs..x"`, "words with dots"}},
		"blanks":               {func(c *Config) { c.High = "jobs.a b" }, []string{`"jobs.a b"`}},
		"closed pool":          {func(c *Config) { c.Pool = closed }, []string{"Config.Pool", "closed"}},
		"short wait":           {func(c *Config) { c.AckWait = time.Millisecond }, []string{"Config.AckWait is 1ms", "300ms"}},
		"no delays":            {func(c *Config) { c.Backoff = []time.Duration{} }, []string{"Config.Backoff has no delays"}},
		"negative delay":       {func(c *Config) { c.Backoff = []time.Duration{-1} }, []string{"-1ns"}},
		"overlap":              {func(c *Config) { c.High, c.Normal = "jobs.>", "jobs.a" }, []string{`"jobs.>"`, `"jobs.a"`, "overlap"}},
		"negative running":     {func(c *Config) { c.MaxRunning = -2 }, []string{"Config.MaxRunning is -2"}},
		"other wait": {func(c *Config) { c.Durable = "quick" }, []string{
			"the consumer quick of stream JOBS is configured in another way", "the wait for it is 1s there and 30s here",
			"the number of deliveries is 3 there and -1 here", "nats consumer rm JOBS quick"}},
		"no acknowledgement": {func(c *Config) { c.Durable = "none" }, []string{"the acknowledgement is"}},
		"other subject":      {func(c *Config) { c.Durable = "other" }, []string{`the subject is "jobs.other" there and "" here`}},
		"small requests":     {func(c *Config) { c.Durable = "small" }, []string{"the largest request is 10 there and 0 here"}},
		"push":               {func(c *Config) { c.Durable = "push" }, []string{"pushes its messages"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			w, err := NewWorker(ctx, js, c, nothing)
			require.Nil(t, w)
			require.Error(t, err)
			for _, text := range test.says {
				require.Contains(t, err.Error(), text)
			}
			require.False(t, strings.Contains(err.Error(), "\n"), err)
		})
	}
	_, err = NewWorker(ctx, js, good, nothing)
	require.NoError(t, err)
	_, err = NewWorker(ctx, js, good, nothing) // the consumer exists, as it is wanted
	require.NoError(t, err)
	_, err = NewWorker(ctx, nil, good, nothing)
	require.ErrorContains(t, err, "nil JetStream")
	_, err = NewWorker(ctx, js, good, nil)
	require.ErrorContains(t, err, "nil function")
	//lint:ignore SA1012 it is what is tested
	_, err = NewWorker(nil, js, good, nothing)
	require.ErrorContains(t, err, "nil context")
}

func TestDefaultsAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	c := Config{Stream: "JOBS", Durable: "d", DeadLetter: "dead"}
	require.NoError(t, c.check())
	require.Same(t, pool.Default(), c.Pool)
	require.Equal(t, 30*time.Second, c.AckWait)
	require.Equal(t, 5, c.MaxDeliver)
	require.Equal(t, []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}, c.Backoff)
	for attempt, want := range []time.Duration{1: time.Second, 5 * time.Second, 30 * time.Second, 30 * time.Second} {
		if attempt > 0 {
			require.Equal(t, want, c.backoff(attempt))
		}
	}
	w := Worker{config: c}
	require.Equal(t, 32*c.Pool.Workers(), w.mostRunning())
	w.config.MaxRunning = 3
	require.Equal(t, 3, w.mostRunning())
}

func TestSubjectsOverlap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a.b", true}, {"*.b", "a.*", true}, {"*.b", "a.c", false}, {"a.b", ">", true},
	} {
		require.Equal(t, test.want, overlaps(strings.Split(test.a, "."), strings.Split(test.b, ".")), "%s %s", test.a, test.b)
		require.Equal(t, test.want, overlaps(strings.Split(test.b, "."), strings.Split(test.a, ".")), "%s %s", test.b, test.a)
	}
}

func TestServersWithoutJetStreamAndClosedConnectionsSaySo(t *testing.T) {
	t.Parallel()
	off := newNode(t, func(o *server.Options) { o.JetStream = false })
	_, err := NewWorker(context.Background(), off.connect(), Config{Stream: "JOBS", Durable: "d", MaxDeliver: -1}, nothing)
	require.ErrorContains(t, err, "no JetStream answers")

	js := newStreams(t)
	w := run(t, js, Config{Pool: newPool(t)}, nothing)
	js.Conn().Close()
	w.await(nats.ErrConnectionClosed)
	_, err = NewWorker(context.Background(), js, Config{Stream: "JOBS", Durable: "d", MaxDeliver: -1}, nothing)
	require.ErrorContains(t, err, "the connection is closed")
	require.ErrorContains(t, err, "MaxReconnects(-1)")
}

func TestMissingPermissionsSaySo(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "x"},
			{Username: "few", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"jobs.>"}}}},
		}
	})
	stream(t, n.connect(nats.UserInfo("all", "x")), "JOBS", "jobs")
	_, err := nats.Connect(n.url(), nats.UserInfo("all", "wrong"))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = NewWorker(ctx, n.connect(nats.UserInfo("few", "x")), Config{Stream: "JOBS", Durable: "d", MaxDeliver: -1}, nothing)
	require.Error(t, err)
	require.ErrorContains(t, err, "$JS.API.>")
}

func TestAWorkQueueHasOneConsumerOfASubject(t *testing.T) {
	t.Parallel()
	js := newNode(t).connect()
	for _, subject := range []string{"all", "jobs.x"} {
		name := strings.ToUpper(strings.ReplaceAll(subject, ".", ""))
		stream(t, js, name, strings.TrimSuffix(subject, ".x"), func(c *natsjs.StreamConfig) { c.Retention = natsjs.WorkQueuePolicy })
		c := Config{Stream: name, Durable: "one", MaxDeliver: -1}
		if subject != "all" {
			c.Normal = subject
		}
		_, err := NewWorker(context.Background(), js, c, nothing)
		require.NoError(t, err)
		c.Durable = "two"
		_, err = NewWorker(context.Background(), js, c, nothing)
		require.ErrorContains(t, err, "another consumer of the work queue "+name+" has some of these subjects")
	}
}

func TestAConsumerThatIsRemovedEndsRun(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	w := run(t, js, Config{Pool: newPool(t), OnError: func(error) {}}, nothing)
	produce(t, js, "jobs", 0, 10)
	eventually(t, "nothing runs", func() bool { return w.Stats().Done == 10 })
	require.NoError(t, js.DeleteConsumer(context.Background(), "JOBS", "test"))
	select {
	case err := <-w.ended:
		require.ErrorContains(t, err, "a consumer of stream JOBS was removed")
	case <-time.After(testutil.Patience):
		require.Fail(t, "Run does not return")
	}
}

func TestMessagesThatAreTooLargeSaySo(t *testing.T) {
	t.Parallel()
	js := newNode(t, func(o *server.Options) { o.MaxPayload = 8 << 10 }).connect()
	stream(t, js, "JOBS", "jobs")
	stream(t, js, "DEAD", "dead")
	stream(t, js, "SMALL", "small", func(c *natsjs.StreamConfig) { c.MaxMsgSize = 2 << 10 })
	kv := bucket(t, js)
	produce(t, js, "jobs", 0, 1)
	var said, published, refused atomic.Pointer[error]
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 1, DeadLetter: "dead"}, func(pw *pool.Worker, j *Job) error {
		err := j.Publish(pw, "dead.x", make([]byte, 9<<10))
		published.Store(&err)
		err2 := j.Publish(pw, "small", make([]byte, 3<<10))
		refused.Store(&err2)
		_, err = j.Once(pw, kv, func() ([]byte, error) { return make([]byte, 9<<10), nil })
		said.Store(&err)
		return err
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.ErrorContains(t, *said.Load(), "larger than the server or its stream takes")
	require.ErrorContains(t, *said.Load(), "the result of job 0")
	require.ErrorContains(t, *published.Load(), "larger than the server or its stream takes")
	require.ErrorContains(t, *refused.Load(), "larger than the server or its stream takes")
	require.Len(t, deadLetters(t, js), 1)
}
