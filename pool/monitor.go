package pool

import (
	"cmp"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
)

// # The monitor
//
// Tasks, bodies and guests may wait for something that heist does not know of: a channel, a lock, the network, a system call.
// The **monitor** notices that, and lends the worker's place for it: internal/core, noticed.go. It looks while
// there is something to do and no place sleeps. Nobody needs it else: a place that sleeps is given to a worker by the goroutine
// that brings work (or by the guard, see below). So it does not look at a pool at rest, nor at one whose tasks all begin within a millisecond.
//
// Workers look themselves, between two tasks, a millisecond after the last look. A timer looks where they do not: after a millisecond, and then at
// times that double up to mostPeriod as long as nothing is found; it goes on for some looks when there is nothing to do any more. For a timer that fires takes
// a thread, and so does one that is set to an earlier time: the thread that waits for the runtime's first timer. The kernel may wake that on the CPU of
// a worker, and the runtime may take it for the next worker, so that two workers share one CPU while another one is idle. With a timer each
// millisecond, set anew for each lot of tasks, a fifth of lots of 16 tasks took twice as long as with goroutines.
//
// If a worker waits for something that the runtime tells (status.go), the monitor lends. A system call may be short, so it is
// looked at again some times.
//
// Where the runtime does not tell, time decides. That is so without assembly, in a bubble of testing/synctest, where waits have
// reasons of their own, and for a goroutine that waits for a coroutine, in which somebody may compute. If no task has begun
// for 10 milliseconds, though one is queued, one begins beside the workers, then two, four and so on, until a worker
// begins one again. Without assembly that happens to tasks that only compute for so long, too.
const (
	monitorPeriod, mostPeriod = time.Millisecond, 32 * time.Millisecond
	// lingers is how many looks of the timer in a row find nothing that could begin until the monitor ends.
	lingers = 4
	// mostRounds is how often a look of the timer looks at the workers, at most. A worker that ends a task, gives way twice, and waits in the next one
	// needs four.
	mostRounds = 5
	// mostBeside is how many begin at a time.
	mostBeside = 64
	// A system call counts as a wait if it is found at syscallLooks looks, so far apart. Those that Go's files and sockets
	// make take a few microseconds.
	syscallLooks = 4
	syscallPause = 10 * time.Microsecond
)

// blindLooks is how many looks without any task begun make the monitor begin some beside the workers: 10 if it is 0. Only tests set it.
var blindLooks atomic.Int32

// monitor is the state of a pool's monitor.
type monitor struct {
	mu    sync.Mutex
	over  bool           // the pool has ended; under mu
	timer *time.Timer    // begins the next look; reset under mu, and not once over is set
	looks sync.WaitGroup // added to under mu, and not once over is set

	// Workers read these two at the end of a tick, if the monitor is on.

	looking atomic.Bool  // a look goes on; its goroutine writes
	due     atomic.Int64 // when a worker is to look, in heist.Ticks; a look writes, once a millisecond at most

	// Of the look that goes on.

	last   *look         // nil before the first
	period time.Duration // of the timer
	idle   int           // looks of the timer in a row that found nothing that could begin

	noticed atomic.Int64 // waits; the monitor or a lookout adds
	ticks   atomic.Int64 // that those lasted that are over; the worker adds, or the monitor for it
}

// makeMonitor makes the monitor, which does not look yet. Its timer belongs to the pool's bubble of testing/synctest, or to none.
func (p *Pool) makeMonitor() {
	p.monitor.timer = time.AfterFunc(math.MaxInt64, p.lookAtWorkers)
	p.monitor.timer.Stop()
	p.monitor.period = monitorPeriod
	p.guard.timer = time.AfterFunc(math.MaxInt64, p.lookAtGuests)
	p.guard.timer.Stop()
}

// monitored has the monitor look, unless it does. Whoever calls it must not wait for another caller: that would be a wait
// to notice.
func (p *Pool) monitored() {
	if p.core.Monitored.CompareAndSwap(false, true) {
		p.monitor.lookAfter(monitorPeriod)
	}
}

func (m *monitor) lookAfter(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over {
		m.timer.Reset(d)
	}
}

// endMonitor ends the monitor for good.
func (p *Pool) endMonitor() {
	m := &p.monitor
	m.mu.Lock()
	m.over = true
	m.timer.Stop()
	p.guard.timer.Stop()
	m.mu.Unlock()
	m.looks.Wait()
}

// begins begins a look, unless the pool has ended. The caller must call looks.Done.
func (m *monitor) begins() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false
	}
	m.looks.Add(1)
	return true
}

// lookAtWorkers is the timer's goroutine.
func (p *Pool) lookAtWorkers() {
	m := &p.monitor
	if !m.begins() {
		return
	}
	defer m.looks.Done()
	if !m.looking.CompareAndSwap(false, true) { // a worker looks
		m.lookAfter(monitorPeriod)
		return
	}
	m.period = min(2*m.period, mostPeriod)
	p.look(false)
	ends := false
	if p.hasUnbegun() {
		m.idle = 0
	} else if m.idle++; m.idle > lingers {
		m.period, m.idle, ends = monitorPeriod, 0, true
	}
	next := m.period
	m.looking.Store(false) // before the timer is set, here or by who brings work
	if ends {
		p.core.Monitored.Store(false) // before the second question: who brings work looks in the opposite order
		if !p.hasUnbegun() || !p.core.Monitored.CompareAndSwap(false, true) {
			return
		}
	}
	m.lookAfter(next)
}

