package pool

import (
	"slices"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

// # Where a worker runs
//
// A worker that is not bound may run on any node of the pool: the system moves threads, and Go moves goroutines between
// them. It looks where it is when it begins, at the end of each tick, before it searches and for each piece of a loop
// that is divided among nodes. Its place is on the node where it is. So near victims are those that run nearby, and there is
// nothing to bind, to exchange or to give back. A look is a load and a comparison (numa.CurrentCPU).
//
// # CPUs that go
//
// A CPU can go offline, or leave the cpuset of the process, while a worker is bound to it. The system then takes
// the binding away, and the thread goes on elsewhere: no work is lost, but two workers may share a CPU. A worker
// checks where it runs at the end of each tick and when it wakes up. If it has lost its CPU, it counts that
// ([inspect.WorkerStats].Displaced), and tries now and then to bind itself again, which succeeds when the CPU is
// back.

// rebindPeriod is how often a worker that lost its CPU tries to get it back. Each try costs a system call or two.
const rebindPeriod = 10 * time.Millisecond

// binding is what a worker is bound to. Owner only.
type binding struct {
	pinned *heist.Pinned // nil if the worker is not bound
	cpus   []int         // ascending
	away   bool
	tried  int64 // when it last tried to rebind, in heist.Ticks
}

// stay checks whether the worker, which has a place, runs where it is bound, and if not tries to bind it again.
func (w *Worker) stay() {
	b := &w.binding
	if b.pinned == nil && w.pool.roams() {
		if node := w.pool.here(); node != w.core.Node() {
			w.core.Move(&w.place.core, w.pool.placementOn(node))
			w.displaced.Add(1)
		}
		return
	}
	if b.pinned == nil || !b.away && b.isAt(numa.CurrentCPU()) {
		return
	}
	back := b.isAt(numa.CurrentCPU())
	switch {
	case !b.away && back: // it came back between the two looks
		return
	case !b.away:
		b.away = true
		w.displaced.Add(1)
	case !back && heist.Ticks()-b.tried < w.pool.ticks.rebind:
		return
	}
	// The worker may be on its CPU by chance: only a successful Rebind ends its absence.
	b.tried = heist.Ticks()
	if b.pinned.Rebind() == nil {
		b.away = !b.isAt(numa.CurrentCPU())
	}
}

func (b *binding) isAt(cpu int) bool {
	if len(b.cpus) == 1 {
		return cpu == b.cpus[0] || cpu < 0
	}
	_, found := slices.BinarySearch(b.cpus, cpu)
	return found || cpu < 0
}
