package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/child"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/internal/suites"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/numa"

	// Of the programs in package child, so that the go command has compiled them before the tests, which are limited in time, build those.
	_ "github.com/alitto/pond/v2"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/panjf2000/ants/v2"
	_ "github.com/sourcegraph/conc/pool"
)

// The test program plays the servers of the suite service.
func TestMain(m *testing.M) {
	if suites.ServeIfAsked() {
		return
	}
	status := m.Run()
	programs.Remove()
	os.Exit(status)
}

// programs are those that the tests need, built once.
var programs child.Programs

// output is what a run of the command left behind.
type output struct {
	status         int
	stdout, stderr string
}

func runCommand(known []runner.Suite, args ...string) output {
	var stdout, stderr bytes.Buffer
	c := command{suites: known, stdout: &stdout, stderr: &stderr, tiny: true, programs: &programs}
	status := c.run(args)
	return output{status, stdout.String(), stderr.String()}
}

// steady is an implementation that always gives the same value and answer.
func steady(name string, value float64, answer int) runner.Impl {
	return runner.Impl{Name: name, Start: func(runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) {
			return runner.Sample{Values: []float64{value}}, runner.Check("the answer", answer, 42)
		}, nil, nil
	}}
}

func suiteOf(impls ...runner.Impl) []runner.Suite {
	return []runner.Suite{{Name: "toy", Cases: []runner.Case{{
		Name: "one", About: "a toy",
		Metrics: []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		Workers: func(asked int) []int { return []int{asked} },
		Impls:   impls,
	}}}}
}

func TestJSONPrintsTheContractsLinesAndNothingElse(t *testing.T) {
	noted := steady("go", 20, 42)
	noted.Note = "is a toy"
	out := runCommand(suiteOf(steady("heist", 10, 42), noted), "-json", "-workers", "3", "-runs=2", "-time=1ms", "toy")
	assert.Equal(t, exitOK, out.status)
	assert.Equal(t, `{"suite":"toy","case":"one","impl":"heist","workers":3,"metric":"ns/op","value":10,"min":10,"max":10,"runs":2,"better":"lower","peer":false,"samples":[10,10]}
{"suite":"toy","case":"one","impl":"go","workers":3,"metric":"ns/op","value":20,"min":20,"max":20,"runs":2,"better":"lower","peer":true,"samples":[20,20]}
{"suite":"toy","case":"one","workers":3,"metric":"ns/op","ratio_to":"go","impl":"heist","ratio":0.5,"ratio_min":0.5,"ratio_max":0.5}
`, out.stdout)
	assert.Equal(t, "bench: toy/one: go: is a toy\n", out.stderr)
}

func TestTable(t *testing.T) {
	noted := steady("go", 20, 42)
	noted.Note = "is a toy"
	out := runCommand(suiteOf(steady("heist", 10, 42), steady("serial", 15, 42), noted), "-runs", "1", "-workers", "2")
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "toy/one: a toy")
	assert.Regexp(t, `2 +ns/op +heist +10\.0 +10\.0 +10\.0 +best +1\.50x`, out.stdout)
	assert.Regexp(t, `2 +ns/op +go \* +20\.0 +20\.0 +20\.0 +0\.500 +0\.750x`, out.stdout)
	assert.Contains(t, out.stdout, " * go is a toy")
	assert.Regexp(t, `^.+, \d+ CPUs, .+, go1`, out.stdout)
}

func TestWrongAnswerExitsNonZero(t *testing.T) {
	for _, args := range [][]string{{"-json"}, {}} {
		out := runCommand(suiteOf(steady("heist", 10, 42), steady("go", 20, 41)), append(args, "-runs=1", "-workers=1")...)
		assert.Equal(t, exitFailed, out.status)
		assert.Equal(t, "bench: toy/one with 1 worker: go gave 41 for the answer, expected 42\n", out.stderr)
		assert.NotRegexp(t, `\b20\b`, out.stdout, "what was wrong has no figures")
		assert.Contains(t, out.stdout, "10", "what was right has")
	}
}

