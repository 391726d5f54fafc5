package pool

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/pool/inspect"
)

// settings are all settings of a pool, in the order in which [Pool.Config] shows them. What an option accepts, and what
// it does, is said where it is.
var settings = []setting{
	{"WithName", "NAME", func(v string) (Option, error) { return WithName(v), nil },
		func(p *Pool) any { return cmp.Or(p.name, "none") }, nil},
	{"WithWorkers", "WORKERS", number(WithWorkers),
		func(p *Pool) any { return p.core.Size() }, (*Pool).whyWorkers},
	{"Tuning.MaxWorkers", "MAX_WORKERS", tuned(positive, func(t *Tuning, n int) { t.MaxWorkers = n }),
		func(p *Pool) any { return p.maxWorkers }, nil},
	{"WithPinning", "PINNING", pinningNamed,
		func(p *Pool) any { return p.pinning }, func(p *Pool) string { return p.why }},
	{"WithCPUs", "CPUS", cpusListed,
		func(p *Pool) any { return cmp.Or(inspect.CPUList(slices.Sorted(slices.Values(p.cpus))), "not bound") }, nil},
	{"Tuning.Isolate", "ISOLATE", onOrOff("Tuning.Isolate", func(c *config) *bool { return &c.isolate }),
		func(p *Pool) any { return p.isolate }, nil},
	{"Tuning.FreePs", "FREE_PS", tuned(integer, func(t *Tuning, n int) { t.FreePs = n }),
		func(p *Pool) any { return p.freePs }, (*Pool).whyFreePs},
	{"WithQueueBound", "QUEUE_BOUND", number(WithQueueBound),
		func(p *Pool) any { return unless0(p.bound, "none") }, nil},
	{"WithCallers", "CALLERS", number(WithCallers),
		func(p *Pool) any { return unless0(p.callers, "any number") }, nil},
	{"Tuning.HotWorker", "HOT_WORKER", onOrOff("Tuning.HotWorker", func(c *config) *bool { return &c.latency }),
		func(p *Pool) any { return p.latency }, nil},
	{"Tuning.Spin", "SPIN", tuned(duration, func(t *Tuning, d time.Duration) { t.Spin = d }),
		func(p *Pool) any { return unless0(max(cmp.Or(p.spin, heist.DefaultSpin), 0), "none") }, nil},
	{"Tuning.PollPeriod", "POLL_PERIOD", tuned(positive, func(t *Tuning, n int) { t.PollPeriod = n }),
		func(p *Pool) any { return unless0(p.pollPeriod, "adapts") }, nil},
	{"Tuning.Latencies", "LATENCIES", latenciesIn,
		func(p *Pool) any { return strings.Join(p.tierNames(), ", ") }, (*Pool).whyTiers},
	{"Tuning.Topology", "TOPOLOGY", topologyIn,
		func(p *Pool) any { return given(p.asked["Tuning.Topology"] != "", "the machine's") }, nil},
	{"Tuning.UniformLooks", "UNIFORM_LOOKS", tuned(fraction, func(t *Tuning, share float64) { t.UniformLooks = share }),
		func(p *Pool) any { return float64(p.search.Uniform) / policy.Always }, (*Pool).whyUniform},
	{"Tuning.Patience", "PATIENCE", tuned(positive, func(t *Tuning, n int) { t.Patience = n }),
		func(p *Pool) any { return unless0(p.search.Patience, "none") }, nil},
	{"WithTimings", "TIMINGS", onOrOff("WithTimings", func(c *config) *bool { return &c.timed }),
		func(p *Pool) any { return p.timed }, nil},
	{"WithSlowTask", "SLOW_TASK", slowTaskAfter,
		func(p *Pool) any { return unless0(p.slowAfter, "none") }, nil},
	{"WithPanicHandler", "", nil,
		func(p *Pool) any { return given(p.onPanic != nil, "ends the process") }, nil},
	{"WithHooks", "", nil,
		func(p *Pool) any { return given(p.begins != nil || p.ends != nil, "none") }, nil},

	// Facts about the machine and the process.
	{"GOMAXPROCS", "", nil, func(*Pool) any { return runtime.GOMAXPROCS(0) }, nil},
	{"allowed CPUs", "", nil,
		func(p *Pool) any {
			return cmp.Or(inspect.CPUList(slices.Sorted(slices.Values(p.allowed()))), "not known")
		},
		func(p *Pool) string {
			if len(p.allowed()) > 0 {
				return ""
			}
			return "the system does not say which CPUs the process may use"
		}},
	{"CPU quota", "", nil, func(*Pool) any { return quota() }, nil},
	{"memory nodes", "", nil, func(p *Pool) any { return p.Nodes() }, nil},
}

// setting is an option, a field of Tuning, or a fact.
type setting struct {
	name     string
	variable string                             // of the environment, without the prefix; empty for none
	parse    func(value string) (Option, error) // of the variable
	chosen   func(p *Pool) any
	why      func(p *Pool) string // nil if there is nothing to say
}

func unless0[T comparable](v T, zero string) any {
	var none T
	if v == none {
		return zero
	}
	return v
}

func given(is bool, otherwise string) any {
	if is {
		return "given"
	}
	return otherwise
}

// Config returns the configuration of the pool: for each setting what was asked for, what was chosen and why; and
// where each worker runs. The number of workers, GOMAXPROCS and the CPUs that the process may use are the present
// ones.
func (p *Pool) Config() inspect.Config {
	p.mustBeMade()
	c := inspect.Config{Name: p.name}
	for _, s := range settings {
		why := ""
		if s.why != nil {
			why = s.why(p)
		}
		c.Settings = append(c.Settings, inspect.Setting{Name: s.name, Asked: p.asked[s.name], Chosen: fmt.Sprint(s.chosen(p)), Why: why})
	}
	for i, pl := range p.victims() {
		if i < p.core.Size() {
			seat := inspect.Seat{Worker: i, Node: p.nodes[pl.core.Node()].id}
			if p.cpus != nil {
				seat.CPUs = slices.Clone(pl.core.Placement().CPUs)
			}
			c.Workers = append(c.Workers, seat)
		}
	}
	return c
}

// allowed returns the CPUs that the process may use, or nil if the system does not say.
func (p *Pool) allowed() []int {
	allowed, _ := p.machine.allowed()
	return allowed
}

func (p *Pool) whyWorkers() string {
	switch {
	case p.core.IsChosen():
		return "Resize"
	case p.follows && p.latency:
		return "follows GOMAXPROCS, less one for the rest of the process beside Tuning.HotWorker"
	case p.follows:
		return "follows GOMAXPROCS"
	case p.asked["WithWorkers"] == "" && p.asked["WithCPUs"] != "":
		return "as many as CPUs"
	}
	return ""
}

func (p *Pool) whyFreePs() string {
	if p.asked["Tuning.FreePs"] == "" && p.freePs > 0 {
		return "bound workers do not give way, and there are as many as Ps"
	}
	return ""
}

func (p *Pool) tierNames() (names []string) {
	for _, distance := range p.victimOrder.Tiers {
		names = append(names, p.latencies.name(distance))
	}
	return names
}

func (p *Pool) whyTiers() string {
	if p.latencies != nil {
		return "measured"
	}
	return "the topology says so"
}

func (p *Pool) whyUniform() string {
	if !p.looksGiven && len(p.victimOrder.Tiers) == 1 {
		return "all workers are equally far from one another"
	}
	return ""
}
