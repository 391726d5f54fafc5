package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// Programs are the programs that implementations run in, one for each set of libraries: the folders beside this file.
// Ants and nats-server start timers as soon as they are linked, and whoever sleeps in a process with a timer pending
// starts goroutines otherwise than in one without.
type Programs struct{ dir string }

// ProgramsIn is the environment variable with the folder of the programs, for children that start others.
const ProgramsIn = "HEIST_BENCH_PROGRAMS"

// Path returns where the program is that the parent has built.
func Path(program string) string { return filepath.Join(os.Getenv(ProgramsIn), program) }

// Build compiles the programs with these names, unless it has done so before, in the way in which this one was compiled.
func (p *Programs) Build(names ...string) error {
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "heist-bench-")
		if err != nil {
			return err
		}
		p.dir = dir
		if err := os.Setenv(ProgramsIn, dir); err != nil {
			return err
		}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, err := os.Stat(Path(name))
		return err == nil
	})
	if len(names) == 0 {
		return nil
	}
	command := exec.Command("go", "build", "-buildvcs=false", "-o", p.dir+string(filepath.Separator))
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "-") && s.Key != "-compiler" && s.Key != "-buildmode" {
				command.Args = append(command.Args, s.Key+"="+s.Value)
			}
		}
	}
	const here = "github.com/seed53057037/heist/bench/internal/child/"
	for _, name := range names {
		command.Args = append(command.Args, here+name)
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if folder := filepath.Dir(file); filepath.IsAbs(folder) { // it is not with -trimpath
			command.Dir = folder
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("each implementation runs in a process of its own, whose program cannot be compiled; "+
			"start the benchmark with go run, in heist's folder: %w\n%s", err, out)
	}
	return nil
}

// Remove removes the programs.
func (p *Programs) Remove() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // in a folder of temporary files
	}
}

// An order is what a child is to do, its only argument.
type order struct {
	Impl string
	Env  runner.Env
}

// A report is what a child writes when it is ready, and then with the sample of each run.
type report struct {
	Sample         runner.Sample
	Missing, Error string

	// Idle is the CPU time that the child has used since its last report without being asked.
	Idle time.Duration
}

func (r report) err() error {
	switch {
	case r.Missing != "":
		return runner.Missing{Reason: r.Missing}
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// tolerable is the share of a CPU that a child may use while others run.
const tolerable = 0.01

// Start starts an implementation of a case in a process of its own. A note goes to note if that process disturbs the
// others while it has nothing to do. It is for [runner.Options].
func (p *Programs) Start(impl runner.Impl, env runner.Env, note func(string)) (runner.Run, func(), error) {
	what, err := json.Marshal(order{impl.Name, env})
	if err != nil {
		return nil, nil, err
	}
	process, err := Start(exec.Command(Path(impl.Program()), string(what)))
	if err != nil {
		return nil, nil, err
	}
	if err := process.Read(new(report)); err != nil {
		return nil, nil, err
	}
	var idle, used time.Duration
	last := time.Now()
	run := func() (runner.Sample, error) {
		idle += time.Since(last)
		var r report
		err := process.Ask(&r)
		last = time.Now()
		used += r.Idle
		return r.Sample, errors.Join(err, r.err())
	}
	stop := func() {
		process.Stop()
		if share := used.Seconds() / idle.Seconds(); share > tolerable && used > 10*time.Millisecond {
			note(fmt.Sprintf("%s/%s: %s used %.0f%% of a CPU while others ran", env.Suite, env.Case, impl.Name, 100*share))
		}
	}
	return run, stop, nil
}

// Main is the life of a child that has these suites. It does not return.
func Main(suites []runner.Suite) {
	if err := serve(suites); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", strings.Join(os.Args, " "), err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(suites []runner.Suite) error {
	var what order
	if len(os.Args) != 2 || json.Unmarshal([]byte(os.Args[1]), &what) != nil {
		return errors.New("bench starts this program; run go run ./bench")
	}
	benchCase, impl, ok := find(suites, what)
	if !ok {
		return errors.New("there is no such implementation")
	}
	teardown, err := benchCase.Stage(what.Env)
	if err != nil {
		return err
	}
	defer teardown()
	var before gauge.Usage
	ready := false
	return Answer(func() any {
		var r report
		if ready {
			now, _ := gauge.UsageSoFar() // where there is an error, it is never idle
			r.Idle = now.Since(before).CPU
			var err error
			var missing runner.Missing
			if r.Sample, err = impl.Once(what.Env); errors.As(err, &missing) {
				r.Missing = missing.Reason
			} else if err != nil {
				r.Error = err.Error()
			}
		}
		ready = true
		before, _ = gauge.UsageSoFar()
		return r
	})
}

func find(suites []runner.Suite, what order) (c runner.Case, impl runner.Impl, ok bool) {
	for _, suite := range suites {
		for _, c := range suite.Cases {
			for _, impl := range c.Impls {
				if suite.Name == what.Env.Suite && c.Name == what.Env.Case && impl.Name == what.Impl {
					return c, impl, true
				}
			}
		}
	}
	return c, impl, false
}
