// Package waits checks the law that no program hangs with heist that would end with a goroutine for each of its tasks and guests,
// though it says nowhere that it waits. The programs wait for locks, channels, conditions, the network and the clock without Block.
//
// Most of them run a second time with each wait in Block. That shows that the program ends for heist if it is told of its waits,
// and so that a hang without is the fault of what notices them.
package waits

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// patience is how long a program may take before it counts as hanging. It ends in milliseconds.
const patience = time.Minute

// rounds is how often a program runs that a full check runs n times.
func rounds(n int) int {
	switch {
	case claim.Full() && !testutil.UnderRace:
		return n
	case testutil.Short() || testutil.UnderRace:
		return max(n/100, 1)
	}
	return max(n/20, 1)
}

// sizes are the numbers of workers with which the programs run.
var sizes = []int{1, 2, 4, 16}

// manner says how a program waits, and how often it runs.
type manner struct {
	name string
	wait func(p *pool.Pool, f func()) // calls f, which waits
	full int
}

var (
	unsaid = manner{"without Block", func(_ *pool.Pool, f func()) { f() }, 200}
	said   = manner{"with Block", (*pool.Pool).Block, 20}
)

func (m manner) rounds() int { return rounds(m.full) }

// mustEnd fails the test, and shows all goroutines, if f does not return. It is left behind then.
func mustEnd(t *testing.T, f func(), what string, args ...any) {
	t.Helper()
	if !testutil.ReturnsWithin(patience, f) {
		t.Fatalf(what+" does not end:\n%s", append(args, stacks())...)
	}
}

func stacks() []byte {
	for s := make([]byte, 1<<20); ; s = make([]byte, 2*len(s)) {
		if n := runtime.Stack(s, true); n < len(s) {
			return s[:n]
		}
	}
}

// newPool returns a pool that must close at the end of the test.
func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	t.Helper()
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() { // else it may never close
			mustEnd(t, func() { _ = p.Close() }, "Close")
		}
	})
	return p
}

// withPools runs a program on a pool of each size.
func withPools(t *testing.T, program func(t *testing.T, p *pool.Pool)) {
	for _, n := range sizes {
		p := newPool(t, pool.WithWorkers(n))
		mustEnd(t, func() { program(t, p) }, "with %d workers, the program", n)
	}
	claim.Amount(t, "%d rounds on each of %v workers", rounds(200), sizes)
}
