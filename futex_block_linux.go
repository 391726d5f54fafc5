//go:build !go1.28

package heist

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A goroutine in an ordinary system call keeps its P until the runtime's monitor takes it
// away, which takes from 20 microseconds to 10 milliseconds. A worker that parks is sure to
// block, so it calls entersyscallblock, which hands the P over at once. The runtime keeps
// both functions open to linkname (go.dev/issue/67401) in the Go versions that this file is
// built for; futex_plain_linux.go is for later ones.

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// futexBlock has no branch between the two calls, so that no instrumentation, which
// would need the P, is inserted there.
//
//go:nosplit
//go:norace
func futexBlock(addr *atomic.Uint32, val uint32, ts *unix.Timespec) syscall.Errno {
	entersyscallblock()
	_, _, errno := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWaitPrivate, uintptr(val), uintptr(unsafe.Pointer(ts)), 0, 0)
	exitsyscall()
	return errno
}
