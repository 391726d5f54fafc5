package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// lineOf is a line of the contract with these samples.
func lineOf(t *testing.T, impl string, better contract.Better, samples ...float64) string {
	t.Helper()
	var b strings.Builder
	l := contract.Line{Suite: "toy", Case: "one", Impl: impl, Workers: 2, Metric: "figure", Better: better, Peer: impl == "go"}
	require.NoError(t, contract.Encode(&b, l.Over(samples)))
	return b.String()
}

// compareTexts runs the command on files with these lines.
func compareTexts(t *testing.T, older, newer string, flags ...string) output {
	t.Helper()
	args := append([]string{"compare"}, flags...)
	folder := t.TempDir()
	for _, file := range []struct{ name, text string }{{"old", older}, {"new", newer}} {
		path := filepath.Join(folder, file.name)
		require.NoError(t, os.WriteFile(path, []byte(file.text), 0o666))
		args = append(args, path)
	}
	return runCommand(nil, args...)
}

var (
	slow  = []float64{22, 22.2, 22.4, 23, 23.2, 23.4, 24}
	quick = []float64{12, 12.2, 12.4, 13, 13.2, 13.4, 14}
)

func TestCompareFindsWhatGotWorse(t *testing.T) {
	out := compareTexts(t, lineOf(t, "heist", contract.Lower, quick...), lineOf(t, "heist", contract.Lower, slow...))
	require.Equal(t, exitWorse, out.status, out.stderr)
	require.Regexp(t, `toy/one +heist +2 +figure +13\.0 .* 23\.0 .* \+76\.9% +0\.001`, out.stdout)
	require.Contains(t, out.stdout, "\nworse: 1\n")
	require.Contains(t, out.stdout, "\nbetter: 0\n")

	out = compareTexts(t, lineOf(t, "heist", contract.Higher, slow...), lineOf(t, "heist", contract.Higher, quick...))
	require.Equal(t, exitWorse, out.status, "a rate that falls is worse")
}

func TestCompareFindsWhatGotBetter(t *testing.T) {
	out := compareTexts(t, lineOf(t, "heist", contract.Lower, slow...), lineOf(t, "heist", contract.Lower, quick...))
	require.Equal(t, exitOK, out.status, out.stderr)
	require.Contains(t, out.stdout, "\nworse: 0\n")
	require.Contains(t, out.stdout, "\nbetter: 1\n")
	require.Contains(t, out.stdout, "-43.5%")
}

func TestCompareTakesNoiseForNoise(t *testing.T) {
	for _, newer := range [][]float64{
		{13.2, 12.1, 13.9, 12.3, 14, 13, 12.6},            // the same spread
		{12, 12.2, 12.4, 13, 50, 60, 70},                  // some are disturbed
		{20, 25, 30, 35, 40, 50, 60},                      // all are
		{14.1, 14.2, 14.4, 14.6, 14.9, 15.2, 15.4},        // it takes a little longer all the time
		{12.1, 12.3, 12.5, 13.1, 13.3, 13.5, 14.1, 13.05}, // a little
	} {
		out := compareTexts(t, lineOf(t, "heist", contract.Lower, quick...), lineOf(t, "heist", contract.Lower, newer...))
		require.Equal(t, exitOK, out.status, out.stdout)
		require.Regexp(t, ` ~ +[01]\.\d\d\d`, out.stdout)
	}
}

// fileOf has a line for each series, of cases called 0, 1, ...
func fileOf(t *testing.T, series ...[]float64) string {
	t.Helper()
	var b strings.Builder
	for i, samples := range series {
		l := contract.Line{Suite: "toy", Case: fmt.Sprint(i), Impl: "heist", Workers: 2, Metric: "figure", Better: contract.Lower}
		require.NoError(t, contract.Encode(&b, l.Over(samples)))
	}
	return b.String()
}

