package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheRegistryHasRoomForMoreGoroutinesThanALine: goroutines that find their line full are found
// all the same, and leave nothing behind.
func TestTheRegistryHasRoomForMoreGoroutinesThanALine(t *testing.T) {
	r := new(registry)
	var same []uintptr // goroutines of one line
	for g := uintptr(1); len(same) < 7; g++ {
		if r.line(g) == r.line(1) {
			same = append(same, g)
		}
	}
	workers := map[uintptr]*Worker{}
	set := func(g uintptr, w *Worker) {
		r.set(g, w)
		workers[g] = w
		for _, g := range same {
			require.True(t, workers[g] == r.find(g))
		}
	}
	for range 3 {
		for _, g := range same {
			set(g, new(Worker))
		}
		require.EqualValues(t, len(same)-4, r.spilt.Load())
		for _, g := range same { // guests of another pool, and back
			outer := workers[g]
			set(g, new(Worker))
			set(g, outer)
		}
		for _, g := range same {
			set(g, nil)
			set(g, nil)
		}
		require.Zero(t, r.spilt.Load())
	}
}
