package pool

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/internal/policy"
)

// # Loops
//
// A loop begins in its caller alone. The caller runs the first few items and measures
// them. If the others are not worth the wake-up of a worker, the caller
// runs them too, and the pool never hears of the loop (probe).
//
// Otherwise the caller enters the pool and runs the range in **chunks**. Before each chunk
// it checks whether the pool is hungry, and only then halves the rest of the range and
// forks the second half (Acar, Charguéraud and Rainey call that lazy scheduling; TBB and
// rayon split beforehand, into so many pieces that it should be enough). A thief does
// the same with its half. So a range is split about as often as it is stolen from, and
// the user need not choose a grain.
//
// A chunk has as many items as take some microseconds: long enough to make the checks
// free, short enough that a hungry pool is answered soon. It is longer if a call of the
// loop's body has a cost of its own. Each worker measures its own chunks (policy.Pace),
// because the cost of items may change along the range.

const (
	// aloneTime is how long a loop may take and still be run by its caller alone: a
	// wake-up costs 4 to 10 microseconds until the woken thread has work.
	aloneTime = 8 * time.Microsecond
	// chunkTime is how long a chunk takes if calls of the body have no cost of their own. The two clock
	// readings and the check for hunger, 30 ns, are a hundredth of it.
	chunkTime = 4 * time.Microsecond
	// After aloneTime / probeTime, 4 microseconds, a probe has measured enough to call a
	// loop long.
	probeTime = 2
	// A probe of a loop that looks long looks again after aloneTime / soonTime, a microsecond: each look costs more than its 12 ns, because
	// the processor no longer overlaps the items before it with those behind it.
	soonTime = 8
	// A probe asks whether its place has ended at a look that comes aloneTime / askedTime, half a microsecond, after the last
	// time: that takes as long as the look itself.
	askedTime = 16
	// A probe begins with 1 item in probeShare, the most that a machine with 64 CPUs can
	// afford to run on one of them, and never needs more than mostProbed.
	probeShare, mostProbed = 256, 64
)

