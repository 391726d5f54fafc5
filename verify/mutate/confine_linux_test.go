package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tested runs the test of a module with no mutant.
func tested(t *testing.T, test string) verdict {
	t.Helper()
	dir := module(t, map[string]string{"x.go": "package tiny\n", "x_test.go": test})
	packages, err := load(context.Background(), dir, []string{"."})
	require.NoError(t, err)
	v, err := packages[0].test(context.Background(), time.Minute)
	require.NoError(t, err)
	return v
}

func TestAMutantDoesNotTakeAllMemory(t *testing.T) {
	const test = `package tiny

import "testing"

var all []byte

func TestMemory(t *testing.T) { all = make([]byte, %d) }
`
	require.Equal(t, survived, tested(t, fmt.Sprintf(test, 1<<20)).outcome)
	require.Equal(t, caught, tested(t, fmt.Sprintf(test, memory)).outcome)
}

func TestNoProcessOutlivesItsMutant(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pid")
	v := tested(t, fmt.Sprintf(`package tiny

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

func TestStart(t *testing.T) {
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(%q, []byte(strconv.Itoa(c.Process.Pid)), 0o666); err != nil {
		t.Fatal(err)
	}
}
`, name))
	require.Equal(t, survived, v.outcome)
	pid, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", pid)) // empty if the process has ended but was not waited for
		return !strings.Contains(string(command), "sleep")
	}, 10*time.Second, 10*time.Millisecond)
}
