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
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// blockingSuite measures tasks that wait for what a pool cannot know of: the clock, channels, locks, the network, files
// and other processes. With go each is a goroutine. Heist is a group whose functions say nowhere that they wait, heist-go
// tasks and a WaitGroup likewise, and heist-block a group whose functions wait in Block.
//
// sleep: tasks of 40 us that sleep in the middle, 2000 for up to 1 ms, 1000 for 10 ms and 400 for 100 ms.
//
// ping-pong: 32 pairs of tasks, which pass a number to and fro 100 times, through channels without buffers.
//
// mutex: 1000 tasks of 40 us that hold one mutex for another 20 us.
//
// http: 8 calls at the same time to a server that answers after 1 or 5 ms. It is in the same process, which is what a
// service has besides.
//
// calls: 32 tasks that call a server 10 times each, over a connection of their own, and compute 2 us after each call. The server is in the same process and echoes.
//
// files: 7000 files (1750 at a glance) of 2 kB are read and summed up, each in a task.
//
// exec: 32 tasks start the program true, and wait for its end.
//
// mixture: 2000 tasks of 40 us, of which each tenth sleeps for 1 ms.
//
// tree-4: a tree of tasks of 40 us, three deep with five children each, of which at most four compute at a time. Each task
// waits for its children. Goroutines have no limit there: with one, errgroup, pond, ants and conc hang
// (verify/hazards).
//
// All answers are checked. The time is that of all tasks, and the CPU time that of the process, with what it has started and
// waited for left out. The threads are those that Go's runtime has made until then.
//
// notice: as many tasks as there are workers wait at a channel. The next task ends their wait: from its hand-over to its
// start. For notice-first the pool is new each time, and has never seen the function that waits; otherwise it knows it.
func blockingSuite() runner.Suite {
	s := runner.Suite{
		Name:  "blocking",
		About: "tasks that wait for what a pool cannot know of",
	}
	for _, c := range []struct {
		tasks int
		sleep time.Duration
	}{
		{2000, 50 * time.Microsecond}, {2000, 100 * time.Microsecond}, {2000, time.Millisecond},
		{1000, 10 * time.Millisecond}, {400, 100 * time.Millisecond},
	} {
		name := fmt.Sprintf("sleep-%dms", c.sleep.Milliseconds())
		if c.sleep < time.Millisecond {
			name = fmt.Sprintf("sleep-%dus", c.sleep.Microseconds())
		}
		s.Cases = append(s.Cases, blockingCase(name, fmt.Sprintf("%d tasks of 40 us that sleep for %v", c.tasks, c.sleep), sleepProgram(c.tasks, 1, c.sleep)))
	}
	s.Cases = append(s.Cases,
		blockingCase("ping-pong", "32 pairs of tasks that meet 200 times at channels", pingPongProgram),
		blockingCase("mutex", "1000 tasks of 40 us that hold a mutex for another 20 us", mutexProgram))
	for _, delay := range []time.Duration{time.Millisecond, 5 * time.Millisecond} {
		s.Cases = append(s.Cases, httpCase(delay))
	}
	tree := blockingCase("tree-4", "a tree of 156 tasks of 40 us that wait for their children, four computing at a time", treeProgram)
	tree.Impls = []runner.Impl{
		mixedImpl("heist", countThreads(treeProgram), heistGroups(4, unsaid)),
		mixedImpl("heist-block", countThreads(treeProgram), heistGroups(4, (*pool.Pool).Block)),
		mixedImpl("go", countThreads(treeProgram), goroutineGroups),
	}
	s.Cases = append(s.Cases, callsCase(), filesCase(),
		blockingCase("exec", "32 tasks that start a program and wait for it", execProgram),
		blockingCase("mixture", "2000 tasks of 40 us, of which each tenth sleeps for 1 ms", sleepProgram(2000, 10, time.Millisecond)),
		tree, noticeCase("notice-first", "a task behind tasks that wait, in a new pool; until it starts", true),
		noticeCase("notice", "a task behind tasks that wait, as often before; until it starts", false))
	return s
}

func blockingCase(name, about string, p blockingProgram) runner.Case {
	p = countThreads(p)
	return runner.Case{
		Name: name, About: about + "; time for all", Metrics: lower("us", "threads", "cpu-us"), Workers: asked,
		Impls: []runner.Impl{
			mixedImpl("heist", p, heistGroups(0, unsaid)),
			mixedImpl("heist-go", p, heistTasks),
			mixedImpl("heist-block", p, heistGroups(0, (*pool.Pool).Block)),
			mixedImpl("go", p, goroutineGroups),
			mixedImpl("errgroup-nolimit", p, errgroupGroups),
		},
	}
}

