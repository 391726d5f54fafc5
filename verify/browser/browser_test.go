package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/page"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
	"github.com/seed53057037/heist/pool/poolhttp"
)

// browser is Chromium, which all tests share.
var browser = sync.OnceValues(func() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1200, 1000))
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox) // the sandbox needs another user
		}
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		stopAll = stop
		ctx, _ := chromedp.NewContext(allocator)
		return ctx, chromedp.Run(ctx)
	}
	return nil, exec.ErrNotFound
})

var stopAll = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopAll()
	os.Exit(code)
}

// tab opens a tab. The test fails if anything complains on its console, or a request fails.
func tab(t *testing.T) context.Context {
	parent, err := browser()
	if err == exec.ErrNotFound {
		t.Skip("there is no Chromium on the path: the page was not looked at")
	}
	require.NoError(t, err)
	ctx, closeTab := chromedp.NewContext(parent)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	var mu sync.Mutex
	var complaints []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, event.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, fmt.Sprintf("console: %s %v", event.Type, event.Args))
		case *cdplog.EventEntryAdded:
			complaints = append(complaints, event.Entry.Text+" "+event.Entry.URL)
		}
	})
	t.Cleanup(func() {
		cancel()
		closeTab()
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, complaints)
	})
	return ctx
}

// serve serves the page of this process's pools, or of another process. It comes before tab: when a test ends, the browser leaves before the server.
func serve(t *testing.T, of page.Process) string {
	handler := poolhttp.Handler()
	if of != nil {
		handler = page.New(of)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/"
}

func newPool(t *testing.T, options ...pool.Option) *pool.Pool {
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// evaluate has the page compute something.
func evaluate[T any](t *testing.T, ctx context.Context, script string) (v T) {
	t.Helper()
	require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(script, &v)))
	return v
}

// awaits waits until the page says that something is so.
func awaits(t *testing.T, ctx context.Context, script string) {
	t.Helper()
	require.NoError(t, chromedp.Run(ctx, chromedp.Poll(script, nil, chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(90*time.Second))), script)
}

func open(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	require.NoError(t, chromedp.Run(ctx, chromedp.Navigate(url)))
}

// requireCounters requires that the page has all counters of the statistics, with their values.
func requireCounters(t *testing.T, ctx context.Context, s inspect.Stats) {
	t.Helper()
	shown := evaluate[map[string]string](t, ctx, `Object.fromEntries([...document.querySelectorAll("[data-counter]")].map(e => [e.dataset.counter, e.textContent]))`)
	compared := 0
	for _, of := range []any{s, s.Total()} {
		for field, v := range reflect.ValueOf(of).Fields() {
			switch v.Kind() {
			case reflect.Int, reflect.Uint64:
				require.Equal(t, fmt.Sprint(v.Interface()), shown[field.Name], field.Name)
				compared++
			}
		}
	}
	require.Greater(t, compared, 15)
}

func TestValuesOnThePageAgreeWithStats(t *testing.T) {
	t.Parallel()
	p := newPool(t, pool.WithName("agrees"), pool.WithWorkers(2), pool.WithTimings())
	url := serve(t, nil) + "?pool=" + number(t, p)
	ctx := tab(t)
	open(t, ctx, url)
	const n = 1234
	for range n {
		require.NoError(t, p.Go(func(*pool.Worker) {}))
	}
	require.NoError(t, p.WaitIdle(context.Background()))
	awaits(t, ctx, fmt.Sprintf(`document.querySelector("[data-counter=Tasks]").textContent === "%d"`, n))
	// Workers that look once more before they sleep still count; then all stands still.
	var s inspect.Stats
	require.Eventually(t, func() bool {
		s = p.Stats()
		looks := evaluate[string](t, ctx, `document.querySelector("[data-counter=Looks]").textContent + " " + document.querySelector("[data-counter=Parks]").textContent`)
		return looks == fmt.Sprint(s.Total().Looks, " ", s.Total().Parks)
	}, 30*time.Second, 200*time.Millisecond)
	requireCounters(t, ctx, s)
	ran := evaluate[string](t, ctx, `document.querySelector("[data-timing=run] span.ever:not(.key)").lastChild.textContent`)
	require.Equal(t, p.Timings().Run.String(), ran)
	require.Contains(t, evaluate[string](t, ctx, `document.getElementById("title").textContent`), p.String())
	settings := p.Config().Settings
	shown := evaluate[[]string](t, ctx, `[...document.querySelectorAll("#config tbody tr")].map(e => e.children[0].textContent + "=" + e.children[1].textContent)`)
	require.Len(t, shown, len(settings))
	for i, setting := range settings {
		require.Equal(t, setting.Name+"="+setting.Chosen, shown[i])
	}
}

