package pool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// # The network beside a busy pool
//
// A P polls the network when it has found no goroutine to run. Otherwise only Go's monitor polls, every 10 ms. On
// the P of a worker that always has something to do there is always a goroutine to run: Gosched puts the worker
// into a queue that comes before the poll.
//
// So every networkPeriod one worker of a busy pool does this:
//
//  1. It asks whether Go's poller has an event for a goroutine. The poller is an epoll descriptor, which can itself be
//     polled, and that takes no event out.
//  2. If there is an event, the worker writes a byte into a pipe whose other end the poller watches as well, and parks.
//  3. Its P finds nothing to run, polls, and gets the pipe's goroutine together with those that wait for the network.
//  4. The pipe's goroutine lets the others run first, and then wakes the worker.
//
// If all Ps have other goroutines to run, the monitor polls as before, and the worker waits for that. Without
// /proc, where the descriptor is found, the worker leaves out step 1.
//
// While a goroutine waits in the poller, one of the process's threads sleeps there, and each new timer wakes it, which
// takes 10 microseconds or more. So the pipe's goroutine does not wait there before the first event: in a process
// without a network there is none.

// network is a pool's way to Go's poller.
type network struct {
	in, out *os.File      // the pipe's ends
	back    chan struct{} // wakes a worker
	first   chan struct{} // closed at the first event, or by stop
	close   func()        // closes first
	poller  atomic.Int32  // the poller's descriptor; 0 if it is not known yet, -1 if it cannot be; the pipe's goroutine writes
}

// newNetwork starts the pipe's goroutine, which calls ended at its end.
func newNetwork(ended func()) (*network, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	n := &network{in: in, out: out, back: make(chan struct{}), first: make(chan struct{})}
	n.close = sync.OnceFunc(func() { close(n.first) })
	go func() {
		defer ended()
		n.serve()
	}()
	return n, nil
}

// serve is the pipe's goroutine. It ends when the pipe is closed.
func (n *network) serve() {
	defer n.in.Close()
	pprof.SetGoroutineLabels(context.Background()) // not those of the task that needed the network first
	n.poller.Store(n.findPoller())
	<-n.first
	var buffer [16]byte
	for {
		k, err := n.in.Read(buffer[:])
		if err != nil {
			return
		}
		runtime.Gosched() // the goroutines that came with this one run first
		for range k {
			n.back <- struct{}{}
		}
	}
}

// findPoller returns the epoll descriptor that watches the pipe, or -1.
func (n *network) findPoller() int32 {
	pipe := -1
	if raw, err := n.in.SyscallConn(); err != nil || raw.Control(func(fd uintptr) { pipe = int(fd) }) != nil {
		return -1
	}
	const self = "/proc/self/"
	links, err := os.ReadDir(self + "fd")
	if err != nil {
		return -1
	}
	for _, link := range links {
		if to, err := os.Readlink(filepath.Join(self, "fd", link.Name())); err != nil || to != "anon_inode:[eventpoll]" {
			continue
		}
		about, err := os.ReadFile(filepath.Join(self, "fdinfo", link.Name()))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(about)) {
			var watched int
			if _, err := fmt.Sscanf(line, "tfd: %d", &watched); err == nil && watched == pipe {
				var fd int32
				if _, err := fmt.Sscan(link.Name(), &fd); err == nil {
					return fd
				}
			}
		}
	}
	return -1
}

// ready says whether the poller has an event for a goroutine, or cannot be asked.
func (n *network) ready() bool {
	fd := n.poller.Load()
	if fd <= 0 {
		return fd < 0
	}
	fds := [1]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
	k, err := unix.Poll(fds[:], 0)
	return k != 0 || err != nil
}

var aByte = []byte{0} // so that no write allocates one

// poll lets the P of the calling goroutine poll the network, and says whether it did.
func (n *network) poll() bool {
	if !n.ready() {
		return false
	}
	n.close()
	if _, err := n.out.Write(aByte); err != nil {
		return false
	}
	<-n.back
	return true
}

// stop ends the pipe's goroutine.
func (n *network) stop() {
	n.close()
	n.out.Close()
}
