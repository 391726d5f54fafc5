package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/census"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/pool/inspect"
)

func errNilFunc(method string) error {
	return fmt.Errorf("pool: %s was given a nil function", method)
}

func errLengths(function, some string, n int, others string, m int) error {
	return fmt.Errorf("pool: %s was given %d %s and %d %s; there must be as many", function, n, some, m, others)
}

func errNilContext(method string) error {
	return fmt.Errorf("pool: %s was given a nil context; use context.Background() for one that does not end", method)
}

var errNoPlace = errors.New("pool: a call was given nil as its place; it must be a *Pool, a *Worker, or what their With returns")

var errNoPool = errors.New("pool: the pool or worker is nil, or a pool that was not made by New")

// Pool is a set of workers: goroutines or, where that is asked for, threads that are bound to CPUs, see [Pinning]. Create
// a pool with [New] and end it with [Pool.Close]; a pool that is dropped without Close keeps its idle workers for ever.
// Any goroutine may call the methods.
type Pool struct {
	config // constant

	// places holds the places of the first workers, then those that [Pool.Resize] adds. Those that core.Pool.Places has
	// have been made, see victims, and are constant.
	places []*place
	first  int // initial number of workers; constant

	layout         // constant
	ticks  periods // constant

	isolation  *heist.Isolation // nil for none; New writes
	unrestored error            // why the isolation could not be ended; written before closed is closed, by the same goroutine

	shared bool // it is the pool of Default or Serial; constant

	refuses  chan struct{} // closed at the beginning of Close
	abandons chan struct{} // closed at the beginning of Abort
	closed   chan struct{} // closed at the end of Close

	aborted atomic.Bool // Abort writes, once
	gaveUp  atomic.Bool // the call that owned the end gave up, and no other one has taken it over; these calls write, see beginClose

	sealing sync.Mutex
	sealed  bool // the pool refuses tasks from inside; drain writes, under sealing

	core core.Pool

	_ pad.Line

	urgent atomic.Int64 // queued tasks of high priority; submitters add, takers subtract

	_ pad.Line

	// These fields change now and then.

	rounds // looks at the rest of the process
	counts

	relief    relief   // of a pool in a bubble
	backlogs  backlogs // groups whose functions wait for turns
	delays    sync.Map // *delay -> nil; the delays that have not ended
	watched   sync.Map // Awaitable -> nil; futures that Abort has to complete, see compose.go
	room      room
	admission admission
	slow      slowTasks
	workers   workerList
	monitor   monitor
	guard     guard

	_ pad.Line // workers read habits for each task, and what is above changes

	habits  habits
	lengths lengths
	loners  loners
}

// counts has the numbers of what does not go the usual way of a task.
type counts struct {
	delayed     atomic.Int64 // tasks that wait for their time or for futures, and broadcasts; submitters, timers and those who complete futures write
	begunDelays atomic.Int64 // how often delayed has grown; who adds to it adds here next
	cancelled   atomic.Int64 // cancelled calls that are not over; the canceller adds, the end of the call subtracts
	skipped     atomic.Int64 // tasks that were cancelled before they began; the goroutine that skips one writes
	beside      atomic.Int64 // tasks that began in a worker without a place; the goroutine that hires it adds
	dropped     atomic.Int64 // accepted tasks that no worker will take; a cancelled delay, a dropped backlog and Abort add
	refused     atomic.Int64 // tasks that were not accepted; the goroutine that refuses one writes
	turnedAway  atomic.Int64 // callers that were not admitted; likewise
	late        atomic.Int64 // tasks that were not begun by their deadline; the worker that finds one writes
	panicked    atomic.Int64 // functions that panicked; the goroutine that recovers the panic writes
	stale       atomic.Int64 // queued tasks whose futures ran in place or were cancelled; waiters and cancellers add, takers subtract
}

// periods are times that the pool's files name, in heist.Ticks.
type periods struct {
	giveWay, spareGiveWay, maxTurn, longTurn, network, follow, turn, aside int64
	rebind, look, shortLook, longLook, stealOn                             int64
	leastWakeCost, mostWakeCost, mostInARow, inARow, monitor               int64
	dearYield, noYield                                                     int64
	loop                                                                   policy.PaceTimes
	perNanosecond                                                          float64
}