// number returns the number of the newest pool, from the page's list.
func number(t *testing.T, p *pool.Pool) string {
	t.Helper()
	recorded := httptest.NewRecorder()
	poolhttp.Handler().ServeHTTP(recorded, httptest.NewRequest("GET", "/", nil))
	before, _, ok := strings.Cut(recorded.Body.String(), ">"+p.Config().Name+" ")
	require.True(t, ok, recorded.Body)
	_, id, _ := strings.Cut(before[strings.LastIndex(before, "?pool="):], "=")
	id, _, _ = strings.Cut(id, `"`)
	_, err := strconv.Atoi(id)
	require.NoError(t, err)
	return id
}

func TestChartsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPool(t, pool.WithName("moves"), pool.WithWorkers(2), pool.WithTimings())
	url := serve(t, nil) + "?pool=" + number(t, p)
	ctx := tab(t)
	open(t, ctx, url)
	const columns = `document.querySelectorAll("#columns > g").length`
	awaits(t, ctx, columns+" > 2")
	require.Zero(t, evaluate[int](t, ctx, `document.querySelectorAll("#columns path.runs").length`), "the pool has nothing to do")
	require.Equal(t, "0%", evaluate[string](t, ctx, `document.querySelector("[data-gauge=busy] output").textContent`))

	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := p.Run(func(w *pool.Worker) { spawn(w, 12) }); err != nil {
				done <- err
				return
			}
			_ = p.Go(func(*pool.Worker) { time.Sleep(time.Millisecond) })
		}
	}()
	awaits(t, ctx, `document.querySelectorAll("#columns path.runs").length > 3`)
	awaits(t, ctx, `parseFloat(document.querySelector("[data-gauge=busy] output").textContent) > 0`)
	awaits(t, ctx, `parseFloat(document.querySelector("[data-gauge=tasks] output").textContent) > 0`)
	awaits(t, ctx, `document.querySelectorAll("[data-timing=run] rect.recent").length > 0`)
	first := evaluate[string](t, ctx, `document.querySelector("[data-gauge=tasks] polyline").getAttribute("points")`)
	awaits(t, ctx, fmt.Sprintf(`document.querySelector("[data-gauge=tasks] polyline").getAttribute("points") !== %q`, first))
	last := evaluate[string](t, ctx, `document.getElementById("columns").lastElementChild.getAttribute("transform")`)
	require.Equal(t, "translate(119 0)", last, "the newest column is at the right")
	close(stop)
	require.NoError(t, <-done)
	awaits(t, ctx, `!document.getElementById("columns").lastElementChild.querySelector("path.runs")`)
}

// spawn makes forks.
func spawn(w *pool.Worker, depth int) int {
	if depth == 0 {
		for t := time.Now(); time.Since(t) < 20*time.Microsecond; {
		}
		return 1
	}
	a, b := pool.Join(w, spawn, depth-1, spawn, depth-1)
	return a + b
}

func TestThePageOfAPoolThatEndsSaysSo(t *testing.T) {
	t.Parallel()
	p := newPool(t, pool.WithName("ends"), pool.WithWorkers(1))
	url := serve(t, nil) + "?pool=" + number(t, p)
	ctx := tab(t)
	open(t, ctx, url)
	awaits(t, ctx, `document.getElementById("status").textContent === "live"`)
	require.NoError(t, p.Close())
	awaits(t, ctx, `document.getElementById("status").textContent.includes("has ended")`)
}

func TestThePageWithoutAScriptIsTheSamePage(t *testing.T) {
	t.Parallel()
	url := serve(t, simulate(t, 8, 2, "2n4c"))
	with, without := tab(t), tab(t)
	open(t, with, url)
	awaits(t, with, `document.querySelectorAll("#columns > g").length > 2`)
	require.NoError(t, chromedp.Run(without, emulation.SetScriptExecutionDisabled(true)))
	open(t, without, url)
	const ids = `[...document.querySelectorAll("main [id]")].map(e => e.tagName + e.id).filter(s => !s.startsWith("gcpu")).join(" ")`
	require.Equal(t, evaluate[string](t, with, ids), evaluate[string](t, without, ids))
	require.Greater(t, evaluate[int](t, without, `document.querySelectorAll("#columns > g").length`), 2)
	require.Contains(t, evaluate[string](t, without, `document.getElementById("status").textContent`), "Without a script")
	require.True(t, evaluate[bool](t, without, `document.getElementById("pause").hidden`))
}

