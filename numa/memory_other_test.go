//go:build !linux

package numa

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryOfOtherSystemsHasNoPlace(t *testing.T) {
	_, err := AllowedNodes()
	require.ErrorIs(t, err, ErrMemoryPolicy)
	_, err = PageNodes(make([]byte, 1))
	require.ErrorIs(t, err, ErrMemoryPolicy)
	for _, p := range []Policy{{}, Local(), Bind(0), Prefer(0), Interleave(0), Blocks(0)} {
		m, err := Map(1, p)
		require.ErrorIs(t, err, ErrMemoryPolicy)
		require.Nil(t, m)
		s, err := NewSlice[int](1, p)
		require.ErrorIs(t, err, ErrMemoryPolicy)
		require.Nil(t, s)
	}
}
