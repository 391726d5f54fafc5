package child_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// The test program plays the child when this variable is set.
const playChild = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(playChild) != "" {
		child.Main([]runner.Suite{toy})
	}
	os.Exit(m.Run())
}

// runs counts the runs of this process.
var runs float64

// toy has implementations whose only figure is what their process is.
var toy = runner.Suite{Name: "toy", Cases: runner.InBothStates([]runner.Case{{
	Name: "one", Metrics: []contract.Metric{{Name: "pid", Better: contract.Lower}, {Name: "runs", Better: contract.Lower}},
	Workers: func(asked int) []int { return []int{asked} },
	Impls: []runner.Impl{
		{Name: "heist", Start: starting(nil)},
		{Name: "go", Start: starting(nil)},
		{Name: "wrong", Start: starting(runner.Check("the answer", 41, 42))},
		{Name: "absent", Start: func(runner.Env) (runner.Run, func(), error) {
			return nil, nil, runner.Missing{Reason: "it is not here"}
		}},
	},
}})}

func starting(err error) func(runner.Env) (runner.Run, func(), error) {
	return func(runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) {
			runs++
			return runner.Sample{Values: []float64{float64(os.Getpid()), runs}}, err
		}, nil, nil
	}
}

func TestEachImplementationHasAProcessOfItsOwn(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(child.ProgramsIn, t.TempDir())
	require.NoError(t, os.Symlink(self, child.Path("plain")))
	t.Setenv(playChild, "yes")
	var programs child.Programs
	var notes []string
	note := func(line string) { notes = append(notes, line) }
	out, err := runner.Measure(toy, toy.Cases[0], 1, runner.Options{Runs: 2, Note: note,
		Isolate: func(i runner.Impl, env runner.Env) (runner.Run, func(), error) { return programs.Start(i, env, note) }})
	assert.EqualError(t, err, "toy/one with 1 worker: wrong gave 41 for the answer, expected 42")
	assert.Equal(t, []string{"toy/one: absent is left out: it is not here"}, notes)
	require.Len(t, out.Series, 2)
	pids := map[float64]bool{float64(os.Getpid()): true}
	for _, s := range out.Series {
		assert.Equal(t, []float64{1, 2}, s.Metric(1), "one process for all runs")
		assert.False(t, pids[s.Metric(0)[0]])
		pids[s.Metric(0)[0]] = true
	}
}

// What package ants or a server of NATS starts when it is linked changes how goroutines start.
func TestAProgramLinksOneLibraryAtMost(t *testing.T) {
	libraries := map[string]string{
		"ants": "github.com/panjf2000/ants/v2", "pond": "github.com/alitto/pond/v2", "conc": "github.com/sourcegraph/conc/pool",
		"jobs": "github.com/nats-io/nats.go", "nats": "github.com/nats-io/nats-server/v2/server",
	}
	folders, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	assert.Len(t, folders, len(libraries)+1, "and plain")
	for _, file := range folders {
		program := filepath.Dir(file)
		out, err := exec.Command("go", "list", "-deps", "./"+program).CombinedOutput()
		require.NoError(t, err, string(out))
		deps := strings.Fields(string(out))
		for name, path := range libraries {
			if name == program {
				assert.True(t, slices.Contains(deps, path), "%s links %s", program, path)
			} else {
				assert.False(t, slices.Contains(deps, path), "%s links %s", program, path)
			}
		}
	}
}
