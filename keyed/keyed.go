// Package keyed runs functions that have keys on a pool: those of one key one after the other, or some at a time, in the order in which
// they were submitted, and those of different keys in parallel. No worker is held while a function waits for its key. Asio calls
// that a strand. Among keys, workers are shared fairly, so that a noisy tenant does not keep the others from running.
//
// Close of the pool runs all functions that a queue has accepted. Abort drops those that have not begun: they are not among what it
// returns, where there are only a few tasks by which the queue chooses functions; each of these that is called begins
// one at most. [Queue.Wait] says how many were dropped.
//
// Short functions that follow one another are one task of the pool for up to 16 microseconds, and count as one in its statistics.
//
// Functions of one key need no lock for what belongs to the key. Use a lock instead where functions hold it for a short part of
// their time only; and a [pool.Group] with AtMost for a bound that is not by key.
package keyed

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/pool"
)

// # How functions get to workers
//
// Functions wait in the queue, a **line** for each key, and not in the pool. What the pool has are **pulls**: tasks that are all
// the same, and that choose a function only when a worker begins them. So which function is next is decided at the last moment, and the pool's
// own rules hold for the rest: who waits lends its place, and the next pull begins there.
//
// A function is **startable** if AtMost lets it begin beside those of its key that run, and no other of the key is to begin before. The
// law: while functions are startable the pool has as many pulls, but no more than workers. Who makes a function startable, or takes one,
// looks under mu whether one is missing, and queues it. So a function waits for others of its key, and for nothing else that could wait for
// it; and the pool's other tasks wait behind a few pulls, however many functions the queue has.
//
// # Close
//
// A pool that closes refuses pulls from outside, but none from its tasks, and it waits for the pulls that it has. So:
//
//  1. A pull of a task counts before it is queued: the pool takes it, unless it was aborted. A pull from outside counts after the pool has accepted
//     it. Until then others do not rely on it, and may queue one too many, which does nothing.
//  2. Who adds a function adds it to its line first. If a pull is missing, or the pool closes, it then **asks** the pool for one. If the pool refuses
//     and the function has not begun, the adder takes it back: it was not accepted.
//  3. Who does not ask has seen under mu that enough pulls are in the pool, or that functions of the key run. A pull that begins, and
//     a function that ends, looks again, inside a task of the pool.
//
// By 3 an accepted function has a pull or a running task that leads to it, and Close waits for these. A pull that begins before it
// was counted makes pulls negative for a moment.
//
// # Fair shares
//
// The next function is of the key that has had the least time for its weight, waits included, among equals of the one that has waited longest.
// A function that begins counts with the mean of those before it, and when it ends with the time that it took: stride scheduling (Waldspurger and
// Weihl 1995) by time. A deficit round robin would have to visit a key in debt again and again until its next turn.
//
// A key that comes, or comes back, begins with the time that a key would have now that had waited ever since: it has saved up nothing, and owes
// nothing. This **virtual time** goes on with each function by its share for a weight of 1 (weighted fair queueing: Demers, Keshav and Shenker
// 1989). If it stood still, new keys without end would always come before one that has waited.
//
// # Room
//
// Who waits for room in a line stands in a list, in the order of their calls. A place that becomes free is **granted** to the first of the
// list: it counts as taken until that one has added its function, or has given the place back because its context or the pool has ended. So
// nobody overtakes, and each place wakes one goroutine.
//
// # Memory
//
// A line exists while functions of its key wait or run, or somebody waits for room in it. A map of Go does not shrink, so the queue makes a new one when few are left.

// Queue runs functions by key. Create it with [New]. The settings AtMost, Bound and Weigh come before the first function.
type Queue[K comparable] struct {
	pool *pool.Pool
	pull func(w *pool.Worker) // next; constant, so that to queue it allocates nothing

	most   int // functions of a key that run at a time; constant while there are functions, like bound and weight
	bound  int // functions of a key that wait; 0 for any number
	weight func(K) float64

	mu        sync.Mutex
	lines     map[K]*line[K]
	peak      int           // how many lines the map has had
	ready     readyLines[K] // those with startable functions
	startable int           // functions
	pulls     int           // that the pool has accepted and that have not begun
	asking    int           // goroutines that ask the pool for a pull
	waiting   int           // functions
	running   int           // functions
	now       float64       // the virtual time
	weights   float64       // of all lines
	mean      float64       // of the time that functions take
	accepted  uint64        // functions, ever
	chosen    uint64        // how often a line became ready or was chosen
	dropped   int           // functions, because the pool takes no more pulls
	idle      chan struct{} // closed when no function waits or runs, and nobody asks; nil if nobody waits for that
}

