package numa

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// A Slice is n elements of type T in a [Mapping]: outside of the Go heap, on chosen nodes, zero
// at first. Everything that is said of a Mapping holds for it, and it has its methods: Touch,
// TouchOn, SetPolicy, Move, HugePages, Close.
type Slice[T any] struct {
	Mapping
	n int
}

// NewSlice returns n elements, which may be 0, that lie where the policy says. Close the Slice
// when it is no longer in use.
//
// T must not contain Go pointers at any depth, because the collector does not look for them
// there. Strings, slices, maps and interfaces contain some; use an index or an array of fixed
// size instead. The error names the field. T must also have a size. Other errors are those of
// [Map].
func NewSlice[T any](n int, p Policy) (*Slice[T], error) {
	t := reflect.TypeFor[T]()
	if where, kind := findPointer(t, t.String()); where != "" {
		return nil, fmt.Errorf("numa: NewSlice of %v: %s, a %v, holds a Go pointer, which the collector would not see; use an index or an array of fixed size", t, where, kind)
	}
	size := int(t.Size())
	switch {
	case size == 0:
		return nil, fmt.Errorf("numa: NewSlice of %v: its elements have no size, so they lie nowhere", t)
	case n < 0:
		return nil, fmt.Errorf("numa: NewSlice of %d elements; the number must not be negative", n)
	case n > math.MaxInt/size:
		return nil, fmt.Errorf("numa: NewSlice of %d elements of %d bytes: more than the address space", n, size)
	}
	m, err := Map(n*size, p)
	if err != nil {
		return nil, err
	}
	return &Slice[T]{*m, n}, nil
}

// findPointer returns the path of the first Go pointer in a type and its kind, or "".
func findPointer(t reflect.Type, path string) (where string, kind reflect.Kind) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			if where, kind := findPointer(field.Type, path+"."+field.Name); where != "" {
				return where, kind
			}
		}
		return "", 0
	case reflect.Array:
		if t.Len() == 0 {
			return "", 0
		}
		return findPointer(t.Elem(), path+"[0]")
	case reflect.Pointer, reflect.UnsafePointer, reflect.String, reflect.Slice, reflect.Map, reflect.Chan, reflect.Func, reflect.Interface:
		return path, t.Kind()
	}
	return "", 0
}

// Elements returns the elements, and nil after Close.
func (s *Slice[T]) Elements() []T {
	memory := s.Bytes()
	if memory == nil {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), s.n)
}

// Part returns part i of so many parts: the elements that lie on nodes[i] with the policy
// Blocks(nodes...) for so many nodes, or that TouchOn(cpus...) touches on cpus[i]. A part
// begins with the first element of a page, so the sizes of parts can differ by a page, and a
// part can be empty if there are fewer pages than parts. The parts together are all elements.
// Append to a part copies it, and leaves the next part as it is.
// Part panics if i is not from 0 to of-1, and returns nil after Close.
func (s *Slice[T]) Part(i, of int) []T {
	if i < 0 || i >= of {
		panic(fmt.Sprintf("numa: part %d of %d parts", i, of))
	}
	return slices.Clip(s.Elements()[s.firstAfter(i, of):s.firstAfter(i+1, of)])
}

// firstAfter returns the first element that begins in part i.
func (s *Slice[T]) firstAfter(i, parts int) int {
	size := int(unsafe.Sizeof(*new(T)))
	start := partStart(s.pages(), i, parts) * pageSize
	first := start / size
	if start%size > 0 {
		first++
	}
	return min(first, s.n)
}
