package pool

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/numa"
)

func allowed(t testing.TB) []int {
	t.Helper()
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	require.NotEmpty(t, cpus)
	return cpus
}

func TestBadOptionsAreNamedInTheError(t *testing.T) {
	first := allowed(t)[0]
	for _, c := range []struct {
		options []Option
		want    string
	}{
		{[]Option{WithWorkers(0)}, "WithWorkers(0)"},
		{[]Option{WithWorkers(-1)}, "WithWorkers(-1)"},
		{[]Option{WithWorkers(1 << 20)}, "WithWorkers(1048576)"},
		{[]Option{WithWorkers(maxWorkers + 1)}, fmt.Sprintf("from 1 to %d", maxWorkers)},
		{[]Option{WithWorkers(1), WithWorkers(0)}, "WithWorkers(0)"},
		{[]Option{WithCPUs()}, "WithCPUs without a CPU"},
		{[]Option{WithCPUs(-1)}, "CPU -1 does not exist or is not allowed"},
		{[]Option{WithCPUs(100000)}, "CPU 100000 does not exist or is not allowed"},
		{[]Option{WithCPUs(first, 100000)}, "CPU 100000 does not exist or is not allowed"},
		{[]Option{WithCPUs(first, first)}, fmt.Sprintf("CPU %d is given twice", first)},
		{[]Option{WithCPUs(first), WithPinning(PinNone)}, "WithCPUs and PinNone contradict each other"},
		{[]Option{WithPinning(PinNone), WithCPUs(first)}, "WithCPUs and PinNone contradict each other"},
		{[]Option{WithPinning(99)}, "WithPinning(99)"},
		{[]Option{WithPinning(-1)}, "WithPinning(-1)"},
		{[]Option{nil}, "nil Option"},
		{[]Option{WithWorkers(1), nil}, "nil Option"},
	} {
		p, err := New(c.options...)
		require.ErrorContains(t, err, c.want)
		require.True(t, strings.HasPrefix(err.Error(), "pool: "), err)
		require.Nil(t, p)
	}
}

func TestDefaultIsAWorkerForEachCPUThatMayBeUsed(t *testing.T) {
	skipIfPretended(t)
	for _, procs := range []int{1, runtime.NumCPU(), 100} {
		t.Run(fmt.Sprint(procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			p := newPool(t)
			require.Equal(t, min(procs, len(allowed(t))), p.Workers())
		})
	}
}

func TestOptionsThatGoTogether(t *testing.T) {
	cpus := allowed(t)
	p := newPool(t, WithWorkers(3), WithWorkers(5))
	require.Equal(t, 5, p.Workers(), "the last one counts")

	p = newPool(t, WithPinning(PinNone))
	require.False(t, isPinned(p))

	if runtime.GOOS != "linux" {
		return
	}
	p = newPool(t, WithCPUs(cpus...))
	require.Equal(t, len(cpus), p.Workers())
	require.True(t, isPinned(p))

	p = newPool(t, WithCPUs(cpus[0]), WithWorkers(3), WithPinning(PinAuto))
	require.Equal(t, 3, p.Workers())
	require.True(t, isPinned(p))

	p = newPool(t, WithPinning(PinCores))
	require.True(t, isPinned(p))
}

// TestCallerKeepsItsSlice: the caller may change it after New.
func TestCallerKeepsItsSlice(t *testing.T) {
	cpus := slices.Clone(allowed(t))
	c := &config{machine: thisMachine}
	require.NoError(t, WithCPUs(cpus...)(c))
	cpus[0] = -1
	require.Equal(t, allowed(t), c.cpus)
}

func TestSpreadKeepsAllCPUs(t *testing.T) {
	for _, cpus := range [][]int{nil, {0}, {1, 0}, allowed(t), {100000, 3, 2, 1, 0}} {
		require.ElementsMatch(t, cpus, spread(topologyOf(t), cpus, 0))
	}
}

// TestProcessThatMayUseOneCPU tests in a process such as a container or taskset makes.
func TestProcessThatMayUseOneCPU(t *testing.T) {
	if inChild() {
		require.Len(t, allowed(t), 1)
		p := newPool(t)
		require.Equal(t, 1, p.Workers())
		require.False(t, isPinned(p))
		require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(15), fib(w, 15)) }))
		result := make(chan int)
		require.NoError(t, p.Go(func(w *Worker) { result <- fib(w, 15) }))
		require.Equal(t, serialFib(15), <-result)

		p = newPool(t, WithWorkers(4)) // the workers share the CPU
		for range 10 {
			require.NoError(t, p.Run(func(w *Worker) { stolenJoin(w, nop[int], nop[int]) }))
		}
		fmt.Println("one worker is enough")
		return
	}
	// A process inherits the mask of the thread that starts it.
	pinned, err := heist.Pin(allowed(t)[0])
	if err != nil {
		t.Skip(err)
	}
	output, err := child(t)
	require.NoError(t, pinned.Unpin())
	require.NoError(t, err, output)
	require.Contains(t, output, "one worker is enough")
}

