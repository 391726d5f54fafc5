// Package prometheus shows heist's pools to Prometheus. [NewCollector] makes a collector for client_golang:
//
//	c, err := heistprom.NewCollector(p)
//	...
//	registry.MustRegister(c)
//
// Metrics have the label pool, which is the pool's name; for a pool without one it is "pool". Counters are those of
// [inspect.Stats], gauges those of [inspect.Load]; grafana.json, beside this file, is a dashboard for them, to be
// imported into Grafana, and alerts.yaml has rules for Prometheus. Pools with WithTimings also have histograms of how long
// tasks waited, of one task in 16, and ran.
package prometheus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

// NewCollector returns a collector for these pools. Two pools must not have the same name, and only one may have
// none. A pool may be closed later: its counters stay. Cost of a scrape: that of a
// [pool.Pool.Snapshot], some microseconds a pool.
func NewCollector(pools ...*pool.Pool) (prometheus.Collector, error) {
	if len(pools) == 0 {
		return nil, errors.New("prometheus: NewCollector was given no pool")
	}
	c := make(collector, 0, len(pools))
	names := make(map[string]bool)
	for i, p := range pools {
		if p == nil {
			return nil, fmt.Errorf("prometheus: NewCollector was given nil as its pool %d", i)
		}
		name := p.Config().Name
		if name == "" {
			name = "pool"
		}
		if names[name] {
			return nil, fmt.Errorf("prometheus: NewCollector was given two pools with the name %q; give them different ones by WithName", name)
		}
		names[name] = true
		c = append(c, named{name, p})
	}
	return c, nil
}

type collector []named

type named struct {
	name string
	*pool.Pool
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heist_pool_"+name, help, append([]string{"pool"}, labels...), nil)
}

// number is a metric whose value is a number of the pool's Stats, Load or Snapshot.
type number struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *inspect.Stats, l *inspect.Load, now *inspect.Snapshot) float64
}

func gauge(name, help string, of func(l *inspect.Load) int) number {
	return number{describe(name, help), prometheus.GaugeValue, func(_ *inspect.Stats, l *inspect.Load, _ *inspect.Snapshot) float64 { return float64(of(l)) }}
}

// byTier are the fields of Stats that are shown for each tier.
var byTier = map[string]bool{"Steals": true, "Items": true, "LostRaces": true}

var numbers = func() (all []number) {
	for _, n := range inspect.Numbers() {
		name, kind, unit := strings.ReplaceAll(n.Name, ".", "_"), prometheus.CounterValue, 1.0
		if n.Unit == "ns" {
			name, unit = name+"_seconds", 1e-9
		}
		switch {
		case byTier[n.Field]:
			continue
		case n.Gauge:
			kind = prometheus.GaugeValue
		default:
			name += "_total"
		}
		all = append(all, number{describe(name, n.About), kind, func(s *inspect.Stats, _ *inspect.Load, _ *inspect.Snapshot) float64 { return float64(n.Of(s)) * unit }})
	}
	return append(all,
		gauge("workers", "Workers that may compute at a time.", func(l *inspect.Load) int { return l.Workers }),
		gauge("tasks_delayed", "Tasks whose time has not come, or that wait for futures.", func(l *inspect.Load) int { return l.Delayed }),
		gauge("callers_inside", "Goroutines from outside that compute.", func(l *inspect.Load) int { return l.CallersInside }),
		gauge("callers_waiting", "Goroutines from outside that wait to be admitted.", func(l *inspect.Load) int { return l.CallersWaiting }),
		number{describe("circles", "Circles of tasks that wait for one another: they hang."), prometheus.GaugeValue,
			func(_ *inspect.Stats, _ *inspect.Load, now *inspect.Snapshot) float64 {
				return float64(len(now.Circles))
			}},
		number{describe("tasks_noticed", "Tasks that wait for something of which the pool was not told, and was noticed."), prometheus.GaugeValue,
			func(_ *inspect.Stats, _ *inspect.Load, now *inspect.Snapshot) float64 { return float64(now.Noticed()) }})
}()

// Metrics with a label of their own.
var (
	workersIn = describe("workers_by_state", "Workers by what they do.", "state")
	queued    = describe("tasks_queued", "Tasks that nobody has begun.", "priority")
	steals    = describe("steals_total", "Victims that had something to steal.", "tier")
	items     = describe("stolen_items_total", "Forks and tasks that were stolen.", "tier")
	lostRaces = describe("lost_races_total", "Victims at which another thief was faster.", "tier")

	waits = describe("task_wait_seconds", "How long tasks waited in queues, of one in 16.")
	runs  = describe("task_run_seconds", "How long tasks ran, waits included.")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, n := range numbers {
		to <- n.desc
	}
	for _, d := range []*prometheus.Desc{workersIn, queued, steals, items, lostRaces, waits, runs} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, p := range c {
		collect(to, p.name, p.Stats(), p.Load(), p.Snapshot(), p.Timings())
	}
}

func collect(to chan<- prometheus.Metric, pool string, s inspect.Stats, l inspect.Load, now inspect.Snapshot, t inspect.Timings) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, append([]string{pool}, labels...)...)
	}
	for _, n := range numbers {
		send(n.desc, n.kind, n.of(&s, &l, &now))
	}
	for state, n := range map[string]int{"running": l.Running, "searching": l.Searching, "parked": l.Parked} {
		send(workersIn, prometheus.GaugeValue, float64(n), state)
	}
	for priority, n := range map[string]int{"high": l.Queued.High, "normal": l.Queued.Normal, "low": l.Queued.Low} {
		send(queued, prometheus.GaugeValue, float64(n), priority)
	}
	for _, tier := range s.Tiers {
		send(steals, prometheus.CounterValue, float64(tier.Steals), tier.Name)
		send(items, prometheus.CounterValue, float64(tier.Items), tier.Name)
		send(lostRaces, prometheus.CounterValue, float64(tier.LostRaces), tier.Name)
	}
	if t.Run.Count > 0 {
		to <- histogram(waits, t.Wait, pool)
		to <- histogram(runs, t.Run, pool)
	}
}

// bounds are the upper ends of the buckets, in powers of four from a microsecond on. The buckets of the pool, eight
// for each power of two, are more than a server should keep.
var bounds = func() (all []time.Duration) {
	for d := time.Microsecond; d < 20*time.Second; d *= 4 {
		all = append(all, d)
	}
	return all
}()

// histogram puts a pool's histogram into these buckets. A bucket of the pool that crosses an end counts above it.
func histogram(d *prometheus.Desc, h inspect.Histogram, name string) prometheus.Metric {
	counts := make(map[float64]uint64, len(bounds))
	var below uint64
	next := h.Buckets
	for _, end := range bounds {
		for len(next) > 0 && next[0].UpTo <= end {
			below += next[0].Count
			next = next[1:]
		}
		counts[end.Seconds()] = below
	}
	return prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), counts, name)
}
