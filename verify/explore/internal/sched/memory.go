package sched

import (
	"fmt"
	"unsafe"
)

// Word is what an atomic operation works on.
type Word interface {
	int32 | int64 | uint32 | uint64 | uintptr | unsafe.Pointer
}

// Load is an atomic load. ok is false if no program is explored; the caller then does it itself. So it is with the
// others.
func Load[T Word](p *T) (v T, ok bool) {
	x := running()
	if x == nil {
		return v, false
	}
	x.point(op{what: "load", object: unsafe.Pointer(p), kind: reads})
	v = *p
	for _, d := range x.current.buffer { // its own stores it sees
		if d.object == unsafe.Pointer(p) {
			v = d.value.(T)
		}
	}
	if x.clocks != nil {
		x.clocks.acquire(x.current, unsafe.Pointer(p))
	}
	if x.tracer != nil {
		x.note(fmt.Sprintf("load %v", x.show(v)), unsafe.Pointer(p))
	}
	return v, true
}

// Store is a sequentially consistent store.
func Store[T Word](p *T, v T) bool {
	x := running()
	if x == nil {
		return false
	}
	x.point(op{what: "store", object: unsafe.Pointer(p), kind: writes})
	x.drain(x.current)
	if x.clocks != nil {
		x.clocks.release(x.current, unsafe.Pointer(p))
	}
	if x.tracer != nil {
		x.note(fmt.Sprintf("store %v (was %v)", x.show(v), x.show(*p)), unsafe.Pointer(p))
	}
	*p = v
	return true
}

// StoreRelease is a store that others may see later, after loads that follow it. It never overtakes another store of
// its goroutine.
func StoreRelease[T Word](p *T, v T) bool {
	x := running()
	if x == nil || !x.buffers {
		return Store(p, v)
	}
	x.point(op{what: "store-release", object: unsafe.Pointer(p), kind: writes})
	g := x.current
	if x.clocks != nil {
		x.clocks.release(g, unsafe.Pointer(p))
	}
	if len(g.buffer) == 0 && !x.delays() {
		if x.tracer != nil {
			x.note(fmt.Sprintf("store-release %v (was %v)", x.show(v), x.show(*p)), unsafe.Pointer(p))
		}
		*p = v
		return true
	}
	if x.tracer != nil {
		x.note(fmt.Sprintf("store-release %v, delayed", x.show(v)), unsafe.Pointer(p))
	}
	g.buffer = append(g.buffer, delayed{unsafe.Pointer(p), v, func() {
		if x.tracer != nil {
			x.noteOf(g, fmt.Sprintf("... delayed store of %v is seen", x.show(v)), unsafe.Pointer(p))
		}
		*p = v
	}})
	return true
}

// throughOrDelayed are the options at a store that may be delayed.
var throughOrDelayed = []int{0, 1}

// delays lets the strategy choose whether a store is delayed, which costs as much as a preemption.
func (x *execution) delays() bool {
	at := x.strategy.choose(x, throughOrDelayed, func(option int) bool { return option == 1 })
	if at < 0 {
		x.pruned = true
		x.current.yield(struct{}{})
		panic(abort{})
	}
	x.schedule = append(x.schedule, at)
	return at == 1
}

func (x *execution) drainOne(g *goroutine) {
	d := g.buffer[0]
	g.buffer = g.buffer[1:]
	d.apply()
}

// drain empties the goroutine's store buffer.
func (x *execution) drain(g *goroutine) {
	for len(g.buffer) > 0 {
		x.drainOne(g)
	}
}

// modify is an atomic read-modify-write: a full fence.
func modify[T Word](x *execution, what string, p *T, change func(old T) (T, bool)) (old T, done bool) {
	x.point(op{what: what, object: unsafe.Pointer(p), kind: writes})
	x.drain(x.current)
	old = *p
	v, done := change(old)
	if x.clocks != nil {
		x.clocks.acquire(x.current, unsafe.Pointer(p))
		if done {
			x.clocks.release(x.current, unsafe.Pointer(p))
		}
	}
	if done {
		*p = v
	}
	if x.tracer != nil {
		if done {
			x.note(fmt.Sprintf("%s %v -> %v", what, x.show(old), x.show(v)), unsafe.Pointer(p))
		} else {
			x.note(fmt.Sprintf("%s fails, finds %v", what, x.show(old)), unsafe.Pointer(p))
		}
	}
	return old, done
}

