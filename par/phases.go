package par

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/pool"
)

// # Phases
//
// The range is cut once, into as many **parts** as there are workers. A **member** is a worker that
// takes part. It does the same part, its own, in each phase, as far as that works out. A part's
// **claim** counts the phases in which the part was taken. A member that has done its own part looks
// for parts that no member has claimed. It takes a part that is no member's own yet at once, and the
// part of another member only after a while, because that member may be only a little late.
//
// A phase is over when all its parts are counted as done. Members spin until then: none of them
// sleeps between two phases, so none has to be woken. But no member waits for a particular other
// one. The caller alone could do everything, so a worker that comes late, or never, because it is
// busy elsewhere, does not hold up a phase.

// Phases runs phases loops over 0 to n-1, one after the other. In each phase it calls f(phase, lo, hi)
// for the same ranges, which together are 0 to n-1, some at the same time. No call of a phase begins
// before all calls of the phase before have returned. The same worker tends to get the same range, so
// the data of a range stay in its cache.
//
// Between two phases the workers spin, for a wake-up would take longer than a short
// phase. So Phases is for phases of microseconds to milliseconds that are divided
// evenly; for others, such as those whose range shrinks, call [pool.ForRange] for each phase. What one worker has to do between two phases is a phase of its own, in which
// the range that begins with 0 does it and the others return. f should compute, and neither wait
// nor start other parallel work, since no workers are left to take it. Panics and errors are as with
// [For]; Phases looks at the context once per range, and may return its cause though it ended in the last range of all.
//
// Cost: some 2 microseconds, and 0.1 for each phase.
func Phases(at pool.Place, n, phases int, f func(phase, lo, hi int)) error {
	switch {
	case f == nil:
		return errNilFunc("Phases")
	case n < 0 || phases < 0:
		return fmt.Errorf("par: Phases was given %d items and %d phases; both must be 0 or more", n, phases)
	}
	return pool.Do(at, func(w *pool.Worker) {
		parts := min(w.Pool().Workers(), n)
		if parts == 0 {
			return
		}
		t := &team{n: n, phases: phases, f: f, claims: make([]claim, parts)}
		t.join(w)
	})
}

// barrierSpins is how often a member looks whether a phase is over, with a pause each
// time, before it lets other goroutines and threads have its CPU: some 100 microseconds.
const barrierSpins = 2000

// lateTime is how late a member's own part may be before a member that has nothing else to do takes it.
const lateTime = 4 * time.Microsecond

// team is what the members of a call of Phases share.
type team struct {
	n, phases int                     // constant
	f         func(phase, lo, hi int) // constant
	members   atomic.Int32            // members add themselves
	stop      atomic.Bool             // a member that leaves early writes
	_         pad.Line
	done      atomic.Int64 // parts that were done, of all phases; members add
	_         pad.Line
	claims    []claim
}

// claim is the state of a part.
type claim struct {
	phase atomic.Int64 // how many phases it was taken for; members, by CAS
	owned atomic.Bool  // it is a member's own part; that member writes
	_     pad.Line
}

// join makes the worker a member, and forks the next membership, which another worker may
// take in the same way.
func (t *team) join(w *pool.Worker) {
	member := int(t.members.Add(1)) - 1
	if member+1 >= len(t.claims) {
		t.work(w, member)
		return
	}
	w.Do(
		func(w *pool.Worker) { t.work(w, member) },
		func(w *pool.Worker) {
			if !t.over() {
				t.join(w)
			}
		})
}

func (t *team) over() bool {
	return t.stop.Load() || t.done.Load() == int64(t.phases)*int64(len(t.claims))
}

// work is a member's part in all phases.
func (t *team) work(w *pool.Worker, member int) {
	returned := false
	defer func() {
		if !returned {
			t.stop.Store(true)
		}
	}()
	parts := len(t.claims)
	own := &t.claims[member]
	own.owned.Store(true)
	phase := int(t.done.Load() / int64(parts))
	for ; phase < t.phases; phase++ {
		t.take(w, member, phase)
		end := int64(phase+1) * int64(parts)
		late := heist.Ticks() + heist.TicksIn(lateTime)
		for spins := 0; t.done.Load() < end; spins++ {
			if t.stop.Load() || w.Cancelled() {
				t.stop.Store(true)
				returned = true
				return
			}
			for part := range parts {
				if !t.claims[part].owned.Load() || heist.Ticks() > late {
					t.take(w, part, phase)
				}
			}
			if spins < barrierSpins {
				heist.Pause(1)
			} else {
				w.Yield()
				heist.Yield()
			}
		}
	}
	returned = true
}

// take does a part, unless another member has claimed it.
func (t *team) take(w *pool.Worker, part, phase int) {
	c := &t.claims[part]
	if c.phase.Load() != int64(phase) || !c.phase.CompareAndSwap(int64(phase), int64(phase)+1) {
		return
	}
	if w.Cancelled() {
		t.stop.Store(true)
		return
	}
	lo, hi := cut(t.n, part, len(t.claims))
	t.f(phase, lo, hi)
	t.done.Add(1)
}
