package pool

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// # Loops
//
// A loop begins alone. The caller runs the first few items and measures them; when all
// of them together would take less than the wake-up of a worker, it runs the others
// too, and the pool never hears of the loop (probe).
//
// Otherwise the caller takes its place in the pool and runs the range in chunks. Before
// each chunk it looks whether the pool is hungry, and only then halves what is left and
// forks the second half (Acar, Charguéraud and Rainey call that lazy scheduling; TBB and
// rayon split beforehand, into so many pieces that it should be enough). A thief does
// the same with its half. So a range is split about as often as it is stolen from, and
// nobody has to choose a grain.
//
// A chunk is as many items as take some microseconds: long enough to make the looks
// free, short enough to be answered soon; and longer, if a call of the loop's body has a
// cost of its own. Each worker measures its own (policy.Pace), for the cost of items may
// change along the range.

const (
	// aloneTime is how long a loop may take and still be run by its caller alone: a
	// wake-up costs 4 to 10 microseconds until the woken thread has something.
	aloneTime = 8 * time.Microsecond
	// chunkTime is what a chunk takes, if calls cost nothing. The two clock readings and the look at who is
	// hungry, 30 ns, are a hundredth of it.
	chunkTime = 4 * time.Microsecond
	// probeTime is the part of aloneTime, 4 microseconds, after which a probe has seen
	// enough to call a loop long.
	probeTime = 2
	// A loop's first items are measured: 1 in 256 is all that a machine with 64 CPUs can
	// do without, and no more than 64 are needed.
	probeShare, mostProbed = 256, 64
)

// Granularity says how a loop is divided. The zero value, which is the default, needs no tuning: it halves a range only when a worker is
// hungry, and finds the length of chunks by measuring.
type Granularity struct {
	grain    int
	adaptive *AdaptiveGrain
	affinity *Affinity
	share    int  // grain, as chunks for each worker
	most     int  // workers; 0 is all
	inOrder  bool // what comes first is wanted first, so the range is not divided among nodes
}

// Grain divides a range into chunks of n items, by halves, whether the pool is hungry
// or not: TBB's simple partitioner. Use it if a chunk has a certain size for a reason
// of its own, such as a cache. It panics if n is less than 1.
func Grain(n int) Granularity {
	if n < 1 {
		panic(fmt.Errorf("pool: Grain was given %d; it must be at least 1", n))
	}
	return Granularity{grain: n}
}

// Chunks divides a range into about k chunks for each worker, whether the pool is hungry or not.
// Use it if calls of the body should be few and of equal length, and items cost about the same;
// 1 is an even split. It panics if k is less than 1.
func Chunks(k int) Granularity {
	if k < 1 {
		panic(fmt.Errorf("pool: Chunks was given %d; it must be at least 1", k))
	}
	return Granularity{share: k}
}

// AtMost returns the granularity with a limit: no more than k workers run the loop at a time, the
// caller included. Such a loop is not divided among memory nodes, so an [Affinity] has no effect on
// it. It panics if k is less than 1.
func (g Granularity) AtMost(k int) Granularity {
	if k < 1 {
		panic(fmt.Errorf("pool: AtMost was given %d; it must be at least 1", k))
	}
	g.most = k
	return g
}

// InOrder returns the granularity for a range whose beginning is wanted first: the loop is not
// divided among memory nodes.
func (g Granularity) InOrder() Granularity {
	g.inOrder = true
	return g
}

// eager says whether ranges are divided whether the pool is hungry or not.
func (g *Granularity) eager() bool { return g.grain > 0 || g.share > 0 }

// AdaptiveGrain is a grain that moves with the share of chunks that were stolen: more
// than a tenth makes it a quarter smaller, less than a hundredth a third larger. It
// begins with 1000 and stays between 100 and 100,000; the numbers are those of the
// course page on work stealing. Create one, with new, for each loop that runs again and
// again; several goroutines may use it.
type AdaptiveGrain struct {
	grain atomic.Int64 // 0 is the first; the worker that ends a loop writes
}

const (
	firstGrain, leastGrain, mostGrain = 1000, 100, 100_000
	manyStolen, fewStolen             = 0.1, 0.01
)

