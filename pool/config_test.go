package pool

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool/inspect"
)

func setting(t *testing.T, p *Pool, name string) inspect.Setting {
	t.Helper()
	s, ok := p.Config().Setting(name)
	require.True(t, ok, name)
	return s
}

func TestConfigSaysWhatWasAskedWhatWasChosenAndWhy(t *testing.T) {
	p := newPool(t, WithName("thumbs"), WithWorkers(2), WithQueueBound(7), WithCallers(3), WithPinning(PinNone),
		WithTuning(Tuning{MaxWorkers: 5, Spin: -1, PollPeriod: 60, UniformLooks: 0.5, Patience: 4}))
	for _, want := range []inspect.Setting{
		{Name: "WithName", Asked: "thumbs", Chosen: "thumbs"},
		{Name: "WithWorkers", Asked: "2", Chosen: "2"},
		{Name: "Tuning.MaxWorkers", Asked: "5", Chosen: "5"},
		{Name: "WithPinning", Asked: "PinNone", Chosen: "PinNone", Why: "it was asked for"},
		{Name: "WithCPUs", Chosen: "not bound"},
		{Name: "WithQueueBound", Asked: "7", Chosen: "7"},
		{Name: "WithCallers", Asked: "3", Chosen: "3"},
		{Name: "Tuning.Spin", Asked: "-1ns", Chosen: "none"},
		{Name: "Tuning.PollPeriod", Asked: "60", Chosen: "60"},
		{Name: "Tuning.UniformLooks", Asked: "0.5", Chosen: "0.5"},
		{Name: "Tuning.Patience", Asked: "4", Chosen: "4"},
	} {
		require.Equal(t, want, setting(t, p, want.Name))
	}
	require.Len(t, p.Config().Workers, 2)
	require.NoError(t, p.Resize(4))
	require.Equal(t, inspect.Setting{Name: "WithWorkers", Asked: "2", Chosen: "4", Why: "Resize"}, setting(t, p, "WithWorkers"))
	require.Len(t, p.Config().Workers, 4)
	require.Contains(t, p.String(), `pool "thumbs": 4 workers`)
	require.Contains(t, p.Config().String(), "PinNone")
	_, ok := p.Config().Setting("nothing")
	require.False(t, ok)
}

func TestConfigOfTheDefaultsGivesReasons(t *testing.T) {
	p := newPool(t)
	require.Equal(t, "follows GOMAXPROCS", setting(t, p, "WithWorkers").Why)
	require.NotEmpty(t, setting(t, p, "WithPinning").Why)
	require.Equal(t, "10µs", setting(t, p, "Tuning.Spin").Chosen)
	require.Equal(t, "adapts", setting(t, p, "Tuning.PollPeriod").Chosen)
	require.Equal(t, "none", setting(t, p, "WithName").Chosen)
	for _, s := range p.Config().Settings {
		require.NotEmpty(t, s.Chosen, s.Name)
		require.Empty(t, s.Asked, s.Name)
	}
}

func TestConfigSaysToWhichCPUsEachWorkerIsBound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing binds here")
	}
	all := allowed(t)
	p := newPool(t, WithWorkers(2), WithCPUs(all[0]))
	require.Equal(t, inspect.CPUList(all[:1]), setting(t, p, "WithCPUs").Chosen)
	for _, w := range p.Config().Workers {
		require.Equal(t, all[:1], w.CPUs)
	}
}

// fromEnv makes a pool from environment variables, which are given without their prefix.
func fromEnv(t *testing.T, variables map[string]string, options ...Option) (*Pool, error) {
	for name, value := range variables {
		t.Setenv("POOLTEST_"+name, value)
	}
	more, err := OptionsFromEnv("POOLTEST")
	if err != nil {
		return nil, err
	}
	p, err := New(append(options, more...)...)
	if err == nil {
		t.Cleanup(func() { _ = p.Close() })
	}
	return p, err
}

