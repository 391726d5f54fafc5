package prometheus

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool/inspect"
)

type jobs struct {
	name string
	inspect.Jobs
}

func (j jobs) Name() string        { return j.name }
func (j jobs) Stats() inspect.Jobs { return j.Jobs }

func TestJobsAreShown(t *testing.T) {
	a := jobs{"JOBS/a", inspect.Jobs{Taken: 10, Redelivered: 1, Done: 5, Failed: 2, GivenBack: 3, Dead: 4, Extended: 6, Held: 7, Unstarted: 8, Average: time.Second / 2}}
	c, err := NewJobCollector(a, jobs{name: "JOBS/b"})
	require.NoError(t, err)
	families := scrape(t, c)
	for name, want := range map[string]float64{"taken_total": 10, "redelivered_total": 1, "done_total": 5, "failed_total": 2, "given_back_total": 3,
		"dead_total": 4, "extended_total": 6, "held": 7, "unstarted": 8, "average_seconds": 0.5} {
		require.Equal(t, want, value(t, families, "heist_jobs_"+name, map[string]string{"worker": "JOBS/a"}), name)
		require.Zero(t, value(t, families, "heist_jobs_"+name, map[string]string{"worker": "JOBS/b"}), name)
	}
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)

	_, err = NewJobCollector()
	require.ErrorContains(t, err, "no worker")
	_, err = NewJobCollector(a, nil)
	require.ErrorContains(t, err, "nil as its worker 1")
	_, err = NewJobCollector(a, a)
	require.ErrorContains(t, err, `"JOBS/a"`)
}
