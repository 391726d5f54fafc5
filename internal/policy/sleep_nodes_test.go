package policy

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// newSleep returns a Sleep for places that are on the nodes in turn, and the node of each place.
func newSleep(places, nodes int) (*Sleep, []int) {
	nodeOf := make([]int, places)
	for i := range nodeOf {
		nodeOf[i] = i % nodes
	}
	s := new(Sleep)
	s.Init(seatsOf(nodeOf...), nodes)
	return s, nodeOf
}

func TestTheNearestSleeperIsChosen(t *testing.T) {
	const nodes, places = 3, 201 // more than a word of the bitmap
	s, nodeOf := newSleep(places, nodes)
	require.True(t, s.Nobody())
	for place := range places {
		s.Announce(place, false)
	}
	nearby := []int{1, 2, 0}
	for i := range places {
		require.False(t, s.Nobody())
		place, ok := s.ChooseNear(nearby, -1)
		require.True(t, ok)
		require.Equal(t, nearby[min(i*nodes/places, nodes-1)], nodeOf[place], "the %dth", i)
		require.False(t, s.Parked(place))
		s.Woken()
	}
	_, ok := s.ChooseNear(nearby, -1)
	require.False(t, ok)
	require.True(t, s.Nobody())
	require.Equal(t, places, s.Load().Searching())
	require.Zero(t, s.Load().Sleepers())
}

func TestOneSlotIsTheLastChoice(t *testing.T) {
	s, _ := newSleep(4, 2)
	for place := range 4 {
		s.Announce(place, false)
	}
	var chosen []int
	for range 4 {
		place, ok := s.ChooseNear([]int{0, 1}, 0)
		require.True(t, ok)
		chosen = append(chosen, place)
	}
	require.Equal(t, []int{2, 1, 3, 0}, chosen, "even those of other nodes come before it")
	_, ok := s.ChooseNear([]int{0, 1}, 0)
	require.False(t, ok, "it does not sleep any more")
}

func TestASleeperIsChosenOnce(t *testing.T) {
	s, _ := newSleep(130, 3)
	for range 200 {
		for place := range 130 {
			s.Announce(place, false)
		}
		chosen := make([]atomic.Int32, 130)
		var wg sync.WaitGroup
		for who := range 4 {
			wg.Go(func() {
				nearby := []int{who % 3, (who + 1) % 3, (who + 2) % 3}
				for i := range 130 {
					switch place, ok := (who*40+i)%130, false; who {
					case 0:
						if s.Choose(place) {
							chosen[place].Add(1)
							s.Woken()
						}
					default:
						if place, ok = s.ChooseNear(nearby, who); ok {
							chosen[place].Add(1)
							s.Woken()
						}
					}
				}
			})
		}
		wg.Wait()
		for place := range chosen {
			require.EqualValues(t, 1, chosen[place].Load(), "place %d", place)
		}
		require.Equal(t, 130, s.Load().Searching())
		require.Zero(t, s.Load().Sleepers())
		s.Add(-130 * OneSearching)
	}
}

func TestAPlaceThatIsChosenIsAnnouncedNoMore(t *testing.T) {
	s, _ := newSleep(6, 3)
	s.Add(3 * OneSearching)
	s.Announce(4, true)
	require.Equal(t, 2, s.Load().Searching())
	require.Equal(t, 1, s.Load().Sleepers())
	require.True(t, s.Parked(4))
	require.True(t, s.Choose(4))
	require.False(t, s.Choose(4))
	s.Woken()
	require.Equal(t, 3, s.Load().Searching(), "others may have relied on it")
	require.Zero(t, s.Load().Sleepers())
	require.True(t, s.Nobody())
	s.Announce(4, false)
	require.True(t, s.Choose(4))
	s.Resumed() // by a worker that goes on with something else
	require.Equal(t, 3, s.Load().Searching())
	require.Zero(t, s.Load().Sleepers())
	require.False(t, s.StopSearching())
	require.False(t, s.StopSearching())
	require.True(t, s.StopSearching(), "only this one is the last")
}

// TestNobodySleepsOverAnItem runs the protocol of internal/core/sleep.md with as little around it as
// possible: workers on several nodes that take items, announce their sleep and look again, and
// submitters that look through the nodes in different orders and wait each for its item. If a
// sleeper were overlooked, all would wait for ever.
func TestNobodySleepsOverAnItem(t *testing.T) {
	const nodes, workers, submitters = 3, 6, 3
	rounds := 20_000
	if testutil.Short() {
		rounds = 2000
	}
	s, _ := newSleep(workers, nodes)
	var items [nodes]atomic.Int32
	var taken atomic.Int64
	wake := make([]chan struct{}, workers)
	choose := func(node, last int) {
		if place, ok := s.ChooseNear([]int{node, (node + 1) % nodes, (node + 2) % nodes}, last); ok {
			s.Woken()
			wake[place] <- struct{}{}
		}
	}
	take := func() bool {
		for node := range items {
			for n := items[node].Load(); n > 0; n = items[node].Load() {
				if items[node].CompareAndSwap(n, n-1) {
					taken.Add(1)
					return true
				}
			}
		}
		return false
	}
	anyItem := func() bool {
		for node := range items {
			if items[node].Load() > 0 {
				return true
			}
		}
		return false
	}
	var over atomic.Bool
	var threads sync.WaitGroup
	for place := range workers {
		wake[place] = make(chan struct{}, 1)
		threads.Go(func() {
			for searching := false; !over.Load(); {
				if take() {
					if searching && s.StopSearching() && anyItem() {
						choose(place%nodes, -1)
					}
					searching = false
					continue
				}
				s.Announce(place, searching)
				if anyItem() || over.Load() {
					if s.Choose(place) {
						s.Woken()
						searching = true
						continue
					}
					choose(place%nodes, -1) // as Place.FallAsleep does
				}
				<-wake[place]
				searching = true
			}
		})
	}
	var group sync.WaitGroup
	for who := range submitters {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(who), 0))
			for range rounds {
				node := r.IntN(nodes)
				items[node].Add(1)
				if s.Load().Searching() == 0 {
					choose(r.IntN(nodes), r.IntN(workers+1)-1)
				}
				if r.IntN(2) == 0 {
					for items[node].Load() > 0 { // so that all workers are about to sleep
						runtime.Gosched()
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.Fail(t, "everybody sleeps", "%d items lie there", rounds*submitters-int(taken.Load()))
	}
	for deadline := time.Now().Add(30 * time.Second); taken.Load() < int64(rounds*submitters); time.Sleep(time.Microsecond) {
		require.True(t, time.Now().Before(deadline), "items lie there, and everybody sleeps")
	}
	over.Store(true)
	for range workers {
		choose(0, -1)
	}
	threads.Wait()
}
