// Cluster shows heist beyond one process: a NATS server holds jobs, and worker processes run them on pools of their own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/jetstream"
)

func main() { cli.Main(run, os.Interrupt, syscall.SIGTERM) }

// options are what the command line says.
type options struct {
	jobs, workers  int
	url, creds, ca string
	store          string
	replicas       int
	isWorker       bool
	ackWait        time.Duration
	prefix         string // of this run, see names
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.IntVar(&o.jobs, "jobs", 100_000, "`number` of jobs to publish")
	flags.IntVar(&o.workers, "workers", 3, "`number` of worker processes to start")
	flags.StringVar(&o.url, "url", "", "`URL` of a server that is there, several with commas between; none starts one in this process")
	flags.StringVar(&o.creds, "creds", "", "`file` with the credentials of a user of that server")
	flags.StringVar(&o.ca, "ca", "", "`file` with the certificate of the authority that signed that server's")
	flags.IntVar(&o.replicas, "replicas", 1, "`number` of servers that keep each job and result; 3 for a cluster")
	flags.StringVar(&o.store, "store", "", "`folder` for the own server's files; none is a new one that is removed at the end")
	flags.DurationVar(&o.ackWait, "ack-wait", 5*time.Second, "jobs of a worker that says nothing for so long go to others")
	flags.BoolVar(&o.isWorker, "worker", false, "be a worker process until the standard input ends; needs -url")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	switch {
	case o.jobs < 1:
		return cli.Usagef("-jobs is %d, want 1 or more", o.jobs)
	case o.workers < 1:
		return cli.Usagef("-workers is %d, want 1 or more", o.workers)
	case o.isWorker && o.url == "":
		return cli.Usagef("-worker needs -url, the server that has the jobs")
	case o.store != "" && o.url != "":
		return cli.Usagef("-store is for the own server, which -url replaces")
	case o.isWorker:
		return o.work(ctx, stdout)
	}
	return o.serve(ctx, stdout)
}

// connect returns a connection that comes back whatever happens to the server.
func (o options) connect() (natsjs.JetStream, error) {
	settings := []nats.Option{nats.MaxReconnects(-1), nats.Name("heist cluster example")}
	if o.creds != "" {
		settings = append(settings, nats.UserCredentials(o.creds))
	}
	if o.ca != "" {
		settings = append(settings, nats.RootCAs(o.ca))
	}
	nc, err := nats.Connect(o.url, settings...)
	if err != nil {
		return nil, fmt.Errorf("no connection to %s: %w; check -url, -creds and -ca", o.url, err)
	}
	// An answer that went down with its server never comes, and produce publishes that job again.
	return natsjs.New(nc, natsjs.WithPublishAsyncTimeout(10*time.Second))
}

// The streams. Their names tell runs of this example on one server apart.
func (o options) names() (jobs, dead, results string) {
	return "HEIST_JOBS_" + o.prefix, "HEIST_DEAD_" + o.prefix, "heist_results_" + o.prefix
}

func (o options) serve(ctx context.Context, stdout io.Writer) (err error) {
	if o.url == "" {
		stop, err := o.startServer()
		if err != nil {
			return err
		}
		defer stop()
	}
	js, err := o.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	o.prefix = strconv.FormatUint(rand.Uint64(), 36)
	jobs, dead, results := o.names()
	remove := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = js.DeleteStream(ctx, jobs) // those that were made; the others are not there
		_ = js.DeleteStream(ctx, dead)
		_ = js.DeleteKeyValue(ctx, results)
		_ = js.DeleteKeyValue(ctx, jetstream.Config{Stream: jobs, Durable: durable}.AttemptsBucket())
	}
	defer remove()
	var kv natsjs.KeyValue
	for what, create := range map[string]func() error{
		"the stream of jobs": func() error {
			_, err := js.CreateStream(ctx, natsjs.StreamConfig{Name: jobs, Subjects: []string{o.prefix + ".jobs"}, Retention: natsjs.WorkQueuePolicy, Replicas: o.replicas})
			return err
		},
		"the stream of dead letters": func() error {
			_, err := js.CreateStream(ctx, natsjs.StreamConfig{Name: dead, Subjects: []string{o.prefix + ".dead"}, Replicas: o.replicas})
			return err
		},
		"the bucket of results": func() (err error) {
			kv, err = js.CreateKeyValue(ctx, natsjs.KeyValueConfig{Bucket: results, Replicas: o.replicas})
			return err
		},
	} {
		if err := patiently(ctx, create); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}

	workers := make([]*process, o.workers)
	for i := range workers {
		if workers[i], err = o.start(); err != nil {
			return err
		}
		defer workers[i].kill()
	}
	fmt.Fprintf(stdout, "%d jobs, %d worker processes:", o.jobs, o.workers)
	for _, w := range workers {
		fmt.Fprintf(stdout, " %d", w.Process.Pid)
	}
	fmt.Fprintln(stdout)

	start := time.Now()
	produced := make(chan error, 1)
	go func() { produced <- o.produce(ctx, js) }()
	if err := o.await(ctx, kv, workers, produced); err != nil {
		return err
	}
	took := time.Since(start)
	reports := make([]report, len(workers))
	for i, w := range workers {
		if reports[i], err = w.finish(); err != nil {
			reports[i].Lost = true
		}
	}
	var letters natsjs.Stream
	err = patiently(ctx, func() (err error) {
		letters, err = js.Stream(ctx, dead)
		return err
	})
	if err != nil {
		return err
	}
	print(stdout, reports, workers, took, letters.CachedInfo().State.Msgs)
	return nil
}

