package pool

import (
	"iter"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/testutil"
)

// requirePlaces checks on which CPUs the workers may run, and do.
func requirePlaces(t *testing.T, p *Pool, want func(worker int) []int) {
	t.Helper()
	type place struct {
		id, cpu int
		mask    []int
	}
	places := make(chan place, p.Workers())
	meet := testutil.NewBarrier(p.Workers())
	for range p.Workers() {
		require.NoError(t, p.Go(func(w *Worker) {
			places <- place{w.ID(), cpuNow(t), threadCPUs(t)}
			meet.Compute()
		}))
	}
	seen := make(map[int]bool)
	for range p.Workers() {
		at := <-places
		require.False(t, seen[at.id], "two tasks at once on worker %d", at.id)
		seen[at.id] = true
		require.Equal(t, want(at.id), at.mask, "worker %d", at.id)
		require.Contains(t, at.mask, at.cpu, "worker %d", at.id)
	}
}

func cpuNow(t testing.TB) int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		t.Error(errno)
	}
	return int(cpu)
}

func TestWorkersRunWhereTheyAreBound(t *testing.T) {
	skipIfPretended(t)
	cpus := allowed(t)
	setPs(t, len(cpus)) // with fewer Ps the first CPU is drawn
	for i, cpu := range cpus[:min(len(cpus), 4)] {
		p := newPool(t, WithCPUs(cpu), WithWorkers(1+i))
		requirePlaces(t, p, func(int) []int { return []int{cpu} })
	}
	round := func(order []int) func(int) []int {
		return func(worker int) []int { return order[worker%len(order) : worker%len(order)+1] }
	}
	last := []int{cpus[len(cpus)-1]}
	if len(cpus) > 1 {
		last = append(last, cpus[0])
	}
	requirePlaces(t, newPool(t, WithCPUs(last...), WithWorkers(7)), round(last))
	requirePlaces(t, newPool(t, WithPinning(PinCores), WithWorkers(2*len(cpus))), round(spread(topologyOf(t), cpus, 0)))
}

func TestWorkersThatAreNotBoundKeepTheWholeMask(t *testing.T) {
	cpus := allowed(t)
	requirePlaces(t, newPool(t, WithPinning(PinNone), WithWorkers(3)), func(int) []int { return cpus })
}

// TestNobodyElseIsBound: neither the caller of New and Run nor goroutines that tasks
// start inherit a worker's CPU.
func TestNobodyElseIsBound(t *testing.T) {
	cpus := allowed(t)
	for range testutil.Stress(100) {
		p := newPool(t, WithWorkers(2), WithPinning(PinCores))
		masks := make(chan []int)
		require.NoError(t, p.Go(func(*Worker) {
			for range 4 {
				go func() { masks <- threadCPUs(t) }()
			}
		}))
		for range 4 {
			require.Equal(t, cpus, <-masks)
		}
		require.NoError(t, p.Run(func(*Worker) { require.Equal(t, cpus, threadCPUs(t)) }))
		require.NoError(t, p.Close())
	}
}

func TestMoreBoundThreadsThanAProcessMayHaveAreRefused(t *testing.T) {
	p, many := newPool(t, WithWorkers(1)), core.Placement{CPUs: []int{0}, Bound: true, Places: core.MostBound}
	for more := true; more; {
		bound, afterEnd := many.Begins(&p.core)
		defer many.Ends(&p.core, bound, afterEnd)
		more = bound
	}
	_, err := New(WithWorkers(2), WithPinning(PinCores))
	require.ErrorContains(t, err, "10,000 threads; use fewer workers, or PinNone")
	p = newPool(t, WithWorkers(2))
	require.NoError(t, p.Run(func(w *Worker) { fib(w, 10) }))
}

// TestABoundWorkerCallsAnotherGoroutinesCoroutine, in the way that WithPinning shows, and one of its own as usual.
func TestABoundWorkerCallsAnotherGoroutinesCoroutine(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinCores))
	numbers := func(yield func(int) bool) {
		for i := range 3 {
			if !yield(i) {
				return
			}
		}
	}
	next, stop := iter.Pull(numbers)
	defer stop()
	sum, err := Async(p, func(w *Worker) (sum int, err error) {
		for {
			var v int
			var ok bool
			w.Block(func() {
				done := make(chan struct{})
				go func() { defer close(done); v, ok = next() }()
				<-done
			})
			if !ok {
				break
			}
			sum += v
		}
		own, stop := iter.Pull(numbers)
		defer stop()
		for v, ok := own(); ok; v, ok = own() {
			sum += v
		}
		return sum, nil
	}).Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 6, sum)
}
