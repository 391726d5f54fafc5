package policy

import (
	"sync/atomic"

	"github.com/seed53057037/heist/internal/pad"
)

// Seats says at which placement each place of a pool is. That is constant where workers are bound. Where they are not, a
// place is where its holder ran when it last looked: the holder alone moves it, and never while the place sleeps. Any
// goroutine may call the other methods; what they say of a place that is awake may be out of date (internal/core/sleep.md,
// "Nothing is missed").
type Seats struct {
	at     []atomic.Int32 // place -> placement; the place's holder writes, and seldom, so places share lines
	nodeOf []int          // placement -> node; constant

	_ pad.Line // who sleeps or wakes reads what is above

	moves atomic.Uint32 // how often a place has moved; the holder adds after the move. Searches read it when they begin

	_ pad.Line
}

// NewSeats makes the seats of places that are at these placements at first, which are on these nodes.
func NewSeats(placementOf, nodeOf []int) *Seats {
	s := &Seats{at: make([]atomic.Int32, len(placementOf)), nodeOf: nodeOf}
	for place, placement := range placementOf {
		s.at[place].Store(int32(placement))
	}
	return s
}

// Len returns how many places there are.
func (s *Seats) Len() int { return len(s.at) }

// Of returns the placement of a place.
func (s *Seats) Of(place int) int { return int(s.at[place].Load()) }

// Node returns the node of a place.
func (s *Seats) Node(place int) int { return s.nodeOf[s.Of(place)] }

// Move is called by the holder of a place, which runs at another placement now.
func (s *Seats) Move(place, placement int) {
	s.at[place].Store(int32(placement))
	s.moves.Add(1)
}
