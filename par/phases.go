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
// evenly; for others call [pool.ForRange] for each phase. f should compute, and neither wait
// nor start other parallel work, since no workers are left to take it. Panics and errors are as with
// [For]; Phases looks at the context once per range.
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
		g := &gang{n: n, phases: phases, f: f, claims: make([]claim, parts)}
		g.join(w)
	})
}

// barrierSpins is how often a member looks whether a phase is over, with a pause each
// time, before it lets other goroutines and threads have its CPU: some 100 microseconds.
const barrierSpins = 2000

// lateTime is how late a member's own part may be before a member that has nothing else to do takes it.
const lateTime = 4 * time.Microsecond

// gang is what the members of a call of Phases share.
type gang struct {
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
func (g *gang) join(w *pool.Worker) {
	member := int(g.members.Add(1)) - 1
	if member+1 >= len(g.claims) {
		g.work(w, member)
		return
	}
	w.Do(
		func(w *pool.Worker) { g.work(w, member) },
		func(w *pool.Worker) {
			if !g.over() {
				g.join(w)
			}
		})
}

func (g *gang) over() bool {
	return g.stop.Load() || g.done.Load() == int64(g.phases)*int64(len(g.claims))
}

// work is a member's part in all phases.
func (g *gang) work(w *pool.Worker, member int) {
	returned := false
	defer func() {
		if !returned {
			g.stop.Store(true)
		}
	}()
	parts := len(g.claims)
	own := &g.claims[member]
	own.owned.Store(true)
	phase := int(g.done.Load() / int64(parts))
	for ; phase < g.phases; phase++ {
		g.take(w, member, phase)
		end := int64(phase+1) * int64(parts)
		late := heist.Ticks() + heist.TicksIn(lateTime)
		for spins := 0; g.done.Load() < end; spins++ {
			if g.stop.Load() || w.Cancelled() {
				g.stop.Store(true)
				returned = true
				return
			}
			for part := range parts {
				if !g.claims[part].owned.Load() || heist.Ticks() > late {
					g.take(w, part, phase)
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
func (g *gang) take(w *pool.Worker, part, phase int) {
	c := &g.claims[part]
	if c.phase.Load() != int64(phase) || !c.phase.CompareAndSwap(int64(phase), int64(phase)+1) {
		return
	}
	if w.Cancelled() {
		g.stop.Store(true)
		return
	}
	lo, hi := cut(g.n, part, len(g.claims))
	g.f(phase, lo, hi)
	g.done.Add(1)
}
