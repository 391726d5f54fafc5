// Package jobs holds the suite of that name, which needs the libraries of NATS.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/jetstream"
	"github.com/seed53057037/heist/pool"
)

// Suite measures jobs that lie in a NATS JetStream stream, as heist/jetstream runs them and as a loop does that handles each
// message in a goroutine, with a semaphore of as many as there are workers. The server is a process of its own with a
// file store; the CPU time is that of this process alone.
//
// A run has two parts. In the first all jobs lie there when it begins: how many are done in a second, and what CPU time each takes. In
// the second they are published at three fifths of the rate that the workers could do: how long it takes from publishing a job to
// its first instruction.
func Suite() runner.Suite {
	return runner.Suite{
		Name:  "jobs",
		About: "jobs of a JetStream stream",
		Cases: []runner.Case{
			jobsCase("short", "jobs of 100 us", []time.Duration{100 * time.Microsecond}),
			jobsCase("uneven", "jobs of 100 us to 50 ms, 2 ms on average", uneven()),
		},
	}
}

// uneven are the durations of fifty jobs.
func uneven() (all []time.Duration) {
	for i := range 50 {
		d := 100 * time.Microsecond
		switch {
		case i == 25:
			d = 50 * time.Millisecond
		case i%12 == 3:
			d = 10 * time.Millisecond
		case i%5 == 1:
			d = time.Millisecond
		}
		all = append(all, d)
	}
	return all
}

// jobLoad is what the implementations of a case share.
type jobLoad struct {
	take    []time.Duration // how long the jobs take, in turn
	rounds  []int           // of busy
	average time.Duration
	js      natsjs.JetStream
	runs    atomic.Int64 // names of streams
}

func jobsCase(name, about string, take []time.Duration) runner.Case {
	l := &jobLoad{take: take}
	for _, d := range take {
		l.average += d / time.Duration(len(take))
	}
	impl := func(name string, begin beginJobs) runner.Impl {
		return runner.Impl{Name: name, Links: "jobs", Start: func(env runner.Env) (runner.Run, func(), error) {
			return func() (runner.Sample, error) { return l.run(env, begin) }, nil, nil
		}}
	}
	return runner.Case{
		Name:    name,
		About:   about + "; jobs a second, CPU time of each, from publishing to start beside others",
		Metrics: []contract.Metric{{Name: "jobs/s", Better: contract.Higher}, {Name: "cpu-us/job", Better: contract.Lower}, {Name: "start-p50-us", Better: contract.Lower}, {Name: "start-p99-us", Better: contract.Lower}},
		Workers: func(asked int) []int { return []int{asked} },
		Setup:   l.setup,
		Impls:   []runner.Impl{impl("heist", beginHeist), impl("goroutine", beginLoop)},
	}
}

// beginJobs has an implementation take the jobs of a stream, and returns a function that ends it.
type beginJobs func(env runner.Env, js natsjs.JetStream, stream string, job func(data []byte)) (end func() error, err error)

func beginHeist(env runner.Env, js natsjs.JetStream, stream string, job func(data []byte)) (func() error, error) {
	p, err := pool.New(pool.WithWorkers(env.Workers))
	if err != nil {
		return nil, err
	}
	stop := func() { p.Close() }
	w, err := jetstream.NewWorker(context.Background(), js, jetstream.Config{Pool: p, Stream: stream, Durable: "bench", MaxDeliver: -1},
		func(_ *pool.Worker, j *jetstream.Job) error {
			job(j.Data())
			return nil
		})
	if err != nil {
		stop()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		defer stop()
		cancel()
		return <-ended
	}, nil
}

func beginLoop(env runner.Env, js natsjs.JetStream, stream string, job func(data []byte)) (func() error, error) {
	c, err := js.CreateOrUpdateConsumer(context.Background(), stream, natsjs.ConsumerConfig{Durable: "bench", AckPolicy: natsjs.AckExplicitPolicy, MaxAckPending: -1})
	if err != nil {
		return nil, err
	}
	messages, err := c.Messages()
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		seats := make(chan struct{}, env.Workers)
		var running sync.WaitGroup
		defer func() { running.Wait(); close(ended) }()
		for {
			m, err := messages.Next()
			if err != nil {
				if !errors.Is(err, natsjs.ErrMsgIteratorClosed) {
					ended <- err
				}
				return
			}
			seats <- struct{}{}
			running.Go(func() {
				job(m.Data())
				_ = m.Ack() // a lost one is delivered again, and then the count is wrong
				<-seats
			})
		}
	}()
	return func() error {
		messages.Stop()
		return <-ended
	}, nil
}

// run does both parts.
func (l *jobLoad) run(env runner.Env, begin beginJobs) (runner.Sample, error) {
	n := env.Size(max(200, int(time.Duration(env.Workers)*env.Time/l.average)), 20)
	if _, _, err := l.drain(env, begin, min(n, 20)); err != nil { // to warm up
		return runner.Sample{}, err
	}
	rate, usedEach, err := l.drain(env, begin, n)
	if err != nil {
		return runner.Sample{}, err
	}
	waits, err := l.pace(env, begin, env.Size(max(200, n/2), 20))
	if err != nil {
		return runner.Sample{}, err
	}
	return waits.Sample("a job's start", append([]float64{rate, usedEach}, waits.Micros(50, 99)...))
}

