package peers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// metrics are those of the cases that the programs do, with spaces between.
var metrics = map[string]string{
	"deque/push-pop": "ns/op", "deque/steal": "ns/steal", "deque/steal-contended": "ns/item",

	"primitives/fork": "ns/fork", "primitives/join": "ns/join", "primitives/fork-join": "ns/fork",
	"primitives/claim": "ns/steal", "primitives/start": "p50-us p99-us", "primitives/wake": "p50-us p99-us call-us",

	"forkjoin/fib35": "ns/fork", "forkjoin/nqueens12": "ms", "forkjoin/uts-t1": "ns/node", "forkjoin/uts-t3": "ns/node",
	"forkjoin/skynet": "ns/leaf", "forkjoin/mergesort": "ns/elem", "forkjoin/matmul": "ms",

	"loop/outside-1024-asleep": "us", "loop/outside-1024-hot": "us", "loop/large": "us", "loop/triangular": "ms", "loop/nbody": "us",

	"algos/sort-1m": "ns/elem", "algos/sort-stable-1m": "ns/elem", "algos/sortfunc-1m": "ns/elem", "algos/scan": "ns/elem",
	"algos/sort-int64-random": "ns/elem", "algos/sort-int64-killer": "ns/elem", "algos/sort-float64": "ns/elem",
	"algos/sort-string": "ns/elem", "algos/sort-pair-organ-pipe": "ns/elem", "algos/sort-pair-stable-few": "ns/elem",
	"algos/filter": "ns/elem", "algos/reduce": "ns/elem", "algos/map": "ns/elem",

	"latency/start-asleep": "p50-us p99-us p999-us cpu-us", "latency/start-hot": "p50-us p99-us p999-us cpu-us",
	"latency/gap-200us": "p50-us p99-us p999-us cpu-us", "latency/gap-1ms": "p50-us p99-us p999-us cpu-us",
	"latency/gap-5ms": "p50-us p99-us p999-us cpu-us", "latency/burst-5": "p50-us p99-us p999-us cpu-us",
	"latency/burst-10": "p50-us p99-us p999-us cpu-us",

	"submit/external-1": "ns/task", "submit/external-4": "ns/task", "submit/spawn-inside": "ns/task",
}

// lacks says what a library has no equivalent of.
func lacks(peer, name string) bool {
	suite, _, _ := strings.Cut(name, "/")
	if suite == "deque" || suite == "primitives" {
		return peer != "rayon" && peer != "crossbeam"
	}
	tasks := suite == "submit" || suite == "latency"
	switch peer {
	case "rayon", "crossbeam": // which is the same program
		return name == "algos/scan"
	case "tbb":
		return tasks || strings.HasPrefix(name, "algos/sort-") && name != "algos/sort-1m" || name == "algos/filter" || name == "loop/nbody"
	case "tokio":
		return !tasks
	}
	return suite != "forkjoin"
}

// TestEveryCase runs the real programs, which check their answers.
func TestEveryCase(t *testing.T) {
	if os.Getenv(InTests) == "" {
		t.Skip("compiles the peers in other languages only if " + InTests + " is set")
	}
	for _, peer := range []func([]contract.Metric) runner.Impl{Rayon, Crossbeam, Tokio, TBB, ForkJoinPool} {
		for name, units := range metrics {
			var metrics []contract.Metric
			for unit := range strings.FieldsSeq(units) {
				metrics = append(metrics, contract.Metric{Name: unit, Better: contract.Lower})
			}
			impl := peer(metrics)
			suite, benchCase, _ := strings.Cut(name, "/")
			t.Run(impl.Name+"/"+name, func(t *testing.T) {
				for _, workers := range []int{1, 3} {
					if workers == 1 && (name == "primitives/claim" || name == "primitives/start") {
						continue // there is no thief
					}
					run, _, err := impl.Start(runner.Env{
						Suite: suite, Case: benchCase, Workers: workers, Time: 1500 * time.Microsecond,
					})
					var missing runner.Missing
					if errors.As(err, &missing) {
						t.Skip(missing.Reason)
					}
					require.NoError(t, err)
					sample, err := run()
					if lacks(impl.Name, name) {
						require.ErrorContains(t, err, "there is no ")
						return
					}
					require.NoError(t, err)
					require.Len(t, sample.Values, len(metrics))
					for _, value := range sample.Values {
						assert.Positive(t, value)
					}
					if runtime.GOOS == "linux" {
						assert.Greater(t, sample.Peak, 1.0)
					}
				}
			})
		}
	}
}

func TestNothingIsCompiledInTests(t *testing.T) {
	t.Setenv(InTests, "")
	_, _, err := Rayon(nil).Start(runner.Env{Tiny: true})
	assert.Equal(t, runner.Missing{Reason: "tests run it only if HEIST_PEERS is set"}, err)
}

// toy is a program in a language that every Unix has.
func toy(t *testing.T, build string) *program {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	return &program{name: "tbb", tools: []string{"sh"}, build: [][]string{{"sh", "-c", build}}}
}

func TestProgramIsCompiledOnce(t *testing.T) {
	p := toy(t, "test -f main.cpp && echo compiled >>toy")
	dir, err := p.ready()
	require.NoError(t, err)
	assert.True(t, filepath.IsAbs(dir))

	again := &program{name: p.name, tools: p.tools, build: p.build}
	same, err := again.ready()
	require.NoError(t, err)
	assert.Equal(t, dir, same)
	text, err := os.ReadFile(filepath.Join(dir, "toy"))
	require.NoError(t, err)
	assert.Equal(t, "compiled\n", string(text))

	// Another command that has just compiled the same is no error, and nothing is
	// left of either's work.
	require.NoError(t, again.compile(dir))
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestProgramThatIsNotToBeHad(t *testing.T) {
	_, err := toy(t, "echo note; echo main.cpp:1: fatal error: no tbb.h >&2; exit 1").ready()
	assert.Equal(t, runner.Missing{
		Reason: "sh failed: main.cpp:1: fatal error: no tbb.h; bench/peers/install installs what it needs"}, err)

	p := &program{name: "tbb", tools: []string{"no-such-compiler"}}
	_, err = p.ready()
	assert.Equal(t, runner.Missing{
		Reason: "no-such-compiler is not installed; bench/peers/install installs what it needs"}, err)
}
