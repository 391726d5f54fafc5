// Package otel shows heist's pools to OpenTelemetry. [Register] has a meter observe the pools:
//
//	registration, err := heistotel.Register(provider.Meter("example.com/service"), p)
//
// Measurements have the attribute heist.pool, which is the pool's name; for a pool without one it is "pool". Counters
// are those of [inspect.Stats], gauges those of [inspect.Load]. How long tasks waited and ran is not among them,
// because OpenTelemetry has no observable histograms; the package metrics/prometheus shows them.
package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

// count is an instrument whose value is one of the pool's numbers.
type count struct {
	name, unit, about string
	attributes        []attribute.KeyValue
	of                func(s *inspect.Stats, l *inspect.Load) int64
}

func state(s string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("heist.worker.state", s)}
}

func priority(s string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("heist.task.priority", s)}
}

// ofStats are the numbers that only grow, ofLoad those that go up and down.
var ofStats, ofLoad = func() (grow, move []count) {
	for _, n := range inspect.Numbers() {
		name, unit := "heist.pool."+n.Name, "{"+n.Unit+"}"
		if n.Unit == "ns" {
			name, unit = name+".time", "ns"
		}
		c := count{name, unit, n.About, nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return n.Of(s) }}
		if n.Gauge {
			move = append(move, c)
		} else {
			grow = append(grow, c)
		}
	}
	return grow, append(move, loads...)
}()

// loads are the numbers of Load.
var loads = []count{
	{"heist.pool.workers", "{worker}", "Workers by what they do.", state("running"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Running) }},
	{"heist.pool.workers", "{worker}", "Workers by what they do.", state("searching"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Searching) }},
	{"heist.pool.workers", "{worker}", "Workers by what they do.", state("parked"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Parked) }},
	{"heist.pool.tasks.queued", "{task}", "Tasks that nobody has begun.", priority("high"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Queued.High) }},
	{"heist.pool.tasks.queued", "{task}", "Tasks that nobody has begun.", priority("normal"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Queued.Normal) }},
	{"heist.pool.tasks.queued", "{task}", "Tasks that nobody has begun.", priority("low"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Queued.Low) }},
	{"heist.pool.tasks.delayed", "{task}", "Tasks whose time has not come, or that wait for futures.", nil, func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Delayed) }},
	{"heist.pool.callers.inside", "{caller}", "Goroutines from outside that compute.", nil, func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.CallersInside) }},
	{"heist.pool.callers.waiting", "{caller}", "Goroutines from outside that wait to be admitted.", nil, func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.CallersWaiting) }},
}

// Register has the meter observe these pools until Unregister of the registration is called. Two pools must not have
// the same name, and only one may have none. A pool may be closed later: its counters stay. Cost of an observation:
// some microseconds a pool.
func Register(meter metric.Meter, pools ...*pool.Pool) (metric.Registration, error) {
	if meter == nil {
		return nil, errors.New("otel: Register was given a nil meter")
	}
	names, err := namesOf(pools)
	if err != nil {
		return nil, err
	}
	instruments := make(map[string]metric.Int64Observable)
	var all []metric.Observable
	add := func(name string, i metric.Int64Observable, err error) error {
		if err == nil {
			instruments[name] = i
			all = append(all, i)
		}
		return err
	}
	for _, c := range ofStats {
		i, err := meter.Int64ObservableCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.about))
		if err := add(c.name, i, err); err != nil {
			return nil, err
		}
	}
	for _, c := range ofLoad {
		if instruments[c.name] != nil { // made for another attribute
			continue
		}
		i, err := meter.Int64ObservableUpDownCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.about))
		if err := add(c.name, i, err); err != nil {
			return nil, err
		}
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for i, p := range pools {
			s, l := p.Stats(), p.Load()
			for _, list := range [][]count{ofStats, ofLoad} {
				for _, c := range list {
					o.ObserveInt64(instruments[c.name], c.of(&s, &l),
						metric.WithAttributes(append(c.attributes[:len(c.attributes):len(c.attributes)], attribute.String("heist.pool", names[i]))...))
				}
			}
		}
		return nil
	}, all...)
}

// namesOf returns the names of the pools, which must differ.
func namesOf(pools []*pool.Pool) (names []string, err error) {
	if len(pools) == 0 {
		return nil, errors.New("otel: Register was given no pool")
	}
	seen := make(map[string]bool)
	for i, p := range pools {
		if p == nil {
			return nil, fmt.Errorf("otel: Register was given nil as its pool %d", i)
		}
		name := p.Config().Name
		if name == "" {
			name = "pool"
		}
		if seen[name] {
			return nil, fmt.Errorf("otel: Register was given two pools with the name %q; give them different ones by WithName", name)
		}
		seen[name] = true
		names = append(names, name)
	}
	return names, nil
}
