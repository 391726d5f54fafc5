package poolhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/poolhttp"
)

// BenchmarkWatch measures the cost of watching an idle pool: the share of one CPU that the process
// takes for the server, the connection and a reader that throws away what it reads. Without a
// watcher it measures what the process takes anyway.
func BenchmarkWatch(b *testing.B) {
	for _, workers := range []int{1, 8, 256} {
		for _, watched := range []bool{false, true} {
			b.Run(fmt.Sprintf("workers=%d/watched=%v", workers, watched), func(b *testing.B) {
				p, err := pool.New(pool.WithWorkers(workers), pool.WithTimings())
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				if watched {
					server := httptest.NewServer(poolhttp.Handler())
					defer server.Close()
					r, err := http.Get(server.URL + "/events")
					if err != nil {
						b.Fatal(err)
					}
					defer r.Body.Close()
					go func() { _, _ = io.Copy(io.Discard, r.Body) }()
				}
				then := usage(b)
				for b.Loop() {
					time.Sleep(100 * time.Millisecond)
				}
				b.ReportMetric(100*float64(usage(b)-then)/float64(b.Elapsed()), "%CPU")
			})
		}
	}
}

// usage is the time that the process has had of CPUs.
func usage(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
