package pool_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"testing"
	"time"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/poolhttp"
)

// BenchmarkObservation is what it costs to be seen: docs/observability.md.
func BenchmarkObservation(b *testing.B) {
	labels := pprof.WithLabels(context.Background(), pprof.Labels("request", "1"))
	for _, c := range []struct {
		name    string
		options []pool.Option
		ctx     context.Context
		traced  bool
		watched bool
	}{
		{"off", nil, context.Background(), false, false},
		{"name", []pool.Option{pool.WithName("thumbs")}, context.Background(), false, false},
		{"labels", []pool.Option{pool.WithName("thumbs")}, labels, false, false},
		{"timings", []pool.Option{pool.WithTimings()}, context.Background(), false, false},
		{"slow", []pool.Option{pool.WithSlowTask(time.Second, nil)}, context.Background(), false, false},
		{"trace", nil, context.Background(), true, false},
		{"page", []pool.Option{pool.WithTimings()}, context.Background(), false, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			pprof.SetGoroutineLabels(c.ctx)
			defer pprof.SetGoroutineLabels(context.Background())
			if c.traced {
				if err := trace.Start(io.Discard); err != nil {
					b.Skip(err)
				}
				defer trace.Stop()
			}
			p, err := pool.New(append([]pool.Option{pool.WithWorkers(2)}, c.options...)...)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			if c.watched {
				server := httptest.NewServer(poolhttp.Handler())
				defer server.Close()
				r, err := http.Get(server.URL + "/events")
				if err != nil {
					b.Fatal(err)
				}
				defer r.Body.Close()
				go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			}
			fib := pool.Recursive(func(f *pool.Fork[int, int], n int) int {
				if n < 2 {
					return n
				}
				x, y := f.Join(n-1, n-2)
				return x + y
			})
			b.Run("fib25", func(b *testing.B) {
				for b.Loop() {
					_, _ = fib.Run(p, 25)
				}
			})
			b.Run("submit", func(b *testing.B) {
				var left sync.WaitGroup
				f := func(*pool.Worker) { left.Done() }
				for b.Loop() {
					left.Add(1000)
					for range 1000 {
						_ = p.Go(f)
					}
					left.Wait()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/task")
			})
			b.Run("start-asleep", func(b *testing.B) {
				started := make(chan struct{})
				f := func(*pool.Worker) { started <- struct{}{} }
				for b.Loop() {
					time.Sleep(100 * time.Microsecond)
					_ = p.Go(f)
					<-started
				}
			})
		})
	}
}
