package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/claim"
)

// A pool's state of sleep is two numbers in one word. Neither may run into the other, up to the
// most that a pool can have: 8192 places that search or sleep. Of guests there is no bound but
// memory, and a goroutine for each of 2^20.
func TestCountsOfSleepersAndSearchersDoNotRunIntoEachOther(t *testing.T) {
	claim.That(t, "the counts in the state of sleep do not run into each other at their limits",
		"the words of all combinations of extremes, with up to a million guests")
	const places, guests = 1 << 13, 1 << 20
	words := 0
	for _, searching := range []int{0, 1, places - 1, places} {
		for _, sleepers := range []int{-guests, -places, -1, 0, 1, places - guests, places} {
			var s policy.Sleep
			check := func() {
				t.Helper()
				require.Equal(t, searching, s.Load().Searching())
				require.Equal(t, sleepers, s.Load().Sleepers())
				require.Equal(t, searching > 0 || sleepers > 0, s.Hungry())
				words++
			}
			s.Add(policy.State(searching)*policy.OneSearching + policy.State(sleepers)*policy.OneSleeper)
			check()
			before := s.Load()
			for range guests { // they come and go
				s.Add(policy.OneGuest - policy.OneSleeper)
			}
			require.True(t, s.Load().HasGuests())
			s.Add(guests * (policy.OneSleeper - policy.OneGuest))
			require.Equal(t, before, s.Load())
			check()
		}
	}
	claim.Amount(t, "%s words", claim.Count(words))
}
