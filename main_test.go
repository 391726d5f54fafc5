package heist

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/testutil"
)

// item is what the tests queue. Its checksum shows memory that was freed, and
// given to something else, while a queue still held it.
type item struct{ id, sum uint64 }

func newItem(id int) *item { return &item{uint64(id), checksum(uint64(id))} }

func checksum(id uint64) uint64 { return (id + 1) * golden }

func newItems(n int) []*item {
	items := make([]*item, n)
	for i := range items {
		items[i] = newItem(i)
	}
	return items
}

// ids returns the numbers of items, for comparisons that are pleasant to read
// when they fail.
func ids(items ...*item) []int {
	numbers := []int{}
	for _, it := range items {
		numbers = append(numbers, int(it.id))
	}
	return numbers
}

// count returns from, from+1, ... to-1.
func count(from, to int) []int {
	numbers := []int{}
	for i := from; i < to; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// requireEachOnce checks that the items 0 to n-1, and no others, are in what was
// taken, each of them once.
func requireEachOnce(t testing.TB, n int, taken ...[]*item) {
	t.Helper()
	times := make([]int, n)
	for _, it := range slices.Concat(taken...) {
		if it == nil || it.sum != checksum(it.id) || it.id >= uint64(n) {
			require.Failf(t, "foreign item", "%+v was not pushed, or its memory was freed", it)
		}
		times[it.id]++
	}
	for id, times := range times {
		if times != 1 {
			require.Failf(t, "not exactly once", "item %d of %d was taken %d times", id, n, times)
		}
	}
}

// giveWay lets other goroutines run now and then. A loop that yields each time hardly ever meets
// another goroutine.
func giveWay(turn int) {
	if turn%64 == 0 {
		runtime.Gosched()
	}
}

// requireForgotten checks that no slot of a drained queue still holds an item.
func requireForgotten(t testing.TB, s *slots) {
	t.Helper()
	if s == nil {
		return
	}
	for i := range s.len() {
		require.Zero(t, atomic.LoadPointer(s.at(i)), "slot %d of %d keeps its item alive", i, s.len())
	}
}

// collectAllTheTime keeps the garbage collector running until the function that it returns is
// called, so that write barriers are on and unmarked memory is freed soon.
func collectAllTheTime() (stop func()) {
	var enough atomic.Bool
	wait := testutil.Together(1, func(int) {
		for !enough.Load() {
			runtime.GC()
		}
	})
	return func() {
		enough.Store(true)
		wait()
	}
}

// All protocols here rest on this: of two threads that each store one word and then load the
// other's, at least one sees what the other stored. Package sync/atomic promises it on every
// machine. Emulators have been seen to break it: qemu-aarch64 7.2 on amd64 does not keep STLR
// before LDAR. If this test fails then others do, and with them every program that relies on Go's
// atomics; bind the process to one CPU there.
func TestMachineKeepsStoresBeforeLaterLoads(t *testing.T) {
	type line struct {
		atomic.Int64
		_ pad.Line
	}
	n := testutil.Stress(20_000)
	var stored [2][]line
	var loaded [2][]int64
	var reached [2]line
	for me := range 2 {
		stored[me], loaded[me] = make([]line, n), make([]int64, n)
	}
	testutil.Together(2, func(me int) {
		other := 1 - me
		for i := range n {
			reached[me].Store(int64(i + 1))
			for turn := 1; reached[other].Load() <= int64(i); turn++ {
				giveWay(turn)
			}
			stored[me][i].Store(1)
			loaded[me][i] = stored[other][i].Load()
		}
	})()
	broken := 0
	for i := range n {
		if loaded[0][i]+loaded[1][i] == 0 {
			broken++
		}
	}
	require.Zero(t, broken, "times of %d, two threads missed each other's stores: no machine to test on, see the comment", n)
}
