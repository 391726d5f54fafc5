package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed53057037/heist"
	"github.com/stretchr/testify/require"
)

// victims returns the victims of one look, in order.
func victims(s *Search, firstVictim int) []int { return victimsAfter(s, firstVictim, nobody) }

func victimsAfter(s *Search, firstVictim, last int) (all []int) {
	s.Look(firstVictim, last, places(s))
	for v := s.Victim(); v >= 0; v = s.Victim() {
		all = append(all, v)
	}
	return all
}

const always, nobody = Always, -1

// places returns how many places there are.
func places(s *Search) int { return len(s.list.places) }

func newSearch(o *Order, place int, p Parameters, seed uint64) *Search {
	s := new(Search)
	s.Init(o, place, &p, seed)
	s.Begin()
	return s
}

func TestTheLastLookVisitsEverySlotOnce(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		for _, uniform := range []uint32{0, always / 2, always} {
			s := newSearch(o, len(p.placementOf)-1, Parameters{Uniform: uniform}, 3)
			s.final = true
			for range 5 {
				seen := victims(s, nobody)
				require.Len(t, seen, len(p.placementOf))
				for want, v := range sorted(seen) {
					require.Equal(t, want, v)
				}
				require.Equal(t, nobody, s.Victim(), "and then nobody any more")
			}
		}
	})
}

// TestALookVisitsAllThatAreNearAndSomeOfEachFarTier, none of them twice.
func TestALookVisitsAllThatAreNearAndSomeOfEachFarTier(t *testing.T) {
	forPlans(func(p *plan) {
		s := newSearch(p.order(), 0, Parameters{}, 3)
		want := make([]int, len(p.order().Tiers))
		for place := range p.placementOf {
			want[s.Tier(place)]++
		}
		for tier := range want {
			if tier >= s.near {
				want[tier] = min(want[tier], sample)
			}
		}
		for range 5 {
			seen := victims(s, nobody)
			got := make([]int, len(want))
			for i, v := range sorted(seen) {
				require.True(t, i == 0 || sorted(seen)[i-1] != v, "place %d is visited twice", v)
				got[s.Tier(v)]++
			}
			require.Equal(t, want, got)
		}
	})
}

func TestNearerTiersComeFirst(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		for place := range min(len(p.placementOf), 10) {
			s := newSearch(o, place, Parameters{}, uint64(place))
			last := 0
			for _, v := range victims(s, nobody) {
				require.GreaterOrEqual(t, s.Tier(v), last)
				last = s.Tier(v)
			}
		}
	})
}

// TestTheLastVictimComesFirstInItsTier, and not before those that are nearer: a thief that
// once got something from afar would stay there.
func TestTheLastVictimComesFirstInItsTier(t *testing.T) {
	forPlans(func(p *plan) {
		s := newSearch(p.order(), 0, Parameters{}, 3)
		for last := range p.placementOf {
			seen := victimsAfter(s, nobody, last)
			first := slices.IndexFunc(seen, func(v int) bool { return s.Tier(v) == s.Tier(last) })
			require.Equal(t, last, seen[first])
			for _, v := range seen[:first] {
				require.Less(t, s.Tier(v), s.Tier(last))
			}
		}
	})
}

func TestTheHintComesFirst(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		for _, c := range []Parameters{{}, {Patience: 3}} {
			s := newSearch(o, 0, c, 3)
			for first := range p.placementOf {
				seen := victims(s, first)
				require.Equal(t, first, seen[0])
				if s.Near() {
					continue
				}
				s.final = true
				seen = victims(s, first)
				s.final = false
				require.Len(t, seen, 1+len(p.placementOf), "it is visited in its tier again")
				require.Equal(t, len(p.placementOf)-1, sorted(seen[1:])[len(p.placementOf)-1])
			}
		}
	})
}

