// Package atomic has the types and functions of sync/atomic. While a program is explored, each operation is a point at which the
// scheduler chooses who goes on; otherwise they are those of sync/atomic. The types have the same sizes.
//
// It has one thing more: StoreRelease, a store without a fence, which the store buffers of the explorer may delay.
package atomic

import (
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist/verify/explore/internal/sched"
)

// noCopy lets go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// LoadInt32 is atomic.LoadInt32.
func LoadInt32(p *int32) int32 {
	if v, ok := sched.Load(p); ok {
		return v
	}
	return atomic.LoadInt32(p)
}

// StoreInt32 is atomic.StoreInt32.
func StoreInt32(p *int32, v int32) {
	if !sched.Store(p, v) {
		atomic.StoreInt32(p, v)
	}
}

// StoreInt32Release is a store without a fence.
func StoreInt32Release(p *int32, v int32) {
	if !sched.StoreRelease(p, v) {
		atomic.StoreInt32(p, v)
	}
}

// SwapInt32 is atomic.SwapInt32.
func SwapInt32(p *int32, v int32) int32 {
	if old, ok := sched.Swap(p, v); ok {
		return old
	}
	return atomic.SwapInt32(p, v)
}

// CompareAndSwapInt32 is atomic.CompareAndSwapInt32.
func CompareAndSwapInt32(p *int32, old, v int32) bool {
	if swapped, ok := sched.CompareAndSwap(p, old, v); ok {
		return swapped
	}
	return atomic.CompareAndSwapInt32(p, old, v)
}

// LoadInt64 is atomic.LoadInt64.
func LoadInt64(p *int64) int64 {
	if v, ok := sched.Load(p); ok {
		return v
	}
	return atomic.LoadInt64(p)
}

// StoreInt64 is atomic.StoreInt64.
func StoreInt64(p *int64, v int64) {
	if !sched.Store(p, v) {
		atomic.StoreInt64(p, v)
	}
}

// StoreInt64Release is a store without a fence.
func StoreInt64Release(p *int64, v int64) {
	if !sched.StoreRelease(p, v) {
		atomic.StoreInt64(p, v)
	}
}

// SwapInt64 is atomic.SwapInt64.
func SwapInt64(p *int64, v int64) int64 {
	if old, ok := sched.Swap(p, v); ok {
		return old
	}
	return atomic.SwapInt64(p, v)
}

// CompareAndSwapInt64 is atomic.CompareAndSwapInt64.
func CompareAndSwapInt64(p *int64, old, v int64) bool {
	if swapped, ok := sched.CompareAndSwap(p, old, v); ok {
		return swapped
	}
	return atomic.CompareAndSwapInt64(p, old, v)
}

// LoadUint32 is atomic.LoadUint32.
func LoadUint32(p *uint32) uint32 {
	if v, ok := sched.Load(p); ok {
		return v
	}
	return atomic.LoadUint32(p)
}

// StoreUint32 is atomic.StoreUint32.
func StoreUint32(p *uint32, v uint32) {
	if !sched.Store(p, v) {
		atomic.StoreUint32(p, v)
	}
}

// StoreUint32Release is a store without a fence.
func StoreUint32Release(p *uint32, v uint32) {
	if !sched.StoreRelease(p, v) {
		atomic.StoreUint32(p, v)
	}
}

// SwapUint32 is atomic.SwapUint32.
func SwapUint32(p *uint32, v uint32) uint32 {
	if old, ok := sched.Swap(p, v); ok {
		return old
	}
	return atomic.SwapUint32(p, v)
}

// CompareAndSwapUint32 is atomic.CompareAndSwapUint32.
func CompareAndSwapUint32(p *uint32, old, v uint32) bool {
	if swapped, ok := sched.CompareAndSwap(p, old, v); ok {
		return swapped
	}
	return atomic.CompareAndSwapUint32(p, old, v)
}

