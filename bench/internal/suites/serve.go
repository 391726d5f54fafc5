package suites

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// service is what a server of suite service computes.
type service struct {
	name, about string

	// answers returns the answer to each number, computed serially.
	answers func() []uint64

	ways []way
}

// way is one way for a server to compute its answers. Open starts whatever outlives a
// connection, such as a pool. Connect makes the handler of a connection.
type way struct {
	impl string
	open func(workers int) (connect func() handler, err error)
}

// handler answers the requests of a connection one after the other, in the connection's goroutine.
type handler func(number uint64) (answer uint64, err error)

// shortTask computes the answer to a request: some 5 us on the machine of the README.
func shortTask(number uint64) uint64 {
	x := number + 1
	for range 2500 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

var taskService = &service{
	name:    "task",
	about:   "a task of 5 us",
	answers: sync.OnceValue(func() []uint64 { return allAnswers(shortTask) }),
	ways: []way{
		{"heist", inPool(guestTask)},
		{"heist-pinned", inPool(guestTask, pool.WithPinning(pool.PinCores))},
		{"heist-go", inPool(func(p *pool.Pool) handler {
			return awaiting(func(number uint64, to chan<- uint64) error {
				return p.Go(func(*pool.Worker) { to <- shortTask(number) })
			})
		})},
		{"inline", func(int) (func() handler, error) { return handledInline, nil }},
		{"go", func(int) (func() handler, error) {
			return func() handler {
				return awaiting(func(number uint64, to chan<- uint64) error {
					go func() { to <- shortTask(number) }()
					return nil
				})
			}, nil
		}},
		{"ants", func(workers int) (func() handler, error) {
			p, err := ants.NewPool(workers)
			return func() handler {
				return awaiting(func(number uint64, to chan<- uint64) error {
					return p.Submit(func() { to <- shortTask(number) })
				})
			}, err
		}},
		{"pond", func(workers int) (func() handler, error) {
			p := pond.NewResultPool[uint64](workers)
			return func() handler {
				return func(number uint64) (uint64, error) {
					return p.Submit(func() uint64 { return shortTask(number) }).Wait()
				}
			}, nil
		}},
	},
}

// inPool is a way that uses a pool of heist's.
func inPool(connect func(*pool.Pool) handler, options ...pool.Option) func(int) (func() handler, error) {
	return func(workers int) (func() handler, error) {
		p, err := pool.New(append(options, pool.WithWorkers(workers))...)
		return func() handler { return connect(p) }, err
	}
}

func guestTask(p *pool.Pool) handler {
	return func(number uint64) (answer uint64, err error) {
		err = p.Run(func(*pool.Worker) { answer = shortTask(number) })
		return answer, err
	}
}

// awaiting hands a request over to a goroutine that sends the answer, and waits for the answer.
func awaiting(submit func(number uint64, to chan<- uint64) error) handler {
	answer := make(chan uint64, 1)
	return func(number uint64) (uint64, error) {
		if err := submit(number, answer); err != nil {
			return 0, err
		}
		return <-answer, nil
	}
}

// loopTable is the items of the loop.
var loopTable = sync.OnceValue(func() []uint64 {
	t := make([]uint64, 1<<15)
	for i := range t {
		t[i] = random(i)
	}
	return t
})

// loopSum adds up a value computed from each item of the table, which takes some 200 us on
// the machine of the README if the loop calls its body once.
func loopSum(number uint64, loop func(n int, body func(lo, hi int)) error) (uint64, error) {
	var total atomic.Uint64
	items := loopTable()
	err := loop(len(items), func(lo, hi int) {
		var part uint64
		for _, x := range items[lo:hi] {
			x ^= number
			for range 4 {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
			part += x
		}
		total.Add(part)
	})
	return total.Load(), err
}

var loopService = &service{
	name:  "loop-200us",
	about: "a loop of 200 us",
	answers: sync.OnceValue(func() []uint64 {
		return allAnswers(func(number uint64) uint64 {
			answer, _ := loopSum(number, undivided)
			return answer
		})
	}),
	ways: []way{
		{"heist", inPool(loopIn)},
		{"heist-pinned", inPool(loopIn, pool.WithPinning(pool.PinCores))},
		{"inline", looped(func(int) summing { return undivided })},
		{"go", looped(func(workers int) summing {
			return func(n int, f func(lo, hi int)) error {
				divided(workers, n, body{items: f})
				return nil
			}
		})},
		{"errgroup", looped(func(workers int) summing {
			return func(n int, f func(lo, hi int)) error {
				var all errgroup.Group
				for k := range workers {
					all.Go(func() error {
						f(k*n/workers, (k+1)*n/workers)
						return nil
					})
				}
				return all.Wait()
			}
		})},
	},
}

// besideService is the common deployment: requests are computed inline, in the goroutines of their
// connections, while a batch keeps all workers busy.
var besideService = &service{
	name:    "beside",
	about:   "a task of 5 us, inline, beside a batch that keeps all workers busy",
	answers: taskService.answers,
	ways: []way{
		{"heist", besideBatch(openHeist())},
		{"heist-pinned", besideBatch(openHeist(pool.WithPinning(pool.PinCores)))},
		{"go", besideBatch(openGo)},
		{"none", func(int) (func() handler, error) { return handledInline, nil }},
	},
}

func handledInline() handler {
	return func(number uint64) (uint64, error) { return shortTask(number), nil }
}

// besideBatch opens a pool that always has tasks of 20 us.
func besideBatch(open opener) func(workers int) (func() handler, error) {
	return func(workers int) (func() handler, error) {
		s := &supply{work: newChore(roundsIn(20 * time.Microsecond))}
		submit, _, err := open(runner.Env{Workers: workers}, s.task)
		if err != nil {
			return nil, err
		}
		s.submit = submit
		s.hand(highTide)
		return handledInline, nil
	}
}

// summing is a loop that loopSum can use.
type summing = func(n int, body func(lo, hi int)) error

// undivided is the loop in one call.
func undivided(n int, body func(lo, hi int)) error {
	body(0, n)
	return nil
}

func looped(with func(workers int) summing) func(int) (func() handler, error) {
	return func(workers int) (func() handler, error) {
		loop := with(workers)
		return func() handler {
			return func(number uint64) (uint64, error) { return loopSum(number, loop) }
		}, nil
	}
}

func loopIn(p *pool.Pool) handler {
	return func(number uint64) (uint64, error) {
		return loopSum(number, func(n int, f func(lo, hi int)) error { return pool.ForRange(p, n, f) })
	}
}

func allAnswers(to func(number uint64) uint64) []uint64 {
	answers := make([]uint64, numbers)
	for n := range answers {
		answers[n] = to(uint64(n))
	}
	return answers
}

// serveThis is the environment variable that makes this program a server. Its value is
// the names of a service and of a way, with a slash between them.
const serveThis = "HEIST_BENCH_SERVE"

// ServeIfAsked makes this process the server of a case if a process of the same program
// started it for that. It returns true when that process has ended or no longer needs the
// server. Every program that runs suite service calls it before anything else.
func ServeIfAsked() bool {
	what, asked := os.LookupEnv(serveThis)
	if !asked {
		return false
	}
	if err := serveProcess(what); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the server of %s: %v\n", what, err)
		os.Exit(1)
	}
	return true
}

// startServer starts a server of the service, and returns its port.
func startServer(s *service, w way, workers int) (port int, stop func(), err error) {
	where, stop, err := startChild(s.name+"/"+w.impl, "GOMAXPROCS="+strconv.Itoa(workers))
	if err != nil {
		return 0, nil, err
	}
	if port, err = strconv.Atoi(where); err != nil {
		stop()
		return 0, nil, fmt.Errorf("has a server that names no port: %w", err)
	}
	return port, stop, nil
}

// serveProcess prints the port that it listens on, and serves until its standard input
// is closed.
func serveProcess(what string) error {
	if what == serveNATS {
		return natsProcess()
	}
	connect, err := openWay(what)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go serve(listener, connect, func(err error) {
		fmt.Fprintf(os.Stderr, "bench: the server of %s: %v\n", what, err)
	})
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func openWay(what string) (connect func() handler, err error) {
	workers, err := strconv.Atoi(os.Getenv("GOMAXPROCS"))
	if err != nil {
		return nil, err
	}
	for _, s := range []*service{taskService, loopService, besideService} {
		for _, w := range s.ways {
			if what == s.name+"/"+w.impl {
				return w.open(workers)
			}
		}
	}
	return nil, errors.New("there is none")
}

// serve serves until the listener is closed. A request that cannot be answered is reported
// to complain, and its connection closed.
func serve(listener net.Listener, connect func() handler, complain func(error)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			err := attend(conn, connect())
			var left *net.OpError // a client that has left may itself say why
			if !errors.Is(err, io.EOF) && !errors.As(err, &left) {
				complain(err)
			}
		}()
	}
}

// attend answers the requests of a connection until the connection ends, which is an error too.
func attend(conn net.Conn, handle handler) error {
	var m packet
	for {
		if _, err := io.ReadFull(conn, m[:]); err != nil {
			return err
		}
		i, number := m.get()
		answer, err := handle(number)
		if err != nil {
			return err
		}
		m.set(i, answer)
		if _, err := conn.Write(m[:]); err != nil {
			return err
		}
	}
}