func TestOptionsFromEnvSetWhatTheirNamesSay(t *testing.T) {
	document := filepath.Join(t.TempDir(), "latencies.json")
	require.NoError(t, os.WriteFile(document, []byte(`{"cpus": [0, 1], "ns": [[0, 48], [48, 0]]}`), 0o600))
	p, err := fromEnv(t, map[string]string{
		"NAME": "thumbs", "WORKERS": "3", "PINNING": "none", "QUEUE_BOUND": "9", "CALLERS": "4", "TIMINGS": "true", "SLOW_TASK": "50ms",
		"MAX_WORKERS": "6", "SPIN": "20us", "FREE_PS": "-1", "POLL_PERIOD": "61", "LATENCIES": document, "UNIFORM_LOOKS": "0.25", "PATIENCE": "2",
		"HOT_WORKER": "false", "ISOLATE": "0", "EMPTY": "",
	}, WithWorkers(1), WithTuning(Tuning{HotWorker: true}))
	require.NoError(t, err)
	for name, chosen := range map[string]string{
		"WithName": "thumbs", "WithWorkers": "3", "WithPinning": "PinNone", "WithQueueBound": "9", "WithCallers": "4", "WithTimings": "true",
		"WithSlowTask": "50ms", "Tuning.MaxWorkers": "6", "Tuning.Spin": "20µs", "Tuning.FreePs": "0", "Tuning.PollPeriod": "61",
		"Tuning.UniformLooks": "0.25", "Tuning.Patience": "2", "Tuning.HotWorker": "false", "Tuning.Isolate": "false",
	} {
		s := setting(t, p, name)
		require.Equal(t, chosen, s.Chosen, name)
		require.Contains(t, s.Asked, "(POOLTEST_", name)
	}
	require.Equal(t, "a document (POOLTEST_LATENCIES)", setting(t, p, "Tuning.Latencies").Asked)
}

func TestOptionsFromEnvBindToTheListedCPUs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing binds here")
	}
	list := inspect.CPUList(allowed(t))
	p, err := fromEnv(t, map[string]string{"CPUS": list, "PINNING": "Cores"})
	require.NoError(t, err)
	require.Equal(t, list, setting(t, p, "WithCPUs").Chosen)
}

func TestAWrongVariableIsAnErrorThatNamesIt(t *testing.T) {
	for name, c := range map[string]struct{ value, says string }{
		"WORKERS":       {"many", "it must be a whole number"},
		"MAX_WORKERS":   {"0", "it must be a whole number above 0"},
		"FREE_PS":       {"0", "0 would change nothing"},
		"QUEUE_BOUND":   {"-3", "the bound must be at least 1"},
		"CALLERS":       {"0", "the bound must be at least 1"},
		"PINNING":       {"sockets", "it must be auto, cores, none, l3 or nodes"},
		"CPUS":          {"0-x", `"0-x" is neither a CPU nor a range`},
		"TIMINGS":       {"perhaps", "it must be true or false"},
		"SLOW_TASK":     {"-5ms", "the time must be above 0"},
		"SPIN":          {"20", "it must be a duration"},
		"UNIFORM_LOOKS": {"2", "a probability must be at most 1"},
		"LATENCIES":     {"/nonexistent", "no such file"},
		"PATIENCE":      {"x", "it must be a whole number"},
		"HOT_WORKERS":   {"true", "which is no setting of a pool; there are CALLERS, CPUS"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fromEnv(t, map[string]string{name: c.value})
			require.ErrorContains(t, err, "POOLTEST_"+name)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := OptionsFromEnv("")
	require.ErrorContains(t, err, `the prefix ""`)
	_, err = OptionsFromEnv("POOLTEST_")
	require.ErrorContains(t, err, "before the underscore")
	_, err = fromEnv(t, map[string]string{"MAX_WORKERS": "1"}, WithWorkers(2))
	require.ErrorContains(t, err, "1 (POOLTEST_MAX_WORKERS)")
	_, err = New(WithName(""))
	require.ErrorContains(t, err, "empty name")
	_, err = New(WithSlowTask(0, nil))
	require.ErrorContains(t, err, "above 0")
}

func TestAPoolOfAnEmptyEnvironmentIsTheProgramsOwn(t *testing.T) {
	p, err := fromEnv(t, nil, WithWorkers(1), WithName("own"))
	require.NoError(t, err)
	require.Equal(t, "own", p.Config().Name)
	require.False(t, strings.Contains(p.Config().String(), "POOLTEST"))
}
