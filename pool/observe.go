package pool

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/trace"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/published"
	"github.com/seed53057037/heist/pool/inspect"
)

// # Observation
//
// What a pool always shows costs its workers plain stores: counters ([heist.Counter]), and pointers to what a worker runs
// (published). Whatever costs more happens only on request: time stamps with [WithTimings] and [WithSlowTask], and metadata
// for tasks whose submitter has labels, for tasks with a name, and while runtime/trace is on.

// taskMeta is what a task takes along beside its function. A task without metadata is the function alone.
type taskMeta struct {
	labels labels // the submitter's
	name   string
	ctx    context.Context // of the trace task; nil if no trace was on
	end    func()          // ends the trace task
}

// carry returns f with its metadata, if it needs any. The submitter calls it. of is the user's function, of which f may
// be made.
func carry(f func(*Worker), of *task, name string) func(*Worker) {
	if labels := submitterLabels(); labels != nil || name != "" || trace.IsEnabled() {
		return withMeta(f, of, labels, name)
	}
	return f
}

func withMeta(f func(*Worker), of *task, labels labels, name string) func(*Worker) {
	e := taskMeta{labels: labels, name: name}
	if trace.IsEnabled() {
		ctx, task := trace.NewTask(context.Background(), cmp.Or(name, runtime.FuncForPC(of.code).Name()))
		e.ctx, e.end = ctx, task.End
	}
	return func(w *Worker) { e.run(w, f) }
}

// run runs f, the task that the metadata belongs to.
func (e *taskMeta) run(w *Worker, f func(*Worker)) {
	if w == nil { // Abort has given the task back, and another goroutine calls it
		f(w)
		return
	}
	if e.name != "" {
		w.enterName(e.name)
		defer w.leaveName()
	}
	defer w.setLabels(w.setLabels(e.labels))
	if e.ctx != nil {
		defer e.end()
		defer trace.StartRegion(e.ctx, "heist: task").End()
	}
	w.as(f)
}

// as runs f, the function that the submitter knows as the worker's task.
func (w *Worker) as(f func(*Worker)) {
	if w != nil { // else Abort has given f back, and another goroutine calls it
		w.begin(taskOf(f))
	}
	f(w)
}

// help is the state that a worker sets aside while it runs a fork or child of another worker.
type help struct {
	cancelScope *cancelScope
	labels      labels
	forWhom     *Worker
	latch       *latch
	region      *trace.Region
}

// helps begins a fork or child of owner, which belongs to the call c and whose end completes l. It sets out. (The copies of a result would wait for
// the stores of its fields.)
func (w *Worker) helps(out *help, owner *Worker, l *latch, c *cancelScope) {
	out.cancelScope, out.labels, out.forWhom = w.cancelScope, w.setLabels(owner.carries()), w.forWhom.Own()
	out.latch, out.region = w.latch.Own(), region("heist: fork")
	w.cancelScope = c
	w.forWhom.Set(owner)
	w.latch.Set(l)
}

// helped ends what helps began.
func (w *Worker) helped(out *help) {
	endRegion(out.region)
	w.setLabels(out.labels)
	w.cancelScope = out.cancelScope
	w.forWhom.Set(out.forWhom)
	w.latch.Set(out.latch)
}

// Named gives a task a name, for dumps, slow tasks and traces. A task without one has the name of its function. Cost: an
// allocation.
func Named(name string) TaskOption { return named(name) }

// Named calls f under a name, as if it were a task of this name: for a task that takes what it does from a queue of
// its own, and knows no name before. The worker's task, body or fork calls it. Cost: an allocation.
func (w *Worker) Named(name string, f func()) {
	w.mustBeMine("Worker.Named")
	if f == nil {
		panic(errNilFunc("Worker.Named"))
	}
	w.enterName(name)
	defer w.leaveName()
	defer endRegion(region(name))
	f()
}

func (w *Worker) enterName(name string) {
	if w.inside.Own().title() == "" { // a task keeps its name, whatever it calls by other names
		w.title = name
	}
	w.inside.Set(&inside{name: name, outer: w.inside.Own()})
}

func (w *Worker) leaveName() { w.inside.Set(w.inside.Own().outer) }

// ShowAs says that the caller's task does f, a function, for somebody who knows that one and not the task's own: a package calls
// it that wraps functions before it gives them to the pool, at the beginning of the task. From then on dumps, slow tasks and
// the table of functions that wait name f. Cost: some loads and stores.
func (w *Worker) ShowAs(f any) {
	if w.debug("Worker.ShowAs"); w == nil || w.pool == nil {
		w.mustBeMine("Worker.ShowAs")
	}
	if reflect.ValueOf(f).Kind() != reflect.Func {
		panic(fmt.Errorf("pool: Worker.ShowAs was given a %T; it must be a function", f))
	}
	t := (*[2]*task)(unsafe.Pointer(&f))[1] // an interface is a type and, of a function, its value
	if t == nil {
		panic(errNilFunc("Worker.ShowAs"))
	}
	if w.job.Own() != nil {
		w.isIn(t)
	}
}

