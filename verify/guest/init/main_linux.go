// Command init is the first process in a guest. It prepares the system for the tests,
// follows the plan in the initramfs, reports on the console and turns the machine off. It
// is of no use anywhere else.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/verify/guest"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this is the first process of a virtual machine; call verify/guest/run")
		os.Exit(2)
	}
	last := guest.Event{Done: true}
	if err := run(); err != nil {
		last = guest.Event{Failed: err.Error()}
	}
	report(last)
	// The kernel panics if its first process ends, so an error can only be printed.
	fmt.Println(unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	select {}
}

// report prints an event on a line, after whatever the line already has.
func report(e guest.Event) { fmt.Println(e) }

func run() error {
	if err := prepare(); err != nil {
		return err
	}
	booted, err := sinceBoot()
	if err != nil {
		return err
	}
	report(guest.Event{Booted: booted})

	text, err := os.ReadFile(filepath.Join("/", guest.PlanFile))
	if err != nil {
		return err
	}
	var plan guest.Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return fmt.Errorf("%s: %w", guest.PlanFile, err)
	}
	if plan.Fixture {
		archive, err := fixture("/")
		if err != nil {
			return err
		}
		report(guest.Event{Fixture: archive})
	}
	for _, suite := range plan.Suites {
		report(guest.Event{Begun: suite.Name})
		report(guest.Event{Ended: test(suite)})
	}
	return nil
}

// prepare mounts the file systems that programs expect.
func prepare() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
		{"tmpfs", "/tmp"},
		{"cgroup2", "/sys/fs/cgroup"},
	} {
		// Kernels mount devtmpfs on /dev themselves only if there is no initramfs.
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("cannot mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	if err := turnOn(); err != nil {
		return err
	}
	return loopback()
}

// turnOn turns on the CPUs that the kernel has left off: see maxcpus in boot/main.go.
func turnOn() error {
	switches, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/online")
	if err != nil {
		return err
	}
	for _, file := range switches {
		if err := os.WriteFile(file, []byte("1"), 0); err != nil {
			return err
		}
	}
	return nil
}

// loopback turns on the network interface with which a machine talks to itself.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("ioctl(SIOCSIFFLAGS)", unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request))
}

func sinceBoot() (*guest.Booted, error) {
	version, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return nil, err
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(uptime), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return &guest.Booted{Kernel: strings.TrimSpace(string(version)), Seconds: seconds}, err
}

// test runs a suite. Its output goes to the console.
func test(s guest.Suite) *guest.Ended {
	c := exec.Command(s.Binary, s.Args...)
	c.Dir = s.Dir
	c.Env = append([]string{"HOME=/tmp", "TMPDIR=/tmp", "PATH=/"}, s.Env...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	start := time.Now()
	end := &guest.Ended{Name: s.Name}
	if err := c.Run(); err != nil {
		end.Error = err.Error()
	}
	end.Seconds = time.Since(start).Seconds()
	return end
}

// fixture packs the files below root that a topology is read from.
func fixture(root string) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, pattern := range guest.FixtureFiles {
		files, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			// Some files exist but cannot be read, such as a cache that the CPU does not have.
			content, err := os.ReadFile(filepath.Join(root, file))
			if errors.Is(err, fs.ErrInvalid) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if err := archive.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(content))}); err != nil {
				return nil, err
			}
			if _, err := archive.Write(content); err != nil {
				return nil, err
			}
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
