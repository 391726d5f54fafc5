package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyHeistEndsTheTree(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), nil, &out))
	for line := range strings.Lines(out.String()) {
		ends := strings.Contains(line, "ends: 156 nodes")
		require.Equal(t, strings.HasPrefix(line, "heist"), ends, line)
		require.True(t, ends || strings.Contains(line, "hangs") || strings.Contains(line, "panics"), line)
	}
	require.Equal(t, len(libraries), strings.Count(out.String(), "\n"))
	require.ErrorContains(t, run(context.Background(), []string{"-patience", "0s"}, &out), "want more than 0")
}
