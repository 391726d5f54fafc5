package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed53057037/heist/verify/guest"
)

// follower reads the console of a machine.
type follower struct {
	machine guest.Machine
	out     io.Writer // gets the output for people
	booted  func()    // is called when the first process begins

	running string   // the suite that has begun and not ended
	failed  []string // suites that failed
	broken  error    // an error of init itself
	done    bool
	fixture []byte
}

// follow reads the console to its end. An error says that the console could not be understood.
func (f *follower) follow(console io.Reader) error {
	lines := bufio.NewReader(console)
	var broken []error
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			before, event, err := guest.ParseEvent(strings.TrimRight(line, "\r\n"))
			if before != "" || event == nil {
				fmt.Fprintln(f.out, before)
			}
			if err != nil {
				broken = append(broken, err)
			}
			if event != nil {
				f.take(event)
			}
		}
		if errors.Is(err, io.EOF) {
			return errors.Join(broken...)
		}
		if err != nil {
			return errors.Join(append(broken, err)...)
		}
	}
}

// take notes an event.
func (f *follower) take(e *guest.Event) {
	say := func(format string, args ...any) {
		fmt.Fprintf(f.out, "== %s: %s\n", f.machine.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case e.Booted != nil:
		f.booted()
		say("booted Linux %s (%.1f s)", e.Booted.Kernel, e.Booted.Seconds)
	case e.Begun != "":
		f.running = e.Begun
		say("%s", e.Begun)
	case e.Ended != nil && e.Ended.Error != "":
		f.running = ""
		f.failed = append(f.failed, e.Ended.Name)
		say("FAILED %s: %s (%.1f s)", e.Ended.Name, e.Ended.Error, e.Ended.Seconds)
	case e.Ended != nil:
		f.running = ""
		say("passed %s (%.1f s)", e.Ended.Name, e.Ended.Seconds)
	case e.Fixture != nil:
		f.fixture = e.Fixture
	case e.Failed != "":
		f.broken = errors.New(e.Failed)
	case e.Done:
		f.done = true
	}
}

// verdict returns the failures of a machine that was followed to its end.
func (f *follower) verdict() error {
	var errs []error
	if len(f.failed) > 0 {
		errs = append(errs, fmt.Errorf("the tests of %s failed", strings.Join(f.failed, ", ")))
	}
	switch {
	case f.broken != nil:
		errs = append(errs, fmt.Errorf("init: %w", f.broken))
	case f.running != "":
		errs = append(errs, fmt.Errorf("the machine stopped during the tests of %s; the kernel may have said why", f.running))
	case !f.done:
		errs = append(errs, errors.New("the machine stopped before its tests were over; the kernel may have said why"))
	}
	return errors.Join(errs...)
}
