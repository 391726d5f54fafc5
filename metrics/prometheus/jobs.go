package prometheus

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed53057037/heist/pool/inspect"
)

// NewJobCollector returns a collector for workers that run jobs of a queue, such as those of package jetstream. Metrics have
// the label worker, which is the worker's Name; two workers of a process must not have the same.
func NewJobCollector(workers ...inspect.JobSource) (prometheus.Collector, error) {
	if len(workers) == 0 {
		return nil, errors.New("prometheus: NewJobCollector was given no worker")
	}
	names := make(map[string]bool)
	for i, w := range workers {
		if w == nil {
			return nil, fmt.Errorf("prometheus: NewJobCollector was given nil as its worker %d", i)
		}
		if names[w.Name()] {
			return nil, fmt.Errorf("prometheus: NewJobCollector was given two workers with the name %q", w.Name())
		}
		names[w.Name()] = true
	}
	return jobCollector(workers), nil
}

type jobCollector []inspect.JobSource

var jobMetrics = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *inspect.Jobs) float64
}{
	{jobDesc("taken_total", "Jobs that came."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.Taken) }},
	{jobDesc("redelivered_total", "Jobs that came and had been delivered before."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.Redelivered) }},
	{jobDesc("done_total", "Jobs that were acknowledged."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.Done) }},
	{jobDesc("failed_total", "Jobs whose function failed."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.Failed) }},
	{jobDesc("given_back_total", "Jobs that were not begun because the worker ended."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.GivenBack) }},
	{jobDesc("dead_total", "Jobs that were stored as dead letters."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.Dead) }},
	{jobDesc("extended_total", "Times that the deadline of a job was extended."), prometheus.CounterValue, func(s *inspect.Jobs) float64 { return float64(s.Extended) }},
	{jobDesc("held", "Jobs that have no answer yet."), prometheus.GaugeValue, func(s *inspect.Jobs) float64 { return float64(s.Held) }},
	{jobDesc("unstarted", "Jobs that are held and have not begun."), prometheus.GaugeValue, func(s *inspect.Jobs) float64 { return float64(s.Unstarted) }},
	{jobDesc("average_seconds", "How long a job takes, a moving average."), prometheus.GaugeValue, func(s *inspect.Jobs) float64 { return s.Average.Seconds() }},
}

func jobDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("heist_jobs_"+name, help, []string{"worker"}, nil)
}

// Describe implements prometheus.Collector.
func (c jobCollector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range jobMetrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c jobCollector) Collect(to chan<- prometheus.Metric) {
	for _, w := range c {
		s := w.Stats()
		for _, m := range jobMetrics {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&s), w.Name())
		}
	}
}
