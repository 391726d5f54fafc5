package pool

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threads returns the number of threads of the process, and of those among them
// that may not use all of its CPUs.
func threads(t testing.TB) (all, narrowed int) {
	t.Helper()
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		var mask unix.CPUSet
		if unix.SchedGetaffinity(id, &mask) != nil {
			continue // it has just ended
		}
		all++
		if mask.Count() < len(cpus) {
			narrowed++
		}
	}
	return all, narrowed
}

func TestNoThreadIsLeftNarrowedAfterClose(t *testing.T) {
	skipIfPretended(t)
	if len(threadCPUs(t)) < 2 {
		t.Skip("with a single CPU, pinned and not pinned are the same")
	}
	before, narrowedBefore := threads(t)
	for round := range testutil.Stress(100) {
		p, err := New(WithWorkers(4), WithPinning(PinCores))
		require.NoError(t, err)
		require.NoError(t, p.Run(func(w *Worker) { fib(w, 5) }))
		if round%4 == 0 {
			_, narrowed := threads(t)
			require.Equal(t, narrowedBefore+4, narrowed)
		}
		require.NoError(t, p.Close())
	}
	require.True(t, testutil.Eventually(func() bool {
		_, narrowed := threads(t)
		return narrowed <= narrowedBefore
	}))
	after, _ := threads(t)
	require.Less(t, after, before+50, "threads are left behind")
}

// TestAPoolOfGoroutinesAddsNoThreads compares a program with the same program without a pool, whose loops
// are divided among goroutines. Each runs in a process of its own, because a thread that Go has started
// stays.
func TestAPoolOfGoroutinesAddsNoThreads(t *testing.T) {
	const with = "HEIST_TEST_WITH_POOL"
	if inChild() {
		loop := func(n int, f func(lo, hi int)) {
			k := runtime.GOMAXPROCS(0)
			testutil.Together(k, func(i int) { f(border(n, i, k), border(n, i+1, k)) })()
		}
		task := func(f func()) { go f() }
		if os.Getenv(with) != "" {
			p := newPool(t, WithPinning(PinNone))
			loop = func(n int, f func(lo, hi int)) { require.NoError(t, ForRange(p, n, f)) }
			task = func(f func()) { require.NoError(t, p.Go(func(*Worker) { f() })) }
		}
		most := 0
		for range 100 {
			testutil.Together(4, func(int) { // callers, each with goroutines of its own
				var beside sync.WaitGroup
				beside.Add(2)
				go func() { defer beside.Done(); work(20_000) }()
				task(func() { defer beside.Done(); work(20_000) })
				loop(2000, func(lo, hi int) {
					for range hi - lo {
						work(100)
					}
				})
				beside.Wait()
				time.Sleep(100 * time.Microsecond)
			})()
			all, _ := threads(t)
			most = max(most, all)
		}
		t.Logf("threads: %d", most)
		return
	}
	count := func(environment ...string) int {
		var counts []int
		for range 5 {
			output, err := child(t, environment...)
			require.NoError(t, err, output)
			_, after, ok := strings.Cut(output, "threads: ")
			require.True(t, ok, output)
			var n int
			_, err = fmt.Sscan(after, &n)
			require.NoError(t, err)
			counts = append(counts, n)
		}
		slices.Sort(counts)
		t.Logf("%v with %q", counts, environment)
		return counts[len(counts)/2]
	}
	without := count()
	require.LessOrEqual(t, count(with+"=1"), without+1) // which goroutines wait for Go's poller or a timer at the same time is chance
}

// TestReplacedWorkerIsPinnedAgain: a worker whose goroutine ended goes on in another
// thread.
func TestReplacedWorkerIsPinnedAgain(t *testing.T) {
	skipIfPretended(t)
	cpus := threadCPUs(t)
	p := newPool(t, WithCPUs(cpus[len(cpus)-1]))
	for range testutil.Stress(20) {
		require.NoError(t, p.Go(func(*Worker) { runtime.Goexit() }))
		on := make(chan []int)
		require.NoError(t, p.Go(func(*Worker) { on <- threadCPUs(t) }))
		require.Equal(t, cpus[len(cpus)-1:], <-on)
	}
}

// threadCPUs returns the CPUs that the calling thread may use.
func threadCPUs(t testing.TB) (cpus []int) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Error(err)
	}
	for cpu := range len(mask) * 64 {
		if mask.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// TestALonersTurnIsOfItsCPU: a P that waits for its timers is not helped by a turn on another one.
func TestALonersTurnIsOfItsCPU(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	const many = 1 << 20 // fill the Ps
	p.loners.callers.Add(many)
	defer p.loners.callers.Add(-many)
	now := heist.Ticks()
	taken := map[int]bool{}
	for _, cpu := range allowed(t) {
		turn := cpu % len(p.loners.turns)
		if taken[turn] {
			continue
		}
		taken[turn] = true
		pinned, err := heist.Pin(cpu)
		require.NoError(t, err)
		require.Greater(t, p.loners.giveWay(p, now), now)
		require.Equal(t, now, p.loners.giveWay(p, now))
		require.NoError(t, pinned.Unpin())
	}
}

// TestNoWorkerYieldsToWhatComputesForLong: the system gives it a whole slice for each yield, and the tasks of the pool wait meanwhile.
func TestNoWorkerYieldsToWhatComputesForLong(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // each has a P, and the two share a CPU
	p := newPool(t, WithWorkers(1))
	cpu := allowed(t)[0]
	var over atomic.Bool
	var hog sync.WaitGroup
	hog.Go(func() {
		pinned, err := heist.Pin(cpu)
		if err != nil {
			t.Error(err)
			return
		}
		for !over.Load() {
			heist.Spin(10 * time.Microsecond)
		}
		if err := pinned.Unpin(); err != nil {
			t.Error(err)
		}
	})
	until := func() int64 { return p.rounds.yieldAgain.Load() }
	require.NoError(t, p.Run(func(w *Worker) {
		pinned, err := heist.Pin(cpu)
		require.NoError(t, err)
		require.True(t, testutil.Eventually(func() bool { (*searcher)(w).Yield(); return until() > heist.Ticks() }))
		dear := 0
		for before, n := until(), 0; n < 1000; n++ {
			(*searcher)(w).Yield()
			if now := until(); now != before {
				before = now
				dear++
			}
		}
		require.Less(t, dear, 10, "the pool's worker may have yielded at the same time, and each time without yields ends")
		require.NoError(t, pinned.Unpin())
	}))
	over.Store(true)
	hog.Wait()
}
