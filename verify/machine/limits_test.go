package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/claim"
)

// A pool's state of sleep is three numbers in one word. None of them may run into another, up to
// the most that a pool can have: 8192 workers, as many spares, 64 guests. Of cancelled calls there
// is no bound but memory; more than 2^15 at the same moment make Sleep.Hungry say no, so that forks
// stay private and the calls end later, and must leave no trace when they have ended.
func TestCountsOfSleepersAndSearchersDoNotRunIntoEachOther(t *testing.T) {
	claim.That(t, "the three counts in the state of sleep do not run into each other at their limits",
		"the words of all combinations of extremes, and 100,000 cancelled calls that come and go")
	const slots, guests, bits = 2 * (1 << 13), 64, 1<<15 - 1
	words := 0
	check := func(s *policy.Sleep, searching, sleepers int) {
		t.Helper()
		require.Equal(t, searching, s.Load().Searching())
		require.Equal(t, sleepers, s.Load().Sleepers())
		words++
	}
	for _, searching := range []int{0, 1, slots, slots + guests} {
		for _, sleepers := range []int{-slots - guests, -slots, -1, 0, 1, slots} {
			var s policy.Sleep
			add := func(cancelled int) {
				s.Add(policy.State(cancelled) * policy.OneCancelled)
				check(&s, searching, sleepers)
			}
			s.Add(policy.State(searching)*policy.OneSearching + policy.State(sleepers)*policy.OneSleeper)
			check(&s, searching, sleepers)
			before := s.Load()
			require.Equal(t, searching > 0 || sleepers > 0, s.Hungry())
			for _, cancelled := range []int{1, bits} {
				add(cancelled)
				require.True(t, s.Hungry())
				add(-cancelled)
			}
			for range 100 {
				add(1000)
			}
			for range 1000 {
				add(-100)
			}
			require.Equal(t, before, s.Load())
		}
	}
	claim.Amount(t, "%s words", claim.Count(words))
}
