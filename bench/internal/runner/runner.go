// Package runner measures implementations against one another.
//
// A suite holds cases, each case has several implementations, and an
// implementation is a function that does the case's work for a while and returns
// what it measured. The implementations of a case run in turn, A B C A B C ..., so
// that other load on the machine falls on all of them alike; [contract.Compare]
// relies on that. Each is in a process of its own, which waits while others run.
//
// To add a suite, write a function that returns a [Suite] and name it in the list
// of suites. To add an implementation that lives in another program, see [Child].
package runner

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// Suite is a group of cases about one part of the product.
type Suite struct {
	Name  string
	About string
	Cases []Case

	// Crosses says that the times are above all those of cache lines that go from CPU to CPU.
	Crosses bool
}

// Case is one piece of work.
type Case struct {
	Name    string
	About   string // one line: what is measured
	Metrics []contract.Metric

	// Workers returns the numbers of workers to measure with, given the number
	// asked for. Go's scheduler gets as many Ps for the time.
	Workers func(asked int) []int

	// Setup, if not nil, runs before the first implementation starts. The function
	// that it returns runs after the last has stopped.
	Setup func(Env) (teardown func(), err error)

	// NoTimer says that the processes of the case have no timer pending but the case's own. In all others there is one,
	// as in nearly all servers: Go wakes another thread where there is none.
	NoTimer bool

	// Floor, if not empty, is the peer that does not do what the case measures, such as plain calls beside forks. It is
	// there to be compared with, and nobody can beat it.
	Floor string

	// Named says that the case is measured only if its suite is named.
	Named bool

	Impls []Impl
}

// withoutTimer ends the names of cases that differ from others in [Case.NoTimer] alone.
const withoutTimer = "-notimer"

// InBothStates returns the cases, and then each without a timer.
func InBothStates(cases []Case) []Case {
	for _, c := range cases {
		c.Name += withoutTimer
		c.About += "; no timer is pending"
		c.NoTimer, c.Named = true, true
		cases = append(cases, c)
	}
	return cases
}

// Stage prepares this process for a case. Teardown undoes that.
func (c Case) Stage(env Env) (teardown func(), err error) {
	procs := runtime.GOMAXPROCS(env.Workers)
	stop := func() bool { return true }
	if !c.NoTimer {
		stop = time.AfterFunc(time.Hour, func() {}).Stop
	}
	end := func() {}
	if c.Setup != nil {
		end, err = c.Setup(env)
	}
	return func() {
		if err == nil {
			end()
		}
		stop()
		runtime.GOMAXPROCS(procs)
	}, err
}

// Impl is one way of doing the work of a case. Names that are "heist" or begin
// with "heist-" are heist's own, all others are peers.
type Impl struct {
	Name string

	// Note, if not empty, is what a reader must know to compare this
	// implementation's figures with the others.
	Note string

	// Costly says that the implementation takes long. It takes part only without a
	// budget.
	Costly bool

	// Links names the program in package child that links what the implementation needs, if that is more than heist and
	// Go's own packages.
	Links string

	// Alone says that each run starts a process by itself; see [Child].
	Alone bool

	// Start prepares a run: it makes what the run uses, such as a pool, so that luck with its place in memory shows as
	// spread. It returns the function that does the run, and perhaps one that ends what Start has made. Either returns a
	// [Missing] where the implementation does not exist on this machine. Only if the implementation is Alone, one Start
	// is for all runs.
	Start func(Env) (run Run, stop func(), err error)
}

// Once does one run from its start to its stop, without garbage of what came before.
func (i Impl) Once(env Env) (Sample, error) {
	run, stop, err := i.Start(env)
	if stop != nil {
		defer stop()
	}
	if err != nil {
		return Sample{}, err
	}
	if env.Peak {
		return peakOf(run)
	}
	runtime.GC()
	return run()
}

// Peer says whether the implementation is another project's.
func (i Impl) Peer() bool { return i.Name != "heist" && !strings.HasPrefix(i.Name, "heist-") }

// Program returns the name of the program in package child that the implementation runs in.
func (i Impl) Program() string {
	if i.Links == "" {
		return "plain"
	}
	return i.Links
}

