// Package hazards has a test for each bug for which heist's peers are known: it brings about here
// what was dangerous there. The comments say what went wrong and which lines of heist keep it from
// happening.
package hazards

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// patience is how long a test waits for what must happen. What takes longer hangs.
const patience = time.Minute

// rounds returns how often to do what an ordinary go test does n times.
func rounds(n int) int {
	switch {
	case claim.Full() && !testutil.UnderRace:
		return 5 * n
	case testutil.Short() || testutil.UnderRace:
		return max(1, n/10)
	}
	return n
}

// finishes fails the test if f does not return. Its goroutine is left behind then.
func finishes(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	soon(t, done, what)
}

// soon waits until the channel is closed or sent to, which is when something has happened.
func soon(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: still waiting after %v", what, patience)
	}
}

// eventually waits for a condition that nothing signals.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: still waiting after %v", what, patience)
		}
	}
}

// crowd lets more goroutines run at once than there are CPUs until the test ends, so that the
// system stops some of them wherever they are, and returns how many.
func crowd(t *testing.T) int {
	n := 4 * runtime.NumCPU()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	return n
}

// newPool returns a pool that must close at the end of the test.
func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	t.Helper()
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() { // else it may never close
			requireCloses(t, p)
		}
	})
	return p
}

// requireCloses closes the pool, if that has not been done.
func requireCloses(t *testing.T, p *pool.Pool) {
	t.Helper()
	finishes(t, "Close", func() { _ = p.Close() })
}

// yieldUntil waits, without going to sleep, for what another thread will do at once.
func yieldUntil(condition func() bool) {
	for !condition() {
		runtime.Gosched()
	}
}

// items are things to queue that count how often they were taken.
type items []atomic.Uint32

func (its items) requireOnceEach(t *testing.T) {
	t.Helper()
	for i := range its {
		if n := its[i].Load(); n != 1 {
			t.Fatalf("item %d of %d was taken %d times", i, len(its), n)
		}
	}
}
