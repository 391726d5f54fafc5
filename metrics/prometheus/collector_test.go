package prometheus

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

// scrape asks as Prometheus does, and reads the answer by its own parser.
func scrape(t *testing.T, c prometheus.Collector) map[string]*dto.MetricFamily {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	r, err := http.Get(server.URL)
	require.NoError(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode, string(body))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	require.NoError(t, err)
	return families
}

// value returns the value of a metric with these labels.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels map[string]string) float64 {
	t.Helper()
	require.Contains(t, families, name)
next:
	for _, m := range families[name].Metric {
		has := make(map[string]string)
		for _, l := range m.Label {
			has[l.GetName()] = l.GetValue()
		}
		for k, v := range labels {
			if has[k] != v {
				continue next
			}
		}
		return m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	require.Fail(t, "no such metric", "%s %v", name, labels)
	return 0
}

func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestAScrapeAgreesWithStatsAndLoad(t *testing.T) {
	p := newPool(t, pool.WithName("thumbs"), pool.WithWorkers(2), pool.WithTimings())
	other := newPool(t, pool.WithWorkers(1))
	const n = 500
	for range n {
		require.NoError(t, p.Go(func(*pool.Worker) {}))
	}
	require.NoError(t, p.Go(func(*pool.Worker) { time.Sleep(3 * time.Millisecond) }))
	require.NoError(t, p.WaitIdle(context.Background()))
	require.NoError(t, p.Submit(context.Background(), func(*pool.Worker) {}, pool.Delay(time.Hour)))
	c, err := NewCollector(p, other)
	require.NoError(t, err)
	defer p.Abort(context.Background())

	families := scrape(t, c)
	thumbs := map[string]string{"pool": "thumbs"}
	require.EqualValues(t, n+2, value(t, families, "heist_pool_tasks_submitted_total", thumbs))
	require.EqualValues(t, n+1, value(t, families, "heist_pool_tasks_run_total", thumbs))
	require.EqualValues(t, 1, value(t, families, "heist_pool_tasks_delayed", thumbs))
	require.EqualValues(t, 2, value(t, families, "heist_pool_workers", thumbs))
	require.EqualValues(t, 1, value(t, families, "heist_pool_workers", map[string]string{"pool": "pool"}))
	require.Zero(t, value(t, families, "heist_pool_tasks_submitted_total", map[string]string{"pool": "pool"}))
	require.Zero(t, value(t, families, "heist_pool_tasks_queued", map[string]string{"pool": "thumbs", "priority": "high"}))
	require.GreaterOrEqual(t, value(t, families, "heist_pool_computing_seconds_total", thumbs), 0.003)

	h := families["heist_pool_task_run_seconds"].Metric
	require.Len(t, h, 1, "the other pool has no timings")
	require.EqualValues(t, n+1, h[0].Histogram.GetSampleCount())
	var last uint64
	for _, b := range h[0].Histogram.Bucket {
		require.GreaterOrEqual(t, b.GetCumulativeCount(), last)
		last = b.GetCumulativeCount()
		if b.GetUpperBound() < 0.003 {
			require.LessOrEqual(t, b.GetCumulativeCount(), uint64(n))
		}
	}
	require.EqualValues(t, n+1, last)
}

// fixed is a pool whose numbers are all different.
type fixed struct{}

func (fixed) Describe(to chan<- *prometheus.Desc) { collector{}.Describe(to) }

