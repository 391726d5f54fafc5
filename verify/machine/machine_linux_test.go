// Package machine checks what becomes of heist on a machine that refuses or runs out of something:
// system calls, threads, memory, indices. Each fault has a test that is named after the promise.
package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
)

// programs are what the children of these tests run. Each file adds its own.
var programs = make(map[string]func() error)

func TestMain(m *testing.M) {
	endWithoutFilter(refuseBeforeAnything())
	child.Main(m, programs)
}

// duration is how long a child that can go on does so.
func duration() time.Duration {
	switch {
	case claim.Full():
		return 2 * time.Second
	case testutil.Short():
		return 100 * time.Millisecond
	}
	return 500 * time.Millisecond
}

// Package heist asks for its CPUs before main begins, and the Go runtime before that. For a child
// to see refusals from its beginning, it refuses them to itself and then executes itself once
// more.

// refuseVariable tells a child what to refuse: NUMBER:ERRNO, and more of them with commas in
// between.
const refuseVariable = "HEIST_REFUSE"

// exitNoFilter is the exit status of a child that could not refuse itself anything.
const exitNoFilter = 77

func endWithoutFilter(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitNoFilter)
	}
}

func refuseBeforeAnything() error {
	list, ok := os.LookupEnv(refuseVariable)
	if !ok {
		return nil
	}
	var calls []refusal
	for _, entry := range strings.Split(list, ",") {
		number, errno, _ := strings.Cut(entry, ":")
		n, err1 := strconv.ParseUint(number, 10, 32)
		e, err2 := strconv.ParseUint(errno, 10, 16)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		calls = append(calls, refusal{uint32(n), unix.Errno(e)})
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Unsetenv(refuseVariable); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := refuse(calls...); err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, os.Environ())
}

// refusal is a system call and the error with which it is refused.
type refusal struct {
	call  uint32
	errno unix.Errno
}

// refusing is the environment variable for refusals from the beginning.
func refusing(calls ...refusal) string {
	var list []string
	for _, c := range calls {
		list = append(list, fmt.Sprintf("%d:%d", c.call, int(c.errno)))
	}
	return refuseVariable + "=" + strings.Join(list, ",")
}

// refuse has the kernel refuse the calls to all threads of the process, for ever.
func refuse(calls ...refusal) error {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the call's number
	for _, c := range calls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: c.call, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(c.errno)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	return install(filter)
}

// install gives all threads of the process a filter.
func install(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
