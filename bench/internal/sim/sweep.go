package sim

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/internal/policy"
)

// Options says what to run.
type Options struct {
	Machines   []Machine
	Loads      []Load
	Strategies []Strategy
	Seed       uint64
	Seeds      int // the number of seeds, from Seed on: one run each
}

// Outcome is the result of a load on a machine with a strategy, one run for each seed.
type Outcome struct {
	Machine  Machine
	Load     Load
	Strategy Strategy
	Workers  int
	Runs     []Stats
}

// Run runs every load on every machine with every strategy. The runs are independent of one
// another. So they share the CPUs of this machine, and its load does not change their results.
func Run(o Options) ([]Outcome, error) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var outcomes []*Outcome
	for _, m := range o.Machines {
		l := m.layout()
		orders := map[bool]*policy.Order{false: l.order(false), true: l.order(true)}
		for _, load := range o.Loads {
			works := make([]work, o.Seeds)
			for i := range works {
				if i > 0 && works[0].tree != nil {
					works[i] = works[0] // trees have no seed
				} else {
					works[i] = load.make(l, o.Seed+uint64(i))
				}
			}
			for _, s := range o.Strategies {
				out := &Outcome{Machine: m, Load: load, Strategy: s, Workers: l.workers, Runs: make([]Stats, o.Seeds)}
				outcomes = append(outcomes, out)
				for i := range out.Runs {
					u := setup{layout: l, order: orders[s.tiers], parameters: s.parameters, lastVictim: s.lastVictim, load: works[i], seed: o.Seed + uint64(i)}
					group.Go(func() (err error) {
						if out.Runs[i], err = u.run(); err != nil {
							err = fmt.Errorf("%s with %s, seed %d: %w", out.name(), s.Name, u.seed, err)
						}
						return err
					})
				}
			}
		}
	}
	err := group.Wait()
	result := make([]Outcome, len(outcomes))
	for i, out := range outcomes {
		result[i] = *out
	}
	return result, err
}

// name is the name of the case in the contract's lines.
func (o *Outcome) name() string { return o.Load.Name + "-" + o.Machine.Name }

// metric is a figure of a run.
type metric struct {
	name   string
	better contract.Better
	of     func(o *Outcome, s *Stats) float64
}

const (
	makespan     = "makespan-ms"
	remoteSteals = "remote-steals"
	speedUp      = "speed-up"
	tail         = "p99-us"
)

// metrics returns the metrics of the outcome's load.
func (o *Outcome) metrics() []metric {
	of := func(name string, f func(s *Stats) float64) metric {
		return metric{name, contract.Lower, func(_ *Outcome, s *Stats) float64 { return f(s) }}
	}
	all := []metric{
		of(makespan, func(s *Stats) float64 { return float64(s.Makespan) / 1e6 }),
		of("steals", func(s *Stats) float64 { return float64(s.Steals) }),
		of(remoteSteals, func(s *Stats) float64 { return float64(s.Remote) }),
		of("remote-percent", func(s *Stats) float64 { return 100 * s.RemoteShare() }),
		of("attempts", func(s *Stats) float64 { return float64(s.Attempts()) }),
		of("failed-visits", func(s *Stats) float64 { return float64(s.Failed) }),
		of("wake-ups", func(s *Stats) float64 { return float64(s.Wakes) }),
		of("lent", func(s *Stats) float64 { return float64(s.Lent) }),
		of("goroutines", func(s *Stats) float64 { return float64(s.Goroutines) }),
		{"parked-percent", contract.Lower, func(o *Outcome, s *Stats) float64 {
			return 100 * float64(s.Parked) / float64(s.Makespan) / float64(o.Workers)
		}},
	}
	if o.Runs[0].Depth > 0 {
		return append(all,
			metric{speedUp, contract.Higher, func(_ *Outcome, s *Stats) float64 { return float64(s.Work) / float64(s.Makespan) }},
			metric{"attempts/PD-us", contract.Lower, func(o *Outcome, s *Stats) float64 {
				return float64(s.Attempts()) / (float64(o.Workers) * float64(s.Span) / 1e3)
			}},
			metric{"makespan/bound", contract.Lower, func(o *Outcome, s *Stats) float64 {
				return float64(s.Makespan) / (float64(s.Work)/float64(o.Workers) + float64(s.Span))
			}})
	}
	return append(all,
		of("p50-us", func(s *Stats) float64 { return float64(s.P50) / 1e3 }),
		of(tail, func(s *Stats) float64 { return float64(s.P99) / 1e3 }),
		of("p999-us", func(s *Stats) float64 { return float64(s.P999) / 1e3 }))
}

// values returns one metric of all runs, or nil if the load does not have it.
func (o *Outcome) values(name string) []float64 {
	for _, m := range o.metrics() {
		if m.name == name {
			values := make([]float64, len(o.Runs))
			for i := range values {
				values[i] = m.of(o, &o.Runs[i])
			}
			return values
		}
	}
	return nil
}

// base returns the outcome of uniform victims on the same machine with the same load.
func base(outcomes []Outcome, o *Outcome) *Outcome {
	for i := range outcomes {
		b := &outcomes[i]
		if b.Strategy.Name == Uniform && b.name() == o.name() {
			return b
		}
	}
	return nil
}