func topologyOf(t *testing.T) *numa.Topology {
	machine, err := thisMachine.read()
	require.NoError(t, err)
	return machine
}

func TestThereAreNoMoreWorkersThanCPUsUnlessTheyAreAskedFor(t *testing.T) {
	most := runtime.NumCPU()
	if allowed, err := thisMachine.allowed(); err == nil && len(allowed) > 0 {
		most = len(allowed)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(most + 3))
	require.Equal(t, most, newPool(t).Workers())
	require.Equal(t, most+3, newPool(t, WithWorkers(most+3)).Workers())
}

func TestWhyTheAllowedCPUsAreNotKnownIsPassedOn(t *testing.T) {
	m := thisMachine
	m.allowed = func() ([]int, error) { return nil, io.ErrUnexpectedEOF }
	onMachine(t, m)
	_, err := New(WithCPUs(0))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestProcessesWithAQuotaDoNotAllBindToTheFirstCPUs: two containers with two of eight CPUs each, and workers bound to CPUs.
func TestProcessesWithAQuotaDoNotAllBindToTheFirstCPUs(t *testing.T) {
	setPs(t, 2)
	taken := make(map[int]int)
	for k := range 8 {
		m := pretended(2, 4)
		m.draw = func(n int) int { require.Equal(t, 8, n); return k }
		onMachine(t, m)
		p := newPool(t, WithPinning(PinCores))
		require.Equal(t, 2, p.Workers())
		for _, pl := range p.places[:2] {
			taken[pl.core.Placement().CPUs[0]]++
		}
		require.Equal(t, []int{k}, p.places[0].core.Placement().CPUs)
	}
	for cpu := range 8 {
		require.Equal(t, 2, taken[cpu], "CPU %d", cpu)
	}
	m := pretended(2, 1) // with as many CPUs as Ps there is no draw
	m.draw = func(int) int { t.Error("drawn"); return 0 }
	onMachine(t, m)
	require.Equal(t, []int{0}, newPool(t, WithPinning(PinCores)).places[0].core.Placement().CPUs)

	// Cores of their own come first, whichever is drawn.
	m = big(1, 1, 4, 2)
	m.draw = func(int) int { return 3 }
	onMachine(t, m)
	p := newPool(t, WithPinning(PinCores), WithWorkers(4))
	cores := make(map[int]bool)
	for _, pl := range p.places[:4] {
		cores[topologyOf(t).CPUs[pl.core.Placement().CPUs[0]].Core] = true
	}
	require.Len(t, cores, 4)
}

func isPinned(p *Pool) bool {
	pinning, _ := p.Pinning()
	return pinning != PinNone
}

func TestDefaultsOfSizeAndSpares(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Resize(procs))
	require.Error(t, p.Resize(procs+1))
	require.NoError(t, p.Resize(1))

	large := newPool(t, WithWorkers(procs+3))
	require.NoError(t, large.Resize(procs+3))
	require.Error(t, large.Resize(procs+4))

	// Some of the stand-ins are kept.
	const waiting = 50
	release := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(waiting)
	for range waiting {
		require.NoError(t, p.Go(func(w *Worker) {
			w.Block(func() { inside.Done(); <-release })
		}))
	}
	inside.Wait()
	close(release)
	requireAtRest(t, p)
	s := &p.core.Placements()[0]
	idle := s.Idle
	require.True(t, testutil.Eventually(func() bool { return idle() == s.Places+core.Spares }), "%d are idle", idle())
	n := 0
	require.True(t, testutil.Eventually(func() bool {
		n = 0
		p.workers.each(func(w *Worker) {
			if !w.core.Guest {
				n++
			}
		})
		return n == idle()
	}), "%d workers, %d of them idle", n, idle())
}

func TestNegativeSpinIsNone(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTuning(Tuning{Spin: -1}))
	require.Negative(t, p.places[0].search.Backoff.Spin)
	p = newPool(t, WithWorkers(1))
	require.Zero(t, p.places[0].search.Backoff.Spin, "the default")
}