// line has the functions of a key.
type line[K comparable] struct {
	key       K
	weight    float64
	waiting   []entry
	running   int
	startable int
	used      float64    // time for its weight, with the mean for each function that runs
	mean      float64    // of the time that functions take
	begun     uint64     // the number of the last function that has begun
	since     uint64     // Queue.chosen when it became ready or was chosen
	at        int        // its index in ready; -1 for none
	submits   *list.List // of chan struct{}: who waits for room; closed when a place is granted; nil if nobody ever did
	granted   int        // places
}

type entry struct {
	f      func(w *pool.Worker)
	ctx    context.Context // nil for none
	number uint64
}

// New returns a queue whose functions run on the pool: one at a time for each key, all keys of the same weight. It panics if the pool
// is nil.
func New[K comparable](p *pool.Pool) *Queue[K] {
	if p == nil {
		panic(errors.New("keyed: New was given a nil pool"))
	}
	p.Workers() // panics if the pool was not made by pool.New
	q := &Queue[K]{pool: p, most: 1, weight: func(K) float64 { return 1 }}
	q.pull = q.next
	return q
}

// lock locks mu, which is held for a fraction of a microsecond at a time. Where other goroutines are ready on the caller's P, sync.Mutex parks at once:
// 10,000 functions of 0.5 us with 1,000 keys took 12.1 ms, and take 10.0 with some looks before that.
func (q *Queue[K]) lock() {
	for range lockLooks {
		if q.mu.TryLock() {
			return
		}
		heist.Pause(lockPauses)
	}
	q.mu.Lock()
}

const lockLooks, lockPauses = 10, 4

func (q *Queue[K]) set(method string, ok bool, wrong string, setting func()) {
	q.lock()
	defer q.mu.Unlock()
	if !ok {
		panic(fmt.Errorf("keyed: Queue.%s was given %s", method, wrong))
	}
	if len(q.lines) > 0 {
		panic(fmt.Errorf("keyed: Queue.%s was called while the queue has functions; call it before them", method))
	}
	setting()
}

// AtMost has up to n functions of a key run at a time, instead of one; math.MaxInt is no limit. They begin in the order in
// which they were submitted. A function that waits counts, unlike in [pool.Group.AtMost]: the next one of its key may rely on it. For a tenant whose functions are long, an n below the number of workers
// leaves workers to others at any time. AtMost panics if n is less than 1, or while the queue has functions.
func (q *Queue[K]) AtMost(n int) {
	q.set("AtMost", n >= 1, fmt.Sprintf("%d; it must be at least 1", n), func() { q.most = n })
}

// Bound has up to n functions of a key wait. Beyond that, [Queue.Go] refuses and [Queue.Submit] waits. Bound panics if n is less than 1, or
// while the queue has functions.
func (q *Queue[K]) Bound(n int) {
	q.set("Bound", n >= 1, fmt.Sprintf("%d; it must be at least 1", n), func() { q.bound = n })
}

// Weigh gives keys weights. They must be positive and finite; the error of [Queue.Go] says if one is not. While two keys both have functions that wait, the one with twice the weight gets twice
// as much time. That of a function is from its beginning to its end, with its waits. The queue asks for the weight of a key when its first function comes, under its
// lock: weight must be quick, and not use the queue. Keys that never have functions that wait are not affected. Weigh panics if weight is nil, or while the queue has functions.
func (q *Queue[K]) Weigh(weight func(key K) float64) {
	q.set("Weigh", weight != nil, "a nil function", func() { q.weight = weight })
}

var (
	errNilFunc = errors.New("keyed: a Queue was given a nil function")
	errFull    = error(full{})
	errNotMade = errors.New("keyed: a Queue was used that New has not made")
)

// full is [pool.ErrFull] of a key.
type full struct{}

func (full) Error() string { return "keyed: as many functions of the key wait as Queue.Bound allows" }

func (full) Unwrap() error { return pool.ErrFull }

