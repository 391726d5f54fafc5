package pool

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/pool/inspect"
)

// Config returns the configuration of the pool: for each setting what was asked for, what was chosen and why; and
// where each worker runs. The number of workers, GOMAXPROCS and the CPUs that the process may use are the present
// ones.
func (p *Pool) Config() inspect.Config {
	if err := p.usable(); err != nil {
		panic(err)
	}
	c := inspect.Config{Name: p.name}
	set := func(name string, chosen any, why string) {
		c.Settings = append(c.Settings, inspect.Setting{Name: name, Asked: p.asked[name], Chosen: fmt.Sprint(chosen), Why: why})
	}
	number := func(n int, zero string) string {
		if n == 0 {
			return zero
		}
		return fmt.Sprint(n)
	}
	set("WithName", cmp.Or(p.name, "none"), "")
	set("WithWorkers", p.size(), p.whyWorkers())
	set("Tuning.MaxWorkers", p.maxWorkers, "")
	set("WithPinning", p.pinning, p.why)
	cpus := "not bound"
	if p.cpus != nil {
		cpus = inspect.CPUList(slices.Sorted(slices.Values(p.cpus)))
	}
	set("WithCPUs", cpus, "")
	set("Tuning.Isolate", p.isolate, "")
	set("Tuning.FreePs", p.freePs, p.whyFreePs())
	set("WithQueueBound", number(p.bound, "none"), "")
	set("WithCallers", number(p.callers, "any number"), "")
	set("Tuning.HotWorker", p.latency, "")
	spin := fmt.Sprint(cmp.Or(p.spin, heist.DefaultSpin))
	if p.spin < 0 {
		spin = "none"
	}
	set("Tuning.Spin", spin, "")
	set("Tuning.PollPeriod", number(p.pollPeriod, "adapts"), "")
	set("Tuning.Latencies", strings.Join(p.tierNames(), ", "), p.whyTiers())
	set("Tuning.UniformLooks", float64(p.search.Uniform)/policy.Always, p.whyUniform())
	set("Tuning.Patience", number(p.search.Patience, "none"), "")
	set("WithTimings", p.timed, "")
	set("WithSlowTask", number(int(p.slowAfter), "none"), "")
	if p.slowAfter > 0 {
		c.Settings[len(c.Settings)-1].Chosen = p.slowAfter.String()
	}
	handler, hooks := "ends the process", "none"
	if p.onPanic != nil {
		handler = "given"
	}
	if p.begins != nil || p.ends != nil {
		hooks = "given"
	}
	set("WithPanicHandler", handler, "")
	set("WithHooks", hooks, "")

	set("GOMAXPROCS", runtime.GOMAXPROCS(0), "")
	allowed, err := p.machine.allowed()
	if err != nil || len(allowed) == 0 {
		set("allowed CPUs", "not known", "the system does not say which CPUs the process may use")
	} else {
		set("allowed CPUs", inspect.CPUList(slices.Sorted(slices.Values(allowed))), "")
	}
	set("CPU quota", quota(), "")
	set("memory nodes", fmt.Sprint(p.Nodes()), "")

	for i, pl := range p.victims() {
		if i < p.size() {
			c.Workers = append(c.Workers, inspect.Seat{Worker: i, Node: p.nodes[pl.placement.node].id, CPUs: slices.Clone(pl.placement.cpus)})
		}
	}
	return c
}

func (p *Pool) whyWorkers() string {
	switch {
	case p.resized():
		return "Resize"
	case p.follows:
		return "follows GOMAXPROCS"
	case p.asked["WithWorkers"] == "" && p.asked["WithCPUs"] != "":
		return "as many as CPUs"
	}
	return ""
}

// resized says whether Resize has chosen the number of workers.
func (p *Pool) resized() bool {
	p.workerSet.mu.Lock()
	defer p.workerSet.mu.Unlock()
	return p.workerSet.chosen
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