// New starts a pool. Without options it has a worker for each P (GOMAXPROCS), but no more than there are CPUs that
// the process may use, and binds none. When GOMAXPROCS changes (Go adapts it to the limits of a
// container), or the CPUs that the process may use do (its cpuset changes), the number of workers follows within
// 100 milliseconds while the pool has work; in an idle pool it follows at the first work, or call of [Pool.Workers], that
// comes 100 milliseconds after the last look. [Pool.Resize] chooses a number for good. Bound workers stay bound to
// the CPUs that there were at first, and there are never more of them than of these.
func New(options ...Option) (*Pool, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	p := makePool(c)
	freePs(c.freePs)
	ready := make(chan error, p.first)
	for _, pl := range p.places[:p.first] {
		w := p.newWorker(pl.core.Placement())
		if !w.core.Parker.Locked() && p.cpus != nil {
			err = core.ErrTooManyBound
		}
		w.core.Grant(&pl.core)
		go w.start(ready)
	}
	for range p.first {
		if e := <-ready; e != nil {
			err = e
		}
	}
	if err != nil {
		err = fmt.Errorf("pool: a worker could not be started: %w", err)
	} else if p.isolate {
		if p.isolation, err = heist.Isolate(p.cpus...); err != nil {
			err = fmt.Errorf("pool: Tuning.Isolate: %w; a pool with fewer workers (WithWorkers) or CPUs (WithCPUs) leaves some", err)
		}
	}
	if p.slowAfter > 0 {
		go p.watchTasks() // end waits for it
	}
	if err != nil {
		p.core.Closing.Store(true)
		p.end()
		return nil, err
	}
	census.Add(p, p.inBubble)
	return p, nil
}

// makePool makes a pool without starting its workers.
func makePool(c *config) *Pool {
	p := &Pool{
		config: *c,
		first:  c.workers,

		ticks: periods{
			giveWay: heist.TicksIn(giveWayPeriod), spareGiveWay: heist.TicksIn(spareGiveWayPeriod),
			maxTurn: heist.TicksIn(maxTurn), longTurn: heist.TicksIn(longTurn), turn: heist.TicksIn(turnTime), aside: heist.TicksIn(asidePeriod),
			network: heist.TicksIn(networkPeriod), follow: heist.TicksIn(followPeriod), rebind: heist.TicksIn(rebindPeriod),
			look: heist.TicksIn(lookPeriod), shortLook: heist.TicksIn(shortLook), longLook: heist.TicksIn(longLook), stealOn: heist.TicksIn(stealOnLook),
			leastWakeCost: heist.TicksIn(leastWakeCost), mostWakeCost: heist.TicksIn(mostWakeCost), mostInARow: heist.TicksIn(mostInARow), inARow: heist.TicksIn(inARow),
			monitor:   heist.TicksIn(monitorPeriod),
			dearYield: heist.TicksIn(dearYield), noYield: heist.TicksIn(noYield),
			loop:          policy.PaceTimes{Alone: heist.TicksIn(aloneTime), Chunk: heist.TicksIn(chunkTime)},
			perNanosecond: float64(heist.TicksIn(time.Second)) / 1e9,
		},

		refuses:  make(chan struct{}),
		abandons: make(chan struct{}),
		closed:   make(chan struct{}),
	}
	p.relief.only = p
	p.loners.turns = make([]lastTurn, min(runtime.NumCPU(), turnCPUs))
	p.lengths.wakeCost.Store(p.ticks.leastWakeCost)
	p.lengths.wantedAt.Store(-p.ticks.inARow)
	p.admission.Most = p.callers
	p.slow.stop, p.slow.over = make(chan struct{}), make(chan struct{})
	p.makeMonitor()
	p.room.made = make(chan struct{}, 1)
	p.ps.Store(int32(runtime.GOMAXPROCS(0)))
	p.places = make([]*place, p.maxWorkers)
	placements := p.layOut()
	p.victimOrder = p.newOrder(placements)
	if !p.looksGiven && len(p.victimOrder.Tiers) == 1 {
		p.search.Uniform = 0
	}
	p.core.Init(core.Config{
		Host: (*host)(p), Size: p.first, Seats: p.seats, Placements: placements,
		Nearby: p.nearby(), OnCPU: p.onCPU, Hot: p.latency,
		TicksAnswer: heist.TicksIn(core.AnswerTime),
		TicksSpin:   heist.TicksIn(max(cmp.Or(c.spin, heist.DefaultSpin), 0) * 3 / 2), // with the yields
		TicksWatch:  heist.TicksIn(core.WatchTime),
	})
	return p
}

