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

// TestTokio4941LIFOSlotIsStolen: in Tokio no worker could steal the task that another had queued
// last. It waited for the end of the task that its worker was in, however long that took and
// however many workers were idle.
//
// Here a thief leaves slots alone while it spins, and takes them in its last look before it parks
// (pool/worker.go, stealTasks; internal/core/sleep.md, "Nothing is missed").
//
// A task queues another one, alone or behind others, and does not end before that has run.
func TestTokio4941LIFOSlotIsStolen(t *testing.T) {
	claim.That(t, "tokio#4941: a task in the LIFO slot of a worker in a long task is taken by others",
		"tasks that do not end before the task in their own slot has run")
	n := 0
	for _, options := range [][]pool.Option{
		{pool.WithWorkers(2)},
		{pool.WithWorkers(2), pool.WithPinning(pool.PinNone), pool.WithTuning(pool.Tuning{Spin: -1})},
		{pool.WithWorkers(4), pool.WithPinning(pool.PinNone)},
	} {
		p := newPool(t, options...)
		for i := range rounds(1000) {
			ran := make(chan struct{})
			require.NoError(t, p.Go(func(w *pool.Worker) {
				for range i % 3 {
					_ = w.Go(func(*pool.Worker) {})
				}
				_ = w.Go(func(*pool.Worker) { close(ran) })
				<-ran
			}))
			soon(t, ran, "the task in the LIFO slot")
			n++
		}
		requireCloses(t, p)
	}
	claim.Amount(t, "%s tasks", claim.Count(n))
}

// TestTokio2387RingIsStolenFromWhileItIsStolenInto: Tokio's run queue counted so that it was
// taken for full one item early, and a worker that stole into its queue while that was stolen
// from wrote over slots that the thief had claimed and not yet read.
//
// Here a thief reads its items before the compare-and-swap that claims them. It writes no more into
// its own ring than there was room behind a head that can only have moved on since (ring.go,
// StealInto). And indices are not taken modulo anything, so a full ring is not mistaken for an
// empty one (Push).
//
// Workers steal from each other in a circle, with rings so small that they are nearly always
// full, and more of them than CPUs, so that some are held up in the middle of a steal.
func TestTokio2387RingIsStolenFromWhileItIsStolenInto(t *testing.T) {
	claim.That(t, "tokio#2387: a ring that is stolen from while its owner steals into it loses nothing, and holds all that its capacity says",
		"rings of 2 to 16 slots that are robbed in a circle; rings filled at each position")
	owners := crowd(t)
	n, stolen := 0, 0
	for range rounds(20) {
		for capacity := 2; capacity <= 16; capacity *= 2 {
			requireHoldsItsCapacity(t, capacity)
			rings := make([]*heist.Ring[atomic.Uint32], owners)
			for i := range rings {
				rings[i], _ = heist.NewRing[atomic.Uint32](capacity, nil)
			}
			its := make(items, owners*5000)
			moved := make([]int, owners)
			testutil.Together(owners, func(who int) {
				own, victim := rings[who], rings[(who+1)%owners]
				share := its[who*len(its)/owners : (who+1)*len(its)/owners]
				random := rand.New(rand.NewPCG(uint64(capacity), uint64(who)))
				for len(share) > 0 {
					switch random.IntN(8) {
					case 0, 1:
						if item := own.Pop(); item != nil {
							item.Add(1)
						}
					case 2, 3, 4:
						if item, k, r := victim.StealInto(own); r == heist.Success {
							item.Add(1)
							moved[who] += k
						}
					default:
						if own.Push(&share[0]) {
							share = share[1:]
						}
					}
				}
			})()
			for _, r := range rings {
				for item := r.Pop(); item != nil; item = r.Pop() {
					item.Add(1)
				}
			}
			its.requireOnceEach(t)
			n += len(its)
			for _, k := range moved {
				stolen += k
			}
		}
	}
	require.NotZero(t, stolen)
	claim.Amount(t, "%s items, %s moves", claim.Count(n), claim.Count(stolen))
}

