package pool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/census"
	"github.com/seed53057037/heist/pool/inspect"
)

// # Snapshots
//
// A snapshot reads what workers publish while they work, so its parts are of slightly different moments. A circle of
// waits is right all the same. What a worker publishes does not change while it waits, and a circle of waits does not
// come apart by itself. A worker that goes on between two looks is in no circle, because the second look does not find
// the same wait. The snapshot looks at the workers of the process's other pools as well, since a wait may be for
// something that they run.

// Dump writes what goes on in the pool: which workers compute or wait, for whom, since when, what lies in the queues, and
// the circles of tasks that wait for one another. It is for people; programs use [Pool.Snapshot].
//
// Any goroutine may call it, while the pool hangs, too. To say at which line tasks wait, and in which function forks compute, it
// stops all goroutines for as long as it takes to write down their stacks, some 10 microseconds for each.
func (p *Pool) Dump(to io.Writer) error {
	if err := p.usable(); err != nil {
		return err
	}
	if to == nil {
		return errors.New("pool: Pool.Dump was given a nil io.Writer")
	}
	_, err := io.WriteString(to, p.snapshot(true).String())
	return err
}

// Snapshot returns what goes on in the pool. Cost: some microseconds for a few workers, and no worker is held up. To find out
// where tasks wait in the source it reads the stacks of all goroutines, which stop meanwhile, but only if one of the tasks has
// waited for 100 milliseconds, and only once for a wait. If the pool was not told of a wait, and has not noticed it either, because
// nothing is queued, these begin with the first snapshot that sees it, and a task that has waited twice for the same shows
// the line of the first wait.
func (p *Pool) Snapshot() inspect.Snapshot {
	p.mustBeMade()
	return p.snapshot(false)
}

// snapshot is Snapshot. It says of all waits where they are if all is set, which stops all goroutines for each call.
func (p *Pool) snapshot(all bool) inspect.Snapshot {
	s := inspect.Snapshot{Pool: p.String(), At: time.Now(), Load: p.Load(), Slow: p.slow.list()}
	seen := p.lookAround()
	own := len(seen)
	for _, other := range census.Pools[*Pool]() { // a wait may be for something of another pool
		if other.Pool != p {
			seen = append(seen, other.Pool.lookAround()...)
		}
	}
	for i := range seen[:own] {
		if v := &seen[i]; v.waits == nil {
			v.unnoticed = v.w.seesWait()
		}
	}
	locate(seen[:own], all)
	for i := range seen[:own] {
		if v := &seen[i]; v.busy() {
			s.Workers = append(s.Workers, v.worker(seen))
		} else if !v.w.core.Guest {
			s.Idle++
		}
	}
	s.Waiters = p.habits.list(p)
	s.Circles = p.circles(seen)
	s.Dependents = p.dependents()
	for i := range p.nodes {
		for priority, q := range p.nodes[i].queues {
			if n := q.Len(); n > 0 {
				name := [...]string{PriorityNormal: "normal", PriorityHigh: "high", PriorityLow: "low"}[priority]
				s.Queues = append(s.Queues, inspect.Queue{Name: fmt.Sprintf("injector of node %d, %s", p.nodes[i].id, name), Length: n})
			}
		}
	}
	for i, pl := range p.victims() {
		if n := pl.queued(); n > 0 {
			s.Queues = append(s.Queues, inspect.Queue{Name: fmt.Sprintf("place %d", i), Length: n})
		}
	}
	return s
}

// longWait is how long a worker has to wait until a snapshot looks where it does: long enough for the stop of all goroutines,
// which takes some 10 microseconds for each, not to matter.
const longWait = 100 * time.Millisecond

// locate finds out where workers are in the source: those that have waited for long since they said so, or it was seen; or, for a
// dump, all that wait or compute in a function that is not known.
func locate(seen []sight, dump bool) {
	var stacks map[uint64]string
	for i := range seen {
		v := &seen[i]
		waits := cmp.Or(v.waits, v.unnoticed)
		if !dump && (waits == nil || v.w.pool.duration(uint64(max(v.now-waits.since, 0))) < longWait) {
			continue
		}
		known := waits != nil && waits.spot.Load() != nil && (v.waits != nil || !dump)
		number := goroutineStatuses().number(v.w.record.Load())
		if known || number == 0 || waits == nil && (!v.busy() || v.function() != "") {
			continue
		}
		if stacks == nil {
			stacks = goroutineStacks()
		}
		found := spotIn(stacks[number])
		switch {
		case v.w.jobs.Load() != v.number || v.waits != v.w.waitsNow(): // it is the stack of something else
		case waits == nil:
			v.spot = found
		case v.waits != nil || v.w.seesWait() == waits:
			waits.spot.Store(&found)
		}
	}
	for i := range seen {
		v := &seen[i]
		if waits := cmp.Or(v.waits, v.unnoticed); waits != nil && waits.spot.Load() != nil {
			v.spot = *waits.spot.Load()
		}
	}
}

