package par

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
)

// Scan puts the running totals of s into out: out[i] is s[0] op s[1] op ... op s[i]. op must be associative, and must not
// change what its arguments refer to. out must be as long as s, and may be s, but must not overlap it
// otherwise, which is not checked.
//
// If op is one operation, take the range form, [ScanRange], or [Sums]: the calls make Scan of integers take two to four times as long as a plain loop on one worker.
//
// Where s is divided depends on how many workers are idle. So if op rounds, as an addition of floats does, the last bits of
// the totals may differ from call to call. [Sums] adds floats in an order that depends on their number alone.
func Scan[T any](at pool.Place, out, s []T, op func(T, T) T) error {
	if op == nil {
		return errNilFunc("Scan")
	}
	if len(out) != len(s) {
		return errLengths("Scan", "results", len(out), "elements", len(s))
	}
	first := func(lo, hi int) T {
		total := s[lo]
		out[lo] = total
		for i := lo + 1; i < hi; i++ {
			total = op(total, s[i])
			out[i] = total
		}
		return total
	}
	if 0 < len(s) && len(s) <= fewElements {
		return alone(at, func() { first(0, len(s)) })
	}
	return scan[T]{
		first: first,
		total: func(lo, hi int) T {
			total := s[lo]
			for _, e := range s[lo+1 : hi] {
				total = op(total, e)
			}
			return total
		},
		rest: func(before T, lo, hi int) T {
			out := out[lo:hi]
			for i, e := range s[lo:hi] {
				before = op(before, e)
				out[i] = before
			}
			return before
		},
		op: op,
	}.run(at, len(s))
}

// ScanRange is [Scan] for the indices 0 to n-1. total returns the total of those from lo to hi-1; total(0, 0) must be
// neutral. scanPart gets before, the total of all before lo, does what is to be done with the running totals from lo to hi-1,
// and returns the total of all before hi. op must be associative; results that are rounded differ as those of Scan do.
//
// A range has 64 indices at first, and later as many as take some 20 microseconds, or more if each call has a cost of its own.
func ScanRange[T any](at pool.Place, n int, total func(lo, hi int) T, op func(a, b T) T, scanPart func(before T, lo, hi int) T) error {
	if total == nil || op == nil || scanPart == nil {
		return errNilFunc("ScanRange")
	}
	return scanRange(total, op, scanPart).run(at, n)
}

func scanRange[T any](total func(lo, hi int) T, op func(a, b T) T, scanPart func(before T, lo, hi int) T) scan[T] {
	return scan[T]{
		calls: true,
		first: func(_, hi int) T { return scanPart(total(0, 0), 0, hi) },
		total: total,
		rest:  scanPart,
		op:    op,
	}
}

// Sums puts the running sums of s into out: out[i] is s[0] + s[1] + ... + s[i]. out must be as long as s, and may be s,
// but must not overlap it otherwise. Floats are added in an order that depends on the length of s alone.
func Sums[E Number](at pool.Place, out, s []E) error {
	if len(out) != len(s) {
		return errLengths("Sums", "results", len(out), "elements", len(s))
	}
	if len(s) <= shortSums { // in the caller alone: nothing here can panic
		err := pool.Do(at)
		if err == nil {
			runningSums(out, s, 0)
		}
		return err
	}
	b := blocksOf(len(s), sumsBlock)
	blocks := scanRange(
		func(i, end int) (total E) {
			if i < end {
				lo, hi := b.at(i)
				total = sum(s[lo:hi])
			}
			return total
		},
		func(a, b E) E { return a + b },
		func(before E, i, _ int) E {
			lo, hi := b.at(i)
			if E(1)/2 == 0 { // nothing is rounded
				return runningSums(out[lo:hi], s[lo:hi], before)
			}
			return before + sums(out[lo:hi], s[lo:hi], before)
		})
	blocks.single = true
	return blocks.run(at, b.count())
}

// runningSums puts before plus the running sums of s into out, and returns the last one.
func runningSums[E Number](out, s []E, before E) E {
	out = out[:len(s)]
	for i, e := range s {
		before += e
		out[i] = before
	}
	return before
}

// sums puts before plus the running sums of s into out, and returns the sum of s as sum does. The running sums are one
// chain of additions, beside which a processor makes the others for nothing.
func sums[E Number](out, s []E, before E) E {
	var a, b, c, d E
	for out = out[:len(s)]; len(s) >= 4; s, out = s[4:], out[4:] {
		e, f, g, h := s[0], s[1], s[2], s[3] // out may be s
		a, b, c, d = a+e, b+f, c+g, d+h
		e += before
		f += e
		g += f
		before = g + h
		out[0], out[1], out[2], out[3] = e, f, g, before
	}
	for i, e := range s {
		a += e
		before += e
		out[i] = before
	}
	return a + b + (c + d)
}

// scan is what a scan does with parts of the range, none of which is empty.
type scan[T any] struct {
	first  func(lo, hi int) T           // scans the beginning of the range and returns its total
	total  func(lo, hi int) T           // the total of a part
	rest   func(before T, lo, hi int) T // scans what comes after that total, and returns the total of both
	op     func(a, b T) T
	calls  bool // a call of total or rest may have a cost of its own
	single bool // a part is one index
}