func TestTheFirstLooksStayNear(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		if len(o.Tiers) == 1 {
			return // nothing is far
		}
		const looks = 3
		s := newSearch(o, 0, Parameters{Patience: looks}, 5)
		near := 0
		for place := range p.placementOf {
			if s.Tier(place) < o.Near {
				near++
			}
		}
		for range looks {
			require.True(t, s.Near())
			seen := victims(s, nobody)
			require.Len(t, seen, near, "all that are near")
			for _, v := range seen {
				require.Less(t, s.Tier(v), o.Near)
			}
			s.Next(heist.Empty)
		}
		require.False(t, s.Near())
		require.True(t, near == len(p.placementOf) || len(victims(s, nobody)) > near)
		s.Begin()
		require.True(t, s.Near(), "each search begins near")
	})
}

// TestPatienceHoldsForMeasuredLatencies: a victim is near if it is within a bound by the thief's
// own measurements. The number of tiers does not matter, nor whether the thief is near by the
// measurements of the victim. A look that lost a race counts as a look.
func TestPatienceHoldsForMeasuredLatencies(t *testing.T) {
	ns := [][]int{ // two nodes of three CPUs; the way to the second node is longer than the way back
		{0, 31, 38, 170, 175, 181},
		{30, 0, 33, 168, 171, 177},
		{36, 34, 0, 160, 166, 190},
		{95, 96, 97, 0, 41, 48},
		{120, 118, 44, 40, 0, 39}, // CPU 2 is as near as those of its own node
		{99, 94, 93, 47, 49, 0},
	}
	const bound, patience = 49, 3
	placementOf := []int{0, 1, 2, 3, 4, 5, 0, 5} // two places more
	o := NewOrder(seatsOf(placementOf...), len(ns), func(thief, victim int) int { return ns[thief][victim] }, bound)
	for place, cpu := range placementOf {
		var near, all []int
		for victim, other := range placementOf {
			all = append(all, victim)
			if ns[cpu][other] <= bound {
				near = append(near, victim)
			}
		}
		require.Less(t, len(near), len(all))
		for _, result := range []heist.StealResult{heist.Empty, heist.Retry} {
			s := newSearch(o, place, Parameters{Patience: patience}, uint64(place))
			for range 3 { // searches
				s.Begin()
				for look := range 2 * patience {
					want := all
					if look < patience {
						want = near
					}
					require.Equal(t, look < patience, s.Near())
					require.Equal(t, want, sorted(victims(s, nobody)), "place %d, look %d after %v", place, look, result)
					s.Next(result)
				}
			}
		}
	}
}

// TestPatienceLeavesSomebodyToVisit: if all victims are equally far, none is near, and a patient
// thief visits them at once.
func TestPatienceLeavesSomebodyToVisit(t *testing.T) {
	for _, near := range []int{0, 20} {
		o := NewOrder(seatsOf(0, 1, 2), 3, func(int, int) int { return 20 }, near)
		s := newSearch(o, 0, Parameters{Patience: 1 << 30}, 5)
		require.Equal(t, []int{0, 1, 2}, sorted(victims(s, nobody)), "near is %d", near)
	}
}

// TestTheLastLookSeesEverything, however patient the thief is: after this look it goes to sleep.
func TestTheLastLookSeesEverything(t *testing.T) {
	forPlans(func(p *plan) {
		for _, patience := range []int{0, 1, 2, 1 << 30} {
			s := newSearch(p.order(), 0, Parameters{Patience: patience}, 5)
			for range 2 { // searches
				s.Begin()
				for looks := 1; ; looks++ {
					require.Less(t, looks, 1000, "it never ends")
					seen := victims(s, nobody)
					action, _ := s.Next(heist.Empty)
					if action == Park {
						require.Len(t, seen, len(p.placementOf))
						break
					}
					require.Equal(t, action == Again, s.Last())
				}
			}
		}
	})
}

