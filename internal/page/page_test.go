package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

// still is a process whose pools do nothing.
type still struct {
	mu    sync.Mutex
	pools []Pool
}

func (s *still) Pools() []Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Pool(nil), s.pools...)
}

func (s *still) set(pools ...Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = pools
}

func (*still) Machine() *numa.Topology { return nil }

// quiet is a pool that does nothing.
type quiet struct {
	name    string
	workers int
}

func (q quiet) String() string { return "pool " + q.name }
func (q quiet) Config() inspect.Config {
	return inspect.Config{Name: q.name, Settings: []inspect.Setting{{Name: "WithName", Chosen: q.name}}}
}
func (q quiet) Load() inspect.Load { return inspect.Load{Workers: q.workers} }
func (q quiet) Stats() inspect.Stats {
	return inspect.Stats{Workers: make([]inspect.WorkerStats, q.workers)}
}
func (q quiet) Dump(to io.Writer) error {
	_, err := io.WriteString(to, q.Snapshot().String())
	return err
}
func (quiet) Timings() (t inspect.Timings) { return t }
func (q quiet) StealMatrix() [][]uint64    { return make([][]uint64, 0) }
func (q quiet) Snapshot() inspect.Snapshot {
	return inspect.Snapshot{Pool: q.String(), Circles: []string{q.name + " waits for itself"}}
}

func get(t *testing.T, h http.Handler, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func TestOnlyGetAndHeadAreAnswered(t *testing.T) {
	h := New(&still{})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
		for _, target := range []string{"/debug/heist/", "/debug/heist/events", "/debug/heist/dump"} {
			w := get(t, h, method, target)
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, target)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
	}
	for _, target := range []string{"/debug/heist/", "/debug/heist/events", "/debug/heist/page.css"} {
		w := get(t, h, http.MethodHead, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		require.Zero(t, w.Body.Len(), target)
	}
}

func TestNothingComesFromElsewhere(t *testing.T) {
	h := New(&still{pools: []Pool{{1, quiet{"thumbs", 2}}}})
	for _, target := range []string{"/", "/page.css", "/page.js"} {
		w := get(t, h, http.MethodGet, target)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.NotContains(t, strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", ""), "//"+"www", target)
		require.NotRegexp(t, `(?:src|href|url)\W{1,3}(?:https?:)?//`, w.Body.String(), target)
	}
}

func TestNamesAreText(t *testing.T) {
	const evil = `<script>alert(1)</script>"'&`
	body := get(t, New(&still{pools: []Pool{{1, quiet{evil, 2}}}}), http.MethodGet, "/").Body.String()
	require.NotContains(t, body, "<script>alert")
	require.Contains(t, body, "&lt;script&gt;alert(1)&lt;/script&gt;")
	require.Contains(t, body, "A circle")
}

func TestWhatIsNotThereIsSaid(t *testing.T) {
	h := New(&still{pools: []Pool{{7, quiet{"thumbs", 1}}}})
	for target, want := range map[string]string{
		"/?pool=8": "may have ended", "/?pool=x": "should be the number", "/events?pool=8": "may have ended", "/dump?pool=-1": "should be the number", "/nothing": "no such page",
	} {
		w := get(t, h, http.MethodGet, target)
		require.Equal(t, http.StatusNotFound, w.Code, target)
		require.Contains(t, w.Body.String(), want, target)
	}
	require.Contains(t, get(t, h, http.MethodGet, "/dump?pool=7").Body.String(), "pool thumbs\n")
	none := New(&still{})
	require.Contains(t, get(t, none, http.MethodGet, "/").Body.String(), "There is no pool")
	require.Equal(t, http.StatusNotFound, get(t, none, http.MethodGet, "/dump").Code)
}

// stream is what a watcher reads.
type stream struct {
	*http.Response
	lines *bufio.Scanner
}

func watch(t *testing.T, url string) *stream {
	r, err := http.Get(url + "/events")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Body.Close() })
	s := &stream{r, bufio.NewScanner(r.Body)}
	s.lines.Buffer(nil, 1<<24)
	return s
}

// next reads an update; false means that the stream has ended.
func (s *stream) next(t *testing.T) (u update, ok bool) {
	for s.lines.Scan() {
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			require.NoError(t, json.Unmarshal([]byte(data), &u))
			return u, true
		}
	}
	return u, false
}

func TestWatchersAreLimitedAndMakeRoom(t *testing.T) {
	h := New(&still{pools: []Pool{{1, quiet{"thumbs", 2}}}})
	server := httptest.NewServer(h)
	defer server.Close()
	defer server.CloseClientConnections()
	var streams []*stream
	for range MaxWatchers {
		s := watch(t, server.URL)
		require.Equal(t, http.StatusOK, s.StatusCode)
		streams = append(streams, s)
	}
	over := watch(t, server.URL)
	require.Equal(t, http.StatusServiceUnavailable, over.StatusCode)
	require.Equal(t, "10", over.Header.Get("Retry-After"))
	require.NoError(t, streams[0].Body.Close())
	require.Eventually(t, func() bool { return watch(t, server.URL).StatusCode == http.StatusOK }, 20*time.Second, 50*time.Millisecond)
}

