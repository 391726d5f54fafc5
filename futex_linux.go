package heist

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/futex.h. Private: the word is not shared with other processes.
const (
	futexWaitPrivate = 0 | 128
	futexWakePrivate = 1 | 128
)

func futexWait(addr *atomic.Uint32, val uint32, timeout time.Duration) bool {
	var ts *unix.Timespec
	if timeout > 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	return futexBlock(addr, val, ts) != unix.ETIMEDOUT
}

func futexWake(addr *atomic.Uint32, n int) int {
	// Waking does not block, so the Go scheduler need not know of it.
	woken, _, _ := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWakePrivate, uintptr(min(n, 1<<30)), 0, 0, 0)
	return int(woken)
}

func yield() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
