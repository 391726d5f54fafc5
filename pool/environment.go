package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed53057037/heist/numa"
)

// OptionsFromEnv returns the options that the environment asks for, so that users of a program can tune its pool
// without rebuilding it. Give them to [New] after the program's own options, which they overrule. With the prefix
// HEIST it reads these variables, which have the names of the options:
//
//	HEIST_NAME           thumbs
//	HEIST_WORKERS        4
//	HEIST_PINNING        auto, cores, none, l3 or nodes
//	HEIST_CPUS           0-3,8
//	HEIST_QUEUE_BOUND    1000
//	HEIST_CALLERS        8
//	HEIST_TIMINGS        true
//	HEIST_SLOW_TASK      50ms; reports go to the standard logger
//	HEIST_MAX_WORKERS, HEIST_HOT_WORKER, HEIST_ISOLATE, HEIST_SPIN, HEIST_FREE_PS, HEIST_POLL_PERIOD, HEIST_LATENCIES (a file),
//	HEIST_TOPOLOGY (a file, in JSON), HEIST_UNIFORM_LOOKS, HEIST_PATIENCE    the fields of Tuning
//
// A variable with an empty value counts as none, whatever its name. A malformed value is an error, and so is a value of
// a variable whose name begins with the prefix and an underscore but is not in this list. For a value that is out of
// range New returns the error.
func OptionsFromEnv(prefix string) ([]Option, error) {
	if prefix == "" || strings.HasSuffix(prefix, "_") {
		return nil, fmt.Errorf("pool: OptionsFromEnv was given the prefix %q; it is what stands before the underscore, such as HEIST for HEIST_WORKERS", prefix)
	}
	var options []Option
	for _, entry := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(entry, "=")
		variable, ours := strings.CutPrefix(name, prefix+"_")
		if !ours || value == "" {
			continue
		}
		i := slices.IndexFunc(settings, func(s setting) bool { return s.variable == variable })
		if i < 0 || variable == "" {
			return nil, fmt.Errorf("pool: the environment has %s, which is no setting of a pool; there are %s",
				name, strings.Join(variables(), ", "))
		}
		option, err := settings[i].parse(value)
		if err != nil {
			return nil, fmt.Errorf("pool: the environment has %s=%s: %w", name, value, err)
		}
		options = append(options, func(c *config) error {
			c.by = " (" + name + ")"
			defer func() { c.by = "" }()
			if err := option(c); err != nil {
				return fmt.Errorf("pool: the environment has %s=%s: %w", name, value, err)
			}
			return nil
		})
	}
	return options, nil
}

// variables returns the names of all variables without the prefix, in order.
func variables() (names []string) {
	for _, s := range settings {
		if s.variable != "" {
			names = append(names, s.variable)
		}
	}
	slices.Sort(names)
	return names
}

func integer(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New("it must be a whole number")
	}
	return n, nil
}

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errors.New("it must be a whole number above 0")
	}
	return n, nil
}

func fraction(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errors.New("it must be a number such as 0.125")
	}
	return f, nil
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("it must be a duration such as 50us or 10ms")
	}
	return d, nil
}

func number(option func(n int) Option) func(value string) (Option, error) {
	return func(value string) (Option, error) {
		n, err := integer(value)
		return option(n), err
	}
}

// tuned is for a field of Tuning, where the zero value means that nothing was given.
func tuned[T comparable](parse func(string) (T, error), set func(t *Tuning, v T)) func(value string) (Option, error) {
	return func(value string) (Option, error) {
		v, err := parse(value)
		var zero T
		if err == nil && v == zero {
			err = errors.New("0 would change nothing; leave it out, or give a negative one for none")
		}
		var t Tuning
		set(&t, v)
		return WithTuning(t), err
	}
}

// onOrOff is for a setting that the program may have switched on, so that false switches it off.
func onOrOff(setting string, field func(c *config) *bool) func(value string) (Option, error) {
	return func(value string) (Option, error) {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, errors.New("it must be true or false")
		}
		return func(c *config) error {
			*field(c) = on
			c.ask(setting, on)
			return nil
		}, nil
	}
}

func slowTaskAfter(value string) (Option, error) {
	d, err := duration(value)
	return WithSlowTask(d, nil), err
}

func pinningNamed(value string) (Option, error) {
	for p := PinAuto; p <= PinNodes; p++ {
		if strings.EqualFold("Pin"+value, p.String()) {
			return WithPinning(p), nil
		}
	}
	return nil, errors.New("it must be auto, cores, none, l3 or nodes")
}

// maxCPUs is more CPUs than any kernel has.
const maxCPUs = 1 << 16

func cpusListed(value string) (Option, error) {
	cpus, err := cpuList(value)
	return WithCPUs(cpus...), err
}

// cpuList reads a list as the kernel writes it, such as 0-3,8.
func cpuList(value string) (cpus []int, err error) {
	for part := range strings.SplitSeq(value, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 0 || last < first || last >= maxCPUs {
			return nil, fmt.Errorf("%q is neither a CPU nor a range of them; write a list such as 0-3,8", part)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

func latenciesIn(file string) (Option, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return WithTuning(Tuning{Latencies: f}), nil
}

func topologyIn(file string) (Option, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := new(numa.Topology)
	err = json.Unmarshal(text, t)
	return WithTuning(Tuning{Topology: t}), err
}
