package heist

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waits counts how often b waits by spinning, and then by yielding, before it
// advises to park.
func waits(t *testing.T, b *Backoff) (spins, yields int) {
	t.Helper()
	for {
		spin, ok := b.Next()
		if !ok {
			require.Zero(t, spin)
			break
		}
		if spin > 0 {
			spins++
		} else {
			yields++
		}
		require.Less(t, spins+yields, 10_000, "it never comes to an end")
	}
	for range 3 {
		require.False(t, b.Wait(), "the end is the end, until Reset")
	}
	return spins, yields
}

func TestBackoffSpinsThenYieldsThenAdvisesToPark(t *testing.T) {
	for _, c := range []struct {
		name   string
		b      Backoff
		spun   time.Duration
		spins  [2]int // at least, at most
		yields int
	}{
		// Steps of 50 ns that grow by 1.5 to 2 reach half a microsecond in 4 to 6 steps,
		// which take 0.75 to 1.04 us in all.
		{"defaults", Backoff{}, DefaultSpin, [2]int{22, 25}, DefaultYields},
		{"one short spin", Backoff{Spin: firstSpin / 2, Yields: 1}, firstSpin / 2, [2]int{1, 1}, 1},
		{"long", Backoff{Spin: 100 * time.Microsecond, Yields: 100}, 100 * time.Microsecond, [2]int{202, 206}, 100},
		{"no spin", Backoff{Spin: -1, Yields: 3}, 0, [2]int{}, 3},
		{"no yield", Backoff{Spin: firstSpin, Yields: -1}, firstSpin, [2]int{1, 1}, 0},
		{"nothing", Backoff{Spin: -1, Yields: -1}, 0, [2]int{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.b
			for range 20 { // each time with other random numbers
				spins, yields := waits(t, &b)
				require.Equal(t, c.spun, b.spun, "it spins exactly as long as it should in all")
				require.GreaterOrEqual(t, spins, c.spins[0])
				require.LessOrEqual(t, spins, c.spins[1])
				require.Equal(t, c.yields, yields)

				b.Reset()
				require.Zero(t, b.spun)
				require.Zero(t, b.step)
				require.Equal(t, c.b.Spin, b.Spin)
				require.Equal(t, c.b.Yields, b.Yields)
			}
		})
	}
}

func TestSpinsGrowByAFactorFrom1Point5To2(t *testing.T) {
	between := map[time.Duration]bool{}
	for seed := range uint64(200) {
		b := Backoff{rand: NewFastRand(seed)}
		b.grow()
		require.Equal(t, firstSpin, b.step)
		for b.step < longestSpin {
			last := b.step
			b.grow()
			require.GreaterOrEqual(t, b.step, min(last+last/2, longestSpin))
			require.LessOrEqual(t, b.step, min(2*last, longestSpin))
			between[b.step] = true
		}
		b.grow()
		require.Equal(t, longestSpin, b.step, "and not beyond the longest")
	}
	require.Greater(t, len(between), 250, "threads that lost the same race must not meet again")
}

// Threads that start together must not keep in step.
func TestBackoffsAreNotAlike(t *testing.T) {
	var a, b Backoff
	for range 5 {
		a.grow()
		b.grow()
	}
	require.NotEqual(t, FastRand{}, a.rand)
	require.NotEqual(t, a.rand, b.rand)
}

// TestSeededBackoffsAreAlike, also after a Reset: a search that is repeated must spin as often as
// the first time.
func TestSeededBackoffsAreAlike(t *testing.T) {
	spins := func(seed uint64) (all []time.Duration) {
		b := Backoff{Spin: 50 * time.Microsecond}
		b.Seed(seed)
		for range 5 {
			for spin, ok := b.Next(); ok; spin, ok = b.Next() {
				all = append(all, spin)
			}
			all = append(all, b.NextLost())
			b.Reset()
		}
		return all
	}
	require.Equal(t, spins(1), spins(1))
	require.NotEqual(t, spins(1), spins(2))

	b := Backoff{Spin: 50 * time.Microsecond}
	b.Seed(1)
	var first, second [5]time.Duration
	for i := range first {
		first[i], _ = b.Next()
	}
	b.Reset()
	for i := range second {
		second[i], _ = b.Next()
	}
	require.NotEqual(t, first, second, "one backoff does not repeat itself")
}

// A lost race means that there is work to find. However many races a thread loses, it comes no
// closer to parking.
func TestLostRacesDoNotLeadToParking(t *testing.T) {
	for _, b := range []Backoff{{}, {Spin: -1, Yields: 1}, {Spin: 1, Yields: -1}} {
		for range 1000 {
			b.Lost()
			require.LessOrEqual(t, b.step, longestSpin)
		}
		require.Zero(t, b.spun)
		require.Zero(t, b.yielded)
		require.True(t, b.Wait())
	}
}

func TestEndedBackoffParks(t *testing.T) {
	for _, b := range []Backoff{{}, {Spin: time.Hour, Yields: 1000}, {Spin: math.MaxInt64, Yields: math.MaxInt}} {
		b.End()
		_, ok := b.Next()
		require.False(t, ok)
		b.Reset()
		_, ok = b.Next()
		require.True(t, ok)
	}
}
