package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/policy"
)

func TestGapsFollowWhatTheySaw(t *testing.T) {
	const spin, watch = 15, 100
	var g policy.Gaps
	saw := func(n int, gap int64) {
		for range n {
			g.Saw(gap, spin, watch)
		}
	}
	require.True(t, g.Spins(), "nothing is known yet")
	require.False(t, g.Watches(), "nothing is known yet")
	for _, c := range []struct {
		n              int
		gap            int64
		spins, watches bool
		because        string
	}{
		{1, 101, true, false, "one long gap is no habit"},
		{1, 101, false, false, "two are"},
		{1000, 101, false, false, ""},
		{1, spin, false, false, "one short gap is no habit either"},
		{1, spin, true, false, "two are"},
		{2, spin, true, true, "a watch is dear, so it takes four"},
		{1000, spin, true, true, ""},
		{1, 101, true, true, "one long gap counts as much as four"},
		{1, 101, false, false, "so two end the watch"},
		{1, spin, false, false, ""},
		{1, 101, false, false, "short and long in turn"},
		{1, spin, false, false, ""},
		{1, 101, false, false, ""},
		{4, spin + 1, false, true, "too long for a spin, but not for a watch"},
		{1000, watch, false, true, ""},
	} {
		saw(c.n, c.gap)
		require.Equal(t, c.spins, g.Spins(), "%+v", c)
		require.Equal(t, c.watches, g.Watches(), "%+v", c)
	}
}