func TestASearchSpinsThenYieldsThenLooksAgainThenParks(t *testing.T) {
	o := NewOrder(seatsOf(0, 0), 1, func(int, int) int { return 0 }, 0)
	for _, c := range []struct {
		spin   time.Duration
		yields int
	}{{0, 0}, {-1, 0}, {0, -1}, {-1, -1}, {time.Microsecond, 3}} {
		s := newSearch(o, 0, Parameters{}, 1)
		s.Backoff.Spin, s.Backoff.Yields = c.spin, c.yields
		stage, yields, spun := Spin, 0, time.Duration(0)
		for stage != Park {
			require.Equal(t, stage == Again, s.Last())
			action, spin := s.Next(heist.Empty)
			require.GreaterOrEqual(t, action, stage, "never back")
			stage = action
			spun += spin
			if action == Yield {
				yields++
			}
		}
		total := c.spin
		if total == 0 {
			total = heist.DefaultSpin
		}
		require.Equal(t, max(total, 0), spun)
		total2 := c.yields
		if total2 == 0 {
			total2 = heist.DefaultYields
		}
		require.Equal(t, max(total2, 0), yields)
	}
}

// TestLostRacesAreTriedAgainButNotForEver: a producer may have been descheduled in the
// middle of a push.
func TestLostRacesAreTriedAgainButNotForEver(t *testing.T) {
	o := NewOrder(seatsOf(0), 1, func(int, int) int { return 0 }, 0)
	s := newSearch(o, 0, Parameters{}, 1)
	s.Backoff.Spin, s.Backoff.Yields = -1, -1
	for range lostInARow {
		action, spin := s.Next(heist.Retry)
		require.Equal(t, Spin, action)
		require.Positive(t, spin)
	}
	action, _ := s.Next(heist.Retry)
	require.Equal(t, Again, action)
	action, _ = s.Next(heist.Retry)
	require.Equal(t, Park, action)
}

// TestASearchDoesNotPayForTheLastOne: it has all its spins and lost races again.
func TestASearchDoesNotPayForTheLastOne(t *testing.T) {
	o := NewOrder(seatsOf(0), 1, func(int, int) int { return 0 }, 0)
	for _, result := range []heist.StealResult{heist.Empty, heist.Retry} {
		s := newSearch(o, 0, Parameters{}, 1)
		var actions []Action
		for search := range 3 {
			s.Begin()
			var now []Action
			for len(now) == 0 || now[len(now)-1] != Park {
				action, _ := s.Next(result)
				if action != Spin || result == heist.Retry && len(now) < lostInARow { // other spins are random
					now = append(now, action)
				}
			}
			if search == 0 {
				actions = now
				require.Equal(t, heist.DefaultYields, len(slices.DeleteFunc(slices.Clone(now), func(a Action) bool { return a != Yield })))
			}
			require.Equal(t, actions, now, "search %d after %v", search, result)
		}
	}
}

func TestTheSameSeedGivesTheSameVictims(t *testing.T) {
	forPlans(func(p *plan) {
		o := p.order()
		how := Parameters{Uniform: always / 3, Patience: 2}
		a, b, c := newSearch(o, 0, how, 42), newSearch(o, 0, how, 42), newSearch(o, 0, how, 43)
		differ := false
		for range 20 {
			mine := victims(a, nobody)
			require.Equal(t, mine, victims(b, nobody))
			differ = differ || !equal(mine, victims(c, nobody))
			for _, s := range []*Search{a, b, c} {
				if action, _ := s.Next(heist.Empty); action == Park {
					s.Begin()
				}
			}
		}
		if len(p.placementOf) >= 10 && o.Near > 0 {
			require.True(t, differ, "another seed gives the same")
		}
	})
}

