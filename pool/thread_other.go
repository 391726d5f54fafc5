//go:build !linux

package pool

import (
	"bytes"
	"runtime"
	"strconv"
)

// threadID identifies a worker's goroutine, which is as good as its thread because
// it is locked to that: by the number in the first line of its stack trace,
// "goroutine 42 [running]:". That takes about a microsecond.
func threadID() int {
	var buf [64]byte
	line := buf[:runtime.Stack(buf[:], false)]
	id, err := strconv.Atoi(string(bytes.Fields(line)[1]))
	if err != nil {
		fatal("a stack trace without a goroutine's number")
	}
	return id
}
