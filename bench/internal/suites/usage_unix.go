//go:build unix

package suites

import (
	"fmt"
	"syscall"
	"time"
)

// usageSoFar returns what all threads of the process, living and ended, have used
// since it began.
func usageSoFar() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	return usage{
		cpu:     time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		wakeups: int64(r.Nvcsw), // 32 bits on some systems
	}, nil
}
