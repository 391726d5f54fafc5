package policy

import (
	"time"

	"github.com/seed53057037/heist"
)

// Defaults are the pool's parameters. In the simulation of 512 CPUs on 8 nodes, thieves that
// always begin near divide what is near into ever smaller pieces while large ones lie
// elsewhere. With one look in eight that draws its victims, work spreads nearly as fast as with
// uniform victims, and with a third of their remote steals. Patience changed less than the
// seed did.
var Defaults = Parameters{Uniform: 1 << 13}

// AlwaysPublic is how many of a fork stack's oldest frames thieves can see in any case. Each
// costs two atomic operations; with 4 that was 3 to 4% of the time of fib(25), a small tree,
// in a profile, and deeper trees have a smaller share so near the root.
const AlwaysPublic = 4

// Parameters of a [Search].
type Parameters struct {
	// Uniform is the probability, in parts of 2^16, that a look draws its victims: each
	// independently of the others, and uniformly from all places but the thief's own. Of
	// such attempts Blumofe and Leiserson proved that P D are expected, times a constant
	// (JACM 1999); a share of them keeps that bound, times the inverse of the share.
	Uniform uint32

	// Patience is how many looks of a search, the first ones, stay with near victims.
	Patience int
}

// Always is the probability of what happens each time.
const Always = 1 << 16

// Search is a worker's search for work of others. A search consists of looks, and a look
// goes over victims, tier by tier, each tier from a random one on, or draws them:
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

	list       *list
	near       int
	parameters *Parameters
	rand       heist.FastRand
	own        uint32 // the place of the thief

	looks int
	lost  int  // races in a row
	final bool // this is the last look

	// Of the look:

	firstVictim     int32  // the victim that comes before all others; -1 for none
	last            int32  // the victim that comes first in its tier; -1 for none
	at, lo, hi      int32  // the next victim, and the part of the list that is gone through
	left            int32  // victims of that part that are left
	drawn           bool   // it draws its victims
	draws           int32  // victims that are left to draw
	others          uint32 // from how many
	tier, lastTiers int
}

// Init makes the search one of the worker in a place. The same seed gives the same victims.
func (s *Search) Init(o *Order, place int, p *Parameters, seed uint64) {
	s.list, s.near, s.parameters = &o.lists[o.placementOf[place]], o.Near, p
	s.rand, s.own = heist.NewFastRand(seed), uint32(place)
	s.Backoff.Seed(seed)
}

// Begin begins a search.
func (s *Search) Begin() {
	s.Backoff.Reset()
	s.looks, s.lost, s.final = 0, 0, false
}

// Last says whether this is the last look, which has to see everything.
func (s *Search) Last() bool { return s.final }

// Near says whether this look stays with near victims.
func (s *Search) Near() bool { return s.looks < s.parameters.Patience && !s.final }

// Look begins a look over the victims, the first of so many places. Hint, if it is not -1,
// comes before all others, and last before the others of its tier; but a look that draws its
// victims prefers nobody.
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
	case s.Near() && s.lastTiers > 1: // or there is nothing to choose
		s.lastTiers = s.near
	}
}

// Drawn says whether the victims of this look are drawn.
func (s *Search) Drawn() bool { return s.drawn }

// Victim returns the place of the next victim, or -1 if there is none. The caller's own place
// is one of them, unless they are drawn.
func (s *Search) Victim() int {
	if s.draws > 0 {
		s.draws--
		victim := s.rand.N(s.others)
		if victim >= s.own {
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
func (s *Search) Tier(victim int) int { return int(s.list.tierOf[victim]) }

// start begins with a random one of the places from lo to hi-1.
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
// look visits all. In the simulation of 512 CPUs a look at
// all of them took 50 microseconds, and what it saw was old before it ended.
const sample = 16

// lostInARow bounds how often a searcher tries again at once after a lost race. In a row
// as long as this it is not a race that was lost, but a producer that was descheduled in
// the middle of a push.
const lostInARow = 16

// Action is what a searcher does after a look that found nothing.
type Action int

const (
	// Spin: look again after the time that comes with it.
	Spin Action = iota
	// Yield: let other threads have the CPU, and look again.
	Yield
	// Again: look again at once, for the last time, at everything.
	Again
	// Park: go to sleep.
	Park
)

// Next says what comes after a look with this result, [heist.Empty] or [heist.Retry].
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
