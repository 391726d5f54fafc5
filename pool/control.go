package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/core"
)

// The protocol of size, pause and end is in internal/core: core.go.

// isControlled says whether the worker has an order for obeyControl: to give up its place, or to open mail.
func (w *Worker) isControlled() bool {
	return len(w.stash) == 0 && w.place.core.HasOrders() // no other worker sees the tasks in the stash
}

// obeyControl obeys an order that isControlled has found, in a worker that is between two jobs: the worker opens
// mail, closes its place, or gives it up. It returns false if there is nothing to obey any more.
func (w *Worker) obeyControl() bool {
	pl := &w.place.core
	pl.StopSearching() // wakes another worker for what this one was woken for
	if pl.MayOpenMail() {
		if w.place.shareSlot() { // mail may come and come, and each counts as a task that has begun
			w.pool.core.NotifyTask(w.core.Node())
		}
		if t := w.openMail(); t != nil {
			w.run(job{task: t})
			return true
		}
	}
	if pl.MustClose() {
		return w.closePlace()
	}
	w.beIdle()
	return true
}

// closePlace closes the worker's place, unless the pool needs it again by now.
func (w *Worker) closePlace() bool {
	for t := w.nextLocalTask(); t != nil; t = w.nextLocalTask() { // before it is off the list, or drain would not see the tasks
		if !w.injector().Push(t) { // the pool is about to end, and has accepted it
			w.run(job{task: t})
			return true
		}
	}
	w.trim()
	w.freeCells(true)
	pl := w.place
	w.place = nil // once the worker is idle, it may be given another place at any time
	if !w.core.ClosePlace(&pl.core) {
		w.place = pl
		return false
	}
	return true
}

// Resize changes the number of workers to n, from 1 to [Tuning].MaxWorkers. New workers start at once. A surplus
// worker finishes the task that it is in, and leaves its queued tasks to the others. Any goroutine may call Resize,
// any number at the same time; the last call counts. From then on the pool no longer follows GOMAXPROCS.
func (p *Pool) Resize(n int) error {
	if err := p.usable(); err != nil {
		return err
	}
	if p.shared {
		return errShared
	}
	return p.resize(n, true)
}

// followPeriod is how often a pool looks at GOMAXPROCS and the CPUs of the process.
const followPeriod = 100 * time.Millisecond

// follow looks at GOMAXPROCS if such a look is due. It notes the number of Ps, and gives the pool as many workers,
// but no more than there are CPUs that the process may use, unless an option or Resize has chosen their number. Go
// adapts GOMAXPROCS to the limits of its cgroup every second or so.
func (p *Pool) follow(now int64) {
	due := p.followDue.Load()
	if now < due || !p.followDue.CompareAndSwap(due, now+p.ticks.follow) {
		return
	}
	p.ps.Store(int32(runtime.GOMAXPROCS(0)))
	if !p.follows {
		return
	}
	most := ownPs()
	if p.cpus != nil { // workers beyond these CPUs would share them
		most = min(most, len(p.cpus))
	}
	allowed, _ := p.machine.allowed()
	if n := min(p.maxWorkers, p.spare(min(most, countOf(allowed)))); n != p.core.Size() {
		_ = p.resize(n, false) // which fails only if the pool is closed
	}
}

func (p *Pool) resize(n int, chosen bool) error {
	if n < 1 || n > p.maxWorkers {
		return fmt.Errorf("pool: Resize(%d): this pool can have from 1 to %d workers; Tuning.MaxWorkers sets the limit", n, p.maxWorkers)
	}
	if p.core.Closing.Load() || !p.core.Resize(n, chosen) {
		return ErrClosed
	}
	return nil
}

// Pause keeps the workers from starting tasks. It returns when no worker is in the middle of a task, nor waits in one, or with
// the cause when ctx ends first; that ends only the wait, not the pause. Tasks are accepted and queue up. What a
// running task waits for goes on; so do guests, but without help. [Pool.Resume] ends the pause, and so does Close. If one of
// them comes while Pause still waits, Pause returns an error. On a closed pool it returns [ErrClosed].
// Pause is refused where Close is: inside a task, and in a function that a call at the pool runs.
func (p *Pool) Pause(ctx context.Context) (err error) {
	if err := p.usable(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext("Pool.Pause")
	}
	if p.shared {
		return errShared
	}
	if p.serves() {
		return errors.New("pool: Pause was called inside a task of the same pool or a call at it, for which it may wait; call it from outside")
	}
	if !p.core.Pause() {
		return ErrClosed
	}
	resumed := false
	p.wait("Pool.Pause of another pool", nil, func() { resumed, err = p.core.AwaitPause(ctx) })
	if err != nil {
		return causes.Of(ctx)
	}
	if resumed {
		return errors.New("pool: Resume was called before all workers had paused")
	}
	return nil
}