// Run warms up, does the work of the case for about [Env].Time, checks the answer, and
// returns what it measured. A wrong answer is a [Wrong].
type Run func() (Sample, error)

// Sample is the result of one run.
type Sample struct {
	Values []float64 // in the order of the case's metrics; the last ones may be missing
	Detail string    // lines for people, shown below the table; may be empty
	Extra  []Extra   // the same metrics in every run; may be empty

	Histograms []Histogram // the same ones in every run; may be empty

	Peak float64 // see PeakMB; 0 if it is not known. The runner sets it.
}

// Histogram is how often each duration occurred in a run. It is kept in the compressed form of HdrHistogram: the
// counters of every run would make the heap so large that the garbage collector hardly runs.
type Histogram struct {
	Of      string // what the durations are of
	Encoded []byte
}

// Extra is a figure that not every implementation of the case has, so there is
// nothing to compare it with. Lower is better.
type Extra struct {
	Metric string
	Value  float64
}

// Env is what a run may depend on.
type Env struct {
	Suite, Case string
	Workers     int
	Time        time.Duration // about how long a run lasts
	Tiny        bool          // for tests: the least work that can still go wrong
	Glance      bool          // there is a budget: work may be scaled down
	NoTimer     bool          // see Case
	Peak        bool          // the case has the metric PeakMB
}

// Size chooses the amount of work.
func (e Env) Size(full, tiny int) int {
	if e.Tiny {
		return tiny
	}
	return full
}

// Amount is Size for a number of pieces whose figure is for each of them, or whose rounds are long: a glance has a quarter.
func (e Env) Amount(full, tiny int) int {
	if e.Glance {
		full /= 4
	}
	return e.Size(full, tiny)
}

// Missing is the error of an implementation that does not exist here. The
// implementation is left out; that is no failure.
type Missing struct{ Reason string }

func (m Missing) Error() string { return m.Reason }

// Wrong is the error of an implementation whose answer is wrong.
type Wrong struct {
	What      string // what the answer was of: "fib(35)"
	Got, Want any
}

func (w Wrong) Error() string {
	return fmt.Sprintf("gave %v for %s, expected %v", w.Got, w.What, w.Want)
}

// Check returns a Wrong if got is not want.
func Check[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return Wrong{what, got, want}
}

// Lap is one execution of a case's work: the number of operations, their time
// together and their allocations if those count, and perhaps details.
type Lap struct {
	Ops     int
	Took    time.Duration
	Mallocs uint64
	Detail  string  // see Sample
	Extra   []Extra // see Sample
}

// PerOp returns the nanoseconds per operation.
func (l Lap) PerOp() float64 { return float64(l.Took.Nanoseconds()) / float64(l.Ops) }

// Repeat does laps, at least one, until their times add up to d. It returns their
// sum, with the detail and the extra figures of the last. Work that a lap does outside
// of the time that it reports counts neither in the sum nor towards d. The first lap
// warms up and does not count, unless it is so long that it was its own warming up.
func Repeat(d time.Duration, lap func() (Lap, error)) (Lap, error) {
	var sum Lap
	for warm := false; ; {
		l, err := lap()
		if err != nil {
			return Lap{}, err
		}
		if !warm && l.Took < d {
			warm = true
			continue
		}
		l.Ops, l.Took, l.Mallocs = sum.Ops+l.Ops, sum.Took+l.Took, sum.Mallocs+l.Mallocs
		sum = l
		if sum.Took >= d {
			return sum, nil
		}
	}
}

// Options say how to measure.
type Options struct {
	Runs   int                    // rounds
	Time   time.Duration          // see Env
	Budget time.Duration          // for all rounds of a case, none of which begins later; 0 for no limit
	Peers  func(name string) bool // which peers take part; nil for all
	Note   func(line string)      // gets a line for each thing that is left out, with the reason
	Tiny   bool                   // see Env

	// Isolate starts a process that does the runs of an implementation. If it is nil, all run in this process; if Tiny is set,
	// those that link nothing do.
	Isolate func(Impl, Env) (Run, func(), error)

	// Steady is called after each sample, and may wait. It says whether the sample counts, or is taken again; an error ends the case. If it is nil, all count.
	Steady func() (counts bool, err error)
}

