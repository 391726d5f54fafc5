package pool

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/numa"
)

// # Neighbours
//
// A worker that always has something to do holds its P, and on that P no timer fires and no network event is seen
// until Go preempts the worker, after 10 ms. The other goroutines of the process wait that long, and a queue of
// them longer.
//
// So a worker that is an ordinary goroutine calls runtime.Gosched now and then. The call costs 0.2 microseconds,
// and the P looks after its timers and the goroutines that are ready. But if a P is idle, the call costs 20
// microseconds, because Gosched wakes a thread for the idle P, and it is of no use: the last thread that went to
// sleep wakes up for the network and for the timers of all Ps. So a pool that computes on fewer Ps than there are,
// or has a searcher on one, gives way seldom. For the network Gosched is not enough (network_linux.go).
//
// For a worker that is locked to its thread the same call costs two thread switches, 70 microseconds on a virtual
// machine, whether a goroutine waits or not. It does not help to ask runtime/metrics first, in 0.1 microseconds,
// how many goroutines wait for a P: a goroutine whose timer has not fired does not wait yet. So locked workers
// leave it to Go. A program that cannot accept that uses [PinNone], or [Tuning].FreePs.
//
// Workers give way between two tasks, between two chunks of a loop, between two children of a scope or values of a sequence
// (betweenPieces), in Yield, at some forks (fork.go, "Giving way"), and when they wake a helper (wakeHelper).

const (
	// giveWayPeriod is how often an unlocked worker gives way; earlier points do nothing. Giving way takes one
	// percent of the time. SpareGiveWayPeriod is the period of a pool that leaves Ps to spare, where other
	// goroutines may compute.
	giveWayPeriod      = 25 * time.Microsecond
	spareGiveWayPeriod = 2 * time.Millisecond
	// Where other goroutines compute, a worker that gives way waits for as long as they do. If they sleep now and
	// then, it waits for Go's slice of 10 ms, because goroutines whose timers fire go before those that are ready,
	// again and again. So a worker that waited for longer than longTurn does not give way for
	// backoffFactor times as long, but for no longer than maxTurn.
	//
	// Measured with a loop of 130 us every 200 us, beside four goroutines that compute for 40 us and sleep for 20
	// in turn, on two CPUs: with a maxTurn of 10 ms the loop took 0.9 ms in the mean and 0.46 at the median, with
	// 100 ms 0.45 and 0.14; an even split among goroutines takes 0.43 and 0.2. With a factor of 32 after 50 us
	// the mean is 0.2, but a network's echo beside a saturating loop comes after 20 ms instead of 1. If workers
	// never give way in the first 200 us of a loop, the two are 0.35 and 0.13, but transforms of four callers (bench
	// mixed/ntt-14-4) take 1.25 of goroutines' time instead of 1.05.
	longTurn      = 200 * time.Microsecond
	backoffFactor = 8
	maxTurn       = 100 * time.Millisecond
	// With a guest, more of a pool compute than there are Ps, and one waits for the other. If such a turn were taken for one of other goroutines, each would
	// keep its P for 8 times as long as the one before. But without any backoff the pool would have little of its Ps beside other goroutines that compute
	// (docs/design.md). So a turn is shortened, for each that waits, by ownTurns times the stint of the worker or guest that gave way meanwhile:
	// the time for which it had had its P.
	ownTurns = 2
	// networkPeriod is how often one worker of a pool looks at the network.
	networkPeriod = 100 * time.Microsecond
	// asidePeriod is how often one worker of a pool steps aside, at most. The runtime's lock can be taken some millions of times a second.
	asidePeriod = 500 * time.Nanosecond
	// turnTime is how long a Yield waits for the turn of another worker: a few wake-ups.
	turnTime = 100 * time.Microsecond
)

// rounds are a pool's looks at the rest of its process. Times are in heist.Ticks.
type rounds struct {
	network    atomic.Pointer[network] // nil until it is needed; a worker writes, once
	networkDue atomic.Int64            // when the next look at it is due; the worker that takes the turn writes
	followDue  atomic.Int64            // when the next look at GOMAXPROCS is due; the goroutine that looks writes
	ps         atomic.Int32            // GOMAXPROCS at the last such look; the same goroutine writes
	yieldAgain atomic.Int64            // until when no worker yields its CPU; a worker whose yield was dear writes, see searcher.Yield. An estimate, without order
	stint      atomic.Int64            // the last one, where more compute than there are Ps; who gives way writes, and has read this line before. An estimate, without order
}