// seesWait is called by a snapshot. It returns the wait in which the worker is, if heist does not know of it: the same as the last time
// if the worker is in the same job and waits in the same. It returns nil if there is none.
func (w *Worker) seesWait() *waitsFor {
	old, what, job := w.seen.Load(), "", w.jobs.Load()
	if w.waitsNow() == nil && w.inJob() {
		what = goroutineStatuses().does(w.record.Load())
	}
	switch {
	case what == "":
		if old != nil {
			w.seen.Store(nil)
		}
		return nil
	case old == nil || old.what != what || old.job != job:
		old = &waitsFor{what: what, job: job, since: heist.Ticks()}
		w.seen.Store(old)
	}
	return old
}

// sight is what was seen of a worker.
type sight struct {
	w       *Worker
	waits   *waitsFor
	inside  *inside
	job     *task
	code    uintptr
	forWhom *Worker
	latch   *latch
	since   int64
	place   *place // the place that it has, or has lent; nil for none
	standIn bool   // another worker has lent the place, and waits
	now     int64

	number    uintptr   // of its job
	unnoticed *waitsFor // the wait that nobody has noticed; nil for none
	spot      spot      // where it is in the source, if that was looked for
}

// lookAround looks at all workers.
func (p *Pool) lookAround() (seen []sight) {
	now := heist.Ticks()
	p.workers.each(func(w *Worker) {
		seen = append(seen, sight{
			w: w, waits: w.waitsNow(), inside: w.inside.Load(), job: w.job.Load(), code: w.code.Load(),
			forWhom: w.forWhom.Load(), latch: w.latch.Load(), since: w.since.Load(), now: now, number: w.jobs.Load(),
		})
	})
	holders := make(map[*Worker]*place)
	lent := make(map[*place]bool)
	for _, pl := range p.victims() {
		pl.core.Mu.Lock()
		for w := pl.core.First(); w != nil; w = w.Next() {
			holders[workerOf(w)] = pl
		}
		pl.core.Mu.Unlock()
	}
	for i := range seen {
		v := &seen[i]
		v.place = holders[v.w]
		if v.waits != nil {
			v.place = v.waits.home
			lent[v.place] = true
		}
	}
	for i := range seen {
		v := &seen[i]
		v.standIn = v.waits == nil && v.place != nil && !v.w.core.Guest && lent[v.place]
	}
	return seen
}

// busy says whether the worker computes, waits or searches.
func (v *sight) busy() bool {
	if v.w.core.Guest {
		return v.code != 0
	}
	return v.waits != nil || v.job != nil || v.forWhom != nil || v.place != nil && !v.w.pool.core.Sleep.Parked(v.place.index)
}

// worker returns the sight in the form that callers get.
func (v *sight) worker(seen []sight) inspect.Worker {
	p := v.w.pool
	s := inspect.Worker{ID: v.w.id, Role: "worker", Place: -1, Node: p.nodes[v.w.core.SeenOn()].id, State: inspect.Runs, Does: v.does()}
	switch {
	case v.w.core.Guest:
		s.Role = "guest"
	case v.standIn:
		s.Role = "stand-in"
	}
	if v.place != nil {
		s.Place = v.place.index
	}
	if v.forWhom != nil {
		s.ForWhom = doesOf(v.forWhom, seen) + " on " + p.where(v.forWhom)
	}
	since := v.since
	switch {
	case v.waits != nil:
		s.State, s.Waits, since = inspect.Waits, v.waits.what, v.waits.since
		if s.Noticed = s.Waits == ""; s.Noticed {
			s.Waits = cmp.Or(goroutineStatuses().does(v.w.record.Load()), "something that is over by now")
		}
		s.Source, s.WaitsOn = v.spot.line, v.waitsOn(seen)
	case v.unnoticed != nil:
		s.State, s.Waits, s.Source = inspect.Waits, v.unnoticed.what, cmp.Or(v.spot.line, sourceOf(v.runs()))
	case !v.w.core.Guest && v.job == nil && v.forWhom == nil:
		s.State = inspect.Searches
	default:
		s.Source = cmp.Or(sourceOf(v.runs()), v.spot.line)
	}
	if since != 0 && s.State != inspect.Searches {
		s.For, s.Known = p.duration(uint64(max(v.now-since, 0))), true
	}
	return s
}

