package runner_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// scripted is an implementation that returns these values, one per run, and writes its name into the log.
func scripted(log *[]string, name string, values ...float64) runner.Impl {
	return runner.Impl{Name: name, Start: func(runner.Env) (runner.Run, func(), error) {
		*log = append(*log, "start "+name)
		run := func() (runner.Sample, error) {
			*log = append(*log, name)
			v := values[0]
			values = values[1:]
			return runner.Sample{Values: []float64{v}}, nil
		}
		return run, func() { *log = append(*log, "stop "+name) }, nil
	}}
}

func failing(name string, err error) runner.Impl {
	return runner.Impl{Name: name, Start: func(runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) { return runner.Sample{}, err }, nil, nil
	}}
}

func absent(name, reason string) runner.Impl {
	return runner.Impl{Name: name, Start: func(runner.Env) (runner.Run, func(), error) {
		return nil, nil, runner.Missing{Reason: reason}
	}}
}

func measure(t *testing.T, runs int, impls ...runner.Impl) (out runner.Outcome, notes []string, err error) {
	t.Helper()
	c := runner.Case{
		Name:    "race",
		Metrics: []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		Impls:   impls,
	}
	out, err = runner.Measure(runner.Suite{Name: "test"}, c, 2, runner.Options{
		Runs: runs, Time: time.Millisecond, Note: func(line string) { notes = append(notes, line) },
	})
	return out, notes, err
}

func TestImplementationsRunInTurnEachTimeAnew(t *testing.T) {
	var log []string
	out, _, err := measure(t, 2,
		scripted(&log, "heist", 1, 3),
		scripted(&log, "go", 2, 4))
	require.NoError(t, err)
	assert.Equal(t, "start heist,heist,stop heist,start go,go,stop go,start heist,heist,stop heist,start go,go,stop go", strings.Join(log, ","))

	lines := out.Lines()
	require.Len(t, lines, 2)
	assert.Equal(t, contract.Line{
		Suite: "test", Case: "race", Impl: "heist", Workers: 2, Metric: "ns/op",
		Value: 2, Min: 1, Max: 3, Runs: 2, Better: contract.Lower, Peer: false, Samples: []float64{1, 3},
	}, lines[0])
	assert.True(t, lines[1].Peer)
}

func TestRatiosAreOfHeistsBest(t *testing.T) {
	var log []string
	out, notes, err := measure(t, 3,
		scripted(&log, "heist-asm", 8, 80, 9),
		scripted(&log, "heist-go", 5, 50, 6),
		scripted(&log, "mutex", 10, 100, 6))
	require.NoError(t, err)
	assert.Empty(t, notes)
	ratios, _ := out.Ratios()
	assert.Equal(t, []contract.Ratio{{
		Suite: "test", Case: "race", Workers: 2, Metric: "ns/op", RatioTo: "mutex",
		Impl: "heist-go", Ratio: 0.5, Min: 0.5, Max: 1,
	}}, ratios)
}

func TestNoRatioToZero(t *testing.T) {
	var log []string
	out, _, err := measure(t, 1, scripted(&log, "heist", 1), scripted(&log, "go", 0))
	require.NoError(t, err)
	ratios, notes := out.Ratios()
	assert.Empty(t, ratios)
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0], "heist to go in ns/op")
}

func TestPeerThatDoesNotTellTheLastMetric(t *testing.T) {
	of := func(name string, values ...float64) runner.Series {
		return runner.Series{Impl: runner.Impl{Name: name}, Samples: []runner.Sample{{Values: values}}}
	}
	out := runner.Outcome{
		Case:   runner.Case{Metrics: []contract.Metric{{Name: "ns/task", Better: contract.Lower}, {Name: "allocs/task", Better: contract.Lower}}},
		Series: []runner.Series{of("heist", 1, 2), of("go", 2, 4), of("tokio", 4)},
	}
	var told []string
	for _, line := range out.Lines() {
		told = append(told, line.Impl+" "+line.Metric)
	}
	assert.Equal(t, []string{"heist ns/task", "go ns/task", "tokio ns/task", "heist allocs/task", "go allocs/task"}, told)
	ratios, notes := out.Ratios()
	assert.Len(t, ratios, 3)
	assert.Empty(t, notes)
}

