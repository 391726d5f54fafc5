package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnevenLanesTakeAsLongAsTheLongestOrAreBalanced(t *testing.T) {
	static, stealing, err := Lanes([]int{100, 100, 200, 350}, time.Millisecond)
	require.NoError(t, err)
	require.InDelta(t, 350, static.Seconds()*1e3, 0.1)
	require.GreaterOrEqual(t, stealing, 187500*time.Microsecond, "no less than all work on four CPUs")
	require.Less(t, stealing, 190*time.Millisecond)
}