func TestPauseStopsThePageAndGoOnStartsIt(t *testing.T) {
	t.Parallel()
	url := serve(t, simulate(t, 2, 1, ""))
	ctx := tab(t)
	open(t, ctx, url)
	awaits(t, ctx, `document.getElementById("status").textContent === "live"`)
	require.NoError(t, chromedp.Run(ctx, chromedp.Click("#pause")))
	then := evaluate[string](t, ctx, `document.getElementById("columns").innerHTML`)
	require.NoError(t, chromedp.Run(ctx, chromedp.Sleep(1500*time.Millisecond)))
	require.Equal(t, then, evaluate[string](t, ctx, `document.getElementById("columns").innerHTML`))
	_, err := chromedp.RunResponse(ctx, chromedp.Click("#pause")) // it loads the page again
	require.NoError(t, err)
	awaits(t, ctx, `document.getElementById("status").textContent === "live"`)
}

func TestAnOpenStackStaysOpenAndNamesAreText(t *testing.T) {
	t.Parallel()
	url := serve(t, simulate(t, 2, 1, ""))
	ctx := tab(t)
	open(t, ctx, url)
	awaits(t, ctx, `document.querySelectorAll("#columns > g").length > 0`)
	require.Contains(t, evaluate[string](t, ctx, `document.querySelector("#slow summary").textContent`), "main.<b>slow</b>")
	require.NoError(t, chromedp.Run(ctx, chromedp.Click("#slow summary")))
	first := evaluate[int](t, ctx, `Number(document.getElementById("columns").lastElementChild.dataset.tick)`)
	awaits(t, ctx, fmt.Sprintf(`Number(document.getElementById("columns").lastElementChild.dataset.tick) > %d`, first+5))
	require.True(t, evaluate[bool](t, ctx, `document.querySelector("#slow details").open`))
}

// overlaps finds texts of a picture that cover one another or that it cuts off, and what is wider than the page.
const overlaps = `(() => {
	const found = [];
	for (const svg of document.querySelectorAll("svg")) {
		const texts = [...svg.querySelectorAll("text")].map(e => [e.textContent, e.getBoundingClientRect()]);
		const all = svg.getBoundingClientRect();
		for (const [text, a] of texts) if (getComputedStyle(svg).overflow === "hidden" && (a.right > all.right + 1 || a.left < all.left - 1)) found.push("cut off: " + text);
		for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
			const [a, b] = [texts[i][1], texts[j][1]];
			if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
				found.push((svg.getAttribute("class") || "") + ": " + texts[i][0] + " and " + texts[j][0]);
		}
	}
	if (document.documentElement.scrollWidth > innerWidth) {
		found.push("the page is wider than the window");
		for (const e of document.querySelectorAll("body *")) if (e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, svg")) found.push(e.tagName + " " + e.id);
	}
	return found.slice(0, 9);
})()`

// contrasts finds texts whose contrast with what is behind them is below the 4.5 to 1 that WCAG asks for.
const contrasts = `(() => {
	const light = (c) => {
		const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const found = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("svg") || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
		let behind = e;
		while (behind && /, 0\)$|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
		const [x, y] = [light(getComputedStyle(e).color), light(getComputedStyle(behind || document.body).backgroundColor)].sort((a, b) => b - a);
		if ((x + 0.05) / (y + 0.05) < 4.5) found.add(e.tagName + " " + e.className + " " + ((x + 0.05) / (y + 0.05)).toFixed(2));
	}
	return [...found];
})()`

