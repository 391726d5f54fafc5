//go:build !race

package heist

import "sync/atomic"

// Counter is a statistic with a single writer. The writer pays a plain add and
// no locked instruction: a word with one writer needs no more, and a reader
// sees one of its recent values. The counter is a machine word, so that the
// store cannot tear; on 32-bit systems it wraps at 2^32. The zero value is 0.
type Counter struct{ v uintptr }

// Add adds n. Only the writer may call it.
func (c *Counter) Add(n int) { c.v += uintptr(n) }

// Load returns a recent value. Any goroutine may call it.
func (c *Counter) Load() uint64 { return uint64(atomic.LoadUintptr(&c.v)) }