func requireHoldsItsCapacity(t *testing.T, capacity int) {
	t.Helper()
	r, err := heist.NewRing[atomic.Uint32](capacity, nil)
	require.NoError(t, err)
	for position := range 2 * capacity {
		for i := range capacity {
			require.True(t, r.Push(new(atomic.Uint32)), "a ring of %d at index %d is full with %d items", capacity, position, i)
		}
		require.False(t, r.Push(new(atomic.Uint32)), "a ring of %d at index %d holds more", capacity, position)
		for range capacity {
			require.NotNil(t, r.Pop())
		}
		require.Nil(t, r.Pop())
		r.Push(new(atomic.Uint32)) // one position on
		r.Pop()
	}
}

// TestTokio5041HeadDoesNotComeBack: Tokio's queue indices had 16 bits. A thief that was held up
// while the owner took exactly 2^16 tasks found the head that it had seen, and claimed tasks that
// were not there.
//
// Here ring indices have 64 bits and never come back (ring.go). The word of a fork stack does come
// back, and that is harmless: the thief that moves it on claims what is public then, and reads the
// frame afterwards (pool/fork.go, claim).
//
// A thief of a very large ring copies for longer than the owner needs to take 2^16 items. And
// forks at one depth, whose words are all the same, are stolen by more thieves than there are
// CPUs, so that the system holds up some of them between their load and their compare-and-swap.
func TestTokio5041HeadDoesNotComeBack(t *testing.T) {
	claim.That(t, "tokio#5041: a thief that was held up for 2^16 items, or for a fork whose word comes back, claims nothing that it has not seen",
		"2^16 items taken while a thief copies; forks with the same word under more thieves than CPUs")
	crowd(t)
	thieves, overtaken := 0, 0
	eventually(t, "thieves that are overtaken", func() bool {
		thieves++
		if stealWhileHeadMoves(t, 1<<16) {
			overtaken++
		}
		return overtaken >= rounds(4)
	})
	forks, stolen := forkAtOneDepth(t, rounds(1_000_000))
	claim.Amount(t, "%s thieves, %s of them overtaken by 2^16 items; %s forks, %s of them stolen",
		claim.Count(thieves), claim.Count(overtaken), claim.Count(forks), claim.Count(stolen))
}

// stealWhileHeadMoves moves the head of a ring on by a distance while a thief copies, and says
// whether it did so before the thief was done.
func stealWhileHeadMoves(t *testing.T, distance int) (overtaken bool) {
	t.Helper()
	const capacity = 1 << 21
	victim, err := heist.NewRing[atomic.Uint32](capacity, nil)
	require.NoError(t, err)
	thief, err := heist.NewRing[atomic.Uint32](capacity, nil)
	require.NoError(t, err)
	its := make(items, capacity)
	for i := range its {
		victim.Push(&its[i])
	}
	var begun, moved atomic.Bool
	testutil.Together(2, func(who int) {
		if who == 0 {
			yieldUntil(begun.Load)
			heist.Spin(10 * time.Microsecond)
			for range distance {
				victim.Push(victim.Pop())
			}
			moved.Store(true)
			return
		}
		begun.Store(true)
		item, _, r := victim.StealInto(thief)
		overtaken = r == heist.Retry && moved.Load()
		if item != nil {
			item.Add(1)
		}
	})()
	for _, r := range []*heist.Ring[atomic.Uint32]{victim, thief} {
		for item := r.Pop(); item != nil; item = r.Pop() {
			item.Add(1)
		}
	}
	its.requireOnceEach(t)
	return overtaken
}

// forkAtOneDepth makes forks one after the other, at least n and until some were stolen. It returns
// how many there were and how many of them were stolen.
func forkAtOneDepth(t *testing.T, n int) (forks int, stolen uint64) {
	t.Helper()
	p := newPool(t, pool.WithWorkers(8), pool.WithPinning(pool.PinNone))
	eventually(t, "forks that are stolen", func() bool {
		its := make(items, 100_000)
		finishes(t, "a join", func() {
			_ = p.Run(func(w *pool.Worker) {
				for i := range its {
					pool.Join(w,
						func(_ *pool.Worker, i int) (none struct{}) { heist.Spin(time.Duration(i % 128)); return none }, i,
						func(_ *pool.Worker, i int) (none struct{}) { its[i].Add(1); return none }, i)
				}
			})
		})
		its.requireOnceEach(t)
		forks += len(its)
		stolen = p.Stats().Total().Steals
		return forks >= n && stolen > 0
	})
	return forks, stolen
}
