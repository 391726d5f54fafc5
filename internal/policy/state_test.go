package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHungryIsWhoSearchesOrSleeps: guests make the middle number negative, and that must not hide a searcher, nor may
// their own number count.
func TestHungryIsWhoSearchesOrSleeps(t *testing.T) {
	for _, searching := range []State{0, 1, 2, 1 << 14} {
		for _, sleepers := range []State{-1 << 14, -2, -1, 0, 1, 2, 1 << 14} {
			for _, guests := range []State{0, 1, 1<<24 - 1} {
				var s Sleep
				state := s.Add(searching*OneSearching + sleepers*OneSleeper + guests*OneGuest)
				require.Equal(t, searching > 0 || sleepers > 0, s.Hungry(), "%d searching, %d sleepers, %d guests", searching, sleepers, guests)
				require.Equal(t, guests > 0, state.HasGuests())
				require.EqualValues(t, searching, state.Searching())
				require.EqualValues(t, sleepers, state.Sleepers())
			}
		}
	}
}

// TestAForkWakesAsLongAsFewSearch: one searcher for each eight sleepers is enough.
func TestAForkWakesAsLongAsFewSearch(t *testing.T) {
	for _, c := range []struct {
		searching, sleepers State
		want                bool
	}{
		{0, 0, false}, {0, 1, true}, {1, 1, false},
		{1, 7, false}, {1, 8, true}, {2, 8, false},
		{2, 15, false}, {2, 16, true}, {3, 16, false},
		{0, -1, false}, {1, -8, false},
		{63, 511, true}, {64, 511, false}, {64, 512, true},
	} {
		state := c.searching*OneSearching + c.sleepers*OneSleeper
		require.Equal(t, c.want, state.WantsForks(), "%d searching, %d sleepers", c.searching, c.sleepers)
	}
}