func TestUsageErrorsAreOneLineThatSaysWhatWouldBeRight(t *testing.T) {
	for _, test := range []struct {
		args string
		says []string
	}{
		{"dequeue", []string{`"dequeue"`, "deque, primitives, forkjoin, loop, algos, graph, submit"}},
		{"deque list", []string{`"list"`}},
		{"forkjoin/fib36", []string{`"fib36"`, "suite forkjoin", "fib35"}},
		{"fork/fib35", []string{`"fork"`, "forkjoin"}},
		{"list nothing", []string{`"nothing"`, "deque"}},
		{"-peers rayon,nobody", []string{"no peer", "ants", "mutex"}},
		{"-peers=", []string{`""`, "ants"}},
		{"-runs 0", []string{"-runs is 0", "at least 1"}},
		{"-runs many", []string{`"many"`, "-runs"}},
		{"-workers -3", []string{"-workers is -3", "from 1"}},
		{"-workers 0", []string{"-workers is 0", "from 1"}},
		{"-workers 1000000", []string{"-workers is 1000000", "4096"}},
		{"-time 0s", []string{"-time is 0s", "50ms"}},
		{"-time soon", []string{`"soon"`, "-time"}},
		{"-topology /nonexistent", []string{"-topology", "no such file"}},
		{"-fast", []string{"-fast", "-docs, -html, -json, -peers, -runs, -time, -topology, -workers"}},
		{"deque -runs -1", []string{"-runs is -1"}},
		{"list -json", []string{"-json"}},
		{"deque -svg x", []string{"-svg is for bench topo and bench c2c", "-docs, -html, -json, -peers, -runs, -time, -topology, -workers"}},
		{"c2c deque -matrix x", []string{"-matrix is for bench c2c"}},
		{"list -root x", []string{"-root is for bench topo"}},
		{"topo -workers 2", []string{"-workers is for bench [NAME...] and bench c2c", "-json, -root, -svg"}},
		{"topo -fast", []string{"-fast", "the flags are -json, -root, -svg"}},
		{"topo deque", []string{`"deque"`, "-json, -root, -svg"}},
		{"deque topo", []string{`"topo"`}},
		{"c2c -root x", []string{"-root is for bench topo", "-cpus"}},
		{"c2c -cpus 0-x", []string{"-cpus", `"0-x"`}},
		{"c2c -cpus 65535", []string{"-cpus", "CPU 65535 is not there"}},
		{"c2c -runs 0", []string{"-runs is 0"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			out := runCommand(all(), strings.Fields(test.args)...)
			assert.Equal(t, exitUsage, out.status)
			assert.Empty(t, out.stdout)
			assert.Equal(t, 1, strings.Count(out.stderr, "\n"), out.stderr)
			for _, part := range test.says {
				assert.Contains(t, out.stderr, part)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"parse", "--json", "deque", "-runs", "4", "parse"}, all(), nil)
	require.NoError(t, err)
	assert.True(t, o.json, "two dashes, after a suite")
	assert.Equal(t, 4, o.runs)
	assert.Equal(t, fullTime, o.time)
	assert.Equal(t, []string{"deque", "parse"}, suiteNames(o.suites))

	o, err = parseOptions([]string{"-peers", "go,ants"}, all(), nil)
	require.NoError(t, err)
	assert.Equal(t, shortRuns, o.runs)
	assert.Equal(t, shortTime, o.time)
	assert.Len(t, o.suites, len(all()))
	assert.True(t, o.wantsPeer("ants"))
	assert.False(t, o.wantsPeer("conc"))

	o, err = parseOptions([]string{"-runs=1"}, all(), nil)
	require.NoError(t, err)
	assert.Equal(t, 1, o.runs)
	assert.Equal(t, shortBudget, o.budget, "a run of everything is a glance")

	o, err = parseOptions([]string{"parse", "forkjoin/skynet", "forkjoin/fib35"}, all(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"forkjoin", "parse"}, suiteNames(o.suites))
	assert.Equal(t, []string{"fib35", "skynet"}, caseNames(o.suites[0]))

	o, err = parseOptions([]string{"-peers=none"}, all(), nil)
	require.NoError(t, err)
	assert.False(t, o.wantsPeer("go"))
}

func TestHelp(t *testing.T) {
	out := runCommand(all(), "-h")
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "forkjoin")
	assert.Contains(t, out.stdout, "-workers")
	assert.Empty(t, out.stderr)
}

func TestHelpOfACommand(t *testing.T) {
	out := runCommand(all(), "topo", "-h")
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "-root folder")
	assert.NotContains(t, out.stdout, "-workers")

	out = runCommand(all(), "c2c", "-runs", "3", "--help")
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "-matrix file")
	assert.Contains(t, out.stdout, `"ns"`)
	assert.NotContains(t, out.stdout, "-root")
}

