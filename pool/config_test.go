package pool

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

func settingOf(t *testing.T, p *Pool, name string) inspect.Setting {
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
		require.Equal(t, want, settingOf(t, p, want.Name))
	}
	require.Len(t, p.Config().Workers, 2)
	require.NoError(t, p.Resize(4))
	require.Equal(t, inspect.Setting{Name: "WithWorkers", Asked: "2", Chosen: "4", Why: "Resize"}, settingOf(t, p, "WithWorkers"))
	require.Len(t, p.Config().Workers, 4)
	require.Contains(t, p.String(), `pool "thumbs": 4 workers`)
	require.Contains(t, p.Config().String(), "PinNone")
	_, ok := p.Config().Setting("nothing")
	require.False(t, ok)
}

// configured returns the settings of a pool of four workers that is not started.
func configured(t *testing.T, options ...Option) map[string]inspect.Setting {
	t.Helper()
	c, err := configure(append([]Option{WithWorkers(4)}, options...))
	require.NoError(t, err)
	settings := make(map[string]inspect.Setting)
	for _, s := range makePool(c).Config().Settings {
		settings[s.Name] = s
	}
	return settings
}

// TestEachOptionChangesItsOwnSettingAndNoOther, except those that follow from it, and a later Tuning changes nothing
// that it does not give.
func TestEachOptionChangesItsOwnSettingAndNoOther(t *testing.T) {
	onMachine(t, pretended(2, 4))
	document := func() Option {
		return WithTuning(Tuning{Latencies: strings.NewReader(`{"cpus": [0, 1], "ns": [[0, 48], [48, 0]]}`)})
	}
	before := configured(t, WithPinning(PinNone))
	for _, c := range []struct {
		option              Option
		name, asked, chosen string
		follow              []string
	}{
		{WithName("thumbs"), "WithName", "thumbs", "thumbs", nil},
		{WithWorkers(3), "WithWorkers", "3", "3", []string{"Tuning.MaxWorkers"}},
		{WithQueueBound(7), "WithQueueBound", "7", "7", nil},
		{WithCallers(3), "WithCallers", "3", "3", nil},
		{WithTimings(), "WithTimings", "true", "true", nil},
		{WithSlowTask(1500*time.Nanosecond, nil), "WithSlowTask", "1.5µs", "1.5µs", nil},
		{WithPanicHandler(func(*PanicError) {}), "WithPanicHandler", "given", "given", nil},
		{WithHooks(func(*Worker) {}, nil), "WithHooks", "given", "given", nil},
		{WithHooks(nil, func(*Worker) {}), "WithHooks", "given", "given", nil},
		{WithTuning(Tuning{MaxWorkers: 70}), "Tuning.MaxWorkers", "70", "70", nil},
		{WithTuning(Tuning{HotWorker: true}), "Tuning.HotWorker", "true", "true", nil},
		{WithTuning(Tuning{Spin: 7 * time.Microsecond}), "Tuning.Spin", "7µs", "7µs", nil},
		{WithTuning(Tuning{Spin: -1}), "Tuning.Spin", "-1ns", "none", nil},
		{WithTuning(Tuning{FreePs: 2}), "Tuning.FreePs", "2", "2", nil},
		{WithTuning(Tuning{PollPeriod: 9}), "Tuning.PollPeriod", "9", "9", nil},
		{WithTuning(Tuning{UniformLooks: 0.5}), "Tuning.UniformLooks", "0.5", "0.5", nil},
		{WithTuning(Tuning{Patience: 3}), "Tuning.Patience", "3", "3", nil},
	} {
		none := WithPinning(PinNone)
		for _, options := range [][]Option{{none, c.option}, {none, c.option, WithTuning(Tuning{})}} {
			after := configured(t, options...)
			require.Equal(t, c.asked, after[c.name].Asked, c.name)
			require.Equal(t, c.chosen, after[c.name].Chosen, c.name)
			for name := range before {
				if s := after[name]; name != c.name && s != before[name] {
					require.Contains(t, c.follow, name, "%s changes %v", c.name, s)
				}
			}
		}
	}
	for name, option := range map[string]Option{"WithCPUs": WithCPUs(3, 1), "Tuning.Isolate": WithTuning(Tuning{Isolate: true}), "WithPinning": WithPinning(PinL3)} {
		after := configured(t, option, WithTuning(Tuning{}))
		require.NotEmpty(t, after[name].Asked, name)
		require.NotEqual(t, before["WithCPUs"].Chosen, after["WithCPUs"].Chosen, name)
		require.Equal(t, name == "Tuning.Isolate", after["Tuning.Isolate"].Chosen == "true", name)
	}
	measured := configured(t, WithPinning(PinCores), document(), WithTuning(Tuning{Patience: 1}))["Tuning.Latencies"]
	require.Equal(t, inspect.Setting{Name: "Tuning.Latencies", Asked: "given", Chosen: "same core, up to 60 ns, not measured", Why: "measured"}, measured)
	require.Equal(t, "0", configured(t, WithTuning(Tuning{FreePs: 2}), WithTuning(Tuning{FreePs: -1}))["Tuning.FreePs"].Chosen)
}

