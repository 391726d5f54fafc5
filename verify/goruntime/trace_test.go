package goruntime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime/trace"
	"testing"

	"github.com/stretchr/testify/require"
	exptrace "golang.org/x/exp/trace"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// traced runs f while a trace is on, and counts the regions and tasks of the trace by their names. A region that begins must end.
func traced(t *testing.T, f func()) (regions, tasks map[string]int) {
	var b bytes.Buffer
	require.NoError(t, trace.Start(&b))
	f()
	trace.Stop()
	regions, tasks = make(map[string]int), make(map[string]int)
	open := make(map[exptrace.GoID]int)
	r, err := exptrace.NewReader(&b)
	require.NoError(t, err)
	for {
		e, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return regions, tasks
		}
		require.NoError(t, err)
		switch e.Kind() {
		case exptrace.EventRegionBegin:
			regions[e.Region().Type]++
			open[e.Goroutine()]++
		case exptrace.EventRegionEnd:
			open[e.Goroutine()]--
			require.GreaterOrEqual(t, open[e.Goroutine()], 0, "a region ended in a goroutine that did not begin it")
		case exptrace.EventTaskBegin:
			tasks[e.Task().Type]++
		}
	}
}

//go:noinline
func tracedTask(*pool.Worker) {}

func TestATraceShowsWhatThePoolDoes(t *testing.T) {
	claim.That(t, "a runtime/trace shows tasks, calls, stolen forks, searches, waits and parks, and nothing where it is off",
		"a trace of a pool at work, read by golang.org/x/exp/trace")
	p, err := pool.New(pool.WithWorkers(2))
	require.NoError(t, err)
	const n = 50
	work := func() {
		for range n {
			require.NoError(t, p.Go(tracedTask))
			require.NoError(t, p.Submit(context.Background(), tracedTask, pool.Named("a name")))
			require.NoError(t, pool.Do(p, func(w *pool.Worker) {
				stolen := make(chan struct{})
				w.Do(func(*pool.Worker) { <-stolen }, func(*pool.Worker) { close(stolen) })
			}))
			_, err := pool.Async(p, func(w *pool.Worker) (int, error) { w.Block(func() {}); return 0, nil }).Wait(context.Background())
			require.NoError(t, err)
		}
		require.NoError(t, p.WaitIdle(context.Background()))
	}
	work()
	regions, tasks := traced(t, work)
	require.Equal(t, n, tasks["github.com/seed53057037/heist/verify/goruntime.tracedTask"])
	require.Equal(t, n, tasks["a name"])
	require.Equal(t, 3*n, regions["heist: task"])
	require.Equal(t, n, regions["heist: call"])
	require.Equal(t, n, regions["heist: fork"])
	require.GreaterOrEqual(t, regions["heist: wait"], n)
	require.NotZero(t, regions["heist: search"])
	require.NotZero(t, regions["heist: park"])
	work() // and goroutines in a region that began while the trace was on go on
	require.NoError(t, p.Close())
	claim.Amount(t, "%s tasks, %s regions", claim.Count(3*n), claim.Count(len(regions)))
}
