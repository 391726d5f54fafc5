// Metrics shows what to serve of a pool beside its work: Prometheus's metrics, and the live page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed53057037/heist/examples/internal/cli"
	heistprom "github.com/seed53057037/heist/metrics/prometheus"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
	"github.com/seed53057037/heist/pool/poolhttp"
)

func main() { cli.Main(run, os.Interrupt, syscall.SIGTERM) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("metrics", flag.ContinueOnError)
	addr := flags.String("addr", "localhost:8080", "listen on this `address`")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	p, err := pool.New(pool.WithName("reports"), pool.WithTimings(), // histograms of latencies
		pool.WithSlowTask(100*time.Millisecond, func(s inspect.Slow) { log.Print(s) }))
	if err != nil {
		return err
	}
	mux, err := serve(p)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return errors.Join(fmt.Errorf("%w; choose another -addr", err), p.Close())
	}
	fmt.Fprintf(stdout, "http://%[1]s/debug/heist/ shows the pool, http://%[1]s/metrics is for Prometheus\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go work(ctx, p)
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, p.Close())
}

// serve returns what shows the pool.
func serve(p *pool.Pool) (http.Handler, error) {
	collector, err := heistprom.NewCollector(p)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/heist/", poolhttp.Handler())
	return mux, nil
}

// work gives the pool something to show: reports of very different lengths, some of which wait.
func work(ctx context.Context, p *pool.Pool) {
	for i := 0; ctx.Err() == nil; i++ {
		err := p.Submit(ctx, func(w *pool.Worker) {
			if i%50 == 0 {
				time.Sleep(20 * time.Millisecond) // noticed: others compute meanwhile
			}
			for end := time.Now().Add(time.Duration(i%300) * 10 * time.Microsecond); time.Now().Before(end); {
			}
		}, pool.Named("report"))
		if err != nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
