package waits

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	original "golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/errgroup"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// These are programs that people write with goroutines, and in which goroutines became tasks.

// group is what errgroup's groups and heist's have in common.
type group interface {
	Go(f func() error)
	SetLimit(n int)
	Wait() error
}

// opener opens a group of one library.
type opener func(ctx context.Context) (group, context.Context)

// openers are heist's, of which the first needs nothing but another import line.
func openers(p *pool.Pool) map[string]opener {
	return map[string]opener{
		"errgroup":   func(ctx context.Context) (group, context.Context) { return errgroup.WithContext(ctx) },
		"pool.Group": func(ctx context.Context) (group, context.Context) { return pool.NewGroup(p.With(ctx)) },
	}
}

func theirs(ctx context.Context) (group, context.Context) { return original.WithContext(ctx) }

// withGroups runs a program with heist's groups, on pools of each size, some times.
func withGroups(t *testing.T, program func(t *testing.T, open opener)) {
	withPools(t, func(t *testing.T, p *pool.Pool) {
		for range rounds(200) {
			for _, open := range openers(p) {
				program(t, open)
			}
		}
	})
}

// md5All is MD5All of errgroup's examples, with four digesters: a producer and they meet at channels.
func md5All(ctx context.Context, root string, open opener) (map[string][md5.Size]byte, error) {
	type result struct {
		path string
		sum  [md5.Size]byte
	}
	g, ctx := open(ctx)
	paths := make(chan string)
	g.Go(func() error {
		defer close(paths)
		return filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return nil
			}
			select {
			case paths <- path:
			case <-ctx.Done():
				return ctx.Err()
			}
			return nil
		})
	})
	c := make(chan result)
	const digesters = 4
	for range digesters {
		g.Go(func() error {
			for path := range paths {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				select {
				case c <- result{path, md5.Sum(data)}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	go func() {
		_ = g.Wait()
		close(c)
	}()
	sums := map[string][md5.Size]byte{}
	for r := range c {
		sums[r.path] = r.sum
	}
	return sums, g.Wait()
}

func TestThePipelineOfErrgroupsExamplesEnds(t *testing.T) {
	claim.That(t, "no hang: the pipeline of errgroup's examples ends with heist's groups, of which one takes nothing but another import line",
		"MD5All with one producer and four digesters, and its answer")
	root := t.TempDir()
	for i := range 40 {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprint(i)), fmt.Appendf(nil, "file %d", i), 0o666))
	}
	want, err := md5All(context.Background(), root, theirs)
	require.NoError(t, err)
	require.Len(t, want, 40)
	withGroups(t, func(t *testing.T, open opener) {
		sums, err := md5All(context.Background(), root, open)
		assert.NoError(t, err)
		assert.Equal(t, want, sums)
	})
}

var errLater = errors.New("a later function failed")

func TestFunctionsOfAGroupMayWaitForAnErrorOfALaterOne(t *testing.T) {
	claim.That(t, "no hang: functions of a group may wait for the context that a later function cancels",
		"20 functions that wait for ctx.Done(), and one that returns an error")
	withGroups(t, func(t *testing.T, open opener) {
		g, ctx := open(context.Background())
		for range 20 {
			g.Go(func() error { <-ctx.Done(); return ctx.Err() })
		}
		g.Go(func() error { return errLater })
		assert.ErrorIs(t, g.Wait(), errLater)
	})
}

func TestAChainOfTasksOnChannelsEnds(t *testing.T) {
	claim.That(t, "no hang: each task of a chain may wait at a channel for the task behind it", "chains of 20 tasks")
	withPools(t, func(t *testing.T, p *pool.Pool) {
		for range rounds(200) {
			const length = 20
			first := make(chan int)
			in := first
			for range length {
				from, to := make(chan int), in
				assert.NoError(t, p.Go(func(*pool.Worker) { to <- 1 + <-from }))
				in = from
			}
			go func() { in <- 0 }()
			assert.Equal(t, length, <-first)
		}
	})
}

func TestTasksMayWaitForTheirChildrenByWaitGroup(t *testing.T) {
	claim.That(t, "no hang: tasks may wait for their children with a sync.WaitGroup", "trees three deep, five children each")
	withPools(t, func(t *testing.T, p *pool.Pool) {
		for range rounds(200) {
			var ran atomic.Int32
			var tree func(depth int)
			tree = func(depth int) {
				ran.Add(1)
				if depth == 0 {
					return
				}
				var children sync.WaitGroup
				for range 5 {
					children.Add(1)
					assert.NoError(t, p.Go(func(*pool.Worker) { defer children.Done(); tree(depth - 1) }))
				}
				children.Wait()
			}
			tree(3)
			assert.EqualValues(t, 1+5+25+125, ran.Load())
		}
	})
}

func TestActionsThatNeedOthersOnceEnd(t *testing.T) {
	claim.That(t, "no hang: tasks may do what they need, or wait until others have done it, with sync.Once",
		"graphs of 60 actions, each a task that does the ones it needs, as a build does")
	withPools(t, func(t *testing.T, p *pool.Pool) {
		for range rounds(200) {
			const actions = 60
			var onces [actions]sync.Once
			var ran atomic.Int32
			var do func(i int)
			do = func(i int) {
				onces[i].Do(func() {
					var needs sync.WaitGroup
					for _, need := range []int{i / 2, i / 3, i - 1} {
						if need < i && need >= 0 {
							needs.Add(1)
							assert.NoError(t, p.Go(func(*pool.Worker) { defer needs.Done(); do(need) }))
						}
					}
					needs.Wait()
					ran.Add(1)
				})
			}
			var all sync.WaitGroup
			for i := range actions {
				all.Add(1)
				assert.NoError(t, p.Go(func(*pool.Worker) { defer all.Done(); do(i) }))
			}
			all.Wait()
			assert.EqualValues(t, actions, ran.Load())
		}
	})
}

// TestHandlersMayWaitForOneAnotherInTheNetwork has tasks call a server whose handlers are tasks of the same pool that call
// another handler, or sleep.
func TestHandlersMayWaitForOneAnotherInTheNetwork(t *testing.T) {
	claim.That(t, "no hang: tasks may wait in the network for tasks of the same pool, and in time.Sleep",
		"tasks that call a server whose handlers run in tasks of the pool, and call it again or sleep")
	withPools(t, func(t *testing.T, p *pool.Pool) {
		var server *httptest.Server
		get := func(path string) string {
			response, err := http.Get(server.URL + path)
			if !assert.NoError(t, err) {
				return ""
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			assert.NoError(t, err)
			return string(text)
		}
		server = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
			_, err := pool.Async(p, func(*pool.Worker) (int, error) {
				if r.URL.Path == "/again" {
					return io.WriteString(to, get("/sleep"))
				}
				time.Sleep(time.Millisecond)
				return io.WriteString(to, "slept")
			}).Wait(context.Background())
			assert.NoError(t, err)
		}))
		defer server.Close()
		for range rounds(200) {
			g, _ := pool.NewGroup(p)
			for range 8 {
				g.Go(func() error { assert.Equal(t, "slept", get("/again")); return nil })
			}
			assert.NoError(t, g.Wait())
		}
	})
}
