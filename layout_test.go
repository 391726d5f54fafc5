package heist

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/testutil"
)

func TestNextPow2(t *testing.T) {
	for n, want := range map[int]int64{
		1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 63: 64, 64: 64, 65: 128,
		maxCapacity - 1: maxCapacity, maxCapacity: maxCapacity,
	} {
		require.Equal(t, want, nextPow2(n), "of %d", n)
	}
}

func TestSlotsAreIndexedModuloTheirNumber(t *testing.T) {
	s := newSlots(4)
	require.EqualValues(t, 4, s.len())
	for i := range int64(4) {
		for _, round := range []int64{4, 400, 1 << 62} {
			require.Same(t, s.at(i), s.at(i+round))
		}
		require.NotSame(t, s.at(i), s.at(i+1))
	}
}

func TestSlotsAreClearedFromToAndNoFurther(t *testing.T) {
	for _, c := range []struct {
		from, to int64
		left     [4]bool
	}{
		{0, 0, [4]bool{true, true, true, true}},
		{5, 5, [4]bool{true, true, true, true}},
		{1, 3, [4]bool{true, false, false, true}},
		{3, 5, [4]bool{false, true, true, false}}, // across the array's end
		{0, 4, [4]bool{}},
		{0, 1 << 40, [4]bool{}}, // in four steps
	} {
		s := newSlots(4)
		for i := range int64(4) {
			storeSlot(s.at(i), unsafe.Pointer(newItem(int(i))))
		}
		s.clear(c.from, c.to)
		for i, left := range c.left {
			require.Equal(t, left, *s.at(int64(i)) != nil, "slot %d after clearing %d to %d", i, c.from, c.to)
		}
	}
}

// Fields with different writers are far enough apart not to share a line, wherever
// the allocator puts the whole.
func TestWritersDoNotShareLines(t *testing.T) {
	var d deque
	require.GreaterOrEqual(t, unsafe.Offsetof(d.top)-unsafe.Offsetof(d.grows), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Sizeof(d)-unsafe.Offsetof(d.lost), uintptr(pad.Size))

	var r Ring[item]
	require.GreaterOrEqual(t, unsafe.Offsetof(r.tail)-unsafe.Offsetof(r.spilled), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Offsetof(r.head)-unsafe.Offsetof(r.clean), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Sizeof(r)-unsafe.Offsetof(r.head), uintptr(pad.Size))

	var in Injector[item]
	require.GreaterOrEqual(t, unsafe.Offsetof(in.head)-unsafe.Offsetof(in.terminal), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Offsetof(in.tail)-unsafe.Offsetof(in.head), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Sizeof(in)-unsafe.Offsetof(in.tail), uintptr(pad.Size))

	var s segment[item]
	require.GreaterOrEqual(t, unsafe.Offsetof(s.enq)-unsafe.Offsetof(s.next), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Offsetof(s.deq)-unsafe.Offsetof(s.enq), uintptr(pad.Size))
	require.GreaterOrEqual(t, unsafe.Sizeof(s)-unsafe.Offsetof(s.deq), uintptr(pad.Size))
}

// TestObjectsShareNoLinesWithTheirNeighbours in memory.
func TestObjectsShareNoLinesWithTheirNeighbours(t *testing.T) {
	testutil.Padded(t, []reflect.Type{
		reflect.TypeFor[deque](), reflect.TypeFor[Ring[item]](), reflect.TypeFor[Injector[item]](),
		reflect.TypeFor[segment[item]](), reflect.TypeFor[slots](),
	})
}
