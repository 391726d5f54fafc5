package pool

import (
	"reflect"
	"testing"

	"github.com/seed53057037/heist/internal/testutil"
)

// TestObjectsShareNoLinesWithTheirNeighbours in memory: what a worker writes for each fork or task is on lines of its own.
func TestObjectsShareNoLinesWithTheirNeighbours(t *testing.T) {
	testutil.Padded(t, []reflect.Type{
		reflect.TypeFor[Fork[int, int]](), reflect.TypeFor[frames[int, int]](), reflect.TypeFor[place](), reflect.TypeFor[guests](),
		reflect.TypeFor[Worker](), reflect.TypeFor[cell[int]](), reflect.TypeFor[timings](), reflect.TypeFor[lengths](), reflect.TypeFor[loners](),
		reflect.TypeFor[lastTurn](),
	}, "stack", "Pool")
}
