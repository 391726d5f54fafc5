package suites

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm wakes a goroutine at a given time, as exactly as a connection does when data
// comes. time.Sleep would wait up to a millisecond too long whenever the process is
// idle meanwhile, as epoll's timeouts are in milliseconds. An alarm has one user at a time.
type alarm struct{ timer *os.File }

func newAlarm() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return alarm{}, os.NewSyscallError("timerfd_create", err)
	}
	return alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

func (a alarm) wait(until time.Time) error {
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	conn, err := a.timer.SyscallConn()
	if err != nil {
		return err
	}
	after := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
	var refused error
	err = conn.Control(func(fd uintptr) { refused = unix.TimerfdSettime(int(fd), 0, &after, nil) })
	if err != nil {
		return err
	}
	if refused != nil {
		return os.NewSyscallError("timerfd_settime", refused)
	}
	var expirations [8]byte
	_, err = a.timer.Read(expirations[:])
	return err
}

func (a alarm) close() { a.timer.Close() }
