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

// ofStats are the numbers that only grow.
var ofStats = []count{
	{"heist.pool.tasks.submitted", "{task}", "Tasks that were accepted.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Submitted) }},
	{"heist.pool.tasks.run", "{task}", "Tasks that workers came to, skipped ones too.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Total().Tasks) }},
	{"heist.pool.tasks.refused", "{task}", "Tasks and callers that were not accepted.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Refused) }},
	{"heist.pool.tasks.late", "{task}", "Tasks that were not begun by their deadline.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Late) }},
	{"heist.pool.tasks.skipped", "{task}", "Tasks that were cancelled before they began.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Skipped) }},
	{"heist.pool.panics", "{panic}", "Functions that panicked.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Panicked) }},
	{"heist.pool.steals", "{steal}", "Victims that had something to steal.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Total().Steals) }},
	{"heist.pool.parks", "{park}", "Times that a worker went to sleep.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Total().Parks) }},
	{"heist.pool.wakes", "{wake}", "Times that a worker was woken.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Total().Wakes) }},
	{"heist.pool.wakes.fruitless", "{wake}", "Times that a worker was woken and found nothing to do.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Total().Fruitless) }},
	{"heist.pool.time.computing", "ns", "Time in tasks and forks, waits left out; 0 without WithTimings.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Computing) }},
	{"heist.pool.time.searching", "ns", "Time in which workers looked for something to do; 0 without WithTimings.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Searching) }},
	{"heist.pool.waits.noticed", "{wait}", "Waits that the pool was not told of, and has noticed.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.Noticed) }},
	{"heist.pool.time.noticed", "ns", "Time in such waits.", nil, func(s *inspect.Stats, _ *inspect.Load) int64 { return int64(s.NoticedFor) }},
}

// ofLoad are the numbers that go up and down.
var ofLoad = []count{
	{"heist.pool.workers", "{worker}", "Workers by what they do.", state("running"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Running) }},
	{"heist.pool.workers", "{worker}", "Workers by what they do.", state("searching"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Searching) }},
	{"heist.pool.workers", "{worker}", "Workers by what they do.", state("parked"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Parked) }},
	{"heist.pool.tasks.queued", "{task}", "Tasks that nobody has begun.", priority("high"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Queued.High) }},
	{"heist.pool.tasks.queued", "{task}", "Tasks that nobody has begun.", priority("normal"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Queued.Normal) }},
	{"heist.pool.tasks.queued", "{task}", "Tasks that nobody has begun.", priority("low"), func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Queued.Low) }},
	{"heist.pool.tasks.waiting", "{task}", "Tasks that wait, and have lent their places.", nil, func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Waiting) }},
	{"heist.pool.tasks.delayed", "{task}", "Tasks whose time has not come.", nil, func(_ *inspect.Stats, l *inspect.Load) int64 { return int64(l.Delayed) }},
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
