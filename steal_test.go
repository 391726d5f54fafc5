package heist

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStealResultsHaveNames(t *testing.T) {
	require.Equal(t, "empty", Empty.String())
	require.Equal(t, "success", Success.String())
	require.Equal(t, "retry", Retry.String())
	require.Equal(t, "unknown StealResult", StealResult(3).String())

	var r StealResult
	require.Equal(t, Empty, r, "who says nothing has found nothing")
}