// Swap is an atomic exchange.
func Swap[T Word](p *T, v T) (old T, ok bool) {
	x := running()
	if x == nil {
		return old, false
	}
	old, _ = modify(x, "swap", p, func(T) (T, bool) { return v, true })
	return old, true
}

// CompareAndSwap is an atomic compare-and-swap. It does not fail spuriously.
func CompareAndSwap[T Word](p *T, old, v T) (swapped, ok bool) {
	x := running()
	if x == nil {
		return false, false
	}
	_, swapped = modify(x, "compare-and-swap", p, func(now T) (T, bool) { return v, now == old })
	return swapped, true
}

// Integer is a Word with arithmetic.
type Integer interface {
	int32 | int64 | uint32 | uint64 | uintptr
}

// Add is an atomic addition.
func Add[T Integer](p *T, delta T) (sum T, ok bool) {
	x := running()
	if x == nil {
		return sum, false
	}
	old, _ := modify(x, "add", p, func(now T) (T, bool) { return now + delta, true })
	return old + delta, true
}

// And is an atomic and.
func And[T Integer](p *T, mask T) (old T, ok bool) {
	x := running()
	if x == nil {
		return old, false
	}
	old, _ = modify(x, "and", p, func(now T) (T, bool) { return now & mask, true })
	return old, true
}

// Or is an atomic or.
func Or[T Integer](p *T, mask T) (old T, ok bool) {
	x := running()
	if x == nil {
		return old, false
	}
	old, _ = modify(x, "or", p, func(now T) (T, bool) { return now | mask, true })
	return old, true
}

// Fence empties the store buffer of the current goroutine.
func Fence() {
	if x := running(); x != nil {
		x.point(op{what: "fence"})
		x.drain(x.current)
	}
}

// Access is a point before an access to memory that is not atomic. Two accesses race if one of them writes and
// nothing orders them.
func Access(p unsafe.Pointer, write bool) {
	x := running()
	if x == nil {
		return
	}
	what, k := "read", reads
	if write {
		what, k = "write", writes
	}
	x.point(op{what: what, object: p, kind: k})
	x.note(what, p)
	if x.clocks != nil {
		if other := x.clocks.access(x.current, p, write); other != "" {
			x.fail("race", fmt.Sprintf("data race: %s and %s access the same memory, one of them writes, and nothing orders them", x.current.name, other), "")
			x.current.yield(struct{}{})
			panic(abort{})
		}
	}
}

// Block waits until ready holds, and then calls take in the same step. Object is what both look at.
func Block(what string, object unsafe.Pointer, ready func() bool, take func()) {
	x := active.Load()
	k := writes
	if object == nil { // ready looks at anything
		k = yields
	}
	x.point(op{what: what, object: object, kind: k, ready: ready})
	x.drain(x.current) // a lock is a fence
	x.note(what, object)
	if take != nil {
		take()
	}
	if x.clocks != nil && object != nil {
		x.clocks.acquire(x.current, object)
		x.clocks.release(x.current, object)
	}
}

// Yield says that the goroutine waits for another one in a loop.
func Yield() {
	if x := running(); x != nil {
		if x.aborting {
			panic(abort{})
		}
		x.yielding()
		x.point(op{what: "yield", kind: yields})
		x.note("yield", nil)
	}
}

// Go begins a goroutine. It returns false if no program is explored.
func Go(name string, f func()) bool {
	x := running()
	if x == nil {
		return false
	}
	x.point(op{what: "go"})
	x.drain(x.current)
	g := x.spawn(name, f)
	x.note("go "+g.name, nil)
	return true
}

// Others waits until all other goroutines have ended, and their stores are seen.
func Others() {
	x := active.Load()
	g := x.current
	Block("wait for the end of all others", nil, func() bool {
		for _, other := range x.goroutines {
			if other != g && !other.over || len(other.buffer) > 0 {
				return false
			}
		}
		return true
	}, nil)
	if x.clocks != nil {
		x.clocks.join(g)
	}
}

// Fail ends the execution as a failure.
func Fail(reason string) {
	x := running()
	if x == nil {
		panic(reason)
	}
	if x.aborting {
		panic(abort{})
	}
	x.note("FAILS: "+reason, nil)
	x.fail("check", x.current.name+": "+reason, "")
	x.current.yield(struct{}{})
	panic(abort{})
}
