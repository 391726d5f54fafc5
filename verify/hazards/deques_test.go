package hazards

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// deque is what Deque and PortableDeque have in common.
type deque interface {
	Push(*atomic.Uint32) bool
	Pop() *atomic.Uint32
	Steal() (*atomic.Uint32, heist.StealResult)
	Stats() heist.DequeStats
}

var deques = []func(capacity int) deque{
	func(capacity int) deque {
		d, _ := heist.NewDeque[atomic.Uint32](heist.DequeConfig{Capacity: capacity})
		return d
	},
	func(capacity int) deque {
		d, _ := heist.NewPortableDeque[atomic.Uint32](heist.DequeConfig{Capacity: capacity})
		return d
	},
}

// TestCrossbeam726NobodyStealsFromAnArrayThatWasReplaced: a thief of crossbeam's deque read
// its item from an array that the owner had replaced meanwhile, so that some tasks ran twice
// and others never (CVE-2021-32810).
//
// Here a thief takes one item at a time. For each it loads the array anew, after top and bottom and
// before its compare-and-swap (portableSteal, and asmSteal in deque_amd64.s and deque_arm64.s). An
// array that is loaded after top has all items from top on, for the thief that wins that
// compare-and-swap.
//
// The deques begin with a single slot and are robbed while they grow out of it again and
// again, and the owner takes some items back and pushes others in their place. There are more
// thieves than CPUs, so that the system holds some of them up in the middle of a steal.
func TestCrossbeam726NobodyStealsFromAnArrayThatWasReplaced(t *testing.T) {
	claim.That(t, "crossbeam#726 (CVE-2021-32810): no thief takes from an array that the deque has outgrown",
		"deques that grow from a single slot under more thieves than CPUs; each item must be taken once")
	const perDeque = 1 << 14
	thieves := crowd(t)
	taken, stolen, grown := 0, uint64(0), uint64(0)
	for range rounds(40) {
		for _, newDeque := range deques {
			d := newDeque(1)
			its := make(items, perDeque)
			var over atomic.Bool
			testutil.Together(1+thieves, func(who int) {
				if who > 0 {
					for !over.Load() {
						if item, r := d.Steal(); r == heist.Success {
							item.Add(1)
						}
					}
					return
				}
				for i := range its {
					d.Push(&its[i])
					if i%16 == 15 {
						for range 4 {
							if item := d.Pop(); item != nil {
								item.Add(1)
							}
						}
					}
				}
				for item := d.Pop(); item != nil; item = d.Pop() {
					item.Add(1)
				}
				over.Store(true)
			})()
			its.requireOnceEach(t)
			taken += len(its)
			stats := d.Stats()
			stolen += stats.Steals
			grown += stats.Grows
		}
	}
	claim.Amount(t, "%s items, %s of them stolen, %s growths", claim.Count(taken), claim.Count(stolen), claim.Count(grown))
}

// TestNorrisDemskyPushUsesTheGrownArray: the Chase-Lev deque as it was published for C11 grew in
// push and then stored the item into the array that it had loaded before, where no thief looks for
// it; CDSchecker found that.
//
// Here push loads the array after makeRoom has had its chance to replace it (portablePush in
// deque_generic.go, push in asm.go).
//
// A deque of each capacity is grown at each position of its indices in the array, and emptied
// from either end, or from both at once.
func TestNorrisDemskyPushUsesTheGrownArray(t *testing.T) {
	claim.That(t, "Norris and Demsky's bug: the push that grows a deque puts its item into the new array",
		"growth of each capacity up to 64 at each position, emptied from either end and by a racing thief")
	const largest = 64
	taken := 0
	for range rounds(10) {
		for _, newDeque := range deques {
			for capacity := 1; capacity <= largest; capacity *= 2 {
				for position := range capacity {
					for _, empty := range []func(*testing.T, deque, items){popAll, stealAll, raceForAll} {
						d := newDeque(capacity)
						for range position {
							d.Push(new(atomic.Uint32))
							d.Steal()
						}
						its := make(items, 2*capacity+1) // grows twice
						empty(t, d, its)
						its.requireOnceEach(t)
						taken += len(its)
					}
				}
			}
		}
	}
	claim.Amount(t, "%s items", claim.Count(taken))
}

