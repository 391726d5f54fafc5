package prometheus

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

// TestTheDashboardAsksForWhatAScrapeHas reads grafana.json: every metric and label in its queries must be in a scrape, and every metric of a
// scrape that is not in it is one of those that are left out on purpose.
func TestTheDashboardAsksForWhatAScrapeHas(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)

	p := newPool(t, pool.WithWorkers(2), pool.WithTimings())
	require.NoError(t, p.Go(func(*pool.Worker) {}))
	require.NoError(t, p.WaitIdle(context.Background()))
	c, err := NewCollector(p)
	require.NoError(t, err)
	families := scrape(t, c)
	labels := func(name string) (all []string) {
		for _, l := range families[name].Metric[0].Label {
			all = append(all, l.GetName())
		}
		return append(all, "job", "le")
	}

	metric := regexp.MustCompile(`(heist_pool_\w+)\{([^}]*)\}`)
	grouped := regexp.MustCompile(`by \(([^)]*)\)`)
	asked := make(map[string]bool)
	for i, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, other := range dashboard.Panels[:i] {
			a, b := panel.GridPos, other.GridPos
			require.NotEqual(t, panel.ID, other.ID)
			require.True(t, a.X >= b.X+b.W || b.X >= a.X+a.W || a.Y >= b.Y+b.H || b.Y >= a.Y+a.H, "%s covers %s", panel.Title, other.Title)
		}
		for _, target := range panel.Targets {
			uses := metric.FindAllStringSubmatch(target.Expr, -1)
			require.NotEmpty(t, uses, target.Expr)
			require.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), target.Expr)
			for _, use := range uses {
				name := strings.TrimSuffix(use[1], "_bucket")
				require.Contains(t, families, name, panel.Title)
				asked[name] = true
				for matcher := range strings.SplitSeq(use[2], ",") {
					label, _, _ := strings.Cut(matcher, "=")
					require.Contains(t, labels(name), label, target.Expr)
				}
				for _, by := range grouped.FindAllStringSubmatch(target.Expr, -1) {
					for label := range strings.SplitSeq(by[1], ", ") {
						require.Contains(t, labels(name), label, target.Expr)
					}
				}
			}
		}
	}
	var left []string
	for name := range families {
		if !asked[name] {
			left = append(left, strings.TrimPrefix(name, "heist_pool_"))
		}
	}
	slices.Sort(left)
	require.Equal(t, []string{"callers_refused_total", "calls_cancelled", "circles", "computing_seconds_total", "displaced_total", "forks_published_total", "gave_way_total", "looks_total", "lost_races_total",
		"places_lent_total", "searching_seconds_total", "stolen_items_total", "tasks_at_places", "tasks_beside_total", "tasks_noticed", "waits_noticed_seconds_total", "waits_noticed_total"}, left)

	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`heist_pool_\w+`).FindAllString(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, name := range alerts {
		require.Contains(t, families, name, "alerts.yaml")
	}
}
