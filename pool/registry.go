package pool

import (
	"sync"
	"sync/atomic"
)

// registry says as which worker a goroutine runs. Go has no thread-local storage, and a
// goroutine that waits for a future of one pool may have a place in another, so the process
// has one registry for all pools.
//
// Each goroutine reads and changes only its own entry, so an entry needs no lock, just a slot
// of its own. The slots are in lines of four, chosen by a hash of the goroutine. A goroutine
// that finds its line full goes into a map, which is nearly always empty.
type registry struct {
	lines [registryLines]registryLine
	spill sync.Map // goroutine -> *Worker
	spilt atomic.Int32
}

// registryLine is one cache line of goroutines and one of their workers.
type registryLine struct {
	goroutines [4]atomic.Uintptr // 0 is free; the goroutine itself writes
	workers    [4]*Worker        // only that goroutine reads and writes
}

// registryLines is enough for some thousand goroutines that are workers or guests at the same time.
const registryLines = 1 << 10

var goroutines registry

func (r *registry) line(goroutine uintptr) *registryLine {
	return &r.lines[hashOf(goroutine)%registryLines]
}

// hashOf spreads goroutine IDs, which are addresses some hundred bytes apart, or consecutive numbers.
// The multiplier is 2^64/phi (Knuth, The Art of Computer Programming 3, 6.4).
func hashOf(goroutine uintptr) uint { return uint(uint64(goroutine) * 0x9e3779b97f4a7c15 >> 40) }

// find returns the worker as which the calling goroutine runs, the innermost if it is a guest
// of several pools, or nil.
func (r *registry) find(goroutine uintptr) *Worker {
	l := r.line(goroutine)
	for i := range l.goroutines {
		if l.goroutines[i].Load() == goroutine {
			return l.workers[i]
		}
	}
	if r.spilt.Load() > 0 {
		if w, ok := r.spill.Load(goroutine); ok {
			return w.(*Worker)
		}
	}
	return nil
}

// set records as which worker the calling goroutine runs from now on; nil is none.
func (r *registry) set(goroutine uintptr, w *Worker) {
	l := r.line(goroutine)
	for i := range l.goroutines {
		if l.goroutines[i].Load() == goroutine {
			l.workers[i] = w
			if w == nil {
				l.goroutines[i].Store(0)
			}
			return
		}
	}
	if r.spilt.Load() > 0 {
		if _, spilt := r.spill.Load(goroutine); spilt && w == nil {
			r.spill.Delete(goroutine)
			r.spilt.Add(-1)
			return
		} else if spilt {
			r.spill.Store(goroutine, w)
			return
		}
	}
	if w == nil {
		return
	}
	for i := range l.goroutines {
		if l.goroutines[i].Load() == 0 && l.goroutines[i].CompareAndSwap(0, goroutine) {
			l.workers[i] = w
			return
		}
	}
	r.spill.Store(goroutine, w)
	r.spilt.Add(1)
}

// itsGoroutine is what a worker knows of its goroutine. Owner only.
type itsGoroutine struct {
	goroutine uintptr // see goroutineID
	outer     *Worker // the worker that the goroutine was before: of another pool, or around a Block
	away      int     // nested waits that it is in
}

// current returns the pool's worker as which the calling goroutine runs, whether it has a place or
// has lent it, or nil. A guest counts only while it runs a future in place.
func (p *Pool) current() *Worker {
	for w := goroutines.find(goroutineID()); w != nil; w = w.outer {
		if w.pool == p && (!w.core.Guest || w.inPlace > 0) {
			return w
		}
	}
	return nil
}

// serves says whether the calling goroutine runs a task of the pool, or is its guest.
func (p *Pool) serves() bool {
	for w := goroutines.find(goroutineID()); w != nil; w = w.outer {
		if w.pool == p {
			return true
		}
	}
	return false
}

// computes returns the pool's worker or guest as which the goroutine computes at the moment, or nil
// if the goroutine is neither, or waits.
func (p *Pool) computes(goroutine uintptr) *Worker {
	for w := goroutines.find(goroutine); w != nil; w = w.outer {
		if w.pool == p {
			if w.away > 0 {
				return nil
			}
			return w
		}
	}
	return nil
}