func TestTopoDrawsThisMachineAndOthers(t *testing.T) {
	const server = "../numa/testdata/2n4c"
	out := runCommand(all(), "topo")
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "node 0")

	picture := filepath.Join(t.TempDir(), "server.svg")
	out = runCommand(all(), "topo", "-root", server, "-svg", picture)
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Contains(t, out.stdout, "package 1 > node 1, 16.0 GiB > L3 1: [2 6] [3 7]")
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	assert.Contains(t, string(drawn), `id="cpu7"`)

	out = runCommand(all(), "-json", "topo", "-root", server)
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Equal(t, 1, strings.Count(out.stdout, "\n"))
	topology, err := numa.ReadRoot(server)
	require.NoError(t, err)
	want, err := json.Marshal(topology)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), out.stdout)
}

func TestTopoOfNoMachineIsAnErrorNotThisMachine(t *testing.T) {
	for _, root := range []string{t.TempDir(), "", "/nowhere"} {
		out := runCommand(all(), "topo", "-root", root)
		assert.Equal(t, exitFailed, out.status)
		assert.Empty(t, out.stdout)
		assert.Contains(t, out.stderr, "-root has no machine's CPUs")
	}
}

func TestTopoTellsWhatIsAGuess(t *testing.T) {
	root := t.TempDir()
	cpus := filepath.Join(root, "sys/devices/system/cpu")
	require.NoError(t, os.MkdirAll(cpus, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(cpus, "online"), []byte("0-1"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(cpus, "present"), []byte("0-x"), 0o666))
	out := runCommand(all(), "topo", "-root", root)
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "node 0: 0 1")
	assert.Contains(t, out.stderr, "is a guess")
	assert.Contains(t, out.stderr, `"0-x"`)
}

func TestFileThatCannotBeWritten(t *testing.T) {
	out := runCommand(all(), "topo", "-svg", filepath.Join(t.TempDir(), "no", "such"))
	assert.Equal(t, exitFailed, out.status)
	assert.Contains(t, out.stderr, "such")
}

// needTwoCPUs skips the test where there is nothing to measure between.
func needTwoCPUs(t *testing.T) {
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	if len(allowed) < 2 {
		t.Skip("it takes two CPUs")
	}
	pin, err := heist.Pin(allowed[0])
	if errors.Is(err, heist.ErrPinning) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NoError(t, pin.Unpin())
}

func TestC2CPrintsLinesAndThenTheMatrix(t *testing.T) {
	needTwoCPUs(t)
	file := filepath.Join(t.TempDir(), "matrix.json")
	out := runCommand(all(), "-json", "c2c", "-runs=2", "-time=1ms", "-matrix", file)
	require.Equal(t, exitOK, out.status, out.stderr)
	lines := strings.SplitAfter(strings.TrimSuffix(out.stdout, "\n"), "\n")
	require.GreaterOrEqual(t, len(lines), 2)
	var l contract.Line
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &l))
	assert.Equal(t, "c2c", l.Suite)
	assert.Equal(t, 2, l.Runs)

	written, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(string(written)), lines[len(lines)-1])
	var matrix struct {
		CPUs []int
		NS   [][]float64
	}
	require.NoError(t, json.Unmarshal(written, &matrix))
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	assert.Equal(t, allowed, matrix.CPUs)
	for i, row := range matrix.NS {
		require.Len(t, row, len(allowed))
		for j, way := range row {
			assert.Equal(t, i != j, way > 0)
			assert.Equal(t, matrix.NS[j][i], way)
		}
	}
}

