package policy

import (
	"cmp"
	"slices"
)

// Order says in which order thieves visit a pool's places: in tiers, nearest first. It depends on
// the thief's placement, which is where its thread may run. Thieves with the same placement share a
// list.
type Order struct {
	// Tiers are the distances that the order was made from, ascending. The tier of a place, as seen
	// by a thief, is an index into it.
	Tiers []int

	// Near is how many of the first tiers count as near.
	Near int

	placementOf []int // by place
	lists       []list
}

// list is the order for one placement.
type list struct {
	places []uint16 // tier after tier
	ends   []int32  // by tier: the index in places where it ends
	tierOf []uint8  // by placement
}

// MaxTiers bounds the number of tiers. Distances beyond it share the last one.
const MaxTiers = 16

// NewOrder makes an order for places at these placements, which are numbers from 0 to placements-1.
// distance returns how far apart two placements are, also for a placement and itself; distances up
// to near count as near. NewOrder calls it once for each pair of placements. There may be no place at a placement.
// The order takes two bytes for each place and placement.
func NewOrder(placementOf []int, placements int, distance func(thief, victim int) int, near int) *Order {
	o := &Order{placementOf: placementOf, lists: make([]list, placements)}
	distances := make([][]int, placements)
	for thief := range distances {
		distances[thief] = make([]int, placements)
		for victim := range distances[thief] {
			distances[thief][victim] = distance(thief, victim)
		}
		o.Tiers = slices.Concat(o.Tiers, distances[thief])
		slices.Sort(o.Tiers)
		o.Tiers = slices.Compact(o.Tiers)
	}
	o.Tiers = o.Tiers[:min(len(o.Tiers), MaxTiers)]
	for o.Near < len(o.Tiers) && o.Tiers[o.Near] <= near {
		o.Near++
	}
	for thief := range o.lists {
		o.lists[thief] = o.list(distances[thief])
	}
	return o
}

// list makes the list of a placement from its distances to all placements.
func (o *Order) list(distances []int) list {
	l := list{
		places: make([]uint16, len(o.placementOf)),
		ends:   make([]int32, len(o.Tiers)),
		tierOf: make([]uint8, len(distances)),
	}
	for placement, distance := range distances {
		tier, _ := slices.BinarySearch(o.Tiers, distance)
		l.tierOf[placement] = uint8(min(tier, len(o.Tiers)-1))
	}
	for place := range l.places {
		l.places[place] = uint16(place)
	}
	tierOf := func(place uint16) uint8 { return l.tierOf[o.placementOf[place]] }
	slices.SortStableFunc(l.places, func(a, b uint16) int { return cmp.Compare(tierOf(a), tierOf(b)) })
	for i, place := range l.places {
		l.ends[tierOf(place)] = int32(i + 1)
	}
	for tier := 1; tier < len(l.ends); tier++ {
		l.ends[tier] = max(l.ends[tier], l.ends[tier-1])
	}
	return l
}
