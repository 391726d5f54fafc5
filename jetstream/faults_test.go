package jetstream

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// childVariable has the address of the server in a process that a test started to kill it.
const childVariable = "HEIST_JETSTREAM_CHILD"

func TestMain(m *testing.M) {
	if url := os.Getenv(childVariable); url != "" {
		if err := childMain(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // the tests wait for servers more than they compute
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// childMain runs jobs until the process is killed, or its standard input ends.
func childMain(url string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	js, err := natsjs.New(nc)
	if err != nil {
		return err
	}
	results, err := js.KeyValue(context.Background(), "results")
	if err != nil {
		return err
	}
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		return err
	}
	w, err := NewWorker(context.Background(), js, faultConfig(p), func(pw *pool.Worker, j *Job) error {
		if string(j.Data()) == "poison" {
			os.Exit(3)
		}
		return effect(pw, j, results, time.Duration(rand.N(6))*time.Millisecond)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println("ready")
	return w.Run(ctx)
}

func faultConfig(p *pool.Pool) Config {
	return Config{
		Pool: p, Stream: "JOBS", Durable: "test", AckWait: 500 * time.Millisecond, MaxDeliver: 8,
		Backoff: []time.Duration{20 * time.Millisecond}, DeadLetter: "dead.jobs", OnError: func(error) {},
	}
}

// effect is what each job does: it takes a while, stores a result and publishes a message.
func effect(pw *pool.Worker, j *Job, results natsjs.KeyValue, takes time.Duration) error {
	_, err := j.Once(pw, results, func() ([]byte, error) {
		pw.Block(func() { time.Sleep(takes) })
		return j.Data(), nil
	})
	if err != nil {
		return err
	}
	return j.Publish(pw, "effects."+j.Key(), j.Data())
}

// faults is a server with all that the jobs of these tests need.
type faults struct {
	*node
	t       *testing.T
	js      natsjs.JetStream
	results natsjs.KeyValue
}

func newFaults(t *testing.T, change ...func(*server.Options)) *faults {
	t.Helper()
	n := newNode(t, change...)
	js := n.connect()
	stream(t, js, "JOBS", "jobs", func(c *natsjs.StreamConfig) { c.Retention = natsjs.WorkQueuePolicy })
	stream(t, js, "DEAD", "dead")
	stream(t, js, "EFFECTS", "effects")
	return &faults{n, t, js, bucket(t, js)}
}

// requireEachOnce waits until there is a result of each job, and checks that each had its effects once.
func (f *faults) requireEachOnce(jobs int, dead ...string) {
	f.t.Helper()
	ctx := context.Background()
	eventually(f.t, "jobs without a result", func() bool { return f.stored() >= jobs })
	requireDrained(f.t, f.js, "test")
	// The work queue need not be empty: nats-server 2.15.2, stopped after an acknowledgement and before it removes the message, keeps a
	// message that no consumer gets any more.
	keys, err := f.results.ListKeys(ctx)
	require.NoError(f.t, err)
	n := 0
	for key := range keys.Keys() {
		history, err := f.results.History(ctx, key)
		require.NoError(f.t, err)
		require.Len(f.t, history, 1, "result %s was stored more than once", key)
		n++
	}
	require.Equal(f.t, jobs, n, "results")
	effects, err := f.js.Stream(ctx, "EFFECTS")
	require.NoError(f.t, err)
	info, err := effects.Info(ctx, natsjs.WithSubjectFilter("effects.>"))
	require.NoError(f.t, err)
	require.Len(f.t, info.State.Subjects, jobs, "effects")
	for subject, times := range info.State.Subjects {
		require.EqualValues(f.t, 1, times, subject)
	}
	var letters []string
	for _, l := range deadLetters(f.t, f.js) {
		letters = append(letters, string(l.Data))
	}
	require.ElementsMatch(f.t, dead, letters, "dead letters")
}

// results returns how many there are.
func (f *faults) stored() int {
	status, err := f.results.Status(context.Background())
	if err != nil {
		return -1
	}
	return int(status.Values())
}

// process is a worker that can be killed.
type process struct {
	*exec.Cmd
	end  io.Closer
	over chan struct{}
}

func (f *faults) process() *process {
	f.t.Helper()
	self, err := os.Executable()
	require.NoError(f.t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), childVariable+"="+f.url())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	require.NoError(f.t, err)
	out, err := c.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(f.t, err, "the process does not begin")
	require.Equal(f.t, "ready\n", line)
	p := &process{c, in, make(chan struct{})}
	go func() { _ = c.Wait(); close(p.over) }()
	f.t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.over
}

// finish ends the process in order.
func (p *process) finish() {
	_ = p.end.Close()
	<-p.over
}

func TestWorkersThatAreKilledLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	jobs := testutil.Stress(4000)
	produce(t, f.js, "jobs", 0, jobs)
	processes := []*process{f.process(), f.process(), f.process()}
	for i := 1; i <= 6; i++ {
		eventually(t, "no results come", func() bool { return f.stored() >= i*jobs/8 })
		victim := rand.N(len(processes))
		processes[victim].kill()
		processes[victim] = f.process()
	}
	f.requireEachOnce(jobs)
	for _, p := range processes {
		p.finish()
	}
}

// A job that ends its process each time is a dead letter in the end, and takes no other with it.
func TestAJobThatKillsItsProcessIsADeadLetter(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	jobs := testutil.Stress(500)
	produce(t, f.js, "jobs", 0, jobs/2)
	_, err := f.js.Publish(context.Background(), "jobs", []byte("poison"))
	require.NoError(t, err)
	produce(t, f.js, "jobs", jobs/2, jobs)
	p := f.process()
	died := 0
	eventually(t, "the poison is no dead letter", func() bool {
		select {
		case <-p.over:
			died++
			p = f.process()
		default:
		}
		return len(deadLetters(t, f.js)) > 0
	})
	f.requireEachOnce(jobs, "poison")
	require.Equal(t, 9, died, "MaxDeliver attempts, and the first, which is not written down")
	require.Contains(t, deadLetters(t, f.js)[0].Header.Get(HeaderError), "begun 8 times, and no process has answered")
	p.finish()
}

func TestAServerThatStopsAndStartsLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	jobs := testutil.Stress(3000)
	produce(t, f.js, "jobs", 0, jobs)
	w := run(t, f.connect(), faultConfig(newPool(t)), func(pw *pool.Worker, j *Job) error {
		return effect(pw, j, f.results, time.Millisecond)
	})
	for i := 1; i <= 3; i++ {
		eventually(t, "no results come", func() bool { return f.stored() >= i*jobs/5 })
		f.stop()
		time.Sleep(200 * time.Millisecond)
		f.start()
	}
	f.requireEachOnce(jobs)
	w.shutdown()
}

// The slow worker is as if it were on a machine that swaps. It takes what it can begin soon, and the others the rest.
func TestASlowWorkerHoldsNoOneUp(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	jobs := testutil.Stress(3000)
	produce(t, f.js, "jobs", 0, jobs)
	c := faultConfig(newPool(t))
	c.MaxRunning = 2 // jobs that sleep lend their places
	slow := run(t, f.connect(), c, func(pw *pool.Worker, j *Job) error {
		time.Sleep(300 * time.Millisecond)
		return effect(pw, j, f.results, 0)
	})
	fast := run(t, f.connect(), faultConfig(newPool(t)), func(pw *pool.Worker, j *Job) error {
		return effect(pw, j, f.results, 0)
	})
	f.requireEachOnce(jobs)
	require.Less(t, slow.Stats().Done, fast.Stats().Done)
	slow.shutdown()
	fast.shutdown()
}

// proxy passes connections on, and stalls when it is told to: nothing arrives, and nothing is closed.
type proxy struct {
	net.Listener
	target  string
	stalled atomic.Bool
	over    atomic.Bool
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: l, target: target}
	t.Cleanup(func() { p.over.Store(true); _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				_ = from.Close()
				continue
			}
			go p.copy(from, to)
			go p.copy(to, from)
		}
	}()
	return p
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for !p.over.Load() {
		n, err := from.Read(buffer)
		for p.stalled.Load() && !p.over.Load() {
			time.Sleep(time.Millisecond)
		}
		if _, err2 := to.Write(buffer[:n]); err != nil || err2 != nil {
			return
		}
	}
}

