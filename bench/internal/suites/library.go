package suites

import (
	"cmp"
	"errors"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// Library is a peer that runs tasks. One that is of another project is linked only by the program that runs it, whose
// name it has (package child).
type Library struct {
	Name string

	// PerBatch says that the library's users make one for each batch of tasks, and wait by ending it.
	PerBatch bool

	Open func(workers int) (Tasks, error)
}

// Tasks is an open library. Submit submits the task n times. Stop returns when all tasks have ended.
type Tasks struct {
	Submit func(n int, task func()) error
	Stop   func()
}

var (
	goLibrary = Library{Name: "go", Open: func(int) (Tasks, error) {
		return Tasks{
			Submit: func(n int, task func()) error {
				for range n {
					go task()
				}
				return nil
			},
			Stop: func() {},
		}, nil
	}}

	channelLibrary = channels("channel", false)
	// pinnedChannelLibrary is what a pool of bound workers is compared with: its goroutines are locked to threads that are bound
	// to a CPU each, and there is one P more than these, as with heist's.
	pinnedChannelLibrary = channels("channel-pinned", true)

	errgroupLibrary        = errgroups("errgroup", func(workers int) int { return workers })
	errgroupNoLimitLibrary = errgroups("errgroup-nolimit", func(int) int { return -1 })
)

// channels starts as many goroutines as there are workers, on a channel with room for 1024 tasks.
func channels(name string, pinned bool) Library {
	return Library{Name: name, Open: func(workers int) (Tasks, error) {
		tasks := make(chan func(), 1024)
		var all sync.WaitGroup
		stop := func() { close(tasks); all.Wait() }
		cpus, err := heist.Allowed()
		if err != nil {
			return Tasks{}, err
		}
		bound := make(chan error, workers)
		for i := range workers {
			all.Go(func() {
				if pinned {
					pin, err := heist.Pin(cpus[i%len(cpus)])
					if bound <- err; err != nil {
						return
					}
					defer pin.Unpin()
				}
				for task := range tasks {
					task()
				}
			})
		}
		if pinned {
			for range workers {
				err = cmp.Or(<-bound, err)
			}
			if err != nil {
				stop()
				return Tasks{}, missingPins(err)
			}
			before := runtime.GOMAXPROCS(workers + 1)
			stop = func() { close(tasks); all.Wait(); runtime.GOMAXPROCS(before) }
		}
		return Tasks{
			Submit: func(n int, task func()) error {
				for range n {
					tasks <- task
				}
				return nil
			},
			Stop: stop,
		}, nil
	}}
}

// missingPins says that what needs bound threads does not exist where threads cannot be bound.
func missingPins(err error) error {
	if errors.Is(err, heist.ErrPinning) {
		return runner.Missing{Reason: err.Error()}
	}
	return err
}

func errgroups(name string, limit func(workers int) int) Library {
	return Library{Name: name, PerBatch: true, Open: func(workers int) (Tasks, error) {
		group := new(errgroup.Group)
		group.SetLimit(limit(workers))
		return Tasks{
			Submit: func(n int, task func()) error {
				f := func() error { task(); return nil }
				for range n {
					group.Go(f)
				}
				return nil
			},
			Stop: func() { _ = group.Wait() }, // the tasks return no errors
		}, nil
	}}
}

// libraries are those of other projects that the program links.
type libraries []Library

// of returns the library with this name.
func (all libraries) of(name string) Library {
	for _, l := range all {
		if l.Name == name {
			return l
		}
	}
	return Library{Name: name, Open: func(int) (Tasks, error) {
		return Tasks{}, errors.New("is not linked by " + os.Args[0])
	}}
}

// opener returns the opener of the library.
func (l Library) opener(env runner.Env, task func(i int)) (func(i int) error, func(), error) {
	t, err := l.Open(env.Workers)
	return func(i int) error { return t.Submit(1, func() { task(i) }) }, t.Stop, err
}

// linking marks an implementation as one that needs another project's library.
func linking(name string, i runner.Impl) runner.Impl {
	i.Links = name
	return i
}

// Main is the life of a program that links these libraries: it runs an implementation, or a server. It does not return.
func Main(linked ...Library) {
	if !ServeIfAsked(linked...) {
		child.Main(All(linked...))
	}
	os.Exit(0)
}
