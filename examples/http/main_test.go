package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	p, err := pool.New(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// ask has the service answer, and returns the status and the body.
func ask(ctx context.Context, s service, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?"+query, nil))
	return w
}

func TestNearest(t *testing.T) {
	s := newService(newPool(t), 1, 10_000)
	for _, to := range append(randomPoints(20), s.points[77], point{}, point{1, 1}) {
		want := 0
		for i := range s.points {
			if s.points[i].distance(to) < s.points[want].distance(to) {
				want = i
			}
		}
		w := ask(t.Context(), s, fmt.Sprintf("x=%v&y=%v", to.x, to.y))
		if !strings.HasPrefix(w.Body.String(), fmt.Sprintf("point %d at ", want)) {
			t.Errorf("nearest to %v: got %q, want point %d", to, w.Body, want)
		}
	}
}

func TestBadRequests(t *testing.T) {
	s := newService(newPool(t), 1, 10)
	for _, query := range []string{"", "x=1", "x=a&y=0", "x=NaN&y=0", "x=0&y=2"} {
		if w := ask(t.Context(), s, query); w.Code != http.StatusBadRequest {
			t.Errorf("%q: got status %d, want 400", query, w.Code)
		}
	}
}

func TestTooManyRequests(t *testing.T) {
	s := newService(newPool(t), 1, 10)
	s.calls.Waiting(0)
	_ = s.calls.Do(t.Context(), 1, func() error { // a request that computes, or that waits
		w := ask(t.Context(), s, "x=0&y=0")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("got status %d and headers %v, want 429 and Retry-After", w.Code, w.Header())
		}
		return nil
	})
	if w := ask(t.Context(), s, "x=0&y=0"); w.Code != http.StatusOK {
		t.Errorf("when the other has left: got status %d, want 200", w.Code)
	}
}

// TestLoad sends requests at a steady rate, of 0.8 and of twice what the service can take. Each is answered, with a point or with 429. How
// soon is logged: go test -v -run Load.
func TestLoad(t *testing.T) {
	s := newService(newPool(t), runtime.GOMAXPROCS(0), 200_000)
	start, n := time.Now(), 0
	for ; time.Since(start) < 300*time.Millisecond; n++ {
		ask(t.Context(), s, "x=0.3&y=0.7")
	}
	each := time.Since(start) / time.Duration(n)
	for _, load := range []float64{0.8, 2} {
		var mu sync.Mutex
		took := map[int][]time.Duration{}
		var all sync.WaitGroup
		start := time.Now()
		for i := 0; ; i++ {
			due := start.Add(time.Duration(float64(i) * float64(each) / load))
			if due.Sub(start) > time.Second {
				break
			}
			time.Sleep(time.Until(due))
			all.Go(func() {
				w := ask(t.Context(), s, "x=0.3&y=0.7")
				mu.Lock()
				defer mu.Unlock()
				took[w.Code] = append(took[w.Code], time.Since(due))
			})
		}
		all.Wait()
		for code, times := range took {
			if code != http.StatusOK && code != http.StatusTooManyRequests {
				t.Errorf("at %.1f of the load: status %d", load, code)
			}
			slices.Sort(times)
			t.Logf("load %.1f, status %d: %d requests, p50 %v, p99 %v", load, code, len(times), times[len(times)/2], times[len(times)*99/100])
		}
	}
}

func TestClientGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := ask(ctx, newService(newPool(t), 1, 10), "x=0&y=0")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), context.Canceled.Error()) {
		t.Errorf("got %d %q, want 503 and the context's error", w.Code, w.Body)
	}
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, stdout := io.Pipe()
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"-addr", "localhost:0", "-calls", "1"}, stdout) }()
	var url string
	if _, err := fmt.Fscanf(out, "try %s\n", &url); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "point ") {
		t.Errorf("got %d %q, want 200 and a point", response.StatusCode, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the service ended with %v", err)
	}
	if _, err := client.Get(url); err == nil {
		t.Error("the service still listens")
	}
}

func TestRunFails(t *testing.T) {
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, args := range map[string][]string{
		"choose another -addr": {"-addr", taken.Addr().String()},
		"want 1 or more":       {"-calls", "0"},
		"unexpected argument":  {"now"},
		"-port":                {"-port", "1"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}

func TestEndGivesUp(t *testing.T) {
	p := newPool(t, pool.WithWorkers(1))
	begun := make(chan bool)
	var leave atomic.Bool
	if err := p.Go(func(*pool.Worker) {
		close(begun)
		for !leave.Load() { // it computes: a task that waits would make room for the second
		}
	}); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := p.Go(func(*pool.Worker) { t.Error("the second task began") }); err != nil {
		t.Fatal(err)
	}
	err := end(&http.Server{}, p, time.Millisecond)
	var unfinished *pool.UnfinishedError
	if err == nil || !strings.Contains(err.Error(), "tasks that never began: 1") || !errors.As(err, &unfinished) {
		t.Errorf("got error %v, want one that tells of a task that never began and one that runs", err)
	}
	leave.Store(true)
}