// manners is what a worker remembers of giving way, in heist.Ticks. Owner only.
type manners struct {
	gaveWayAt    int64 // when giveWay was last considered
	backoffUntil int64 // it does not give way before this time
	asideAfter   int64 // it does not step aside before this time
	woke         bool  // its last job ended the wait of a goroutine, which is now the next one on its P
	ran, ranTask bool  // it has run a job, or a task, since it stepped aside or slept

	pieces struct {
		left, stride int   // until it looks at the clock again; from one look to the next
		lookedAt     int64 // or when it had its P again
	}
}

// longestStride is how many pieces a worker runs between two looks at the clock, at most.
const longestStride = 16

// betweenPieces gives way if it is time. Pieces are children of a scope, and values and batches of a sequence: nobody knows how long one
// takes, and a look at the clock costs as much as a short one. Cost: a nanosecond.
func (w *Worker) betweenPieces() {
	if w.pieces.left--; w.pieces.left <= 0 {
		w.giveWayBetweenPieces()
	}
}

// giveWayBetweenPieces gives way if it is time, and decides after how many pieces to look at the clock again.
//
//go:noinline
func (w *Worker) giveWayBetweenPieces() {
	m, now, period := &w.pieces, heist.Ticks(), w.pool.ticks.giveWay
	if took := max(now-m.lookedAt, 1); took < period/2 {
		m.stride = min(2*m.stride, longestStride)
	} else {
		m.stride = max(int(int64(m.stride)*period/took), 1)
	}
	m.left, m.lookedAt = m.stride, w.giveWayIfDue(now)
}

// giveWay lets other goroutines have the worker's P, if that is cheap and was not done just now.
func (w *Worker) giveWay() { w.giveWayIfDue(heist.Ticks()) }

// giveWayIfDue is giveWay for a caller that knows the time. It returns the time afterwards.
func (w *Worker) giveWayIfDue(now int64) (after int64) {
	if now-w.gaveWayAt < w.pool.ticks.giveWay {
		return now
	}
	if w.gaveWayAt == 0 { // a guest that came just now
		w.gaveWayAt = now
		return now
	}
	p := w.pool
	p.follow(now)
	if w.core.Parker.Locked() || now < w.backoffUntil || now-w.gaveWayAt < p.ticks.spareGiveWay && p.sparesPs() {
		return now
	}
	if w.pollNetwork(now) {
		w.hasGivenWay()
	} else {
		w.gosched(now)
	}
	return w.gaveWayAt
}

// loners are the callers that run a loop alone, as no guests, though it takes longer than aloneTime. Where callers fill the Ps, one of these gives way on each
// CPU in each giveWayPeriod: with four that called loops of 60 us in a row timers were 18 ms late in the median, and are 30 us late. It is the CPU that counts
// and not the caller, whose loops may be shorter, nor all callers together, since a P that waits for its timers is not helped by a turn on another one. A
// caller does so near its loop's beginning: in the middle, what waits for the loop would wait for a turn of all other goroutines as well.
type loners struct {
	_       pad.Line
	callers atomic.Int32 // so many; each adds and subtracts itself. An estimate for who reads it, without order
	turns   []lastTurn   // by CPU; constant
	_       pad.Line
}

// lastTurn is when a caller last gave way on a CPU, or on one of those that share it. The callers that run there write it, without order: a turn more or
// less does no harm.
type lastTurn struct {
	_  pad.Line
	at atomic.Int64
	_  pad.Line
}

// turnCPUs is how many CPUs have a lastTurn of their own.
const turnCPUs = 64

// giveWay lets other goroutines have the caller's P, if it is time. It returns the time afterwards.
func (l *loners) giveWay(p *Pool, now int64) (after int64) {
	turn := &l.turns[uint(numa.CurrentCPU())%uint(len(l.turns))]
	if now-turn.at.Load() < p.ticks.giveWay || !p.crowded() {
		return now
	}
	turn.at.Store(now)
	runtime.Gosched()
	return heist.Ticks()
}

