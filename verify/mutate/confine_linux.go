package main

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// memory is the most that each process may allocate. An endless loop that a mutant causes must
// not take all of the machine's memory.
const memory = 4 << 30

// confine prepares a command that runs tests, so that it and its children can be killed together.
func confine(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
}

// limitMemory limits the memory of a started command, and of the processes that it will start.
func limitMemory(c *exec.Cmd) error {
	if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}, nil); err != nil {
		return fmt.Errorf("the memory of the tests could not be limited: %w", err)
	}
	return nil
}

// killGroup kills the remaining processes of a command.
func killGroup(c *exec.Cmd) {
	_ = unix.Kill(-c.Process.Pid, unix.SIGKILL) // it fails if nothing is left
}
