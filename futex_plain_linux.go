//go:build go1.28

package heist

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futexBlock is for Go versions whose runtime has not been checked: the P stays with
// the sleeping worker until the runtime's monitor takes it.
func futexBlock(addr *atomic.Uint32, val uint32, ts *unix.Timespec) syscall.Errno {
	_, _, errno := syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWaitPrivate, uintptr(val), uintptr(unsafe.Pointer(ts)), 0, 0)
	return errno
}