// gosched lets other goroutines have the worker's P.
func (w *Worker) gosched(now int64) {
	p, stint := w.pool, now-cmp.Or(w.gaveWayAt, now) // none of a guest that came just now
	excess := p.excess()
	if excess > 0 {
		p.stint.Store(stint)
	}
	runtime.Gosched()
	w.hasGivenWay()
	took := w.gaveWayAt - now
	if excess > 0 { // the stint is another's if another one of the pool has given way meanwhile
		if others := p.stint.Load(); others != stint {
			took -= int64(ownTurns*excess) * others
		}
	}
	if took > p.ticks.longTurn {
		w.backoffUntil = w.gaveWayAt + min(backoffFactor*took, p.ticks.maxTurn)
	}
}

// stepAside is called by a worker that is about to search, or to yield its thread and then to sleep. The jobs that it has run may have made goroutines ready
// with which heist has nothing to do: one that waits for a lock, a channel or a sync.WaitGroup. These are the next ones on its P, and another
// thread would take them only after usleep(3), 50 microseconds and more. Most tasks have somebody waiting for them. For what may be no more than part of a loop the
// worker does this only while no P is idle: Gosched wakes a thread for one that is, in vain unless a goroutine waits.
//
// A Gosched takes a lock of the runtime's. So all workers together do this once in asidePeriod. And a worker whose turn does not come soon is
// not there for a task that comes meanwhile; a parked one would be the next on the submitter's P. So long turns take a tenth of the time at most, and a worker that
// may not step aside sleeps (owesP). stepAside says whether it did so.
func (w *Worker) stepAside() (did bool) {
	if !w.ran || w.core.Parker.Locked() {
		return false
	}
	now := heist.Ticks()
	if now < w.asideAfter {
		return false
	}
	w.ran, w.ranTask = false, false
	w.gosched(now)
	w.asideAfter = w.gaveWayAt + int64(w.pool.core.Size())*w.pool.ticks.aside
	if took := w.gaveWayAt - now; took > w.pool.ticks.longTurn {
		w.asideAfter = w.gaveWayAt + 10*took
	}
	return true
}

// hasGivenWay notes that the worker has given way, and has a P again.
func (w *Worker) hasGivenWay() {
	w.gaveWayAt = heist.Ticks()
	if w.hasPlace() {
		w.gaveWay.Add(1)
	}
}

// sparesPs says whether some P has nothing to do: it is idle, or a searcher runs on it, which gives it up soon.
func (p *Pool) sparesPs() bool {
	state := p.core.Sleep.Load()
	return state.Searching() > int(p.core.Woken.Load()) || p.core.Size()-state.Sleepers() < int(p.ps.Load())
}

// excess returns how many more workers and guests of the pool compute than there are Ps. So many wait for a P, or are about to.
func (p *Pool) excess() int {
	return p.core.Size() - p.core.Sleep.Load().Sleepers() - int(p.ps.Load())
}

// crowded says whether as many callers compute as there are Ps, so that a worker would wait for one.
func (p *Pool) crowded() bool {
	state, alone, ps := p.core.Sleep.Load(), int(p.loners.callers.Load()), int(p.ps.Load())
	return state.Guests()+alone >= ps && p.core.Size()-state.Sleepers()-state.Searching()+alone >= ps
}

// pollNetwork lets the worker's P poll the network, if the pool's next look at the network is due and finds an
// event for a goroutine. It says whether it did.
func (w *Worker) pollNetwork(now int64) bool {
	p := w.pool
	due := p.networkDue.Load()
	if now < due || !p.networkDue.CompareAndSwap(due, now+p.ticks.network) {
		return false
	}
	n := p.network.Load()
	if n != nil {
		return n.poll()
	}
	if w.core.Guest || w.afterEnd || p.inBubble { // Close waits for neither; in a bubble the goroutine would belong to it
		return false
	}
	ended := p.core.BeforeEnd()
	n, err := newNetwork(ended)
	if err != nil { // the process may open no more files
		ended()
	} else if !p.network.CompareAndSwap(nil, n) || p.core.Exits() { // end sets exit before it looks for n
		n.stop()
	}
	return false
}