// Lines returns the lines of the contract. For each case these are the figures of its
// strategies, and then the ratios of makespan, remote steals and p99 to those of uniform
// random victims.
func Lines(outcomes []Outcome) (lines []any) {
	for i := range outcomes {
		o := &outcomes[i]
		for _, m := range o.metrics() {
			lines = append(lines, contract.Line{
				Suite: "sim", Case: o.name(), Impl: o.Strategy.Name, Workers: o.Workers, Metric: m.name,
				Better: m.better, Peer: o.Strategy.Name == Uniform,
			}.Over(o.values(m.name)))
		}
		b := base(outcomes, o)
		if b == nil || b == o {
			continue
		}
		for _, name := range []string{makespan, remoteSteals, tail} {
			if o.values(name) == nil {
				continue
			}
			if ratio, ok := contract.Compare(o.values(name), b.values(name), contract.Lower); ok {
				lines = append(lines, contract.Ratio{
					Suite: "sim", Case: o.name(), Workers: o.Workers, Metric: name,
					RatioTo: Uniform, Impl: o.Strategy.Name, Ratio: ratio.Median, Min: ratio.Min, Max: ratio.Max,
				})
			}
		}
	}
	return lines
}

// The parameters of the sweep: Uniform in parts of 2^16, and Patience in looks.
var (
	sweptUniform  = []uint32{0, 1 << 8, 1 << 10, 1 << 12, 1 << 13, 1 << 14}
	sweptPatience = []int{0, 1, 2, 4, 8}
)

// Swept returns the strategies of a sweep: the uniform one, and the pool's with all pairs of
// parameters.
func Swept() []Strategy {
	all := Strategies()[:1]
	for _, uniform := range sweptUniform {
		for _, patience := range sweptPatience {
			share := "0"
			if uniform > 0 {
				share = fmt.Sprintf("1/%d", 1<<16/uniform)
			}
			all = append(all, Strategy{
				Name:  fmt.Sprintf("tiers-last, uniform %s, patience %d", share, patience),
				tiers: true, lastVictim: true,
				parameters: policy.Parameters{Uniform: uniform, Patience: patience},
			})
		}
	}
	return all
}

// Ranking is a strategy's standing on a machine, over all loads, relative to uniform victims.
type Ranking struct {
	Strategy Strategy
	Makespan float64 // geometric mean
	Worst    float64 // makespan of the worst load
	Remote   float64 // remote steals, geometric mean over the loads that have any
	Most     float64 // remote steals of the worst load of the Unbalanced Tree Search
}

// Rank returns the ranking on a machine, the best first, by makespan. Strategies whose remote
// steals are at most a third of the uniform strategy's come before the others.
func Rank(outcomes []Outcome, machine string) []Ranking {
	type sums struct {
		makespan, remote   float64
		loads, remoteLoads int
		worst, most        float64
	}
	byName := make(map[string]*sums)
	var ranking []Ranking
	for i := range outcomes {
		o := &outcomes[i]
		if o.Machine.Name != machine || o.Strategy.Name == Uniform {
			continue
		}
		s := byName[o.Strategy.Name]
		if s == nil {
			s = new(sums)
			byName[o.Strategy.Name] = s
			ranking = append(ranking, Ranking{Strategy: o.Strategy})
		}
		b := base(outcomes, o)
		if ratio, ok := contract.Compare(o.values(makespan), b.values(makespan), contract.Lower); ok {
			s.makespan += math.Log(ratio.Median)
			s.loads++
			s.worst = max(s.worst, ratio.Median)
		}
		ratio, ok := contract.Compare(o.values(remoteSteals), b.values(remoteSteals), contract.Lower)
		if !ok || ratio.Median == 0 || contract.Summarise(b.values(remoteSteals)).Median == 0 {
			continue
		}
		s.remote += math.Log(ratio.Median)
		s.remoteLoads++
		if strings.HasPrefix(o.Load.Name, "uts") {
			s.most = max(s.most, ratio.Median)
		}
	}
	for i := range ranking {
		s := byName[ranking[i].Strategy.Name]
		ranking[i].Makespan = math.Exp(s.makespan / float64(max(s.loads, 1)))
		ranking[i].Worst, ranking[i].Most = s.worst, s.most
		ranking[i].Remote = math.Exp(s.remote / float64(max(s.remoteLoads, 1)))
	}
	slices.SortStableFunc(ranking, func(a, b Ranking) int {
		return cmp.Or(compareBool(a.Most > 1.0/3, b.Most > 1.0/3), cmp.Compare(a.Makespan, b.Makespan))
	})
	return ranking
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// ChooseMachines returns the machines with the names in a comma-separated list, or all if the
// list is "all".
func ChooseMachines(list string) ([]Machine, error) {
	return choose(list, Machines(), MachineNames())
}

// ChooseLoads is ChooseMachines for loads.
func ChooseLoads(list string) ([]Load, error) { return choose(list, Loads(), LoadNames()) }

// MachineNames returns the names of Machines.
func MachineNames() (names []string) {
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

// LoadNames returns the names of Loads.
func LoadNames() (names []string) {
	for _, l := range Loads() {
		names = append(names, l.Name)
	}
	return names
}

func choose[T any](list string, all []T, names []string) ([]T, error) {
	if list == "all" {
		return all, nil
	}
	var chosen []T
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("there is none called %q; there are all, %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