// TestWhatIsChosenWithoutAnOptionSaysWhy, and only then.
func TestWhatIsChosenWithoutAnOptionSaysWhy(t *testing.T) {
	onMachine(t, pretended(1, 4))
	for procs, free := range map[int]string{4: "1", 5: "0"} {
		setPs(t, procs)
		require.Equal(t, free, configured(t, WithCPUs(0, 1))["Tuning.FreePs"].Chosen, "as many bound workers as Ps")
	}
	setPs(t, 4)
	bound := configured(t, WithCPUs(3, 1))
	require.Contains(t, bound["Tuning.FreePs"].Why, "bound workers do not give way")
	require.Empty(t, configured(t, WithCPUs(3, 1), WithTuning(Tuning{FreePs: 1}))["Tuning.FreePs"].Why)
	require.Equal(t, "0", configured(t)["Tuning.FreePs"].Chosen, "workers that are not bound give way")
	require.Contains(t, configured(t)["Tuning.UniformLooks"].Why, "equally far")
	require.Empty(t, configured(t, WithTuning(Tuning{UniformLooks: 1}))["Tuning.UniformLooks"].Why)
	require.Equal(t, "4", bound["GOMAXPROCS"].Chosen)
	require.Equal(t, "0-3", bound["allowed CPUs"].Chosen)
	for _, c := range []struct {
		options            []Option
		workers, most, why string
	}{
		{nil, "4", "4", "follows GOMAXPROCS"},
		{[]Option{WithTuning(Tuning{MaxWorkers: 9})}, "4", "9", "follows GOMAXPROCS"},
		{[]Option{WithTuning(Tuning{HotWorker: true})}, "3", "4", "follows GOMAXPROCS, less one for the rest of the process beside Tuning.HotWorker"},
		{[]Option{WithTuning(Tuning{HotWorker: true}), WithWorkers(4)}, "4", "4", ""},
		{[]Option{WithCPUs(0, 1, 3)}, "3", "4", "as many as CPUs"},
		{[]Option{WithCPUs(0, 1, 3), WithWorkers(2)}, "2", "4", ""},
		{[]Option{WithWorkers(6)}, "6", "6", ""},
	} {
		made, err := configure(c.options)
		require.NoError(t, err)
		p := makePool(made)
		require.Equal(t, c.why, settingOf(t, p, "WithWorkers").Why)
		require.Equal(t, c.workers, settingOf(t, p, "WithWorkers").Chosen)
		require.Equal(t, c.most, settingOf(t, p, "Tuning.MaxWorkers").Chosen)
	}
	onMachine(t, pretended(1, 8)) // more CPUs than Ps: the workers may follow up to these
	require.Equal(t, "4", configured(t)["Tuning.MaxWorkers"].Chosen)
	made, err := configure(nil)
	require.NoError(t, err)
	require.True(t, made.follows)
	require.Equal(t, [2]int{4, 8}, [2]int{made.workers, made.maxWorkers})
}

