package suites

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheftsAreBetweenWorkersAlone(t *testing.T) {
	const workers = 4
	var sum uint64
	// A busy machine may not run a second worker for a while.
	for took := 50 * time.Millisecond; sum == 0 && took < 10*time.Second; took *= 2 {
		steals, err := Steals(workers, took)
		require.NoError(t, err)
		require.Len(t, steals, workers)
		for thief, victims := range steals {
			require.Len(t, victims, workers)
			require.Zero(t, victims[thief], "from itself")
			for _, n := range victims {
				sum += n
			}
		}
	}
	require.Positive(t, sum)
}
