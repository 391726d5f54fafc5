package pool

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// currentCPU returns the CPU that the caller runs on at this moment, or -1: a system
// call of 100 ns or so.
func currentCPU() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}