// Go queues f behind the other functions of its key. It never waits. It returns an error that wraps [pool.ErrFull] if as many functions of the
// key wait as Bound allows; [pool.ErrClosed] if the pool refuses f; and another error if the key is a NaN or contains one, or if its weight is not
// positive and finite. It panics if the key has a dynamic type that cannot be compared, and if Weigh's function does.
//
// As no caller waits for f, a panic in it ends the process, unless the pool has a handler ([pool.WithPanicHandler]); then the key goes on
// with its next function.
//
// Any goroutine may call it, also a function of the queue. Cost: a lock, and that of [pool.Pool.Go] if a worker may begin f; no allocation
// beyond f and its key's line.
func (q *Queue[K]) Go(key K, f func(w *pool.Worker)) error {
	if f == nil {
		return errNilFunc
	}
	return q.add(key, entry{f: f}, nil)
}

// Submit is [Queue.Go], but waits where Go finds no room. Who waits for room of a key gets it in the order of the calls, and before later
// calls of Go. If ctx ends first, Submit returns its cause; if ctx ends before f has begun, f is skipped when its turn comes. It
// returns [pool.ErrClosed] at once if the pool is aborted, and when there is room if the pool is closed meanwhile. A task that calls
// Submit lends its place while it waits. A function of the queue that waits for room of its own key waits for itself, if the key runs one at a time.
func (q *Queue[K]) Submit(ctx context.Context, key K, f func(w *pool.Worker)) error {
	switch {
	case ctx == nil:
		return errors.New("keyed: Queue.Submit was given a nil context; use context.Background() for one that does not end")
	case f == nil:
		return errNilFunc
	}
	e := entry{f: f, ctx: ctx}
	err := causes.Of(ctx)
	if err == nil {
		err = q.add(key, e, nil)
	}
	if err != errFull {
		return err
	}
	r, err := q.standInLine(key)
	if err != nil {
		return err
	}
	q.pool.Block(func() {
		select {
		case <-r.granted:
		case <-ctx.Done():
			err = causes.Of(ctx)
		case <-q.pool.Aborted():
			err = pool.ErrClosed
		}
	})
	if err != nil {
		q.leave(r)
		return err
	}
	return q.add(key, e, r)
}

// add adds e to the line of its key. It has room there if r is not nil.
func (q *Queue[K]) add(key K, e entry, r *room[K]) error {
	l, number, err := q.enter(key, e, r)
	if l == nil {
		return err
	}
	return q.ask(l, number)
}

// enter is add up to the question to the pool. If there is one, it returns the line and the function's number.
func (q *Queue[K]) enter(key K, e entry, r *room[K]) (asks *line[K], number uint64, err error) {
	switch {
	case q.pool == nil:
		return nil, 0, errNotMade
	case key != key:
		return nil, 0, fmt.Errorf("keyed: the key %v is not equal to itself, as a NaN, so no other function would have it", key)
	}
	q.lock()
	defer q.mu.Unlock() // also if the key cannot be hashed, or Weigh's function panics
	l, err := q.line(key)
	switch {
	case err != nil:
		return nil, 0, err
	case r != nil:
		l.granted--
	case q.bound > 0 && len(l.waiting)+l.granted >= q.bound:
		return nil, 0, errFull
	}
	q.accepted++
	e.number = q.accepted
	l.waiting = append(l.waiting, e)
	q.waiting++
	q.update(l)
	if q.lacksPull() || q.pool.Closing() {
		q.asking++
		return l, e.number, nil
	}
	return nil, 0, nil
}

