//go:build race

package pool

import "sync/atomic"

// published is atomic here, because the race detector takes the plain store of the other builds for a race.
type published[T any] struct{ p atomic.Pointer[T] }

type publishedCode struct{ code atomic.Uintptr }

func (x *publishedCode) set(code uintptr) { x.code.Store(code) }
func (x *publishedCode) load() uintptr    { return x.code.Load() }

func (x *published[T]) set(v *T) { x.p.Store(v) }
func (x *published[T]) own() *T  { return x.p.Load() }
func (x *published[T]) load() *T { return x.p.Load() }