func TestWrongAnswerSaysWhoGaveWhat(t *testing.T) {
	var log []string
	out, _, err := measure(t, 1,
		scripted(&log, "heist", 1),
		failing("mutex", runner.Check("fib(35)", 5, 9227465)))
	require.EqualError(t, err, "test/race with 2 workers: mutex gave 5 for fib(35), expected 9227465")
	var wrong runner.Wrong
	require.ErrorAs(t, err, &wrong)
	_, found := out.Find("mutex")
	assert.False(t, found, "figures of a wrong answer are not reported")
	_, found = out.Find("heist")
	assert.True(t, found)
}

func TestMissingIsNoFailure(t *testing.T) {
	var log []string
	out, notes, err := measure(t, 1, scripted(&log, "heist", 1), absent("rayon", "cargo is not installed"))
	require.NoError(t, err)
	assert.Equal(t, []string{"test/race: rayon is left out: cargo is not installed"}, notes)
	assert.Len(t, out.Series, 1)
}

func TestPeersAreChosen(t *testing.T) {
	var log []string
	c := runner.Case{
		Name: "race", Metrics: []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		Impls: []runner.Impl{scripted(&log, "heist", 1), scripted(&log, "go", 1), scripted(&log, "ants", 1)},
	}
	out, err := runner.Measure(runner.Suite{}, c, 1, runner.Options{
		Runs: 1, Peers: func(name string) bool { return name == "ants" },
	})
	require.NoError(t, err)
	require.Len(t, out.Series, 2)
	assert.Equal(t, "heist", out.Series[0].Impl.Name)
	assert.Equal(t, "ants", out.Series[1].Impl.Name)
}

