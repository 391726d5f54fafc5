package heist

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
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

// tally counts, for any number of goroutines, how often each item was taken.
type tally struct {
	times   []atomic.Uint32
	total   atomic.Int64
	foreign atomic.Int64 // items that are not what was pushed
}

func newTally(items int) *tally { return &tally{times: make([]atomic.Uint32, items)} }

func (c *tally) take(it *item) {
	if it == nil || it.sum != checksum(it.id) || it.id >= uint64(len(c.times)) {
		c.foreign.Add(1)
		return
	}
	c.times[it.id].Add(1)
	c.total.Add(1)
}

func (c *tally) complete() bool { return c.total.Load() >= int64(len(c.times)) }

func (c *tally) requireEachOnce(t testing.TB) {
	t.Helper()
	require.Zero(t, c.foreign.Load(), "items that nobody pushed, or whose memory was freed")
	lost, taken := 0, 0
	for i := range c.times {
		switch n := c.times[i].Load(); n {
		case 0:
			lost++
		case 1:
			taken++
		default:
			require.Failf(t, "taken more than once", "item %d was taken %d times", i, n)
		}
	}
	require.Zero(t, lost, "items were lost; %d were taken", taken)
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

// stress scales the number of rounds of a test that looks for races. HEIST_STRESS
// multiplies it: 0.1 on an emulator, 100 for a night.
func stress(rounds int) int {
	factor := 1.0
	if testing.Short() {
		factor = 0.1
	}
	if f, err := strconv.ParseFloat(os.Getenv("HEIST_STRESS"), 64); err == nil {
		factor = f
	}
	return max(int(float64(rounds)*factor), 1)
}

// together runs n copies of body at the same time and returns a function that
// waits for them.
func together(n int, body func(who int)) (wait func()) {
	var group sync.WaitGroup
	for who := range n {
		group.Go(func() { body(who) })
	}
	return group.Wait
}

// collectAllTheTime keeps the garbage collector running until the function that
// it returns is called, so that write barriers are on and what is not marked is
// freed soon.
func collectAllTheTime() (stop func()) {
	var enough atomic.Bool
	wait := together(1, func(int) {
		for !enough.Load() {
			runtime.GC()
		}
	})
	return func() {
		enough.Store(true)
		wait()
	}
}
