package hazards

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// TestRayon746NobodySleepsOverAJob: rayon woke all of its threads for every job and let them spin.
// The protocol that replaced this in #746 at first compared a counter of events. Its review found
// that the counter could roll over to its old value, and then the last thread would have fallen
// asleep over a job.
//
// Here a worker compares nothing that could come again: it announces its sleep and then looks into
// every queue (internal/core/sleep.go, Place.FallAsleep), and a submitter wakes one worker at most (pool/sleep.go,
// notifyTask and wakeOne).
func TestRayon746NobodySleepsOverAJob(t *testing.T) {
	claim.That(t, "rayon#746: no worker sleeps over a job, a job wakes one worker and not all, and an idle pool does nothing",
		"jobs at random moments of the workers' way to sleep")
	p := newPool(t, pool.WithWorkers(8), pool.WithPinning(pool.PinNone), pool.WithTuning(pool.Tuning{Spin: -1}))
	parks := func() uint64 { return p.Stats().Total().Parks }
	ran := make(chan struct{}, 1)
	submit := func() {
		require.NoError(t, p.Go(func(*pool.Worker) { ran <- struct{}{} }))
		soon(t, ran, "a job that came when workers fell asleep")
	}
	n := rounds(30_000)
	for range n {
		submit()
		heist.Spin(time.Duration(rand.IntN(10_000)))
	}
	requireIdle(t, p)
	before := parks()
	require.NotZero(t, before)
	m := rounds(1000)
	for range m {
		awake := parks()
		submit()
		eventually(t, "the worker that was woken to sleep again", func() bool { return parks() > awake })
	}
	requireIdle(t, p)
	// A second worker is woken only if the system takes the thread of the first one away for a
	// while.
	require.Less(t, parks()-before, uint64(m+m/5+5), "sleeps, which is how many were woken, for jobs that came to a sleeping pool")
	claim.Amount(t, "%s jobs at random moments, %s to a sleeping pool", claim.Count(n), claim.Count(m))
}

// requireIdle waits until the pool is idle.
func requireIdle(t *testing.T, p *pool.Pool) {
	t.Helper()
	last, quiet := ^uint64(0), 0
	eventually(t, "idle workers look for work for ever", func() bool {
		time.Sleep(time.Millisecond)
		now := p.Stats().Total()
		if did := now.Looks + now.Parks; did != last {
			last, quiet = did, 0
		}
		quiet++
		return quiet > 20
	})
}

// TestRayon929LatchOutlivesItsOwner: a thread that set a SpinLatch went on to use the
// registry through the latch, which the thread that it had just released had freed.
//
// Here a thief takes what it needs before it completes the latch and touches nothing of the frame
// afterwards (pool/waiting.go, complete, and pool/fork.go, run). Each park ends with one unpark, by
// the thief that has claimed the sleeper, so no wake-up comes when its worker waits for something
// else already (internal/core/park.go).
//
// The owners use the frame of a stolen fork at once for the next, which is stolen as well,
// and now and then leave the pool, or close it, instead.
func TestRayon929LatchOutlivesItsOwner(t *testing.T) {
	claim.That(t, "rayon#929: whoever completes a latch touches nothing that its waiter uses again, or has left",
		"stolen forks whose frames, guest slots and pools are given up or used again at once")
	type value [4]uint64 // larger than what is stored at once
	var joins, stolen, wrong atomic.Uint64
	join := func(w *pool.Worker, n uint64) {
		var begun atomic.Bool
		_, v := both(w,
			func(*pool.Worker) (none struct{}) {
				for i := 0; i < 1000 && !begun.Load(); i++ {
					heist.Yield()
				}
				if begun.Load() {
					stolen.Add(1)
				}
				return none
			},
			func(*pool.Worker) value {
				begun.Store(true)
				heist.Spin(time.Duration(n % 7 * 200))
				return value{n, n, n, n}
			})
		joins.Add(1)
		if v != (value{n, n, n, n}) {
			wrong.Add(1)
		}
	}
	const guests = 2
	for range rounds(20) {
		p := newPool(t, pool.WithWorkers(2*guests), pool.WithPinning(pool.PinNone))
		finishes(t, "a join", func() {
			testutil.Together(guests, func(int) {
				for i := range uint64(100) {
					_ = p.Run(func(w *pool.Worker) {
						for j := range i % 8 {
							join(w, 8*i+j)
						}
					})
				}
			})()
		})
		requireCloses(t, p)
	}
	require.Zero(t, wrong.Load(), "results of other forks, or parts of them")
	require.NotZero(t, stolen.Load())
	claim.Amount(t, "%s joins, %s of them stolen", claim.Count(joins.Load()), claim.Count(stolen.Load()))
}

// both is pool.Join for closures.
func both[X, Y any](w *pool.Worker, f func(*pool.Worker) X, g func(*pool.Worker) Y) (X, Y) {
	return pool.Join(w, apply[X], f, apply[Y], g)
}

func apply[R any](w *pool.Worker, f func(*pool.Worker) R) R { return f(w) }