func TestSetupAndProcs(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var log []string
	impl := scripted(&log, "heist", 1)
	c := runner.Case{
		Name: "race", Metrics: []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		Setup: func(env runner.Env) (func(), error) {
			log = append(log, fmt.Sprint("setup with ", runtime.GOMAXPROCS(0)))
			return func() { log = append(log, "teardown") }, nil
		},
		Impls: []runner.Impl{impl},
	}
	_, err := runner.Measure(runner.Suite{}, c, before+3, runner.Options{Runs: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{fmt.Sprint("setup with ", before+3), "start heist", "heist", "stop heist", "teardown"}, log)
	assert.Equal(t, before, runtime.GOMAXPROCS(0))

	c.Setup = func(runner.Env) (func(), error) { return nil, errors.New("no source") }
	_, err = runner.Measure(runner.Suite{Name: "test"}, c, 1, runner.Options{Runs: 1})
	assert.EqualError(t, err, "test/race: no source")
}

func TestBudgetLeavesOneRoundThatCounts(t *testing.T) {
	var log []string
	c := runner.Case{
		Name: "race", Metrics: []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		Impls: []runner.Impl{scripted(&log, "heist", 1), scripted(&log, "go", 1)},
	}
	out, err := runner.Measure(runner.Suite{}, c, 1, runner.Options{Runs: 7, Budget: 1})
	require.NoError(t, err)
	for _, line := range out.Lines() {
		assert.Equal(t, 1, line.Runs)
	}
}

func TestWhatTakesLongTakesNoPartWithABudget(t *testing.T) {
	var log []string
	costly := scripted(&log, "tbb", 4, 4)
	costly.Costly = true
	c := runner.Case{
		Name: "race", Metrics: []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		Impls: []runner.Impl{scripted(&log, "heist", 1, 2), costly},
	}
	var notes []string
	out, err := runner.Measure(runner.Suite{}, c, 1, runner.Options{
		Runs: 1, Budget: time.Millisecond, Note: func(line string) { notes = append(notes, line) },
	})
	require.NoError(t, err)
	assert.Len(t, out.Series, 1)
	assert.Equal(t, []string{"tbb takes long; it takes part in every case if the suite is named"}, notes)

	out, err = runner.Measure(runner.Suite{}, c, 1, runner.Options{Runs: 1})
	require.NoError(t, err)
	assert.Len(t, out.Series, 2, "without a budget everybody takes part")
}

func TestExtraFiguresFollowTheMetric(t *testing.T) {
	rounds := 0.0
	impl := runner.Impl{Name: "heist", Start: func(runner.Env) (runner.Run, func(), error) {
		return func() (runner.Sample, error) {
			rounds++
			return runner.Sample{Values: []float64{5}, Extra: []runner.Extra{{Metric: "steals", Value: rounds}}}, nil
		}, nil, nil
	}}
	var log []string
	out, _, err := measure(t, 3, impl, scripted(&log, "go", 1, 1, 1))
	require.NoError(t, err)
	lines := out.Lines()
	require.Len(t, lines, 3)
	assert.Equal(t, contract.Line{
		Suite: "test", Case: "race", Impl: "heist", Workers: 2, Metric: "steals",
		Value: 2, Min: 1, Max: 3, Runs: 3, Better: contract.Lower, Samples: []float64{1, 2, 3},
	}, lines[2])
}

func TestRepeatCountsReportedTimeOnly(t *testing.T) {
	for _, test := range []struct {
		least time.Duration
		laps  int
		ops   int
	}{
		{25 * time.Microsecond, 4, 300}, // the first to warm up
		{10 * time.Microsecond, 1, 100}, // too long for that
	} {
		laps := 0
		sum, err := runner.Repeat(test.least, func() (runner.Lap, error) {
			laps++
			return runner.Lap{Ops: 100, Took: 10 * time.Microsecond, Mallocs: 1, Detail: fmt.Sprint("lap ", laps)}, nil
		})
		require.NoError(t, err)
		assert.Equal(t, test.laps, laps)
		assert.Equal(t, runner.Lap{Ops: test.ops, Took: time.Duration(test.ops/10) * time.Microsecond,
			Mallocs: uint64(test.ops / 100), Detail: fmt.Sprint("lap ", laps)}, sum)
		assert.Equal(t, 100.0, sum.PerOp())
	}
}

func TestTypicalRunIsTheMedian(t *testing.T) {
	s := runner.Series{Samples: []runner.Sample{
		{Values: []float64{9}, Detail: "slow"},
		{Values: []float64{5}, Detail: "typical"},
		{Values: []float64{1}, Detail: "fast"},
	}}
	assert.Equal(t, "typical", s.Typical().Detail)
}

// The test program plays the child when this variable is set.
const playChild = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(playChild) {
	case "right":
		flags := flag.NewFlagSet("child", flag.ExitOnError)
		suite, name := flags.String("suite", "", ""), flags.String("case", "", "")
		workers := flags.Int("workers", 0, "")
		flags.Duration("time", 0, "")
		_ = flags.Parse(os.Args[1:])
		_ = contract.Encode(os.Stdout, contract.Line{
			Suite: *suite, Case: *name, Impl: "rayon", Workers: *workers, Metric: "ns/op",
			Value: float64(*workers), Runs: 1, Better: contract.Lower, Peer: true,
		})
		_ = contract.Encode(os.Stdout, contract.Line{Metric: runner.PeakMB, Value: 7})
	case "wrong":
		fmt.Fprintln(os.Stderr, "fib(35) is 5, expected 9227465")
		os.Exit(1)
	case "silent":
	default:
		os.Exit(m.Run())
	}
}

func TestChild(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	child := runner.Child("rayon", []contract.Metric{{Name: "ns/op", Better: contract.Lower}},
		func(runner.Env) ([]string, error) { return []string{program}, nil })

	t.Setenv(playChild, "right")
	out, _, err := measure(t, 2, child)
	require.NoError(t, err)
	assert.Equal(t, []float64{2, 2}, out.Series[0].Metric(0))

	t.Setenv(playChild, "wrong")
	_, _, err = measure(t, 2, child)
	assert.EqualError(t, err, "test/race with 2 workers: rayon says: fib(35) is 5, expected 9227465")

	t.Setenv(playChild, "silent")
	_, _, err = measure(t, 2, child)
	assert.EqualError(t, err, "test/race with 2 workers: rayon printed no line for the metric ns/op")

	nowhere := runner.Child("rayon", nil, func(runner.Env) ([]string, error) {
		return nil, runner.Missing{Reason: "cargo is not installed"}
	})
	_, notes, err := measure(t, 1, nowhere)
	require.NoError(t, err)
	assert.Len(t, notes, 1)
}