func TestC2CAsATable(t *testing.T) {
	needTwoCPUs(t)
	picture := filepath.Join(t.TempDir(), "c2c.svg")
	out := runCommand(all(), "c2c", "-runs=1", "-time=1ms", "-svg", picture)
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Contains(t, out.stdout, "the farthest pair")
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	assert.Contains(t, string(drawn), "CPU to CPU")
}

func TestC2COfOneCPUHasNothingToMeasure(t *testing.T) {
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	one := strconv.Itoa(allowed[0])
	out := runCommand(all(), "c2c", "-cpus", one)
	assert.Equal(t, exitOK, out.status)
	assert.Contains(t, out.stdout, "nothing to measure: CPU "+one+" is alone")
	out = runCommand(all(), "c2c", "-json", "-cpus", one)
	assert.Equal(t, exitOK, out.status)
	assert.Equal(t, `{"cpus":[`+one+`],"ns":[[0]]}`+"\n", out.stdout)
	assert.Contains(t, out.stderr, "nothing to measure")
}

func TestCaseThatIsLeftOutHasNoTable(t *testing.T) {
	missing := runner.Impl{Name: "heist", Start: func(runner.Env) (runner.Run, func(), error) {
		return nil, nil, runner.Missing{Reason: "it is not here"}
	}}
	out := runCommand(suiteOf(missing), "toy")
	assert.Equal(t, exitOK, out.status)
	assert.NotContains(t, out.stdout, "a toy")
	assert.Equal(t, "bench: toy/one: heist is left out: it is not here\n", out.stderr)
}

func TestList(t *testing.T) {
	out := runCommand(all(), "list")
	assert.Equal(t, exitOK, out.status)
	for _, name := range []string{"deque", "steal-contended", "heist-asm", "fib35", "external-4", "pond", "go-source", "same-core", "remote"} {
		assert.Contains(t, out.stdout, name)
	}
	out = runCommand(all(), "list", "parse")
	assert.Contains(t, out.stdout, "go-source")
	assert.NotContains(t, out.stdout, "fib35")
}

// TestEverySuite runs everything as small as it gets, and reads what it prints.
func TestEverySuite(t *testing.T) {
	known := all()
	counts := []string{"1", "2"}
	if testutil.Short() {
		counts = counts[1:]
	}
	for _, workers := range counts {
		// By their names, so that nothing is left out.
		out := runCommand(known, append(suiteNames(known), "-json", "-runs=1", "-time=1ms", "-workers="+workers)...)
		require.Equal(t, exitOK, out.status, out.stderr)

		measured := make(map[string]int) // lines and ratios per suite/case/impl
		for text := range strings.Lines(out.stdout) {
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.DisallowUnknownFields()
			if strings.Contains(text, `"ratio_to"`) {
				var r contract.Ratio
				require.NoError(t, decoder.Decode(&r), text)
				measured[r.Suite+"/"+r.Case+"/"+r.RatioTo]++
				continue
			}
			var l contract.Line
			require.NoError(t, decoder.Decode(&l), text)
			assert.LessOrEqual(t, l.Min, l.Value)
			assert.LessOrEqual(t, l.Value, l.Max)
			measured[l.Suite+"/"+l.Case+"/"+l.Impl]++
		}
		for _, suite := range known {
			for _, c := range suite.Cases {
				for _, impl := range c.Impls {
					name := suite.Name + "/" + c.Name + "/" + impl.Name
					if strings.Contains(out.stderr, suite.Name+"/"+c.Name+": "+impl.Name+" is left out") {
						assert.Zero(t, measured[name], name)
					} else {
						assert.NotZero(t, measured[name], name)
					}
				}
			}
		}
	}
}