// blocking is how a program has tasks run, and wait.
type blocking struct {
	group func() taskGroup
	wait  func(f func()) // called by a task; calls f, which waits
}

type blockingProgram = programOf[blocking]

// countThreads adds the threads of the process to what a program measures.
func countThreads(p blockingProgram) blockingProgram {
	return func(env runner.Env) (func(blocking) ([]float64, error), error) {
		do, err := p(env)
		return func(b blocking) ([]float64, error) {
			further, err := do(b)
			return append(further, float64(pprof.Lookup("threadcreate").Count())), err
		}, err
	}
}

// taskGroup is what some tasks are added to, by them, too. Wait returns when all have ended.
type taskGroup struct {
	add  func(f func())
	wait func() error
}

func unsaid(_ *pool.Pool, f func()) { f() }

// heistGroups are heist's groups, of whose functions so many compute at a time, or any number for 0. Block is how they wait.
func heistGroups(most int, block func(p *pool.Pool, f func())) func(runner.Env) (blocking, func(), error) {
	return func(env runner.Env) (blocking, func(), error) {
		p, stop, err := newUnstuckPool(env)
		return blocking{
			group: func() taskGroup {
				g, _ := pool.NewGroup(p)
				if most > 0 {
					g.AtMost(most)
				}
				return taskGroup{func(f func()) { g.Go(func() error { f(); return nil }) }, g.Wait}
			},
			wait: func(f func()) { block(p, f) },
		}, stop, err
	}
}

// newUnstuckPool is newPool, but stop does not wait long for tasks that do not end.
func newUnstuckPool(env runner.Env) (p *pool.Pool, stop func(), err error) {
	if p, _, err = newPool(env); err != nil {
		return nil, nil, err
	}
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.Shutdown(ctx) // tasks that are left have been an error
	}, nil
}

func heistTasks(env runner.Env) (blocking, func(), error) {
	p, stop, err := newUnstuckPool(env)
	return blocking{
		group: func() taskGroup {
			var all sync.WaitGroup
			var failed atomic.Pointer[error]
			return taskGroup{func(f func()) {
				all.Add(1)
				if err := p.Go(func(*pool.Worker) { defer all.Done(); f() }); err != nil {
					failed.Store(&err)
					all.Done()
				}
			}, func() error {
				all.Wait()
				if err := failed.Load(); err != nil {
					return *err
				}
				return nil
			}}
		},
		wait: func(f func()) { f() },
	}, stop, err
}

func goroutineGroups(runner.Env) (blocking, func(), error) {
	return blocking{
		group: func() taskGroup {
			var all sync.WaitGroup
			return taskGroup{all.Go, func() error { all.Wait(); return nil }}
		},
		wait: func(f func()) { f() },
	}, nil, nil
}

func errgroupGroups(runner.Env) (blocking, func(), error) {
	return blocking{
		group: func() taskGroup {
			var all errgroup.Group
			return taskGroup{func(f func()) { all.Go(func() error { f(); return nil }) }, all.Wait}
		},
		wait: func(f func()) { f() },
	}, nil, nil
}

// errStuck is the answer of tasks that wait for one another for ever.
var errStuck = errors.New("has tasks that should long have ended")

// runAll runs tasks and counts those that were right. It returns an error if these are not all, or if they do not end.
func (b blocking) runAll(n int, task func(i int) bool) error {
	var right atomic.Int64
	ended := make(chan error, 1)
	go func() {
		all := b.group()
		for i := range n {
			all.add(func() {
				if task(i) {
					right.Add(1)
				}
			})
		}
		ended <- all.wait()
	}()
	select {
	case err := <-ended:
		return errors.Join(err, runner.Check("the tasks", right.Load(), int64(n)))
	case <-time.After(patience):
		return errStuck
	}
}

// work is a chore of a task.
func work(env runner.Env, length time.Duration) gauge.Chore {
	return gauge.NewChore(env.Size(gauge.Rounds(length), 10))
}

const taskTime = 40 * time.Microsecond

// sleepProgram has each so-manieth task sleep between two halves of its work.
func sleepProgram(tasks, each int, sleep time.Duration) blockingProgram {
	return func(env runner.Env) (func(blocking) ([]float64, error), error) {
		half, tasks := work(env, taskTime/2), env.Size(tasks, 20)
		return func(b blocking) ([]float64, error) {
			return nil, b.runAll(tasks, func(i int) bool {
				ok := half.Do()
				if i%each == 0 {
					b.wait(func() { time.Sleep(sleep) })
				}
				return half.Do() && ok
			})
		}, nil
	}
}

