package soak

import (
	"flag"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

var tasks = flag.Int("tasks", 0, "how many tasks TestParkingLosesNoTask runs in all; 0 is 2 million, 100 million for a claim")

// TestParkingLosesNoTask has tasks come in bursts, and between two bursts time for the
// workers to fall asleep, or nearly: the gaps are as long as a worker spins, give or take.
// Half of the tasks of a burst come from outside and spawn the other half.
func TestParkingLosesNoTask(t *testing.T) {
	claim.That(t, "no task is lost while workers fall asleep and wake up", "bursts of tasks with gaps as long as a worker spins, each task counted")
	const most = 4000
	p, err := pool.New()
	require.NoError(t, err)
	defer p.Close()
	seed := chosenSeed()
	random := rand.New(rand.NewPCG(seed, 0))
	var (
		ran    [most]atomic.Uint32 // how often each task of the burst
		left   atomic.Int64
		over   = make(chan struct{}, 1)
		finish = func() {
			if left.Add(-1) == 0 {
				over <- struct{}{}
			}
		}
		outer, inner [most]func(*pool.Worker)
	)
	for i := range most {
		inner[i] = func(*pool.Worker) { ran[i].Add(1); finish() }
		outer[i] = func(w *pool.Worker) {
			ran[i].Add(1)
			if err := w.Go(inner[i+1]); err != nil {
				panic(err)
			}
			finish()
		}
	}
	parks := p.Stats().Total().Parks
	bursts, total, want := 0, 0, amount(*tasks, 2_000_000, 2_000_000, 100_000_000)
	for ; total < want; bursts++ {
		n := 2 << random.IntN(11) // many small bursts, in which a wake-up matters most
		left.Store(int64(n))
		for i := 0; i < n; i += 2 {
			require.NoError(t, p.Go(outer[i]))
		}
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Fatalf("seed %d, burst %d: %d of %d tasks never ran", seed, bursts, left.Load(), n)
		}
		for i := range n {
			if k := ran[i].Swap(0); k != 1 {
				t.Fatalf("seed %d, burst %d: task %d ran %d times", seed, bursts, i, k)
			}
		}
		total += n
		if gap := random.IntN(4); gap > 0 {
			for until := time.Now().Add(time.Duration(random.IntN(10*gap)) * time.Microsecond); time.Now().Before(until); {
			}
		}
	}
	parks = p.Stats().Total().Parks - parks
	t.Logf("%d tasks in %d bursts, none lost, none run twice; workers parked %d times", total, bursts, parks)
	require.NotZero(t, parks)
	claim.Amount(t, "%s tasks, %s parks", claim.Count(total), claim.Count(parks))
}
