package pool

import (
	"cmp"
	"context"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"runtime/trace"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool/inspect"
)

// # Observation
//
// What can be seen of a pool without being asked for costs plain stores by those who would be seen: counters ([heist.Counter]), and pointers to what a
// worker runs (published). What costs more than that happens only where it was asked for: stamps of time with [WithTimings] and [WithSlowTask], errands for
// tasks whose submitter has labels, for those with a name, and while runtime/trace is on.

// errand is what goes with a task beside its function. Tasks that have nothing of it are the function alone.
type errand struct {
	labels labels // of the submitter
	name   string
	ctx    context.Context // of the trace task; nil if none was on
	end    func()          // ends that
}

// carry is for who submits f: it returns f with what goes with it. Of is the user's function, of which f may be made.
func carry(f func(*Worker), of *task, name string) func(*Worker) {
	if labels := submitterLabels(); labels != nil || name != "" || trace.IsEnabled() {
		return newErrand(f, of, labels, name)
	}
	return f
}

func newErrand(f func(*Worker), of *task, labels labels, name string) func(*Worker) {
	e := errand{labels: labels, name: name}
	if trace.IsEnabled() {
		ctx, task := trace.NewTask(context.Background(), cmp.Or(name, nameOf(of.code)))
		e.ctx, e.end = ctx, task.End
	}
	return func(w *Worker) { e.run(w, f) }
}

// run runs the task for which the errand is.
func (e *errand) run(w *Worker, f func(*Worker)) {
	if w == nil { // Abort has given it back, and another goroutine calls it
		f(w)
		return
	}
	if e.name != "" {
		w.title = e.name
		w.inside.set(&inside{name: e.name, outer: w.inside.own()})
		defer func() { w.inside.set(w.inside.own().outer) }()
	}
	defer w.wear(w.wear(e.labels))
	if e.ctx != nil {
		defer e.end()
		defer trace.StartRegion(e.ctx, "heist: task").End()
	}
	w.as(f)
}

// as runs f, which is the worker's task from the point of view of who submitted it.
func (w *Worker) as(f func(*Worker)) {
	if w != nil { // else Abort has given f back, and another goroutine calls it
		w.job.set(taskOf(f))
	}
	f(w)
}

// help is what a worker has besides, in the middle of which it runs a fork or child of another one.
type help struct {
	cancelScope *cancelScope
	labels      labels
	forWhom     *Worker
	latch       *latch
	region      *trace.Region
}

// helps begins with a fork or child of another worker, which belongs to a call, and whose end completes a latch.
func (w *Worker) helps(owner *Worker, l *latch, c *cancelScope) help {
	out := help{w.cancelScope, w.wear(owner.carries()), w.forWhom.own(), w.latch.own(), region("heist: fork")}
	w.cancelScope = c
	w.forWhom.set(owner)
	w.latch.set(l)
	return out
}

// helped ends it.
func (w *Worker) helped(out help) {
	endRegion(out.region)
	w.wear(out.labels)
	w.cancelScope = out.cancelScope
	w.forWhom.set(out.forWhom)
	w.latch.set(out.latch)
}

// Named gives a task a name, for dumps, slow tasks and traces. Without it a task goes by the name of its function. Cost: an allocation.
func Named(name string) TaskOption { return named(name) }

type named string

func (n named) set(o *taskOptions) { o.name = string(n) }

// nameOf returns the name of the function with this code.
func nameOf(code uintptr) string {
	if f := runtime.FuncForPC(code); f != nil {
		return f.Name()
	}
	return "a function"
}

// region begins a region of runtime/trace, if a trace is on. Its end must come in the same goroutine.
func region(name string) *trace.Region {
	if !trace.IsEnabled() {
		return nil
	}
	return trace.StartRegion(context.Background(), name)
}

// endRegion ends a region, if there is one.
func endRegion(r *trace.Region) {
	if r != nil {
		r.End()
	}
}

