//go:build !race

package par

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// The sorts have code of their own for each type, which takes long to compile for the race detector. Other tests have the same code meet thieves.

type (
	myInt    int
	myByte   byte
	myFloat  float32
	myString string
)

func TestSortOrdersEveryOrderedType(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	t.Run("int", testIntegers[int](p))
	t.Run("int8", testIntegers[int8](p))
	t.Run("int16", testIntegers[int16](p))
	t.Run("int32", testIntegers[int32](p))
	t.Run("int64", testIntegers[int64](p))
	t.Run("uint", testIntegers[uint](p))
	t.Run("uint8", testIntegers[uint8](p))
	t.Run("uint16", testIntegers[uint16](p))
	t.Run("uint32", testIntegers[uint32](p))
	t.Run("uint64", testIntegers[uint64](p))
	t.Run("uintptr", testIntegers[uintptr](p))
	t.Run("named int", testIntegers[myInt](p))
	t.Run("named byte", testIntegers[myByte](p))
	t.Run("float32", testFloats[float32](p, func() float32 { return math.Float32frombits(rand.Uint32()) }))
	t.Run("float64", testFloats[float64](p, func() float64 { return math.Float64frombits(rand.Uint64()) }))
	t.Run("named float", testFloats[myFloat](p, func() myFloat { return myFloat(math.Float32frombits(rand.Uint32())) }))
	t.Run("string", testStrings[string](p))
	t.Run("named string", testStrings[myString](p))
}

func testIntegers[E interface {
	integer | ~int | ~int8 | ~uint | ~uintptr
}](p *pool.Pool) func(*testing.T) {
	return func(t *testing.T) {
		for _, n := range sortLens() {
			s := make([]E, n)
			for i := range s {
				s[i] = E(rand.Uint64())
			}
			want := slices.Clone(s)
			slices.Sort(want)
			requireEqual(t, want, sortedOrdered(t, p, s))
		}
	}
}

func testFloats[E ~float32 | ~float64](p *pool.Pool, random func() E) func(*testing.T) {
	return func(t *testing.T) {
		nan, inf := E(math.NaN()), E(math.Inf(1))
		special := []E{nan, -nan, inf, -inf, 0, E(math.Copysign(0, -1)), 1, -1, nan}
		for _, n := range sortLens() {
			for rare := range 3 {
				s := make([]E, n)
				zeros := map[bool]int{}
				for i := range s {
					if s[i] = random(); rare > 0 && rand.IntN(10*rare) == 0 {
						s[i] = special[rand.IntN(len(special))]
					}
					if s[i] == 0 {
						zeros[math.Signbit(float64(s[i]))]++
					}
				}
				want := slices.Clone(s)
				slices.Sort(want)
				got := sortedOrdered(t, p, s)
				for i := range want {
					same := want[i] == got[i] || want[i] != want[i] && got[i] != got[i]
					require.True(t, same, "element %d is %v instead of %v", i, got[i], want[i])
					if got[i] == 0 {
						zeros[math.Signbit(float64(got[i]))]--
					}
				}
				require.Zero(t, zeros[false], "+0")
				require.Zero(t, zeros[true], "-0")
			}
			s := slices.Repeat([]E{nan}, n)
			for i, e := range sortedOrdered(t, p, s) {
				require.True(t, e != e, "element %d", i)
			}
		}
	}
}

func testStrings[E ~string](p *pool.Pool) func(*testing.T) {
	return func(t *testing.T) {
		for _, n := range sortLens() {
			s := make([]E, n)
			for i := range s {
				// Common prefixes, zeros and lengths on both sides of 8.
				s[i] = E(strings.Repeat("\x00", rand.IntN(4)) + strings.Repeat("ab", rand.IntN(5)) +
					strings.Repeat("\x00", rand.IntN(3)) + strconv.Itoa(rand.IntN(n)))[rand.IntN(2):]
			}
			want := slices.Clone(s)
			slices.Sort(want)
			requireEqual(t, want, sortedOrdered(t, p, s))
		}
	}
}

func TestSortByOrdersEveryKey(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	t.Run("int", testSortBy(p, func(k int64) int { return int(k) }))
	t.Run("int8", testSortBy(p, func(k int64) int8 { return int8(k) }))
	t.Run("int16", testSortBy(p, func(k int64) int16 { return int16(k) }))
	t.Run("int32", testSortBy(p, func(k int64) int32 { return int32(k) }))
	t.Run("uint8", testSortBy(p, func(k int64) myByte { return myByte(k) }))
	t.Run("uint32", testSortBy(p, func(k int64) uint32 { return uint32(k) }))
	t.Run("uint64", testSortBy(p, func(k int64) uint64 { return uint64(k) }))
	t.Run("uintptr", testSortBy(p, func(k int64) uintptr { return uintptr(k) }))
	t.Run("float32", testSortBy(p, func(k int64) myFloat { return myFloat(math.Float32frombits(uint32(k))) }))
	t.Run("float64", testSortBy(p, func(k int64) float64 { return math.Float64frombits(uint64(k)) }))
	t.Run("zeros", testSortBy(p, func(k int64) float64 { return math.Copysign(float64(k&2), float64(k&1)-0.5) }))
	t.Run("NaNs", testSortBy(p, func(k int64) float64 { return math.Float64frombits(uint64(k) | 0x7ff0<<48) }))
	t.Run("string", testSortBy(p, func(k int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(k))) }))
	t.Run("named string", testSortBy(p, func(k int64) myString { return myString(strings.Repeat("ab", int(k&63))) }))
}

func testSortBy[K cmp.Ordered](p *pool.Pool, of func(k int64) K) func(*testing.T) {
	type element struct {
		at  int
		key int64
		_   *int // elements may have pointers
	}
	return func(t *testing.T) {
		for _, n := range append(radixLens(), 0, 1, 2, 40, serialSort-1) {
			all := map[string][]int64{}
			if n > 1 {
				all = skewed(n)
			}
			all["random"], all["few"] = inputs(n)["random"], inputs(n)["few"]
			for shape, keys := range all {
				long := n >= 2*partLen-1 || testutil.Short() && n >= radixLeaf
				if long && shape != "exponential" && (shape != "few") {
					continue
				}
				s := make([]element, n)
				for i := range s {
					s[i] = element{at: i, key: keys[i]}
				}
				want := slices.Clone(s)
				slices.SortStableFunc(want, func(a, b element) int { return cmp.Compare(of(a.key), of(b.key)) })
				calls := make([]atomic.Int32, n)
				require.NoError(t, SortBy(p, s, func(e element) K {
					calls[e.at].Add(1)
					return of(e.key)
				}))
				requireEqual(t, want, s, shape)
				all, most := 0, n+288
				if shape != "random" || n < 1000 { // there may be some order
					most = 12 * n
				}
				for i := range calls {
					calls := int(calls[i].Load())
					require.Positive(t, calls, "a key was not computed")
					all += calls
				}
				require.LessOrEqual(t, all, most, shape)
			}
		}
	}
}
