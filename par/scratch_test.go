package par

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

func TestScratchMemoryHoldsNoElement(t *testing.T) {
	s := scratch[*int](100)
	for i := range s {
		s[i] = &i
	}
	recycle(s)
	require.Equal(t, make([]*int, 100), s)
}

func TestWhatHoldsPointersIsKnown(t *testing.T) {
	for value, want := range map[any]bool{
		1: false, 1.5i: false, uintptr(1): false, "": true, [0]string{}: false, [2]*int{}: true, [2][3]int8{}: false,
		struct{ a, b int }{}: false, struct {
			a [2]int
			b struct{ c string }
		}{}: true, struct{ error }{}: true, unsafe.Pointer(nil): true, make(chan int): true,
	} {
		require.Equal(t, want, hasPointers(reflect.TypeOf(value)), "%T", value)
	}
	for _, value := range []any{[]int{}, map[int]int{}, func() {}} {
		require.True(t, hasPointers(reflect.TypeOf(value)), "%T", value)
	}
}

// TestSortsAtTheSameTimeShareNoMemory: sorts of the same types and lengths, some of which panic, take their memory from one another.
func TestSortsAtTheSameTimeShareNoMemory(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	type element struct {
		key  int
		next *int
	}
	byKey := func(a, b element) int { return cmp.Compare(a.key, b.key) }
	var callers sync.WaitGroup
	for c := range uint64(4) {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(7, c))
			for range testutil.Stress(200) {
				s, values := make([]element, 20+r.IntN(2*mergeLen)), 1+r.IntN(200)
				if r.IntN(2) == 0 {
					values = 1 << 30
				}
				for i := range s {
					key := r.IntN(values)
					s[i] = element{key, &key}
				}
				fails, calls := r.IntN(4) == 0, 0
				var sort func() error
				switch r.IntN(3) {
				case 0:
					sort = func() error { return SortFunc(p, s, byKey) }
				case 1:
					sort = func() error { return SortBy(p, s, func(e element) int { return *e.next }) }
				case 2:
					sort = func() error {
						return SortFunc(pool.Serial(), s, func(a, b element) int {
							if calls++; fails && calls > len(s) {
								panic("in a comparison")
							}
							return byKey(a, b)
						})
					}
				}
				func() {
					defer func() { recover() }()
					require.NoError(t, sort())
					require.True(t, slices.IsSortedFunc(s, byKey))
				}()
				for _, e := range s {
					require.Equal(t, e.key, *e.next)
				}
			}
		})
	}
	callers.Wait()
}
