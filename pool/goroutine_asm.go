//go:build (amd64 || arm64) && gc && !purego

package pool

const goroutineIDAllocates = false

// goroutineID identifies the calling goroutine as long as it lives: it is the address
// of the runtime's record of it, which is only compared.
//
//go:noescape
func goroutineID() uintptr
