package policy

import "slices"

// Order says in which order thieves visit a pool's places: in tiers, nearest first. It depends on
// the thief's placement, which is where its thread may run. Thieves with the same placement share a
// list.
type Order struct {
	// Tiers are the distances that the order was made from, ascending. The tier of a place, as seen
	// by a thief, is an index into it.
	Tiers []int

	// Near is how many of the first tiers count as near.
	Near int

	seats *Seats
	lists []list // by placement
}

// list is the order for one placement.
type list struct {
	places []uint16 // tier after tier
	ends   []int32  // by tier: the index in places where it ends
	tierOf []uint8  // by placement
}

// MaxTiers bounds the number of tiers. Distances beyond it share the last one.
const MaxTiers = 16

// NewOrder makes an order for places at placements from 0 to placements-1.
// distance returns how far apart two placements are, also for a placement and itself; distances up
// to near count as near. NewOrder calls it once for each pair of placements. There may be no place at a placement.
// The order takes two bytes for each place and placement.
func NewOrder(seats *Seats, placements int, distance func(thief, victim int) int, near int) *Order {
	o := &Order{seats: seats, lists: make([]list, placements)}
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
		places: make([]uint16, o.seats.Len()),
		ends:   make([]int32, len(o.Tiers)),
		tierOf: make([]uint8, len(distances)),
	}
	for placement, distance := range distances {
		tier, _ := slices.BinarySearch(o.Tiers, distance)
		l.tierOf[placement] = uint8(min(tier, len(o.Tiers)-1))
	}
	l.sort(o.seats, make([]uint8, len(l.places)))
	return l
}

// sort puts the places, in their order, tier after tier. Tiers has room for the tier of each.
func (l *list) sort(seats *Seats, tiers []uint8) {
	var next [MaxTiers + 1]int32
	for place := range tiers {
		tiers[place] = l.tierOf[seats.Of(place)] // once: places may move meanwhile
		next[tiers[place]+1]++
	}
	for tier := range l.ends {
		next[tier+1] += next[tier]
		l.ends[tier] = next[tier+1]
	}
	for place, tier := range tiers {
		l.places[next[tier]] = uint16(place)
		next[tier]++
	}
}