// Granularity returns how the next loop is to be divided.
func (a *AdaptiveGrain) Granularity() Granularity {
	return Granularity{grain: a.Grain(), adaptive: a}
}

// Grain returns the grain that the next loop has.
func (a *AdaptiveGrain) Grain() int {
	if g := a.grain.Load(); g > 0 {
		return int(g)
	}
	return firstGrain
}

func (a *AdaptiveGrain) move(chunks, stolen int64) {
	g := int64(a.Grain())
	switch share := float64(stolen) / float64(chunks); {
	case share > manyStolen:
		g = g * 3 / 4
	case share < fewStolen:
		g = g * 4 / 3
	}
	a.grain.Store(min(max(g, leastGrain), mostGrain))
}

// ForRange calls f with ranges lo to hi-1 that together are 0 to n-1, some at the same time, and
// returns when all calls have returned. The order is not specified. At most one granularity can be
// given. Whatever f has to set up for a range, such as a buffer, belongs at its
// beginning: how long that takes is measured, and ranges are made long enough for it to cost a few
// percent at most. A body that forks, or that keeps data in a [Local], takes the worker as well.
//
// Called from outside, with a pool as the place, a short loop whose body takes no worker runs in the caller alone
// and costs some 30 ns more than it would without a pool; see [Place] for what
// other callers cost. A panic in f ends the loop and continues in the caller as a [*PanicError], when no f
// runs any more. The error is [ErrClosed], or that of the place's context: then some ranges, if there are any,
// were left out.
func ForRange[F func(lo, hi int) | func(w *Worker, lo, hi int)](at Place, n int, f F, g ...Granularity) error {
	switch f := any(f).(type) {
	case func(lo, hi int):
		return forRange(at, n, f, g)
	case func(w *Worker, lo, hi int):
		return forWorker(at, n, f, g)
	}
	panic("unreachable")
}

func forRange(at Place, n int, f func(lo, hi int), g []Granularity) error {
	if f == nil {
		return errNilFunc("ForRange")
	}
	var l Loop
	if err := l.Begin(at, n, f, g...); err != nil || l.Over() {
		return err
	}
	l.rest.pace.Calls = true
	return l.Run(func(_ *Worker, lo, hi int) { f(lo, hi) })
}

func forWorker(at Place, n int, f func(w *Worker, lo, hi int), g []Granularity) error {
	if f == nil {
		return errNilFunc("ForRange")
	}
	if _, err := checkLoop(at, n, g); err != nil || n == 0 {
		return err
	}
	l := newLoop(at, 0, n, policy.Pace{Calls: true}, codeOf(f), g)
	return l.Run(f)
}

// Loop is what is left of a loop when its beginning has run in the caller, see [Loop.Begin].
type Loop struct{ rest *rest }

// rest is a part of a loop that has not run. A short loop has none, and so nothing to be made or copied.
type rest struct {
	at     Place
	how    Granularity
	lo, hi int
	pace   policy.Pace
	code   uintptr // of the user's function
}

// Begin begins a loop over 0 to n-1: f runs the first few items in the caller, which measures
// them, and all of them if together they would take less than the wake-up of a worker. Then the loop
// is over; else [Loop.Run] runs the rest. It is what [ForRange] and the loops of package par are
// made of, for those that know more about their items: f and the body of Run may be two closures of the same
// code, of which the first is none of the garbage collector's matters.
//
// For places and errors see [ForRange]. Cost: 30 ns, no allocation.
func (l *Loop) Begin(at Place, n int, f func(lo, hi int), g ...Granularity) error {
	*l = Loop{}
	if f == nil {
		return errNilFunc("Loop.Begin")
	}
	done, pace, err := probe(at, n, g, f)
	if done == n || err != nil {
		return err
	}
	*l = newLoop(at, done, n, pace, codeOf(f), g)
	return nil
}

func newLoop(at Place, lo, hi int, pace policy.Pace, code uintptr, g []Granularity) Loop {
	r := &rest{at: at, lo: lo, hi: hi, pace: pace, code: code}
	if len(g) > 0 {
		r.how = g[0]
	}
	return Loop{r}
}