func pingPongProgram(env runner.Env) (func(blocking) ([]float64, error), error) {
	pairs, times := env.Size(32, 2), env.Size(100, 5)
	return func(b blocking) ([]float64, error) {
		there, back := make([]chan int, pairs), make([]chan int, pairs)
		for i := range pairs {
			there[i], back[i] = make(chan int), make(chan int)
		}
		return nil, b.runAll(2*pairs, func(i int) bool {
			out, in := there[i/2], back[i/2]
			if i%2 == 1 {
				for range times {
					var x int
					b.wait(func() { x = <-out })
					b.wait(func() { in <- x + 1 })
				}
				return true
			}
			x := 0
			for range times {
				b.wait(func() { out <- x })
				b.wait(func() { x = <-in })
			}
			return x == times
		})
	}, nil
}

func mutexProgram(env runner.Env) (func(blocking) ([]float64, error), error) {
	before, inside, tasks := work(env, taskTime), work(env, taskTime/2), env.Size(1000, 20)
	return func(b blocking) ([]float64, error) {
		var mu sync.Mutex
		held := 0
		err := b.runAll(tasks, func(int) bool {
			ok := before.Do()
			b.wait(mu.Lock)
			defer mu.Unlock()
			held++
			return inside.Do() && ok
		})
		if err == nil {
			err = runner.Check("how often the mutex was held", held, tasks)
		}
		return nil, err
	}, nil
}

// callsCase has tasks call a server that echoes.
func callsCase() runner.Case {
	const tasks, calls = 32, 10
	var conns [tasks]net.Conn
	c := blockingCase("calls", "32 tasks that call an echo server 10 times each over TCP", func(env runner.Env) (func(blocking) ([]float64, error), error) {
		chore := work(env, 2*time.Microsecond)
		return func(b blocking) ([]float64, error) {
			return nil, b.runAll(env.Size(tasks, 4), func(i int) bool {
				for n := range byte(calls) {
					var answer [1]byte
					var err error
					b.wait(func() {
						_, err = conns[i].Write([]byte{n})
						if err == nil {
							_, err = conns[i].Read(answer[:])
						}
					})
					if err != nil || answer[0] != n || !chore.Do() {
						return false
					}
				}
				return true
			})
		}, nil
	})
	c.Setup = func(runner.Env) (teardown func(), err error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		var open []net.Conn
		closeAll := func() {
			for _, c := range open {
				_ = c.Close()
			}
		}
		for i := range conns {
			if conns[i], err = net.Dial("tcp", listener.Addr().String()); err != nil {
				closeAll()
				return nil, err
			}
			open = append(open, conns[i])
			server, err := listener.Accept()
			if err != nil {
				closeAll()
				return nil, err
			}
			open = append(open, server)
			go func() { _, _ = io.Copy(server, server) }() // until the connection is closed
		}
		return closeAll, nil
	}
	return c
}

// httpCase calls a server that answers after a time.
func httpCase(delay time.Duration) runner.Case {
	const calls = 8
	var url string
	c := blockingCase(fmt.Sprintf("http-%dms", delay.Milliseconds()), fmt.Sprintf("8 calls to a server that answers after %v", delay),
		func(runner.Env) (func(blocking) ([]float64, error), error) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: calls}, Timeout: patience}
			return func(b blocking) ([]float64, error) {
				return nil, b.runAll(calls, func(i int) (ok bool) {
					b.wait(func() {
						answer, err := client.Get(fmt.Sprint(url, i))
						if err != nil {
							return
						}
						defer answer.Body.Close()
						text, err := io.ReadAll(answer.Body)
						ok = err == nil && string(text) == fmt.Sprint("/", i)
					})
					return ok
				})
			}, nil
		})
	c.Setup = func(runner.Env) (teardown func(), err error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		url = fmt.Sprintf("http://%v/", listener.Addr())
		server := &http.Server{Handler: http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
			time.Sleep(delay)
			_, _ = io.WriteString(to, r.URL.Path) // the client notices
		})}
		go func() { _ = server.Serve(listener) }() // until it is closed
		return func() { _ = server.Close() }, nil
	}
	return c
}