// here says whether an implementation runs in this process.
func (o Options) here(i Impl) bool {
	return !i.Alone && (o.Isolate == nil || o.Tiny && i.Links == "")
}

// Series is the samples of one implementation in all rounds.
type Series struct {
	Impl    Impl
	Samples []Sample
}

// Has says whether all samples have a value for the case's i-th metric.
func (s Series) Has(i int) bool {
	return !slices.ContainsFunc(s.Samples, func(sample Sample) bool { return i >= len(sample.Values) || math.IsNaN(sample.Values[i]) })
}

// Metric returns the values of the case's i-th metric, one per round. The series
// must have that metric; see [Series.Has].
func (s Series) Metric(i int) []float64 {
	values := make([]float64, len(s.Samples))
	for round, sample := range s.Samples {
		values[round] = sample.Values[i]
	}
	return values
}

// Measure measures a case with one number of workers. The error joins one error per
// implementation that failed; the outcome has only the others.
func Measure(suite Suite, c Case, workers int, o Options) (Outcome, error) {
	out := Outcome{Suite: suite.Name, Case: c, Workers: workers}
	env := Env{Suite: suite.Name, Case: c.Name, Workers: workers, Time: o.Time, Tiny: o.Tiny, Glance: o.Budget > 0, NoTimer: c.NoTimer, Peak: c.peak()}
	if slices.ContainsFunc(c.Impls, o.here) {
		teardown, err := c.Stage(env)
		defer teardown()
		if err != nil {
			return out, fmt.Errorf("%s/%s: %w", suite.Name, c.Name, err)
		}
	}

	type contestant struct {
		Series
		run Run
		err error
	}
	var field []*contestant
	for _, impl := range c.Impls {
		if impl.Peer() && o.Peers != nil && !o.Peers(impl.Name) {
			continue
		}
		if impl.Costly && env.Glance {
			o.Note(impl.Name + " takes long; it takes part in every case if the suite is named")
			continue
		}
		f := &contestant{Series: Series{Impl: impl}}
		start := impl.Start
		switch {
		case o.here(impl):
			start = func(env Env) (Run, func(), error) {
				return func() (Sample, error) { return impl.Once(env) }, nil, nil
			}
		case !impl.Alone:
			start = func(env Env) (Run, func(), error) { return o.Isolate(impl, env) }
		}
		var stop func()
		if f.run, stop, f.err = start(env); stop != nil {
			defer stop()
		}
		field = append(field, f)
	}
	began := time.Now()
	for n := 0; n < o.Runs && (n == 0 || o.Budget == 0 || time.Since(began) <= o.Budget); n++ {
		for _, f := range field {
			for counts := false; f.err == nil && !counts; {
				var sample Sample
				if sample, f.err = f.run(); f.err != nil {
					break
				}
				if counts = true; o.Steady != nil {
					var err error
					if counts, err = o.Steady(); err != nil {
						return out, err
					}
				}
				if env.Peak {
					sample = sample.withPeak(len(c.Metrics))
				}
				if counts {
					f.Samples = append(f.Samples, sample)
				}
			}
		}
	}

	var failures []error
	for _, f := range field {
		var missing Missing
		switch {
		case errors.As(f.err, &missing):
			o.Note(fmt.Sprintf("%s/%s: %s is left out: %s", suite.Name, c.Name, f.Impl.Name, missing.Reason))
		case f.err != nil:
			failures = append(failures, fmt.Errorf("%s/%s with %s: %s %w",
				suite.Name, c.Name, count(workers, "worker"), f.Impl.Name, f.err))
		default:
			if f.Impl.Note != "" {
				o.Note(fmt.Sprintf("%s/%s: %s: %s", suite.Name, c.Name, f.Impl.Name, f.Impl.Note))
			}
			out.Series = append(out.Series, f.Series)
		}
	}
	return out, errors.Join(failures...)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
