package otel

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed53057037/heist/pool/inspect"
)

type jobs struct {
	name string
	inspect.Jobs
}

func (j jobs) Name() string        { return j.name }
func (j jobs) Stats() inspect.Jobs { return j.Jobs }

func TestJobsAreObserved(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
	a := jobs{"JOBS/a", inspect.Jobs{Taken: 10, Redelivered: 1, Done: 5, Failed: 2, GivenBack: 3, Dead: 4, Extended: 6, Held: 7, Unstarted: 8, Average: 9 * time.Nanosecond}}
	registration, err := RegisterJobs(meter, a, jobs{name: "JOBS/b"})
	require.NoError(t, err)
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data))
	seen := map[string]int64{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			worker, _ := p.Attributes.Value("heist.jobs.worker")
			if worker.AsString() == "JOBS/a" {
				seen[m.Name] = p.Value
			} else {
				require.Zero(t, p.Value, m.Name)
			}
		}
	}
	require.Equal(t, map[string]int64{"heist.jobs.taken": 10, "heist.jobs.redelivered": 1, "heist.jobs.done": 5, "heist.jobs.failed": 2, "heist.jobs.given_back": 3,
		"heist.jobs.dead": 4, "heist.jobs.extended": 6, "heist.jobs.held": 7, "heist.jobs.unstarted": 8, "heist.jobs.average": 9}, seen)
	require.NoError(t, registration.Unregister())

	_, err = RegisterJobs(nil, a)
	require.ErrorContains(t, err, "nil meter")
	_, err = RegisterJobs(meter)
	require.ErrorContains(t, err, "no worker")
	_, err = RegisterJobs(meter, a, nil)
	require.ErrorContains(t, err, "nil as its worker 1")
	_, err = RegisterJobs(meter, a, a)
	require.ErrorContains(t, err, `"JOBS/a"`)
}
