package pool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// # The network beside a busy pool
//
// A P polls the network when it has found no goroutine to run, and else only Go's monitor does, every
// 10 ms. On the P of a worker that always has something to do there is always one: Gosched puts the
// worker into a queue that comes before the poll.
//
// So every networkPeriod one worker of a busy pool asks whether Go's poller has something for
// a goroutine. The poller is an epoll descriptor, and that can be polled itself, which takes nothing out.
// If it has something, the worker writes a byte into a pipe whose other end the poller watches as
// well, and parks. Its P finds nothing to run, polls, and gets the pipe's goroutine together with
// those that wait for the network. The goroutine lets them run first and then wakes the worker.
// If all Ps have other goroutines to run, the monitor polls as before, and the worker waits for that.
//
// Without /proc, where the descriptor is found, the worker does so without asking.

// network is a pool's way to Go's poller.
type network struct {
	in, out *os.File      // the pipe's ends
	back    chan struct{} // wakes a worker
	poller  atomic.Int32  // the poller's descriptor; 0 if it is not known yet, -1 if it cannot be; the goroutine writes
}

// newNetwork starts the goroutine, for which ended is called at its end.
func newNetwork(ended func()) (*network, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	n := &network{in: in, out: out, back: make(chan struct{})}
	go func() {
		defer ended()
		n.serve()
	}()
	return n, nil
}

// serve is the goroutine. It ends when the pipe is closed.
func (n *network) serve() {
	defer n.in.Close()
	pprof.SetGoroutineLabels(context.Background()) // not those of the task in which it was needed
	n.poller.Store(n.findPoller())
	var buffer [16]byte
	for {
		k, err := n.in.Read(buffer[:])
		if err != nil {
			return
		}
		runtime.Gosched() // those that came with this one run first
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

// ready says whether the poller has an event for a goroutine, or this is not known.
func (n *network) ready() bool {
	fd := n.poller.Load()
	if fd <= 0 {
		return fd < 0
	}
	fds := [1]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
	k, err := unix.Poll(fds[:], 0)
	return k != 0 || err != nil
}

var aByte = []byte{0} // lest each write allocate one

// poll lets the P of the calling goroutine poll the network, and says whether it did.
func (n *network) poll() bool {
	if !n.ready() {
		return false
	}
	if _, err := n.out.Write(aByte); err != nil {
		return false
	}
	<-n.back
	return true
}

// stop ends the goroutine.
func (n *network) stop() { n.out.Close() }
