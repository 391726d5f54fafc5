package numa

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// sliceForTest makes a slice, and skips the test where the system does not map memory.
func sliceForTest[T any](t *testing.T, n int, p Policy) *Slice[T] {
	t.Helper()
	s, err := NewSlice[T](n, p)
	if errors.Is(err, ErrMemoryPolicy) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type odd struct {
	a byte
	b [3]uint16
	c [31]byte
} // 40 bytes, which no page is a multiple of

func TestMemorySliceHasItsElements(t *testing.T) {
	require.Equal(t, uintptr(40), unsafe.Sizeof(odd{}))
	for _, n := range []int{0, 1, 7, 1000} {
		s := sliceForTest[odd](t, n, Policy{})
		elements := s.Elements()
		require.NotNil(t, elements)
		require.Len(t, elements, n)
		require.Equal(t, n, cap(elements))
		for i := range elements {
			require.Zero(t, elements[i])
			elements[i] = odd{a: byte(i), b: [3]uint16{2: uint16(i)}, c: [31]byte{30: byte(i)}}
		}
		require.NoError(t, s.Touch())
		for i, e := range s.Elements() {
			require.Equal(t, odd{a: byte(i), b: [3]uint16{2: uint16(i)}, c: [31]byte{30: byte(i)}}, e)
		}
		require.NoError(t, s.Close())
		require.Nil(t, s.Elements())
		require.Nil(t, s.Part(0, 2))
		require.ErrorIs(t, s.Close(), errClosed)
	}
}

func TestMemorySliceOfGoPointersIsRefusedByName(t *testing.T) {
	type inner struct {
		OK   int
		Name string
	}
	type outer struct {
		ID  uint64
		Arr [4]inner
	}
	refused := func(err error, where string) {
		t.Helper()
		require.ErrorContains(t, err, where)
		require.ErrorContains(t, err, "holds a Go pointer, which the collector would not see; use an index or an array of fixed size")
		require.NotErrorIs(t, err, ErrMemoryPolicy)
	}
	_, err := NewSlice[outer](1, Policy{})
	refused(err, "numa: NewSlice of numa.outer: numa.outer.Arr[0].Name, a string, holds")
	_, err = NewSlice[string](1, Policy{})
	refused(err, "numa: NewSlice of string: ")
	_, err = NewSlice[*int](1, Policy{})
	refused(err, "a ptr")
	_, err = NewSlice[[]int](1, Policy{})
	refused(err, "a slice")
	_, err = NewSlice[map[int]int](1, Policy{})
	refused(err, "a map")
	_, err = NewSlice[chan int](1, Policy{})
	refused(err, "a chan")
	_, err = NewSlice[func()](1, Policy{})
	refused(err, "a func")
	_, err = NewSlice[any](1, Policy{})
	refused(err, "a interface")
	_, err = NewSlice[unsafe.Pointer](1, Policy{})
	refused(err, "a unsafe.Pointer")
	_, err = NewSlice[atomic.Pointer[int]](0, Policy{})
	refused(err, "atomic.Pointer[int].v")
}

func TestMemorySliceTakesWhatHasNoGoPointers(t *testing.T) {
	type fine struct {
		_       [0]func()
		mu      sync.Mutex
		count   atomic.Int64
		Complex [2][3]complex128
		Address uintptr
		Flag    bool
	}
	s := sliceForTest[fine](t, 3, Policy{})
	e := &s.Elements()[2]
	e.mu.Lock()
	e.count.Add(1)
	e.mu.Unlock()
	require.EqualValues(t, 1, e.count.Load())
}

func TestMemorySliceOfImpossibleSizesIsRefused(t *testing.T) {
	_, err := NewSlice[int](-1, Policy{})
	require.EqualError(t, err, "numa: NewSlice of -1 elements; the number must not be negative")
	for _, n := range []int{math.MaxInt, math.MaxInt/8 + 1, math.MaxInt/4 + 1} { // the product is small for some of them
		_, err = NewSlice[uint64](n, Policy{})
		require.ErrorContains(t, err, "elements of 8 bytes: more than the address space")
	}
	_, err = NewSlice[struct{}](1, Policy{})
	require.EqualError(t, err, "numa: NewSlice of struct {}: its elements have no size, so they lie nowhere")
	_, err = NewSlice[int](1, Bind())
	require.ErrorContains(t, err, "names no node")
}

func TestMemorySlicePartsAreAllElementsOnce(t *testing.T) {
	for _, n := range []int{0, 1, 102, 103, 1000, 54321} {
		s := sliceForTest[odd](t, n, Policy{})
		for _, parts := range []int{1, 2, 3, 7, 100} {
			seen := 0
			for i := range parts {
				part := s.Part(i, parts)
				if len(part) > 0 {
					require.Same(t, &s.Elements()[seen], &part[0])
					page := partStart(s.pages(), i, parts)
					require.GreaterOrEqual(t, seen*40, page*pageSize)
					require.Less(t, seen*40, page*pageSize+40, "no element between is left out")
				}
				seen += len(part)
			}
			require.Equal(t, n, seen)
		}
		require.PanicsWithValue(t, "numa: part 2 of 2 parts", func() { s.Part(2, 2) })
		require.PanicsWithValue(t, "numa: part -1 of 2 parts", func() { s.Part(-1, 2) })
		require.PanicsWithValue(t, "numa: part 0 of 0 parts", func() { s.Part(0, 0) })
	}
}

func TestAppendToAMemorySlicePartLeavesTheNextPart(t *testing.T) {
	s := sliceForTest[uint64](t, 3*pageSize/8, Policy{})
	for i := range 3 {
		_ = append(s.Part(i, 3), 1)
	}
	require.Equal(t, make([]uint64, 3*pageSize/8), s.Elements())
}

func TestMemorySlicePartsLieOnTheNodesOfTheirBlocks(t *testing.T) {
	nodes, err := AllowedNodes()
	if errors.Is(err, ErrMemoryPolicy) {
		t.Skip(err)
	}
	require.NoError(t, err)
	s := sliceForTest[uint64](t, 100*pageSize/8, Blocks(nodes...))
	require.NoError(t, s.Touch())
	for i, want := range nodes {
		part := s.Part(i, len(nodes))
		require.NotEmpty(t, part)
		is, err := PageNodes(part)
		require.NoError(t, err)
		for page, node := range is {
			require.Equal(t, want, node, "page %d of part %d", page, i)
		}
	}
}
