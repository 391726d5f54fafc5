package heist

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// The recurrence as Marsaglia's paper and Go's scheduler have it: two words of 32
// bits as the state of a 64-bit xorshift with the shifts 17, 7 and 16, and their
// sum as the number.
func TestFastRandIsXorshift64Plus(t *testing.T) {
	r := FastRand{one: 1, two: 2}
	state := [2]uint32{1, 2}
	for range 10_000 {
		x, y := state[0], state[1]
		x ^= x << 17
		x ^= y ^ x>>7 ^ y>>16
		state = [2]uint32{y, x}
		require.Equal(t, x+y, r.Uint32())
	}
	require.Equal(t, FastRand{state[0], state[1]}, r)

	// The first numbers, worked out by hand from the state {1, 2}: 1^1<<17 is
	// 0x20001, and 0x20001^0x20001>>7^2 is 0x20403.
	r = FastRand{one: 1, two: 2}
	require.EqualValues(t, 0x20405, r.Uint32())
	require.Equal(t, FastRand{2, 0x20403}, r)
}

// A step is a linear map on 64 bits. Its order is the period: 2^64-1, so every
// state but 0 is on one cycle. That is so if the map to the power 2^64-1 is the
// identity and to no power (2^64-1)/p, p prime, it is.
func TestFastRandHasTheFullPeriod(t *testing.T) {
	type matrix [64]uint64 // the images of the 64 unit vectors
	apply := func(m *matrix, v uint64) uint64 {
		image := uint64(0)
		for i := range 64 {
			if v>>i&1 == 1 {
				image ^= m[i]
			}
		}
		return image
	}
	times := func(a, b *matrix) *matrix {
		product := new(matrix)
		for i := range 64 {
			product[i] = apply(a, b[i])
		}
		return product
	}
	var step, identity matrix
	for i := range 64 {
		v := uint64(1) << i
		identity[i] = v
		r := FastRand{uint32(v >> 32), uint32(v)}
		r.Uint32()
		step[i] = uint64(r.one)<<32 | uint64(r.two)
	}
	power := func(e uint64) matrix {
		result, square := identity, step
		for ; e > 0; e >>= 1 {
			if e&1 == 1 {
				result = *times(&result, &square)
			}
			square = *times(&square, &square)
		}
		return result
	}
	require.Equal(t, identity, power(math.MaxUint64))
	product := uint64(1)
	for _, prime := range []uint64{3, 5, 17, 257, 641, 65537, 6700417} {
		require.NotEqual(t, identity, power(math.MaxUint64/prime), "the period divides (2^64-1)/%d", prime)
		product *= prime
	}
	require.EqualValues(t, uint64(math.MaxUint64), product, "these are all the primes in it")
}

func TestSeedsGiveTheirOwnNumbers(t *testing.T) {
	first := map[[2]uint32]uint64{}
	seeds := []uint64{math.MaxUint64, math.MaxUint64 - 1, 1 << 63, golden}
	for seed := range uint64(1001) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		r, again := NewFastRand(seed), NewFastRand(seed)
		require.NotEqual(t, FastRand{}, r, "seed %d gives the state that is never left", seed)
		numbers := [2]uint32{r.Uint32(), r.Uint32()}
		require.Equal(t, numbers, [2]uint32{again.Uint32(), again.Uint32()})
		other, taken := first[numbers]
		require.False(t, taken, "seeds %d and %d start alike", other, seed)
		first[numbers] = seed
	}
}

func TestRandomSeedsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 1000 {
		seed := RandomSeed()
		require.False(t, seen[seed])
		seen[seed] = true
	}
}

// TestRandomSeedsOfOneMomentDiffer: many goroutines may ask for one while the clock shows the
// same time, as it does here all along and, for microseconds at least, on some systems.
func TestRandomSeedsOfOneMomentDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, each = 8, 2000
		moment := time.Now()
		seeds := make([][]uint64, goroutines)
		testutil.Together(goroutines, func(who int) {
			for range each {
				seeds[who] = append(seeds[who], RandomSeed())
			}
		})()
		all := slices.Concat(seeds...)
		slices.Sort(all)
		require.Len(t, slices.Compact(all), goroutines*each)
		require.Equal(t, moment, time.Now())
	})
}

// TestRandomSeedsDifferFromRunToRun: a new process counts its calls from 0 again, but at another
// time, if only by a nanosecond.
func TestRandomSeedsDifferFromRunToRun(t *testing.T) {
	calls := seeds.Load()
	defer func() { seeds.Store(calls) }()
	synctest.Test(t, func(t *testing.T) {
		seen := map[uint64]bool{}
		for run := range 100 {
			seeds.Store(0)
			for call := range 10 {
				seed := RandomSeed()
				require.False(t, seen[seed], "run %d, call %d", run, call)
				seen[seed] = true
			}
			time.Sleep(time.Nanosecond)
		}
	})
}

func TestNIsBelowN(t *testing.T) {
	r := NewFastRand(1)
	for _, n := range []uint32{1, 2, 3, 7, 64, 1000, 1 << 31, math.MaxUint32} {
		for range 1000 {
			require.Less(t, r.N(n), n)
		}
	}
	// The largest number, 2^32-1, comes from the state {one, 0} whose first word
	// the two shifts turn into ones. Undone in turn:
	ones := uint32(math.MaxUint32)
	b := ones ^ ones>>7 ^ ones>>14 ^ ones>>21 ^ ones>>28
	largest := FastRand{one: b ^ b<<17}
	for _, n := range []uint32{1, 2, 7, 1 << 31, math.MaxUint32} {
		r := largest
		require.Equal(t, n-1, r.N(n))
	}
	require.Equal(t, ones, largest.Uint32())
}

// Pearson's chi-square with a fixed seed: the numbers are always the same, so this
// fails for a changed generator, never by chance. The bounds are those that one
// random generator in a thousand would exceed.
func TestNIsEvenlyDistributed(t *testing.T) {
	for _, c := range []struct {
		n     uint32
		bound float64
	}{{2, 10.83}, {3, 13.82}, {7, 22.46}, {16, 37.70}, {63, 102.17}, {128, 181.99}} {
		r := NewFastRand(42)
		counts := make([]float64, c.n)
		const draws = 100_000
		for range draws {
			counts[r.N(c.n)]++
		}
		expected := draws / float64(c.n)
		chi2 := 0.0
		for _, observed := range counts {
			chi2 += (observed - expected) * (observed - expected) / expected
		}
		require.Less(t, chi2, c.bound, "of %d", c.n)
	}
}
