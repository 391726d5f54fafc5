package pool

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
)

// TestGoexitDoesNotLeaveTheProcessBound: a thread whose goroutine ends while it is locked
// ends too, but not the process's first one. The runtime parks that for ever, as it is.
func TestGoexitDoesNotLeaveTheProcessBound(t *testing.T) {
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	if len(allowed) < 2 {
		t.Skip("with one CPU, bound or not is the same")
	}
	if !inChild() { // a first thread that is parked already has no worker
		output, err := child(t)
		require.NoError(t, err, output)
		return
	}
	const workers = 16
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		p := newPool(t, WithWorkers(workers), WithPinning(PinCores))
		var met atomic.Bool
		var all sync.WaitGroup
		all.Add(workers)
		for range workers {
			require.NoError(t, p.Go(func(*Worker) {
				all.Done()
				all.Wait() // each worker has one
				if unix.Gettid() == os.Getpid() {
					met.Store(true)
					runtime.Goexit()
				}
			}))
		}
		all.Wait()
		requireCloses(t, p)
		if met.Load() {
			var mask unix.CPUSet
			require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &mask))
			require.Equal(t, len(allowed), mask.Count())
			return
		}
	}
	t.Skip("no worker was on the process's first thread")
}