// Granularity says how a loop is divided. The zero value, which is the default, needs no tuning: it halves a
// range only while the pool is hungry, and finds the length of chunks by measuring.
//
// The items of one loop are not tasks: an item must not wait for another one, nor for its context to end by another
// one's error, unless it waits in [Worker.Block] and the granularity is [Grain](1), without [Granularity.AtMost].
type Granularity struct {
	grain    int
	adaptive *AdaptiveGrain
	affinity *Affinity
	share    int     // chunks for each worker, from which the grain follows
	most     int     // the most workers that run the loop; 0 is all
	inOrder  bool    // the beginning is wanted first, so the range is not divided among nodes
	fromEnd  bool    // see FromEnd
	probed   *probed // what Probe has found
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

// FromEnd returns the granularity for a loop whose workers go through their parts of the range from the end to the beginning, range by range, and
// [Granularity.Probe] as well. It is for bodies that merge what they computed: a merge takes as long as its second argument is large, and the
// ranges that a loop begins with are small.
func (g Granularity) FromEnd() Granularity {
	g.fromEnd = true
	return g
}

// eager says whether ranges are divided even while the pool is not hungry.
func (g *Granularity) eager() bool { return g.grain > 0 || g.share > 0 }

// AdaptiveGrain is a grain that moves with the share of chunks that were stolen: more
// than a tenth makes it a quarter smaller, less than a hundredth a third larger. It
// begins with 1000 and stays between 100 and 100,000; the numbers are those of a
// course page (docs/words.md), and were not tuned. Create one, with new, for each loop that runs again and
// again; several goroutines may use it.
type AdaptiveGrain struct {
	grain atomic.Int64 // 0 stands for firstGrain; the worker that ends a loop writes
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
// given. f should set up what it needs for a range, such as a buffer, at its beginning: the loop
// measures how long that takes, and makes ranges long enough for it to cost a few percent at most.
// An f that forks, or that keeps data in a [Local], takes the worker as well.
//
// Called from outside, with a pool as the place, a loop whose body takes no worker begins in the caller alone, unless
// it is given a granularity that fixes the chunks, the pool has [WithCallers], or the items are few, and the last loop of f was long or there was none. Until the caller becomes a guest, the
// loop is no call at the pool. A short loop ends before that, and costs some 30 ns more than it would without a pool;
// see [Place] for what other callers cost. A panic in f ends the loop and continues in the caller as a [*PanicError], when no call
// of f runs any more. The error is [ErrClosed], or that of the place's context; then some of the ranges, if
// there are any, were left out.
func ForRange[F func(lo, hi int) | func(w *Worker, lo, hi int)](at Place, n int, f F, g ...Granularity) error {
	switch f := any(f).(type) {
	case func(lo, hi int):
		return forRange(at, n, f, g)
	case func(w *Worker, lo, hi int):
		return forWorker(at, n, f, g)
	}
	panic("unreachable")
}

// Merging tells a loop what it costs to merge a partial result, such as a table. A body calls it before it returns; part is the time that merging will take,
// divided by the time that this call of the body took. From a sixteenth on the loop makes fewer ranges: a worker does half of what is left to it and then the
// rest, and from a half on all of it. Leave out what costs the same in each call. Only the worker's goroutine may call it. Cost: 2 nanoseconds.
func (w *Worker) Merging(part float64) {
	w.mustBeMine("Worker.Merging")
	w.merging = part
}

func forRange(at Place, n int, f func(lo, hi int), g []Granularity) error {
	if f == nil {
		return errNilFunc("ForRange")
	}
	r, err := probe(at, n, g, f, func(lo, hi int) (more bool) { f(lo, hi); return true })
	if r == nil {
		return err
	}
	r.pace.Calls = true
	return r.run(codeOf(f), func(_ *Worker, lo, hi int) { f(lo, hi) })
}

func forWorker(at Place, n int, f func(w *Worker, lo, hi int), g []Granularity) error {
	if f == nil {
		return errNilFunc("ForRange")
	}
	if _, err := checkLoop(at, n, g); err != nil || n == 0 {
		return err
	}
	r := restOf(at, 0, n, probedBefore(g), g)
	r.pace.Calls = true
	return r.run(codeOf(f), f)
}

// ForBody is [ForRange] for a body, as oneTBB calls it: a value, often a struct of what the items need, whose method Run does the
// items lo to hi-1. A call of it has no cost of its own, and a short loop that is called from outside allocates nothing, whereas the
// closure that ForRange takes is allocated. The loops of package par are made of it. Func returns the user's function that Run calls, or nil:
// [Pool.Dump] shows the loop as that function, and the pool remembers whether loops of few items were long by it.
func ForBody[B interface {
	Run(lo, hi int)
	Func() any
}](at Place, n int, body B, g ...Granularity) error {
	if any(body) == nil {
		return errors.New("pool: ForBody was given a nil body")
	}
	of := body.Func()
	r, err := probe(at, n, g, of, func(lo, hi int) (more bool) { body.Run(lo, hi); return true })
	if r == nil {
		return err
	}
	return r.run(codeOfAny(of), func(_ *Worker, lo, hi int) { body.Run(lo, hi) })
}

// Probe runs the beginning of a loop that is to be divided so in the caller, from its first item on, and all of it if that takes less than a wake-up.
// f may say that no more is needed. Probe returns how many items are done, which is n if no more are needed and says nothing if there is an error, and the
// granularity for a loop over the others, which then begins with what was measured and is shown as the function of. It is for algorithms that give short inputs
// the form that a plain loop has; [ForBody] needs none of it. For of see the method Func there.
//
// A loop that is divided [Granularity.FromEnd] begins with its last item, and the others are those before what is done.
//
// Nothing is done at a pool with [WithCallers], and if items are few and a loop over such was long, or the function is new. Panics and errors are those of [ForBody]. What f captures need not be allocated.
func (g Granularity) Probe(at Place, n int, of any, f func(lo, hi int) (more bool)) (done int, others Granularity, err error) {
	if f == nil {
		return 0, others, errNilFunc("Granularity.Probe")
	}
	var how []Granularity
	if g != (Granularity{}) {
		how = []Granularity{g}
	}
	r, err := probe(at, n, how, of, f)
	if r == nil {
		return n, g, err
	}
	if of != nil {
		r.of = codeOfAny(of)
	}
	g.probed = &r.probed
	return r.lo, g, nil
}

// rest is the part of a loop that has not run. A short loop has no rest, so nothing is allocated or copied for it.
type rest struct {
	at     Place
	how    Granularity
	lo, hi int
	probed
}

// probed is what a probe has found. The zero value says nothing.
type probed struct {
	pace policy.Pace // what items cost
	few  uintptr     // the code of a function whose few items were not probed
	of   uintptr     // the code of the function that Probe was given, as which the rest is shown; 0 for other loops
}

// probedBefore returns what Probe found of the loop that is divided so, if it did.
func probedBefore(g []Granularity) probed {
	if len(g) > 0 && g[0].probed != nil {
		return *g[0].probed
	}
	return probed{}
}

func restOf(at Place, lo, hi int, found probed, g []Granularity) *rest {
	r := &rest{at: at, lo: lo, hi: hi, probed: found}
	if len(g) > 0 {
		r.how = g[0]
	}
	return r
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

// probe runs the beginning of a loop in the caller, or all of it if it is short. It returns
// the rest, with what the items cost, or nil if nothing is left to run, which is also so after an error.
//
// probe looks at the clock after a few items, and judges the rest by the items since the
// last look. If the rest looks short, it goes on to 16 times as many items, but looks again
// at half of the range, because items may be cheap at first and cost more later. If the rest
// looks long, cold caches may be the reason, so it goes on to what takes a microsecond, at least twice and at most 16 times as many items, until it
// has measured for aloneTime / probeTime. Each look costs 12 ns. If the rest then takes longer than the wake-up of a worker, but
// is not worth one (worth.go), it goes on alone as long as no worker searches, and looks each aloneTime.
//
// Of few items it runs none if the loop is likely to be long. of is the user's function that f calls, or nil.
func probe(at Place, n int, g []Granularity, of any, f func(lo, hi int) (more bool)) (*rest, error) {
	inBody := false
	var among *loners // the callers to which this one belongs
	defer func() {
		if among != nil {
			among.callers.Add(-1)
		}
		if inBody {
			switch v := panics.Recovered(recover()).(type) {
			case nil: // a Goexit goes on by itself
			case *cancelScope:
				panic(v)
			default:
				panic(panicHere(v))
			}
		}
	}()
	p, ok := at.(*Pool)
	if !ok || n <= 0 || len(g) > 0 || p == nil || p.core.Closing.Load() || len(p.nodes) == 0 || p.callers > 0 {
		var err error
		if p, err = checkLoop(at, n, g); err != nil || n == 0 {
			return nil, err
		}
		switch {
		case len(g) > 0 && g[0].probed != nil:
			return restOf(at, 0, n, probedBefore(g), g), nil
		case len(g) > 0 && g[0].eager() || p.callers > 0:
			return restOf(at, 0, n, probed{}, g), nil
		}
	}
	few := uintptr(0) // the code of a function that has few items
	if n > 1 && n < fewItems*p.core.Size() && of != nil {
		few = codeOfAny(of)
		if l := p.lengths.of(few); l == unknown || l == long {
			return restOf(at, 0, n, probed{few: few}, g), nil
		}
	}
	var w *Worker
	if !ok {
		w = at.view().w
	}
	last := heist.Ticks()
	worth, spared, asked := p.long(last), false, last
	start, next := last, min(n/probeShare, mostProbed)|1
	for done := 0; ; {
		lo, hi := done, next
		if len(g) > 0 && g[0].fromEnd {
			lo, hi = n-next, n-done
		}
		inBody = true
		more := f(lo, hi)
		inBody = false
		items := next - done
		if done = next; done == n || !more {
			if few != 0 {
				p.lengths.note(few, lengthOf(heist.Ticks()-start, worth))
			}
			if spared {
				p.lengths.sparedWake()
				p.wanted(heist.Ticks())
			}
			return nil, nil
		}
		now := heist.Ticks()
		took := max(now-last, 1)
		last = now
		left := float64(took) * float64(n-done) / float64(items)
		switch {
		case left < float64(p.ticks.loop.Alone):
			next = times(16, done, n)
		case now-start < p.ticks.loop.Alone/probeTime:
			soon := done + int(float64(p.ticks.loop.Alone/soonTime)*float64(items)/float64(took))
			next = min(max(soon, times(2, done, n)), times(16, done, n))
		case left < float64(worth) && (p.core.Sleep.Load().Searching() == 0 || p.crowded()):
			next = done + max(int(float64(p.ticks.loop.Alone)*float64(items)/float64(took)), 1)
			spared = true
		default:
			r := restOf(at, done, n, probed{}, g)
			r.pace.Probed(items, took, &p.ticks.loop)
			if few != 0 {
				p.lengths.note(few, lengthOf(now-start+int64(left), worth))
			}
			p.wanted(now)
			return r, nil
		}
		if next > n/2 && done < n/2 {
			next = n / 2
		}
		next = min(next, n)
		if spared && w == nil && among == nil { // it may compute many such loops in a row
			switch g := goroutineID(); {
			case goroutines.find(g) == nil:
				among = &p.loners
				among.callers.Add(1)
				last = among.giveWay(p, now)
			case ok: // it calls the pool from a task or body of its own
				w = p.computes(g)
			}
		}
		if w != nil { // so may a worker
			last = w.giveWayIfDue(now)
		}
		start += last - now
		if ok {
			continue
		}
		if now-asked >= p.ticks.loop.Alone/askedTime {
			if _, err := check(at); err != nil {
				return nil, err
			}
			asked = now
		}
	}
}

// times returns k*i, but no more than n. It does not overflow for any n.
func times(k, i, n int) int {
	if i > n/k {
		return n
	}
	return k * i
}

// span is a part of a loop's range.
type span struct {
	lo, hi int
	parts  int // into so many it is divided before its first chunk; 0 and 1 are the same
	mirror int // 0; or the loop is done from its end, and item i of the span is item mirror-1-i of the range
	pace   policy.Pace
	*loop
}

// loop is what the parts of a loop have in common.
type loop struct {
	body  func(w *Worker, lo, hi int) // constant
	grain int                         // constant; 0 is lazy
	few   uintptr                     // constant: the function of a loop of few items that was not probed; 0 for others
	items int                         // constant: of such a loop, from 0 on
	stop  atomic.Bool                 // a worker whose body panics writes

	// seats is how many more workers may take part. Each part that was given away and is not done
	// takes a seat. The worker that gives a part away, takes it back or ends it writes.
	seats   atomic.Int32
	limited bool // constant

	// For a loop with an AdaptiveGrain:
	counts         bool // constant
	chunks, stolen atomic.Int64
}

// run runs the rest of a loop with body. The user's function has the given code, unless Probe was given another one.
func (r *rest) run(code uintptr, body func(w *Worker, lo, hi int)) (err error) {
	if r.of != 0 {
		code = r.of
	}
	v, err := enter(r.at)
	if err != nil {
		return err
	}
	v.loop = true
	defer v.leave(&err)
	v.does(code)
	v.w.patience = patience{wantedAt: notWanted} // the loop is long, and does not look for the end of it
	how := &r.how
	left := span{lo: r.lo, hi: r.hi, pace: r.pace, loop: &loop{body: body}}
	left.grain, left.counts = how.grain, how.adaptive != nil
	if how.fromEnd {
		left.mirror = r.hi
	}
	if r.few != 0 { // a worker that is not hungry yet will be, while an item runs
		left.parts, left.few, left.items = v.w.pool.core.Size(), r.few, r.hi
	}
	if how.share > 0 { // a share of all items: nothing has been probed
		left.grain = (left.hi-1)/times(how.share, v.w.pool.core.Size(), left.hi) + 1
	}
	left.limited = how.most > 0
	left.seats.Store(int32(how.most - 1))
	if !how.inOrder && !left.limited && left.worthPieces(v.w.pool, how.affinity) {
		left.runOnNodes(v.w, how.affinity)
	} else {
		left.run(v.w)
	}
	if left.counts {
		how.adaptive.move(left.chunks.Load(), left.stolen.Load())
	}
	v.returned = true
	return nil
}

// spans returns the worker's fork stack for parts of loops.
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

// run runs the span on the worker, and returns when all of it is done. If the loop's call
// was cancelled, run unwinds.
func (s span) run(w *Worker) {
	w.cancelScope.watch() // between two looks of its own at the context it looks at the mark
	forks := spans(w)
	base := forks.bottom
	returned := false
	defer func() {
		if !returned {
			s.stop.Store(true)
			forks.end(base)
		}
	}()
	for {
		if s.grain > 0 {
			s.divide(w, forks)
		} else {
			s.share(w, forks)
		}
		// Parts that were given away and not stolen come back, the nearest part first.
		d := forks.bottom - 1
		for ; d >= base && !forks.takeBack(d); d-- {
			forks.joinStolen(d)
		}
		if d < base {
			break
		}
		s.lo, s.hi = forks.at(d).what.lo, forks.at(d).what.hi
		s.free()
		// Parts that were given away earlier lie behind this one. Without a grain, add them: a new chunk may span them all.
		for ; s.grain == 0 && d > base && forks.takeBack(d-1); d-- {
			s.hi = forks.at(d - 1).what.hi
			s.free()
		}
	}
	returned = true
	w.cancelScope.obey()
}

// do calls the body for the span's items lo to hi-1.
func (s *span) do(w *Worker, lo, hi int) {
	if s.mirror != 0 {
		lo, hi = s.mirror-hi, s.mirror-lo
	}
	s.body(w, lo, hi)
}

// over says whether the loop ends early.
func (s *span) over(w *Worker) bool { return s.stop.Load() || w.cancelScope.tell() != nil }

// share runs the span chunk by chunk. It gives away part of the rest whenever the pool is hungry
// and thieves can find no other part of a loop on this worker.
func (s *span) share(w *Worker, forks *frames[span, struct{}]) {
	p := w.pool
	for s.parts > 1 && s.hi-s.lo > 1 {
		s.parts = (s.parts + 1) / 2
		s.give(s.lo+(s.hi-s.lo)/2, forks)
	}
	start := heist.Ticks()
	for s.lo < s.hi && !s.over(w) {
		if p.core.Sleep.Hungry() && !forks.visible() {
			for n := s.pace.Parts(s.hi-s.lo, max(p.idle(), 1), &p.ticks.loop); n > 0 && s.give(s.lo+(s.hi-s.lo)/2, forks); n-- {
			}
			start = heist.Ticks() // the time of a wake-up is not that of the items
		}
		next := s.lo + s.pace.Next(s.hi-s.lo)
		s.do(w, s.lo, next)
		now := heist.Ticks()
		w.cancelScope.poll(w, now)
		s.pace.Measured(next-s.lo, now-start, w.merging, &p.ticks.loop)
		w.merging = 0
		if s.few != 0 && s.lo == 0 {
			p.judge(s.few, now-start, next, s.items)
		}
		start, s.lo = w.giveWayIfDue(now), next
	}
}

// divide gives away half of the span until it has no more items than the grain, and runs those.
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
		if chunks > 1 { // no seat is free
			next = s.lo + s.grain
		}
		s.do(w, s.lo, next)
		if w.cancelScope != nil { // without a free seat nothing is forked, and only forks would look
			w.cancelScope.poll(w, heist.Ticks())
		}
		w.merging, s.lo = 0, next
	}
}

// give gives away the items from mid on, unless no seat is free. It says whether it did.
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

// free frees the seat of a part that was given away and is done or taken back.
func (s *span) free() {
	if s.limited {
		s.seats.Add(1)
	}
}
