package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed53057037/heist/pool/inspect"
)

// jobNumbers are those of a worker that runs jobs: counters, and then what goes up and down.
var jobNumbers = []struct {
	name, unit, about string
	grows             bool
	of                func(s *inspect.Jobs) int64
}{
	{"heist.jobs.taken", "{job}", "Jobs that came.", true, func(s *inspect.Jobs) int64 { return int64(s.Taken) }},
	{"heist.jobs.redelivered", "{job}", "Jobs that came and had been delivered before.", true, func(s *inspect.Jobs) int64 { return int64(s.Redelivered) }},
	{"heist.jobs.done", "{job}", "Jobs that were acknowledged.", true, func(s *inspect.Jobs) int64 { return int64(s.Done) }},
	{"heist.jobs.failed", "{job}", "Jobs whose function failed.", true, func(s *inspect.Jobs) int64 { return int64(s.Failed) }},
	{"heist.jobs.given_back", "{job}", "Jobs that were not begun because the worker ended.", true, func(s *inspect.Jobs) int64 { return int64(s.GivenBack) }},
	{"heist.jobs.dead", "{job}", "Jobs that were stored as dead letters.", true, func(s *inspect.Jobs) int64 { return int64(s.Dead) }},
	{"heist.jobs.extended", "{time}", "Times that the deadline of a job was extended.", true, func(s *inspect.Jobs) int64 { return int64(s.Extended) }},
	{"heist.jobs.held", "{job}", "Jobs that have no answer yet.", false, func(s *inspect.Jobs) int64 { return int64(s.Held) }},
	{"heist.jobs.unstarted", "{job}", "Jobs that are held and have not begun.", false, func(s *inspect.Jobs) int64 { return int64(s.Unstarted) }},
	{"heist.jobs.average", "ns", "How long a job takes, a moving average.", false, func(s *inspect.Jobs) int64 { return int64(s.Average) }},
}

// RegisterJobs has the meter observe workers that run jobs of a queue, such as those of package jetstream, until Unregister of the
// registration is called. Measurements have the attribute heist.jobs.worker, which is the worker's Name; two workers of a
// process must not have the same.
func RegisterJobs(meter metric.Meter, workers ...inspect.JobSource) (metric.Registration, error) {
	if meter == nil {
		return nil, errors.New("otel: RegisterJobs was given a nil meter")
	}
	if len(workers) == 0 {
		return nil, errors.New("otel: RegisterJobs was given no worker")
	}
	names := make(map[string]bool)
	for i, w := range workers {
		if w == nil {
			return nil, fmt.Errorf("otel: RegisterJobs was given nil as its worker %d", i)
		}
		if names[w.Name()] {
			return nil, fmt.Errorf("otel: RegisterJobs was given two workers with the name %q", w.Name())
		}
		names[w.Name()] = true
	}
	instruments := make([]metric.Int64Observable, len(jobNumbers))
	all := make([]metric.Observable, len(jobNumbers))
	for i, n := range jobNumbers {
		var err error
		if n.grows {
			instruments[i], err = meter.Int64ObservableCounter(n.name, metric.WithUnit(n.unit), metric.WithDescription(n.about))
		} else {
			instruments[i], err = meter.Int64ObservableUpDownCounter(n.name, metric.WithUnit(n.unit), metric.WithDescription(n.about))
		}
		if err != nil {
			return nil, err
		}
		all[i] = instruments[i]
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, w := range workers {
			s := w.Stats()
			for i, n := range jobNumbers {
				o.ObserveInt64(instruments[i], n.of(&s), metric.WithAttributes(attribute.String("heist.jobs.worker", w.Name())))
			}
		}
		return nil
	}, all...)
}
