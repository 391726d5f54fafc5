package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) {
	// The page reads the counters for a minute after a visit.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/seed53057037/heist/internal/page.(*recorder).run"))
}

func TestThePoolIsShown(t *testing.T) {
	p, err := pool.New(pool.WithName("reports"), pool.WithTimings())
	require.NoError(t, err)
	defer p.Close()
	handler, err := serve(p)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan struct{})
	go func() { defer close(worked); work(ctx, p) }()
	shows := func(path, what string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code)
		body, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), what)
	}
	shows("/metrics", `heist_pool_workers{pool="reports"}`)
	shows("/debug/heist/", "reports")
	stop()
	<-worked
}

func TestItServesUntilItsEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	require.NoError(t, run(ctx, []string{"-addr", "localhost:0"}, &out))
	require.Contains(t, out.String(), "/metrics is for Prometheus")
	require.ErrorContains(t, run(ctx, []string{"-addr", "localhost:-1"}, &out), "choose another -addr")
}