// A worker that is cut off goes on with what it has, while the server gives the same jobs to others.
func TestAPartitionDoublesNoEffect(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	jobs := testutil.Stress(2000)
	produce(t, f.js, "jobs", 0, jobs)
	cut := newProxy(t, strings.TrimPrefix(f.url(), "nats://"))
	// It notices by its pings that no answers come.
	js := connect(t, "nats://"+cut.Addr().String(), nats.PingInterval(200*time.Millisecond), nats.MaxPingsOutstanding(2))
	results, err := js.KeyValue(context.Background(), "results")
	require.NoError(t, err)
	behind := run(t, js, faultConfig(newPool(t)), func(pw *pool.Worker, j *Job) error {
		return effect(pw, j, results, 2*time.Millisecond)
	})
	for i := 1; i <= 2; i++ {
		eventually(t, "no results come", func() bool { return f.stored() >= i*jobs/4 })
		cut.stalled.Store(true)
		time.Sleep(800 * time.Millisecond)
		if i == 1 {
			cut.stalled.Store(false)
		}
	}
	beside := run(t, f.connect(), faultConfig(newPool(t)), func(pw *pool.Worker, j *Job) error {
		return effect(pw, j, f.results, time.Millisecond)
	})
	eventually(t, "the other worker does not go on", func() bool { return f.stored() == jobs })
	cut.stalled.Store(false)
	f.requireEachOnce(jobs)
	behind.shutdown()
	beside.shutdown()
}

