//go:build !race

package pool

import (
	"sync/atomic"
	"unsafe"
)

// published is a pointer that its owner writes all the time. Others read it now and then, to show what goes on.
// Like a [heist.Counter], it costs the owner a plain store. It points to something that was made long before, or to
// a new object whose fields do not change: on a CPU that delays stores a reader may find these zero, and then shows
// less.
type published[T any] struct{ p *T }

// set and own are for the owner.
func (x *published[T]) set(v *T) { x.p = v }
func (x *published[T]) own() *T  { return x.p }

// publishedCode is the same for the address of a function's code; 0 is none.
type publishedCode struct{ code uintptr }

func (x *publishedCode) set(code uintptr) { x.code = code }
func (x *publishedCode) load() uintptr    { return atomic.LoadUintptr(&x.code) }

// load is for any goroutine.
func (x *published[T]) load() *T {
	return (*T)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&x.p))))
}
