package pool

import (
	"bytes"
	"fmt"
	"log"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed53057037/heist/pool/inspect"
)

// # Slow tasks
//
// A goroutine of the pool, the sentinel, looks at all workers four times in the time that a task may take. Each worker says since when its job
// runs: the moment, in heist.Ticks, names that job, for no other one of the worker has the same. Who finds that it takes too long, the sentinel
// while it runs or the worker when it ends, writes the moment into slowSince. The first of them reports it: a worker leaves that to the sentinel, so that
// the user's function runs in one goroutine, and holds up no worker.

// WithSlowTask has f told of each task that takes longer than d, waits included, once: with its stack, if it still runs when that is noticed, which is within a
// quarter of d. With a nil f the standard logger is told. The last ones are also in [Pool.Snapshot].
//
// A goroutine of the pool calls f, with one after the other. Close waits for it, so it must not; it may call Dump and the like. A panic in f ends the process. Cost: two looks at the clock for each task, some 6 ns, a
// goroutine, and for each report of a task that still runs a stop of all goroutines, for as long as it takes to write down their stacks.
func WithSlowTask(d time.Duration, f func(s inspect.Slow)) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("pool: WithSlowTask(%v): the time must be above 0", d)
		}
		if f == nil {
			f = func(s inspect.Slow) { log.Printf("%v\n%s", s, s.Stack) }
		}
		c.slowAfter, c.onSlow = d, f
		c.ask("WithSlowTask", d)
		return nil
	}
}

// slowTasks are those of a pool that took too long.
type slowTasks struct {
	mu    sync.Mutex
	ended []inspect.Slow // that nobody was told of
	last  []inspect.Slow // the latest reports, the oldest first

	stop chan struct{} // closed at the pool's end
	over chan struct{} // closed when the sentinel has ended
}

// keptSlow is how many slow tasks a pool remembers.
const keptSlow = 16

// list returns those that the pool remembers.
func (s *slowTasks) list() []inspect.Slow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.last)
}

// wasSlow is for a worker whose task took so long.
func (w *Worker) wasSlow(since, took int64, name string) {
	if w.slowSince.Swap(since) == since {
		return
	}
	p := w.pool
	p.slow.mu.Lock()
	defer p.slow.mu.Unlock()
	p.slow.ended = append(p.slow.ended, inspect.Slow{Pool: p.title(), Worker: w.id, Task: name, Took: p.duration(uint64(took)), Ended: true, At: time.Now()})
}

// watchTasks is the sentinel.
func (p *Pool) watchTasks() {
	defer close(p.slow.over)
	ticker := time.NewTicker(max(p.slowAfter/4, time.Millisecond))
	defer ticker.Stop()
	for {
		stopped := false
		select {
		case <-ticker.C:
			p.findSlow()
		case <-p.slow.stop:
			stopped = true
		}
		p.slow.mu.Lock()
		ended := p.slow.ended
		p.slow.ended = nil
		p.slow.mu.Unlock()
		for _, s := range ended {
			p.report(s)
		}
		if stopped {
			return
		}
	}
}

// findSlow reports the tasks that run and have taken too long.
func (p *Pool) findSlow() {
	for _, v := range p.lookAround() {
		took := p.duration(uint64(max(v.now-v.since, 0)))
		if v.since == 0 || v.job == nil || took <= p.slowAfter || v.w.slowSince.Load() == v.since {
			continue
		}
		stack := goroutineStack(v.w.number.Load())
		if v.w.since.Load() == v.since && v.w.slowSince.Swap(v.since) != v.since { // else it has ended, and the worker says so
			p.report(inspect.Slow{Pool: p.title(), Worker: v.w.id, Task: v.does(), Took: took, At: time.Now(), Stack: stack})
		}
	}
}

func (p *Pool) report(s inspect.Slow) {
	p.slow.mu.Lock()
	p.slow.last = append(p.slow.last, s)
	p.slow.last = slices.Delete(p.slow.last, 0, max(0, len(p.slow.last)-keptSlow))
	p.slow.mu.Unlock()
	p.onSlow(s)
}

// mostStacks bounds how much is written down of all stacks.
const mostStacks = 16 << 20

// goroutineStack returns the stack of the goroutine with a number, and nothing if it is not among the first ones.
func goroutineStack(number uint64) string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < mostStacks {
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, true)
	}
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, fmt.Appendf(nil, "goroutine %d ", number)) {
			return string(stack) + "\n"
		}
	}
	return ""
}