// Resume ends a Pause. It does nothing if the pool is not paused.
func (p *Pool) Resume() {
	if p.usable() != nil {
		return
	}
	p.core.Resume()
}

// Block calls f, which waits for something: the network, a lock, a channel, another process. Such waits are noticed
// without it, some milliseconds later for a function that has not waited before. Meanwhile the caller's place is lent:
// another worker computes in it, and thieves can take the caller's queued tasks and forks. When f has returned, the
// caller goes on at once. F must not use the worker. A guest does not count as computing while it waits. The items of
// one loop are not tasks: while one waits, those behind it in its chunk may not begin, see [Granularity].
//
// Any number of tasks may lend their places at a time. Cost: a microsecond, and if something is queued and no worker is idle, the start of a
// goroutine.
func (w *Worker) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Worker.Block"))
	}
	w.mustBeMine("Worker.Block")
	w.pool.wait("Worker.Block", nil, f)
}

// Block is [Worker.Block] for functions that were given no worker, such as those of package par: it finds the
// worker of the calling goroutine. If there is none it just calls f.
func (p *Pool) Block(f func()) {
	if f == nil {
		panic(errNilFunc("Pool.Block"))
	}
	p.wait("Pool.Block", nil, f)
}

// Block is [Pool.Block].
func (v *View) Block(f func()) {
	if f == nil {
		panic(errNilFunc("View.Block"))
	}
	v.view().p.wait("View.Block", nil, f)
}

// # Workers

// hireFor starts a worker without a place for a job, in the manner of a guest of the node. After the end of the pool only
// a guest that has stayed longer can need it.
func (p *Pool) hireFor(node int, j job) {
	if j.task != nil {
		p.beside.Add(1)
	}
	n := &p.nodes[node]
	p.start(&p.core.Placements()[n.guestsAt], func(w *Worker) {
		w.first = &j
		w.core.BeginBeside(&n.guests[0].Roster)
	})
}

// start starts a worker, which begins as the function says. After the end of the pool the worker is not bound, no
// caller waits for its end, and it ends when it would become idle.
func (p *Pool) start(s *core.Placement, begin func(w *Worker)) {
	w := p.newWorker(s)
	begin(w)
	go w.start(nil)
}

// workerList holds all workers of a pool by their IDs, guests included.
type workerList struct {
	mu      sync.Mutex
	all     []*Worker // nil for an ID that is free
	free    []int
	retired account // of workers that have ended
}

// add gives w an ID.
func (l *workerList) add(w *Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		w.id, l.free = l.free[n-1], l.free[:n-1]
	} else {
		w.id = len(l.all)
		l.all = append(l.all, nil)
	}
	l.all[w.id] = w
}

// remove takes back the ID of a worker that has ended.
func (l *workerList) remove(w *Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[w.id] = nil
	l.free = append(l.free, w.id)
	l.retired.add(w)
}

// accounts returns the sums of what workers have counted and measured.
func (l *workerList) accounts() (published uint64, t *timings) {
	sum := new(account)
	l.mu.Lock()
	defer l.mu.Unlock()
	sum.published = l.retired.published
	sum.timings.merge(&l.retired.timings)
	for _, w := range l.all {
		if w != nil {
			sum.add(w)
		}
	}
	return sum.published, &sum.timings
}

// account holds what is counted and measured for each worker, and not for each place.
type account struct {
	published uint64
	timings   timings
}

func (a *account) add(w *Worker) {
	a.published += w.publishes.Load()
	if w.timings != nil {
		a.timings.merge(w.timings)
	}
}

// len returns a number above all IDs that are in use.
func (l *workerList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// each calls f for all workers that are there from its beginning to its end. It holds no lock meanwhile: f may take that of a
// worker whose place is being lent, for which another worker may have to be added.
func (l *workerList) each(f func(w *Worker)) {
	var some [64]*Worker
	for id, n := 0, len(some); n == len(some); id += n {
		n = l.copy(some[:], id)
		for _, w := range some[:n] {
			if w != nil {
				f(w)
			}
		}
	}
}

// copy copies workers from an ID on, and says how many.
func (l *workerList) copy(to []*Worker, id int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return copy(to, l.all[min(id, len(l.all)):])
}
