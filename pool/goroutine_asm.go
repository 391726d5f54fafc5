//go:build (amd64 || arm64) && gc && !purego

package pool

import "unsafe"

const goroutineIDAllocates = false

// goroutineRecord returns the address of the runtime's record of the calling goroutine.
//
//go:noescape
func goroutineRecord() unsafe.Pointer

// goroutineID identifies the calling goroutine as long as it lives: it is the address
// of the goroutine's record, which is only compared.
func goroutineID() uintptr { return uintptr(goroutineRecord()) }
