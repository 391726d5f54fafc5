// Package sync has the types of the standard library's sync that programs under exploration use. While a program is
// explored, their operations are points at which the scheduler chooses who goes on; otherwise they are those of the standard
// library. Map is always that, and Pool's operations are no points.
package sync

import (
	"sync"
	"unsafe"

	"github.com/seed53057037/heist/verify/explore/internal/sched"
)

// Map is sync.Map.
type Map = sync.Map

// Pool is sync.Pool. While a program is explored it keeps everything, and gives back what came last.
type Pool struct {
	New  func() any
	real sync.Pool
	kept []any
}

// Put is sync.Pool.Put.
func (p *Pool) Put(x any) {
	if !sched.Active() {
		p.real.Put(x)
		return
	}
	p.kept = append(p.kept, x)
}

// Get is sync.Pool.Get.
func (p *Pool) Get() any {
	var x any
	switch n := len(p.kept); {
	case !sched.Active():
		x = p.real.Get()
	case n > 0:
		x, p.kept = p.kept[n-1], p.kept[:n-1]
	}
	if x == nil && p.New != nil {
		x = p.New()
	}
	return x
}

// Locker is sync.Locker.
type Locker = sync.Locker

// Mutex is sync.Mutex.
type Mutex struct {
	real   sync.Mutex
	locked bool
}

// Lock is sync.Mutex.Lock.
func (m *Mutex) Lock() {
	if !sched.Active() {
		m.real.Lock()
		return
	}
	sched.Block("lock", unsafe.Pointer(m), func() bool { return !m.locked }, func() { m.locked = true })
}

// TryLock is sync.Mutex.TryLock. It fails only if the mutex is locked.
func (m *Mutex) TryLock() (locked bool) {
	if !sched.Active() {
		return m.real.TryLock()
	}
	sched.Block("try to lock", unsafe.Pointer(m), nil, func() { locked, m.locked = !m.locked, true })
	return locked
}

// Unlock is sync.Mutex.Unlock.
func (m *Mutex) Unlock() {
	if !sched.Active() {
		m.real.Unlock()
		return
	}
	sched.Block("unlock", unsafe.Pointer(m), nil, func() {
		if !m.locked {
			panic("unlock of a mutex that is not locked")
		}
		m.locked = false
	})
}

// RWMutex is sync.RWMutex. Writers do not wait longer than readers.
type RWMutex struct {
	real    sync.RWMutex
	locked  bool
	readers int
}

// Lock is sync.RWMutex.Lock.
func (m *RWMutex) Lock() {
	if !sched.Active() {
		m.real.Lock()
		return
	}
	sched.Block("lock", unsafe.Pointer(m), func() bool { return !m.locked && m.readers == 0 }, func() { m.locked = true })
}

// Unlock is sync.RWMutex.Unlock.
func (m *RWMutex) Unlock() {
	if !sched.Active() {
		m.real.Unlock()
		return
	}
	sched.Block("unlock", unsafe.Pointer(m), nil, func() {
		if !m.locked {
			panic("unlock of a mutex that is not locked")
		}
		m.locked = false
	})
}

// RLock is sync.RWMutex.RLock.
func (m *RWMutex) RLock() {
	if !sched.Active() {
		m.real.RLock()
		return
	}
	sched.Block("lock for reading", unsafe.Pointer(m), func() bool { return !m.locked }, func() { m.readers++ })
}

// RUnlock is sync.RWMutex.RUnlock.
func (m *RWMutex) RUnlock() {
	if !sched.Active() {
		m.real.RUnlock()
		return
	}
	sched.Block("unlock for reading", unsafe.Pointer(m), nil, func() {
		if m.readers == 0 {
			panic("unlock of a mutex that is not locked for reading")
		}
		m.readers--
	})
}

// WaitGroup is sync.WaitGroup.
type WaitGroup struct {
	real sync.WaitGroup
	n    int
}

// Add is sync.WaitGroup.Add.
func (g *WaitGroup) Add(n int) {
	if !sched.Active() {
		g.real.Add(n)
		return
	}
	sched.Block("add to the group", unsafe.Pointer(g), nil, func() {
		if g.n += n; g.n < 0 {
			panic("negative WaitGroup counter")
		}
	})
}

// Done is sync.WaitGroup.Done.
func (g *WaitGroup) Done() { g.Add(-1) }

// Wait is sync.WaitGroup.Wait.
func (g *WaitGroup) Wait() {
	if !sched.Active() {
		g.real.Wait()
		return
	}
	sched.Block("wait for the group", unsafe.Pointer(g), func() bool { return g.n == 0 }, nil)
}

// Go is sync.WaitGroup.Go.
func (g *WaitGroup) Go(f func()) {
	if !sched.Active() {
		g.real.Go(f)
		return
	}
	g.Add(1)
	sched.Go("", func() {
		f()
		g.Done()
	})
}

// Cond is sync.Cond.
type Cond struct {
	L       Locker
	real    *sync.Cond
	waiting []*bool // set when it is woken; the oldest first
}

// NewCond is sync.NewCond.
func NewCond(l Locker) *Cond { return &Cond{L: l} }

// Wait is sync.Cond.Wait.
func (c *Cond) Wait() {
	if !sched.Active() {
		c.standard().Wait()
		return
	}
	woken := new(bool)
	c.waiting = append(c.waiting, woken)
	c.L.Unlock()
	sched.Block("wait for a signal", unsafe.Pointer(c), func() bool { return *woken }, nil)
	c.L.Lock()
}

// Signal is sync.Cond.Signal.
func (c *Cond) Signal() {
	if !sched.Active() {
		c.standard().Signal()
		return
	}
	sched.Block("signal", unsafe.Pointer(c), nil, func() { c.wake(1) })
}

// Broadcast is sync.Cond.Broadcast.
func (c *Cond) Broadcast() {
	if !sched.Active() {
		c.standard().Broadcast()
		return
	}
	sched.Block("broadcast", unsafe.Pointer(c), nil, func() { c.wake(len(c.waiting)) })
}

func (c *Cond) wake(n int) {
	for range min(n, len(c.waiting)) {
		*c.waiting[0] = true
		c.waiting = c.waiting[1:]
	}
}

var makingCond sync.Mutex

// standard returns the standard library's, which is made late because the zero Cond can be used.
func (c *Cond) standard() *sync.Cond {
	makingCond.Lock()
	defer makingCond.Unlock()
	if c.real == nil {
		c.real = sync.NewCond(c.L)
	}
	return c.real
}

// Once is sync.Once.
type Once struct {
	m    Mutex
	done bool
}

// Do is sync.Once.Do.
func (o *Once) Do(f func()) {
	o.m.Lock()
	defer o.m.Unlock()
	if !o.done {
		defer func() { o.done = true }()
		f()
	}
}

// OnceFunc is sync.OnceFunc, but a second call does not panic if the first one did.
func OnceFunc(f func()) func() {
	var once Once
	return func() { once.Do(f) }
}

// OnceValue is sync.OnceValue, as OnceFunc.
func OnceValue[T any](f func() T) func() T {
	var once Once
	var v T
	return func() T {
		once.Do(func() { v = f() })
		return v
	}
}
