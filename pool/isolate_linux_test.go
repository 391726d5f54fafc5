package pool

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
)

// masks returns the CPUs of all threads of the process.
func masks(t testing.TB) map[int][]int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	all := make(map[int][]int)
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		require.NoError(t, err)
		var mask unix.CPUSet
		if unix.SchedGetaffinity(tid, &mask) != nil {
			continue // it is gone
		}
		for cpu := range len(mask) * 64 {
			if mask.IsSet(cpu) {
				all[tid] = append(all[tid], cpu)
			}
		}
	}
	return all
}

// moreThreads makes the runtime start threads, and calls f while they are there.
func moreThreads(f func()) {
	var started, ended sync.WaitGroup
	end := make(chan struct{})
	for range 10 {
		started.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-end
		})
	}
	started.Wait()
	f()
	close(end)
	ended.Wait()
}

// maskedThreads has the masks of the process's threads at the beginning of a test. Some threads may
// be bound: those of a pool that a failed test has left open, and the main thread if a goroutine
// ended on it while it was bound, because the runtime cannot end that thread.
type maskedThreads map[int][]int

// requireIsolated checks that only threads that are bound to the CPUs may use them, and that there
// are as many more of these than at the beginning as there are workers.
func (before maskedThreads) requireIsolated(t testing.TB, cpus []int, workers int) {
	t.Helper()
	moreThreads(func() {
		bound := 0
		for tid, mask := range masks(t) {
			switch {
			case slices.Equal(before[tid], mask) && len(mask) < len(allowed(t)):
			case slices.ContainsFunc(mask, func(cpu int) bool { return !slices.Contains(cpus, cpu) }):
				for _, cpu := range cpus {
					require.NotContains(t, mask, cpu, "thread %d", tid)
				}
			default:
				bound++
			}
		}
		require.Equal(t, workers, bound, "threads of workers")
	})
}

// requireShared checks that no thread lacks a CPU that had it at the beginning.
func (before maskedThreads) requireShared(t testing.TB) {
	t.Helper()
	var lacking map[int][]int
	moreThreads(func() {
		require.True(t, testutil.Eventually(func() bool { // threads that end locked take a moment
			lacking = make(map[int][]int)
			for tid, mask := range masks(t) {
				if !slices.Equal(mask, allowed(t)) && !slices.Equal(mask, before[tid]) {
					lacking[tid] = mask
				}
			}
			return len(lacking) == 0
		}), "%v", lacking)
	})
}

func TestOtherThreadsAreOffTheCPUsOfAnIsolatedPoolUntilItCloses(t *testing.T) {
	twoCPUs(t)
	before := maskedThreads(masks(t))
	for _, options := range [][]Option{
		{WithWorkers(1)},
		{WithWorkers(1), WithPinning(PinNodes)},
		{WithWorkers(1), WithPinning(PinL3)},
		{WithWorkers(1), WithPinning(PinAuto)},
		{WithCPUs(allowed(t)[1])},
		{WithCPUs(allowed(t)[0]), WithWorkers(3)},
	} {
		p := newPool(t, append(options, WithTuning(Tuning{Isolate: true}))...)
		before.requireIsolated(t, p.cpus, p.Workers())
		require.NoError(t, For(p, 10_000, func(int) { work(100) }))
		require.NoError(t, p.Run(func(w *Worker) {
			require.Equal(t, serialFib(15), fib(w, 15))
			for _, cpu := range threadCPUs(t) {
				require.NotContains(t, p.cpus, cpu, "a guest is a thread like others")
			}
		}))
		require.NoError(t, p.Close())
		before.requireShared(t)
	}
}

// TestIsolationLastsWhateverBecomesOfWorkers runs in a process of its own, for Goexit may
// leave the main thread bound.
func TestIsolationLastsWhateverBecomesOfWorkers(t *testing.T) {
	_, mine := twoCPUs(t)
	if !inChild() {
		output, err := child(t)
		require.NoError(t, err, output)
		return
	}
	before := maskedThreads(masks(t))
	p := newPool(t, WithCPUs(mine), WithWorkers(2), WithTuning(Tuning{MaxWorkers: 4}), WithTuning(Tuning{Isolate: true}))
	check := func() {
		t.Helper()
		moreThreads(func() {
			for tid, mask := range masks(t) {
				if !slices.Equal(mask, []int{mine}) {
					require.NotContains(t, mask, mine, "thread %d", tid)
				}
			}
		})
	}
	check()
	for range testutil.Stress(5) {
		for _, n := range []int{4, 1, 3, 2} {
			require.NoError(t, p.Resize(n))
			requireRunsTogether(t, p, n)
			check()
		}
		for range 4 {
			require.NoError(t, p.Go(func(*Worker) { runtime.Goexit() }))
		}
		requireAtRest(t, p)
		check()
		meet, release := testutil.NewBarrier(3), make(chan struct{})
		for range 2 {
			require.NoError(t, p.Go(func(w *Worker) {
				w.Block(func() { meet.Wait(); <-release })
			}))
		}
		meet.Wait()
		requireRunsTogether(t, p, 2) // spares
		check()
		close(release)
		requireAtRest(t, p)
		check()
	}
	require.NoError(t, p.Close())
	before[os.Getpid()] = masks(t)[os.Getpid()] // a worker may have ended there
	before.requireShared(t)
}

