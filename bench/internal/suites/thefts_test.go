package suites

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheftsAreBetweenWorkersAlone(t *testing.T) {
	const workers = 4
	thefts, err := Thefts(workers, 50*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, thefts, workers)
	var sum uint64
	for thief, victims := range thefts {
		require.Len(t, victims, workers)
		require.Zero(t, victims[thief], "from itself")
		for _, n := range victims {
			sum += n
		}
	}
	require.Positive(t, sum)
}
