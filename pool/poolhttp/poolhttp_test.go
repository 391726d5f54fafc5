package poolhttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/poolhttp"
)

func Example() {
	mux := http.NewServeMux()
	mux.Handle("/debug/heist/", poolhttp.Handler())
	// Listen where only those can connect who may see the names of functions and stacks.
	_ = (&http.Server{Addr: "localhost:6060", Handler: mux}).ListenAndServe
}

func page(t *testing.T, target string) string {
	t.Helper()
	w := httptest.NewRecorder()
	poolhttp.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestThePageHasAllPoolsOfTheProcess(t *testing.T) {
	first, err := pool.New(pool.WithName("first"), pool.WithWorkers(1))
	require.NoError(t, err)
	second, err := pool.New(pool.WithName("second"), pool.WithWorkers(2))
	require.NoError(t, err)
	body := page(t, "/debug/heist/")
	require.Contains(t, body, ">first ")
	require.Greater(t, strings.Index(body, ">second "), strings.Index(body, ">first "), "the oldest first")
	require.Same(t, poolhttp.Handler(), poolhttp.Handler(), "one handler counts all watchers")
	require.Contains(t, page(t, "/debug/heist/dump"), first.String())
	require.NoError(t, first.Close())
	require.NotContains(t, page(t, "/debug/heist/"), ">first ")
	require.NoError(t, second.Close())
}

// TestThePageSaysWhereTasksWait, whether the pool has noticed, because something is queued, or not. So does the dump, at once.
func TestThePageSaysWhereTasksWait(t *testing.T) {
	if !testutil.ReadsRecords {
		t.Skip("the runtime does not tell what goroutines wait for")
	}
	for end, begin := range map[string]func(p *pool.Pool, waits func(*pool.Worker)) error{
		"\n": (*pool.Pool).Run,
		", noticed\n": func(p *pool.Pool, waits func(*pool.Worker)) error {
			return errors.Join(p.Go(waits), p.Go(waits))
		},
	} {
		p, err := pool.New(pool.WithWorkers(1))
		require.NoError(t, err)
		gate, begun := make(chan struct{}), make(chan error)
		go func() { begun <- begin(p, func(*pool.Worker) { <-gate }) }()
		where := regexp.MustCompile(`TestThePageSaysWhereTasksWait\S+ waits in chan receive, poolhttp_test.go:\d+` + end)
		var bodies [2]string
		for i, path := range []string{"/debug/heist/dump", "/debug/heist/"} {
			testutil.Eventually(func() bool {
				bodies[i] = page(t, path)
				return where.MatchString(bodies[i])
			})
		}
		close(gate)
		require.NoError(t, <-begun)
		require.NoError(t, p.Close())
		for _, body := range bodies {
			require.Regexp(t, where, body)
		}
	}
}

func TestAPoolInABubbleIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := pool.New(pool.WithName("bubble"), pool.WithWorkers(1))
		require.NoError(t, err)
		ask <- struct{}{}
		require.NotContains(t, <-answer, "bubble")
		require.NoError(t, p.Close())
	})
}

// A goroutine of no bubble asks for the page.
var ask, answer = make(chan struct{}), make(chan string)

func init() {
	go func() {
		for range ask {
			w := httptest.NewRecorder()
			poolhttp.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			answer <- w.Body.String()
		}
	}()
}
