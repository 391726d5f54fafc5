package numa

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryOfImpossibleSizesIsRefused(t *testing.T) {
	m, err := Map(-1, Policy{})
	require.EqualError(t, err, "numa: cannot map -1 bytes; the size must not be negative")
	require.Nil(t, m)
	for _, size := range []int{math.MaxInt, math.MaxInt - pageSize + 1} {
		m, err = Map(size, Policy{})
		require.EqualError(t, err, fmt.Sprintf("numa: cannot map %d bytes: more than the address space", size))
		require.Nil(t, m)
	}
}

func TestMemoryPolicyWithoutANodeIsRefused(t *testing.T) {
	for _, p := range []Policy{Bind(), Interleave(), Blocks()} {
		m, err := Map(1, p)
		require.EqualError(t, err, "numa: cannot map with "+p.String()+": it names no node; give at least one, see AllowedNodes")
		require.Nil(t, m)
	}
}

func TestMemoryPolicyIsPrintedAsItIsWritten(t *testing.T) {
	for want, p := range map[string]Policy{
		"Policy{}":         {},
		"Local()":          Local(),
		"Bind(3, 0)":       Bind(3, 0),
		"Prefer(1)":        Prefer(1),
		"Interleave(0, 2)": Interleave(2, 0, 2),
		"Blocks(1, 0, 1)":  Blocks(1, 0, 1),
		"Bind()":           Bind(),
	} {
		require.Equal(t, want, p.String())
	}
}

func TestMemoryPolicyKeepsNoSliceOfTheCaller(t *testing.T) {
	for _, of := range []func(...int) Policy{Bind, Interleave, Blocks} {
		nodes := []int{5, 4}
		p := of(nodes...)
		printed := p.String()
		require.Equal(t, []int{5, 4}, nodes)
		nodes[0] = 9
		require.Equal(t, printed, p.String())
	}
}

// Each page is in one part, and parts differ by a page at most.
func TestMemoryPartsAreEven(t *testing.T) {
	for _, pages := range []int{0, 1, 3, 4, 1000, 1 << 30} {
		for _, parts := range []int{1, 2, 3, 4, 7, 1024} {
			require.Zero(t, partStart(pages, 0, parts))
			require.Equal(t, pages, partStart(pages, parts, parts))
			for i := range parts {
				size := partStart(pages, i+1, parts) - partStart(pages, i, parts)
				require.Contains(t, []int{pages / parts, (pages + parts - 1) / parts}, size, "part %d of %d of %d pages", i, parts, pages)
			}
		}
	}
	require.Equal(t, math.MaxInt-1, partStart(math.MaxInt, math.MaxInt-1, math.MaxInt), "without an overflow")
}
