//go:build unix

package gauge

import (
	"fmt"
	"syscall"
	"time"
)

// UsageSoFar returns what all threads of the process, living and ended, have used
// since it began.
func UsageSoFar() (Usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("getrusage: %w", err)
	}
	return Usage{
		CPU:     time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		Wakeups: int64(r.Nvcsw), // 32 bits on some systems
	}, nil
}