// around returns samples that are spread evenly over a share of the median.
func around(median, share float64) []float64 {
	samples := make([]float64, 7)
	for i := range samples {
		samples[i] = median * (1 + share*float64(i-3)/6)
	}
	return samples
}

func TestCompareFindsAChangeOfAFifthWhereTheSpreadIsLittle(t *testing.T) {
	older := fileOf(t, around(100, 0.05), around(50, 0.08), around(7, 0.3))
	newer := fileOf(t, around(120, 0.05), around(50, 0.08), around(7, 0.3))
	out := compareTexts(t, older, newer)
	require.Equal(t, exitWorse, out.status, out.stdout)
	require.Contains(t, out.stdout, "+20.0%")
	require.Contains(t, out.stdout, "\nworse: 1\n")
	out = compareTexts(t, newer, older)
	require.Equal(t, exitOK, out.status)
	require.Contains(t, out.stdout, "\nbetter: 1\n")
}

// Other load meets two thirds of the series of each file, not the same ones.
func TestCompareFindsNothingInTwoRunsOfOneProgram(t *testing.T) {
	const series = 100
	file := func(random *rand.Rand) string {
		from := random.IntN(series / 3) // from here on there is other load, for most of the file
		to := from + series*2/3
		all := make([][]float64, series)
		for i := range all {
			for range 7 {
				sample := float64(1+i) * (1 + 0.05*random.Float64())
				if i >= from && i < to {
					sample *= 1 + random.ExpFloat64()
				}
				all[i] = append(all[i], sample)
			}
		}
		return fileOf(t, all...)
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		out := compareTexts(t, file(random), file(random))
		require.Equal(t, exitOK, out.status, "seed %d\n%s", seed, out.stdout)
		require.Contains(t, out.stdout, "\nbetter: 0\n", "seed %d", seed)
		require.Contains(t, out.stdout, "hides small changes")
	}
}

func TestCompareOfANoisyMachine(t *testing.T) {
	noisy, changed := [][]float64{around(5, 0.6), around(6, 0.7)}, around(120, 0.05)
	older, newer := fileOf(t, append(noisy, around(100, 0.05))...), fileOf(t, append(noisy, changed)...)
	require.Equal(t, exitOK, compareTexts(t, older, newer).status, "all of one run may have been slow")
	require.Equal(t, exitWorse, compareTexts(t, older+older, newer+newer).status, "not all of several runs")
	allocations := fileOf(t, append(noisy, around(1, 0.01))...)
	require.Equal(t, exitWorse, compareTexts(t, allocations, fileOf(t, append(noisy, around(1.2, 0.01))...)).status, "counts do not depend on load")
}

func TestCompareHasAThreshold(t *testing.T) {
	older := lineOf(t, "heist", contract.Lower, 100, 100.1, 100.2, 100.3, 100.4)
	newer := lineOf(t, "heist", contract.Lower, 101, 101.1, 101.2, 101.3, 101.4)
	require.Equal(t, exitOK, compareTexts(t, older, newer).status, "one percent is noise unless told otherwise")
	require.Equal(t, exitWorse, compareTexts(t, older, newer, "-worse", "0.5%").status)
	require.Equal(t, exitOK, compareTexts(t, older, newer, "-worse=0", "-alpha=0.001").status)
}

func TestCompareCountsPeersOnlyAsFarAsToShowThem(t *testing.T) {
	older := lineOf(t, "go", contract.Lower, quick...) + lineOf(t, "heist", contract.Lower, quick...)
	newer := lineOf(t, "go", contract.Lower, slow...) + lineOf(t, "heist", contract.Lower, quick...)
	out := compareTexts(t, older, newer)
	require.Equal(t, exitOK, out.status)
	require.NotContains(t, out.stdout, "go ")
	out = compareTexts(t, older, newer, "-peers", "go")
	require.Equal(t, exitOK, out.status)
	require.Regexp(t, `go \(peer\) .*\+76\.9%`, out.stdout)
	out = compareTexts(t, older, newer, "-peers", "ants")
	require.Equal(t, exitUsage, out.status)
	require.Contains(t, out.stderr, `"ants"`)
}

