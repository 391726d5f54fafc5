package suites

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// serviceSuite measures how long a client of a TCP server waits for its answer, for
// several ways in which the server computes it. The server is a process of its own
// (serve.go), with as many Ps as there are workers. The load comes from this process, so
// the two share the machine's CPUs.
//
// A request is a number, and the answer is computed from it. Task and task-half do that in
// some 5 us, one request after the other; loop-200us and loop-200us-half do it in a loop
// over 2^15 numbers, which takes some 200 us if it is not divided. In beside the server
// computes the tasks in the goroutines of their connections, while a batch of tasks of
// 20 us keeps a pool busy, or goroutines ("go"), or there is no batch. Answers are checked.
//
// The load is open: each request is due at a time that was fixed in advance, every
// millisecond or, in the cases called half, as often as half loads the server. Its latency
// counts from that time. The requests take turns on 32 connections. If a connection still
// waits for an answer when its next request is due, the request is sent after the answer,
// and the time until then counts too: a server that stops for 10 ms makes all requests
// late that were due meanwhile.
//
// Http-task and http-loop-200us are the same with net/http's server, 2000 tasks of 20 us or 500 loops a second.
//
// The CPU time is the server's, for each request. A run has at least 500 requests, in a glance 200. Of fewer than a
// thousand the p999 is the longest wait.
func serviceSuite(linked libraries) runner.Suite {
	all := services(linked)
	task, loop, beside, httpTask, httpLoop := all[0], all[1], all[2], all[3], all[4]
	return runner.Suite{
		Name:  "service",
		About: "requests to a TCP server, due at a fixed rate",
		Cases: runner.InBothStates([]runner.Case{
			task.at("task", rate{flat: 1000}),
			task.at("task-half", rate{perWorker: 10_000}),
			loop.at("loop-200us", rate{flat: 1000}),
			loop.at("loop-200us-half", rate{perWorker: 1500}),
			beside.at("beside", rate{flat: 1000}),
			httpTask.at("http-task", rate{flat: 2000}),
			httpLoop.at("http-loop-200us", rate{flat: 500}),
		}),
	}
}

// A rate is how many requests are due in a second. The rates per worker are a little less
// than half of what a server that computes inline did on two CPUs, which it shared with the
// client: 55000 tasks in all, or 7400 loops.
type rate struct{ flat, perWorker int }

func (r rate) String() string {
	if r.perWorker > 0 {
		return fmt.Sprintf("%d requests a second for each worker", r.perWorker)
	}
	return fmt.Sprintf("%d requests a second", r.flat)
}

// at is the case with requests at this rate.
func (s *service) at(name string, r rate) runner.Case {
	var impls []runner.Impl
	for _, way := range s.ways {
		impls = append(impls, runner.Impl{Name: way.impl, Links: way.links, Start: func(env runner.Env) (runner.Run, func(), error) {
			server, err := startServer(s, way, env)
			if err != nil {
				return nil, nil, err
			}
			var before, after serverState
			if err := server.Read(&before); err != nil {
				return nil, nil, err
			}
			l, err := dial(before.Port, s.answers(), s.http)
			if err != nil {
				server.Stop()
				return nil, nil, err
			}
			perSecond := r.flat + r.perWorker*env.Workers
			least := 500
			if env.Glance {
				least = 200
			}
			requests := max(least, int(env.Time.Seconds()*float64(perSecond)))
			if env.Tiny {
				perSecond, requests = 10_000, connections+8
			}
			interval := time.Second / time.Duration(perSecond)
			return func() (runner.Sample, error) {
				_, err := l.run(2*connections, interval) // to warm up
				if err = errors.Join(err, server.Ask(&before)); err != nil {
					return runner.Sample{}, err
				}
				latencies, err := l.run(requests, interval)
				if err = errors.Join(err, server.Ask(&after)); err != nil {
					return runner.Sample{}, err
				}
				all := gauge.NewDurations()
				for _, latency := range latencies {
					all.Note(latency)
				}
				values := all.Micros(50, 99, 99.9)
				if before.Usage != nil && after.Usage != nil {
					values = append(values, after.Usage.Since(*before.Usage).PerOp(requests)...)
				}
				return all.Sample("answer", values)
			}, func() { l.close(); server.Stop() }, nil
		}})
	}
	return runner.Case{
		Name:    name,
		About:   fmt.Sprintf("%v, each %s; latency from when it was due", r, s.about),
		Metrics: lower("p50-us", "p99-us", "p999-us", "cpu-us"),
		Workers: asked,
		Floor:   "none",
		Impls:   impls,
	}
}

