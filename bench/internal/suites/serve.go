package suites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// service is what a server of suite service computes.
type service struct {
	name, about string
	http        bool // the server is net/http's

	// answers returns the answer to each number, computed serially.
	answers func() []uint64

	ways []way
}

// way is one way for a server to compute its answers. Open starts whatever outlives a
// connection, such as a pool. Connect makes the handler of a connection.
type way struct {
	impl  string
	links string // see runner.Impl
	open  func(workers int) (connect func() handler, err error)
}

// handler answers the requests of a connection one after the other, in the connection's goroutine.
type handler func(number uint64) (answer uint64, err error)

// taskOf returns the computation of an answer in so many rounds.
func taskOf(rounds int) func(number uint64) uint64 {
	return func(number uint64) uint64 {
		x := number + 1
		for range rounds {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		return x
	}
}

// shortTask computes the answer to a request: some 5 us on the machine of the README.
var shortTask = taskOf(2500)

// services returns all, with the libraries that are linked.
func services(linked libraries) []*service {
	task := func(name, about string, rounds int, http bool) *service {
		f := taskOf(rounds)
		return &service{name: name, about: about, http: http, ways: taskWays(linked, f),
			answers: sync.OnceValue(func() []uint64 { return allAnswers(f) })}
	}
	overHTTP := *loopService
	overHTTP.name, overHTTP.about, overHTTP.http = "http-loop-200us", overHTTP.about+" over HTTP", true
	return []*service{
		task("task", "a task of 5 us", 2500, false), loopService, besideService,
		task("http-task", "a task of 20 us over HTTP", 10_000, true), &overHTTP,
	}
}

func taskWays(linked libraries, task func(number uint64) uint64) []way {
	library := func(l Library) way {
		return way{impl: l.Name, open: func(workers int) (func() handler, error) {
			t, err := l.Open(workers)
			return func() handler {
				return awaiting(func(number uint64, to chan<- uint64) error {
					return t.Submit(1, func() { to <- task(number) })
				})
			}, err
		}}
	}
	guest := func(p *pool.Pool) handler {
		return func(number uint64) (answer uint64, err error) {
			err = p.Run(func(*pool.Worker) { answer = task(number) })
			return answer, err
		}
	}
	ways := []way{
		{impl: "heist", open: inPool(guest)},
		{impl: "heist-pinned", open: inPool(guest, pool.WithPinning(pool.PinCores))},
		{impl: "heist-go", open: inPool(func(p *pool.Pool) handler {
			return awaiting(func(number uint64, to chan<- uint64) error {
				return p.Go(func(*pool.Worker) { to <- task(number) })
			})
		})},
		{impl: "inline", open: func(int) (func() handler, error) {
			return func() handler { return func(number uint64) (uint64, error) { return task(number), nil } }, nil
		}},
		library(goLibrary), library(channelLibrary),
	}
	for _, name := range []string{"ants", "pond"} {
		w := library(linked.of(name))
		w.links = name
		ways = append(ways, w)
	}
	return ways
}

// inPool is a way that uses a pool of heist's.
func inPool(connect func(*pool.Pool) handler, options ...pool.Option) func(int) (func() handler, error) {
	return func(workers int) (func() handler, error) {
		p, err := open(workers, options...)
		return func() handler { return connect(p) }, err
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
		{impl: "heist", open: inPool(loopIn)},
		{impl: "heist-pinned", open: inPool(loopIn, pool.WithPinning(pool.PinCores))},
		{impl: "inline", open: looped(func(int) summing { return undivided })},
		{impl: "go", open: looped(func(workers int) summing {
			return func(n int, f func(lo, hi int)) error {
				divided(workers, n, body{items: f})
				return nil
			}
		})},
		{impl: "errgroup", open: looped(func(workers int) summing {
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
	answers: sync.OnceValue(func() []uint64 { return allAnswers(shortTask) }),
	ways: []way{
		{impl: "heist", open: besideBatch(openHeist())},
		{impl: "heist-pinned", open: besideBatch(openHeist(pool.WithPinning(pool.PinCores)))},
		{impl: "go", open: besideBatch(goLibrary.opener)},
		{impl: "none", open: func(int) (func() handler, error) { return handledInline, nil }},
	},
}

func handledInline() handler {
	return func(number uint64) (uint64, error) { return shortTask(number), nil }
}

// besideBatch opens a pool that always has tasks of 20 us.
func besideBatch(open opener) func(workers int) (func() handler, error) {
	return func(workers int) (func() handler, error) {
		s := &supply{work: gauge.NewChore(gauge.Rounds(20 * time.Microsecond))}
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

// These are the environment variables that make this program a server: the names of a service and of a way, with a
// slash between them, and whether a timer is to be pending.
const (
	serveThis = "HEIST_BENCH_SERVE"
	withTimer = "HEIST_BENCH_TIMER"
)

// ServeIfAsked makes this process the server of a case if a process of the same program
// started it for that. It returns true when that process has ended or no longer needs the
// server. Every program that runs suite service calls it before anything else.
func ServeIfAsked(linked ...Library) bool {
	what, asked := os.LookupEnv(serveThis)
	if !asked {
		return false
	}
	if err := serveProcess(what, linked); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the server of %s: %v\n", what, err)
		os.Exit(1)
	}
	return true
}

// serverState is what a server tells: where it is, and what it has used so far.
type serverState struct {
	Port  int
	Usage *gauge.Usage // nil where the system does not tell
}

// startServer starts this program again as a server of the service.
func startServer(s *service, w way, env runner.Env) (*child.Process, error) {
	if _, asked := os.LookupEnv(serveThis); asked {
		// A server would start another server, and so on.
		return nil, errors.New("this program does not call ServeIfAsked")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), serveThis+"="+s.name+"/"+w.impl, "GOMAXPROCS="+strconv.Itoa(env.Workers),
		withTimer+"="+strconv.FormatBool(!env.NoTimer))
	return child.Start(command)
}

// serveProcess serves until its standard input is closed.
func serveProcess(what string, linked libraries) error {
	s, connect, err := openWay(what, linked)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if os.Getenv(withTimer) == "true" {
		defer time.AfterFunc(time.Hour, func() {}).Stop()
	}
	complain := func(err error) { fmt.Fprintf(os.Stderr, "bench: the server of %s: %v\n", what, err) }
	if s.http {
		go serveHTTP(listener, connect, complain)
	} else {
		go serve(listener, connect, complain)
	}
	return child.Answer(func() any {
		state := serverState{Port: listener.Addr().(*net.TCPAddr).Port}
		if u, err := gauge.UsageSoFar(); err == nil {
			state.Usage = &u
		}
		return state
	})
}

func openWay(what string, linked libraries) (s *service, connect func() handler, err error) {
	workers, err := strconv.Atoi(os.Getenv("GOMAXPROCS"))
	if err != nil {
		return nil, nil, err
	}
	for _, s := range services(linked) {
		for _, w := range s.ways {
			if what == s.name+"/"+w.impl {
				connect, err := w.open(workers)
				return s, connect, err
			}
		}
	}
	return nil, nil, errors.New("there is none")
}

// ofConnection is the key of a connection's handler in the context of its requests.
type ofConnection struct{}

// serveHTTP is serve with net/http's server: the packets are the bodies of requests and of their answers.
func serveHTTP(listener net.Listener, connect func() handler, complain func(error)) {
	server := http.Server{
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, ofConnection{}, connect())
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m packet
			_, err := io.ReadFull(r.Body, m[:])
			if err == nil {
				err = m.handle(r.Context().Value(ofConnection{}).(handler))
			}
			if err == nil {
				_, err = w.Write(m[:])
			}
			if err != nil {
				complain(err)
				panic(http.ErrAbortHandler)
			}
		}),
	}
	_ = server.Serve(listener) // until the process ends
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
		if err := m.handle(handle); err != nil {
			return err
		}
		if _, err := conn.Write(m[:]); err != nil {
			return err
		}
	}
}