// LoadUint64 is atomic.LoadUint64.
func LoadUint64(p *uint64) uint64 {
	if v, ok := sched.Load(p); ok {
		return v
	}
	return atomic.LoadUint64(p)
}

// StoreUint64 is atomic.StoreUint64.
func StoreUint64(p *uint64, v uint64) {
	if !sched.Store(p, v) {
		atomic.StoreUint64(p, v)
	}
}

// StoreUint64Release is a store without a fence.
func StoreUint64Release(p *uint64, v uint64) {
	if !sched.StoreRelease(p, v) {
		atomic.StoreUint64(p, v)
	}
}

// SwapUint64 is atomic.SwapUint64.
func SwapUint64(p *uint64, v uint64) uint64 {
	if old, ok := sched.Swap(p, v); ok {
		return old
	}
	return atomic.SwapUint64(p, v)
}

// CompareAndSwapUint64 is atomic.CompareAndSwapUint64.
func CompareAndSwapUint64(p *uint64, old, v uint64) bool {
	if swapped, ok := sched.CompareAndSwap(p, old, v); ok {
		return swapped
	}
	return atomic.CompareAndSwapUint64(p, old, v)
}

// LoadUintptr is atomic.LoadUintptr.
func LoadUintptr(p *uintptr) uintptr {
	if v, ok := sched.Load(p); ok {
		return v
	}
	return atomic.LoadUintptr(p)
}

// StoreUintptr is atomic.StoreUintptr.
func StoreUintptr(p *uintptr, v uintptr) {
	if !sched.Store(p, v) {
		atomic.StoreUintptr(p, v)
	}
}

// StoreUintptrRelease is a store without a fence.
func StoreUintptrRelease(p *uintptr, v uintptr) {
	if !sched.StoreRelease(p, v) {
		atomic.StoreUintptr(p, v)
	}
}

// SwapUintptr is atomic.SwapUintptr.
func SwapUintptr(p *uintptr, v uintptr) uintptr {
	if old, ok := sched.Swap(p, v); ok {
		return old
	}
	return atomic.SwapUintptr(p, v)
}

// CompareAndSwapUintptr is atomic.CompareAndSwapUintptr.
func CompareAndSwapUintptr(p *uintptr, old, v uintptr) bool {
	if swapped, ok := sched.CompareAndSwap(p, old, v); ok {
		return swapped
	}
	return atomic.CompareAndSwapUintptr(p, old, v)
}

// LoadPointer is atomic.LoadPointer.
func LoadPointer(p *unsafe.Pointer) unsafe.Pointer {
	if v, ok := sched.Load(p); ok {
		return v
	}
	return atomic.LoadPointer(p)
}

// StorePointer is atomic.StorePointer.
func StorePointer(p *unsafe.Pointer, v unsafe.Pointer) {
	if !sched.Store(p, v) {
		atomic.StorePointer(p, v)
	}
}

// StorePointerRelease is a store without a fence.
func StorePointerRelease(p *unsafe.Pointer, v unsafe.Pointer) {
	if !sched.StoreRelease(p, v) {
		atomic.StorePointer(p, v)
	}
}

// SwapPointer is atomic.SwapPointer.
func SwapPointer(p *unsafe.Pointer, v unsafe.Pointer) unsafe.Pointer {
	if old, ok := sched.Swap(p, v); ok {
		return old
	}
	return atomic.SwapPointer(p, v)
}

// CompareAndSwapPointer is atomic.CompareAndSwapPointer.
func CompareAndSwapPointer(p *unsafe.Pointer, old, v unsafe.Pointer) bool {
	if swapped, ok := sched.CompareAndSwap(p, old, v); ok {
		return swapped
	}
	return atomic.CompareAndSwapPointer(p, old, v)
}

// AddInt32 is atomic.AddInt32.
func AddInt32(p *int32, delta int32) int32 {
	if sum, ok := sched.Add(p, delta); ok {
		return sum
	}
	return atomic.AddInt32(p, delta)
}