// connections is the number of the client's connections, and so the most requests that the
// server has at a time.
const connections = 32

// numbers is the number of different requests: few enough to compute all answers in
// advance.
const numbers = 64

// numberOf is the number in the i-th request of a run.
func numberOf(i int) uint64 { return random(i) % numbers }

// A packet is a request or its answer: the request's position in the run, so that answers
// cannot be mixed up, and the number.
type packet [16]byte

func (m *packet) set(i int, number uint64) {
	binary.LittleEndian.PutUint64(m[:], uint64(i))
	binary.LittleEndian.PutUint64(m[8:], number)
}

// handle makes the answer of a request.
func (m *packet) handle(h handler) error {
	i, number := m.get()
	answer, err := h(number)
	m.set(i, answer)
	return err
}

func (m *packet) get() (i int, number uint64) {
	return int(binary.LittleEndian.Uint64(m[:])), binary.LittleEndian.Uint64(m[8:])
}

// load is the client's side of a service. It outlives a run, and does one run at a time.
type load struct {
	answers []uint64 // by number
	alarm   alarm
	lines   []*line
}

// line is one of the connections; id is its index.
type line struct {
	id   int
	http bool
	conn net.Conn
	from *bufio.Reader

	// unanswered counts the line's requests that are due and not answered; the first of
	// them has been sent. The goroutine that makes it positive, or leaves it positive after
	// an answer, has to send the next request, and no other goroutine may.
	unanswered atomic.Int64
	out        packet // only the goroutine that has to send writes it
}

func dial(port int, answers []uint64, http bool) (*load, error) {
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	l := &load{answers: answers, alarm: alarm}
	for id := range connections {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			l.close()
			return nil, err
		}
		l.lines = append(l.lines, &line{id: id, http: http, conn: conn, from: bufio.NewReader(conn)})
	}
	return l, nil
}

func (l *load) close() {
	l.alarm.close()
	for _, line := range l.lines {
		line.conn.Close()
	}
}

// run makes so many requests, one in each interval, and returns how long after its due
// time each was answered. After an error the load cannot be used any more.
func (l *load) run(requests int, interval time.Duration) ([]time.Duration, error) {
	start := time.Now().Add(time.Millisecond)
	due := func(i int) time.Time { return start.Add(time.Duration(i) * interval) }

	var all errgroup.Group
	var once sync.Once
	attempt := func(work func() error) {
		all.Go(func() error {
			err := work()
			if err != nil {
				once.Do(l.close) // so that no goroutine waits for an answer that will not come
			}
			return err
		})
	}
	latencies := make([]time.Duration, requests) // each element is written by its request's line
	for _, line := range l.lines {
		if err := line.conn.SetDeadline(due(requests).Add(patience)); err != nil {
			return nil, err
		}
		attempt(func() error { return line.receive(l.answers, latencies, due) })
	}
	attempt(func() error {
		for i := range requests {
			if err := l.alarm.wait(due(i)); err != nil {
				return err
			}
			line := l.lines[i%connections]
			if line.unanswered.Add(1) > 1 {
				continue
			}
			if err := line.send(i); err != nil {
				return err
			}
		}
		return nil
	})
	return latencies, all.Wait()
}

func (l *line) send(i int) error {
	l.out.set(i, numberOf(i))
	var err error
	if l.http {
		_, err = l.conn.Write(append(httpHead, l.out[:]...))
	} else {
		_, err = l.conn.Write(l.out[:])
	}
	return err
}

// httpHead comes before a packet that is the body of a request.
var httpHead = slices.Clip(fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n", len(packet{})))

// read reads an answer.
func (l *line) read(in *packet) error {
	if !l.http {
		_, err := io.ReadFull(l.from, in[:])
		return err
	}
	answer, err := http.ReadResponse(l.from, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.ReadFull(answer.Body, in[:])
	return err
}

// receive reads the answers to the line's requests, and sends the requests that became
// due meanwhile.
func (l *line) receive(answers []uint64, latencies []time.Duration, due func(i int) time.Time) error {
	var in packet
	for i := l.id; i < len(latencies); i += connections {
		if err := l.read(&in); err != nil {
			return fmt.Errorf("gave no answer: %w", err)
		}
		latencies[i] = time.Since(due(i))
		place, answer := in.get()
		if err := runner.Check("the place of a request", place, i); err != nil {
			return err
		}
		if err := runner.Check("a request", answer, answers[numberOf(i)]); err != nil {
			return err
		}
		if l.unanswered.Add(-1) > 0 {
			if err := l.send(i + connections); err != nil {
				return err
			}
		}
	}
	return nil
}
