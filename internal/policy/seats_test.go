package policy

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// seatsOf has each placement on a node of its own.
func seatsOf(placementOf ...int) *Seats {
	nodeOf := make([]int, slices.Max(placementOf)+1)
	for i := range nodeOf {
		nodeOf[i] = i
	}
	return NewSeats(placementOf, nodeOf)
}

func TestASearchGoesFromNearToFarWhereverThePlacesHaveMoved(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	forPlans(func(p *plan) {
		if len(p.distances) < 2 {
			return
		}
		o := p.order()
		thief := r.IntN(len(p.placementOf))
		s := newSearch(o, thief, Parameters{}, r.Uint64())
		for range 5 {
			for place := range p.placementOf {
				if r.IntN(2) == 0 {
					p.placementOf[place] = r.IntN(len(p.distances))
					o.seats.Move(place, p.placementOf[place])
				}
			}
			s.Begin()
			s.final = true // so that no far tier is sampled
			var tiers []int
			seen := victims(s, nobody)
			for _, victim := range seen {
				require.Equal(t, tier(o, p.distances[p.placementOf[thief]][p.placementOf[victim]]), s.Tier(victim))
				tiers = append(tiers, s.Tier(victim))
			}
			require.True(t, slices.IsSorted(tiers), "tiers %v", tiers)
			require.Len(t, sorted(seen), len(p.placementOf))
		}
	})
}

// TestTheLastLookSeesPlacesThatMoveMeanwhile: a place that goes from a tier which the look has not visited to one that it
// has must not be missed.
func TestTheLastLookSeesPlacesThatMoveMeanwhile(t *testing.T) {
	const places, nodes = 20, 3
	o := NewOrder(seatsOf(append(make([]int, places-1), nodes-1)...), nodes, func(a, b int) int { return max(a-b, b-a) }, 0)
	var over atomic.Bool
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		for r := rand.New(rand.NewPCG(1, 1)); !over.Load(); {
			o.seats.Move(r.IntN(places), r.IntN(nodes))
		}
	}()
	s := newSearch(o, 0, Parameters{}, 1)
	for range testutil.Stress(2000) {
		s.Begin()
		s.final = true
		require.Len(t, slices.Compact(sorted(victims(s, nobody))), places)
	}
	over.Store(true)
	<-moved
}