// inBubble says whether the caller is in a bubble of testing/synctest, where time stands still while any goroutine
// runs.
func inBubble() bool {
	start := time.Now()
	heist.Spin(time.Microsecond)
	return time.Since(start) == 0
}

// usable returns an error if the pool is nil or was not made by New.
func (p *Pool) usable() error {
	if p == nil || len(p.nodes) == 0 {
		return errNoPool
	}
	return nil
}

// mustBeMade panics if the pool is not usable.
func (p *Pool) mustBeMade() {
	if err := p.usable(); err != nil {
		panic(err)
	}
}

// victims returns the places that have been made: those that may have something to steal.
func (p *Pool) victims() []*place { return p.places[:len(p.core.Places())] }

// rosters returns all rosters, with their nodes.
func (p *Pool) rosters() iter.Seq2[*core.Roster, int] {
	return func(yield func(*core.Roster, int) bool) {
		for _, pl := range p.victims() {
			if !yield(&pl.core.Roster, pl.core.Node()) {
				return
			}
		}
		for node := range p.nodes {
			for i := range p.nodes[node].guests {
				if !yield(&p.nodes[node].guests[i].Roster, node) {
					return
				}
			}
		}
	}
}

// Workers returns the number of workers, which follows [Pool.Resize] at once and GOMAXPROCS a little later, see [New].
// That many workers compute at a time, and beside them guests and workers that have just come back from a wait.
func (p *Pool) Workers() int {
	p.mustBeMade()
	p.follow(heist.Ticks())
	return p.core.Size()
}

// Slots returns a number above every [Worker.ID] so far. It is also above all later IDs as long as no more workers
// wait at a time than the pool has, and no more than 64 guests call. Beyond that IDs are higher; [Local] holds data per
// worker in any case.
func (p *Pool) Slots() int {
	p.mustBeMade()
	return max(2*len(p.places)+64+core.KeptGuests*guestRosters*len(p.nodes), p.workers.len())
}

// Go queues f, which the pool runs once, and returns. It never blocks, and it returns [ErrClosed] if the pool is
// closed, see [Pool.Close]. No caller waits for f, so a panic in it ends the process, as a panic in a goroutine does, unless the pool
// has a handler ([WithPanicHandler]).
//
// Inside a task, [Worker.Go] is cheaper. For a bound, priorities or delays use [Pool.Submit].
//
// Cost: no allocation beyond the closure f. While the workers are busy it takes some tens of nanoseconds, including the run of
// an empty f; if a worker sleeps, the 5 microseconds of a wake-up come on top.
func (p *Pool) Go(f func(w *Worker)) error {
	if err := p.usable(); err != nil {
		return err
	}
	if f == nil {
		return errNilFunc("Pool.Go")
	}
	return p.enqueue(carry(f, taskOf(f), ""), PriorityNormal, p.here())
}

// near returns the worker or guest as which the caller computes. It returns nil if there is none, and where finding
// out costs more than a push to the injector.
func (p *Pool) near() *Worker {
	if goroutineIDAllocates {
		return nil
	}
	return p.computes(goroutineID())
}