func equal(a, b []int) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// chiSquare says how far counts are from being equal. With k counts it is about k-1 if what
// was counted is equally likely, and above k-1 + 5 sqrt(2(k-1)) once in some million times.
func chiSquare(counts []int) (x float64) {
	total := 0
	for _, n := range counts {
		total += n
	}
	expected := float64(total) / float64(len(counts))
	for _, n := range counts {
		x += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	return x
}

// machine256 is a machine with 4 nodes of 64 places.
func machine256() *Order {
	placementOf := make([]int, 256)
	for i := range placementOf {
		placementOf[i] = i % 4
	}
	return NewOrder(seatsOf(placementOf...), 4, func(a, b int) int { return max(a-b, b-a) }, 0)
}

// machine16 is a machine of one tier.
func machine16() *Order {
	return NewOrder(seatsOf(make([]int, 16)...), 1, func(int, int) int { return 0 }, 0)
}

// TestUniformLooksDrawEachVictimAlike: each visit of a look goes to any of the other places with
// the same probability, whatever the visit before, the last victim and firstVictim were, and never
// to the thief's own place.
func TestUniformLooksDrawEachVictimAlike(t *testing.T) {
	for name, o := range map[string]*Order{"one tier": machine16(), "four nodes": machine256()} {
		n := o.seats.Len()
		for _, own := range []int{0, 1, n - 1} {
			const rounds = 100
			s := newSearch(o, own, Parameters{Uniform: always, Patience: 1 << 30}, uint64(own))
			last, firstVictim := (own+3)%n, (own+5)%n
			var firsts, seconds, steps []int // by victim, and by the way from the first to the second
			firsts, seconds, steps = make([]int, n), make([]int, n), make([]int, n)
			for range n * rounds {
				seen := victimsAfter(s, firstVictim, last)
				require.Len(t, seen, min(n-1, sample))
				require.NotContains(t, seen, own, name)
				firsts[seen[0]]++
				seconds[seen[1]]++
				steps[(seen[1]-seen[0]+n)%n]++
			}
			others := func(counts []int) []int { return slices.Delete(counts, own, own+1) }
			bound := float64(n-2) + 5*math.Sqrt(2*float64(n-2))
			require.Less(t, chiSquare(others(firsts)), bound, "%s: the first of a look by %d", name, own)
			require.Less(t, chiSquare(others(seconds)), bound, "%s: the second of a look by %d", name, own)
			// With replacement: 0 steps as often as any other.
			require.InDelta(t, n*rounds/(n-1), steps[0], 5*math.Sqrt(rounds), "%s: the same victim twice", name)
			require.InDelta(t, rounds, steps[1], 7*math.Sqrt(rounds), "%s: the next victim", name)
		}
	}
}

// TestDrawsAreFromThePlacesThatThereAre: there are draws only from the given number of places, and
// none if the thief's place is the only one.
func TestDrawsAreFromThePlacesThatThereAre(t *testing.T) {
	s := newSearch(machine256(), 2, Parameters{Uniform: always}, 7)
	seen := make(map[int]bool)
	for range 1000 {
		s.Look(nobody, nobody, 5)
		for v := s.Victim(); v >= 0; v = s.Victim() {
			seen[v] = true
		}
	}
	require.Equal(t, map[int]bool{0: true, 1: true, 3: true, 4: true}, seen)
	s = newSearch(NewOrder(seatsOf(0), 1, func(int, int) int { return 0 }, 0), 0, Parameters{Uniform: always}, 7)
	require.Empty(t, victims(s, nobody))
}

// TestAShareOfTheLooksIsUniformOnOneTierToo: in the other looks the last victim comes first.
func TestAShareOfTheLooksIsUniformOnOneTierToo(t *testing.T) {
	const looks, last = 1 << 16, 3
	for _, uniform := range []uint32{0, 1 << 12, always / 2, always} {
		s := newSearch(machine16(), 0, Parameters{Uniform: uniform}, 11)
		first := 0
		for range looks {
			s.Look(nobody, last, 16)
			if s.Victim() == last {
				first++
			}
		}
		require.InDelta(t, looks-float64(uniform)*14/15, first, 5*128)
	}
}

func TestWithinATierEachSlotIsAsLikelyToBeTheFirst(t *testing.T) {
	s := newSearch(machine256(), 2, Parameters{}, 9)
	counts := make([][]int, 4) // by tier
	for range 64 * 200 {
		last := -1
		for _, v := range victims(s, nobody) {
			if tier := s.Tier(v); tier != last {
				counts[tier] = append(counts[tier], v)
				last = tier
			}
		}
	}
	for tier, firsts := range counts[:3] { // there is no place at distance 3 from node 2
		places := make(map[int]int)
		for _, v := range firsts {
			places[v]++
		}
		want := 64
		if tier == 1 { // the nodes on both sides
			want = 128
		}
		require.Len(t, places, want)
		var n []int
		for _, k := range places {
			n = append(n, k)
		}
		require.Less(t, chiSquare(n), float64(want-1)+5*16, "tier %d", tier)
	}
	require.Empty(t, counts[3])
}

// TestAsManyLooksAreUniformAsWereAskedFor counts the looks that begin on a far node, which are 3 in
// 4 of the uniform ones.
func TestAsManyLooksAreUniformAsWereAskedFor(t *testing.T) {
	for _, uniform := range []uint32{0, 1 << 10, always / 2, always} {
		s := newSearch(machine256(), 0, Parameters{Uniform: uniform}, 11)
		const looks = 1 << 16
		far := 0
		for range looks {
			s.Look(nobody, nobody, places(s))
			if s.Tier(s.Victim()) > 0 {
				far++
			}
		}
		require.InDelta(t, float64(uniform)*192/255, far, 5*128) // 5 standard deviations
		if uniform == 0 {
			require.Zero(t, far)
		}
	}
}

// TestWithoutUniformLooksNoneIsUniform, not even with the number that is below all others.
func TestWithoutUniformLooksNoneIsUniform(t *testing.T) {
	const places = 100
	o := NewOrder(seatsOf(append(make([]int, places-1), 1)...), 2, func(thief, victim int) int { return max(thief-victim, victim-thief) }, 0)
	seed := uint64(0)
	for r := heist.NewFastRand(seed); r.Uint32()&0xffff != 0; r = heist.NewFastRand(seed) {
		seed++
	}
	require.Equal(t, places-1, victims(newSearch(o, places-1, Parameters{Uniform: 0}, seed), nobody)[0], "it begins with itself")
	require.Less(t, len(victims(newSearch(o, places-1, Parameters{Uniform: 1}, seed), nobody)), 1+sample, "this one is uniform")
}

func TestASearchAllocatesNothing(t *testing.T) {
	for _, how := range []Parameters{{}, {Uniform: always}, {Uniform: 1 << 10, Patience: 2}} {
		s := newSearch(machine256(), 5, how, 1)
		sum := 0
		require.Zero(t, testing.AllocsPerRun(100, func() {
			s.Begin()
			for {
				s.Look(7, 9, places(s))
				for v := s.Victim(); v >= 0; v = s.Victim() {
					sum += s.Tier(v)
				}
				if action, _ := s.Next(heist.Empty); action == Park {
					return
				}
			}
		}))
		require.Positive(t, sum)
	}
}

// BenchmarkVictim is the choice of a victim, the beginning of the look included.
func BenchmarkVictim(b *testing.B) {
	for _, c := range []struct {
		name string
		how  Parameters
	}{
		{"tiers", Parameters{}},
		{"near", Parameters{Patience: 1 << 30}},
		{"uniform", Parameters{Uniform: always}},
		{"default", Parameters{Uniform: 1 << 10, Patience: 2}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSearch(machine256(), 5, c.how, 1)
			s.Look(nobody, nobody, places(s))
			for b.Loop() {
				if s.Victim() < 0 {
					s.Look(nobody, nobody, places(s))
				}
			}
		})
	}
	b.Run("first", func(b *testing.B) { // the first victim of a look, where a thief mostly finds something
		s := newSearch(machine256(), 5, Parameters{Uniform: 1 << 10, Patience: 2}, 1)
		for b.Loop() {
			s.Look(nobody, nobody, places(s))
			s.Victim()
		}
	})
}