func TestNothingOverlapsFromOneWorkerTo256InLightAndDark(t *testing.T) {
	t.Parallel()
	for _, size := range []struct {
		workers, nodes int
		machine        string
	}{{1, 1, "6c-biglittle"}, {8, 2, "2n4c"}, {256, 8, ""}} {
		for i, scheme := range []string{"light", "dark"} {
			if testutil.Short() && i == size.nodes%2 {
				continue // one of them
			}
			t.Run(fmt.Sprintf("%d %s", size.workers, scheme), func(t *testing.T) {
				t.Parallel()
				url := serve(t, simulate(t, size.workers, size.nodes, size.machine))
				ctx := tab(t)
				require.NoError(t, chromedp.Run(ctx, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})))
				open(t, ctx, url)
				dir := os.Getenv("HEIST_SCREENSHOTS")
				wanted := 4
				if dir != "" {
					wanted = 40
				}
				awaits(t, ctx, fmt.Sprintf(`document.querySelectorAll("#columns > g").length >= %d`, wanted))
				if dir != "" {
					var picture []byte
					require.NoError(t, chromedp.Run(ctx, chromedp.FullScreenshot(&picture, 100)))
					require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("page-%d-%s.png", size.workers, scheme)), picture, 0o666))
				}
				require.Empty(t, evaluate[[]string](t, ctx, overlaps))
				require.Empty(t, evaluate[[]string](t, ctx, contrasts))
				for _, width := range []int64{400, 1900} {
					require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(width, 900)))
					require.Empty(t, evaluate[[]string](t, ctx, overlaps), "%d wide", width)
				}
			})
		}
	}
}

// TestNothingIsCutOffInTheReport of a short run of the benchmarks.
func TestNothingIsCutOffInTheReport(t *testing.T) {
	t.Parallel()
	if _, err := browser(); err != nil {
		t.Skip("there is no Chromium on the path: the report was not looked at")
	}
	file := filepath.Join(t.TempDir(), "report.html")
	bench := exec.Command("go", "run", ".", "-html", file, "-runs=1", "-time=1ms", "-workers=2", "-peers=go,serial,none",
		"forkjoin/fib35", "latency/start-asleep", "neighbour/idle-pool", "balance", "algos/sort-1m")
	bench.Dir = "../../bench"
	out, err := bench.CombinedOutput()
	require.NoError(t, err, string(out))
	ctx := tab(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1900} {
			require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(width, 900),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})))
			open(t, ctx, "file://"+file)
			if dir := os.Getenv("HEIST_SCREENSHOTS"); dir != "" {
				var picture []byte
				require.NoError(t, chromedp.Run(ctx, chromedp.FullScreenshot(&picture, 100)))
				require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("report-%d-%s.png", width, scheme)), picture, 0o666))
			}
			require.Empty(t, evaluate[[]string](t, ctx, overlaps), "%d wide", width)
			require.Empty(t, evaluate[[]string](t, ctx, contrasts))
			require.Greater(t, evaluate[int](t, ctx, `document.querySelectorAll(".plot").length`), 6)
		}
	}
}

// TestARealPoolUnderLoad takes the picture of docs/observability.md, if HEIST_SCREENSHOTS asks for pictures.
func TestARealPoolUnderLoad(t *testing.T) {
	dir := os.Getenv("HEIST_SCREENSHOTS")
	p := newPool(t, pool.WithName("thumbs"), pool.WithTimings(), pool.WithSlowTask(200*time.Millisecond, func(inspect.Slow) {}))
	url := serve(t, nil) + "?pool=" + number(t, p)
	ctx := tab(t)
	open(t, ctx, url)
	over := make(chan struct{})
	left := testutil.Together(1, func(int) { serveThumbs(p, over) })
	wanted := 4
	if dir != "" {
		wanted = 110
	}
	require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(1200, 900)))
	awaits(t, ctx, fmt.Sprintf(`document.querySelectorAll("#columns > g").length >= %d && document.querySelectorAll("#slow details").length > 0`, wanted))
	if dir != "" {
		var picture []byte
		require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(1200, 1220), chromedp.CaptureScreenshot(&picture)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "page.png"), picture, 0o666))
	}
	require.Empty(t, evaluate[[]string](t, ctx, overlaps))
	require.Contains(t, evaluate[string](t, ctx, `document.querySelector("#slow").textContent`), "decodePanorama")
	close(over)
	left()
}

// serveThumbs has a burst of requests each 20 ms, of which one in 500 takes long.
func serveThumbs(p *pool.Pool, over <-chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for requests := 0; ; {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		for range 1 + requests/50%8 {
			requests++
			f := decode
			if requests%500 == 10 {
				f = decodePanorama
			}
			_ = p.Go(f)
		}
	}
}

func decode(w *pool.Worker) { spawn(w, 5) }

func decodePanorama(w *pool.Worker) {
	spawn(w, 8)
	w.Block(func() { time.Sleep(200 * time.Millisecond) }) // its file comes from afar
}
