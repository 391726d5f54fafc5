package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/runner"
)

// shared is an implementation whose time the workers divide among them, up to the given number of them.
func shared(name string, value float64, most int) runner.Impl {
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) {
			return runner.Sample{Values: []float64{value / float64(min(env.Workers, most))}, Extra: []runner.Extra{{Metric: "steals", Value: 12}}}, nil
		}, nil, nil
	}}
}

func TestScaleDoublesTheWorkersUpToAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scaling.md")
	toy := suiteOf(shared("heist", 120, 4), steady("heist-other", 1, 41), steady("serial", 90, 42), shared("go", 240, 2), steady("rayon", 1, 41))
	out := runCommand(toy, "scale", "-workers=6", "-runs=2", "-time=1ms", "-out", file, "toy")
	require.Equal(t, exitOK, out.status, out.stderr)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, row := range [][]string{
		{"workers", "ns/op", "speed-up", "efficiency", "steals/worker", "x serial", "x go"},
		{"1", "120", "1.00", "100%", "12.0", "0.750", "2.00"},
		{"2", "60.0", "2.00", "100%", "6.00", "1.50", "2.00"},
		{"4", "30.0", "4.00", "100%", "3.00", "3.00", "4.00"},
		{"6", "30.0", "4.00", "66.7%", "2.00", "3.00", "4.00"},
	} {
		require.Regexp(t, `(?m)^ +`+strings.Join(row, " +")+`$`, out.stdout)
		require.Contains(t, string(written), "\n| "+strings.Join(row, " | ")+" |\n")
	}
	require.Contains(t, string(written), "# How heist scales\n")
	require.Contains(t, string(written), "| runs | 2 of at least 1ms |")
	require.Contains(t, string(written), "node 0: CPUs")
}

func TestScaleMeasuresOnlyWithWorkersThatTheCaseHas(t *testing.T) {
	toy := suiteOf(steady("heist", 10, 42))
	toy[0].Cases[0].Metrics[0].Name = "p50-us"
	toy[0].Cases[0].Workers = func(asked int) []int { return []int{max(2, asked)} }
	out := runCommand(toy, "scale", "-workers=4", "-runs=1", "-time=1ms", "toy/one")
	require.Equal(t, exitOK, out.status, out.stderr)
	require.Regexp(t, `workers +p50-us\n─+\n +2 +10\.0\n +4 +10\.0\n`, out.stdout, "no speed-up of a percentile")
}

func TestScaleOfItsOwnCases(t *testing.T) {
	out := runCommand(all(), "scale", "-workers=2", "-runs=1", "-time=1ms")
	require.Equal(t, exitOK, out.status, out.stderr)
	for _, name := range scaleCases {
		require.Contains(t, out.stdout, "\n"+name+": ")
	}
	require.Contains(t, out.stdout, "x goroutine")
	require.NotContains(t, out.stdout, "rayon")
}

func TestScaleRefusesWrongCommandLines(t *testing.T) {
	for _, test := range []struct{ args, says string }{
		{"scale two", `"two"`}, {"scale toy/two", `"two"`}, {"scale toy -runs 0", "-runs is 0"}, {"scale toy -time 0s", "-time is 0s"},
		{"scale toy -workers 0", "-workers is 0"}, {"scale toy -json", "-json is for"}, {"toy -out x", "-out is for bench scale"},
		{"scale toy -fast", "the flags are -out, -runs, -time, -workers"},
	} {
		out := runCommand(suiteOf(steady("heist", 10, 42)), strings.Fields(test.args)...)
		require.Equal(t, exitUsage, out.status, test.args)
		require.Contains(t, out.stderr, test.says)
		require.Equal(t, 1, strings.Count(out.stderr, "\n"))
	}
	out := runCommand(suiteOf(steady("heist", 10, 42)), "scale", "toy", "-out", filepath.Join(t.TempDir(), "none", "x"))
	require.Equal(t, exitFailed, out.status)
	require.Contains(t, out.stderr, "-out: ")
	require.NotContains(t, out.stdout, "toy/one", "before the measuring")
	require.Contains(t, runCommand(nil, "scale", "-h").stdout, "(default 100ms)")
}

func TestScaleFailsWithAWrongAnswer(t *testing.T) {
	out := runCommand(suiteOf(steady("heist", 10, 42), steady("serial", 10, 41)), "scale", "-workers=1", "-runs=1", "-time=1ms", "toy")
	require.Equal(t, exitFailed, out.status)
	require.Contains(t, out.stderr, "serial gave 41 for the answer, expected 42")
	require.Regexp(t, `1 +10\.0 +1\.00 +100%`, out.stdout)
}