// # The end
//
// From the beginning of Close the pool is closed to the outside. What accepted tasks add, and what that adds in turn, it
// accepts until all is done.
//
//  1. Close sets Closing. Who adds something looks at that first, and then whether it comes from inside: whether its
//     goroutine is a worker of the pool that runs something (Pool.inside).
//  2. drain waits until the pool is done. A worker counts as active from before it takes something until it has found all
//     queues empty, also while it waits. So what a task adds is queued before the task no longer counts. What is to be queued later
//     without a worker, a delayed task, counts in delayed. In all, something counts as long as something can be added.
//  3. drain closes the injectors. They refuse callers from outside who had looked at Closing before it was set.
//  4. Such a caller may have pushed a task just before step 3, so drain waits again. What that task adds goes to the queues
//     of its worker's place; if it has no place, or needs an injector, a worker without a place runs it at once (Pool.queue).
//  5. When the pool is done drain seals it: it refuses tasks from inside, too. No accepted task is left that could add any; but a
//     worker may steal a guest's fork at any time, and the end does not wait for guests. The lock sealing makes one step of the
//     look whether the pool is done and the seal. Who adds something looks under the lock, too, while its worker counts as active:
//     either before that step, which then finds the worker or what it has added, or afterwards.
//  6. The workers end.
//
// Abort sets a flag after Closing. From then on tasks are refused inside, too; else it would have no end.

// Close waits until everything that the pool has accepted is done, delayed tasks included, and then ends the
// workers. From the start of the call the pool accepts nothing more from outside. What accepted tasks add while they
// run is accepted, by whichever call, and so is what that adds, until all is done: after the submission of a tree's root, Close
// waits for the whole tree. Tasks that always add others keep a pool from its end; [Pool.Shutdown] bounds the wait. A
// goroutine or coroutine that a task has started is outside, and so are guests and the hooks of [WithHooks]. But a guest's
// fork that a worker has stolen runs inside. So while the pool closes, what a guest's call adds may be accepted or refused:
// see to the error.
//
// Guests that are inside [Pool.Run] finish on their own, with the calls at the pool that they make; if they need one, a worker is there for
// their forks even after Close. A paused pool resumes.
//
// Close returns when the workers have ended: nil; [ErrClosed] if it was called before; or an error if other threads
// could not be given back the CPUs of [Tuning].Isolate. Inside a task, or in a function that a call at the
// pool runs, it returns an error at once, since it might wait for itself. A loop that its caller still runs alone, as
// [ForRange] says, and so a short call of package par, is no call at the pool yet and does not hold up Close. So there
// Close ends the pool; a loop that needs the pool after that returns ErrClosed.
func (p *Pool) Close() error { return p.Shutdown(context.Background()) }

// Shutdown is [Pool.Close], but waits only until ctx ends. Then it returns an [*UnfinishedError] with what is left
// and ctx's cause. The pool goes on with the rest, and with what that adds, and its workers end when all is done. To wait again, call
// Shutdown or Close again; [Pool.Abort] gives back what has not begun. Shutdown does not wait for guests: a server
// ends its requests first.
func (p *Pool) Shutdown(ctx context.Context) error {
	first, owns, err := p.beginClose(ctx, "Shutdown")
	if err != nil {
		return err
	}
	if first {
		p.Resume()
		go p.drain()
	}
	return p.awaitEnd(ctx, owns)
}

// Closing says whether the pool is being closed, so that it refuses new work from outside, or has ended. Any goroutine may call it. Cost: a load.
func (p *Pool) Closing() bool {
	p.mustBeMade()
	return p.core.Closing.Load()
}

// Done returns a channel that is closed when the pool has ended: what it had accepted is done, or was given back by [Pool.Abort].
// Any goroutine may call it. Cost: none.
func (p *Pool) Done() <-chan struct{} {
	p.mustBeMade()
	return p.closed
}

// Aborted returns a channel that is closed when [Pool.Abort] begins. What has not begun then never does, unless Abort's caller calls it: so
// the channel is for those who wait for a task without a call that waits, as a running task may, whose pool does not end before it. Any
// goroutine may call it. Cost: none.
func (p *Pool) Aborted() <-chan struct{} {
	p.mustBeMade()
	return p.abandons
}

