package errgroup_test

import (
	"context"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/errgroup"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
)

// What golang.org/x/sync's own tests check is checked by them, in verify/dropin.

func TestANilFunctionIsRefusedInItsCaller(t *testing.T) {
	var g errgroup.Group
	g.SetLimit(1)
	require.PanicsWithError(t, "errgroup: Group.Go was given a nil function", func() { g.Go(nil) })
	require.PanicsWithError(t, "errgroup: Group.TryGo was given a nil function", func() { g.TryGo(nil) })
	require.True(t, g.TryGo(func() error { return nil }), "it has taken no slot")
	require.NoError(t, g.Wait())
}

// TestGroupsInGroupsEnd with functions that wait at a limit and for groups of their own, three deep: there are more of them than workers.
func TestGroupsInGroupsEnd(t *testing.T) {
	var ran atomic.Int32
	var tree func(depth int) error
	tree = func(depth int) error {
		ran.Add(1)
		if depth == 0 {
			return nil
		}
		g, _ := errgroup.WithContext(context.Background())
		g.SetLimit(4)
		for range 5 {
			g.Go(func() error { return tree(depth - 1) })
		}
		return g.Wait()
	}
	for range testutil.Stress(100) {
		ran.Store(0)
		require.True(t, testutil.Returns(func() { require.NoError(t, tree(3)) }), "it hangs")
		require.EqualValues(t, 1+5+25+125, ran.Load())
	}
}

func TestGoexitIsNoError(t *testing.T) {
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(1)
	var after atomic.Bool
	g.Go(func() error { runtime.Goexit(); return nil })
	g.Go(func() error { after.Store(true); return ctx.Err() })
	require.NoError(t, g.Wait())
	require.True(t, after.Load())
}

// TestAPanicEndsTheProcess though a goroutine waits for the group and would recover it.
func TestAPanicEndsTheProcess(t *testing.T) {
	const variable = "ERRGROUP_TEST_PANICS"
	if os.Getenv(variable) != "" {
		defer func() { _ = recover() }()
		var g errgroup.Group
		g.Go(func() error { panic("a function of the group") })
		g.Go(func() error { select {} }) // so that Wait cannot return first
		_ = g.Wait()
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), variable+"=1")
	out, err := c.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "panic: a function of the group")
}

type waiter struct{ gate chan struct{} }

func (w waiter) wait() error { <-w.gate; return nil }

// TestADumpShowsTheFunctionsOfAGroup, not the one of this package that calls them.
func TestADumpShowsTheFunctionsOfAGroup(t *testing.T) {
	gate := make(chan struct{})
	waits := func() error { <-gate; return nil }
	for name, submit := range map[string]func(g *errgroup.Group){
		runtime.FuncForPC(reflect.ValueOf(waits).Pointer()).Name(): func(g *errgroup.Group) { g.Go(waits) },
		"errgroup_test.waiter.wait":                                func(g *errgroup.Group) { require.True(t, g.TryGo(waiter{gate}.wait)) },
	} {
		gate = make(chan struct{})
		var g errgroup.Group
		g.SetLimit(1)
		submit(&g)
		var shown strings.Builder
		require.True(t, testutil.Eventually(func() bool {
			shown.Reset()
			require.NoError(t, pool.Default().Dump(&shown))
			return strings.Contains(shown.String(), name)
		}), "%v", shown.String())
		require.NotContains(t, shown.String(), "errgroup.(*Group)")
		close(gate)
		require.NoError(t, g.Wait())
	}
}
