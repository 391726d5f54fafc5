//go:build race

package published

import "sync/atomic"

// Pointer is atomic here, because the race detector takes the plain store of the other builds for a race.
type Pointer[T any] struct{ p atomic.Pointer[T] }

func (x *Pointer[T]) Set(v *T) { x.p.Store(v) }
func (x *Pointer[T]) Own() *T  { return x.p.Load() }
func (x *Pointer[T]) Load() *T { return x.p.Load() }

// Word is atomic for the same reason.
type Word struct{ n atomic.Uintptr }

func (x *Word) Set(n uintptr) { x.n.Store(n) }
func (x *Word) Own() uintptr  { return x.n.Load() }
func (x *Word) Load() uintptr { return x.n.Load() }