// TestWorkersGetTheirCPUsInTheOrderGiven, and start over.
func TestWorkersGetTheirCPUsInTheOrderGiven(t *testing.T) {
	onMachine(t, pretended(2, 4))
	c, err := configure([]Option{WithCPUs(5, 0, 3), WithWorkers(5)})
	require.NoError(t, err)
	var got []int
	for _, seat := range makePool(c).Config().Workers {
		require.Len(t, seat.CPUs, 1)
		require.Equal(t, seat.CPUs[0]%2*10, seat.Node)
		require.Equal(t, len(got), seat.Worker)
		got = append(got, seat.CPUs[0])
	}
	require.Equal(t, []int{5, 0, 3, 5, 0}, got)
}

// TestWhatAPoolReportsIsTheCallersOwn: to change it does not change the pool.
func TestWhatAPoolReportsIsTheCallersOwn(t *testing.T) {
	onMachine(t, pretended(2, 2))
	c, err := configure([]Option{WithCPUs(0, 1, 2, 3)})
	require.NoError(t, err)
	p := makePool(c)
	p.slow.last = []inspect.Slow{{Task: "slow"}}
	config, nodes, slow := p.Config(), p.Nodes(), p.Snapshot().Slow
	for _, w := range config.Workers {
		w.CPUs[0] = 100
	}
	nodes[0], slow[0].Task = 100, "changed"
	require.Equal(t, []int{0}, p.Config().Workers[0].CPUs)
	require.Equal(t, []int{0, 10}, p.Nodes())
	require.Equal(t, "slow", p.Snapshot().Slow[0].Task)
}

func TestConfigOfTheDefaultsGivesReasons(t *testing.T) {
	p := newPool(t)
	require.Equal(t, "follows GOMAXPROCS", settingOf(t, p, "WithWorkers").Why)
	require.NotEmpty(t, settingOf(t, p, "WithPinning").Why)
	require.Equal(t, "10µs", settingOf(t, p, "Tuning.Spin").Chosen)
	require.Equal(t, "adapts", settingOf(t, p, "Tuning.PollPeriod").Chosen)
	require.Equal(t, "none", settingOf(t, p, "WithName").Chosen)
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
	require.Equal(t, inspect.CPUList(all[:1]), settingOf(t, p, "WithCPUs").Chosen)
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
	topology := filepath.Join(t.TempDir(), "topology.json")
	require.NoError(t, os.WriteFile(topology, twoNodes(t, allowed(t)), 0o600))
	p, err := fromEnv(t, map[string]string{
		"NAME": "thumbs", "WORKERS": "3", "PINNING": "none", "QUEUE_BOUND": "9", "CALLERS": "4", "TIMINGS": "true", "SLOW_TASK": "50ms",
		"MAX_WORKERS": "6", "SPIN": "20us", "FREE_PS": "-1", "POLL_PERIOD": "61", "LATENCIES": document, "TOPOLOGY": topology, "UNIFORM_LOOKS": "0.25", "PATIENCE": "2",
		"HOT_WORKER": "false", "ISOLATE": "0", "EMPTY": "",
	}, WithWorkers(1), WithTuning(Tuning{HotWorker: true}))
	require.NoError(t, err)
	for name, chosen := range map[string]string{
		"WithName": "thumbs", "WithWorkers": "3", "WithPinning": "PinNone", "WithQueueBound": "9", "WithCallers": "4", "WithTimings": "true",
		"WithSlowTask": "50ms", "Tuning.MaxWorkers": "6", "Tuning.Spin": "20µs", "Tuning.FreePs": "0", "Tuning.PollPeriod": "61",
		"Tuning.UniformLooks": "0.25", "Tuning.Patience": "2", "Tuning.HotWorker": "false", "Tuning.Isolate": "false",
	} {
		s := settingOf(t, p, name)
		require.Equal(t, chosen, s.Chosen, name)
		require.Contains(t, s.Asked, "(POOLTEST_", name)
	}
	require.Equal(t, "given (POOLTEST_LATENCIES)", settingOf(t, p, "Tuning.Latencies").Asked)
	require.Equal(t, []int{5, 7}[:min(2, len(allowed(t)))], p.Nodes())
}

