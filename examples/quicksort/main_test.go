package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

func TestSortsAsTheStandardLibraryDoes(t *testing.T) {
	for _, n := range []int{0, 1, cutOff, cutOff + 1, 1000, 100_000} {
		for _, values := range []int{1, 2, 100, 1 << 40} {
			s := make([]int, n)
			for i := range s {
				s[i] = rand.IntN(values)
			}
			want := slices.Clone(s)
			slices.Sort(want)
			_, err := quicksort.Run(pool.Default(), s)
			require.NoError(t, err)
			require.Equal(t, want, s, "%d numbers of %d values", n, values)
		}
	}
}

func TestAllNumbersAreInTheHistogram(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-numbers", "5000"}, &out))
	require.Equal(t, 6*dice-dice+1, strings.Count(out.String(), "\n"), out.String())
	bins, err := histogram(pool.Default(), []int{4, 14, 14, 24})
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 1}, []int{bins[4], bins[14], bins[24]})
}

func TestEndsEarlyAndRefusesNonsense(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, run(ctx, nil, &bytes.Buffer{}), context.Canceled)
	require.ErrorContains(t, run(context.Background(), []string{"-numbers", "-1"}, &bytes.Buffer{}), "want 0 or more")
}
