package pool

import (
	"cmp"
	"fmt"
	"log"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed53057037/heist/pool/inspect"
)

// # Slow tasks
//
// A goroutine of the pool, the **sentinel**, looks at all workers four times in the time that a task may take. Each worker
// publishes when its job began. This moment, in heist.Ticks, identifies the job, since no other job of the worker has
// the same.
//
//  1. The sentinel finds that a job takes too long while it runs, or the worker finds it when the job ends.
//  2. Either writes the moment into slowSince. The first to do so reports the job.
//  3. The worker leaves its report to the sentinel, so that the user's function runs in one goroutine and holds up no
//     worker.

// WithSlowTask makes the pool call f once for each task that takes longer than d, waits included. The report has the
// task's stack if the task still runs when the pool notices, which is within a quarter of d, or a millisecond if that is
// longer. With a nil f the reports go to the standard logger. The last ones are also in [Pool.Snapshot].
//
// A goroutine of the pool calls f with one report after the other. Close waits for that goroutine, so f must not call
// Close; it may call Dump and the like. A panic in f ends the process. In a bubble of testing/synctest [New] refuses the
// option. Cost: two looks at the clock for each task, some 6 ns, a goroutine, and for each report of a task that still
// runs a stop of all goroutines, for as long as it takes to write down their stacks.
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

// slowTasks are the tasks of a pool that took too long.
type slowTasks struct {
	mu    sync.Mutex
	ended []inspect.Slow // found by workers and not reported yet
	last  []inspect.Slow // the latest reports, the oldest first

	stop chan struct{} // closed at the pool's end
	over chan struct{} // closed when the sentinel has ended
}

// keptSlow is how many slow tasks a pool remembers.
const keptSlow = 16

// list returns the slow tasks that the pool remembers.
func (s *slowTasks) list() []inspect.Slow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.last)
}

// wasSlow leaves a report of the worker's task t, which took too long and has ended, unless the sentinel has reported it.
func (w *Worker) wasSlow(since, took int64, t *task) {
	if w.slowSince.Swap(since) == since {
		return
	}
	p := w.pool
	p.slow.mu.Lock()
	defer p.slow.mu.Unlock()
	p.slow.ended = append(p.slow.ended, inspect.Slow{Pool: p.title(), Worker: w.id, Task: cmp.Or(w.title, nameOf(t.code), "a function"), Source: sourceOf(t.code),
		Took: p.duration(uint64(took)), Ended: true, At: time.Now()})
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
		if v.w.since.Load() == v.since && v.w.slowSince.Swap(v.since) != v.since { // else the job has ended, and the worker reports it
			p.report(inspect.Slow{Pool: p.title(), Worker: v.w.id, Task: v.does(), Source: sourceOf(v.job.code), Took: took, At: time.Now(), Stack: stack})
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

// mostStacks bounds how many bytes of all stacks are written down.
const mostStacks = 16 << 20

// goroutineStack returns the stack of the goroutine with a number, or nothing if it is not within mostStacks.
func goroutineStack(number uint64) string { return goroutineStacks()[number] }

// goroutineStacks returns the stacks of all goroutines by their numbers. All stop meanwhile.
func goroutineStacks() map[uint64]string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < mostStacks {
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, true)
	}
	stacks := make(map[uint64]string)
	for stack := range strings.SplitSeq(string(buf[:n]), "\n\n") {
		var number uint64
		if _, err := fmt.Sscanf(stack, "goroutine %d ", &number); err == nil {
			stacks[number] = strings.TrimSuffix(stack, "\n") + "\n"
		}
	}
	return stacks
}

// notTheUsers are the prefixes of functions of Go's through which functions of the user wait.
var notTheUsers = regexp.MustCompile(`^(runtime|sync|time|io|os|net|bufio|context|syscall|internal|crypto|database)[./]`)

// isOurs says whether a function with this name is heist's own, or one of heist's tests.
func isOurs(name string) bool {
	rest, ok := strings.CutPrefix(name, "github.com/seed53057037/heist")
	if ok && strings.HasPrefix(rest, "/") {
		rest = rest[1:]
		end := max(strings.IndexAny(rest, "./"), 0)
		return slices.Contains([]string{"pool", "par", "errgroup", "jetstream", "internal"}, rest[:end])
	}
	return ok && strings.HasPrefix(rest, ".")
}

// spot is where a goroutine is in the user's source.
type spot struct {
	function string // that heist called; empty if it has called none
	line     string // the innermost one, as file:line; empty if there is none
}

// spotIn returns the spot that a stack shows.
func spotIn(stack string) (s spot) {
	lines := strings.Split(stack, "\n")
	for i, call := range lines[:len(lines)-1] {
		place, isCall := strings.CutPrefix(lines[i+1], "\t")
		if !isCall || strings.HasPrefix(call, "created by ") {
			continue
		}
		place, _, _ = strings.Cut(place, " ")
		ours := isOurs(call) && !strings.Contains(place, "_test.go:")
		switch {
		case ours && s.line != "":
			return s
		case !ours && !notTheUsers.MatchString(call):
			s.line = cmp.Or(s.line, path.Base(place))
			s.function = call[:max(strings.LastIndexByte(call, '('), 0)]
		}
	}
	return spot{line: s.line}
}

// sourceOf returns where the function with this code begins, as file:line; empty if that is not known, or it is not the user's.
func sourceOf(code uintptr) string {
	if nameOf(code) == "" {
		return ""
	}
	f := runtime.FuncForPC(code)
	file, line := f.FileLine(f.Entry())
	if file == "<autogenerated>" {
		return ""
	}
	return fmt.Sprintf("%s:%d", path.Base(file), line)
}