// freePs changes GOMAXPROCS by what a pool asks for, or gives back. When no pool asks for anything any more, the
// setting is as before the first one: the program's, or Go's default, which follows the limits of the process.
func freePs(by int) {
	if by == 0 {
		return
	}
	raised.mu.Lock()
	defer raised.mu.Unlock()
	now := runtime.GOMAXPROCS(0)
	if raised.by > 0 && now != raised.to {
		raised.by = 0 // other code has set GOMAXPROCS meanwhile, and that stands
		if by < 0 {
			return
		}
	}
	if raised.by == 0 && by > 0 {
		raised.fromDefault = isDefaultPs(now)
	}
	if by = max(by, -raised.by); by == 0 {
		return
	}
	raised.by += by
	raised.to = now + by
	if raised.by == 0 && raised.fromDefault {
		runtime.SetDefaultGOMAXPROCS()
	} else {
		runtime.GOMAXPROCS(raised.to)
	}
}

// psOfEnv is what the environment set GOMAXPROCS to at the start of the process; 0 for nothing.
var psOfEnv, _ = strconv.Atoi(os.Getenv("GOMAXPROCS"))

// isDefaultPs says whether GOMAXPROCS, which is now, is Go's default and not the program's. Go does not tell, but
// only a program sets another value. If a program sets the same value, this is wrong, which shows when the limits of
// the process change.
func isDefaultPs(now int) bool {
	if now == psOfEnv {
		return false
	}
	runtime.SetDefaultGOMAXPROCS()
	if runtime.GOMAXPROCS(0) == now {
		return true
	}
	runtime.GOMAXPROCS(now)
	return false
}

// ownPs returns GOMAXPROCS without what pools have added.
func ownPs() int {
	raised.mu.Lock()
	defer raised.mu.Unlock()
	n := runtime.GOMAXPROCS(0)
	if n == raised.to {
		n -= raised.by
	}
	return n
}

// raised is by how much all pools together have raised GOMAXPROCS, to what, and whether Go's default was in effect
// before.
var raised struct {
	mu          sync.Mutex
	by, to      int
	fromDefault bool
}

// Yield is for a long function to call now and then: it offers all forks to thieves and gives way. If tasks are
// queued, another worker begins with them in the caller's place, and the caller goes on behind the goroutines that
// are ready, after 100 microseconds at the latest: by then the task may not have begun, or not have ended. Otherwise the
// other goroutines of the process get the P, unless the worker is bound. Nothing runs on top of the caller. If the call to
// which the function belongs was cancelled, Yield unwinds, as a fork does.
//
// Cost: a look at the pool's queues and at the clock, and the time of what runs meanwhile.
func (w *Worker) Yield() {
	w.mustBeMine("Worker.Yield")
	w.cancelScope.look(w)
	w.expose()
	w.shareOwnSlot()
	for v := w.outer; v != nil; v = v.outer { // places of the same goroutine in other pools
		if v.away > 0 {
			continue
		}
		v.expose()
		v.shareOwnSlot()
		if _, _, ok := v.pool.anyWork(true); ok || !v.core.Guest && !v.hasPlace() {
			w.pool.wait("Worker.Yield", nil, runtime.Gosched)
			return
		}
	}
	if _, _, ok := w.pool.anyWork(true); ok || !w.core.Guest && !w.hasPlace() {
		w.giveTurn()
		return
	}
	if w.core.Guest && inCoroutine() { // it may call Yield again and again, for something of another pool
		w.pool.relieve()()
	}
	w.giveWay()
}

// giveTurn has another worker run a task in the worker's place. It waits for the start of the task and for its end,
// but no longer than turnTime: the task may be long, or wait for the caller in a way that heist does not see.
func (w *Worker) giveTurn() {
	end := heist.Ticks() + w.pool.ticks.turn
	if w.core.Guest {
		w.pool.wait("Worker.Yield", nil, runtime.Gosched)
		return
	}
	if w.hasPlace() {
		pl := w.place
		before := pl.tasks.Load()
		w.pool.wait("Worker.Yield", nil, func() {
			for pl.tasks.Load() == before && heist.Ticks() < end {
				runtime.Gosched()
			}
		})
	}
	for !w.hasPlace() && heist.Ticks() < end {
		runtime.Gosched()
	}
}