// filesCase reads files, which are in the system's cache.
func filesCase() runner.Case {
	const size = 2048
	var dir string
	var files []string
	c := blockingCase("files", "7000 files of 2 kB are read, 1750 at a glance", func(runner.Env) (func(blocking) ([]float64, error), error) {
		return func(b blocking) ([]float64, error) {
			return nil, b.runAll(len(files), func(i int) bool {
				var text []byte
				b.wait(func() { text, _ = os.ReadFile(files[i]) }) // what could not be read has the wrong sum
				sum := 0
				for _, c := range text {
					sum += int(c)
				}
				return sum == size*(i%256)
			})
		}, nil
	})
	c.Setup = func(env runner.Env) (teardown func(), err error) {
		if dir, err = os.MkdirTemp("", "heist-bench-files-"); err != nil {
			return nil, err
		}
		files = nil
		text := make([]byte, size)
		for i := range env.Amount(7000, 20) {
			for j := range text {
				text[j] = byte(i)
			}
			file := filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(file, text, 0o666); err != nil {
				return nil, errors.Join(err, os.RemoveAll(dir))
			}
			files = append(files, file)
		}
		return func() { _ = os.RemoveAll(dir) }, nil // in a folder of temporary files
	}
	return c
}

func execProgram(env runner.Env) (func(blocking) ([]float64, error), error) {
	program, err := exec.LookPath("true")
	if err != nil {
		return nil, runner.Missing{Reason: err.Error()}
	}
	tasks := env.Size(32, 4)
	return func(b blocking) ([]float64, error) {
		return nil, b.runAll(tasks, func(int) bool {
			var err error
			b.wait(func() { err = exec.Command(program).Run() })
			return err == nil
		})
	}, nil
}

// treeProgram adds all tasks to one group, and waits for the children of each with a WaitGroup.
func treeProgram(env runner.Env) (func(blocking) ([]float64, error), error) {
	const depth, children = 3, 5
	chore := work(env, taskTime)
	return func(b blocking) ([]float64, error) {
		var right atomic.Int64
		err := b.runAll(1, func(int) bool {
			all := b.group()
			var node func(depth int)
			node = func(depth int) {
				if chore.Do() {
					right.Add(1)
				}
				if depth == 0 {
					return
				}
				var left sync.WaitGroup
				left.Add(children)
				for range children {
					all.add(func() { defer left.Done(); node(depth - 1) })
				}
				b.wait(left.Wait)
			}
			all.add(func() { node(depth) })
			return all.wait() == nil
		})
		if err == nil {
			err = runner.Check("the nodes", right.Load(), 1+5+25+125)
		}
		return nil, err
	}, nil
}

// noticeCase measures how long a queued task waits while the tasks that hold the workers wait, too.
func noticeCase(name, about string, fresh bool) runner.Case {
	impl := func(name string, open opener) runner.Impl {
		return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
			return func() (runner.Sample, error) { return notice(env, open, fresh) }, nil, nil
		}}
	}
	return runner.Case{
		Name: name, About: about, Metrics: lower("p50-us", "p99-us"), Workers: asked,
		Impls: []runner.Impl{impl("heist", openHeist()), impl("go", goLibrary.opener)},
	}
}

func notice(env runner.Env, open opener, fresh bool) (runner.Sample, error) {
	warm, laps, each := env.Size(20, 2), env.Size(300, 5), env.Workers+1
	over := make([]chan struct{}, warm+laps)
	started := make(chan time.Time)
	task := func(i int) {
		if i%each < env.Workers {
			<-over[i/each]
		} else {
			started <- time.Now()
		}
	}
	var submit func(i int) error
	stop := func() {}
	defer func() { stop() }()
	lap := func(i int) (time.Duration, error) {
		if fresh || submit == nil {
			stop()
			to, end, err := open(env, task)
			if err != nil {
				return 0, err
			}
			submit, stop = to, end
		}
		over[i] = make(chan struct{})
		defer close(over[i])
		var handed time.Time
		for j := range each {
			handed = time.Now()
			if err := submit(i*each + j); err != nil {
				return 0, err
			}
		}
		select {
		case at := <-started:
			return at.Sub(handed), nil
		case <-time.After(patience):
			return 0, errStuck
		}
	}
	waited := gauge.NewDurations()
	for i := range over {
		took, err := lap(i)
		if err != nil {
			return runner.Sample{}, err
		}
		if i >= warm {
			waited.Note(took)
		}
		time.Sleep(time.Millisecond) // until the pool sleeps
	}
	return waited.Sample("start", waited.Micros(50, 99))
}