// Over says whether nothing is left, as after an error.
func (l *Loop) Over() bool { return l.rest == nil }

// Run runs what is left, as [ForRange] does. Calls of body should have no cost of their own.
func (l *Loop) Run(body func(w *Worker, lo, hi int)) error {
	if body == nil {
		return errNilFunc("Loop.Run")
	}
	r := l.rest
	if r == nil {
		return nil
	}
	l.rest = nil
	return loopOn(r.at, span{lo: r.lo, hi: r.hi, pace: r.pace}, r.how, r.code, body)
}

func checkLoop(at Place, n int, g []Granularity) (*Pool, error) {
	if n < 0 {
		return nil, fmt.Errorf("pool: a loop was given %d items; it must be 0 or more", n)
	}
	if len(g) > 1 {
		return nil, errors.New("pool: a loop was given more than one granularity")
	}
	return check(at)
}

// probe runs the beginning of a loop in the caller: all of it, if that is short. It says
// how many items it ran, and what they cost.
//
// It looks at the clock after a few items, and judges the rest by the items since the
// last look. If the rest looks short, it runs 16 times as many and looks again, at the
// latest after half of them: items may be cheap at first and cost more later. If it
// looks long, that may be because of cold caches, so it asks twice as many, until it has
// measured for a while. Each look costs 12 ns.
func probe(at Place, n int, g []Granularity, f func(lo, hi int)) (done int, pace policy.Pace, err error) {
	defer inLoop()
	p, ok := at.(*Pool)
	if !ok || n <= 0 || len(g) > 0 || p == nil || p.closing.Load() || len(p.nodes) == 0 || p.callers > 0 {
		if p, err = checkLoop(at, n, g); err != nil || n == 0 || len(g) > 0 && g[0].eager() || p.callers > 0 {
			return 0, pace, err
		}
	}
	last := heist.Ticks()
	start, next := last, min(n/probeShare, mostProbed)|1
	for {
		f(done, next)
		items := next - done
		if done = next; done == n {
			return n, pace, nil
		}
		now := heist.Ticks()
		took := max(now-last, 1)
		last = now
		next = times(16, done, n)
		if float64(took)*float64(n-done) >= float64(p.ticksLoop.Alone)*float64(items) {
			if now-start >= p.ticksLoop.Alone/probeTime {
				pace.Probed(items, took, &p.ticksLoop)
				return done, pace, nil
			}
			next = times(2, done, n)
		}
		if next > n/2 && done < n/2 {
			next = n / 2
		}
		next = min(next, n)
		if !ok {
			if _, err := check(at); err != nil {
				return done, pace, err
			}
		}
	}
}

// times returns k*i, but no more than n, for any n that there is.
func times(k, i, n int) int {
	if i > n/k {
		return n
	}
	return k * i
}

// span is a part of a loop's range.
type span struct {
	lo, hi int
	pace   policy.Pace
	*loop
}

// loop is what the parts of a loop have in common.
type loop struct {
	body  func(w *Worker, lo, hi int) // constant
	grain int                         // constant; 0 is lazy
	stop  atomic.Bool                 // the worker that panics writes

	// How many more workers may take part. Each part that was given away and is not done has
	// one. Who gives a part away, takes it back or ends it writes.
	seats   atomic.Int32
	limited bool // constant

	// Of a loop with a grain that adapts:
	counts         bool // constant
	chunks, stolen atomic.Int64
}

// loopOn runs what is left of a loop at a place.
func loopOn(at Place, left span, how Granularity, code uintptr, body func(w *Worker, lo, hi int)) (err error) {
	v, err := enterPlace(at)
	if err != nil {
		return err
	}
	defer v.leavePlace(&err)
	defer inLoop()
	v.does(code)
	left.loop = &loop{body: body}
	left.grain, left.counts = how.grain, how.adaptive != nil
	if how.share > 0 { // of all items: nothing has been probed
		left.grain = (left.hi-1)/times(how.share, v.w.pool.size(), left.hi) + 1
	}
	left.limited = how.most > 0
	left.seats.Store(int32(how.most - 1))
	if !how.inOrder && !left.limited && left.worthPieces(v.w.pool) {
		left.runOnNodes(v.w, how.affinity)
	} else {
		left.run(v.w)
	}
	if left.counts {
		how.adaptive.move(left.chunks.Load(), left.stolen.Load())
	}
	return nil
}