func popAll(t *testing.T, d deque, its items) {
	for i := range its {
		d.Push(&its[i])
	}
	for i := range its {
		item := d.Pop()
		require.Same(t, &its[len(its)-1-i], item, "item %d of %d", i, len(its))
		item.Add(1)
	}
}

func stealAll(t *testing.T, d deque, its items) {
	for i := range its {
		d.Push(&its[i])
	}
	for i := range its {
		item, r := d.Steal()
		for ; r == heist.Retry; item, r = d.Steal() {
			runtime.Gosched()
		}
		require.Same(t, &its[i], item, "item %d of %d", i, len(its))
		item.Add(1)
	}
}

func raceForAll(t *testing.T, d deque, its items) {
	var over atomic.Bool
	missing := 0
	take := func(item *atomic.Uint32) {
		if item == nil {
			missing++
		} else {
			item.Add(1)
		}
	}
	testutil.Together(2, func(who int) {
		if who == 0 {
			for !over.Load() {
				if item, r := d.Steal(); r == heist.Success {
					take(item)
				}
			}
			return
		}
		for i := range its {
			d.Push(&its[i])
		}
		for item := d.Pop(); item != nil; item = d.Pop() {
			item.Add(1)
		}
		over.Store(true)
	})()
	require.Zero(t, missing, "slots of the new array that nothing was stored into")
}

// TestCrossbeam609NoLoopWaitsForACompareAndSwapThatNeverSucceeds: on 32-bit ARM programs
// under a 64-bit kernel every weak compare-and-swap failed, since the barrier that the
// compiler had put into it trapped, and so a loop in crossbeam-epoch never ended: the start
// of a rayon pool of two threads hung and kept two CPUs busy.
//
// Here the queues' own compare-and-swaps are single instructions, or on arm64 without LSE
// pairs with nothing in between that are tried 16 times at most (deque_arm64.s), and what
// fails is not tried again on the spot but reported as a lost race (StealResult). All others
// are Go's, which do not fail without a reason.
//
// So a taker may not lose a race when it is alone, nor more races than the others win. And pools of
// two must start, run something and end.
func TestCrossbeam609NoLoopWaitsForACompareAndSwapThatNeverSucceeds(t *testing.T) {
	claim.That(t, "crossbeam#609: a compare-and-swap fails only if another one succeeded, and no loop waits for one that fails",
		"lost races counted, alone and among thieves; starts and ends of pools of two")
	const (
		batch  = 1000
		takers = 4 // the owner is one
		tries  = 100
	)
	taken, lost := 0, uint64(0)
	for range rounds(100) {
		for _, newDeque := range deques {
			its := make(items, batch)
			d := newDeque(batch)
			for i := range its {
				d.Push(&its[i])
			}
			item, r := d.Steal()
			for try := 0; r == heist.Retry; item, r = d.Steal() {
				try++
				require.Less(t, try, tries, "steals that fail though nobody else is there")
			}
			item.Add(1)
			testutil.Together(takers, func(who int) {
				for left := true; left; {
					var item *atomic.Uint32
					if who == 0 {
						item = d.Pop()
						left = item != nil
					} else {
						var r heist.StealResult
						item, r = d.Steal()
						left = r != heist.Empty
					}
					if item != nil {
						item.Add(1)
					}
				}
			})()
			its.requireOnceEach(t)
			races := d.Stats().LostRaces
			require.LessOrEqual(t, races, uint64(batch*takers), "more lost races than others can have won")
			taken += batch
			lost += races
		}
	}
	pools := rounds(100)
	finishes(t, "a pool of two", func() {
		for range pools {
			p, err := pool.New(pool.WithWorkers(2))
			if err == nil {
				_ = p.Run(func(w *pool.Worker) { w.Do(func(*pool.Worker) {}, func(*pool.Worker) {}) })
				_ = p.Close()
			}
		}
	})
	claim.Amount(t, "%s items, %s lost races, %s pools", claim.Count(taken), claim.Count(lost), claim.Count(pools))
}