const (
	// shortSums is how many elements of [Sums], of which each takes a third of a nanosecond, are not worth a wake-up.
	shortSums = 1 << 16
	// sumsBlock is the least number of elements of a block of [Sums]: some microseconds.
	sumsBlock = 1 << 13
	// After probeScan a scan has measured enough to know whether its rest takes worthScan. Two workers save a third of that, and a wake-up takes up to
	// 85 microseconds.
	probeScan, worthScan = 15 * time.Microsecond, 200 * time.Microsecond
	// The first part has firstPart elements, and later ones take about partTime: after each its worker looks whether it has to end early.
	firstPart = 64
	partTime  = 20 * time.Microsecond
	// As long as parts that are four times as long take less than fallingCost for each index, a cost of the calls is 5% of a part's or more.
	fallingCost = 0.9
	// A worker that finds nobody behind the front sums up so many parts at once: 2^16 numbers, whose sums go into another slice, are then
	// in its cache. Those that follow it sum up one part at a time, since the front comes soon. With one part always, or with so many always, two
	// workers took 0.87 and 0.77 of a serial scan's time, and with this 0.74 (floats, 3 to 11 ns an element).
	behindParts = 4
)

// run scans the range: its beginning alone, and then with the workers that are idle, if that is worth it.
func (s scan[T]) run(at pool.Place, n int) error {
	if n <= 0 {
		return For(at, n, func(int) {})
	}
	return pool.Do(at, func(w *pool.Worker) {
		first := min(firstPart, n)
		if s.single {
			first = 1
		}
		begun := heist.Ticks()
		r := &running[T]{scan: s, n: n, front: first, before: s.first(0, first), length: first, least: first}
		r.measured(first, heist.Ticks()-begun)
		for r.front < n {
			if r.scanFront(w); heist.Ticks()-begun >= heist.TicksIn(probeScan) {
				r.helpers = r.helpersWorth(w.Idle())
				break
			}
		}
		each(w, 1+r.helpers, func(w *pool.Worker, _ int) { r.work(w) })
	})
}

// running is a scan that some workers do together. The **front** is the end of what is scanned, or is being scanned by the one worker at the front, from
// the beginning on. That worker knows the total before, so it touches its elements once. Others compute the totals of parts **behind** the
// front, and leave as much before these parts as the worker at the front scans meanwhile. When the front comes to such parts it jumps over those
// whose totals are known: they are **ready** to be scanned, best by the workers that have them in their caches. So two workers need two thirds of a
// serial scan's time if a total takes as long as a scan, and k of them 2/(k+1). No worker waits for another one, and one that comes late or is held up costs only its
// own time.
//
// To divide the whole range beforehand, in three parts for two workers, touches as many elements twice. But all wait for the worker that comes last, and
// if memory is what limits a scan, what is touched twice is fetched twice.
type running[T any] struct {
	scan[T]
	n       int         // constant
	helpers int         // constant once there may be others
	stop    atomic.Bool // a worker was unwound; it writes

	before T // the total of all before the front; belongs to the worker at the front, and is under mu while there is none

	mu      sync.Mutex
	front   int
	atFront bool        // a worker is there
	length  int         // of what it takes at a time
	least   int         // length is not less: shorter parts were dearer for each index
	took    float64     // the last part at the front, for each index, in heist.Ticks
	behind  []*piece[T] // without gaps
	ready   []*piece[T]
}

// piece is a part of the range.
type piece[T any] struct {
	lo, hi int
	total  T    // the worker that took the part writes it before summed
	summed bool // under running.mu
	before T    // the total of all before the part; the worker at the front writes it before the part is ready
}

// work is the loop of a worker. It returns when all has been taken: who changes what there is to take comes back here.
func (r *running[T]) work(w *pool.Worker) {
	returned := false
	defer func() {
		if !returned {
			r.stop.Store(true)
		}
	}()
	for own := (*piece[T])(nil); !r.stop.Load(); { // a scan that is whole is no error, so a worker looks for the end of the call when it has taken something
		if p := r.takeReady(own); p != nil {
			own = nil
			w.Checkpoint()
			r.rest(p.before, p.lo, p.hi)
		} else if r.scanFront(w) {
			own = nil
		} else if own = r.takeBehind(); own != nil {
			w.Checkpoint()
			own.total = r.scan.total(own.lo, own.hi)
			r.summedUp(own)
		} else {
			break
		}
	}
	returned = true
}

// takeReady takes a part that is ready: own, if that is.
func (r *running[T]) takeReady(own *piece[T]) *piece[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ready) == 0 {
		return nil
	}
	i := max(slices.Index(r.ready, own), 0)
	p := r.ready[i]
	r.ready = slices.Delete(r.ready, i, i+1)
	return p
}

