package numa

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// getcpu asks the kernel.
func getcpu() (cpu, node int) {
	var c, n uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&c)), uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		return -1, -1
	}
	return int(c), int(n)
}