// spans returns the worker's stack for parts of loops.
func spans(w *Worker) *frames[span, struct{}] {
	s := stackOf[frames[span, struct{}]](w)
	if s.body == nil {
		s.body = func(w *Worker, s span) (none struct{}) {
			if s.counts {
				s.stolen.Add(1)
			}
			s.run(w)
			s.free()
			return none
		}
	}
	return s
}

// run runs the span on the worker, and returns when all of it is done. If the call that
// it belongs to was cancelled it unwinds.
func (s span) run(w *Worker) {
	forks := spans(w)
	base := forks.bottom
	returned := false
	defer func() {
		if !returned {
			s.stop.Store(true)
			forks.cut(base)
		}
	}()
	for {
		if s.grain > 0 {
			s.divide(w, forks)
		} else {
			s.share(w, forks)
		}
		// What was given away and not stolen comes back, the nearest part first.
		d := forks.bottom - 1
		for ; d >= base && !forks.newest(d); d-- {
			forks.settle(d)
		}
		if d < base {
			break
		}
		s.lo, s.hi = forks.at(d).what.lo, forks.at(d).what.hi
		s.free()
		// What was given away before lies behind that. Without a grain a new chunk may be all of it.
		for ; s.grain == 0 && d > base && forks.takeBack(d-1); d-- {
			s.hi = forks.at(d - 1).what.hi
			s.free()
			forks.bottom = d - 1
		}
	}
	returned = true
	w.cancelScope.check()
}

// over says whether the loop ends early.
func (s *span) over(w *Worker) bool { return s.stop.Load() || w.cancelScope.stopped() }

// share runs the span chunk by chunk, and gives away part of the rest whenever another worker
// is hungry and finds nothing else of the loop here.
func (s *span) share(w *Worker, forks *frames[span, struct{}]) {
	p := w.pool
	start := heist.Ticks()
	for s.lo < s.hi && !s.over(w) {
		if p.sleep.Hungry() && !forks.visible() {
			for n := s.pace.Parts(s.hi-s.lo, max(p.idle(), 1), &p.ticksLoop); n > 0 && s.give(s.lo+(s.hi-s.lo)/2, forks); n-- {
			}
			start = heist.Ticks() // a wake-up is not the items' fault
		}
		next := s.lo + s.pace.Next(s.hi-s.lo)
		s.body(w, s.lo, next)
		now := heist.Ticks()
		w.cancelScope.poll(w, now)
		s.pace.Measured(next-s.lo, now-start, &p.ticksLoop)
		start, s.lo = w.giveWayIfDue(now), next
	}
}

// divide gives away half of the span until it has no more items than the grain, and runs that.
func (s *span) divide(w *Worker, forks *frames[span, struct{}]) {
	for s.lo < s.hi && !s.over(w) {
		chunks := (s.hi-s.lo-1)/s.grain + 1
		for chunks > 1 && s.give(s.lo+(chunks-chunks/2)*s.grain, forks) {
			chunks -= chunks / 2
		}
		if s.counts {
			s.chunks.Add(1)
		}
		next := s.hi
		if chunks > 1 { // as many workers as may take part have their parts
			next = s.lo + s.grain
		}
		s.body(w, s.lo, next)
		s.lo = next
	}
}

// give gives away what lies from mid on, unless as many workers as may take part have their parts.
func (s *span) give(mid int, forks *frames[span, struct{}]) bool {
	if s.limited && s.seats.Add(-1) < 0 {
		s.seats.Add(1)
		return false
	}
	part := *s
	part.lo, s.hi = mid, mid
	forks.push(part)
	return true
}

// free is for a part that was given away, and is done or was taken back.
func (s *span) free() {
	if s.limited {
		s.seats.Add(1)
	}
}
