package errgroup_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/errgroup"
	"github.com/seed53057037/heist/internal/testutil"
)

// What golang.org/x/sync's own tests check is checked by them, in verify/dropin.

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
