package main

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// memory is what each process may allocate. A loop that a mutant lets run for ever must not
// take the machine's.
const memory = 4 << 30

// confine prepares a command that runs tests: it and what it starts can be killed together.
func confine(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
}

// limitMemory limits the command that was started, and what it will start.
func limitMemory(c *exec.Cmd) error {
	if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}, nil); err != nil {
		return fmt.Errorf("the memory of the tests could not be limited: %w", err)
	}
	return nil
}

// killGroup ends what is left of a command.
func killGroup(c *exec.Cmd) {
	_ = unix.Kill(-c.Process.Pid, unix.SIGKILL) // it fails if nothing is left
}
