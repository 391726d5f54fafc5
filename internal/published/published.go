//go:build !race

// Package published has what its owner writes all the time, and others read now and then: to show what goes on, or while the
// owner waits. Like a heist.Counter, it costs the owner a plain store.
package published

import (
	"sync/atomic"
	"unsafe"
)

// Pointer is a pointer to something that was made long before, or to a new object whose fields do not change: on a CPU that
// delays stores a reader may find these zero, and then shows less.
type Pointer[T any] struct{ p *T }

// Set and Own are for the owner.
func (x *Pointer[T]) Set(v *T) { x.p = v }
func (x *Pointer[T]) Own() *T  { return x.p }

// Load is for any goroutine.
func (x *Pointer[T]) Load() *T {
	return (*T)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&x.p))))
}

// Word is the same for a number, such as the address of a function's code.
type Word struct{ n uintptr }

// Set and Own are for the owner.
func (x *Word) Set(n uintptr) { x.n = n }
func (x *Word) Own() uintptr  { return x.n }

// Load is for any goroutine.
func (x *Word) Load() uintptr { return atomic.LoadUintptr(&x.n) }