func TestPeakOfMemoryStandsBesideTheTime(t *testing.T) {
	if f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0); err != nil {
		t.Skip("the system has no high-water mark that can be reset:", err)
	} else {
		require.NoError(t, f.Close())
	}
	for _, what := range []string{"forkjoin", "submit/external-1", "submit/external-4", "submit/spawn-inside"} {
		out := runCommand(all(), what, "-json", "-runs=2", "-time=1ms", "-workers=2", "-peers=go,serial,ants")
		require.Equal(t, exitOK, out.status, out.stderr)
		measured, peaks := map[string]bool{}, map[string]bool{}
		for text := range strings.Lines(out.stdout) {
			var l contract.Line
			require.NoError(t, json.Unmarshal([]byte(text), &l))
			if strings.Contains(text, "ratio_to") {
				continue
			}
			key := fmt.Sprint(l.Case, " ", l.Impl, " ", l.Workers)
			measured[key] = true
			if l.Metric == runner.PeakMB {
				peaks[key] = true
				assert.Greater(t, l.Min, 1.0, text)
			}
		}
		assert.NotEmpty(t, peaks, what)
		assert.Equal(t, measured, peaks, what)
	}
}

func TestEverySuiteAsTables(t *testing.T) {
	what := []string{"-runs=2", "-time=1ms", "-workers=2", "-peers=serial,static"}
	names := suiteNames(all())
	if testutil.Short() {
		names = []string{"balance", "parse"}
	}
	out := runCommand(all(), append(what, names...)...)
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Contains(t, out.stdout, "parse/go-source")
	assert.Contains(t, out.stdout, "Worker 1: [")
	assert.NotContains(t, out.stdout, "ants")
}

func TestSimComparesWithUniformVictims(t *testing.T) {
	out := runCommand(all(), "sim", "-machine=4n8c", "-load", "uts-t3,service-90", "-seed=7", "-seeds=2")
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Regexp(t, `uts-t3 +uniform`, out.stdout)
	assert.Regexp(t, `tiers-last +[\d.]+ \([\d.]+ to [\d.]+\)`, out.stdout)
	assert.NotContains(t, out.stdout, "forkjoin")

	out = runCommand(all(), "sim", "-machine=4n8c", "-load=uts-t3", "-json")
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Contains(t, out.stdout, `{"suite":"sim","case":"uts-t3-4n8c","impl":"tiers-last","workers":8,"metric":"makespan-ms",`)
	assert.Contains(t, out.stdout, `"metric":"remote-steals","ratio_to":"uniform","impl":"tiers-last",`)

	out = runCommand(all(), "sim", "-machine=4n8c", "-load=uts-t3", "-sweep")
	require.Equal(t, exitOK, out.status, out.stderr)
	assert.Regexp(t, `Best: tiers-last, uniform .*, patience \d\.`, out.stdout)
}

func TestSimRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, test := range []struct {
		args string
		says []string
	}{
		{"sim -machine 9n9c", []string{"-machine", `"9n9c"`, "8n512c"}},
		{"sim -load uts", []string{"-load", `"uts"`, "uts-t1"}},
		{"sim -seeds 0", []string{"-seeds is 0", "from 1"}},
		{"sim -seed -1", []string{`"-1"`, "-seed"}},
		{"sim uts-t1", []string{`"uts-t1"`, "-load"}},
		{"sim -runs 2", []string{"-runs", "-machine"}},
		{"deque -sweep", []string{"-sweep", "bench sim"}},
	} {
		out := runCommand(all(), strings.Fields(test.args)...)
		assert.Equal(t, exitUsage, out.status, test.args)
		assert.Empty(t, out.stdout)
		for _, part := range test.says {
			assert.Contains(t, out.stderr, part, test.args)
		}
	}
	out := runCommand(all(), "sim", "-root", t.TempDir())
	assert.Equal(t, exitFailed, out.status)
	assert.Contains(t, out.stderr, "-root has no machine's CPUs")
	assert.Contains(t, runCommand(all(), "sim", "-h").stdout, "8s1024c")
}

// TestNamedCasesAreCases: a name that is none would be measured at a glance again.
func TestNamedCasesAreCases(t *testing.T) {
	var names []string
	for _, s := range all() {
		for _, c := range s.Cases {
			names = append(names, s.Name+"/"+c.Name)
		}
	}
	assert.Subset(t, names, named)
}
