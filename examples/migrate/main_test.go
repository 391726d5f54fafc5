package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBothSidesOfEachPairDoTheSame(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-n", "500"}, &out))
	for _, p := range pairs {
		require.Contains(t, out.String(), p.library)
	}
	require.Contains(t, out.String(), "the same 500")
	require.ErrorContains(t, run(context.Background(), []string{"-n", "0"}, &out), "want 1 or more")
}

func TestBothSidesOfEachPairFailOnTheSameWord(t *testing.T) {
	words := []string{"a", "", "ccc"}
	for _, p := range pairs {
		_, err := p.before(context.Background(), words)
		require.ErrorIs(t, err, errEmpty, p.library)
		_, err = p.after(context.Background(), words)
		require.ErrorIs(t, err, errEmpty, p.library)
	}
}
