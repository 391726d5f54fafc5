//go:build !((amd64 || arm64) && gc && !purego)

package pool

import "unsafe"

const goroutineIDAllocates = true

// goroutineRecord would return where the runtime's record of the calling goroutine is.
func goroutineRecord() unsafe.Pointer { return nil }

// goroutineID identifies the calling goroutine. The runtime tells its number only at the
// head of a stack trace; that takes microseconds, and more on a deep stack.
func goroutineID() uintptr { return uintptr(goroutineNumber()) }
