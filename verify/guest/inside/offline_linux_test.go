package inside

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// The kernel moves a thread elsewhere whose CPU goes away, and forgets that it was pinned.
// The pool is not told. It may run slower then, on the CPUs that are left.

func TestOffliningACPULosesNothing(t *testing.T) {
	m := machine(t)
	p := newPool(t, allCPUs(m))
	underLoad(t, p, func(settle func()) {
		// Some kernels on x86 cannot do without CPU 0.
		for cpu := 1; cpu < m.CPUs(); cpu++ {
			setOnline(t, false, cpu)
			settle()
			setOnline(t, true, cpu)
		}
	})
}

func TestOffliningANodesLastCPULosesNothing(t *testing.T) {
	m := machine(t)
	p := newPool(t, allCPUs(m))
	underLoad(t, p, func(settle func()) {
		for node := 1; node < m.Nodes(); node++ {
			for _, cpu := range m.NodeCPUs(node) {
				setOnline(t, false, cpu)
			}
			settle()
			for _, cpu := range m.NodeCPUs(node) {
				setOnline(t, true, cpu)
			}
		}
	})
}

// What the process was started with no longer tells which CPUs there are.
func TestOfflineCPUsAreReadAsOffline(t *testing.T) {
	m := machine(t)
	last := m.Nodes() - 1
	for _, cpu := range m.NodeCPUs(last) {
		setOnline(t, false, cpu)
	}
	got, err := numa.Read()
	require.NoError(t, err)
	require.Empty(t, got.Nodes[last].CPUs)
	require.NotZero(t, got.Nodes[last].MemoryBytes)
	left := m.CPUs() - len(m.NodeCPUs(last))
	require.Len(t, got.Complete, m.CPUs())
	require.Len(t, got.Online, left)
	require.Len(t, got.Allowed, left)
}

// All CPUs but the first one go, which is the most that can happen to a pool.
func TestLastCPURunsTheWholePool(t *testing.T) {
	m := machine(t)
	p := newPool(t, allCPUs(m))
	underLoad(t, p, func(settle func()) {
		for cpu := 1; cpu < m.CPUs(); cpu++ {
			setOnline(t, false, cpu)
		}
		settle()
		for cpu := 1; cpu < m.CPUs(); cpu++ {
			setOnline(t, true, cpu)
		}
	})
}

func TestShrinkingTheCPUSetLosesNothing(t *testing.T) {
	m := machine(t)
	group := joinGroup(t, "heist", "cpuset")
	p := newPool(t, allCPUs(m))
	underLoad(t, p, func(settle func()) {
		for _, cpus := range []numa.Set{m.NodeCPUs(m.Nodes() - 1), {0}, {1, m.CPUs() - 1}} {
			write(t, cpus.String(), group, "cpuset.cpus")
			effective, err := os.ReadFile(group + "/cpuset.cpus.effective")
			require.NoError(t, err)
			require.Equal(t, cpus.String()+"\n", string(effective))
			settle()
		}
		write(t, fmt.Sprintf("0-%d", m.CPUs()-1), group, "cpuset.cpus")
	})
}

// setOnline gives a CPU to the kernel or takes it away. After the test all have it again.
func setOnline(t *testing.T, on bool, cpu int) {
	t.Helper()
	folder := fmt.Sprintf("/sys/devices/system/cpu/cpu%d", cpu)
	if on {
		write(t, "1", folder, "online")
		return
	}
	t.Cleanup(func() { write(t, "1", folder, "online") })
	write(t, "0", folder, "online")
}

// underLoad calls disturb while the pool has tasks and forks to run, from several sides at
// once. It requires that every task ran exactly once and that all results are right. It
// gives disturb a function that waits until each side has seen the pool as it is then.
func underLoad(t *testing.T, p *pool.Pool, disturb func(settle func())) {
	t.Helper()
	rounds := []func(*pool.Pool) error{tasks, loops, forks}
	turns := make([]atomic.Int64, len(rounds))
	errs := make([]error, len(rounds))
	var enough atomic.Bool
	var sides sync.WaitGroup
	for i, round := range rounds {
		sides.Go(func() {
			for !enough.Load() {
				if errs[i] = round(p); errs[i] != nil {
					enough.Store(true)
				}
				turns[i].Add(1)
			}
		})
	}
	settle := func() {
		t.Helper()
		begun := make([]int64, len(turns))
		for i := range turns {
			begun[i] = turns[i].Load()
		}
		require.True(t, testutil.ReturnsWithin(patience, func() {
			for i := range turns {
				// The round that runs now has seen the pool as it was.
				for turns[i].Load() < begun[i]+2 && !enough.Load() {
					time.Sleep(time.Millisecond)
				}
			}
		}), "the pool does not get on")
	}
	settle()
	disturb(settle)
	settle()
	enough.Store(true)
	require.True(t, testutil.ReturnsWithin(patience, sides.Wait), "the pool does not come to an end")
	require.NoError(t, errors.Join(errs...))
	for i := range turns {
		t.Logf("side %d: %d rounds", i, turns[i].Load())
	}
}

// tasks submits tasks from outside, each of which spawns another.
func tasks(p *pool.Pool) error {
	const n = 200
	var ran [2 * n]atomic.Uint32
	var left sync.WaitGroup
	left.Add(len(ran))
	var refused atomic.Pointer[error]
	refuse := func(err error, tasks int) {
		if err != nil {
			refused.Store(&err)
			left.Add(-tasks)
		}
	}
	for i := range n {
		refuse(p.Go(func(w *pool.Worker) {
			ran[i].Add(1)
			refuse(w.Go(func(*pool.Worker) {
				ran[n+i].Add(1)
				left.Done()
			}), 1)
			left.Done()
		}), 2)
	}
	left.Wait()
	if err := refused.Load(); err != nil {
		return *err
	}
	for i := range ran {
		if times := ran[i].Load(); times != 1 {
			return fmt.Errorf("task %d of %d ran %d times", i, len(ran), times)
		}
	}
	return nil
}

// loops adds up numbers in pieces that may be stolen.
func loops(p *pool.Pool) error {
	const n = 2000
	var sum atomic.Int64
	if err := par.For(p, n, func(i int) { sum.Add(int64(i)) }, pool.Grain(10)); err != nil {
		return err
	}
	if want := int64(n * (n - 1) / 2); sum.Load() != want {
		return fmt.Errorf("the sum of a loop is %d and should be %d", sum.Load(), want)
	}
	return nil
}

var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

// forks forks at every level.
func forks(p *pool.Pool) error {
	got, err := fib.Run(p, 16)
	if err == nil && got != 987 {
		err = fmt.Errorf("fib(16) is 987 and not %d", got)
	}
	return err
}
