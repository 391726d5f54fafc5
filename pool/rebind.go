package pool

import (
	"slices"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/numa"
)

// # CPUs that go
//
// A CPU can go offline, or leave the cpuset of the process, while a worker is bound to it.
// The system then takes the binding away, and the thread goes on elsewhere: no work is lost,
// but two workers may share a CPU. The worker notices it by looking, at the end of each tick
// and when it wakes up, where it runs. It counts it ([WorkerStats].Displaced), and tries
// every now and then to bind itself again, which succeeds when the CPU is back.

// rebindPeriod is how often a worker that lost its CPU tries to have it back. Each time
// costs a system call or two.
const rebindPeriod = 10 * time.Millisecond

// binding is what a worker is bound to. Owner only.
type binding struct {
	pinned *heist.Pinned // nil if it is not
	cpus   []int         // ascending
	away   bool
	tried  int64 // in heist.Ticks
}

// stay looks whether the worker runs where it is bound to, and does what it can if not.
func (w *Worker) stay() {
	b := &w.binding
	if b.pinned == nil || !b.away && b.isAt(numa.CurrentCPU()) {
		return
	}
	back := b.isAt(numa.CurrentCPU())
	switch {
	case !b.away && back: // it was moved here just now
		return
	case !b.away:
		b.away = true
		w.displaced.Add(1)
	case !back && heist.Ticks()-b.tried < w.pool.ticksRebind:
		return
	}
	// It may be on its CPU by chance: only the kernel's consent ends it.
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