// beginClose makes the pool refuse all new work from outside, and says whether this call was the first to do so. If it was, the
// caller must drain the pool, after resuming it. One call owns the end, and returns nil for it: the first one, or one that has begun
// after the owner gave up.
func (p *Pool) beginClose(ctx context.Context, method string) (first, owns bool, err error) {
	if err := p.usable(); err != nil {
		return false, false, err
	}
	if ctx == nil {
		return false, false, errNilContext("Pool." + method)
	}
	if p.shared {
		return false, false, errShared
	}
	if p.serves() {
		return false, false, fmt.Errorf("pool: Close or %s was called inside a task of the same pool or a call at it, for which it may wait; call it from outside", method)
	}
	if first = p.core.Closing.CompareAndSwap(false, true); first {
		close(p.refuses)
	}
	return first, first || p.gaveUp.Swap(false), nil
}

// awaitEnd waits until the pool has ended. If ctx ends first, the error says what is left. If the owner gave up, and no call has begun
// since, a call that waits already takes the end over.
func (p *Pool) awaitEnd(ctx context.Context, owns bool) error {
	p.wait("Pool.Close or Shutdown of another pool", nil, func() {
		select {
		case <-p.closed:
		case <-ctx.Done():
		}
	})
	select {
	case <-p.closed:
	default:
		if owns {
			p.gaveUp.Store(true)
		}
		return p.unfinished(ctx)
	}
	if !owns && !p.gaveUp.Swap(false) {
		return ErrClosed
	}
	return p.unrestored
}

// WaitIdle returns when there was a moment at which the pool had nothing left to do: no task, future or function of
// a group was queued, delayed or running. What guests compute themselves does not count. If ctx ends first, it
// returns the cause. The pool goes on as before; WaitIdle waits for tasks that are submitted meanwhile, too. A task, or a
// function that a call at the pool runs, cannot wait for its own pool: WaitIdle is refused where [Pool.Close] is. A pool that has ended has
// nothing left to do.
//
// Any other goroutine may call it, any number at a time. Cost: a look at all queues whenever the last worker
// becomes idle.
func (p *Pool) WaitIdle(ctx context.Context) (err error) {
	if err := p.usable(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext("Pool.WaitIdle")
	}
	if p.serves() {
		return errors.New("pool: WaitIdle was called inside a task of the same pool or a call at it, for which it may wait; call it from outside")
	}
	p.wait("Pool.WaitIdle of another pool", nil, func() {
		if p.core.Await(ctx, p.isDone) != nil {
			err = causes.Of(ctx)
		}
	})
	return err
}

// UnfinishedError says what was left when the context of [Pool.Shutdown] ended.
type UnfinishedError struct {
	Queued  int // tasks that have not started, without functions that wait in a group because of [Group.AtMost]
	Delayed int // tasks whose time has not come, or whose futures of [After] are not done
	Running int // workers that are in a task, or look for one
	// Waiting has an entry for each task, guest and fork that waits. It says which function waits for what, such as
	// "main.handle waits in Future.Wait".
	Waiting []string
	// Snapshot is the state of the pool: all workers and guests that compute or wait, and the circles of those that
	// wait for one another.
	Snapshot inspect.Snapshot

	cause error
}

// Error says what was left.
func (e *UnfinishedError) Error() string {
	hangs := ""
	if circles := e.Snapshot.Circles; len(circles) > 0 {
		hangs = "; these wait for one another: " + strings.Join(circles, "; and these: ")
	}
	return fmt.Sprintf("pool: the wait for its end was given up (%v): %d tasks have not started, %d wait for their time, and %d workers are at work%s%s",
		e.cause, e.Queued, e.Delayed, e.Running, e.waiting(), hangs)
}

func (e *UnfinishedError) waiting() string {
	const most = 10
	switch n := len(e.Waiting); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf("; %s; and %d more", strings.Join(e.Waiting[:most], "; "), n-most)
	}
	return "; " + strings.Join(e.Waiting, "; ")
}

// Unwrap returns the cause of the context's end.
func (e *UnfinishedError) Unwrap() error { return e.cause }