// drain has all jobs done that lie in a stream.
func (l *jobLoad) drain(env runner.Env, begin beginJobs, n int) (rate, usedEach float64, err error) {
	stream, remove, err := l.stream()
	if err != nil {
		return 0, 0, err
	}
	defer remove()
	if err := l.publish(stream, n, nil); err != nil {
		return 0, 0, err
	}
	all := newJobCounts(n)
	before, err := gauge.UsageSoFar()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	end, err := begin(env, l.js, stream, func(data []byte) { l.job(all, data) })
	if err != nil {
		return 0, 0, err
	}
	err = all.await()
	took := time.Since(start)
	after, err2 := gauge.UsageSoFar()
	if err := errors.Join(err, err2, end(), all.check()); err != nil {
		return 0, 0, err
	}
	return float64(n) / took.Seconds(), after.Since(before).PerOp(n)[0], nil
}

// pace publishes jobs one by one, and measures how long each waits.
func (l *jobLoad) pace(env runner.Env, begin beginJobs, n int) (gauge.Durations, error) {
	stream, remove, err := l.stream()
	if err != nil {
		return gauge.Durations{}, err
	}
	defer remove()
	all := newJobCounts(n)
	due, began := make([]time.Time, n), make([]time.Duration, n)
	end, err := begin(env, l.js, stream, func(data []byte) {
		if i, err := strconv.Atoi(string(data)); err == nil && i < n {
			began[i] = time.Since(due[i]) // a job runs once, or the check fails
		}
		l.job(all, data)
	})
	if err != nil {
		return gauge.Durations{}, err
	}
	gap := l.average * 5 / 3 / time.Duration(env.Workers)
	err = l.publish(stream, n, func(i int, start time.Time) {
		due[i] = start.Add(time.Duration(i) * gap)
		time.Sleep(time.Until(due[i]))
	})
	if err := errors.Join(err, all.await(), end(), all.check()); err != nil {
		return gauge.Durations{}, err
	}
	waits := gauge.NewDurations()
	for _, d := range began {
		waits.Note(d)
	}
	return waits, nil
}

// jobCounts says how often each job has run.
type jobCounts struct {
	runs  []atomic.Int32
	wrong atomic.Int64 // jobs that gave another answer, or are unknown
	left  atomic.Int64
	done  chan struct{}
}

func newJobCounts(n int) *jobCounts {
	c := &jobCounts{runs: make([]atomic.Int32, n), done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *jobCounts) await() error {
	select {
	case <-c.done:
		return nil
	case <-time.After(patience):
		return runner.Wrong{What: "jobs that never ran", Got: c.left.Load(), Want: 0}
	}
}

func (c *jobCounts) check() error {
	for i := range c.runs {
		if err := runner.Check(fmt.Sprintf("runs of job %d", i), c.runs[i].Load(), 1); err != nil {
			return err
		}
	}
	return runner.Check("wrong jobs", c.wrong.Load(), 0)
}

// job does what a job does.
func (l *jobLoad) job(all *jobCounts, data []byte) {
	i, err := strconv.Atoi(string(data))
	if err != nil || i >= len(all.runs) || gauge.Busy(l.rounds[i%len(l.rounds)]) == 0 {
		all.wrong.Add(1)
		return
	}
	all.runs[i].Add(1)
	if all.left.Add(-1) == 0 {
		close(all.done)
	}
}

func (l *jobLoad) publish(stream string, n int, wait func(i int, start time.Time)) error {
	start := time.Now().Add(20 * time.Millisecond)
	for i := range n {
		if wait != nil {
			wait(i, start)
		}
		if _, err := l.js.PublishAsync(stream, []byte(strconv.Itoa(i))); err != nil {
			return err
		}
	}
	select {
	case <-l.js.PublishAsyncComplete():
		return nil
	case <-time.After(patience):
		return errors.New("the server of jobs does not take them")
	}
}

// stream makes a stream whose only subject is its name.
func (l *jobLoad) stream() (name string, remove func(), err error) {
	name = fmt.Sprintf("JOBS%d", l.runs.Add(1))
	_, err = l.js.CreateStream(context.Background(), natsjs.StreamConfig{Name: name, Subjects: []string{name}, Retention: natsjs.WorkQueuePolicy})
	return name, func() { _ = l.js.DeleteStream(context.Background(), name) }, err
}

// setup starts the server and calibrates the jobs.
func (l *jobLoad) setup(env runner.Env) (teardown func(), err error) {
	l.rounds = nil
	for _, d := range l.take {
		if env.Tiny {
			d /= 100
		}
		l.rounds = append(l.rounds, max(gauge.Rounds(d), 1))
	}
	process, err := child.Start(exec.Command(child.Path("nats")))
	if err != nil {
		return nil, err
	}
	stop := process.Stop
	var url string
	if err := process.Read(&url); err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url)
	if err == nil {
		l.js, err = natsjs.New(nc)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return func() { nc.Close(); stop() }, nil
}

// patience is how long a run may wait for what should long be done.
const patience = 30 * time.Second
