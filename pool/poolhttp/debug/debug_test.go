package debug

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

func TestAnImportServesThePageAndTheVariables(t *testing.T) {
	var pools []*pool.Pool
	thumbs := pool.WithName("thumbs")
	for _, options := range [][]pool.Option{{thumbs}, {thumbs}, nil} {
		p, err := pool.New(append(options, pool.WithWorkers(1))...)
		require.NoError(t, err)
		pools = append(pools, p)
		defer p.Close()
	}
	done := make(chan struct{})
	require.NoError(t, pools[0].Go(func(*pool.Worker) { close(done) }))
	<-done
	server := httptest.NewServer(http.DefaultServeMux)
	defer server.Close()
	r, err := http.Get(server.URL + "/debug/heist/")
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusOK, r.StatusCode)

	r, err = http.Get(server.URL + "/debug/vars")
	require.NoError(t, err)
	defer r.Body.Close()
	var vars struct {
		Heist map[string]variable `json:"heist"`
	}
	require.NoError(t, json.NewDecoder(r.Body).Decode(&vars))
	require.Len(t, vars.Heist, 3)
	require.EqualValues(t, 1, vars.Heist["thumbs"].Stats.Submitted)
	require.Equal(t, 1, vars.Heist["thumbs"].Load.Workers)
	for name, v := range vars.Heist {
		if name != "thumbs" {
			require.Regexp(t, `^pool \d+$`, name)
			require.Zero(t, v.Stats.Submitted)
		}
	}
}
