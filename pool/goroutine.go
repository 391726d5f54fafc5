package pool

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineNumber returns the number by which stack traces name the calling goroutine.
func goroutineNumber() uint64 {
	var buf [64]byte
	trace := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(trace, []byte(" "))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		fatal("a stack trace does not begin with the goroutine's number")
	}
	return n
}