func TestWhatCannotBeIsolatedIsAnErrorThatChangesNothing(t *testing.T) {
	cpu, other := twoCPUs(t)
	before := maskedThreads(masks(t))
	procs := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		options []Option
		want    string
	}{
		{[]Option{WithTuning(Tuning{Isolate: true}), WithPinning(PinNone)}, "Tuning.Isolate and PinNone contradict each other"},
		{[]Option{WithTuning(Tuning{Isolate: true}), WithCPUs(allowed(t)...)}, "leaves none of CPUs"},
		{[]Option{WithTuning(Tuning{Isolate: true}), WithCPUs(allowed(t)...), WithTuning(Tuning{FreePs: 2})}, "leaves none of CPUs"},
		{[]Option{WithTuning(Tuning{Isolate: true}), WithWorkers(len(allowed(t)))}, "leaves none of CPUs"},
		{[]Option{WithTuning(Tuning{Isolate: true}), WithWorkers(1), WithTuning(Tuning{MaxWorkers: len(allowed(t))})}, "leaves none of CPUs"},
	} {
		p, err := New(c.options...)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, p)
		before.requireShared(t)
		require.Equal(t, procs, runtime.GOMAXPROCS(0))
	}

	first := newPool(t, WithCPUs(other), WithTuning(Tuning{Isolate: true}))
	for range 3 {
		_, err := New(WithCPUs(other), WithTuning(Tuning{Isolate: true}), WithSlowTask(time.Hour, nil))
		require.ErrorContains(t, err, "isolated already; end that isolation first")
	}
	if len(allowed(t)) == 2 {
		_, err := New(WithCPUs(cpu), WithTuning(Tuning{Isolate: true}))
		require.ErrorContains(t, err, "leaves none of CPUs")
	}
	require.NotContains(t, threadCPUs(t), other, "the first one is still isolated")
	require.NoError(t, first.Close())
	before.requireShared(t)
	second := newPool(t, WithCPUs(other), WithTuning(Tuning{Isolate: true}))
	require.NoError(t, second.Close())
	before.requireShared(t)
}

// TestAPoolBesideAnIsolatedOneStaysBound when the isolated one closes.
func TestAPoolBesideAnIsolatedOneStaysBound(t *testing.T) {
	cpus := allowed(t)
	mine, _ := twoCPUs(t)
	isolated := newPool(t, WithCPUs(mine), WithTuning(Tuning{Isolate: true}))
	other := newPool(t, WithCPUs(cpus[1:]...), WithPinning(PinNodes), WithWorkers(1))
	tid := threadOf(t, other)
	bound := masks(t)[tid]
	require.NotContains(t, bound, mine)
	require.NoError(t, isolated.Close())
	require.Equal(t, bound, masks(t)[tid])
}

// TestOrdinaryPoolsComeAndGoBesideAnIsolatedOne, and leave no thread on its CPU.
func TestOrdinaryPoolsComeAndGoBesideAnIsolatedOne(t *testing.T) {
	_, mine := twoCPUs(t)
	before := maskedThreads(masks(t))
	isolated := newPool(t, WithCPUs(mine), WithTuning(Tuning{Isolate: true}))
	for _, options := range [][]Option{nil, {WithPinning(PinNone)}, {WithPinning(PinCores)}, {WithPinning(PinNodes)}} {
		p := newPool(t, options...)
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 12) }))
		ran := make(chan int)
		require.NoError(t, p.Go(func(w *Worker) { ran <- fib(w, 12) }))
		require.Equal(t, serialFib(12), <-ran)
		require.NoError(t, p.Close())
		moreThreads(func() {
			for tid, mask := range masks(t) {
				if len(mask) > 1 {
					require.NotContains(t, mask, mine, "thread %d", tid)
				}
			}
		})
	}
	require.NoError(t, isolated.Close())
	before.requireShared(t)
}