// startServer starts a server in this process, for this machine alone.
func (o *options) startServer() (stop func(), err error) {
	store, remove := o.store, func() {}
	if store == "" {
		if store, err = os.MkdirTemp("", "heist-cluster-*"); err != nil {
			return nil, err
		}
		remove = func() { _ = os.RemoveAll(store) }
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: store, NoLog: true, NoSigs: true})
	if err != nil {
		remove()
		return nil, fmt.Errorf("the server: %w", err)
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
		remove()
	}
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, errors.New("the server does not start; is there room in the folder of -store?")
	}
	o.url = s.ClientURL()
	return stop, nil
}

// produce publishes the jobs: each is a number up to which it counts the primes. Most are small. A job that the servers did not take is
// published again: its message id has them drop it if they did.
func (o options) produce(ctx context.Context, js natsjs.JetStream) error {
	random := rand.New(rand.NewPCG(1, 2))
	sent := make([]natsjs.PubAckFuture, o.jobs)
	for i := range sent {
		limit := 1000 + random.IntN(4000)
		switch {
		case i%1000 == 999:
			limit = 300_000
		case i%50 == 49:
			limit = 20_000
		}
		err := patiently(ctx, func() (err error) { // the connection may break in the middle of a message
			sent[i], err = js.PublishAsync(o.prefix+".jobs", []byte(strconv.Itoa(limit)), natsjs.WithMsgID(strconv.Itoa(i)))
			return err
		})
		if err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
	}
	for i, f := range sent {
		select {
		case <-f.Ok():
		case <-f.Err():
			err := patiently(ctx, func() error {
				_, err := js.PublishMsg(ctx, f.Msg())
				return err
			})
			if err != nil {
				return fmt.Errorf("job %d: %w", i, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// patience is for how long servers may be unable to answer, while they choose another leader for example.
const patience = 30 * time.Second

// isTemporary says whether an error is of servers that may be able to answer soon.
func isTemporary(err error) bool {
	var refused *natsjs.APIError
	var broken *net.OpError // nats.go connects to another server
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, natsjs.ErrNoStreamResponse) || errors.Is(err, natsjs.ErrTooManyStalledMsgs) || errors.As(err, &broken) || errors.As(err, &refused) && refused.Code == http.StatusServiceUnavailable
}

// patiently calls f until it returns no temporary error, and returns its last error if that takes too long.
func patiently(ctx context.Context, f func() error) error {
	for end := time.Now().Add(patience); ; {
		err := f()
		if !isTemporary(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// await waits until all results are stored, and shows how many are.
func (o options) await(ctx context.Context, kv natsjs.KeyValue, workers []*process, produced <-chan error) error {
	var bar *progressbar.ProgressBar
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar = progressbar.NewOptions(o.jobs, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionClearOnFinish())
	}
	for {
		var status natsjs.KeyValueStatus
		err := patiently(ctx, func() (err error) {
			status, err = kv.Status(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if bar != nil {
			_ = bar.Set(int(status.Values()))
		}
		if status.Values() >= uint64(o.jobs) {
			return nil
		}
		alive := 0
		for _, w := range workers {
			if !w.isOver() {
				alive++
			}
		}
		if alive == 0 {
			return errors.New("all worker processes have ended; what they said stands above")
		}
		select {
		case err := <-produced:
			if err != nil {
				return err
			}
			produced = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// process is a worker process.
type process struct {
	*exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	over chan struct{}
	once sync.Once
}

func (o options) start() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-worker", "-url", o.url, "-creds", o.creds, "-ca", o.ca, "-ack-wait", o.ackWait.String()}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), prefixVariable+"="+o.prefix, executableVariable+"=1")
	c.Stderr = os.Stderr
	p := &process{Cmd: c, over: make(chan struct{})}
	if p.in, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("a worker process: %w", err)
	}
	var ready report
	if err := p.out.Decode(&ready); err != nil {
		p.kill()
		return nil, errors.New("a worker process does not begin; what it said stands above")
	}
	go func() {
		_, _ = c.Process.Wait()
		close(p.over)
	}()
	return p, nil
}

func (p *process) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// finish ends the process in order, and returns its report.
func (p *process) finish() (r report, err error) {
	_ = p.in.Close()
	err = p.out.Decode(&r)
	<-p.over
	return r, err
}

func (p *process) kill() { p.once.Do(func() { _ = p.Process.Kill() }) }

// print prints the table.
func print(stdout io.Writer, reports []report, workers []*process, took time.Duration, dead uint64) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"worker", "jobs", "share", "redelivered", "failed", "utilisation"})
	var sum report
	for _, r := range reports {
		sum.Done += r.Done
	}
	for i, r := range reports {
		name := fmt.Sprintf("process %d", workers[i].Process.Pid)
		if r.Lost {
			t.AppendRow(table.Row{name + ", killed", "", "", "", "", ""})
			continue
		}
		t.AppendRow(table.Row{name, r.Done, percent(float64(r.Done), float64(sum.Done)), r.Redelivered, r.Failed, percent(r.Computing.Seconds(), r.Lasted.Seconds()*float64(r.Places))})
		sum.Redelivered += r.Redelivered
		sum.Failed += r.Failed
	}
	t.AppendFooter(table.Row{"all", sum.Done, "", sum.Redelivered, sum.Failed, ""})
	fmt.Fprintln(stdout, t.Render())
	fmt.Fprintf(stdout, "%.1f s, %.0f jobs a second; dead letters: %d\n", took.Seconds(), float64(sum.Done)/took.Seconds(), dead)
}

func percent(part, of float64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", 100*part/of)
}