// TestTheEnvironmentNamesWhatItHasSet, in each of its forms, and the program's later options are its own again.
func TestTheEnvironmentNamesWhatItHasSet(t *testing.T) {
	onMachine(t, pretended(2, 4))
	for _, c := range []struct{ variable, value, name, chosen string }{
		{"PINNING", "none", "WithPinning", "PinNone"},
		{"PINNING", "cores", "WithPinning", "PinCores"},
		{"PINNING", "L3", "WithPinning", "PinL3"},
		{"PINNING", "Nodes", "WithPinning", "PinNodes"},
		{"CPUS", "0-2,5", "WithCPUs", "0-2,5"},
		{"HOT_WORKER", "true", "Tuning.HotWorker", "true"},
		{"ISOLATE", "1", "Tuning.Isolate", "true"},
		{"TIMINGS", "0", "WithTimings", "false"},
		{"SPIN", "-1ns", "Tuning.Spin", "none"},
		{"UNIFORM_LOOKS", "-1", "Tuning.UniformLooks", "0"},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			t.Setenv("POOLTEST_"+c.variable, c.value)
			t.Setenv("POOLTEST_PATIENCE", "") // counts as none
			t.Setenv("POOLTESTS_WORKERS", "x")
			environment, err := OptionsFromEnv("POOLTEST")
			require.NoError(t, err)
			options := append([]Option{WithTimings()}, environment...)
			got := configured(t, append(options, WithQueueBound(5))...)
			require.Equal(t, c.chosen, got[c.name].Chosen)
			require.Contains(t, got[c.name].Asked, "(POOLTEST_"+c.variable+")")
			delete(got, c.name)
			for s := range maps.Values(got) {
				require.NotContains(t, s.Asked, "POOLTEST", s.Name)
			}
			require.Equal(t, "5", got["WithQueueBound"].Asked)
		})
	}
}

func TestOptionsFromEnvBindToTheListedCPUs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing binds here")
	}
	list := inspect.CPUList(allowed(t))
	p, err := fromEnv(t, map[string]string{"CPUS": list, "PINNING": "Cores"})
	require.NoError(t, err)
	require.Equal(t, list, settingOf(t, p, "WithCPUs").Chosen)
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
		"TOPOLOGY":      {"/nonexistent", "no such file"},
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
	p, err := fromEnv(t, map[string]string{"NO_SETTING": "", "WORKERS": ""}, WithWorkers(1), WithName("own"))
	require.NoError(t, err)
	require.Equal(t, "own", p.Config().Name)
	require.False(t, strings.Contains(p.Config().String(), "POOLTEST"))
}

// twoNodes returns a topology of the CPUs in JSON that has each other one on node 5 and the others on node 7. One CPU has another one
// beside it, which need not exist.
func twoNodes(t *testing.T, cpus []int) []byte {
	t.Helper()
	if len(cpus) == 1 {
		cpus = append(cpus, cpus[0]+1)
	}
	made := numa.Topology{Online: cpus, Complete: cpus, Allowed: cpus, Nodes: []numa.Node{{ID: 5, Distances: []int{10, 21}}, {ID: 7, Distances: []int{21, 10}}}}
	for i, cpu := range cpus {
		made.Nodes[i%2].CPUs = append(made.Nodes[i%2].CPUs, cpu)
		made.CPUs = append(made.CPUs, numa.CPU{ID: cpu, Node: i % 2, Package: -1, Die: -1, Cluster: -1, Core: -1, L2: -1, L3: -1})
	}
	text, err := json.Marshal(&made)
	require.NoError(t, err)
	return text
}
