package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// Child is a peer that is another program, perhaps in another language. It takes
// part in the rounds like any other. A run starts the program once, as
//
//	program ... -suite S -case C -workers N -time 50ms
//
// The program does what a [Run] does, its own warming up included, and prints
// one [contract.Line] per metric of the case, and one of [PeakMB] if it can. If its answer is wrong it says so on
// standard error and exits with a status other than 0.
//
// Build returns the command line of the program, and first compiles it if need be.
// It returns a [Missing] without the toolchain.
func Child(name string, metrics []contract.Metric, build func(Env) ([]string, error)) Impl {
	start := func(env Env) (Run, func(), error) {
		argv, err := build(env)
		if err != nil {
			return nil, nil, err
		}
		argv = append(argv, "-suite", env.Suite, "-case", strings.TrimSuffix(env.Case, withoutTimer),
			"-workers", strconv.Itoa(env.Workers), "-time", env.Time.String())
		run := func() (Sample, error) {
			out, err := exec.Command(argv[0], argv[1:]...).Output()
			if err != nil {
				return Sample{}, childError(err)
			}
			return parseSample(string(out), metrics)
		}
		return run, nil, nil
	}
	return Impl{Name: name, Alone: true, Start: start}
}

func childError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("says: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	return fmt.Errorf("did not run: %w", err)
}

func parseSample(out string, metrics []contract.Metric) (Sample, error) {
	values := make(map[string]float64)
	for text := range strings.Lines(out) {
		var line contract.Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return Sample{}, fmt.Errorf("printed %q: %w", strings.TrimSpace(text), err)
		}
		values[line.Metric] = line.Value
	}
	s := Sample{Peak: values[PeakMB]}
	for _, m := range metrics {
		v, ok := values[m.Name]
		if !ok {
			return Sample{}, fmt.Errorf("printed no line for the metric %s", m.Name)
		}
		s.Values = append(s.Values, v)
	}
	return s, nil
}
