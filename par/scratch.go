package par

import (
	"math/bits"
	"reflect"
	"sync"
	"unsafe"
)

// # Scratch memory
//
// Sorts, filters and groups need memory for a moment. Fresh memory is dear: the system clears each page when it is first written, which takes
// 0.1 to 0.5 us on hardware, and 10 us in some virtual machines. That is 20 ns for a number of 8 bytes, twice as much as all else that a sort does with it; and
// where little else lives on the heap, two large sorts cause a collection. So calls keep such memory for later ones, by type and size, in pools that
// the collector empties: what no call has used between two collections is free after the second.

// scratches has a *scratchPools for each element type. Any goroutine reads and writes.
var scratches sync.Map

type scratchPools struct {
	pointers bool                     // elements have some; constant
	sizes    [bits.UintSize]sync.Pool // of *[]E; index k has those of a capacity above 2^(k-1), up to 2^k
}

// leastKept is how many bytes are worth keeping: fewer take less time to allocate than to find. Partition of one element took 1.5 times as long.
const leastKept = 512

// isKept says whether a slice of so many elements is one that calls keep.
func isKept[E any](n int) bool { return n*int(unsafe.Sizeof(*new(E))) >= leastKept }

// scratch returns n elements of any values, or of zeros if elements have pointers. They may be given to recycle when nothing uses them any more.
func scratch[E any](n int) []E {
	if isKept[E](n) {
		// One that is too short is dropped: so those that are kept soon suffice for all of their size.
		if s, _ := scratchesOf[E]().sizes[bits.Len(uint(n-1))].Get().(*[]E); s != nil && cap(*s) >= n {
			return (*s)[:n]
		}
	}
	return make([]E, n)
}

// recycle keeps s, which scratch returned, for a later call.
func recycle[E any](s []E) {
	if !isKept[E](cap(s)) {
		return
	}
	p := scratchesOf[E]()
	if p.pointers {
		clear(s)
	}
	p.sizes[bits.Len(uint(cap(s)-1))].Put(&s)
}

func scratchesOf[E any]() *scratchPools {
	t := reflect.TypeFor[E]()
	p, ok := scratches.Load(t)
	if !ok {
		p, _ = scratches.LoadOrStore(t, &scratchPools{pointers: hasPointers(t)})
	}
	return p.(*scratchPools)
}

// hasPointers says whether values of the type may hold pointers.
func hasPointers(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k <= reflect.Complex128:
		return false
	case k == reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return true
}
