package policy

import (
	"time"

	"github.com/seed53057037/heist"
)

// Defaults are the pool's parameters. In the simulation of 512 CPUs on 8 nodes, thieves that
// always begin near divide nearby work into ever smaller pieces while large pieces lie
// elsewhere. If one look in eight draws its victims, trees take 0.9 to 1.2 times as long as with
// uniform victims, with 15 to 42% of their remote steals. Patience made less difference than the
// seed.
var Defaults = Parameters{Uniform: 1 << 13}

// AlwaysPublic is how many of a fork stack's oldest frames are always public. Each costs two
// atomic operations. In a profile of fib(25), a small tree, 4 of them took 3 to 4% of the time;
// in deeper trees a smaller share of the forks is so near the root.
const AlwaysPublic = 4

// Parameters of a [Search].
type Parameters struct {
	// Uniform is the probability, in parts of 2^16, that a look draws its victims: each
	// independently of the others, and uniformly from all places but the thief's own. Blumofe
	// and Leiserson proved that a constant times P D of such attempts are expected (JACM 1999).
	// If only a share of the looks draws, that bound grows by the inverse of the share.
	Uniform uint32

	// Patience is how many of the first looks of a search stay with near victims.
	Patience int
}

// Always is a probability of 1, in parts of 2^16.
const Always = 1 << 16

// Search is a worker's search for work of others. A search consists of looks. A look visits
// victims tier by tier, beginning each tier at a random one, or draws its victims at random:
//
//	s.Begin()
//	for {
//		s.Look(firstVictim, last, places)
//		for v := s.Victim(); v >= 0; v = s.Victim() {
//			... if there is something: return
//		}
//		if s.Next(result) is Park: return
//	}
//
// It belongs to one goroutine.
type Search struct {
	Backoff heist.Backoff

	order      *Order
	list       *list  // in the order of the tiers when the search began, of which moves tells
	moves      uint32 // Seats.moves then
	own        *ownList
	near       int
	parameters *Parameters
	rand       heist.FastRand
	thief      uint32 // its place

	looks int
	lost  int  // lost races in a row
	final bool // this is the last look

	// State of the current look:

	firstVictim     int32  // the victim that comes before all others; -1 for none
	last            int32  // the victim that comes first in its tier; -1 for none
	at, lo, hi      int32  // the next victim, and the bounds of its part of the list
	left            int32  // victims left in that part
	drawn           bool   // the look draws its victims
	draws           int32  // victims left to draw
	others          uint32 // places to draw from
	tier, lastTiers int
}

// Init makes s the search of the worker in a place. The same seed gives the same victims.
func (s *Search) Init(o *Order, place int, p *Parameters, seed uint64) {
	s.order, s.list, s.near, s.parameters = o, &o.lists[o.seats.Of(place)], o.Near, p
	s.rand, s.thief = heist.NewFastRand(seed), uint32(place)
	s.Backoff.Seed(seed)
}

// Begin begins a search.
func (s *Search) Begin() {
	s.Backoff.Reset()
	s.looks, s.lost, s.final = 0, 0, false
	if moves := s.order.seats.moves.Load(); moves != s.moves {
		s.moves = moves // before the look at the places, which may move again
		s.sort()
	}
}

// ownList is the list of a search whose place or whose victims have moved.
type ownList struct {
	list
	tiers []uint8
}

// sort makes the search's own list, of all places, wherever they are: the last look has to see everything.
func (s *Search) sort() {
	base := &s.order.lists[s.order.seats.Of(int(s.thief))]
	if s.own == nil {
		s.own = &ownList{
			list:  list{places: make([]uint16, len(base.places)), ends: make([]int32, len(base.ends))},
			tiers: make([]uint8, len(base.places)),
		}
		s.list = &s.own.list
	}
	s.own.tierOf = base.tierOf
	s.own.sort(s.order.seats, s.own.tiers)
}

// Last reports whether this is the last look, which has to see everything.
func (s *Search) Last() bool { return s.final }