func (fixed) Collect(to chan<- prometheus.Metric) {
	collect(to, "fixed", inspect.Stats{
		Waiting: 90, Cancelled: 91, Submitted: 1, Refused: 2, RefusedCallers: 33, Late: 3, Skipped: 4, Panicked: 5, Beside: 34, Published: 6, Computing: 7 * time.Second, Searching: 8 * time.Second, Noticed: 26, NoticedFor: 27 * time.Second,
		Workers: []inspect.WorkerStats{{Queued: 92, Tasks: 9, Looks: 10, Steals: 93, Items: 94, LostRaces: 95, Parks: 11, Wakes: 12, Fruitless: 13, Lent: 14, GaveWay: 15, Displaced: 96}},
		Tiers:   []inspect.TierStats{{Name: "near", Attempts: 97, Steals: 16, LostRaces: 98, Items: 17}},
	}, inspect.Load{
		Workers: 18, Running: 19, Searching: 20, Parked: 21, Waiting: 22, CallersInside: 23, CallersWaiting: 24, Delayed: 25, Queued: inspect.Queued{High: 26, Normal: 27, Low: 28},
	}, inspect.Snapshot{Circles: []string{"a", "b"}, Workers: []inspect.Worker{{Noticed: true}, {}, {Noticed: true}, {Noticed: true}}},
		inspect.Timings{Wait: inspect.Histogram{Count: 29, Sum: 30 * time.Second}, Run: inspect.Histogram{Count: 31, Sum: 32 * time.Second}})
}

func TestEachMetricShowsTheFieldThatItNames(t *testing.T) {
	families := scrape(t, fixed{})
	shown := map[string]bool{"task_wait_seconds": true, "task_run_seconds": true}
	for metric, want := range map[string]float64{
		"tasks_submitted_total": 1, "tasks_refused_total": 2, "callers_refused_total": 33, "tasks_late_total": 3, "tasks_skipped_total": 4, "panics_total": 5, "forks_published_total": 6,
		"computing_seconds_total": 7, "searching_seconds_total": 8, "waits_noticed_total": 26, "waits_noticed_seconds_total": 27, "tasks_run_total": 9 + 34, "tasks_beside_total": 34, "looks_total": 10, "parks_total": 11, "wakes_total": 12,
		"wakes_fruitless_total": 13, "places_lent_total": 14, "gave_way_total": 15, "displaced_total": 96, "steals_total tier=near": 16, "stolen_items_total tier=near": 17, "lost_races_total tier=near": 98,
		"workers": 18, "workers_by_state state=running": 19, "workers_by_state state=searching": 20, "workers_by_state state=parked": 21,
		"tasks_waiting": 90, "calls_cancelled": 91, "tasks_at_places": 92, "callers_inside": 23, "callers_waiting": 24, "tasks_delayed": 25, "circles": 2, "tasks_noticed": 3,
		"tasks_queued priority=high": 26, "tasks_queued priority=normal": 27, "tasks_queued priority=low": 28,
	} {
		name, label, _ := strings.Cut(metric, " ")
		labels := map[string]string{"pool": "fixed"}
		if key, v, ok := strings.Cut(label, "="); ok {
			labels[key] = v
		}
		assert.InDelta(t, want, value(t, families, "heist_pool_"+name, labels), 1e-6, metric)
		shown[name] = true
	}
	require.Len(t, families, len(shown), "each metric is in this test")
	for name, want := range map[string][2]uint64{"task_wait_seconds": {29, 30}, "task_run_seconds": {31, 32}} {
		h := families["heist_pool_"+name].Metric[0].Histogram
		require.Equal(t, want, [2]uint64{h.GetSampleCount(), uint64(h.GetSampleSum())}, name)
	}
}

func TestMetricsFollowTheConventions(t *testing.T) {
	c, err := NewCollector(newPool(t, pool.WithName("thumbs"), pool.WithWorkers(1), pool.WithTimings()))
	require.NoError(t, err)
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestACollectorNamesWhatIsWrongWithItsPools(t *testing.T) {
	_, err := NewCollector()
	require.ErrorContains(t, err, "no pool")
	_, err = NewCollector(nil)
	require.ErrorContains(t, err, "nil as its pool 0")
	_, err = NewCollector(newPool(t), newPool(t))
	require.ErrorContains(t, err, `two pools with the name "pool"`)
}

func TestAClosedPoolKeepsItsCounters(t *testing.T) {
	p := newPool(t, pool.WithWorkers(1))
	require.NoError(t, p.Go(func(*pool.Worker) {}))
	c, err := NewCollector(p)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	families := scrape(t, c)
	require.EqualValues(t, 1, value(t, families, "heist_pool_tasks_run_total", nil))
	require.Zero(t, value(t, families, "heist_pool_workers", nil))
}