// isIn notes that the worker's task does f, and so does the innermost future or group if it is of the same function.
func (w *Worker) isIn(f *task) {
	if in := w.inside.Own(); in != nil && in.f == w.job.Own() {
		shown := *in
		shown.f = f
		w.inside.Set(&shown)
	}
	w.begin(f)
}

type named string

func (n named) set(o *taskOptions) { o.name = string(n) }

// nameOf returns the name of the function with this code; empty if that is not known, or is one of heist's own, which does
// another one that the user has given.
func nameOf(code uintptr) string {
	f := runtime.FuncForPC(code)
	if f == nil {
		return ""
	}
	file, _ := f.FileLine(f.Entry())
	if isOurs(f.Name()) && !strings.HasSuffix(file, "_test.go") {
		return ""
	}
	return strings.TrimSuffix(f.Name(), "-fm") // which marks a method that is used as a function
}

// region begins a region of runtime/trace, if a trace is on. The same goroutine must end it.
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

// WithTimings makes the pool measure how long its tasks wait and run: see [Pool.Timings], and [inspect.Stats].Computing.
// Cost: two looks at the clock for each task, some 12 ns together, and an allocation for one task in 16, whose wait is
// measured. The time is real, in a bubble of testing/synctest too.
func WithTimings() Option {
	return func(c *config) error {
		c.timed = true
		c.ask("WithTimings", true)
		return nil
	}
}

// Timings returns how long tasks waited and ran. They are empty without [WithTimings].
func (p *Pool) Timings() inspect.Timings {
	p.mustBeMade()
	_, t := p.workers.accounts()
	return inspect.Timings{Wait: p.histogram(&t.wait), Run: p.histogram(&t.run)}
}

// meter is what a worker measures. Owner only.
type meter struct {
	jobs       published.Word // how many it has begun; of a guest its calls, too
	waited     int64          // how long it has waited in all, in heist.Ticks, if the pool measures
	waitedThen int64          // waited when its job began
	region     *trace.Region  // of the wait that it is in; nil if no trace is on
}

// display is what a worker shows of itself. Owner writes, observers read. It is on the owner's lines, because observers
// seldom read.
type display struct {
	job       published.Pointer[task]   // the task that the worker runs; nil if its job is no task
	code      published.Word            // of a guest's function; someCode if it is not known, 0 if the guest has left
	inside    published.Pointer[inside] // the innermost future or group whose function it is in
	forWhom   published.Pointer[Worker] // the worker whose fork or child it runs; nil for none
	latch     published.Pointer[latch]  // of that fork or child
	usesPlace published.Word            // 1 while a job does so and may allocate: no wait of that is noticed
	publishes heist.Counter             // how often it has published forks
	since     atomic.Int64              // when its job began, in heist.Ticks; 0 if it has none, or the pool does not measure
	slowSince atomic.Int64              // the last job that took too long, by its since; see slow.go
	number    atomic.Uint64             // of its goroutine, with WithSlowTask
	timings   *timings                  // nil without WithTimings; constant
}

// timings are what a worker has measured. Owner writes, observers read.
type timings struct {
	_ pad.Line

	wait, run            histogram
	computing, searching heist.Counter // in heist.Ticks
	left                 int64         // what the search that goes on has left to others, in heist.Ticks; owner only

	_ pad.Line
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

// histogram converts counts to the form that callers get.
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
	return time.Duration(float64(ticks) / p.ticks.perNanosecond)
}

// measuredWaits: the wait of one task in so many is measured, because to measure it takes a closure.
const measuredWaits = 16

// stamped returns t, or for one task in measuredWaits a closure that also measures how long t waits. t is about to be
// queued in a pool with timings.
func (p *Pool) stamped(t *task) *task {
	if rand.Uint32()%measuredWaits != 0 {
		return t
	}
	queued := heist.Ticks()
	return taskOf(func(w *Worker) {
		if w != nil && w.pool == p { // else Abort has given the task back, and another goroutine runs it
			w.timings.wait.add(heist.Ticks() - queued)
			w.begin(t)
		}
		t.run(w)
	})
}

// begins is called at the beginning of a job, in a pool that measures how long jobs take.
func (w *Worker) begins() {
	w.title, w.waitedThen = "", w.waited
	w.since.Store(heist.Ticks())
}

// ends is called at the end of the job, also if it panicked or called runtime.Goexit.
func (w *Worker) ends() {
	since, last := w.since.Load(), w.job.Own()
	took := max(heist.Ticks()-since, 0)
	w.since.Store(0)
	if m := w.timings; m != nil {
		if last != nil {
			m.run.add(took)
		}
		m.computing.Add(int(max(took-(w.waited-w.waitedThen), 0)))
	}
	if slow := w.pool.slowAfter; last != nil && slow > 0 && w.pool.duration(uint64(took)) > slow {
		w.wasSlow(since, took, last)
	}
}