func (p *Pool) unfinished(ctx context.Context) error {
	s := p.snapshot(true)
	e := &UnfinishedError{
		Queued: s.Load.Queued.Total(), Delayed: s.Load.Delayed, Running: p.core.Active(),
		Snapshot: s, cause: causes.Of(ctx),
	}
	for _, w := range s.Workers {
		if w.State == inspect.Waits {
			e.Waiting = append(e.Waiting, w.String())
		}
	}
	return e
}

func (p *Pool) eachQueue(f func(q *heist.Injector[task])) {
	for i := range p.nodes {
		for _, q := range p.nodes[i].queues {
			f(q)
		}
	}
}

// drain waits until nothing is left to do, and then ends the workers: "The end".
func (p *Pool) drain() {
	p.seal()
	p.end()
}

// seal waits until nothing is left to do, and has the pool accept nothing more.
func (p *Pool) seal() {
	_ = p.core.Await(context.Background(), p.isDone)
	p.eachQueue(func(q *heist.Injector[task]) { q.Close() })
	_ = p.core.Await(context.Background(), func() bool {
		p.sealing.Lock()
		defer p.sealing.Unlock()
		p.sealed = p.isDone()
		return p.sealed
	})
}

func (p *Pool) isSealed() bool {
	p.sealing.Lock()
	defer p.sealing.Unlock()
	return p.sealed
}

// inside says whether the calling goroutine runs something as a worker of the pool, which has not ended yet.
func (p *Pool) inside() bool {
	w := p.current()
	return w != nil && !w.afterEnd && !w.inHook
}

// isClosed says whether the pool takes no calls of the calling goroutine. A call inside of a task or of a guest's call is a part of that.
func (p *Pool) isClosed() bool {
	if !p.core.Closing.Load() {
		return false
	}
	for w := goroutines.find(goroutineID()); w != nil; w = w.outer {
		if w.pool == p && !w.inHook {
			return false
		}
	}
	return true
}

// isClosedToTasks says whether the pool takes no tasks of the calling goroutine.
func (p *Pool) isClosedToTasks() bool { return p.core.Closing.Load() && !p.closesWith() }

// closesWith says whether the pool takes a task of the calling goroutine though Close has begun.
//
//go:noinline
func (p *Pool) closesWith() bool { return !p.aborted.Load() && p.inside() && !p.isSealed() }

// isDone says whether nothing is left to do, now or later, or nothing was a moment ago. In a pool that is closed to the
// outside it stays true until a guest's fork adds something. A task may begin a delay after the look at delayed, and end; if the
// delay ended before isQuiet looked for its task, delayed would be 0 again. So isDone looks whether a delay has begun meanwhile.
func (p *Pool) isDone() bool {
	begun := p.begunDelays.Load()
	return p.delayed.Load() == 0 && p.isQuiet() && p.begunDelays.Load() == begun
}

// isQuiet says whether no task is queued or runs, or none did a moment ago. Children of scopes do not count: a task that has some
// runs, and a guest that runs its own last one would tell nobody.
func (p *Pool) isQuiet() bool {
	// A worker becomes idle only after it has found all queues empty, and when all workers are idle no task is left
	// that could queue another. But a worker that is woken after the first count may take the last task before
	// queued looks for it; the second count sees this worker.
	return p.core.Rests() && p.queued() == 0 && p.core.Rests()
}

// end tells the workers to exit and waits until they have.
func (p *Pool) end() {
	p.endMonitor()
	p.core.End()
	if n := p.network.Load(); n != nil {
		n.stop()
	}
	p.core.AwaitEnd()
	if p.slowAfter > 0 {
		close(p.slow.stop)
		<-p.slow.over
	}
	if p.isolation != nil {
		if err := p.isolation.Restore(); err != nil {
			p.unrestored = fmt.Errorf("pool: the pool has ended, but other threads may still be kept off its CPUs: %w", err)
		}
	}
	freePs(-p.freePs) // after the end of the isolation: Go's default depends on the CPUs of a thread
	census.Remove(p)
	close(p.closed)
}