// Near reports whether this look stays with near victims.
func (s *Search) Near() bool { return s.looks < s.parameters.Patience && !s.final }

// Look begins a look; the pool has so many places. firstVictim, if it is not -1, comes before
// all other victims, and last, if it is not -1, before the others of its tier. A look that
// draws its victims ignores both.
func (s *Search) Look(firstVictim, last, places int) {
	s.firstVictim, s.last, s.left = int32(firstVictim), int32(last), 0
	s.drawn, s.draws = false, 0
	s.tier, s.lastTiers = 0, len(s.list.ends)
	switch {
	case s.parameters.Uniform > 0 && s.rand.Uint32()&(Always-1) < s.parameters.Uniform:
		s.firstVictim, s.last = -1, -1
		s.tier = s.lastTiers
		if s.final {
			s.lo, s.hi = 0, int32(len(s.list.places))
			s.start()
			return
		}
		s.drawn, s.others = true, uint32(places-1)
		s.draws = int32(min(places-1, sample))
	case s.Near() && s.lastTiers > 1: // with one tier there is nothing to choose
		s.lastTiers = s.near
	}
}

// Drawn reports whether this look draws its victims.
func (s *Search) Drawn() bool { return s.drawn }

// Victim returns the place of the next victim, or -1 if there is none. The thief's own place is
// one of them, unless the look draws its victims.
func (s *Search) Victim() int {
	if s.draws > 0 {
		s.draws--
		victim := s.rand.N(s.others)
		if victim >= s.thief {
			victim++
		}
		return int(victim)
	}
	if firstVictim := s.firstVictim; firstVictim >= 0 {
		s.firstVictim = -1
		return int(firstVictim)
	}
	for s.left == 0 {
		if s.tier >= s.lastTiers {
			return -1
		}
		s.lo, s.hi = s.hi, s.list.ends[s.tier]
		if s.tier == 0 {
			s.lo = 0
		}
		s.tier++
		s.start()
		if last := s.last; last >= 0 && s.Tier(int(last)) == s.tier-1 {
			return int(last)
		}
	}
	s.left--
	victim := s.list.places[s.at]
	if s.at++; s.at == s.hi {
		s.at = s.lo
	}
	return int(victim)
}

// Tier returns the tier of a victim.
func (s *Search) Tier(victim int) int { return s.TierOf(s.order.seats.Of(victim)) }

// TierOf returns the tier of a placement.
func (s *Search) TierOf(placement int) int { return int(s.list.tierOf[placement]) }

// start begins at a random one of the places from lo to hi-1.
func (s *Search) start() {
	s.left = s.hi - s.lo
	if s.left > 0 {
		s.at = s.lo + int32(s.rand.N(uint32(s.left)))
	}
	if s.tier > s.near && !s.final {
		s.left = min(s.left, sample)
	}
}

// sample is how many victims of a far tier a look visits, and how many it draws; only the last
// look visits all. In the simulation of 512 CPUs a look at all of them took 50 microseconds,
// and its first results were outdated before it ended.
const sample = 16

// lostInARow bounds how often a searcher tries again at once after a lost race. So many in a
// row are no lost races, but a producer that was descheduled in the middle of a push.
const lostInARow = 16

// Action is what a searcher does after a look that found nothing.
type Action int

const (
	// Spin: look again after the time that Next returns.
	Spin Action = iota
	// Yield: let other threads have the CPU, and look again.
	Yield
	// Again: look again at once, for the last time, at everything.
	Again
	// Park: go to sleep.
	Park
)

// Next returns what to do after a look with this result, [heist.Empty] or [heist.Retry].
func (s *Search) Next(r heist.StealResult) (Action, time.Duration) {
	s.looks++
	if r == heist.Retry && s.lost < lostInARow {
		s.lost++
		return Spin, s.Backoff.NextLost()
	}
	spin, ok := s.Backoff.Next()
	switch {
	case ok && spin > 0:
		return Spin, spin
	case ok:
		return Yield, 0
	case s.final:
		return Park, 0
	}
	s.final = true
	return Again, 0
}