// lookIfDue is called by a worker between two tasks.
func (w *Worker) lookIfDue(now int64) {
	p := w.pool
	m := &p.monitor
	if !p.core.Monitored.Load() || p.inBubble || now < m.due.Load() || !m.looking.CompareAndSwap(false, true) {
		return
	}
	found := p.look(true)
	m.looking.Store(false)
	if found {
		m.lookAfter(monitorPeriod)
	}
}

// look is a look. It says whether the next one should come soon.
func (p *Pool) look(byWorker bool) (found bool) {
	m := &p.monitor
	if m.last == nil {
		m.last = &look{p: p, statuses: new(statuses), beside: 1}
		m.last.stolen, _ = heist.NewRing[task](heist.DefaultRingCapacity, nil)
	}
	if m.last.statuses.at == 0 && !p.inBubble {
		m.last.statuses = goroutineStatuses()
	}
	if found = m.last.look(byWorker); found {
		m.period = monitorPeriod
	}
	m.due.Store(heist.Ticks() + p.ticks.monitor)
	return found
}

// # The guard
//
// A patient guest (worth.go) may wait, or compute, for a fork or child that no worker has been told of. So as long as guests are patient now and
// then, the **guard** looks each guardPeriod for what nobody has begun, and calls a worker and the monitor. A look is cheaper than a timer for each call: to
// begin one wakes a thread, which takes as long as a short call.
const guardPeriod = 10 * time.Millisecond

// guard is the state of a pool's guard. Each fork or child of a patient guest is looked for once it is visible: the guest sets patient, unless it is set, and
// then looks at on. The guard clears patient after its look, so it looks again if it was set; and clears on before it looks at patient for the last time.
// All of these are atomic and in one order.
type guard struct {
	timer   *time.Timer // begins the next look; as that of the monitor
	on      atomic.Bool // there is a next look, or one goes on; who sets it resets the timer, the guard clears it
	patient atomic.Bool // a patient guest has made something visible since the last look; guests set it, the guard clears it
}

// guarded is called by a patient guest after a fork or child has become visible.
func (p *Pool) guarded() {
	g := &p.guard
	if !g.patient.Load() {
		g.patient.Store(true)
	}
	if !g.on.Load() && g.on.CompareAndSwap(false, true) {
		p.guardSoon()
	}
}

func (p *Pool) guardSoon() {
	p.monitor.mu.Lock()
	defer p.monitor.mu.Unlock()
	if !p.monitor.over {
		p.guard.timer.Reset(guardPeriod)
	}
}

// lookAtGuests is the guard's goroutine.
func (p *Pool) lookAtGuests() {
	if !p.monitor.begins() {
		return
	}
	defer p.monitor.looks.Done()
	if p.hasUnbegun() {
		p.core.NotifySeen()
		p.core.MayWait()
	}
	if g := &p.guard; !g.patient.Swap(false) {
		g.on.Store(false)
		if !g.patient.Load() || !g.on.CompareAndSwap(false, true) {
			return
		}
	}
	p.guardSoon()
}

// hasUnbegun says whether there is something that could begin, or that waits for a turn or for the pool to rest.
func (p *Pool) hasUnbegun() bool {
	if p.anyTask() || p.backlogs.any() || p.hasCallersWaiting() {
		return true
	}
	for _, pl := range p.victims() {
		if pl.core.Mail.Load() > 0 {
			return true
		}
	}
	if p.inBubble { // what is left may stay for ever, and the bubble's time with it
		return false
	}
	return p.showsFork() || p.core.IsPaused() && !p.core.Rests()
}

// look is what the monitor remembers from look to look.
type look struct {
	p        *Pool
	statuses *statuses
	stolen   *heist.Ring[task] // empty

	begun  uint64   // tasks that the places had begun at the last look
	tasks  []uint64 // the same for each place
	blind  int      // looks at which none had begun since, while a wait was unclear
	beside int      // how many begin beside the workers next time
}

