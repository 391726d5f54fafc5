//go:build !((amd64 || arm64) && gc && !purego)

package pool

import (
	"bytes"
	"runtime"
	"strconv"
)

const goroutineIDAllocates = true

// goroutineID identifies the calling goroutine. The runtime tells its number only at the
// head of a stack trace; that takes microseconds, and more on a deep stack.
func goroutineID() uintptr {
	var buf [64]byte
	trace := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(trace, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		fatal("a stack trace does not begin with the goroutine's number")
	}
	return uintptr(id)
}
