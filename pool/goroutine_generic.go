//go:build !((amd64 || arm64) && gc && !purego)

package pool

import "unsafe"

const goroutineIDAllocates = true

// goroutineRecord returns nil: without assembly the runtime's record cannot be found.
func goroutineRecord() unsafe.Pointer { return nil }

// goroutineID identifies the calling goroutine. The runtime shows its number only at the
// head of a stack trace, which takes microseconds, and more on a deep stack.
func goroutineID() uintptr { return uintptr(goroutineNumber()) }
