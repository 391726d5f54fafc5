package jetstream

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
)

// node is a real server in this process, whose store outlives it.
type node struct {
	t      testing.TB
	store  string
	port   int
	change func(*server.Options)
	server *server.Server
}

func newNode(t testing.TB, change ...func(*server.Options)) *node {
	n := &node{t: t, store: t.TempDir(), port: server.RANDOM_PORT}
	if len(change) > 0 {
		n.change = change[0]
	}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() {
	n.t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.store, NoLog: true, NoSigs: true}
	if n.change != nil {
		n.change(o)
	}
	s, err := server.NewServer(o)
	require.NoError(n.t, err)
	s.Start()
	require.True(n.t, s.ReadyForConnections(testutil.Patience), "the server does not start")
	n.server, n.port = s, s.Addr().(*net.TCPAddr).Port
}

func (n *node) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.port) }

func (n *node) stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// connect returns a connection that comes back, as a worker's should.
func (n *node) connect(options ...nats.Option) natsjs.JetStream {
	return connect(n.t, n.url(), options...)
}

func connect(t testing.TB, url string, options ...nats.Option) natsjs.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.RetryOnFailedConnect(true)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	require.NoError(t, err)
	return js
}

// stream makes a stream of one subject and all below it.
func stream(t testing.TB, js natsjs.JetStream, name, subject string, change ...func(*natsjs.StreamConfig)) natsjs.Stream {
	t.Helper()
	c := natsjs.StreamConfig{Name: name, Subjects: []string{subject, subject + ".>"}, Storage: natsjs.FileStorage}
	for _, f := range change {
		f(&c)
	}
	s, err := js.CreateStream(context.Background(), c)
	require.NoError(t, err)
	return s
}

// newStreams connects to a new server with a stream for jobs and one for dead letters.
func newStreams(t testing.TB) natsjs.JetStream {
	t.Helper()
	js := newNode(t).connect()
	stream(t, js, "JOBS", "jobs")
	stream(t, js, "DEAD", "dead")
	return js
}

// bucket makes a bucket for results, with all revisions of each.
func bucket(t testing.TB, js natsjs.JetStream) natsjs.KeyValue {
	t.Helper()
	kv, err := js.CreateKeyValue(context.Background(), natsjs.KeyValueConfig{Bucket: "results", History: 64})
	require.NoError(t, err)
	return kv
}

// produce publishes so many jobs, each with its number as data and message id.
func produce(t testing.TB, js natsjs.JetStream, subject string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		_, err := js.PublishAsync(subject, fmt.Append(nil, i), natsjs.WithMsgID(fmt.Sprint(i)))
		require.NoError(t, err)
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(testutil.Patience):
		require.Fail(t, "the server does not take the jobs")
	}
}

func newPool(t testing.TB, options ...pool.Option) *pool.Pool {
	t.Helper()
	p, err := pool.New(append([]pool.Option{pool.WithWorkers(2)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// running is a worker whose Run has begun.
type running struct {
	*Worker
	t     testing.TB
	ended chan error
}

func run(t testing.TB, js natsjs.JetStream, c Config, f Func) *running {
	t.Helper()
	if c.Stream == "" {
		c.Stream = "JOBS"
	}
	if c.Durable == "" {
		c.Durable = "test"
	}
	if c.DeadLetter == "" && c.MaxDeliver == 0 {
		c.MaxDeliver = -1
	}
	w, err := NewWorker(context.Background(), js, c, f)
	require.NoError(t, err)
	r := &running{w, t, make(chan error, 1)}
	go func() { r.ended <- w.Run(context.Background()) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v, Run has returned: %v", w.Stats(), len(r.ended) > 0)
		}
	})
	return r
}

// runHeld runs a worker and returns when its job has begun, which ends when release is called.
func runHeld(t testing.TB, js natsjs.JetStream) (w *running, release func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	w = run(t, js, Config{Pool: newPool(t), OnError: func(error) {}}, func(*pool.Worker, *Job) error {
		close(began)
		<-end
		return nil
	})
	<-began
	return w, func() { close(end) }
}

// shutdown ends the worker in order.
func (r *running) shutdown() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	require.NoError(r.t, r.Shutdown(ctx))
	r.await(nil)
}

// await waits until Run returns with an error, or none.
func (r *running) await(target error) {
	r.t.Helper()
	select {
	case err := <-r.ended:
		require.ErrorIs(r.t, err, target)
	case <-time.After(testutil.Patience):
		require.Fail(r.t, "Run does not return", "%+v", r.Stats())
	}
}

// tally counts how often each job ran.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

func (y *tally) add(id string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.runs == nil {
		y.runs = map[string]int{}
	}
	y.runs[id]++
	return y.runs[id]
}

func (y *tally) len() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.runs)
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.True(t, testutil.Eventually(condition), what)
}

// requireDrained waits until the server has an answer to every job of a consumer.
func requireDrained(t testing.TB, js natsjs.JetStream, durable string) {
	t.Helper()
	var last *natsjs.ConsumerInfo
	drained := testutil.Eventually(func() bool {
		c, err := js.Consumer(context.Background(), "JOBS", durable)
		if err != nil {
			return false
		}
		last = c.CachedInfo()
		return last.NumPending == 0 && last.NumAckPending == 0
	})
	require.True(t, drained, "jobs without an answer: %+v", last)
}