// look looks at all workers that are in a job. A task that waits for a moment may be woken by the clock whenever the monitor is, and so may the
// next one: on one P that sleeps, the first timer that is due fires all, a millisecond late. Then no look would find that it waits. So workers that are
// ready to run, and do not, go first, and the monitor looks again: some go on until they wait again, others end their task, give way, and
// begin the next one after that. Where a worker looks, for which to give way is dear, it does not. look says whether the next look should come soon.
func (l *look) look(byWorker bool) (soon bool) {
	p := l.p
	noticed := p.monitor.noticed.Load()
	soon = l.lookAtSlots()
	unclear, ready := l.round()
	for n := 1; ready && !byWorker && n < mostRounds; n++ {
		runtime.Gosched()
		unclear, ready = l.round()
	}
	if p.core.IsPaused() { // a worker that has come back from a wait lets the others go on
		soon = true
		p.workers.each(func(w *Worker) { w.core.NoticeEnd(func() bool { return l.waits(w) }) })
	}
	soon = soon || p.monitor.noticed.Load() != noticed
	if begun := p.begunTasks(); begun != l.begun || !unclear || !p.hasUnbegun() {
		l.begun, l.blind, l.beside = begun, 0, 1
		return soon
	}
	if l.blind++; l.blind%int(cmp.Or(blindLooks.Load(), 10)) == 0 {
		for range l.beside {
			p.relieved(l.stolen)
		}
		l.beside = min(2*l.beside, mostBeside)
	}
	return true
}

// round looks at each of them once, and says whether a wait was unclear, and whether a worker was ready to run.
func (l *look) round() (unclear, ready bool) {
	unclear = l.statuses.at == 0
	for r := range l.p.rosters() {
		for at := r.First(); at != nil; at = at.Next() {
			w := workerOf(at)
			switch {
			case !w.inJob():
				ready = ready || l.statuses.isReady(w.record.Load())
			case l.waits(w):
				l.notice(w)
			default:
				unclear = unclear || l.statuses.of(w.record.Load()) == isUnclear
				ready = ready || l.statuses.isReady(w.record.Load())
			}
		}
	}
	return unclear, ready
}

// lookAtSlots shares the slots that holders keep, and have not come to since the last look. It says whether there is something in one that is kept.
func (l *look) lookAtSlots() (kept bool) {
	shared := false
	for i, pl := range l.p.victims() {
		if i == len(l.tasks) {
			l.tasks = append(l.tasks, 0)
		}
		kept = kept || pl.keeps.Load() && pl.lifoSlot.Load() != nil
		begun := pl.tasks.Load()
		if begun == l.tasks[i] {
			shared = pl.shareSlot() || shared
		}
		l.tasks[i] = begun
	}
	if shared {
		l.p.core.NotifySeen()
	}
	return kept
}

// notice lends the place of a worker that waits.
func (l *look) notice(w *Worker) {
	if w.core.Notice(func() bool { return l.waits(w) && w.inJob() }, w.showsForks) {
		l.p.monitor.noticed.Add(1)
	}
}

// waits says whether the worker's goroutine waits.
func (l *look) waits(w *Worker) bool {
	r := w.record.Load()
	s := l.statuses.of(r)
	for i := 1; s == isInSyscall && i < syscallLooks; i++ {
		heist.Spin(syscallPause)
		s = l.statuses.of(r)
	}
	return s == isWaiting || s == isInSyscall
}

// inJob says whether the worker is in a function of the user, and neither in a wait that heist knows of nor in the middle of a use of
// its place.
func (w *Worker) inJob() bool {
	if w.waitsFor.Load() != nil || w.usesPlace.Load() != 0 {
		return false
	}
	if w.core.Guest {
		return w.code.Load() != 0
	}
	return w.job.Load() != nil || w.forWhom.Load() != nil
}

// waitsNow returns what the worker waits for, if heist knows that it waits, or nil.
func (w *Worker) waitsNow() *waitsFor {
	if waits := w.waitsFor.Load(); waits != nil {
		return waits
	}
	return w.noticed.Load()
}

// showsForks says whether thieves have to find the worker while it waits. A scope may get strays meanwhile.
func (w *Worker) showsForks() bool { return w.children.branch.Load() != nil || w.anyFork(true) }

// begunTasks returns how many tasks the places have begun.
func (p *Pool) begunTasks() (n uint64) {
	for _, pl := range p.victims() {
		n += pl.tasks.Load()
	}
	return n
}

// answerNotice is called by a worker that is about to use its place, or to show forks or children, which thieves do not find
// while its place is lent for a wait in which it had none. So forks leave their fast path then: see Lent.
func (w *Worker) answerNotice() {
	if w.core.Seen() {
		w.place = w.pool.placeOf(w.core.GoOn())
	}
}

func (h *host) LookAt(at *core.Worker) { (*Pool)(h).lookAt(workerOf(at)) }

func (h *host) Monitor() { (*Pool)(h).monitored() }

func (h *host) Lent(at *core.Worker) {
	w := workerOf(at)
	waits := &waitsFor{home: w.homePlace(), since: heist.Ticks()}
	if t := w.job.Load(); t != nil {
		waits.code = t.code
		w.pool.habits.waits(t.code)
	}
	w.noticed.Store(waits)
	w.inside.Load().waits(nil)
	w.alarm()
	if w.core.Guest {
		w.pool.exitAdmission()
	}
}

func (h *host) GoesOn(at *core.Worker) {
	w := workerOf(at)
	if w.core.Guest {
		w.pool.reenterAdmission()
	}
	w.inside.Load().goesOn()
	waits := w.noticed.Swap(nil)
	took := heist.Ticks() - waits.since
	w.pool.monitor.ticks.Add(took)
	w.pool.habits.waited(waits.code, took) // the task may have ended since
}