// WithTimings has the pool measure how long its tasks wait and run: see [Pool.Timings], and [inspect.Stats].Computing. Cost: two looks at the
// clock for each task, some 12 ns together, and an allocation for one task in 16, whose wait is measured. The time is real, in a bubble of testing/synctest
// too.
func WithTimings() Option {
	return func(c *config) error {
		c.timed = true
		c.ask("WithTimings", true)
		return nil
	}
}

// Timings returns how long tasks waited and ran. They are empty without [WithTimings].
func (p *Pool) Timings() inspect.Timings {
	if err := p.usable(); err != nil {
		panic(err)
	}
	_, t := p.workers.accounts()
	return inspect.Timings{Wait: p.histogram(&t.wait), Run: p.histogram(&t.run)}
}

// timings are what a worker has measured. It writes, anybody reads.
type timings struct {
	wait, run            histogram
	computing, searching heist.Counter // in heist.Ticks
}

func (t *timings) merge(other *timings) {
	t.wait.merge(&other.wait)
	t.run.merge(&other.run)
	t.computing.Add(int(other.computing.Load()))
	t.searching.Add(int(other.searching.Load()))
}

// histogram counts stretches of heist.Ticks: eight buckets for each power of two, from 8 on.
type histogram [buckets]heist.Counter

const (
	subBits = 3
	buckets = (64 - subBits) << subBits
)

// bucketOf returns the bucket of a stretch, which is its highest bit and the three below it.
func bucketOf(ticks int64) int {
	v := uint64(max(ticks, 0))
	shift := max(bits.Len64(v)-1-subBits, 0)
	return shift<<subBits + int(v>>shift)
}

// bucketEnd returns the longest stretch of a bucket.
func bucketEnd(bucket int) uint64 {
	shift := max(bucket>>subBits-1, 0)
	return uint64(bucket-shift<<subBits+1)<<shift - 1
}

func (h *histogram) add(ticks int64) { h[bucketOf(ticks)].Add(1) }

func (h *histogram) merge(other *histogram) {
	for i := range h {
		h[i].Add(int(other[i].Load()))
	}
}

// histogram makes of counts what people read.
func (p *Pool) histogram(counts *histogram) (h inspect.Histogram) {
	for i := range counts {
		n := counts[i].Load()
		if n == 0 {
			continue
		}
		end := p.duration(bucketEnd(i))
		h.Count += n
		h.Sum += end * time.Duration(n)
		h.Buckets = append(h.Buckets, inspect.Bucket{UpTo: end, Count: n})
	}
	return h
}

// duration returns how long a stretch of heist.Ticks is.
func (p *Pool) duration(ticks uint64) time.Duration {
	return time.Duration(float64(ticks) / p.ticksPerNanosecond)
}

// measuredWaits is in how many tasks there is one whose wait is measured: to measure it takes a closure.
const measuredWaits = 16

// stamped is for a task that is about to be queued in a pool with timings.
func (p *Pool) stamped(t *task) *task {
	if rand.Uint32()%measuredWaits != 0 {
		return t
	}
	queued := heist.Ticks()
	return taskOf(func(w *Worker) {
		if w != nil && w.pool == p { // else Abort has given it back, and another goroutine runs it
			w.timings.wait.add(heist.Ticks() - queued)
			w.job.set(t)
		}
		t.run(w)
	})
}

// begins is called at the beginning of a job if the pool is asked how long it takes.
func (w *Worker) begins() {
	w.title, w.waitedThen = "", w.waited
	w.since.Store(heist.Ticks())
}

// ends is for its end, and that of a goroutine whose job panicked or called runtime.Goexit.
func (w *Worker) ends() {
	since, last := w.since.Load(), w.job.own()
	took := max(heist.Ticks()-since, 0)
	w.since.Store(0)
	if m := w.timings; m != nil {
		if last != nil {
			m.run.add(took)
		}
		m.computing.Add(int(max(took-(w.waited-w.waitedThen), 0)))
	}
	if slow := w.pool.slowAfter; last != nil && slow > 0 && w.pool.duration(uint64(took)) > slow {
		w.wasSlow(since, took, cmp.Or(w.title, nameOf(last.code)))
	}
}