func TestCompareListsWhatOneFileLacks(t *testing.T) {
	both := lineOf(t, "heist", contract.Lower, quick...)
	out := compareTexts(t, both+lineOf(t, "heist-old", contract.Lower, 1), both+lineOf(t, "heist-new", contract.Lower, 1))
	require.Equal(t, exitOK, out.status)
	require.Contains(t, out.stdout, "only in the old file: 1\n toy/one heist-old, workers: 2, figure\n")
	require.Contains(t, out.stdout, "only in the new file: 1\n toy/one heist-new, workers: 2, figure\n")
}

func TestCompareJoinsRunsOfAFileAndLinesWithoutSamples(t *testing.T) {
	old := func(samples []float64) (lines string) {
		for _, v := range samples {
			lines += fmt.Sprintf(`{"suite":"toy","case":"one","impl":"heist","workers":2,"metric":"figure","value":%v,"min":1,"max":99,"runs":7,"better":"lower","peer":false}`+"\n", v)
		}
		return lines
	}
	out := compareTexts(t, old(quick[:1]), lineOf(t, "heist", contract.Lower, 99))
	require.Equal(t, exitOK, out.status)
	require.Contains(t, out.stdout, "Too few samples in 1 of 1 rows, whatever the change: need >= 4 samples")

	ratio := `{"suite":"toy","case":"one","workers":2,"metric":"figure","ratio_to":"go","impl":"heist","ratio":1,"ratio_min":1,"ratio_max":1}` + "\n"
	out = compareTexts(t, old(quick)+ratio, lineOf(t, "heist", contract.Lower, slow[:3]...)+"\n"+lineOf(t, "heist", contract.Lower, slow[3:]...))
	require.Equal(t, exitWorse, out.status)
	require.NotContains(t, out.stdout, "Too few")
	require.Contains(t, out.stdout, "+76.9%")
}

func TestCompareSaysWhereAFileIsWrong(t *testing.T) {
	good := lineOf(t, "heist", contract.Lower, quick...)
	for _, test := range []struct{ text, says string }{
		{good + "worse\n", "new, line 2: no line of bench -json: invalid character"},
		{good + "\n[1]\n", "new, line 3: no line of bench -json"},
		{`{"suite":"toy"}`, "new, line 1: no line of bench -json: its case is not given"},
		{strings.Replace(good, "lower", "left", 1), "its better is not given, or unknown"},
		{good + strings.Replace(good, "lower", "higher", 1), "better is higher here and lower before"},
		{"\n", "new: there are no lines of bench -json"},
	} {
		out := compareTexts(t, good, test.text)
		require.Equal(t, exitFailed, out.status, test.text)
		require.Contains(t, out.stderr, test.says)
		require.Empty(t, out.stdout)
	}
	out := runCommand(nil, "compare", filepath.Join(t.TempDir(), "none"), "x")
	require.Equal(t, exitFailed, out.status)
	require.Contains(t, out.stderr, "none: no such file")
}

func TestCompareRefusesWrongCommandLines(t *testing.T) {
	for _, test := range []struct{ args, says string }{
		{"compare", "two files"}, {"compare a", "not 1"}, {"compare a b c", "not 3"},
		{"compare a b -alpha 0", "-alpha is 0"}, {"compare a b -worse much", "percentage"}, {"compare a b -worse -1", "percentage"},
		{"compare a b -runs 3", "-runs is for"}, {"-worse 2% toy", "-worse is for bench compare"},
	} {
		out := runCommand(suiteOf(), strings.Fields(test.args)...)
		require.Equal(t, exitUsage, out.status, test.args)
		require.Contains(t, out.stderr, test.says)
		require.Equal(t, 1, strings.Count(out.stderr, "\n"))
	}
	require.Contains(t, runCommand(nil, "compare", "-h").stdout, `(default "none")`)
}