// AndInt32 is atomic.AndInt32.
func AndInt32(p *int32, mask int32) int32 {
	if old, ok := sched.And(p, mask); ok {
		return old
	}
	return atomic.AndInt32(p, mask)
}

// OrInt32 is atomic.OrInt32.
func OrInt32(p *int32, mask int32) int32 {
	if old, ok := sched.Or(p, mask); ok {
		return old
	}
	return atomic.OrInt32(p, mask)
}

// Int32 is atomic.Int32.
type Int32 struct {
	_ noCopy

	v int32
}

// Load is atomic.Int32.Load.
func (x *Int32) Load() int32 { return LoadInt32(&x.v) }

// Store is atomic.Int32.Store.
func (x *Int32) Store(v int32) { StoreInt32(&x.v, v) }

// StoreRelease is a store without a fence.
func (x *Int32) StoreRelease(v int32) { StoreInt32Release(&x.v, v) }

// Swap is atomic.Int32.Swap.
func (x *Int32) Swap(v int32) int32 { return SwapInt32(&x.v, v) }

// CompareAndSwap is atomic.Int32.CompareAndSwap.
func (x *Int32) CompareAndSwap(old, v int32) bool { return CompareAndSwapInt32(&x.v, old, v) }

// Add is atomic.Int32.Add.
func (x *Int32) Add(delta int32) int32 { return AddInt32(&x.v, delta) }

// And is atomic.Int32.And.
func (x *Int32) And(mask int32) int32 { return AndInt32(&x.v, mask) }

// Or is atomic.Int32.Or.
func (x *Int32) Or(mask int32) int32 { return OrInt32(&x.v, mask) }

// AddInt64 is atomic.AddInt64.
func AddInt64(p *int64, delta int64) int64 {
	if sum, ok := sched.Add(p, delta); ok {
		return sum
	}
	return atomic.AddInt64(p, delta)
}

// AndInt64 is atomic.AndInt64.
func AndInt64(p *int64, mask int64) int64 {
	if old, ok := sched.And(p, mask); ok {
		return old
	}
	return atomic.AndInt64(p, mask)
}

// OrInt64 is atomic.OrInt64.
func OrInt64(p *int64, mask int64) int64 {
	if old, ok := sched.Or(p, mask); ok {
		return old
	}
	return atomic.OrInt64(p, mask)
}

// Int64 is atomic.Int64.
type Int64 struct {
	_ noCopy
	_ [0]atomic.Int64 // aligned
	v int64
}

// Load is atomic.Int64.Load.
func (x *Int64) Load() int64 { return LoadInt64(&x.v) }

// Store is atomic.Int64.Store.
func (x *Int64) Store(v int64) { StoreInt64(&x.v, v) }

// StoreRelease is a store without a fence.
func (x *Int64) StoreRelease(v int64) { StoreInt64Release(&x.v, v) }

// Swap is atomic.Int64.Swap.
func (x *Int64) Swap(v int64) int64 { return SwapInt64(&x.v, v) }

// CompareAndSwap is atomic.Int64.CompareAndSwap.
func (x *Int64) CompareAndSwap(old, v int64) bool { return CompareAndSwapInt64(&x.v, old, v) }

// Add is atomic.Int64.Add.
func (x *Int64) Add(delta int64) int64 { return AddInt64(&x.v, delta) }

// And is atomic.Int64.And.
func (x *Int64) And(mask int64) int64 { return AndInt64(&x.v, mask) }

// Or is atomic.Int64.Or.
func (x *Int64) Or(mask int64) int64 { return OrInt64(&x.v, mask) }

// AddUint32 is atomic.AddUint32.
func AddUint32(p *uint32, delta uint32) uint32 {
	if sum, ok := sched.Add(p, delta); ok {
		return sum
	}
	return atomic.AddUint32(p, delta)
}

// AndUint32 is atomic.AndUint32.
func AndUint32(p *uint32, mask uint32) uint32 {
	if old, ok := sched.And(p, mask); ok {
		return old
	}
	return atomic.AndUint32(p, mask)
}