// ask asks the pool for a pull, and takes the function back if there is none for it. Not under mu.
func (q *Queue[K]) ask(l *line[K], number uint64) error {
	err := q.pool.Go(q.pull)
	q.lock()
	defer q.mu.Unlock()
	q.asking--
	defer q.rest()
	switch {
	case err == nil:
		q.pulls++
	case number <= l.begun: // by another pull
		return nil
	default:
		i := slices.IndexFunc(l.waiting, func(e entry) bool { return e.number == number })
		if i < 0 { // drop came first
			q.dropped--
			break
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		q.waiting--
		q.update(l)
	}
	return err
}

// room is what a Submit waits for.
type room[K comparable] struct {
	line    *line[K]
	granted chan struct{} // closed when it is there
	at      *list.Element // in line.submits
}

// standInLine has the caller wait for room, until it adds its function or leaves. Not under mu.
func (q *Queue[K]) standInLine(key K) (*room[K], error) {
	q.lock()
	defer q.mu.Unlock()
	l, err := q.line(key)
	if err != nil {
		return nil, err
	}
	if l.submits == nil {
		l.submits = list.New()
	}
	r := &room[K]{line: l, granted: make(chan struct{})}
	r.at = l.submits.PushBack(r.granted)
	q.update(l)
	return r, nil
}

// leave gives up the wait for room, and the room if it was granted. Not under mu.
func (q *Queue[K]) leave(r *room[K]) {
	q.lock()
	defer q.mu.Unlock()
	select {
	case <-r.granted:
		r.line.granted--
	default:
		r.line.submits.Remove(r.at)
	}
	q.update(r.line)
}

// line returns the line of a key. Under mu, like all that follow unless they say otherwise.
func (q *Queue[K]) line(key K) (*line[K], error) {
	if l := q.lines[key]; l != nil {
		return l, nil
	}
	weight := q.weight(key)
	if !(weight > 0 && weight <= math.MaxFloat64) {
		return nil, fmt.Errorf("keyed: the weight of the key %v is %v; it must be positive and finite", key, weight)
	}
	l := &line[K]{key: key, weight: weight, used: q.now, mean: q.mean, at: -1}
	q.weights += weight
	if q.lines == nil {
		q.lines = make(map[K]*line[K])
	}
	q.lines[key] = l
	q.peak = max(q.peak, len(q.lines))
	return l, nil
}

// update is called after a change of the line.
func (q *Queue[K]) update(l *line[K]) {
	for l.submits != nil && l.submits.Len() > 0 && len(l.waiting)+l.granted < q.bound {
		close(l.submits.Remove(l.submits.Front()).(chan struct{}))
		l.granted++
	}
	n := min(len(l.waiting), q.most-l.running)
	q.startable += n - l.startable
	l.startable = n
	switch {
	case n > 0 && l.at < 0:
		q.chosen++
		l.since = q.chosen
		heap.Push(&q.ready, l)
	case n > 0:
		q.ready[l.at] = l.asReady()
		heap.Fix(&q.ready, l.at)
	case l.at >= 0:
		heap.Remove(&q.ready, l.at)
	}
	if len(l.waiting) == 0 {
		l.waiting = nil
		if l.running+l.granted == 0 { // so nobody waits for room
			q.forget(l)
		}
	}
	q.rest()
}

// rest lets those go on who wait until the queue is idle, if it is.
func (q *Queue[K]) rest() {
	if q.isIdle() && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

func (q *Queue[K]) isIdle() bool { return q.waiting+q.running+q.asking == 0 }

// forget removes a line that has no functions, and in which nobody waits for room.
func (q *Queue[K]) forget(l *line[K]) {
	delete(q.lines, l.key)
	q.weights -= l.weight
	switch n := len(q.lines); {
	case n == 0:
		q.lines, q.ready, q.peak, q.weights = nil, nil, 0, 0
	case q.peak > 1000 && n < q.peak/8:
		q.lines, q.peak = maps.Collect(maps.All(q.lines)), n
		q.ready = slices.Clone(q.ready)
	}
}

// lacksPull says whether there must be one more pull.
func (q *Queue[K]) lacksPull() bool { return max(q.pulls, 0) < min(q.startable, q.pool.Workers()) }

// chosen is a function that a pull has taken.
type chosen[K comparable] struct {
	line *line[K] // nil for none
	entry
	counts float64 // with what time it counts
}

// choose takes the function that is next, if one is startable.
func (q *Queue[K]) choose() (c chosen[K]) {
	if len(q.ready) == 0 {
		return c
	}
	l := q.ready[0].line
	c = chosen[K]{line: l, entry: l.waiting[0], counts: l.mean}
	l.waiting[0] = entry{}
	l.waiting = l.waiting[1:]
	l.begun = c.number
	l.running++
	q.waiting--
	q.running++
	q.now = max(q.now, l.used) + c.counts/q.weights
	l.used += c.counts / l.weight
	q.chosen++
	l.since = q.chosen
	q.update(l)
	return c
}

// end counts a function of the line as ended, which took so many ticks, and counted with another time until now.
func (q *Queue[K]) end(l *line[K], ticks int64, counted float64) {
	const newest = 1. / 8 // in a mean
	took := float64(max(ticks, 1))
	l.running--
	q.running--
	l.used += (took - counted) / l.weight
	l.mean += (took - l.mean) * newest
	q.mean += (took - q.mean) * newest
	q.update(l)
}

// turn is for how long a pull goes on with further functions. They do without the pool's way from task to task, and take the queue's lock once and not
// twice: 8.5 ms instead of 10.6 for 10,000 functions of 0.5 us with 10 keys. Other tasks of the pool wait for so long.
const turn = 16 * time.Microsecond

// next is a pull. Not under mu.
func (q *Queue[K]) next(w *pool.Worker) {
	var until int64
	if w != nil { // else Abort has given the pull back, and another goroutine calls it
		until = heist.Ticks() + heist.TicksIn(turn)
	}
	q.lock()
	q.pulls--
	c := q.choose()
	q.unlock(w)
	for c.line != nil {
		c = q.call(w, c, until)
	}
}

// call calls a function, and takes the next one, unless the turn is over. Not under mu.
func (q *Queue[K]) call(w *pool.Worker, c chosen[K], until int64) (next chosen[K]) {
	returned := false
	start := heist.Ticks()
	defer func() {
		end := heist.Ticks()
		q.lock()
		q.end(c.line, end-start, c.counts)
		if returned && end < until {
			next = q.choose()
		}
		q.unlock(w)
	}()
	if c.ctx == nil || c.ctx.Err() == nil {
		if w != nil {
			w.ShowAs(c.f)
		}
		c.f(w)
	}
	returned = true
	return next
}

// unlock unlocks mu, and queues a pull at the worker if one is lacking.
func (q *Queue[K]) unlock(w *pool.Worker) {
	lacks := q.lacksPull()
	if lacks {
		q.pulls++
	}
	q.mu.Unlock()
	if lacks && w.Go(q.pull) != nil { // the pool was aborted
		q.lock()
		q.pulls--
		q.drop()
		q.mu.Unlock()
	}
}

// drop drops all functions that have not begun, because the pool takes no more pulls.
func (q *Queue[K]) drop() {
	for _, l := range q.lines {
		q.dropped += len(l.waiting)
		q.waiting -= len(l.waiting)
		l.waiting = nil
		q.update(l)
	}
}

// Wait returns nil when no function waits or runs: all have ended. If ctx ends first, it returns the cause. If functions
// never began because the pool was aborted, it returns an error that says how many, and wraps [pool.ErrClosed]. A task that waits lends its place. A function of the queue would wait for itself.
//
// Any goroutine may call it, any number of times.
func (q *Queue[K]) Wait(ctx context.Context) error {
	switch {
	case q.pool == nil:
		return errNotMade
	case ctx == nil:
		return errors.New("keyed: Queue.Wait was given a nil context; use context.Background() for one that does not end")
	}
	for aborted := q.pool.Aborted(); ; {
		q.lock()
		if q.isIdle() {
			dropped := q.dropped
			q.mu.Unlock()
			if dropped > 0 {
				return fmt.Errorf("keyed: %d functions never began, because the pool was aborted: %w", dropped, pool.ErrClosed)
			}
			return nil
		}
		if q.idle == nil {
			q.idle = make(chan struct{})
		}
		idle := q.idle
		q.mu.Unlock()
		if ctx.Err() != nil {
			return causes.Of(ctx)
		}
		q.pool.Block(func() {
			select {
			case <-idle:
			case <-ctx.Done():
			case <-aborted:
				aborted = nil
				q.lock()
				q.drop()
				q.mu.Unlock()
			}
		})
	}
}

// Load returns how many functions wait and run, and how many keys have any. Any goroutine may call it. Cost: a lock.
func (q *Queue[K]) Load() (waiting, running, keys int) {
	q.lock()
	defer q.mu.Unlock()
	return q.waiting, q.running, len(q.lines)
}

// readyLines is a heap of lines with startable functions, the next one first.
type readyLines[K comparable] []readyLine[K]

// readyLine has what decides beside the line, so that to compare two is no way to their memory.
type readyLine[K comparable] struct {
	used  float64
	since uint64
	line  *line[K]
}

func (l *line[K]) asReady() readyLine[K] { return readyLine[K]{l.used, l.since, l} }

func (r readyLines[K]) Len() int { return len(r) }

func (r readyLines[K]) Less(i, j int) bool {
	a, b := &r[i], &r[j]
	return a.used < b.used || a.used == b.used && a.since < b.since
}

func (r readyLines[K]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].line.at, r[j].line.at = i, j
}

// Push appends a line, for package heap.
func (r *readyLines[K]) Push(l any) {
	l.(*line[K]).at = len(*r)
	*r = append(*r, l.(*line[K]).asReady())
}

// Pop removes the last line, for package heap.
func (r *readyLines[K]) Pop() any {
	last := len(*r) - 1
	l := (*r)[last].line
	(*r)[last] = readyLine[K]{}
	*r = (*r)[:last]
	l.at = -1
	return l
}
