package par

import (
	"cmp"
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

// TestADumpShowsTheFunctionOfAnAlgorithm that waits, by its name and the line, and none of this package's.
func TestADumpShowsTheFunctionOfAnAlgorithm(t *testing.T) {
	if !testutil.ReadsRecords {
		t.Skip("the runtime does not tell what goroutines wait for")
	}
	s := make([]int, 100)
	one := pool.Grain(1)
	ctxErr := func(wait func()) func(context.Context, int) error {
		return func(context.Context, int) error { wait(); return nil }
	}
	value := func(wait func()) func(context.Context, int) (int, error) {
		return func(context.Context, int) (int, error) { wait(); return 0, nil }
	}
	is := func(wait func()) func(int) bool { return func(int) bool { wait(); return false } }
	for name, run := range map[string]func(p pool.Place, wait func()) (f any, call func() error){
		"For": func(p pool.Place, wait func()) (any, func() error) {
			f := func(int) { wait() }
			return f, func() error { return For(p, 3, f, one) }
		},
		"ForEach": func(p pool.Place, wait func()) (any, func() error) {
			f := func(*int) { wait() }
			return f, func() error { return ForEach(p, s, f, one) }
		},
		"ForErr": func(p pool.Place, wait func()) (any, func() error) {
			f := ctxErr(wait)
			return f, func() error { return ForErr(p, 3, f) }
		},
		"ForSeq": func(p pool.Place, wait func()) (any, func() error) {
			f := func(int) { wait() }
			return f, func() error { return ForSeq(p, slices.Values(s), f) }
		},
		"Map": func(p pool.Place, wait func()) (any, func() error) {
			f := func(int) int { wait(); return 0 }
			return f, func() error { _, err := Map(p, s, f); return err }
		},
		"MapErr": func(p pool.Place, wait func()) (any, func() error) {
			f := value(wait)
			return f, func() error { _, err := MapErr(p, s, f); return err }
		},
		"MapRange": func(p pool.Place, wait func()) (any, func() error) {
			f := func([]int, int, int) { wait() }
			return f, func() error { _, err := MapRange(p, 3, f); return err }
		},
		"Reduce": func(p pool.Place, wait func()) (any, func() error) {
			f := func(a, b int) int { wait(); return a + b }
			return f, func() error { _, err := Reduce(p, s, func() int { return 0 }, f, plus); return err }
		},
		"Scan": func(p pool.Place, wait func()) (any, func() error) {
			f := func(a, b int) int { wait(); return a + b }
			return f, func() error { return Scan(p, make([]int, 1<<10), make([]int, 1<<10), f) }
		},
		"Filter": func(p pool.Place, wait func()) (any, func() error) {
			f := is(wait)
			return f, func() error { _, err := Filter(p, s, f); return err }
		},
		"Find": func(p pool.Place, wait func()) (any, func() error) {
			f := is(wait)
			return f, func() error { _, err := Find(p, s, f); return err }
		},
		"GroupBy": func(p pool.Place, wait func()) (any, func() error) {
			f := func(int) int { wait(); return 0 }
			return f, func() error { _, err := GroupBy(p, s, f); return err }
		},
		"SortFunc": func(p pool.Place, wait func()) (any, func() error) {
			f := func(a, b int) int { wait(); return cmp.Compare(a, b) }
			return f, func() error { return SortFunc(p, make([]int, 1<<15), f) }
		},
		"Phases": func(p pool.Place, wait func()) (any, func() error) {
			f := func(int, int, int) { wait() }
			return f, func() error { return Phases(p, 3, 1, f) }
		},
		"Stream": func(p pool.Place, wait func()) (any, func() error) {
			f := value(wait)
			return f, func() error {
				for range Stream(p, slices.Values(s), 4, f) {
				}
				return nil
			}
		},
		"AsCompleted": func(p pool.Place, wait func()) (any, func() error) {
			f := value(wait)
			return f, func() error {
				for range AsCompleted(p, slices.Values(s), 4, f) {
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pools.New(t, pool.WithWorkers(2), pool.WithCallers(4)) // then a caller is a guest from the beginning of a loop on
			gate, begun := make(chan struct{}), make(chan struct{})
			var once sync.Once
			f, call := run(p, func() { once.Do(func() { close(begun) }); <-gate })
			over := make(chan error, 1)
			go func() { over <- call() }()
			<-begun
			code := reflect.ValueOf(f).Pointer()
			var shown strings.Builder
			require.True(t, testutil.Eventually(func() bool {
				shown.Reset()
				require.NoError(t, p.Dump(&shown))
				return strings.Contains(shown.String(), runtime.FuncForPC(code).Name()+" waits in chan receive, shown_test.go:")
			}), "%v", shown.String())
			waits := func(w inspect.Worker) bool { return w.State == inspect.Waits }
			require.True(t, testutil.Eventually(func() bool { return slices.ContainsFunc(p.Snapshot().Workers, waits) }), "the monitor has noticed it")
			close(gate)
			require.NoError(t, <-over)
		})
	}
}
