package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed53057037/heist/verify/overlay"
)

// verdict is the result of a package's tests.
type verdict struct {
	outcome outcome
	detail  string // the test that failed, or why the mutant does not compile
}

type outcome string

const (
	caught     outcome = "caught"
	timedOut   outcome = "caught: time-out"
	survived   outcome = "survived"
	uncompiled outcome = "does not compile"
)

// test runs the tests against the mutant, which it writes to a directory.
func (m mutant) test(ctx context.Context, dir string, timeout time.Duration) (verdict, error) {
	changed, name := filepath.Join(dir, filepath.Base(m.file.path)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, m.source(), 0o666); err != nil {
		return verdict{}, err
	}
	if err := overlay.Write(name, map[string]string{m.file.path: changed}); err != nil {
		return verdict{}, err
	}
	return m.file.pkg.test(ctx, timeout, "-overlay", name)
}

// pass checks that the tests of a package pass without a mutant. Otherwise it would say nothing
// that they fail with one.
func (p *goPackage) pass(ctx context.Context, timeout time.Duration) error {
	v, err := p.test(ctx, timeout)
	if err != nil {
		return err
	}
	switch v.outcome {
	case caught:
		return fmt.Errorf("the tests of %s fail without a mutant: %s", p.ImportPath, v.detail)
	case timedOut:
		return fmt.Errorf("the tests of %s do not end within %v without a mutant", p.ImportPath, timeout)
	case uncompiled:
		return fmt.Errorf("%s does not compile without a mutant: %s", p.ImportPath, v.detail)
	}
	return nil
}

// event is a line of `go test -json` (go doc test2json).
type event struct{ Action, Test, Output, FailedBuild string }

// test runs the package's short tests.
func (p *goPackage) test(ctx context.Context, timeout time.Duration, flags ...string) (verdict, error) {
	// Vet would reject mutants that compile, and cached results would hide mutants that are
	// caught only sometimes.
	args := append([]string{"test", "-json", "-short", "-failfast", "-vet=off", "-count=1", "-timeout", timeout.String()}, flags...)
	c := exec.CommandContext(ctx, "go", append(args, ".")...)
	c.Dir = p.Dir
	var complaints bytes.Buffer
	c.Stderr = &complaints
	c.WaitDelay = 10 * time.Second
	confine(c)
	events, err := c.StdoutPipe()
	if err != nil {
		return verdict{}, err
	}
	if err := c.Start(); err != nil {
		return verdict{}, fmt.Errorf("the tests of %s could not be started: %w", p.ImportPath, err)
	}
	defer killGroup(c) // for processes that tests started and did not wait for
	if err := limitMemory(c); err != nil {
		return verdict{}, errors.Join(err, c.Process.Kill(), c.Wait())
	}
	// Most runs that hang do so in one test, long before the time for all tests is over.
	stalled := false
	var mu sync.Mutex
	stall := max(timeout/stallShare, leastStall)
	watch := time.AfterFunc(max(timeout, leastStall), func() { // with the time for building
		mu.Lock()
		defer mu.Unlock()
		stalled = true
		killGroup(c)
	})
	v, failed, err := read(events, func() { watch.Reset(stall) })
	watch.Stop()
	if err != nil {
		return verdict{}, errors.Join(err, c.Process.Kill(), c.Wait())
	}
	ended := c.Wait()
	mu.Lock()
	defer mu.Unlock()
	switch {
	case stalled && ended != nil:
		v.outcome = timedOut
		return v, nil
	case ended == nil:
		return verdict{outcome: survived}, nil
	case !failed:
		return verdict{}, fmt.Errorf("the tests of %s did not run: %w: %s", p.ImportPath, ended, strings.TrimSpace(complaints.String()))
	}
	return v, nil
}

// stallShare is the part of the time-out, one in so many, that may pass without the begin or the end
// of a test, but no less than leastStall.
const (
	stallShare = 4
	leastStall = 20 * time.Second
)

// read makes a verdict of a run's events, and says whether the run failed. It calls progress when
// a test has begun or ended.
func read(events io.Reader, progress func()) (v verdict, failed bool, err error) {
	v.outcome = caught
	var compiler, begun string
	for decoder := json.NewDecoder(events); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return v, failed, fmt.Errorf("go test -json: %w", err)
		}
		switch e.Action {
		case "build-output":
			if compiler == "" && !strings.HasPrefix(e.Output, "#") { // a line with # names the package
				compiler = strings.TrimSpace(e.Output)
			}
		case "output":
			// The second is the go command's message, a minute later, about a process
			// that could not end itself.
			if strings.HasPrefix(e.Output, "panic: test timed out after ") || strings.HasPrefix(e.Output, "*** Test killed") {
				v.outcome = timedOut
			}
		case "run":
			begun = e.Test
			progress()
		case "pass", "skip":
			progress()
		case "fail":
			failed = true
			if v.detail == "" { // a subtest fails before its test
				v.detail = e.Test
			}
			if e.FailedBuild != "" {
				v = verdict{uncompiled, compiler}
			}
		}
	}
	if v.detail == "" { // no test failed: the process ended in the middle of one
		v.detail = begun
	}
	return v, failed, nil
}