// OrUint32 is atomic.OrUint32.
func OrUint32(p *uint32, mask uint32) uint32 {
	if old, ok := sched.Or(p, mask); ok {
		return old
	}
	return atomic.OrUint32(p, mask)
}

// Uint32 is atomic.Uint32.
type Uint32 struct {
	_ noCopy

	v uint32
}

// Load is atomic.Uint32.Load.
func (x *Uint32) Load() uint32 { return LoadUint32(&x.v) }

// Store is atomic.Uint32.Store.
func (x *Uint32) Store(v uint32) { StoreUint32(&x.v, v) }

// StoreRelease is a store without a fence.
func (x *Uint32) StoreRelease(v uint32) { StoreUint32Release(&x.v, v) }

// Swap is atomic.Uint32.Swap.
func (x *Uint32) Swap(v uint32) uint32 { return SwapUint32(&x.v, v) }

// CompareAndSwap is atomic.Uint32.CompareAndSwap.
func (x *Uint32) CompareAndSwap(old, v uint32) bool { return CompareAndSwapUint32(&x.v, old, v) }

// Add is atomic.Uint32.Add.
func (x *Uint32) Add(delta uint32) uint32 { return AddUint32(&x.v, delta) }

// And is atomic.Uint32.And.
func (x *Uint32) And(mask uint32) uint32 { return AndUint32(&x.v, mask) }

// Or is atomic.Uint32.Or.
func (x *Uint32) Or(mask uint32) uint32 { return OrUint32(&x.v, mask) }

// AddUint64 is atomic.AddUint64.
func AddUint64(p *uint64, delta uint64) uint64 {
	if sum, ok := sched.Add(p, delta); ok {
		return sum
	}
	return atomic.AddUint64(p, delta)
}

// AndUint64 is atomic.AndUint64.
func AndUint64(p *uint64, mask uint64) uint64 {
	if old, ok := sched.And(p, mask); ok {
		return old
	}
	return atomic.AndUint64(p, mask)
}

// OrUint64 is atomic.OrUint64.
func OrUint64(p *uint64, mask uint64) uint64 {
	if old, ok := sched.Or(p, mask); ok {
		return old
	}
	return atomic.OrUint64(p, mask)
}

// Uint64 is atomic.Uint64.
type Uint64 struct {
	_ noCopy
	_ [0]atomic.Int64 // aligned
	v uint64
}

// Load is atomic.Uint64.Load.
func (x *Uint64) Load() uint64 { return LoadUint64(&x.v) }

// Store is atomic.Uint64.Store.
func (x *Uint64) Store(v uint64) { StoreUint64(&x.v, v) }

// StoreRelease is a store without a fence.
func (x *Uint64) StoreRelease(v uint64) { StoreUint64Release(&x.v, v) }

// Swap is atomic.Uint64.Swap.
func (x *Uint64) Swap(v uint64) uint64 { return SwapUint64(&x.v, v) }

// CompareAndSwap is atomic.Uint64.CompareAndSwap.
func (x *Uint64) CompareAndSwap(old, v uint64) bool { return CompareAndSwapUint64(&x.v, old, v) }

// Add is atomic.Uint64.Add.
func (x *Uint64) Add(delta uint64) uint64 { return AddUint64(&x.v, delta) }

// And is atomic.Uint64.And.
func (x *Uint64) And(mask uint64) uint64 { return AndUint64(&x.v, mask) }

// Or is atomic.Uint64.Or.
func (x *Uint64) Or(mask uint64) uint64 { return OrUint64(&x.v, mask) }

// AddUintptr is atomic.AddUintptr.
func AddUintptr(p *uintptr, delta uintptr) uintptr {
	if sum, ok := sched.Add(p, delta); ok {
		return sum
	}
	return atomic.AddUintptr(p, delta)
}

// AndUintptr is atomic.AndUintptr.
func AndUintptr(p *uintptr, mask uintptr) uintptr {
	if old, ok := sched.And(p, mask); ok {
		return old
	}
	return atomic.AndUintptr(p, mask)
}