func TestAStreamTellsWhatChangedAndNothingElse(t *testing.T) {
	p := &still{pools: []Pool{{1, quiet{"thumbs", 2}}}}
	server := httptest.NewServer(New(p))
	defer server.Close()
	defer server.CloseClientConnections()
	s := watch(t, server.URL)
	u, ok := s.next(t)
	require.True(t, ok)
	for _, part := range append([]string{"list", "strip"}, partNames...) {
		require.Contains(t, u.Parts, part)
	}
	u, ok = s.next(t)
	require.True(t, ok)
	require.NotEmpty(t, u.Columns) // one, unless the handler stood still
	for _, part := range []string{"strip", "heat", "machine", "config", "counters", "slow"} {
		require.NotContains(t, u.Parts, part, "nothing has happened")
	}

	p.set(Pool{1, quiet{"thumbs", 3}}, Pool{2, quiet{"second", 1}})
	for !strings.Contains(u.Parts["list"], "second") {
		u, ok = s.next(t)
		require.True(t, ok)
	}
	p.set(Pool{2, quiet{"second", 1}})
	for !u.Ended {
		u, ok = s.next(t)
		require.True(t, ok)
	}
	_, ok = s.next(t)
	require.False(t, ok, "it is over")
}

func TestAShutdownOfTheServerEndsStreams(t *testing.T) {
	server := httptest.NewServer(New(&still{pools: []Pool{{1, quiet{"thumbs", 2}}}}))
	defer server.Close()
	s := watch(t, server.URL)
	_, ok := s.next(t)
	require.True(t, ok)
	require.NoError(t, server.Config.Shutdown(context.Background()))
	for ok {
		_, ok = s.next(t)
	}
}

// deaf is a response that takes nothing.
type deaf struct{ http.ResponseWriter }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestWhoDoesNotReadIsLetGo(t *testing.T) {
	h := New(&still{pools: []Pool{{1, quiet{"thumbs", 2}}}})
	h.ServeHTTP(deaf{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/events", nil))
	h.recorder.mu.Lock()
	defer h.recorder.mu.Unlock()
	require.Zero(t, h.recorder.streams)
}

func TestTheRecorderEndsWhenNobodyWatches(t *testing.T) {
	h := New(&still{pools: []Pool{{1, quiet{"thumbs", 2}}}})
	running := func() bool {
		h.recorder.mu.Lock()
		defer h.recorder.mu.Unlock()
		return h.recorder.runs
	}
	require.False(t, running(), "without a request nothing runs")
	get(t, h, http.MethodGet, "/")
	require.True(t, running())
	h.recorder.mu.Lock()
	h.recorder.visited = time.Now().Add(-2 * linger)
	h.recorder.mu.Unlock()
	require.Eventually(t, func() bool { return !running() }, 20*time.Second, 10*time.Millisecond)
}

func TestAColumnStacksShares(t *testing.T) {
	rec := &record{rows: []row{{worker: 0}, {worker: 1}}}
	c := column{tick: 3, samples: 10, shares: []shares{{runs: 10}, {runs: 5, searches: 5}}}
	html := rec.column(c, 7)
	require.Contains(t, html, `data-tick="3" transform="translate(7 0)"`)
	require.Contains(t, html, `<path class="runs" d="M0 0.05h1.03V0.95h-1.03zM0 1.5h1.03V1.95h-1.03z"/>`)
	require.Contains(t, html, `<path class="searches" d="M0 1.05h1.03V1.5h-1.03z"/>`)
	require.NotContains(t, html, "away")
}

func TestOnlyTheLastMinuteIsKept(t *testing.T) {
	rec := newRecord(Pool{1, quiet{"thumbs", 2}}, time.Now())
	for tick := range uint64(500) {
		rec.sample()
		rec.complete(tick, time.Now())
	}
	require.Len(t, rec.columns, columns)
	require.EqualValues(t, 499, rec.columns[columns-1].tick)
	require.LessOrEqual(t, len(rec.timings), columns/columnsPerDetail+1)
}

func TestTheLastMinutesHistogramIsTheDifference(t *testing.T) {
	then := inspect.Histogram{Count: 5, Buckets: []inspect.Bucket{{UpTo: 1, Count: 5}}}
	now := inspect.Histogram{Count: 9, Buckets: []inspect.Bucket{{UpTo: 1, Count: 6}, {UpTo: 8, Count: 3}}}
	require.Equal(t, inspect.Histogram{Count: 4, Buckets: []inspect.Bucket{{UpTo: 1, Count: 1}, {UpTo: 8, Count: 3}}}, between(then, now))
}

func TestShortNumbers(t *testing.T) {
	for want, v := range map[string]float64{"0": 0, "7": 7, "3.5": 3.5, "42": 42.4, "999": 999, "1k": 1000, "1.2k": 1234, "31k": 31000, "2.5M": 2.5e6, "1G": 1e9} {
		require.Equal(t, want, short(v), fmt.Sprint(v))
	}
}
