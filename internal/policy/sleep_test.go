package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateHoldsTwoNumbers(t *testing.T) {
	for _, s := range []State{0, 1, 2, 1000} {
		for _, p := range []State{-1000, -2, -1, 0, 1, 2, 1000} {
			state := s*OneSearching + p*OneSleeper
			require.EqualValues(t, s, state.Searching())
			require.EqualValues(t, p, state.Sleepers())
			require.Equal(t, p > 0 && 8*s <= p, state.WantsForks(), "%d searching, %d sleepers", s, p)
		}
	}
}

func TestAtMostHalfSearchOnTheirOwn(t *testing.T) {
	for n := 1; n < 20; n++ {
		var s Sleep
		for range max(1, n/2) {
			require.True(t, s.StartSearching(n))
		}
		require.False(t, s.StartSearching(n), "%d workers", n)
		require.EqualValues(t, max(1, n/2), s.Load().Searching())
	}
}