// OrUintptr is atomic.OrUintptr.
func OrUintptr(p *uintptr, mask uintptr) uintptr {
	if old, ok := sched.Or(p, mask); ok {
		return old
	}
	return atomic.OrUintptr(p, mask)
}

// Uintptr is atomic.Uintptr.
type Uintptr struct {
	_ noCopy

	v uintptr
}

// Load is atomic.Uintptr.Load.
func (x *Uintptr) Load() uintptr { return LoadUintptr(&x.v) }

// Store is atomic.Uintptr.Store.
func (x *Uintptr) Store(v uintptr) { StoreUintptr(&x.v, v) }

// StoreRelease is a store without a fence.
func (x *Uintptr) StoreRelease(v uintptr) { StoreUintptrRelease(&x.v, v) }

// Swap is atomic.Uintptr.Swap.
func (x *Uintptr) Swap(v uintptr) uintptr { return SwapUintptr(&x.v, v) }

// CompareAndSwap is atomic.Uintptr.CompareAndSwap.
func (x *Uintptr) CompareAndSwap(old, v uintptr) bool { return CompareAndSwapUintptr(&x.v, old, v) }

// Add is atomic.Uintptr.Add.
func (x *Uintptr) Add(delta uintptr) uintptr { return AddUintptr(&x.v, delta) }

// And is atomic.Uintptr.And.
func (x *Uintptr) And(mask uintptr) uintptr { return AndUintptr(&x.v, mask) }

// Or is atomic.Uintptr.Or.
func (x *Uintptr) Or(mask uintptr) uintptr { return OrUintptr(&x.v, mask) }

// Pointer is atomic.Pointer.
type Pointer[T any] struct {
	_ [0]*T
	_ noCopy
	v unsafe.Pointer
}

// Load is atomic.Pointer.Load.
func (x *Pointer[T]) Load() *T { return (*T)(LoadPointer(&x.v)) }

// Store is atomic.Pointer.Store.
func (x *Pointer[T]) Store(v *T) { StorePointer(&x.v, unsafe.Pointer(v)) }

// StoreRelease is a store without a fence.
func (x *Pointer[T]) StoreRelease(v *T) { StorePointerRelease(&x.v, unsafe.Pointer(v)) }

// Swap is atomic.Pointer.Swap.
func (x *Pointer[T]) Swap(v *T) *T { return (*T)(SwapPointer(&x.v, unsafe.Pointer(v))) }

// CompareAndSwap is atomic.Pointer.CompareAndSwap.
func (x *Pointer[T]) CompareAndSwap(old, v *T) bool {
	return CompareAndSwapPointer(&x.v, unsafe.Pointer(old), unsafe.Pointer(v))
}

// Bool is atomic.Bool.
type Bool struct {
	_ noCopy
	v uint32
}

func word(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// Load is atomic.Bool.Load.
func (x *Bool) Load() bool { return LoadUint32(&x.v) != 0 }

// Store is atomic.Bool.Store.
func (x *Bool) Store(v bool) { StoreUint32(&x.v, word(v)) }

// StoreRelease is a store without a fence.
func (x *Bool) StoreRelease(v bool) { StoreUint32Release(&x.v, word(v)) }

// Swap is atomic.Bool.Swap.
func (x *Bool) Swap(v bool) bool { return SwapUint32(&x.v, word(v)) != 0 }

// CompareAndSwap is atomic.Bool.CompareAndSwap.
func (x *Bool) CompareAndSwap(old, v bool) bool {
	return CompareAndSwapUint32(&x.v, word(old), word(v))
}

// Value is atomic.Value.
type Value struct{ p Pointer[any] }

// Load is atomic.Value.Load.
func (x *Value) Load() any {
	if v := x.p.Load(); v != nil {
		return *v
	}
	return nil
}

// Store is atomic.Value.Store, and does not compare types.
func (x *Value) Store(v any) { x.p.Store(&v) }