func TestDuplicatePublishesHaveOneEffect(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	s, err := f.js.Stream(context.Background(), "JOBS")
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.Duplicates = 100 * time.Millisecond
	_, err = f.js.UpdateStream(context.Background(), c)
	require.NoError(t, err)
	const jobs = 100
	w := run(t, f.connect(), faultConfig(newPool(t)), func(pw *pool.Worker, j *Job) error {
		return effect(pw, j, f.results, 0)
	})
	produce(t, f.js, "jobs", 0, jobs)
	produce(t, f.js, "jobs", 0, jobs) // which the stream drops
	time.Sleep(300 * time.Millisecond)
	produce(t, f.js, "jobs", 0, jobs) // which it does not
	f.requireEachOnce(jobs)
	require.Greater(t, w.Stats().Taken, uint64(jobs))
	w.shutdown()
}

// While results cannot be stored jobs fail and are tried again.
func TestAQuotaThatIsFullLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	const jobs = 20
	s, err := f.js.Stream(context.Background(), "EFFECTS")
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxMsgs, c.Discard = jobs/2, natsjs.DiscardNew
	_, err = f.js.UpdateStream(context.Background(), c)
	require.NoError(t, err)
	config := faultConfig(newPool(t))
	config.MaxDeliver = 1000
	var said sync.Map
	w := run(t, f.connect(), config, func(pw *pool.Worker, j *Job) error {
		err := effect(pw, j, f.results, 0)
		if err != nil {
			said.Store(err.Error(), true)
		}
		return err
	})
	produce(t, f.js, "jobs", 0, jobs)
	eventually(t, "nothing fails", func() bool { return w.Stats().Failed > jobs })
	c.MaxMsgs = -1
	_, err = f.js.UpdateStream(context.Background(), c)
	require.NoError(t, err)
	f.requireEachOnce(jobs)
	w.shutdown()
	said.Range(func(text, _ any) bool {
		require.Contains(t, text, "maximum messages exceeded")
		return true
	})
}

// A soak: workers are killed, the server stops and starts, jobs are published twice, and some of them are poison.
func TestSoak(t *testing.T) {
	t.Parallel()
	lasts := time.Second
	switch {
	case os.Getenv("HEIST_VERIFY") == "full":
		lasts = 3 * time.Minute
	case !testutil.Short():
		lasts = 20 * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("HEIST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("HEIST_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f := newFaults(t)
	processes := []*process{f.process(), f.process()}
	config := faultConfig(newPool(t))
	config.MaxDeliver = 50 // faults count as well
	here := run(t, f.connect(), config, func(pw *pool.Worker, j *Job) error {
		if string(j.Data()) == "poison" {
			return Permanent(errors.New("poison"))
		}
		return effect(pw, j, f.results, time.Duration(rand.N(20))*time.Millisecond)
	})
	for _, p := range processes { // the poison would end them
		p.finish()
	}
	jobs := 0
	var poison []string
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		switch r.IntN(6) {
		case 0:
			f.stop()
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			f.start()
		case 1:
			if jobs > 50 {
				produce(t, f.js, "jobs", jobs-50, jobs)
			}
		case 2:
			if _, err := f.js.Publish(context.Background(), "jobs", []byte("poison")); err == nil {
				poison = append(poison, "poison")
			}
		default:
			eventually(t, "the server is away", f.js.Conn().IsConnected)
			n := r.IntN(200)
			produce(t, f.js, "jobs", jobs, jobs+n)
			jobs += n
		}
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	f.requireEachOnce(jobs, poison...)
	here.shutdown()
	t.Logf("%d jobs, %d poison, %+v", jobs, len(poison), here.Stats())
}
