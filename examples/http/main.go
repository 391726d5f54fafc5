// Http shows a service that computes. The work of each request is divided among the workers, requests beyond a
// bound are told to try again, a client that goes away ends its work, and a signal ends everything in order.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/limit"
	"github.com/seed53057037/heist/pool"
)

func main() { cli.Main(run, os.Interrupt, syscall.SIGTERM) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("http", flag.ContinueOnError)
	addr := flags.String("addr", "localhost:8080", "listen on this `address`")
	calls := flags.Int("calls", runtime.GOMAXPROCS(0), "this `number` of requests may be in flight, 1 or more; four times as many may wait")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	if *calls < 1 {
		return cli.Usagef("-calls is %d, want 1 or more", *calls)
	}
	p, err := pool.New()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return errors.Join(fmt.Errorf("%w; choose another -addr", err), p.Close())
	}
	fmt.Fprintf(stdout, "try http://%s/?x=0.3&y=0.7\n", listener.Addr())
	server := &http.Server{Handler: newService(p, *calls, 200_000), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served: // the server cannot go on
	case <-ctx.Done():
	}
	return errors.Join(err, end(server, p, 10*time.Second))
}

// end lets requests and then tasks finish for the time grace. After that no further task begins.
func end(server *http.Server, p *pool.Pool, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	// Requests first, as the pool does not wait for its callers. Close ends the contexts of the remaining requests.
	err := errors.Join(server.Shutdown(ctx), server.Close())
	if p.Shutdown(ctx) != nil {
		left, aborted := p.Abort(ctx)
		err = errors.Join(err, fmt.Errorf("tasks that never began: %d", len(left)), aborted)
	}
	return err
}

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, err := parsePoint(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err = s.calls.Do(r.Context(), 1, func() error {
		i, err := nearest(s.pool.With(r.Context()), s.points, to) // the loop ends with the request's context
		if err == nil {
			fmt.Fprintf(w, "point %d at %.4f %.4f\n", i, s.points[i].x, s.points[i].y)
		}
		return err
	})
	switch {
	case errors.Is(err, limit.ErrFull), errors.Is(err, limit.ErrLate):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests; try again in a second", http.StatusTooManyRequests)
	case err != nil: // the client has gone, or the pool is closed
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
