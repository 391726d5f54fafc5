package pool

import (
	"cmp"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool/inspect"
)

// # Habits
//
// The pool remembers the functions whose tasks waited in a way that heist does not know of, by the address of their code.
// When a worker begins a task of such a function, another one looks out for the wait (internal/core, noticed.go). A function
// that has not waited at one of habitShare tasks lately is forgotten.
const (
	// habitShare: a lookout costs about a microsecond, a wait without one a millisecond of a place or more.
	habitShare = 32
	// habitMemory is the number of tasks after which older ones count half.
	habitMemory = 1 << 10
	// lookoutTime is how long a lookout looks for the wait, if it is awake before that: it was not the next on the worker's
	// P, but another P was idle.
	lookoutTime = 50 * time.Microsecond
	// longForThreads is how long waits are for which another thread is woken up: that takes some 50 microseconds.
	longForThreads = 200 * time.Microsecond
)

// habit is what is known of a function. Workers that begin it write, and who notices its waits.
type habit struct {
	code                 uintptr // constant
	begun, waited, ticks atomic.Int64
}

// habits are the functions of a pool that wait.
type habits struct {
	known atomic.Int32 // how many are in the table; workers read it for each task
	table [1 << 8]atomic.Pointer[habit]
}

func (h *habits) slot(code uintptr) *atomic.Pointer[habit] {
	return &h.table[hashOf(code)%uint(len(h.table))]
}

// waits notes that a task of a function has waited.
func (h *habits) waits(code uintptr) {
	slot := h.slot(code)
	old := slot.Load()
	if old != nil && old.code == code {
		old.waited.Add(1)
		return
	}
	this := &habit{code: code}
	this.begun.Store(1)
	this.waited.Store(1)
	if slot.CompareAndSwap(old, this) && old == nil { // else it takes the slot of another function
		h.known.Add(1)
	}
}

// waited notes how long such a wait has lasted.
func (h *habits) waited(code uintptr, ticks int64) {
	if this := h.slot(code).Load(); this != nil && this.code == code {
		this.ticks.Add(ticks)
	}
}

// list returns the functions, those first that have waited for longest.
func (h *habits) list(p *Pool) (all []inspect.Waiter) {
	for i := range h.table {
		if this := h.table[i].Load(); this != nil && nameOf(this.code) != "" {
			begun, waited := this.begun.Load(), max(this.waited.Load(), 1)
			all = append(all, inspect.Waiter{
				Function: nameOf(this.code), Source: sourceOf(this.code), Share: min(float64(waited)/float64(max(begun, 1)), 1),
				Mean: p.duration(uint64(this.ticks.Load() / waited)), Tasks: uint64(begun),
			})
		}
	}
	total := func(w inspect.Waiter) float64 { return w.Share * float64(w.Tasks) * float64(w.Mean) }
	slices.SortFunc(all, func(a, b inspect.Waiter) int { return cmp.Compare(total(b), total(a)) })
	return all
}

// begins notes that a task of a function begins, and says whether it may wait, and if so, how long on average, in heist.Ticks.
func (h *habits) begins(code uintptr) (waits bool, ticks int64) {
	slot := h.slot(code)
	this := slot.Load()
	if this == nil || this.code != code {
		return false, 0
	}
	begun, waited := this.begun.Add(1), this.waited.Load()
	switch {
	case waited*habitShare < begun:
		if slot.CompareAndSwap(this, nil) {
			h.known.Add(-1)
		}
		return false, 0
	case begun == habitMemory: // others count on meanwhile, which does no harm
		this.begun.Add(-begun / 2)
		this.waited.Add(-waited / 2)
		this.ticks.Add(-this.ticks.Load() / 2)
	}
	return true, this.ticks.Load() / max(waited, 1)
}

// begin notes that the worker begins a task, which t is the user's function of.
func (w *Worker) begin(t *task) {
	if w.pool.habits.known.Load() > 0 {
		if waits, ticks := w.pool.habits.begins(t.code); waits {
			w.job.Set(nil) // ExpectWait may wait for a lock, which is no wait of a task
			w.core.ExpectWait(ticks >= heist.TicksIn(longForThreads))
		}
	}
	w.job.Set(t)
}

// lookAt is called by the lookout of a worker.
func (p *Pool) lookAt(w *Worker) {
	l := look{p: p, statuses: goroutineStatuses()}
	for end := heist.Ticks() + heist.TicksIn(lookoutTime); w.inJob(); runtime.Gosched() {
		if l.waits(w) {
			l.notice(w)
			return
		}
		if heist.Ticks() > end {
			return
		}
	}
}
