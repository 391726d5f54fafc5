package suites

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheftsAreBetweenWorkersAlone(t *testing.T) {
	const workers = 4
	steals, err := Steals(workers, 50*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, steals, workers)
	var sum uint64
	for thief, victims := range steals {
		require.Len(t, victims, workers)
		require.Zero(t, victims[thief], "from itself")
		for _, n := range victims {
			sum += n
		}
	}
	require.Positive(t, sum)
}
