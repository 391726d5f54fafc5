// Package child runs parts of a test in processes of their own: parts that need another
// environment or other limits than the test has, and parts that will be stopped or die.
//
// A child process is the test binary once more. In TestMain, Main finds the name of its
// program in the environment.
package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// variable is the environment variable that names the program.
const variable = "HEIST_CHILD"

// durationVariable is the environment variable that says for how long a child should go on.
const durationVariable = "HEIST_DURATION"

// For returns the environment variable that tells a child for how long to go on.
func For(d time.Duration) string { return durationVariable + "=" + d.String() }

// Duration returns for how long the calling child should go on.
func Duration() (time.Duration, error) { return time.ParseDuration(os.Getenv(durationVariable)) }

// Patience is the time after which a child counts as hanging. It must then print the stacks
// of its goroutines.
const Patience = 5 * time.Minute

// Main is the body of TestMain. It runs the tests or, in a child, one of the programs, and does
// not return. A child whose program returns an error prints it and exits with status 1.
func Main(m *testing.M, programs map[string]func() error) {
	name, isChild := os.LookupEnv(variable)
	if !isChild {
		os.Exit(m.Run())
	}
	program, err := programs[name], fmt.Errorf("there is no program %q", name)
	if program != nil {
		err = program()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns a child that has not been started. Its environment is the test's, and env.
func Command(t testing.TB, program string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return CommandOf(t, self, program, env...)
}

// CommandOf is Command for another binary of the same tests.
func CommandOf(t testing.TB, binary, program string, env ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, binary)
	c.Env = append(append(os.Environ(), variable+"="+program), env...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) }
	c.WaitDelay = 10 * time.Second
	return c
}

// Build builds the tests in the caller's folder anew, and returns the binary.
func Build(t testing.TB, env string, flags ...string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "tests")
	c := exec.Command("go", slices.Concat([]string{"test", "-c", "-o", binary}, flags, []string{"."})...)
	c.Env = append(os.Environ(), env)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// Run runs a command to its end, and returns what it printed.
func Run(c *exec.Cmd) (stdout, stderr string, err error) {
	var out, complaints bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaints
	err = c.Run()
	return out.String(), complaints.String(), err
}

// Result runs a command that must succeed, and decodes its result into v.
func Result(t testing.TB, c *exec.Cmd, v any) {
	t.Helper()
	stdout, stderr, err := Run(c)
	require.NoError(t, err, "%s", stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), v), "%q", stdout)
}

// Tell prints a program's result.
func Tell(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }
