//go:build !race

package pool

import (
	"sync/atomic"
	"unsafe"
)

// published is a pointer that its owner writes all the time, and others read now and then, to see what goes on. As a [heist.Counter], it
// costs the owner a plain store. What it points to was made long before, or is a new object whose fields do not change: a reader on a
// CPU that delays stores may find them zero, and says less then.
type published[T any] struct{ p *T }

// set and own are for the owner.
func (x *published[T]) set(v *T) { x.p = v }
func (x *published[T]) own() *T  { return x.p }

// publishedCode is the same for where a function's code is; 0 is none.
type publishedCode struct{ code uintptr }

func (x *publishedCode) set(code uintptr) { x.code = code }
func (x *publishedCode) load() uintptr    { return atomic.LoadUintptr(&x.code) }

// load is for anybody.
func (x *published[T]) load() *T {
	return (*T)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&x.p))))
}