// does returns the name of what the worker runs; empty for a fork or child that is not known.
func (v *sight) does() string {
	does := v.function()
	switch {
	case does != "":
	case v.job != nil:
		return "a function"
	case v.w.core.Guest:
		return "a guest"
	}
	return does
}

// function returns the name of the task or function that the worker runs; empty if it is not known.
func (v *sight) function() string {
	return cmp.Or(v.inside.title(), nameOf(v.runs()), v.spot.function)
}

// runs returns the code of the worker's task, or of a guest's call.
func (v *sight) runs() uintptr {
	if v.job != nil {
		return v.job.code
	}
	return v.code
}

func doesOf(w *Worker, seen []sight) string {
	for i := range seen {
		if seen[i].w == w {
			return seen[i].does()
		}
	}
	return "a function"
}

// title returns the name of the innermost task that was given one.
func (in *inside) title() string {
	for ; in != nil; in = in.outer {
		if in.name != "" {
			return in.name
		}
	}
	return ""
}

// ends says whether the worker runs something whose end ends a wait for of, a latch, future or group, and what.
func (v *sight) ends(of any) (what string, ok bool) {
	if l, isLatch := of.(*latch); isLatch {
		if v.latch == l {
			return strings.TrimPrefix(v.does()+" (a fork or child)", " "), true
		}
		return "", false
	}
	for in := v.inside; in != nil; in = in.outer {
		if in.of == of && of != nil {
			return cmp.Or(in.title(), nameOf(in.f.code), "a function"), true
		}
	}
	return "", false
}

// waitsOn says what must end before the wait does, and where that runs.
func (v *sight) waitsOn(seen []sight) string {
	var all []string
	for i := range seen {
		if what, ok := seen[i].ends(v.waits.of); ok {
			all = append(all, what+" on "+v.w.pool.where(seen[i].w))
		}
	}
	if of, ok := v.waits.of.(interface{ isQueued() bool }); ok && len(all) == 0 && of.isQueued() {
		return "something that nobody has begun"
	}
	return strings.Join(all, " and ")
}

// where names a worker for readers of the pool's dump.
func (p *Pool) where(w *Worker) string {
	where := fmt.Sprintf("worker %d", w.id)
	if w.core.Guest {
		where = fmt.Sprintf("guest %d", w.id)
	}
	if w.pool != p {
		where += fmt.Sprintf(" of another pool (%s)", w.pool.title())
	}
	return where
}

// isQueued says whether the function has not begun.
func (t *Future[T]) isQueued() bool { return !t.begun.Load() }

// isQueued says whether there are functions that have not begun.
func (g *Group) isQueued() bool { return g.Queued() > 0 }

// circles returns the circles of workers that wait for one another, each once, if a worker of the pool is in it.
func (p *Pool) circles(seen []sight) (found []string) {
	const unseen, open, over = 0, 1, 2
	state := make([]int, len(seen))
	var path []int
	var visit func(i int)
	visit = func(i int) {
		v := &seen[i]
		if v.waits == nil || v.w.waitsNow() != v.waits { // the worker goes on
			state[i] = over
			return
		}
		state[i] = open
		path = append(path, i)
		for j := range seen {
			if _, ok := seen[j].ends(v.waits.of); !ok || state[j] == over {
				continue
			}
			if state[j] == open {
				if path := path[slices.Index(path, j):]; slices.ContainsFunc(path, func(i int) bool { return seen[i].w.pool == p }) {
					found = append(found, p.circle(seen, path))
				}
				continue
			}
			visit(j)
		}
		path = path[:len(path)-1]
		state[i] = over
	}
	for i := range seen {
		if state[i] == unseen {
			visit(i)
		}
	}
	return found
}

// circle puts a circle into words.
func (p *Pool) circle(seen []sight, path []int) string {
	var b strings.Builder
	for k, i := range path {
		v, next := &seen[i], &seen[path[(k+1)%len(path)]]
		what, _ := next.ends(v.waits.of)
		if k > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s on %s waits in %s for %s on %s", v.name(), p.where(v.w), v.waits.what, what, p.where(next.w))
		if v.spot.line != "" {
			b.WriteString(", " + v.spot.line)
		}
	}
	return b.String()
}

func (v *sight) name() string {
	if s := v.does(); s != "" {
		return s
	}
	return "a fork or child"
}
