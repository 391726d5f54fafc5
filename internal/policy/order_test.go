package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// plan is a random set of places and placements.
type plan struct {
	placementOf []int
	distances   [][]int // by thief and victim
	near        int
}

func (p *plan) order() *Order {
	return NewOrder(seatsOf(p.placementOf...), len(p.distances), func(thief, victim int) int { return p.distances[thief][victim] }, p.near)
}

// randomPlan has at most the given number of different distances. Like measured ones, they need not
// be symmetric.
func randomPlan(r *rand.Rand, places, placements, distances int) *plan {
	var levels []int
	for range distances {
		levels = append(levels, r.IntN(300))
	}
	p := &plan{near: r.IntN(300)}
	for range places {
		p.placementOf = append(p.placementOf, r.IntN(placements))
	}
	for range placements {
		row := make([]int, placements)
		for i := range row {
			row[i] = levels[r.IntN(len(levels))]
		}
		p.distances = append(p.distances, row)
	}
	return p
}

// forPlans calls test with all sorts of plans, the same ones each time.
func forPlans(test func(p *plan)) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		test(randomPlan(r, 1+r.IntN(40), 1+r.IntN(8), 1+r.IntN(10)))
	}
	test(randomPlan(r, 1, 1, 1))
	test(randomPlan(r, 300, 1, 1))
	test(randomPlan(r, 300, 64, 3))
	test(randomPlan(r, 20, 20, 200)) // more distances than there can be tiers
}

// tier returns the tier that a distance should have.
func tier(o *Order, distance int) int {
	for i, d := range o.Tiers {
		if distance <= d {
			return i
		}
	}
	return len(o.Tiers) - 1
}

func TestTiersAreTheDistances(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		all := slices.Concat(p.distances...)
		slices.Sort(all)
		all = slices.Compact(all)
		require.Equal(t, all[:min(len(all), MaxTiers)], o.Tiers)
		for i, d := range o.Tiers {
			require.Equal(t, d <= p.near, i < o.Near, "distance %d, near is %d", d, p.near)
		}
	})
}

func TestTierOfASlotIsThatOfItsDistance(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		for place, placement := range p.placementOf {
			var s Search
			s.Init(o, place, &Parameters{}, 1)
			for victim, other := range p.placementOf {
				require.Equal(t, tier(o, p.distances[placement][other]), s.Tier(victim))
			}
		}
	})
}

// TestAThiefGoesByItsOwnRow: with measured distances, a worker that is near to me need not have me
// near.
func TestAThiefGoesByItsOwnRow(t *testing.T) {
	rows := [][]int{
		{0, 9, 5},
		{5, 0, 9},
		{9, 7, 0},
	}
	o := NewOrder(seatsOf(0, 1, 2), 3, func(thief, victim int) int { return rows[thief][victim] }, 7)
	require.Equal(t, []int{0, 5, 7, 9}, o.Tiers)
	require.Equal(t, 3, o.Near)
	for thief, want := range [][]int{{0, 2, 1}, {1, 0, 2}, {2, 1, 0}} {
		require.Equal(t, want, victims(newSearch(o, thief, Parameters{}, 3), nobody), "thief %d", thief)
		near := victims(newSearch(o, thief, Parameters{Patience: 1}, 3), nobody)
		require.Equal(t, want[:2], near, "thief %d", thief)
	}
}

// TestDistancesBeyondTheLastTierShareIt, so no place is left out if there are more distances than
// tiers.
func TestDistancesBeyondTheLastTierShareIt(t *testing.T) {
	const places = 100
	placementOf := make([]int, places)
	for i := range placementOf {
		placementOf[i] = i
	}
	o := NewOrder(seatsOf(placementOf...), places, func(thief, victim int) int { return (victim - thief + places) % places }, 1)
	require.Len(t, o.Tiers, MaxTiers)
	require.Equal(t, 2, o.Near)
	var s Search
	s.Init(o, 0, &Parameters{}, 1)
	for victim := range places {
		require.Equal(t, min(victim, MaxTiers-1), s.Tier(victim))
	}
	s.final = true
	require.Equal(t, placementOf, sorted(victims(&s, -1)))
}

func TestPlacesOfAsManyWorkersAsThereCanBeAreAllVisited(t *testing.T) {
	const places = 1<<13 + 64 // workers and guests
	placementOf := make([]int, places)
	for i := range placementOf {
		placementOf[i] = i % 3
	}
	o := NewOrder(seatsOf(placementOf...), 3, func(thief, victim int) int { return max(thief-victim, victim-thief) }, 0)
	for thief := range 3 {
		var s Search
		s.Init(o, thief, &Parameters{}, 7)
		s.final = true
		seen := sorted(victims(&s, -1))
		require.Len(t, seen, places)
		require.Len(t, slices.Compact(seen), places)
	}
}

func sorted(s []int) []int {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