// helpersWorth returns how many of the idle workers may help with the rest, by the time that the last part took: what came before it is no measure, as it may
// have come from afar. One other worker saves a third at most, and where elements take less than a nanosecond that is lost again: what a core reads and
// writes then is as much as two of them get from a shared cache. On a machine with two near cores, sums of 10^6 int64 by two workers took 1.1 to 1.4 of the serial scan.
func (r *running[T]) helpersWorth(idle int) int {
	each := r.took / float64(heist.TicksIn(time.Second)) * 1e9
	if idle == 1 && !r.single && each < 1 || each*float64(r.n-r.front) < float64(worthScan) {
		return 0
	}
	return idle
}

// scanFront scans a part at the front, unless another worker is there, or all up to the part behind it has been taken.
func (r *running[T]) scanFront(w *pool.Worker) bool {
	lo, hi, ok := r.takeFront()
	if ok {
		w.Checkpoint()
		begun := heist.Ticks()
		r.before = r.rest(r.before, lo, hi)
		r.leaveFront(hi-lo, heist.Ticks()-begun)
	}
	return ok
}

func (r *running[T]) takeFront() (lo, hi int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lo, hi = r.front, r.n
	if len(r.behind) > 0 {
		hi = r.behind[0].lo
	}
	if r.atFront || lo == hi {
		return 0, 0, false
	}
	hi = lo + min(hi-lo, r.length)
	r.atFront, r.front = true, hi
	return lo, hi, true
}

// takeBehind takes a part for its total. The last parts are short, since nobody comes back who has left.
func (r *running[T]) takeBehind() *piece[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	lo, most := r.front, r.length
	if n := len(r.behind); n > 0 {
		lo = r.behind[n-1].hi
	} else if !r.single {
		most *= behindParts
	}
	length := min(most, (r.n-lo)/(r.helpers+2))
	if len(r.behind) == 0 {
		lo += length
	}
	if length < min(r.length, firstPart) {
		return nil
	}
	p := &piece[T]{lo: lo, hi: lo + length}
	r.behind = append(r.behind, p)
	return p
}

// leaveFront is called by the worker that has scanned a part at the front.
func (r *running[T]) leaveFront(length int, took int64) {
	r.mu.Lock()
	r.measured(length, took)
	r.jump()
	r.mu.Unlock()
}

// measured notes how long a part at the front took, and sets the length of the next ones. Under mu, or while the caller is alone.
func (r *running[T]) measured(length int, took int64) {
	before := r.took
	r.took = float64(took) / float64(length)
	target := heist.TicksIn(partTime)
	if r.single || length < r.length { // the end of what there was
		return
	}
	grows := took < target/4
	if r.calls && (before == 0 || r.took < fallingCost*before) {
		if grows = true; before > 0 {
			r.least = length
		}
	}
	switch {
	case grows:
		r.length += 3 * min(r.length, (r.n-r.length)/3)
	case took > 2*target:
		r.length = max(r.least, r.length/2)
	}
}

func (r *running[T]) summedUp(p *piece[T]) {
	r.mu.Lock()
	if p.summed = true; !r.atFront {
		r.jump()
	}
	r.mu.Unlock()
}

// jump moves the front over all parts whose totals are known. Under mu, of which it lets go meanwhile.
func (r *running[T]) jump() {
	for r.atFront = true; len(r.behind) > 0 && r.behind[0].lo == r.front && r.behind[0].summed; {
		p := r.behind[0]
		p.before = r.before
		r.mu.Unlock()
		r.before = r.op(p.before, p.total) // it may panic, or take long
		r.mu.Lock()
		r.behind, r.front = r.behind[1:], p.hi
		r.ready = append(r.ready, p)
	}
	r.atFront = false
}

// cut returns the range of a part of n items.
func cut(n, part, parts int) (lo, hi int) {
	at := func(part int) int { return n/parts*part + min(part, n%parts) }
	return at(part), at(part + 1)
}

// each is a loop of few, long items. One of none is no call at the worker, so it does not fail where all is done and the context has ended.
func each(w *pool.Worker, n int, f func(w *pool.Worker, i int)) {
	switch n {
	case 0:
		return
	case 1:
		f(w, 0)
		return
	}
	must(pool.ForRange(w, n, func(w *pool.Worker, lo, _ int) { f(w, lo) }, pool.Grain(1)))
}

// ranges is ForRange, but runs a short range in the caller alone. f takes about a nanosecond for an element: it looks at keys, or moves what is
// small.
func ranges(w *pool.Worker, n int, f func(lo, hi int)) { rangesFrom(shortRange, w, n, f) }

// shortRange takes some 20 us. A second worker saves half of that, and takes as long to wake up and to be waited for: sorts of 10^4 elements that
// are in order took 1.2 to 2.2 of the serial ones where ranges from radixLeaf on were divided, and 1.0 to 1.8 so (bench algos/grid-sort, grid-by).
const shortRange = 4 * radixLeaf

// shortMoves is shortRange for an f that moves elements of type E.
func shortMoves[E any]() int {
	if unsafe.Sizeof(*new(E)) > smallElement {
		return radixLeaf
	}
	return shortRange
}

// rangesFrom is ranges for an f that may take longer, with the length up to which a range is short.
func rangesFrom(short int, w *pool.Worker, n int, f func(lo, hi int)) {
	if n <= short {
		f(0, n)
		return
	}
	must(pool.ForRange(w, n, f))
}
