//go:build (amd64 || arm64) && gc && !purego

package pool

import "unsafe"

const goroutineIDAllocates = false

// goroutineRecord returns where the runtime's record of the calling goroutine is.
//
//go:noescape
func goroutineRecord() unsafe.Pointer

// goroutineID identifies the calling goroutine as long as it lives: it is the address
// of the runtime's record of it, which is only compared.
func goroutineID() uintptr { return uintptr(goroutineRecord()) }
