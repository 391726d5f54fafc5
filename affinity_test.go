package heist

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllowedIsAscendingAndNotEmpty(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	require.NotEmpty(t, cpus)
	require.True(t, slices.IsSorted(cpus))
	require.Len(t, slices.Compact(slices.Clone(cpus)), len(cpus))
	require.GreaterOrEqual(t, cpus[0], 0)
	require.Len(t, cpus, runtime.NumCPU())

	cpus[0] = -1 // the caller's own
	again, err := Allowed()
	require.NoError(t, err)
	require.NotEqual(t, -1, again[0])
}

func TestPinNeedsACPU(t *testing.T) {
	p, err := Pin()
	require.ErrorContains(t, err, "heist: Pin without a CPU; give at least one, see Allowed")
	require.Nil(t, p)
}

// TestWhatPinAndIsolateDidNotReturnIsAnError that says what to do, and no nil dereference.
func TestWhatPinAndIsolateDidNotReturnIsAnError(t *testing.T) {
	for _, p := range []*Pinned{nil, {}} {
		require.EqualError(t, p.Unpin(), "heist: Unpin of a nil or zero Pinned; use the one that Pin returns")
		require.EqualError(t, p.Rebind(), "heist: Rebind of a nil or zero Pinned; use the one that Pin returns")
	}
	for _, i := range []*Isolation{nil, {}} {
		require.EqualError(t, i.Restore(), "heist: Restore of a nil or zero Isolation; use the one that Isolate returns")
	}
}
