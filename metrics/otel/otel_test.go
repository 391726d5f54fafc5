package otel

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

// collect returns the values by instrument, pool and state or priority, as the SDK's reader has them.
func collect(t *testing.T, reader *sdk.ManualReader) map[[3]string]int64 {
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data))
	values := make(map[[3]string]int64)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			require.NotEmpty(t, m.Unit, m.Name)
			require.NotEmpty(t, m.Description, m.Name)
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				of := func(key string) string {
					v, _ := point.Attributes.Value(attribute.Key(key))
					return v.AsString()
				}
				values[[3]string{m.Name, of("heist.pool"), of("heist.worker.state") + of("heist.task.priority")}] = point.Value
			}
		}
	}
	return values
}

func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestAnObservationAgreesWithStatsAndLoad(t *testing.T) {
	p, other := newPool(t, pool.WithName("thumbs"), pool.WithWorkers(2)), newPool(t, pool.WithWorkers(1))
	reader := sdk.NewManualReader()
	registration, err := Register(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test"), p, other)
	require.NoError(t, err)
	for range 100 {
		require.NoError(t, p.Go(func(*pool.Worker) {}))
	}
	require.NoError(t, p.WaitIdle(context.Background()))
	require.NoError(t, p.Submit(context.Background(), func(*pool.Worker) {}, pool.Delay(time.Hour)))
	defer p.Abort(context.Background())

	values := collect(t, reader)
	require.EqualValues(t, 101, values[[3]string{"heist.pool.tasks.submitted", "thumbs"}])
	require.EqualValues(t, 100, values[[3]string{"heist.pool.tasks.run", "thumbs"}])
	require.EqualValues(t, 1, values[[3]string{"heist.pool.tasks.delayed", "thumbs"}])
	require.EqualValues(t, 0, values[[3]string{"heist.pool.tasks.submitted", "pool"}])
	for _, state := range []string{"running", "searching", "parked"} {
		require.Contains(t, values, [3]string{"heist.pool.workers", "thumbs", state})
		require.Contains(t, values, [3]string{"heist.pool.workers", "pool", state})
	}
	for _, priority := range []string{"high", "normal", "low"} {
		require.Contains(t, values, [3]string{"heist.pool.tasks.queued", "thumbs", priority})
	}
	require.NoError(t, registration.Unregister())
	require.Empty(t, collect(t, reader))
}

func TestEachInstrumentShowsTheFieldThatItNames(t *testing.T) {
	stats := inspect.Stats{
		Waiting: 90, Cancelled: 91, Submitted: 1, Refused: 2, RefusedCallers: 25, Late: 3, Skipped: 4, Panicked: 5, Beside: 26, Noticed: 23, Published: 92, Computing: 6, Searching: 7, NoticedFor: 24,
		Workers: []inspect.WorkerStats{{Queued: 93, Tasks: 8, Looks: 94, Steals: 9, Items: 95, LostRaces: 96, Parks: 10, Wakes: 11, Fruitless: 12, Lent: 97, GaveWay: 98, Displaced: 99}},
	}
	load := inspect.Load{
		Workers: 100, Running: 13, Searching: 14, Parked: 15, Waiting: 16, CallersInside: 17, CallersWaiting: 18, Delayed: 19, Queued: inspect.Queued{High: 20, Normal: 21, Low: 22},
	}
	want := map[string]int64{
		"tasks.submitted": 1, "tasks.refused": 2, "callers.refused": 25, "tasks.late": 3, "tasks.skipped": 4, "panics": 5, "computing.time": 6, "searching.time": 7, "waits.noticed": 23, "waits.noticed.time": 24,
		"tasks.run": 8 + 26, "tasks.beside": 26, "forks.published": 92, "looks": 94, "steals": 9, "stolen_items": 95, "lost_races": 96, "parks": 10, "wakes": 11, "wakes.fruitless": 12, "places.lent": 97, "gave_way": 98, "displaced": 99,
		"tasks.waiting": 90, "calls.cancelled": 91, "tasks.at_places": 93,
		"workers running": 13, "workers searching": 14, "workers parked": 15, "callers.inside": 17, "callers.waiting": 18, "tasks.delayed": 19,
		"tasks.queued high": 20, "tasks.queued normal": 21, "tasks.queued low": 22,
	}
	got := make(map[string]int64)
	for _, c := range append(ofStats[:len(ofStats):len(ofStats)], ofLoad...) {
		name := strings.TrimPrefix(c.name, "heist.pool.")
		for _, a := range c.attributes {
			name += " " + a.Value.AsString()
		}
		got[name] = c.of(&stats, &load)
	}
	require.Equal(t, want, got)
}

func TestRegisterNamesWhatIsWrongWithItsPools(t *testing.T) {
	meter := sdk.NewMeterProvider().Meter("test")
	_, err := Register(nil, newPool(t))
	require.ErrorContains(t, err, "nil meter")
	_, err = Register(meter)
	require.ErrorContains(t, err, "no pool")
	_, err = Register(meter, nil)
	require.ErrorContains(t, err, "nil as its pool 0")
	_, err = Register(meter, newPool(t), newPool(t))
	require.ErrorContains(t, err, `two pools with the name "pool"`)
}
