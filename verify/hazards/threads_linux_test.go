package hazards

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// TestGo20395WorkerOutlivesItsThread: a goroutine that ends while it is locked to its thread
// takes the thread along, because what was done to the thread, its CPU mask for instance, must
// not meet other goroutines (before Go 1.10 it did). A pool of locked workers loses one with each
// task that calls runtime.Goexit, as testing's FailNow does.
//
// Here the deferred call of the worker's goroutine starts another goroutine, which locks and binds
// a new thread and goes on with the same queues (pool/worker.go, live). A worker that ends gives
// its thread the old mask before it unlocks it (start).
//
// Tasks of each kind end that way. Afterwards there must be as many workers as before, bound as
// before, no threads must be left of those that died, and no other thread must be bound.
func TestGo20395WorkerOutlivesItsThread(t *testing.T) {
	claim.That(t, "golang/go#20395: a task that ends its thread costs the pool no worker and no task, and no other thread its CPUs",
		"runtime.Goexit in tasks, groups, futures and stolen forks of pinned workers; CPU masks of all threads")
	const workers = 2
	all := maskOf(t, os.Getpid())
	p := newPool(t, pool.WithWorkers(workers), pool.WithPinning(pool.PinCores))
	var tasks, exits atomic.Int64
	exit := func(*pool.Worker) {
		exits.Add(1)
		runtime.Goexit()
	}
	n := rounds(100)
	for range n {
		require.NoError(t, p.Go(exit))
		g, _ := pool.NewGroup(p)
		g.GoWorker(func(w *pool.Worker) error { exit(w); return nil })
		future := pool.Async(p, func(w *pool.Worker) (int, error) { exit(w); return 0, nil })
		fork, _ := pool.NewGroup(p)
		fork.GoWorker(func(w *pool.Worker) error {
			var begun atomic.Bool
			w.Do(func(*pool.Worker) { yieldUntil(begun.Load) },
				func(w *pool.Worker) { begun.Store(true); exit(w) })
			return errors.New("the end of the fork did not reach the join")
		})
		require.NoError(t, p.Go(func(*pool.Worker) { tasks.Add(1) }))
		finishes(t, "the wait for tasks that end their goroutine", func() {
			if err := g.Wait(); !errors.Is(err, pool.ErrGoexit) {
				t.Errorf("the group's error is %v", err)
			}
			if err := fork.Wait(); !errors.Is(err, pool.ErrGoexit) {
				t.Errorf("the error of the group with the fork is %v", err)
			}
			if _, err := future.Wait(context.Background()); !errors.Is(err, pool.ErrGoexit) {
				t.Errorf("the future's error is %v", err)
			}
		})
	}
	require.Equal(t, workers, boundWorkers(t, p, workers))
	requireCloses(t, p)
	require.EqualValues(t, n, tasks.Load())
	require.EqualValues(t, 4*n, exits.Load())
	eventually(t, "threads that are bound, or left, after the pool", func() bool {
		threads := threadsOf(t)
		for _, tid := range threads {
			if mask := maskOf(t, tid); mask != all && mask != (unix.CPUSet{}) {
				return false
			}
		}
		return len(threads) < 50
	})
	claim.Amount(t, "%s ends of threads", claim.Count(exits.Load()))
}

// boundWorkers has n tasks run at the same time and returns how many CPUs their threads were
// bound to.
func boundWorkers(t *testing.T, p *pool.Pool, n int) int {
	t.Helper()
	var bound atomic.Int32
	var meeting sync.WaitGroup
	meeting.Add(n)
	g, _ := pool.NewGroup(p)
	for range n {
		g.Go(func() error {
			meeting.Done()
			meeting.Wait()
			var mask unix.CPUSet
			if err := unix.SchedGetaffinity(0, &mask); err != nil {
				return err
			}
			if mask.Count() == 1 {
				bound.Add(1)
			}
			return nil
		})
	}
	finishes(t, "tasks that need all workers", func() {
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return int(bound.Load())
}

func threadsOf(t *testing.T) (tids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		tids = append(tids, tid)
	}
	return tids
}

// maskOf returns a thread's mask, an empty one for a thread that has ended.
func maskOf(t *testing.T, tid int) (mask unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(tid, &mask); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		require.NoError(t, err)
	}
	return mask
}
